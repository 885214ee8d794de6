"""Add up rows first, and then their sums, where another reduction runs over the same rows.

The gradient of a group norm's scale is a sum over samples and places, for each channel; its statistics are sums over
the channels of a group and places, for each sample. No loop is around both, and so each would read all values by
itself. The sums of the first over places alone share the samples and groups with the second, and are few:

    %w = tenon.sum %p {axis = [0, 3]}        %r = tenon.sum %p {axis = [3]}
                                        ->   %w = tenon.sum %r {axis = [0]}
    %s = tenon.sum %q {axis = [2, 3]}        %s = tenon.sum %q {axis = [2, 3]}

Before: the tensor stage, decomposed. After: the same values, but for rounding; some sums and products of floats are
two ops.

The rule: the reduction combines along its innermost axis, and along one that a related one keeps, which combines along
the innermost axis as well; *related* are reductions of values that elementwise ops of their shape connect. Axes that
the other keeps come last, the outermost first, until the sums to add up are `FEWEST_ROWS`: fewer would leave threads
idle. Rows of less than `SHORTEST` elements would leave too many sums. What computes as many elements from the result,
as from the statistics of a batch norm, is in the loops of the reduction itself: then it stays one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.families import ElementwiseOp, ReductionOp
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import compute_type, element_of, is_static, shape_of
from tenon.passes.fuse.planner import FEWEST_ROWS
from tenon.passes.fuse.row_sums import COMBINED
from tenon.passes.iteration import axes_of
from tenon.passes.simplify.dce import functions_by_name

SHORTEST = 64
"""Elements of a row from which on its sum is a small part of what is read."""
_FARTHEST = 64
"""How many ops behind a reduction are looked at."""


class SumInStepsPass(ModulePass):
    """Add up rows first, and then their sums, where another reduction runs over the same rows."""

    name = "sum-in-steps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_by_name(op).values():
            for inner in list(function.walk()):
                for region in inner.regions:
                    for block in region.blocks:
                        _split_sums(block)


def _split_sums(block: Block) -> None:
    reductions = [op for op in block.ops if isinstance(op, ReductionOp) and _reduces_rows(op)]
    if len({axes_of(op) for op in reductions}) < 2:
        return
    related = _Related(block)
    by_values: dict[SSAValue, list[ReductionOp]] = {}
    for op in reductions:
        by_values.setdefault(related.find(op.operands[0]), []).append(op)
    rows: dict[tuple[SSAValue, type, tuple[int, ...]], SSAValue] = {}
    for together in by_values.values():
        combined = dict.fromkeys(map(axes_of, together))
        for op, first in [(op, _first_step(op, combined)) for op in together]:
            if first is not None and _leaves_loops(op):
                _split(op, first, rows)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type) or ()


def _elements(value: SSAValue) -> int:
    return estimate(prod(_shape(value)))


def _reduces_rows(op: ReductionOp) -> bool:
    """Whether a reduction combines along the innermost axis, and keeps others."""
    if not is_static(op.operands[0].type):
        return False
    axes = [axis for axis, size in enumerate(_shape(op.operands[0])) if size > 1]
    return len(axes) > 1 and axes[-1] in axes_of(op) and not set(axes) <= set(axes_of(op))


class _Related:
    """Which values elementwise ops of one shape connect: disjoint sets."""

    def __init__(self, block: Block) -> None:
        self._parents: dict[SSAValue, SSAValue] = {}
        for op in block.ops:
            if isinstance(op, ElementwiseOp):
                (first, *others) = op.results
                alike = [value for value in (*others, *op.operands) if _shape(value) == _shape(first)]
                for value in alike:
                    if (root := self.find(value)) is not (own := self.find(first)):
                        self._parents[root] = own

    def find(self, value: SSAValue) -> SSAValue:
        while (parent := self._parents.get(value)) is not None:
            value = parent
        return value


def _first_step(op: ReductionOp, related: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The axes along which `op` had better combine first, to share loops with a reduction along `related` axes."""
    element, shape, axes = element_of(op.operands[0].type), _shape(op.operands[0]), axes_of(op)
    if (
        RECOMPUTED in op.attributes
        or op.COMBINE not in COMBINED
        or not isinstance(element, AnyFloat)
        or element != compute_type(element)
    ):
        return None
    for other in related:
        kept = [axis for axis in range(len(shape)) if axis not in other]
        shared = [axis for axis in kept if axis not in axes]
        for axis in [axis for axis in kept if axis in axes and shape[axis] > 1]:
            shared.append(axis)
            if prod([shape[axis] for axis in shared]) >= FEWEST_ROWS:
                first = tuple([axis for axis in axes if axis not in shared])
                if prod([shape[axis] for axis in first]) >= SHORTEST:
                    return first
                break
    return None


def _leaves_loops(op: ReductionOp) -> bool:
    """Whether nothing computes as many elements from the result of `op` as it combined."""
    size = _elements(op.operands[0])
    pending, seen = list[Operation]([op]), set[Operation]()
    while pending:
        for result in pending.pop().results:
            for user in {use.operation for use in result.uses} - seen:
                if len(seen) >= _FARTHEST or any(_elements(value) >= size for value in user.results):
                    return False
                seen.add(user)
                pending.append(user)
    return True


def _split(
    op: ReductionOp, first: tuple[int, ...], rows: dict[tuple[SSAValue, type, tuple[int, ...]], SSAValue]
) -> None:
    """Let `op` combine along the axes `first`, once for all that do, and then along its others."""
    (operand,), settings = op.operands, {**op.settings, "axis": axes_of(op)}
    known = rows.get(key := (operand, type(op), first))
    steps: list[ReductionOp] = []
    if known is None:
        steps.append(type(op).build_from([operand], {**settings, "axis": first, "keepdims": True}))
        known = rows[key] = steps[0].results[0]
    steps.append(type(op).build_from([known], settings))
    for step in steps:
        step.attributes = dict(op.attributes)
        step.location = op.location
    steps[-1].results[0].name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, steps)
