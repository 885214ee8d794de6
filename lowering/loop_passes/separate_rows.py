"""`separate-rows`: loops in order whose iterations keep to rows of their own become parallel.

Before: the loop stage. After: the same, where an outermost `scf.for` that carries nothing, and whose every access to
what it writes has the loop's index at one and the same dimension, is an `scf.parallel`: no iteration meets what another
one writes, though within a row the places may be data (scatter, sorting). A buffer of the kernel that this loop alone
uses shrinks to the row of one iteration, which nearer caches hold, in memory of each thread's own.

    %s = memref.alloc() : memref<64x9xf32>      scf.parallel (%r) = (%c0) to (%c64) step (%c1) {
    scf.for %r = %c0 to %c64 step %c1 {           %s = memref.alloca() : memref<9xf32>
      %p = memref.load %i[%r]                     %p = memref.load %i[%r]
      memref.store %x, %s[%r, %p]                 memref.store %x, %s[%p]
      memref.store %y, %o[%r, %p]                 memref.store %y, %o[%r, %p]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, ModuleOp, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.types.size import Size, is_at_most
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.intermediates import LARGEST_STACK_BUFFER
from tenon.lowering.kernels.statement import buffer_shape, element_type
from tenon.lowering.loop_ir.nests import INDEX, Domain

Access = memref.LoadOp | memref.StoreOp | vector.LoadOp | vector.StoreOp
_STORES = (memref.StoreOp, vector.StoreOp)


@dataclass(frozen=True)
class SeparateRowsPass(FunctionPass):
    """Make loops parallel whose iterations keep to rows of their own."""

    name = "separate-rows"

    def change(self, module: ModuleOp) -> Change:
        return _separate_all


def _separate_all(function: func.FuncOp) -> None:
    for loop in [inner for inner in function.body.block.ops if isinstance(inner, scf.ForOp)]:
        rows = _rows(loop)
        if rows is not None:
            _separate(loop, rows)


def _rows(loop: scf.ForOp) -> dict[SSAValue, int] | None:
    """For each buffer that `loop` writes the dimension that its index is at; None if iterations may meet."""
    domain = Domain.of([loop.lb], [loop.ub], [loop.step])
    if loop.iter_args or (domain is not None and domain.size < 2):
        return None
    accesses: dict[SSAValue, list[Access]] = {}
    for op in all_ops(loop):
        for buffer in [operand for operand in op.operands if isinstance(operand.type, MemRefType)]:
            if not isinstance(op, Access) or not _is_whole(buffer):
                return None
            accesses.setdefault(buffer, []).append(op)
    rows: dict[SSAValue, int] = {}
    for buffer, uses in accesses.items():
        if not any(isinstance(use, _STORES) for use in uses):
            continue
        common = set.intersection(*[_dimensions_of(loop.body.block.args[0], use) for use in uses])
        if not common:
            return None
        rows[buffer] = min(common)
    return rows or None


def _is_whole(buffer: SSAValue) -> bool:
    """Whether `buffer` is no view, so that no other buffer of a kernel is part of it."""
    return isinstance(buffer, BlockArgument) or isinstance(
        buffer.owner, memref.AllocOp | memref.AllocaOp | memref.GetGlobalOp
    )


def _dimensions_of(index: SSAValue, access: Access) -> set[int]:
    """The dimensions at which `access` has just `index`; vectors run along the last one."""
    places = list(access.indices)
    if isinstance(access, vector.LoadOp | vector.StoreOp):
        places.pop()
    return {dimension for dimension, place in enumerate(places) if place is index}


def _separate(loop: scf.ForOp, rows: dict[SSAValue, int]) -> None:
    """Replace `loop` by a parallel one, with memory of each iteration's own for what it alone uses."""
    own = [
        buffer
        for buffer, dimension in rows.items()
        if isinstance(buffer.owner, memref.AllocOp | memref.AllocaOp)
        and not any(isinstance(size, Size) for size in _without(buffer_shape(buffer), dimension))
        and all(loop.is_ancestor(use.operation) or isinstance(use.operation, memref.DeallocOp) for use in buffer.uses)
    ]
    body = loop.body.block
    terminator = body.last_op
    assert terminator is not None
    terminator.detach()
    terminator.erase()
    inside = Block(arg_types=[INDEX])
    inside.args[0].name_hint = body.args[0].name_hint
    body.args[0].replace_all_uses_with(inside.args[0])
    builder = Builder(InsertPoint.at_end(inside))
    shrunken = {buffer: _row_of(builder, buffer, rows[buffer]) for buffer in own}
    for op in list(body.ops):
        op.detach()
        inside.add_op(op)
    for memory in shrunken.values():
        if isinstance(memory.owner, memref.AllocOp):
            builder.insert(memref.DeallocOp.create(operands=[memory]))
    builder.insert(scf.ReduceOp.create())
    Builder(InsertPoint.before(loop)).insert(scf.ParallelOp([loop.lb], [loop.ub], [loop.step], Region(inside)))
    loop.detach()
    loop.erase()
    for buffer, memory in shrunken.items():
        _replace(buffer, memory, rows[buffer])


def _row_of(builder: Builder, buffer: SSAValue, dimension: int) -> SSAValue:
    """Memory for `buffer` without a `dimension`."""
    kind = MemRefType(element_type(buffer), _without(buffer_shape(buffer), dimension))
    made = memref.AllocaOp if is_at_most(buffer_bytes(kind), LARGEST_STACK_BUFFER) else memref.AllocOp
    memory = builder.insert(
        made.create(result_types=[kind], properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])})
    ).results[0]
    memory.name_hint = buffer.name_hint
    return memory


def _without(shape: Sequence[int], dimension: int) -> list[int]:
    return [*shape[:dimension], *shape[dimension + 1 :]]


def _replace(buffer: SSAValue, memory: SSAValue, dimension: int) -> None:
    """Let all accesses to `buffer` be to the row that `memory` is."""
    for op in [use.operation for use in buffer.uses]:
        if isinstance(op, memref.DeallocOp):
            op.detach()
            op.erase()
            continue
        before = 2 if isinstance(op, _STORES) else 1
        operands = list(op.operands)
        operands[before - 1] = memory
        del operands[before + dimension]
        op.operands = operands
    owner = buffer.owner
    assert isinstance(owner, Operation)
    owner.detach()
    owner.erase()
