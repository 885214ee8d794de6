"""Sums to which iterations beyond extents add nothing: what they read is 0 there, in registers and shared memory."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, SSAValue

from tenon.dialects.families.monoid import combining_op
from tenon.lowering.steps.nest import NestStatement

_CASTS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, arith.TruncFOp)


def vanishes(statement: NestStatement, axis: str, zero_filled: Collection[tuple[object, ...]]) -> bool:
    """Whether a statement adds up elements, or products of them, that are 0 beyond the extent of `axis`, since they
    come from places that are `zero_filled`."""
    generic = statement.statement

    def is_zero(value: SSAValue) -> bool:
        while isinstance(value.owner, _CASTS):
            value = value.owner.operands[0]
        if not isinstance(value, BlockArgument) or value.index >= len(statement.inputs):
            return False
        access = statement.inputs[value.index]
        return axis in access.axes and access.place in zero_filled

    for accumulator in generic.accumulators:
        total = combining_op(generic.body, accumulator)
        if not isinstance(total, arith.AddfOp | arith.AddiOp):
            return False
        (term,) = (operand for operand in total.operands if operand is not accumulator)
        factors = term.owner.operands if isinstance(term.owner, arith.MulfOp | arith.MuliOp) else (term,)
        if not all(map(is_zero, factors)):
            return False
    return True
