"""Selections (see `kernels.selection`) whose candidates are spread over threads.

A thread keeps the best value that it met, and where: the index along the reduced axes, row-major, -1 before it
met any that is better than the initial value. Of two candidates the better one stays, of equals the one that comes
first; what the other outputs are is computed once, for the place that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.lowering.grids.across_threads import Values, all_threads
from tenon.lowering.grids.thread_code import Registers, ThreadCode
from tenon.lowering.kernels.selection import Selection, slice_of
from tenon.lowering.loop_ir.builder import INDEX, Position
from tenon.lowering.steps.nest import Loop, NestStatement

_NOT_LESS, _BELOW = 5, 6  # predicates of arith.cmpi: sge, ult


class SelectionCode:
    """Writes the parts of a selection that a reduction has not: where the best is."""

    def __init__(
        self, code: ThreadCode, statement: NestStatement, selection: Selection, arrays: Sequence[Registers]
    ) -> None:
        self.code, self.statement, self.selection, self.arrays = code, statement, selection, arrays
        self.values = arrays[selection.output]
        self._compared = slice_of([selection.condition], (selection.new, selection.accumulator))
        self.axes = statement.reduced
        self._place = i32 if prod(map(code.nest.covered, self.axes)) <= 1 << 31 else i64
        self.places = code.registers(self._place, self.values.loops)

    def start(self) -> None:
        """Before any candidate."""
        none = self._number(-1)
        self.code.over(
            self.places.loops, lambda: self.code.store(none, self.places.memref, self.code.register(self.places))
        )

    def take(self, values: Sequence[SSAValue], inside: SSAValue | None) -> None:
        """Meet a candidate; `values` are what the body yields, of which the selected one tells whether it is better."""
        code = self.code
        chosen = values[self.selection.output]
        assert isinstance(chosen.owner, arith.SelectOp)
        better = code.all_of((chosen.owner.cond, inside))
        assert better is not None
        old = code.load(self.values.memref, code.register(self.values))
        at = Position()
        for axis in self.axes:
            at = at.scaled(code.nest.extents[axis]) + code.axis(axis)
        place = code.builder.pure(arith.IndexCastOp, (code.builder.index(at),), self._place)
        before = code.load(self.places.memref, code.register(self.places))
        code.store(self._select(better, chosen.owner.lhs, old), self.values.memref, code.register(self.values))
        code.store(self._select(better, place, before), self.places.memref, code.register(self.places))

    def finish(self, across: Sequence[Loop], value_at: Callable[[SSAValue], SSAValue]) -> None:
        """Choose among threads, and compute the other outputs by `value_at`."""
        code = self.code
        all_threads(code, [self.values, self.places], across, self._better)

        def outputs() -> None:
            place = code.load(self.places.memref, code.register(self.places))
            found = self._compare(_NOT_LESS, place, self._number(0))
            places = [code.value(arith.IndexCastOp(place, INDEX))]
            if len(self.axes) > 1:
                places = code.digits(places[0], [code.nest.extents[axis] for axis in self.axes])
            moved = {loop.name: Position() for loop in code.nest.loops_of(self.axes)}
            for axis, at in zip(self.axes, places, strict=True):
                unit = next(loop for loop in code.nest.loops_of([axis]) if loop.stride == 1)
                moved[unit.name] = Position(((at, 1),))
            for number, result in self.selection.places.items():
                with code.at(moved):
                    chosen = value_at(result)
                array = self.arrays[number]
                initial = code.load(array.memref, code.register(array))
                code.store(self._select(found, chosen, initial), array.memref, code.register(array))

        code.over(self.values.loops, outputs)

    def _better(self, first: Values, second: Values) -> Values:
        (value, place), (other, other_place) = first, second
        # Where nothing was met, the place comes last, and any value that was met is better than the initial one.
        is_first = self._compare(_BELOW, other_place, place)
        true = self.code.constant(IntegerAttr(1, i1), i1)
        is_no_worse = self._of(arith.XOrIOp, self._condition(value, other), true)
        wins_tie = self._of(arith.AndIOp, is_first, is_no_worse)
        takes = self._of(arith.OrIOp, self._condition(other, value), wins_tie)
        return [self._select(takes, other, value), self._select(takes, other_place, place)]

    def _condition(self, new: SSAValue, best: SSAValue) -> SSAValue:
        """Whether `new` is better than `best`."""
        known: dict[SSAValue, SSAValue] = {self.selection.new: new, self.selection.accumulator: best}
        for op in self.statement.statement.body.ops:
            if op in self._compared:
                copy = op.clone(known)
                self.code.builder.add(copy)
                known.update(zip(op.results, copy.results, strict=True))
        return known[self.selection.condition]

    def _number(self, number: int) -> SSAValue:
        return self.code.constant(IntegerAttr(number, self._place), self._place)

    def _of(self, op_type: type[Operation], *operands: SSAValue) -> SSAValue:
        types: tuple[Attribute, ...] = (operands[0].type,)
        return self.code.value(op_type.create(operands=operands, result_types=types))

    def _select(self, condition: SSAValue, chosen: SSAValue, otherwise: SSAValue) -> SSAValue:
        return self.code.value(arith.SelectOp(condition, chosen, otherwise))

    def _compare(self, predicate: int, first: SSAValue, second: SSAValue) -> SSAValue:
        properties = {"predicate": IntegerAttr(predicate, i64)}
        op = arith.CmpiOp.create(operands=(first, second), result_types=(i1,), properties=properties)
        return self.code.value(op)
