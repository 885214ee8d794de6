"""Moves what is the same in each step of a loop out of it.

Before: the tensor stage, decomposed. After: what the regions of loops compute from values from outside alone is
computed in front of the loop, innermost loops first, if it is worth its memory (see `derived_values`): a transpose or a
sum is moved, a broadcast or a constant stays.

    %r = tenon.scan init(%h) slices(%x) {       %t = tenon.transpose %w
    ^bb0(%c, %s):                               %r = tenon.scan init(%h) slices(%x) {
      %t = tenon.transpose %w               ->  ^bb0(%c, %s):
      %n = tenon.matmul %c, %t                    %n = tenon.matmul %c, %t
      ...                                         ...

Only ops without effects are moved. A loop that may have no step computes what was moved all the same; loops that may
not end stay in its regions.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.families.regions import captured_values
from tenon.passes.simplify.dce import Effects, erase_dead_ops
from tenon.passes.transform.derived_values import DerivedValues


class HoistInvariantsPass(ModulePass):
    """Compute what no step of a loop changes in front of it."""

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        # Inner loops first: what leaves them may leave those around them, too.
        for loop in list(op.walk(region_first=True)):
            if isinstance(loop, ControlFlowOp) and loop.runs[1] not in (0, 1):
                _hoist(loop, effects)


def _hoist(loop: ControlFlowOp, effects: Effects) -> None:
    def may_move(op: Operation) -> bool:
        return effects.is_pure(op) and (loop.runs[0] > 0 or not any(map(_may_not_end, op.walk())))

    outer, point = captured_values(*loop.regions), loop.parent
    assert point is not None
    for region in loop.regions:
        derived = DerivedValues(region.block, outer, may_move)
        values = derived.worth_keeping()
        mapper: dict[SSAValue, SSAValue] = {}
        for op in derived.needed_for(values):
            point.insert_op_before(op.clone(mapper), loop)
        for value in values:
            value.replace_all_uses_with(mapper[value])
        if values:
            erase_dead_ops(region.block, effects)


def _may_not_end(op: Operation) -> bool:
    return isinstance(op, ControlFlowOp) and op.runs[1] is None
