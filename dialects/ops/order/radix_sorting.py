"""Rows sorted by their digits, from the lowest one up (radix sort: Knuth, volume 3, section 5.2.5).

An element is ordered as an unsigned integer of as many bits (`ordering`). One pass over a row counts how often each
value of each digit occurs, which tells where in the sorted row the elements with that value start; then one pass per
digit moves each element to the next free place of its value. So the order of equal elements is kept, and the work does
not depend on the numbers. A row is sorted from end to end by one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import result_def

from tenon.dialects.definition.scalar import as_index, emit_scalar, scalar_constant
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import SerialRowsOp
from tenon.dialects.families.linalg_builders import (
    CountedIndex,
    Reader,
    counted_loop,
    empty,
    filled,
    inserted,
    static_shape,
)
from tenon.dialects.ops.order.ordered_rows import OrderedRowsOp
from tenon.dialects.ops.order.ordering import bits_type, from_bits, invertible_bits, ordered_bits
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    element_of,
    i32,
    i64,
)

DIGIT_BITS = 8
"""With more, what is written next to each other does not stay in the nearest cache."""


class _Digits:
    """The digits of integers that stand in order as elements of rows (rows, n) do, and how many integers with each
    value of each digit a row has."""

    def __init__(self, shape: Sequence[int], kind: IntegerType) -> None:
        self.shape, self.kind = shape, kind
        self.number = kind.width.data // DIGIT_BITS
        # All digits' counts of one value lie together: a table for each, a KiB apart, took as long to add up as all
        # the rest of a row of 1000.
        self.counts_shape = (shape[0], 1 << DIGIT_BITS, self.number)

    def of(self, bits: Value, number: int) -> Value:
        """The digit (index) with this `number`, 0 being the lowest."""
        width = self.kind.width.data
        if number:
            bits = emit_scalar(arith.ShRUIOp, bits, scalar_constant(DIGIT_BITS * number, self.kind))
        if width != i32.width.data:
            resized = arith.ExtUIOp if width < i32.width.data else arith.TruncIOp
            bits = emit_scalar(lambda v: resized(v, i32), bits)
        return as_index(emit_scalar(arith.AndIOp, bits, scalar_constant((1 << DIGIT_BITS) - 1, i32)))

    def starts(self, row: Value, bits: Reader, counts: SSAValue) -> SSAValue:
        """`counts` with where in the sorted `row` of `bits` those with each value of each digit start."""
        values, numbers = 1 << DIGIT_BITS, range(self.number)
        zero, one = scalar_constant(0, i32), scalar_constant(1, i32)

        def clear(value: Value, carried: list[SSAValue]) -> list[SSAValue]:
            (counts,) = carried
            for number in numbers:
                counts = inserted(counts, zero, (row, value, number))
            return [counts]

        def count(place: Value, carried: list[SSAValue]) -> list[SSAValue]:
            (counts,) = carried
            found = bits.read_inside(row, place)
            for number in numbers:
                digit = self.of(found, number)
                before = Reader(counts).read_inside(row, digit, number)
                counts = inserted(counts, before + one, (row, digit, number))
            return [counts]

        def add_up(value: Value, carried: list[SSAValue]) -> list[SSAValue]:
            counts, *before = carried
            after: list[SSAValue] = []
            for number, start in zip(numbers, map(Value, before), strict=True):
                found = Reader(counts).read_inside(row, value, number)
                counts = inserted(counts, start, (row, value, number))
                after.append((start + found).ssa)
            return [counts, *after]

        cleared = counted_loop(values, [counts], clear)
        counted = counted_loop(self.shape[1], cleared, count)
        return counted_loop(values, [*counted, *[zero.ssa for _ in numbers]], add_up)[0]


class RowSortOp(OrderedRowsOp, SerialRowsOp):
    """Rows of `x` (rows, n) sorted by their digits."""

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("rows", "n")
    KEEPS_PLACES: ClassVar[bool] = False
    """Whether the result depends on where elements were."""

    def bits(self, x: Value) -> Value:
        """The integer that `x` is ordered by."""
        raise NotImplementedError

    def element(self, bits: Value, place: Value) -> Value:
        """The result's element for an element with these `bits` that was at `place`."""
        raise NotImplementedError

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape, result = static_shape(x), element_of(self.results[0].type)
        if 0 in shape:
            return [filled(shape, result, 0)]
        source, digits = Reader(x), _Digits(shape, bits_type(element_of(x.type)))
        last = digits.number - 1
        columns = [digits.kind, i32] if self.KEEPS_PLACES else [digits.kind]
        # Passes read from and write to two spare rows in turn; the last one writes the result.
        spare = [empty(shape, column) for _ in range(min(2, digits.number)) for column in columns]

        def sort(row: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            counts, *spare, target = carried
            split = len(columns)

            def order(place: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
                return [inserted(carried[0], self.bits(source.read_inside(row, place)), (row, place))]

            spare[:1] = counted_loop(shape[1], spare[:1], order)
            counts = digits.starts(row, Reader(spare[0]), counts)
            for number in range(last):
                first = number % 2 * split
                given, to = spare[first : first + (split if number else 1)], slice(split - first, 2 * split - first)
                counts, *spare[to] = self._moved(digits, number, row, counts, given, spare[to])
            first = last % 2 * split
            given = spare[first : first + (split if last else 1)]
            counts, target = self._moved(digits, last, row, counts, given, [target])
            return [counts, *spare, target]

        counts = empty(digits.counts_shape, i32)
        return counted_loop(shape[0], [counts, *spare, empty(shape, result)], sort)[-1:]

    def _moved(
        self,
        digits: _Digits,
        number: int,
        row: Value,
        counts: SSAValue,
        given: Sequence[SSAValue],
        targets: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """`counts` and `targets` after the integers and places `given` were moved there by one digit."""

        def move(place: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            counts, *targets = carried
            bits, *places = [Reader(tensor).read_inside(row, place) for tensor in given]
            digit = digits.of(bits, number)
            at = Reader(counts).read_inside(row, digit, number)
            counts = inserted(counts, at + scalar_constant(1, i32), (row, digit, number))
            origin = places[0] if places else place
            is_last = number == digits.number - 1
            written = [self.element(bits, origin)] if is_last else [bits, origin][: len(targets)]
            at = as_index(at)
            return [counts, *[inserted(t, w, (row, at)) for t, w in zip(targets, written, strict=True)]]

        return counted_loop(digits.shape[1], [counts, *targets], move)


@tensor_op
class SortRowsOp(RowSortOp):
    """The rows of `x` (rows, n) each sorted, smallest element first, or largest first if `descending`. NaN, which loses
    its sign, is larger than every number; zero is larger than negative zero, but on a GPU, where it is `sort`.

    >>> tenon.sort_rows(np.array([[3.0, 1.0, 2.0], [9.0, np.nan, 8.0]]))
    """

    name = "tenon.sort_rows"
    result = result_def(ANY_TENSOR)

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return element_of(x)

    @staticmethod
    def decompose_in_pieces(x: Value, *, descending: bool) -> Value:
        return ops.sort(x, axis=1, descending=descending)

    def bits(self, x: Value) -> Value:
        return invertible_bits(x, self.settings["descending"])

    def element(self, bits: Value, place: Value) -> Value:
        return from_bits(bits, element_of(self.results[0].type), self.settings["descending"])


@tensor_op
class ArgsortRowsOp(RowSortOp):
    """The indices (i64) that sort each row of `x` (rows, n), as in `sort_rows`. Equal elements keep their order.

    >>> tenon.argsort_rows(np.array([[3, 1, 2, 1], [9, 7, 8, 9]]))
    """

    name = "tenon.argsort_rows"
    result = result_def(INTEGER_TENSOR)
    KEEPS_PLACES: ClassVar[bool] = True

    @classmethod
    def result_element(cls, x: Any) -> Attribute:
        return i64

    @staticmethod
    def decompose_in_pieces(x: Value, *, descending: bool) -> Value:
        return ops.argsort(x, axis=1, descending=descending)

    def bits(self, x: Value) -> Value:
        return ordered_bits(x, self.settings["descending"])

    def element(self, bits: Value, place: Value) -> Value:
        return place
