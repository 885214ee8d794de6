"""Marks the kernels whose code is as it shall be, so that LLVM only has to choose instructions for it.

Before: a module at the loop stage. After: a function has the attribute `final` unless LLVM's own passes can do
something for it: make vectors of an innermost loop over scalars, keep a small allocation in registers, or, in loops of
few operations, where that counts, write out few iterations or load only once what is the same in all iterations. A
function with a loop that carries a register tile is final all the same: LLVM would write that out, too, and run out of
registers. Most of the time that LLVM takes for a function is spent in these passes.
"""

from __future__ import annotations

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.loop_ir.nests import Domain
from tenon.passes.machine import GENERIC

FINAL = "final"

_LARGEST_IN_REGISTERS = 256
"""Bytes of an allocation that LLVM may keep in registers."""

_FEWEST_ITERATIONS = 5
"""LLVM writes out loops of fewer iterations."""

_SMALL = 24
"""Operations of a loop up to which one that is saved counts."""

_TILE = GENERIC.registers * 3 // 8
"""Vectors that a loop carries from which on it has no registers left for two iterations at once: the tile of a machine
that has few."""

_LOOPS = (scf.ForOp, scf.ParallelOp, scf.WhileOp)


class MarkFinalPass(FunctionPass):
    """Mark the functions that LLVM's own passes cannot improve."""

    name = "mark-final"
    kernels_only = False

    def change(self, module: ModuleOp) -> Change:
        return _mark


def _mark(function: func.FuncOp) -> None:
    function.attributes.pop(FINAL, None)
    if is_final(function):
        function.attributes[FINAL] = UnitAttr()


def is_final(function: func.FuncOp) -> bool:
    """Whether there is nothing in `function` that LLVM's passes would do better."""
    innermost: dict[Operation, None] = {}
    has_small_memory = False
    for op in all_ops(function):
        has_small_memory = has_small_memory or (isinstance(op, memref.AllocaOp) and _fits_registers(op.memref.type))
        if isinstance(op, _LOOPS):
            innermost[op] = None
            parent = op.parent_op()
            while parent is not None:
                innermost.pop(parent, None)
                parent = parent.parent_op()
    if any(map(_carries_tile, innermost)):
        return True
    if not all(map(_has_vectors, innermost)):
        return False
    return not has_small_memory and not any(
        _is_small(loop) and (_is_short(loop) or _loads_again(loop)) for loop in innermost
    )


def _carries_tile(loop: Operation) -> bool:
    return sum(isinstance(result.type, VectorType) for result in loop.results) >= _TILE


def _fits_registers(type_: MemRefType) -> bool:
    size = buffer_bytes(type_)
    return not isinstance(size, Size) and size <= _LARGEST_IN_REGISTERS


def _is_small(loop: Operation) -> bool:
    return len(all_ops(loop)) - len(ops_of(loop, arith.ConstantOp)) <= _SMALL


def _is_short(loop: Operation) -> bool:
    if not isinstance(loop, scf.ForOp):
        return False
    domain = Domain.of([loop.lb], [loop.ub], [loop.step])
    return domain is not None and domain.size < _FEWEST_ITERATIONS


def _has_vectors(loop: Operation) -> bool:
    return any(isinstance(value.type, VectorType) for op in loop.walk() for value in (*op.operands, *op.results))


def _loads_again(loop: Operation) -> bool:
    """Whether an iteration of `loop` loads what the one before it has loaded, too."""
    body = loop.regions[0].blocks[0]
    arguments = body.args[-1:] if isinstance(loop, scf.ParallelOp) else body.args
    return _loads_constant(body, set(arguments))


def _loads_constant(block: Block, changing: set[SSAValue]) -> bool:
    """Whether `block` loads from a place that does not depend on the values in `changing`."""
    for op in block.ops:
        changes = any(operand in changing for operand in op.operands)
        if isinstance(op, memref.LoadOp | vector.LoadOp) and not changes:
            return True
        for inner in (inner for region in op.regions for inner in region.blocks):
            changing.update(inner.args)
            if _loads_constant(inner, changing):
                return True
        if changes or op.regions:
            changing.update(op.results)
    return False
