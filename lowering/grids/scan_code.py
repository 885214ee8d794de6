"""Scans (see `kernels.scans`) whose iterations are spread over threads: reduced, exchanged, then scanned.

Along the axis a thread has parts, one for each iteration of the loops that are written out outside of the bound ones,
and in each part the elements of the loop that is written out inside of them. It combines the elements of each part;
lanes exchange that by shuffles, warps in shared memory, always earlier elements with later ones; and from the state
that is before a part it does the steps of the program. Nothing but associativity is used: where there is nothing
before a part, nothing is combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, gpu
from xdsl.ir import SSAValue

from tenon.lowering.grids.across_threads import Values, load, number_of, shuffled, store
from tenon.lowering.grids.thread_code import SHARED, Registers, ThreadCode
from tenon.lowering.kernels.scans import Scan
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import INDEX, Position, Steps
from tenon.lowering.steps.nest import THREADS, Loop, NestStatement
from tenon.lowering.steps.scan_loops import ScanLoops

STATES_AT_A_TIME = 4
"""Those of warps that a thread loads before it uses them. All of 16 in each of four parts leave room for one block of
512 threads where three could be."""

Body = Callable[[Sequence[SSAValue]], list[SSAValue]]


@dataclass
class ScanCode:
    """Writes a scan by `code`. `elements()` gives what the element brings that the thread is at, and `step(states)` all
    that the statement's body yields there; `guarded`, neither may be asked for beyond extents; `ends`: what the states
    are at the end matters."""

    code: ThreadCode
    statement: NestStatement
    scan: Scan
    loops: ScanLoops
    carried: Sequence[Registers]
    """The states before the elements that the threads are at together, and after them."""
    elements: Callable[[], Values]
    step: Callable[[Values], Values]
    guarded: bool
    ends: bool

    def __post_init__(self) -> None:
        self.axis = self.loops.axis
        extent = self.code.nest.extents[self.axis]
        self.partial = self.code.nest.covered(self.axis) > extent
        self.others = self.carried[0].loops
        """The loops written out that tell states apart."""

    def chunk(self, write: Callable[[Values], None]) -> None:
        """All elements that the threads are at together: `write(what the body yields)` for each."""
        if not self.loops.across:
            parts = [*self.others, *self.loops.parts, *self.loops.within]
            self.code.over(parts, lambda: self._steps(self.carried, write))
            return
        loops = [*self.loops.parts, *self.others]
        totals, before = (
            [self.code.registers(element_type(array.memref), loops) for array in self.carried] for _ in range(2)
        )
        self.code.over(loops, lambda: self._reduce(totals))
        self.code.over(loops, lambda: self._exchange(totals, before))
        self._start(totals, before)

        def part() -> None:
            self.code.over(self.loops.within, lambda: self._steps(before, write))

        self.code.over(loops, part)

    def _steps(self, arrays: Sequence[Registers], write: Callable[[Values], None]) -> None:
        """The program's step at the element that the thread is at, from and to the states `arrays`."""

        def compute() -> None:
            values = self.step(load(self.code, arrays))
            store(self.code, arrays, [values[n] for n in self.scan.states])
            write(values)

        needed = self.guarded or (self.ends and not self.loops.across)
        self.code.when(self.code.inside(self._guards()) if needed else None, compute)

    def _guards(self) -> Sequence[str]:
        return self.statement.axes if self.guarded else (self.axis,)

    # Before exchanges

    def _reduce(self, totals: Sequence[Registers]) -> None:
        """Combine the elements of a part."""
        within = self.loops.within
        needed = self.guarded or self.ends

        def first() -> None:
            store(self.code, totals, self.elements())

        def others(at: Position, _: Values) -> Values:
            (loop,) = within
            with self.code.at({loop.name: at}):
                inside = self.code.inside(self._guards()) if needed else None
                self.code.when(inside, add)
            return []

        def add() -> None:
            store(self.code, totals, self.combine(load(self.code, totals), self.elements()))

        with self.code.at({loop.name: Position() for loop in within}):
            if self.guarded:
                for array in totals:
                    element = element_type(array.memref)
                    self.code.store(self.code.zero(element), array.memref, self.code.register(array))
            self.code.when(self.code.inside(self._guards()) if self.guarded else None, first)
        for loop in within:
            self.code.builder.sequential(Steps(1, loop.extent - 1), (), others)
            self.code.mark_unrolled(loop.extent - 1)

    def combine(self, earlier: Values, later: Values) -> Values:
        """The states that elements lead to of which some lead to `earlier`, and those behind them to `later`."""
        statement = self.statement.statement
        known: dict[SSAValue, SSAValue] = dict(zip(self.scan.elements, later, strict=True))
        known |= {statement.accumulators[n]: value for n, value in zip(self.scan.states, earlier, strict=True)}
        for op in self.scan.combining:
            copy = op.clone(known)
            self.code.builder.add(copy)
            known.update(zip(op.results, copy.results, strict=True))
        assert statement.body.last_op is not None
        after = [statement.body.last_op.operands[n] for n in self.scan.states]
        return [known.get(value, value) for value in after]

    # Across lanes

    def _exchange(self, totals: Sequence[Registers], before: Sequence[Registers]) -> None:
        """From what lanes have to what all of them have, and what those before the thread's have."""
        lanes = self.loops.lanes
        if lanes is None:
            return
        code, distance = self.code, 1
        all_, earlier = load(self.code, totals), load(self.code, totals)
        lane = code.builder.index(code.positions[lanes.name])
        while distance < lanes.extent:
            others = [shuffled(code, value, distance * self.loops.lane_stride) for value in all_]
            is_later = self._bits(lane, distance)
            before_it = others
            if distance > 1:  # within the lanes that have exchanged so far, the first has nothing before it
                is_first = code.equal(self._masked(lane, distance - 1), 0)
                before_it = self._select(is_first, others, self.combine(others, earlier))
            earlier = before_it if distance == 1 else self._select(is_later, before_it, earlier)
            first, second = self._select(is_later, others, all_), self._select(is_later, all_, others)
            all_ = self._unless_beyond(self._first_lane(lanes, lane, distance), first, self.combine(first, second))
            distance *= 2
        store(self.code, totals, all_)
        store(self.code, before, earlier)

    def _first_lane(self, lanes: Loop, lane: SSAValue, distance: int) -> dict[str, Position]:
        """Where the later one of two groups of `distance` lanes begins."""
        if not (self.ends and self.partial):
            return {}
        low = self._masked(lane, lanes.extent - 1 ^ (2 * distance - 1))
        return {lanes.name: Position(((low, 1),), distance)}

    def _unless_beyond(self, at: dict[str, Position], earlier: Values, combined: Values) -> Values:
        """`combined`, or only what is `earlier` where the later elements, from `at` on, are beyond the extent."""
        if not (self.ends and self.partial):
            return combined
        with self.code.at({**{loop.name: Position() for loop in self.loops.within}, **at}):
            inside = self.code.inside([self.axis])
        return self._select(inside, combined, earlier) if inside is not None else combined

    # Across warps

    def _start(self, totals: Sequence[Registers], before: Sequence[Registers]) -> None:
        """The states before each part of the thread, and after all parts of all threads."""
        code, warps = self.code, self.loops.warps
        read = self._write_slots(totals) if warps is not None else None
        parts, others = self.loops.parts, self.others

        def part() -> None:
            start = running = load(self.code, self.carried)
            if read is None or warps is None:
                running = self._unless_beyond(
                    self._first_of(None), running, self.combine(running, load(self.code, totals))
                )
            else:
                start, running = self._over_warps(read, warps, running)
            store(self.code, self.carried, running)
            lanes = self.loops.lanes
            if lanes is not None:
                is_first = code.equal(code.builder.index(code.positions[lanes.name]), 0)
                start = self._select(is_first, start, self.combine(start, load(self.code, before)))
            store(self.code, before, start)

        code.over([*others, *parts], part)

    def _over_warps(self, read: Callable[[Position], Values], warps: Loop, first: Values) -> tuple[Values, Values]:
        """The states before the thread's warp, and after all of them."""
        own, count = self.code.builder.index(self.code.positions[warps.name]), len(first)

        def add(at: Position, carried: Values) -> Values:
            start, running = carried[:count], carried[count:]
            is_own = self.code.equal(self.code.builder.index(at), own)
            combined = self._unless_beyond(self._first_of(at), running, self.combine(running, read(at)))
            return [*self._select(is_own, running, start), *combined]

        found = self.code.builder.sequential(Steps(0, warps.extent), [*first, *first], add)
        self.code.mark_unrolled(warps.extent, STATES_AT_A_TIME)
        return found[:count], found[count:]

    def _first_of(self, warp: Position | None) -> dict[str, Position]:
        """Where what a warp has begins, in the part that the thread is at."""
        at = {} if self.loops.lanes is None else {self.loops.lanes.name: Position()}
        return at if warp is None or self.loops.warps is None else {**at, self.loops.warps.name: warp}

    def _write_slots(self, totals: Sequence[Registers]) -> Callable[[Position], Values]:
        """Have all threads see what each warp has; how to read that of one."""
        code, nest, warps = self.code, self.code.nest, self.loops.warps
        assert warps is not None
        others = [loop for loop in nest.bound(*THREADS) if loop.axis != self.axis]
        count = prod(loop.extent for loop in others)
        shape = [loop.extent for loop in totals[0].loops]
        slots = [code.allocate(element_type(a.memref), [warps.extent, *shape, count], SHARED) for a in totals]
        place = code.builder.index(number_of(code, others))
        if any(loop.in_order and loop.name in code.positions for loop in nest.loops):  # the slots may still be read
            code.builder.add(gpu.BarrierOp())
        lanes = [] if self.loops.lanes is None else [self.loops.lanes]
        own = code.builder.index(code.positions[warps.name])

        def write() -> None:
            for slot, array, value in zip(slots, totals, load(self.code, totals), strict=True):
                code.store(value, slot, [own, *code.register(array), place])

        code.when(code.is_first(lanes), lambda: code.over(totals[0].loops, write))
        code.builder.add(gpu.BarrierOp())

        def read(at: Position) -> Values:
            where = [code.builder.index(at), *code.register(totals[0]), place]
            return [code.load(slot, where) for slot in slots]

        return read

    # Values

    def _masked(self, lane: SSAValue, mask: int) -> SSAValue:
        builder = self.code.builder
        return builder.pure(arith.AndIOp, (lane, builder.index_constant(mask)), INDEX)

    def _bits(self, lane: SSAValue, mask: int) -> SSAValue:
        return self.code.equal(self._masked(lane, mask), mask)

    def _select(self, condition: SSAValue, chosen: Values, otherwise: Values) -> Values:
        return [
            self.code.value(arith.SelectOp(condition, one, other)) for one, other in zip(chosen, otherwise, strict=True)
        ]
