"""Lets a program check what its ops compute.

Before: functions on tensors. After: behind each op with floating-point results, one for each of them that raises
`FloatingPointError` for a NaN, or an infinity unless `infinities` are right; its message names the op and its line.
What is known before the program runs is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KnownValue, states
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.ops.control.debug import CheckFiniteOp
from tenon.dialects.support.location import at_line
from tenon.dialects.types.types import element_of, is_float


@dataclass(frozen=True)
class CheckResultsPass(ModulePass):
    """Check the results of every op, in all regions."""

    name = "check-results"

    infinities: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp):
                for block in function.body.blocks:
                    check_results(block, infinities=self.infinities)


def check_results(block: Block, *, infinities: bool) -> None:
    """Add a check behind each op of `block`, and of the regions of its ops."""
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                check_results(inner, infinities=infinities)
        if not isinstance(op, TensorOp | ControlFlowOp) or states(op, KnownValue):
            continue
        last: Operation = op
        for position, result in enumerate(op.results):
            if not is_float(element_of(result.type)):
                continue
            what = op.name if len(op.results) == 1 else f"result {position} of {op.name}"
            settings = {"what": what, "where": at_line(op), "infinities": infinities}
            check = CheckFiniteOp.build_from([result], settings)
            check.location = op.location
            block.insert_op_after(check, last)
            last = check
