"""`separate-updates`: what a kernel does before it updates elements at computed places is a kernel of its own.

Before: the buffered stage. After: a kernel whose last item is a loop, behind statements that do not share a buffer
inside of the kernel with it, is two: `@k_before`, with the statements, and the loop under the old name. A launch is the
one barrier that all blocks of a GPU can wait at.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.grid_schedules.parts import unscheduled_kernels
from tenon.lowering.kernels.statement import Statement, read_kernel


@dataclass(frozen=True)
class SeparateUpdatesPass(ModulePass):
    """Make two kernels of those that end with a loop of updates."""

    name = "separate-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in unscheduled_kernels(op, self.name):
            _separate(op, function)


def _separate(module: ModuleOp, function: func.FuncOp) -> None:
    kernel = read_kernel(function)
    if len(kernel.items) < 2 or kernel.intermediates or not isinstance(kernel.items[-1], scf.ForOp):
        return
    *statements, loop = kernel.items
    if not all(isinstance(item, Statement) and _is_whole(item) for item in statements):
        return
    assert isinstance(loop, scf.ForOp)
    name = f"{function.sym_name.data}_before"
    known: dict[Operation, Operation] = {}
    before = function.clone()
    for original, copy in zip(function.body.block.ops, before.body.block.ops, strict=True):
        known[original] = copy
    before.properties["sym_name"] = StringAttr(name)
    for op in (known[loop], *[item.op for item in statements if isinstance(item, Statement)]):
        op.detach()
        op.erase()
    module.body.block.insert_op_before(before, function)
    for call in ops_of(module, func.CallOp):
        if call.callee.string_value() == function.sym_name.data:
            block = call.parent
            assert block is not None
            block.insert_op_before(func.CallOp(name, list(call.operands), []), call)


def _is_whole(statement: Statement) -> bool:
    """Whether no fill is left out of the IR that the statement's initial values stand for."""
    return not ops_of(statement.op, memref.AllocOp) and all(value is None for value in statement.initial)
