"""`scalar.scaleb`: a float times a power of two, on scalars and vectors. `math` has no such operation.

Not for upstream: MLIR has no such operation that xDSL could mirror, and the ranges below are those of our expansions.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import VectorType, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, VarConstraint, eq, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class ScaleOp(IRDLOperation):
    """`x` times 2^`exponent`, rounded once (scaleB of IEEE 754, with a float for the exponent): f32, f64 or vectors.

    `exponent` is a whole number from -190 to 128 in f32 and from -1150 to 1024 in f64, and `x` is between 2^-32 and
    2^32 in magnitude, or NaN. 0 times any power but infinity is 0. All else gives some number.

    It has no text form of its own, so that upstream's tools read the stage that it is in.
    """

    T: ClassVar = VarConstraint("T", eq(f32) | eq(f64) | VectorType.constr(f32) | VectorType.constr(f64))

    name = "scalar.scaleb"
    x = operand_def(T)
    exponent = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())

    def __init__(self, x: SSAValue | Operation, exponent: SSAValue | Operation) -> None:
        value = SSAValue.get(x)
        super().__init__(operands=[value, exponent], result_types=[value.type])
