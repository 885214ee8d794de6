"""`arith.remf`, which upstream's `arith` has and xDSL 0.74 has not (patch 04)."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class RemFOp(arith.FloatingPointLikeBinaryOperation):
    """`lhs` less the whole multiple of `rhs` that leaves the sign of `lhs` and less than `rhs` in magnitude, exactly.

    As `fmod` of C: NaN where `lhs` is infinite or `rhs` is 0, and `lhs` where `rhs` is infinite.
    """

    name = "arith.remf"
    traits = traits_def(Pure())
