"""How equations of the algebra are written: as patterns that replace one op by others of the same result type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from tenon.dialects.ops.move.shape import BroadcastToOp
from tenon.dialects.types.types import element_of, is_known, shape_of
from tenon.passes.simplify.fold import splat


def replace_same_type(op: Operation, rewriter: PatternRewriter, *new: Operation) -> None:
    """Replace `op` by the last of `new`, unless that has another type."""
    if new[-1].results[0].type == op.results[0].type:
        rewriter.replace(op, new)
    else:
        for unused in reversed(new):
            unused.erase()


def replace_by_block(op: Operation, rewriter: PatternRewriter, block: Block) -> None:
    """Replace `op` by what `block` computes last."""
    new = [*block.ops]
    for added in new:
        added.detach()
        added.location = op.location
    replace_same_type(op, rewriter, *new)


def forward(op: Operation, rewriter: PatternRewriter, value: SSAValue) -> None:
    """Replace `op` by `value`, broadcast where the result is larger."""
    target = op.results[0].type
    if value.type == target:
        rewriter.replace(op, (), (value,))
    elif element_of(value.type) == element_of(target) and is_known(value.type) and is_known(target):
        replace_same_type(op, rewriter, BroadcastToOp.build_from([value], {"shape": shape_of(target)}))


def defined_by(value: SSAValue, *op_types: type[Operation]) -> Any:
    """The op that defines `value`, if it is one of these."""
    return value.owner if isinstance(value.owner, op_types) else None


def by_class(
    patterns: Sequence[tuple[tuple[type[Operation], ...], RewritePattern]],
) -> dict[type, list[RewritePattern]]:
    """Patterns by the class of the op at which they match, in the order given."""
    table: dict[type, list[RewritePattern]] = {}
    for op_types, pattern in patterns:
        for op_type in op_types:
            table.setdefault(op_type, []).append(pattern)
    return table


def is_number(value: SSAValue, number: float) -> bool:
    """Whether all elements of `value` are known to be `number`."""
    known = splat(value)
    return known is not None and bool(known == number)
