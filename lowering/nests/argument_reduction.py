"""The loop nest of a selection (see `selection`) whose lanes look for the best element each by itself.

A lane carries the best value that it met and, in an i32 where all iterations fit into one, the first iteration of the
vector that it was in, -1 before it met any that is better than the initial value. Behind the loop the vectors of the
tile, then the lanes, are compared in pairs: the better one stays, and of equals the one that came first. What the other
outputs are is computed once, for the position that is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, VectorType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.lowering.kernels.selection import Selection, slice_of
from tenon.lowering.kernels.statement import Statement
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, Steps, vector_op, vector_type
from tenon.lowering.nests.body import ONE_LANE, BodyEmitter, Lanes, Point, Reads
from tenon.lowering.nests.statement_loops import Range, StatementLoops
from tenon.lowering.nests.transposed_tiles import lane_of, shuffle
from tenon.lowering.schedules.schedule_attribute import Schedule

_LESS, _NOT_LESS = 2, 5  # slt, sge


def emit_selected_lanes(loops: StatementLoops, selection: Selection) -> None:
    """Append the loops of a statement that is a selection."""
    lanes = SelectedLanes(loops.builder, loops.statement, loops.schedule, selection, loops.body)

    def leaf(point: Point) -> None:
        initial = [loops.initial(output, point, ONE_LANE) for output in range(len(loops.statement.outputs))]
        loops.store(lanes.emit(point, initial), point, ONE_LANE)

    ranges = [Range(loop, Steps(0, loops.spans[loop].extent), parallel=True) for loop in loops.parallel]
    loops.nest(ranges, loops.origin, leaf)


class SelectedLanes:
    """Emits one selection at a point of the loops around its reduction."""

    def __init__(
        self, builder: LoopBuilder, statement: Statement, schedule: Schedule, selection: Selection, body: BodyEmitter
    ) -> None:
        assert schedule.vector is not None
        self.builder = builder
        self.statement = statement
        self.selection = selection
        self.body = body
        self.loop, self.width, self.unroll = schedule.vector, schedule.width, schedule.unroll
        self.extent = statement.extents[schedule.vector]
        # The counts go one step beyond the last iteration.
        self.counter = i32 if self.extent + self.width * self.unroll < 1 << 31 else i64
        self._compared = slice_of([selection.condition], (selection.new, selection.accumulator))
        self._new = slice_of([selection.new])

    def emit(self, point: Point, initial: Sequence[SSAValue]) -> list[SSAValue]:
        """The outputs at `point`, the initial values given."""
        builder, width, unroll = self.builder, self.width, self.unroll
        first = initial[self.selection.output]
        values = [builder.broadcast(first, width)] * unroll
        places = [self._filled(-1)] * unroll
        step = width * unroll
        full, left = divmod(self.extent, step)

        def tile(position: Position, carried: list[SSAValue]) -> list[SSAValue]:
            found = self._tile(point, position, carried, [None] * unroll)
            # In a vector all along: made of the loop's index it would be spread over the lanes for each accumulator.
            return [*found, self._value_of(arith.AddiOp, (carried[-1], self._filled(step)))]

        carried = builder.sequential(Steps(0, full, step), [*values, *places, self._filled(0)], tile)
        if left:
            active = [min(max(left - column * width, 0), width) for column in range(unroll)]
            carried = self._tile(point, Position((), full * step), carried, active)
        found = [
            (value, self._position(place, column * width))
            for column, (value, place) in enumerate(zip(carried[:unroll], carried[unroll : 2 * unroll], strict=True))
        ]
        while len(found) > 1:
            pairs = [self._better(*a, *b) for a, b in zip(found[::2], found[1::2], strict=False)]
            found = pairs + (found[-1:] if len(found) % 2 else [])
        value, place = self._across_lanes(*found[0])
        return self._outputs(point, value, place, initial)

    def _tile(
        self, point: Point, position: Position, carried: list[SSAValue], active: Sequence[int | None]
    ) -> list[SSAValue]:
        """A vector for each accumulator at `position` of the loop, which all lanes of the last one carried have; None
        lanes means all of them are active."""
        builder, width = self.builder, self.width
        values, places, place = list(carried[: self.unroll]), list(carried[self.unroll : -1]), carried[-1]
        base = point.at(self.loop, point.indices[self.loop] + position, point.local[self.loop] + position)
        reads: Reads = {}
        for column, count in enumerate(active):
            if count == 0:
                continue
            lanes = Lanes(self.loop, width, None if count == width else count)
            at = base.moved(self.loop, column * width)
            new = builder.broadcast(self._value(self.selection.new, self._new, at, lanes, reads), width)
            better = self._condition(new, values[column])
            if lanes.active is not None:
                better = self._value_of(arith.AndIOp, (better, builder.mask(lanes.active, width)))
            values[column] = self._select(better, new, values[column])
            places[column] = self._select(better, place, places[column])
        return [*values, *places]

    def _value(self, value: SSAValue, ops: set[Operation], point: Point, lanes: Lanes, reads: Reads) -> SSAValue:
        """A value of the body at `point`, which depends on no accumulator."""
        arguments = self.statement.body.args
        known: dict[SSAValue, SSAValue] = {
            argument: self.body.load(access, point, lanes, reads)
            for argument, access in zip(arguments, self.statement.inputs, strict=False)
            if argument is value or any(argument in op.operands for op in ops)
        }
        self.body.compute(ops, known, point, lanes, reads)
        return known[value]

    def _condition(self, new: SSAValue, best: SSAValue) -> SSAValue:
        """Whether `new` is better than `best`, lane by lane."""
        known = {self.selection.new: new, self.selection.accumulator: best}
        assert isinstance(new.type, VectorType)
        lanes = Lanes(self.loop, new.type.get_shape()[0])
        self.body.compute(self._compared, known, Point((), ()), lanes, {})
        return known[self.selection.condition]

    def _position(self, place: SSAValue, offset: int) -> SSAValue:
        """The position of each lane, -1 where there is none."""
        wide = vector_type(self.counter, self.width)
        numbers: list[int] = [offset + lane for lane in range(self.width)]
        steps = self.builder.constant(DenseIntOrFPElementsAttr.from_list(wide, numbers), wide)  # pyright: ignore
        is_none = self._compare(_LESS, place, self._filled(0))
        return self._select(is_none, place, self._value_of(arith.AddiOp, (place, steps)))

    def _filled(self, number: int) -> SSAValue:
        one = self.builder.constant(IntegerAttr(number, self.counter), self.counter)
        return self.builder.broadcast(one, self.width)

    def _better(
        self, value: SSAValue, place: SSAValue, other: SSAValue, other_place: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The better of two candidates, lane by lane; of equals the one that came first."""
        is_worse = self._condition(value, other)
        is_first = self._compare(_LESS, other_place, place)
        ones = self.builder.broadcast(self.builder.constant(IntegerAttr(1, i1), i1), self.width)
        wins_tie = self._value_of(arith.AndIOp, (is_first, self._value_of(arith.XOrIOp, (is_worse, ones))))
        takes = self._value_of(arith.OrIOp, (self._condition(other, value), wins_tie))
        return self._select(takes, other, value), self._select(takes, other_place, place)

    def _across_lanes(self, value: SSAValue, place: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The best of all lanes."""
        distance = self.width >> 1
        while distance:
            # Pairs change places: of lanes that all move on, LLVM 22 compares the first one with itself.
            mask = [lane ^ distance for lane in range(self.width)]
            turned = shuffle(self.builder, value, value, mask), shuffle(self.builder, place, place, mask)
            value, place = self._better(value, place, *turned)
            distance >>= 1
        return lane_of(self.builder, value, 0), lane_of(self.builder, place, 0)

    def _outputs(self, point: Point, value: SSAValue, place: SSAValue, initial: Sequence[SSAValue]) -> list[SSAValue]:
        """What is selected at a position, or the initial values where nothing was better."""
        builder = self.builder
        zero = builder.constant(IntegerAttr(0, self.counter), self.counter)
        is_found = self._compare(_NOT_LESS, place, zero)
        position = Position(((self._value_of(arith.IndexCastOp, (place,), INDEX), 1),))
        at = point.at(self.loop, position, position)
        results: list[SSAValue] = []
        for output in range(len(self.statement.outputs)):
            if output == self.selection.output:
                results.append(value)
                continue
            result = self.selection.places[output]
            chosen = self._value(result, slice_of([result]), at, ONE_LANE, {})
            results.append(self._select(is_found, chosen, initial[output]))
        return results

    # Ops

    def _value_of(
        self, op_type: type[Operation], operands: Sequence[SSAValue], result_type: Attribute | None = None
    ) -> SSAValue:
        known = operands[0].type
        made = (vector_op(op_type) if isinstance(known, VectorType) else op_type).create(
            operands=operands, result_types=(result_type or known,)
        )
        return self.builder.value(made)

    def _select(self, condition: SSAValue, chosen: SSAValue, otherwise: SSAValue) -> SSAValue:
        wide = isinstance(condition.type, VectorType)
        op_type = vector_op(arith.SelectOp) if wide else arith.SelectOp
        op = op_type.create(operands=(condition, chosen, otherwise), result_types=(chosen.type,))
        return self.builder.value(op)

    def _compare(self, predicate: int, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        wide = isinstance(lhs.type, VectorType)
        op_type = vector_op(arith.CmpiOp) if wide else arith.CmpiOp
        op = op_type.create(
            operands=(lhs, rhs),
            result_types=(vector_type(i1, self.width) if wide else i1,),
            properties={"predicate": IntegerAttr(predicate, i64)},
        )
        return self.builder.value(op)
