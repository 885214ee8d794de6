"""Sorting of rows by merging: runs that are sorted by insertion, merged until a row is one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import as_index, convert, emit_scalar, index_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import StructuredOp
from tenon.dialects.families.batching import all_batched, along_first_axis
from tenon.dialects.families.linalg_builders import (
    LoopIndex,
    Reader,
    elementwise,
    empty,
    filled,
    generic,
    repeated,
    static_shape,
)
from tenon.dialects.ops.order.ordering import goes_before
from tenon.dialects.types.shapes import InferenceError, compatible, show
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    element_of,
    i32,
    i64,
    shape_of,
    tensor_type,
)

RUN = 32
"""The length of the runs that are sorted by counting, and of the chunks that a merge writes."""

LONGEST_RUN = 64
"""Up to this length a row is one run."""


@tensor_op
class SortRunsOp(StructuredOp):
    """The runs of `x` (rows, runs, length) each sorted, and for each element the place in its row where it was.

    The number of comparisons is the square of the length.

    >>> tenon.sort_runs(np.array([[[3, 1, 2], [9, 7, 8]]]))
    """

    name = "tenon.sort_runs"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    descending = setting(bool, default=False)
    values = result_def(ANY_TENSOR)
    places = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) != 3:
            raise InferenceError(f"x has shape {show(shape)} where (rows, runs, length) is needed")
        return x, tensor_type(shape, i32)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, operands)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape, descending = static_shape(x), self.settings["descending"]
        element = element_of(x.type)
        if 0 in shape:
            return [filled(shape, element, 0), filled(shape, i32, 0)]
        row, run, here, other = [AffineExpr.dimension(i) for i in range(4)]
        at_here, at_other = AffineMap(4, 0, (row, run, here)), AffineMap(4, 0, (row, run, other))
        length = shape[2]

        def count(values: list[Value], counts: list[Value]) -> Sequence[Value]:
            x_here, x_other = values
            is_earlier = LoopIndex(3, length) < LoopIndex(2, length)
            # Of equal elements the earlier one goes first.
            tie = is_earlier & ops.logical_not(goes_before(x_here, x_other, descending))
            return [counts[0] + convert(goes_before(x_other, x_here, descending) | tie, i32)]

        def search(values: list[Value], found: list[Value]) -> Sequence[Value]:
            place = convert(LoopIndex(3, length), i32)
            return [found[0] + ops.select(values[0] == convert(LoopIndex(2, length), i32), place, 0)]

        def take(values: list[Value]) -> Sequence[Value]:
            run_place = LoopIndex(1, shape[1])
            place = as_index(values[0])
            value = Reader(x).read_inside(LoopIndex(0, shape[0]), run_place, place)
            return [value, convert(place + run_place * length, i32)]

        reductions = (False, False, False, True)
        inputs = [(x, at_here), (x, at_other)]
        (ranks,) = generic(inputs, [(filled(shape, i32, 0), at_here)], reductions, count)
        (inverse,) = generic([(ranks, at_other)], [(filled(shape, i32, 0), at_here)], reductions, search)
        return elementwise([(inverse, AffineMap.identity(3))], shape, [element, i32], take)


@tensor_op
class MergeRunsOp(StructuredOp):
    """Pairs of neighbouring sorted runs of `values` (rows, n), `length` long, merged, and their `places` with them.

    The results are cut into chunks: (rows, n / chunk, chunk). `length` is a multiple of `chunk`, and so is n; the last
    run may be shorter, or lack a neighbour.

    >>> values, places = np.array([[1, 3, 2, 4]]), np.array([[0, 1, 2, 3]], np.int32)
    >>> tenon.merge_runs(values, places, length=2, chunk=2)
    """

    name = "tenon.merge_runs"
    traits = traits_def(Pure(), NoGradient())
    values = operand_def(ANY_TENSOR)
    places = operand_def(INTEGER_TENSOR)
    length = setting(int)
    chunk = setting(int)
    descending = setting(bool, default=False)
    merged_values = result_def(ANY_TENSOR)
    merged_places = result_def(INTEGER_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def check(**settings: Any) -> None:
        length, chunk = settings["length"], settings["chunk"]
        if chunk < 1 or length < 1 or length % chunk:
            raise InferenceError(f"length {length} is no multiple of chunk {chunk}")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        values, places = operands
        shape, chunk = shape_of(values), settings["chunk"]
        if shape is None:
            return tensor_type(None, element_of(values)), tensor_type(None, element_of(places))
        if len(shape) != 2 or (shape[1] % chunk and shape[1] >= 0):
            raise InferenceError(f"values has shape {show(shape)} where (rows, multiple of chunk {chunk}) is needed")
        if not compatible(places, tensor_type(shape, element_of(places))):
            raise InferenceError(f"places has shape {show(shape_of(places))}, and values has {show(shape)}")
        result = (shape[0], -1 if shape[1] < 0 else shape[1] // chunk, chunk)
        return tensor_type(result, element_of(values)), tensor_type(result, element_of(places))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_first_axis(partial(cls.apply, **settings), size, all_batched(size, batched, operands))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        shape = static_shape(self.results[0])
        elements = [element_of(result.type) for result in self.results]
        if 0 in shape:
            return [filled(shape, element, 0) for element in elements]
        values, places = map(Reader, operands)
        row, chunk, step = [AffineExpr.dimension(i) for i in range(3)]

        def start(_: list[Value]) -> Sequence[Value]:
            return [convert(_Pair(values, shape[1], self.settings).bisected(), i64)]

        def take(_: list[Value], current: list[Value]) -> Sequence[Value]:
            pair = _Pair(values, shape[1], self.settings)
            left = as_index(current[0])
            right = pair.start + LoopIndex(2, shape[2]) - left
            left_place, right_place = pair.places(left, right)
            left_value, right_value = pair.read(left_place), pair.read(right_place)
            is_left_over = left >= pair.left_length
            right_first = is_left_over | goes_before(right_value, left_value, pair.descending)
            takes_right = right_first & (right < pair.right_length)
            place = places.read(pair.row, ops.select(takes_right, right_place, left_place))
            return [
                left + ops.select(takes_right, index_constant(0), index_constant(1)),
                ops.select(takes_right, right_value, left_value),
                place,
            ]

        starts = elementwise([], shape[:2], [i64], start)[0]
        outputs = [(starts, AffineMap(3, 0, (row, chunk)))]
        outputs += [(empty(shape, element), AffineMap(3, 0, (row, chunk, step))) for element in elements]
        return generic([], outputs, [False, False, True], take)[1:]


class _Pair:
    """In a body, the two runs that the chunk at loop 1 is merged from, in the row at loop 0."""

    def __init__(self, values: Reader, chunks: int, settings: dict[str, Any]) -> None:
        rows, size = values.shape
        chunk = settings["chunk"]
        self._values, self._length = values, settings["length"]
        self.descending = settings["descending"]
        self.row = LoopIndex(0, rows)
        place = LoopIndex(1, chunks)
        number = emit_scalar(arith.DivUIOp, place, index_constant(2 * self._length // chunk))
        self._first = number * (2 * self._length)
        """Where in the row the pair starts."""
        self.start = place * chunk - self._first
        """How many elements of the merged pair lie before the chunk."""
        self.left_length = ops.minimum(index_constant(size) - self._first, index_constant(self._length))
        whole = ops.minimum(index_constant(size) - self._first, index_constant(2 * self._length))
        self.right_length = whole - self.left_length

    def places(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Where in the row element `left` of the left run and element `right` of the right one are."""
        return self._first + left, self._first + self._length + right

    def read(self, place: Value) -> Value:
        return self._values.read(self.row, place)

    def bisected(self) -> Value:
        """How many elements of the left run lie before the chunk."""
        low = ops.maximum(self.start - self.right_length, index_constant(0))
        high = ops.minimum(self.start, self.left_length)

        def halve(bounds: list[Value]) -> Sequence[Value]:
            low, high = bounds
            middle = emit_scalar(arith.ShRUIOp, low + high, index_constant(1))
            left, right = self.places(middle, self.start - middle - 1)
            right_first = goes_before(self.read(right), self.read(left), self.descending)
            is_open = low < high
            return [
                ops.select(is_open & ops.logical_not(right_first), middle + 1, low),
                ops.select(is_open & right_first, middle, high),
            ]

        return repeated(self._length.bit_length(), [low, high], halve)[0]
