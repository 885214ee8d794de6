"""Computes equal things once.

Before: a verified module of any stage. After: of ops without effects that have equal operands, properties, attributes
and result types, only the first is left, where it dominates the others; so are loops and branches whose regions compute
the same. Regions see what the blocks around them compute, except those of ops with the attribute `recomputed`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, IsTerminator

from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.passes.simplify.dce import Effects


class CommonSubexpressionEliminationPass(ModulePass):
    """Replace each op without effects by an equal one that dominates it."""

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merge_equal_ops(op.body.block, Effects(op))


def merge_equal_ops(block: Block, effects: Effects, known: dict[Hashable, Operation] | None = None) -> None:
    """Merge equal ops of `block` and of the regions of its ops; `known` holds those of the blocks around it."""
    known = {} if known is None else known
    added: list[Hashable] = []
    for op in block.ops:
        for region in op.regions:
            # What computes again does so in order that what was computed before need not be kept.
            visible = {} if op.has_trait(IsolatedFromAbove) or RECOMPUTED in op.attributes else known
            for inner in region.blocks:
                merge_equal_ops(inner, effects, visible)
        if not _is_candidate(op, effects):
            continue
        key = _key_with_regions(op, {}) if op.regions else key_of(op, op.operands)
        first = known.get(key)
        if first is None:
            known[key] = op
            added.append(key)
            continue
        for result, replacement in zip(op.results, first.results, strict=True):
            result.replace_all_uses_with(replacement)
        Rewriter.erase_op(op)
    # What this block computed does not dominate what follows the op that holds it.
    for key in added:
        del known[key]


def _is_candidate(op: Operation, effects: Effects) -> bool:
    # Two uses of one uninitialized tensor would have to be told apart again when they get their buffers; so would those
    # of one destination of a `linalg` op.
    if not op.results or isinstance(op, tensor.EmptyOp):
        return False
    if op.regions and (not isinstance(op, ControlFlowOp) or RECOMPUTED in op.attributes):
        return False
    return effects.is_pure(op) and not op.has_trait(IsTerminator)


def _key_with_regions(op: Operation, numbers: dict[SSAValue, int]) -> Hashable:
    """What is equal for ops that compute the same, and whose regions do: what is in these counts by its place, as
    `numbers` has it."""
    parts: list[Hashable] = [key_of(op, [numbers.get(v, v) for v in op.operands])]  # pyright: ignore[reportArgumentType]
    for region in op.regions:
        for block in region.blocks:
            parts.append(tuple([argument.type for argument in block.args]))
            numbers.update({value: len(numbers) + i for i, value in enumerate(block.args)})
            for inner in block.ops:
                parts.append(_key_with_regions(inner, numbers))
                numbers.update({value: len(numbers) + i for i, value in enumerate(inner.results)})
    return tuple(parts)


def key_of(op: Operation, operands: Sequence[SSAValue]) -> Hashable:
    """What is equal for ops that compute the same, `operands` being those of `op`."""
    return (
        type(op),
        tuple(operands),
        tuple([result.type for result in op.results]),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()) if op.attributes else None,
    )
