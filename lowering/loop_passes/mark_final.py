"""Marks the kernels whose code is as it shall be, so that LLVM only has to choose instructions for it, or almost.

Before: a module at the loop stage. After: a function has the attribute `final` unless LLVM's own passes can do
something for it: make vectors of a loop over many scalars, keep a small allocation in registers, or, in loops of
few operations, where that counts, write out few iterations or load only once what is the same in all iterations (which
`hoist-loads` leaves where it is not sure). It has the attribute `few_passes` if the first and the last are not needed:
that takes LLVM a third of the time. A function with a loop that carries a register tile is final all the same: LLVM
would write that out, too, and run out of registers. Most of the time that LLVM takes for a function is spent in these
passes.
"""

from __future__ import annotations

from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.amx import TileType
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.loop_ir.innermost import LOOPS, all_trips, innermost_loops, is_small, last_trips
from tenon.passes.machine import GENERIC

FINAL = "final"
FEW_PASSES = "few_passes"

_LARGEST_IN_REGISTERS = 256
"""Bytes of an allocation that LLVM may keep in registers."""

_FEWEST_ITERATIONS = 5
"""LLVM writes out loops of fewer iterations."""

_FEW_SCALARS = 16
"""Iterations over scalars that are a vector at most."""

_TILE = GENERIC.registers * 3 // 8
"""Vectors that a loop carries from which on it has no registers left for two iterations at once: the tile of a machine
that has few."""


class MarkFinalPass(FunctionPass):
    """Mark the functions that LLVM's own passes cannot improve."""

    name = "mark-final"
    kernels_only = False

    def change(self, module: ModuleOp) -> Change:
        return _mark


def _mark(function: func.FuncOp) -> None:
    for name in (FINAL, FEW_PASSES):
        function.attributes.pop(name, None)
    if (name := _needed(function)) is not None:
        function.attributes[name] = UnitAttr()


def _needed(function: func.FuncOp) -> str | None:
    """The attribute that says which of LLVM's passes a function needs; None for all of them."""
    loops = innermost_loops(function)
    if any(map(_carries_tile, loops)):
        return FINAL
    small = [loop for loop in loops if is_small(loop)]
    if any(map(_is_for_vectors, loops)) or any(map(_loads_again, small)):
        return None
    has_small_memory = any(_fits_registers(op.memref.type) for op in ops_of(function, memref.AllocaOp))
    is_tidy = all(map(_has_vectors, loops)) and not has_small_memory and not any(map(_is_short, small))
    return FINAL if is_tidy else FEW_PASSES


def _carries_tile(loop: Operation) -> bool:
    vectors = sum(isinstance(result.type, VectorType) for result in loop.results)
    return vectors >= _TILE or any(isinstance(result.type, TileType) for result in loop.results)


def _fits_registers(type_: MemRefType) -> bool:
    size = buffer_bytes(type_)
    return not isinstance(size, Size) and size <= _LARGEST_IN_REGISTERS


def _is_short(loop: Operation) -> bool:
    trips = last_trips(loop) if isinstance(loop, scf.ForOp) else None
    return trips is not None and trips < _FEWEST_ITERATIONS


def _is_for_vectors(loop: Operation) -> bool:
    """Whether LLVM may make vectors of a loop over scalars, or of the one around it, that count."""
    if _has_vectors(loop):
        return False
    trips, around = all_trips(loop), loop.parent_op()
    while around is not None and not isinstance(around, LOOPS):
        around = around.parent_op()
    return trips is None or trips > _FEW_SCALARS or (around is not None and not _has_vectors(around))


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
