"""`hoist-loads`: what small loops load from the same place in all iterations is loaded once, in front of them.

Before: the loop stage. After: the same, where an innermost loop of few operations loads nothing again, as far as that
is known to be right:

    scf.parallel (%i, %j) = ... {                  scf.parallel (%i) = ... {
      %b = memref.load %bias[%i]                     %b = memref.load %bias[%i]
      ...                                            scf.parallel (%j) = ... {
    }                                                  ...

Such a loop runs at least once, by bounds that are constant, so that nothing is read that was not read before, and
stores nothing to the buffer. (Another argument may be the same memory, but only one whose elements are read before they
are written.) LLVM would do that, too, in ten times as long: a kernel with such a loop needs its passes (`mark-final`).
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.upstream.intrinsics import is_arithmetic
from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.innermost import innermost_loops, is_small, last_trips
from tenon.lowering.loop_ir.nests import INDEX

_LOADS = (memref.LoadOp, vector.LoadOp)
_STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)
_OTHERS = (*_LOADS, *_STORES, vector.MaskedLoadOp, PrefetchOp, scf.YieldOp, scf.ReduceOp)
_BUFFERS = (Block, memref.AllocaOp, memref.AllocOp, memref.GetGlobalOp)


class HoistLoadsPass(FunctionPass):
    """Load in front of small innermost loops what is the same in all of their iterations."""

    name = "hoist-loads"

    def change(self, module: ModuleOp) -> Change:
        return _hoist_all


def _hoist_all(function: func.FuncOp) -> None:
    for loop in innermost_loops(function):
        if isinstance(loop, scf.ForOp | scf.ParallelOp) and is_small(loop) and last_trips(loop):
            _hoist(loop)


def _hoist(loop: scf.ForOp | scf.ParallelOp) -> None:
    moved = _constant_loads(loop)
    if not moved:
        return
    if isinstance(loop, scf.ParallelOp) and len(loop.step) > 1:
        if loop.results or loop.attributes:
            return
        loop = _separate_last(loop)
    assert loop.parent is not None
    for op in moved:
        op.detach()
        loop.parent.insert_op_before(op, loop)


def _constant_loads(loop: scf.ForOp | scf.ParallelOp) -> list[Operation]:
    """The loads of `loop` that are the same for all of its last dimension, and what computes their places, in order."""
    *ops, _ = loop.body.block.ops
    if any(op.regions or not (isinstance(op, _OTHERS) or is_arithmetic(op)) for op in ops):
        return []
    reached = {op: [root_of(value) for value in op.operands if isinstance(value.type, MemRefType)] for op in ops}
    stored = {buffer for op in ops if isinstance(op, _STORES) for buffer in reached[op]}
    if not all(isinstance(buffer.owner, _BUFFERS) for buffer in stored):
        return []  # a view of what may be loaded from
    changing: set[SSAValue] = set(
        loop.body.block.args[-1:] if isinstance(loop, scf.ParallelOp) else loop.body.block.args
    )
    places: dict[Operation, None] = {}
    loads: list[Operation] = []
    for op in ops:
        is_load = isinstance(op, _LOADS) and _is_another(reached[op][0], stored)
        if any(operand in changing for operand in op.operands) or not (is_load or op.name.startswith("arith.")):
            changing.update(op.results)
        else:
            places[op] = None
            if is_load:
                loads.append(op)
    needed = dict.fromkeys(loads)
    for op in reversed(places):
        if op in needed:
            needed |= dict.fromkeys(owner for v in op.operands if isinstance(owner := v.owner, Operation))
    return [op for op in places if op in needed]


def _is_another(buffer: SSAValue, stored: Set[SSAValue]) -> bool:
    """Whether what is loaded from is none of the buffers that are stored to, nor a view of one."""
    return buffer not in stored and isinstance(buffer.owner, _BUFFERS)


def _separate_last(loop: scf.ParallelOp) -> scf.ParallelOp:
    """Make a loop of its own of the last dimension of `loop`, and return that."""
    assert loop.parent is not None
    lower, upper, step = loop.lowerBound, loop.upperBound, loop.step
    block = Block(arg_types=[INDEX] * (len(step) - 1))
    outer = scf.ParallelOp(lower[:-1], upper[:-1], step[:-1], [block])
    loop.parent.insert_op_before(outer, loop)
    *others, last = loop.body.block.args
    for old, new in zip(others, block.args, strict=True):
        old.replace_all_uses_with(new)
    body = Block(arg_types=[INDEX])
    last.replace_all_uses_with(body.args[0])
    for op in list(loop.body.block.ops):
        op.detach()
        body.add_op(op)
    inner = scf.ParallelOp(lower[-1:], upper[-1:], step[-1:], [body])
    block.add_ops([inner, scf.ReduceOp()])
    loop.detach()
    loop.erase()
    return inner
