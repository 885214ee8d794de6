"""Which monoids a loop combines what it carries by."""

from __future__ import annotations

from xdsl.dialects import math, scf, vector
from xdsl.dialects.builtin import AnyFloat, IntegerType

from tenon.dialects.families.monoid import ADD_FLOATS, MONOIDS, Monoid, combining_op
from tenon.dialects.upstream.vector_arith import element_type_of


def combiners_of(loop: scf.ForOp) -> tuple[Monoid, ...] | None:
    """How each carried value is combined with one that depends on no carried value, or None if one is not."""
    body = loop.body.block
    found: list[Monoid] = []
    for carried in body.args[1:]:
        op = combining_op(body, carried)
        # A single use each rules out that one carried value reaches another's op.
        monoid = MONOIDS.get(op.name) if op is not None else None
        if isinstance(op, math.FmaOp | vector.FMAOp) and op.operands[2] is carried:
            monoid = ADD_FLOATS
        if monoid is None or not isinstance(element_type_of(carried.type), IntegerType | AnyFloat):
            return None
        found.append(monoid)
    return tuple(found)
