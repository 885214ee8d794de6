"""Loops of updates in chunks: each chunk updates a copy of the result, and these are combined in their order.

    scf.for %i = (0) to (4096) {                     %copies = memref.alloca() : memref<8x16xf32>
      %p = memref.load %places[%i]                   scf.parallel (%c) = (0) to (4096) step (512) {
      %a = memref.load %o[%p]                          %k = %c / 512
      memref.store (%a + f(%i)), %o[%p]                fill %copies[%k, ...] with -0.0
    }                                                  scf.for %i = (%c) to (%c + 512) {
                                                         %p = memref.load %places[%i]
                                                         %a = memref.load %copies[%k, %p]
                                                         memref.store (%a + f(%i)), %copies[%k, %p]
                                                     } {threads}
                                                     scf.for %k = (0) to (8) { add %copies[%k, ...] to %o[...] }

Updates combine elements by an associative op, or leave them as they are (`select`), and meet a result that is small
beside the number of updates, such as a histogram: filling and combining the copies is little work then. The order of
the operands changes, but not from launch to launch, as in `split_reductions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.monoid import Monoid
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.kernels.update_monoid import combination
from tenon.lowering.loop_ir.builder import is_pure
from tenon.lowering.loop_ir.launch_numbers import INDEX, Numbers
from tenon.lowering.loop_ir.nests import constant_int

UPDATES_PER_ELEMENT = 8
"""Updates for each element of a chunk's copy, from which on filling and combining the copy does not show."""
LARGEST_COPIES = 1 << 16
"""Bytes of all copies, which lie on the stack."""


@dataclass(frozen=True)
class Updates:
    """A loop whose iterations each combine one element of a buffer with something that does not depend on it."""

    loop: scf.ForOp
    load: memref.LoadOp
    store: memref.StoreOp
    monoid: Monoid
    trips: int

    @property
    def result(self) -> MemRefType[Attribute]:
        """The type of what is updated."""
        assert isinstance(self.store.memref.type, MemRefType)
        return self.store.memref.type

    @property
    def most_chunks(self) -> int:
        """How many copies are worth it."""
        elements = prod(self.result.get_shape())
        room = LARGEST_COPIES // (elements * element_bytes(self.result.element_type))
        return min(room, self.trips // (UPDATES_PER_ELEMENT * elements))


def updates_of(loop: scf.ForOp) -> Updates | None:
    """The updates that `loop` does, if it does nothing else, is long, and their order does not matter."""
    *ops, _ = loop.body.block.ops
    accesses = [op for op in ops if isinstance(op, memref.LoadOp | memref.StoreOp)]
    stores = [op for op in accesses if isinstance(op, memref.StoreOp)]
    bounds = [constant_int(bound) for bound in (loop.lb, loop.ub, loop.step)]
    if loop.results or len(stores) != 1 or any(not is_pure(op) and op not in accesses for op in ops):
        return None
    (store,) = stores
    own = [op for op in accesses if op is not store and root_of(op.memref) is root_of(store.memref)]
    if len(own) != 1 or None in bounds or not isinstance(load := own[0], memref.LoadOp):
        return None
    monoid = combination(load, store)
    if monoid is None:
        return None
    start, end, step = [bound for bound in bounds if bound is not None]
    updates = Updates(loop, load, store, monoid, max(0, -((start - end) // step)))
    shape, layout = updates.result.get_shape(), updates.result.layout
    if min(shape, default=1) < 1 or not isinstance(layout, NoneAttr) or updates.most_chunks < 2:
        return None
    return updates


def split_updates(updates: Updates, length: int) -> scf.ParallelOp:
    """Make chunks of `length` iterations each; returns the loop over them."""
    loop, result = updates.loop, updates.result
    step = constant_int(loop.step)
    assert step is not None
    count = -(-updates.trips // length)
    numbers = Numbers(loop)
    before = Builder(InsertPoint.before(loop))
    stride, chunks = numbers.value(length * step), numbers.value(count)
    zero, one = numbers.value(0), numbers.value(1)
    bounds = [numbers.value(extent) for extent in result.get_shape()]
    neutral = before.insert(arith.ConstantOp(updates.monoid.identity(result.element_type))).result
    copies = before.insert(memref.AllocaOp.get(result.element_type, shape=[count, *result.get_shape()])).memref
    chunked = before.insert(scf.ParallelOp([loop.lb], [loop.ub], [stride], Region(Block(arg_types=[INDEX]))))
    combining = Block(arg_types=[INDEX])
    before.insert(scf.ForOp(zero, chunks, one, [], combining))

    slot = combining.args[0]
    place, inside = _nest(combining, zero, one, bounds)
    own = inside.insert(memref.LoadOp.get(updates.store.memref, place)).res
    other = inside.insert(memref.LoadOp.get(copies, [slot, *place])).res
    combined = inside.insert(updates.monoid.combine(own, other)).results[0]
    inside.insert(memref.StoreOp.get(combined, updates.store.memref, place))

    block = chunked.body.block
    within = Builder(InsertPoint.at_end(block))
    start = block.args[0]
    distance = within.insert(arith.SubiOp(start, loop.lb)).result
    slot = within.insert(arith.DivUIOp(distance, stride)).result
    place, inside = _nest(block, zero, one, bounds)
    inside.insert(memref.StoreOp.get(neutral, copies, [slot, *place]))
    behind = within.insert(arith.AddiOp(start, stride)).result
    end = within.insert(arith.MinSIOp(behind, loop.ub)).result
    loop.detach()
    within.insert(loop)
    within.insert(scf.ReduceOp.create())
    loop.operands = [start, end, loop.step]
    updates.load.operands = [copies, slot, *updates.load.indices]
    updates.store.operands = [updates.store.value, copies, slot, *updates.store.indices]
    combining.add_op(scf.YieldOp())
    return chunked


def _nest(block: Block, zero: SSAValue, one: SSAValue, bounds: Sequence[SSAValue]) -> tuple[list[SSAValue], Builder]:
    """Loops over all elements of a buffer at the end of `block`: their indices, and where their body is built."""
    place: list[SSAValue] = []
    builder = Builder(InsertPoint.at_end(block))
    for bound in bounds:
        body = Block([end := scf.YieldOp()], arg_types=[INDEX])
        builder.insert(scf.ForOp(zero, bound, one, [], body))
        place.append(body.args[0])
        builder = Builder(InsertPoint.before(end))
    return place, builder
