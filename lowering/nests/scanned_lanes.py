"""The loop nest of a scan (see `kernels.scans`) whose lanes are neighbours along what is scanned.

A vector of elements is combined with itself 1, 2, 4, ... lanes further, each lane with what comes before: then a lane
has what all up to it make of a state. That goes on from the state that the vector before ended in, which all lanes
carry.

    elements                   a    b    c     d
    and those 1 lane before    a    ab   bc    cd
    and those 2 lanes before   a    ab   abc   abcd
    and the state so far       sa   sab  sabc  sabcd
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tenon.lowering.kernels.scans import Scan, scan_of
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import Access, Statement
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, vector_op
from tenon.lowering.nests.body import ONE_LANE, BodyEmitter, Buffer, Lanes, Panel, Point, Reads
from tenon.lowering.nests.statement_loops import StatementLoops
from tenon.lowering.nests.transposed_tiles import lane_of, shuffle
from tenon.lowering.schedules.schedule_attribute import Schedule

Values = dict[SSAValue, SSAValue]


class ScannedLanes(StatementLoops):
    """A statement whose lanes are along its scan."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        schedule: Schedule,
        spans: Sequence[Span],
        buffers: dict[SSAValue, Buffer],
        panels: Mapping[int, Panel] | None,
    ) -> None:
        super().__init__(builder, statement, schedule, spans, buffers, panels)
        # A product that is added to a state is an element here.
        self.body = BodyEmitter(builder, statement, buffers, fuse_products=False, panels=panels)
        scan = scan_of(statement)
        assert scan is not None, "a schedule along a scan has been checked for this"
        self.scan: Scan = scan
        self.width = schedule.width
        last = statement.body.last_op
        assert last is not None
        self.yielded: Sequence[SSAValue] = last.operands
        self.states = [statement.accumulators[n] for n in scan.states]
        self.after = [self.yielded[n] for n in scan.states]
        self._combining = set(scan.combining)
        self._of_elements = slice_of(scan.elements)
        results = [self.yielded[n] for n in scan.results]
        self._of_results = slice_of(results, (*self.after, *self.states))
        used = [*results, *[operand for op in self._of_results for operand in op.operands]]
        self._before_matters = any(state in used for state in self.states)

    def emit(self) -> None:
        """Append all loops."""
        self.nest(self.one_by_one(self.parallel, parallel=True), self.origin, self.row)

    def row(self, point: Point) -> None:
        """All elements along the scan, at a point of the loops around it."""
        loop = self.vector
        assert loop is not None
        outputs = self.statement.outputs
        carried = [self.builder.broadcast(self.initial(n, point, ONE_LANE), self.width) for n in self.scan.states]
        for tile in self.vector_tiles():
            count = tile.lanes.count if tile.lanes.active is None else tile.lanes.active
            lanes = Lanes(loop, self.width, None if count == self.width else count)
            body = partial(self.steps, point, tile.size, lanes)
            carried = self.builder.sequential(tile.steps, carried, body)
        for n, state in zip(self.scan.states, carried, strict=True):
            value = state if self.width == 1 else lane_of(self.builder, state, 0)
            self.body.store(value, outputs[n], point, ONE_LANE)

    def steps(
        self, point: Point, vectors: int, lanes: Lanes, position: Position, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """So many vectors, from `position` on along the scan."""
        loop = self.vector
        assert loop is not None
        first = self.step_to(point, loop, position)
        for column in range(vectors):
            carried = self.step(first.moved(loop, column * self.width), lanes, carried)
        return carried

    def step(self, point: Point, lanes: Lanes, before: Sequence[SSAValue]) -> list[SSAValue]:
        """A vector at `point`, from the states `before` it on; those behind it."""
        builder, width, reads = self.builder, self.width, Reads()
        inputs = zip(self.statement.body.args, self.statement.inputs, strict=False)
        known: Values = {a: self.body.load(access, point, lanes, reads) for a, access in inputs if a.first_use}
        self.body.compute(self._of_elements, known, point, lanes, reads)
        parts = [builder.broadcast(known.get(element, element), width) for element in self.scan.elements]
        distance = 1
        while distance < width:
            parts = self.with_earlier(parts, distance, lanes)
            distance *= 2
        after = self.combined(before, parts, lanes)
        known.update(zip(self.after, after, strict=True))
        if self._before_matters:
            shifted = [width - 1, *range(width, 2 * width - 1)]
            states = [shuffle(builder, b, a, shifted) for b, a in zip(before, after, strict=True)]
            known.update(zip(self.states, states, strict=True))
        self.body.compute(self._of_results, known, point, lanes, reads)
        for n in self.scan.results:
            self.store_lanes(known.get(self.yielded[n], self.yielded[n]), self.statement.outputs[n], point, lanes)
        last = (width if lanes.active is None else lanes.active) - 1
        return [shuffle(builder, state, state, [last] * width) for state in after]

    def with_earlier(self, parts: Sequence[SSAValue], distance: int, lanes: Lanes) -> list[SSAValue]:
        """What each lane of `parts` makes of the one at a `distance` before it; the first ones stay as they are."""
        builder, width = self.builder, self.width
        places = [*range(distance), *range(width, 2 * width - distance)]
        pairs = zip(self.scan.monoids, self.states, strict=True)
        neutral = [monoid.identity(state.type) for monoid, state in pairs if monoid is not None]
        if neutral:
            # Not by a choice of lanes: LLVM then has anything in those left out, and products of numbers that are
            # subnormal by chance take a hundred times as long.
            filled = [builder.broadcast(builder.constant(number, number.type), width) for number in neutral]
            pairs = zip(filled, parts, strict=True)
            return self.combined([shuffle(builder, none, part, places) for none, part in pairs], parts, lanes)
        combined = self.combined([shuffle(builder, part, part, places) for part in parts], parts, lanes)
        return [self.chosen(distance, part, both) for part, both in zip(parts, combined, strict=True)]

    def chosen(self, count: int, first: SSAValue, others: SSAValue) -> SSAValue:
        """The first `count` lanes of one, and all others of the other."""
        mask = self.builder.mask(count, self.width)
        op = vector_op(arith.SelectOp).create(operands=(mask, first, others), result_types=(first.type,))
        return self.builder.value(op)

    def combined(self, states: Sequence[SSAValue], elements: Sequence[SSAValue], lanes: Lanes) -> list[SSAValue]:
        """What `elements` make of `states`."""
        known: Values = dict(zip(self.states, states, strict=True))
        known.update(zip(self.scan.elements, elements, strict=True))
        self.body.compute(self._combining, known, Point((), ()), lanes, {})
        return [self.builder.broadcast(known.get(value, value), self.width) for value in self.after]

    def store_lanes(self, value: SSAValue, output: Access, point: Point, lanes: Lanes) -> None:
        """Write a result of each lane, the last one first where the scan goes back."""
        loop = self.vector
        assert loop is not None
        if output.step(loop) == 1:
            self.body.store(value, output, point, lanes)
            return
        count = self.width if lanes.active is None else lanes.active
        wide = self.builder.broadcast(value, self.width)
        turned = shuffle(self.builder, wide, wide, [max(count - 1 - lane, 0) for lane in range(self.width)])
        self.body.store(turned, output, point.moved(loop, count - 1), lanes)
