"""Loops that update elements at computed places, in any order: each update is an atomic operation.

    for u: for j: out[place(u), j] = f(out[place(u), j], u, j)

A thread has several updates, whose places and operands it loads before it does the first of them, so that their loads
are under way at the same time. Where there are many updates for each element of the result, and blocks have room for
it, each block combines what it has in a copy of its own in shared memory, and then that with the result: a histogram
is not a queue at a few places in memory.

The order of updates does not matter where the combination is exact: integers wrap around, and keep the least, the
greatest, or bits. Sums of floats round, so their bits depend on the order; they are done so only where the machine is
told that results may differ from launch to launch (`deterministic=false`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.families.monoid import Monoid
from tenon.dialects.upstream.atomic_kinds import ATOMIC_KINDS
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.grids.thread_code import SHARED
from tenon.lowering.grids.update_code import LESS, UNEQUAL, UpdateCode, Updates
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.update_monoid import combination
from tenon.lowering.loop_ir.builder import Position, Steps
from tenon.passes.machine import Gpu

AT_ONCE = 4
"""Updates of a thread whose operands are under way at the same time."""
THREADS = 256
"""Of a block, at least, where there is work for them."""
UPDATES_PER_ELEMENT = 4
"""Updates of a block for each element of its copy, from which on filling and combining the copy does not show."""

ATOMIC = (
    arith.AddfOp,
    arith.AddiOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
    arith.MinUIOp,
    arith.MuliOp,
    arith.OrIOp,
    arith.AndIOp,
)
"""The ops of monoids that there are atomic operations for."""
ROUNDED = (arith.AddfOp,)
"""Those whose bits depend on the order."""


def atomic_monoid(updates: Updates, machine: Gpu) -> Monoid | None:
    """By what each update changes its element, if there is an atomic operation for it and the order may be any."""
    old = [op for op in updates.ops if isinstance(op, memref.LoadOp) and op.memref is updates.store.memref]
    buffer = updates.store.memref.type
    assert isinstance(buffer, MemRefType)
    if len(old) != 1 or not isinstance(buffer.layout, NoneAttr):
        return None
    monoid = combination(old[0], updates.store)
    element = buffer.element_type
    is_word = isinstance(element, IntegerType) and element.width.data in (32, 64)
    if monoid is None or monoid.op_type not in ATOMIC:
        return None
    if not (is_word or isinstance(element, Float32Type | Float64Type)):
        return None
    return monoid if monoid.op_type not in ROUNDED or not machine.deterministic else None


class AtomicCode(UpdateCode):
    """The code of threads that each do some of the updates."""

    def __init__(self, entry: Block, updates: Updates, monoid: Monoid, machine: Gpu) -> None:
        super().__init__(entry, updates)
        self.monoid = monoid
        self.total = prod(updates.extents)
        buffer = updates.store.memref.type
        assert isinstance(buffer, MemRefType)
        self.shape, self.element = buffer.get_shape(), buffer.element_type
        self.elements = prod(self.shape)
        wanted = -(-self.total // (THREADS * AT_ONCE))
        self.threads = THREADS
        self.blocks = max(1, min(wanted, machine.multiprocessors * machine.resident(THREADS, 0, 0)))
        copies = self._copies(machine)
        self.has_copy = copies >= max(1, min(wanted, machine.multiprocessors))
        if self.has_copy:
            self.blocks = min(wanted, copies)
            # Where few copies fit a multiprocessor, blocks of many threads fill it.
            each = machine.threads * machine.multiprocessors // self.blocks // machine.warp * machine.warp
            most = min(machine.largest_block, -(-self.total // (self.blocks * AT_ONCE * THREADS)) * THREADS)
            self.threads = max(THREADS, min(each, most))

    def _copies(self, machine: Gpu) -> int:
        """How many copies of the result in shared memory are worth it."""
        size = self.elements * element_bytes(self.element)
        if not 0 < size <= machine.shared:
            return 0
        fitting = machine.resident(THREADS, 0, size)
        return min(fitting * machine.multiprocessors, self.total // (UPDATES_PER_ELEMENT * self.elements))

    def emit(self) -> tuple[int, int]:
        thread, block = self.position(gpu.ThreadIdOp), self.position(gpu.BlockIdOp)
        target = self.updates.store.memref
        if self.has_copy:
            copy_type = MemRefType(self.element, self.shape, NoneAttr(), SHARED)
            target = self.builder.value(memref.AllocaOp.build(operands=[[], []], result_types=[copy_type]))
            neutral = self.builder.constant(self.monoid.identity(self.element), self.element)
            self._each_of_copy(thread, lambda at: self._store(neutral, target, at))
            self.builder.add(gpu.BarrierOp())
        self._updates(thread, block, target)
        if self.has_copy:
            self.builder.add(gpu.BarrierOp())
            self._each_of_copy(thread, lambda at: self._combine_with_result(target, at))
        return self.blocks, self.threads

    def _updates(self, thread: SSAValue, block: SSAValue, target: SSAValue) -> None:
        """Do the updates of this thread on elements of `target`."""
        at_a_time = self.blocks * self.threads * AT_ONCE
        of_block = self.of(arith.MuliOp, block, self.number(self.threads * AT_ONCE))
        first = self.of(arith.AddiOp, of_block, thread)

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            base = self.of(arith.AddiOp, self.builder.index(at), first)
            loaded = [self._load(self.of(arith.AddiOp, base, self.number(i * self.threads))) for i in range(AT_ONCE)]
            for condition, place, value in loaded:
                self._guarded(condition, lambda value=value, place=place: self._atomic(value, target, place))
            return ()

        self.builder.sequential(Steps(0, -(-self.total // at_a_time), at_a_time), (), step)

    def _load(self, number: SSAValue) -> tuple[SSAValue | None, list[SSAValue], SSAValue]:
        """Whether the update `number` is to be done, where, and with what."""
        condition: SSAValue | None = None
        if self.total % (self.blocks * self.threads * AT_ONCE):
            condition = self.compare(LESS, number, self.number(self.total))
            number = self.of(arith.MinSIOp, number, self.number(self.total - 1))
        conditions, new = self._parts()
        indices = list(self.updates.store.indices)
        needed = slice_of([*conditions, new, *indices])
        known = self.variables(number, range(len(self.updates.loops)))
        self.clone([op for op in self.updates.ops if op in needed], known)
        for value in (known.get(value, value) for value in conditions):
            condition = value if condition is None else self.both(condition, value)
        return condition, [known.get(index, index) for index in indices], known.get(new, new)

    def _parts(self) -> tuple[list[SSAValue], SSAValue]:
        """On which conditions an update is done, and what the element is combined with."""
        conditions: list[SSAValue] = []
        value = self.updates.store.value
        while isinstance(choice := value.owner, arith.SelectOp):
            conditions.append(choice.cond)
            value = choice.lhs
        combined = value.owner
        assert isinstance(combined, Operation)
        first, second = combined.operands
        old = first.owner
        is_old = isinstance(old, memref.LoadOp) and old.memref is self.updates.store.memref
        return conditions, second if is_old else first

    def _guarded(self, condition: SSAValue | None, body: Callable[[], None]) -> None:
        if condition is None:
            body()
            return
        self.builder.conditional(condition, body)

    def _atomic(self, value: SSAValue, target: SSAValue, place: Sequence[SSAValue]) -> None:
        kind = IntegerAttr(ATOMIC_KINDS.index(self.monoid.op_type), i64)
        op = memref.AtomicRMWOp.create(
            operands=(value, target, *place), result_types=(self.element,), properties={"kind": kind}
        )
        self.builder.add(op)

    def _each_of_copy(self, thread: SSAValue, body: Callable[[list[SSAValue]], None]) -> None:
        """Do `body(place)` at each place of the copy, by the threads of a block."""

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            number = self.of(arith.AddiOp, self.builder.index(at), thread)
            inside = None
            if self.elements % self.threads:
                inside = self.compare(LESS, number, self.number(self.elements))
            self._guarded(inside, lambda: body(self.indices(number, self.shape)))
            return ()

        self.builder.sequential(Steps(0, -(-self.elements // self.threads), self.threads), (), step)

    def _store(self, value: SSAValue, target: SSAValue, place: Sequence[SSAValue]) -> None:
        self.builder.add(memref.StoreOp.get(value, target, place))

    def _combine_with_result(self, copy: SSAValue, place: Sequence[SSAValue]) -> None:
        """Combine an element of the copy with that of the result: of integers, unless nothing was combined there."""
        value = self.builder.value(memref.LoadOp.get(copy, place))
        neutral = self.builder.constant(self.monoid.identity(self.element), self.element)
        changed = self.compare(UNEQUAL, value, neutral) if isinstance(self.element, IntegerType) else None
        self._guarded(changed, lambda: self._atomic(value, self.updates.store.memref, place))
