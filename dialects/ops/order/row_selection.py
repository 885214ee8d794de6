"""The first few elements of each row in sorted order, without sorting the rest.

A row is read once, in blocks. Elements that stand before the last of the best ones so far, of which there are
k * log(n / k) in a row of n in random order, are inserted among them; so the work for k elements is at most k for each
element of the row. Blocks that have none are passed over as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import convert, index_constant, scalar_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import SerialRowsOp, StructuredOp
from tenon.dialects.families.batching import along_first_axis
from tenon.dialects.families.linalg_builders import (
    CountedIndex,
    Reader,
    conditional,
    counted_loop,
    empty,
    filled,
    inserted,
    static_shape,
)
from tenon.dialects.ops.order.ordering import goes_before
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import ANY_TENSOR, INTEGER_TENSOR, element_of, i1, i64, shape_of, tensor_type

_BLOCK = 16
"""How many elements are compared with the last of the best ones at once."""


@tensor_op
class LeadingPlacesOp(SerialRowsOp, StructuredOp):
    """The indices (i64) of the first `k` elements of each row of `x` (rows, n) in sorted order, smallest element first,
    or largest first if `descending`. Equal elements keep their order, and NaN is larger than every number.

    >>> tenon.leading_places(np.array([[3.0, 1.0, 2.0, 1.0]]), k=3)
    """

    name = "tenon.leading_places"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    k = setting(int)
    descending = setting(bool, default=False)
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape, k = shape_of(x), settings["k"]
        if shape is None:
            return tensor_type(None, i64)
        if len(shape) != 2:
            raise InferenceError(f"x has shape {show(shape)} where (rows, n) is needed")
        if k < 1 or 0 <= shape[1] < k:
            raise InferenceError(f"k is {k}, and x has {'?' if shape[1] < 0 else shape[1]} elements in a row")
        return tensor_type((shape[0], k), i64)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, operands)

    @staticmethod
    def decompose_in_pieces(x: Value, *, k: int, descending: bool) -> Value:
        return ops.top_k(x, k=k, axis=1, largest=descending)[1]

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        k, element = self.settings["k"], element_of(x.type)
        rows, size = static_shape(x)
        if rows == 0:
            return [filled((rows, k), i64, 0)]
        source = Reader(x)

        def select(row: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            best = _Best(row, k, self.settings["descending"], *carried)

            def fill(place: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
                return best.of(carried).with_inserted(source.read_inside(row, place), place, count=place)

            def replace(place: Value, carried: list[SSAValue]) -> Sequence[SSAValue]:
                inner, value = best.of(carried), source.read_inside(row, place)
                last = Reader(inner.values).read_inside(row, k - 1)
                is_better = goes_before(value, last, inner.descending)
                return conditional(is_better, carried, lambda: inner.with_inserted(value, place))

            def in_block(number: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
                first = number * _BLOCK + k
                last = Reader(best.of(carried).values).read_inside(row, k - 1)

                def look(offset: CountedIndex, found: list[SSAValue]) -> Sequence[SSAValue]:
                    value = source.read_inside(row, first + offset)
                    return [(Value(found[0]) | goes_before(value, last, best.descending)).ssa]

                (any_better,) = counted_loop(_BLOCK, [scalar_constant(0, i1).ssa], look)
                return conditional(
                    Value(any_better),
                    carried,
                    lambda: counted_loop(_BLOCK, carried, lambda offset, inner: replace(first + offset, inner)),
                )

            filled_up = counted_loop(k, best.cleared(), fill)
            blocks = (size - k) // _BLOCK
            searched = counted_loop(blocks, filled_up, in_block)
            return [*counted_loop(size, searched, replace, start=k + blocks * _BLOCK)]

        return counted_loop(rows, [empty((rows, k), element), empty((rows, k), i64)], select)[-1:]


class _Best:
    """The best elements of a row so far and their places, in order."""

    def __init__(self, row: Value, k: int, descending: bool, values: SSAValue, places: SSAValue) -> None:
        self.row, self.k, self.descending = row, k, descending
        self.values, self.places = values, places

    def of(self, tensors: Sequence[SSAValue]) -> _Best:
        """The same in other `tensors`."""
        return _Best(self.row, self.k, self.descending, *tensors)

    def cleared(self) -> list[SSAValue]:
        """The tensors with anything in each place."""
        nothing, nowhere = scalar_constant(0, element_of(self.values.type)), scalar_constant(0, i64)

        def clear(at: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            values, places = carried
            return [inserted(values, nothing, (self.row, at)), inserted(places, nowhere, (self.row, at))]

        return counted_loop(self.k, [self.values, self.places], clear)

    def with_inserted(self, value: Value, place: Value, count: Value | None = None) -> list[SSAValue]:
        """The tensors with one more element among the first `count` ones, or in front of the last of all."""
        row, one, place = self.row, index_constant(1), convert(place, i64)

        def stands_before(other: Value, at: Value) -> Value:
            is_before = goes_before(value, other, self.descending)
            return is_before if count is None else is_before | (at >= count)

        def shift(number: CountedIndex, carried: list[SSAValue]) -> Sequence[SSAValue]:
            # From the last one on, so that each is read before it is replaced.
            read, read_place = [Reader(tensor).read_inside for tensor in carried]
            at = index_constant(self.k - 1) - number
            before = at - one
            moves_back = stands_before(read(row, before), before)
            is_here = stands_before(read(row, at), at)
            new = ops.select(is_here, ops.select(moves_back, read(row, before), value), read(row, at))
            origin = ops.select(moves_back, read_place(row, before), place)
            origin = ops.select(is_here, origin, read_place(row, at))
            return [inserted(tensor, v, (row, at)) for tensor, v in zip(carried, (new, origin), strict=True)]

        shifted = counted_loop(self.k - 1, [self.values, self.places], shift)
        first = index_constant(0)
        is_first = stands_before(Reader(shifted[0]).read_inside(row, first), first)
        return [
            inserted(tensor, ops.select(is_first, new, Reader(tensor).read_inside(row, first)), (row, first))
            for tensor, new in zip(shifted, (value, place), strict=True)
        ]
