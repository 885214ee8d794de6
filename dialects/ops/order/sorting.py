"""Sorting: argsort, sort and top_k.

Where one thread does a row, rows of more than a few elements are sorted by their digits (`radix_sorting`), and the
first few elements are selected (`row_selection`). Where a row is work for many threads, as on a GPU, it is cut into
short runs, which are sorted by counting, for each element, those that go before it. Pairs of neighbouring runs are then
merged until one is left. A merge cuts its result into chunks; where a chunk starts in the two runs is found by
bisection (merge path: Green, McColl and Bader, ICS 2012), and within a chunk the smaller head is taken, step by step.
All chunks of all rows are independent of each other. Every step keeps the order of equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import inf, nan, prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import as_index, convert, emit_scalar, index_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, StructuredOp
from tenon.dialects.families.along_axis import AlongAxis
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
from tenon.dialects.types.shapes import InferenceError, Shape, compatible, normalize_axis, show
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    element_of,
    i32,
    i64,
    is_bool,
    is_float,
    numpy_dtype,
    shape_of,
    tensor_type,
)

_RUN = 32
"""The length of the runs that are sorted by counting, and of the chunks that a merge writes."""

_LONGEST_RUN = 64
"""Up to this length a row is one run."""

_MOST_SELECTED = 128
"""How many elements of a row are selected one by one: in random order a thirtieth of what sorting the row costs, and at
worst, where each element is better than all before it, three times as much."""

_LONGEST_ROW = 2**31 - 1
"""Places in rows that are sorted are counted in i32."""

_IS_SERIAL = ContextVar("serial_rows", default=True)


@contextmanager
def serial_rows(allowed: bool) -> Generator[None]:
    """Whether one thread may do a row from end to end, for the duration of the block; otherwise rows are cut into
    short pieces that are independent of each other, and merged."""
    token = _IS_SERIAL.set(allowed)
    try:
        yield
    finally:
        _IS_SERIAL.reset(token)


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


@tensor_op
class ArgsortOp(AlongAxis, CompositeOp):
    """The indices (i64) that sort `x` along `axis`, smallest element first, or largest first if `descending`.

    Equal elements keep their order, so sorting is stable whatever `stable` asks for. NaN is larger than every number:
    it comes last, or first if `descending`.

    >>> x = np.array([3.0, 1.0, np.nan, 1.0])
    >>> tenon.argsort(x)
    >>> tenon.argsort(x, descending=True)
    """

    name = "tenon.argsort"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    axis = setting(int, default=-1)
    descending = setting(bool, default=False)
    stable = setting(bool, default=True)
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        _check_length(shape, settings["axis"])
        return tensor_type(shape, i64)

    @staticmethod
    def decompose(x: Value, *, axis: int, descending: bool, stable: bool) -> Value:
        if 0 in x.shape:
            return ops.zeros(x.shape, "i64")
        if _is_sorted_by_digits(x.shape[axis]):
            return _along_rows(x, axis, lambda rows: ops.argsort_rows(rows, descending=descending))
        return ops.cast(_along_rows(x, axis, lambda rows: _sorted_places(rows, descending)), dtype=i64)


def _check_length(shape: Shape, axis: int) -> None:
    """Raise `InferenceError` where what lies along `axis` is too long to be sorted."""
    if shape is None:
        return
    axis = normalize_axis(axis, len(shape))
    if shape[axis] > _LONGEST_ROW:
        raise InferenceError(f"x has {shape[axis]} elements along axis {axis}, and at most {_LONGEST_ROW} are sorted")


def _along_rows(x: Value, axis: int, function: Callable[[Value], Value]) -> Value:
    """What `function` makes of the elements of `x` along `axis` as rows (rows, n), a row of any length for each."""
    axis = normalize_axis(axis, x.ndim)
    order = (*[i for i in range(x.ndim) if i != axis], axis)
    moved = ops.transpose(x, permutation=order)
    outer = moved.shape[:-1]
    result = function(ops.reshape(moved, shape=(prod(outer), moved.shape[-1])))
    back = tuple([order.index(i) for i in range(x.ndim)])
    return ops.transpose(ops.reshape(result, shape=(*outer, result.shape[-1])), permutation=back)


def _is_sorted_by_digits(size: int) -> bool:
    """Whether rows of `size` elements are sorted from end to end."""
    return _IS_SERIAL.get() and size > _RUN


def _is_selected(k: int, size: int) -> bool:
    """Whether one thread finds the first `k` of `size` elements in a row without sorting the rest."""
    return k <= _MOST_SELECTED and 4 * k <= size


def _sorted_places(x: Value, descending: bool) -> Value:
    """The indices (i32) that sort each row of `x` (rows, n)."""
    rows, size = x.shape
    if size <= _LONGEST_RUN:
        _, places = ops.sort_runs(ops.expand_dims(x, axis=1), descending=descending)
        return ops.reshape(places, shape=x.shape)
    whole = -(-size // _RUN) * _RUN
    if whole > size:
        # What is behind the row is last, and stays there.
        last = ops.full((rows, whole - size), _last_element(x.element_type, descending), x.element_type)
        x = ops.concatenate([x, last], axis=1)
    values, places = ops.sort_runs(ops.reshape(x, shape=(rows, whole // _RUN, _RUN)), descending=descending)
    length = _RUN
    while length < whole:
        values, places = [ops.reshape(v, shape=(rows, whole)) for v in (values, places)]
        values, places = ops.merge_runs(values, places, length=length, chunk=_RUN, descending=descending)
        length *= 2
    return ops.reshape(places, shape=(rows, whole))[:, :size]


def _last_element(element: Attribute, descending: bool) -> float:
    """What no element of type `element` stands behind in sorted order."""
    if is_bool(element):
        return not descending
    if is_float(element):
        return -inf if descending else nan
    limits = np.iinfo(numpy_dtype(element))
    return int(limits.min if descending else limits.max)


@tensor_op
class SortOp(AlongAxis, CompositeOp):
    """`x` sorted along `axis`, smallest element first, or largest first if `descending`.

    NaN is larger than every number: it comes last, or first if `descending`. Zeros of both signs may change places,
    and NaN may lose its sign, whatever `stable` asks for. PyTorch returns the indices, too; here they are `argsort`.

    >>> x = np.array([3.0, 1.0, np.nan, 2.0])
    >>> tenon.sort(x)
    >>> tenon.sort(x, descending=True)
    """

    name = "tenon.sort"
    x = operand_def(ANY_TENSOR)
    axis = setting(int, default=-1)
    descending = setting(bool, default=False)
    stable = setting(bool, default=True)
    result = result_def(ANY_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        _check_length(shape_of(x), settings["axis"])
        return x

    @staticmethod
    def decompose(x: Value, *, axis: int, descending: bool, stable: bool) -> Value:
        if 0 not in x.shape and _is_sorted_by_digits(x.shape[axis]):
            return _along_rows(x, axis, lambda rows: ops.sort_rows(rows, descending=descending))
        places = ops.argsort(x, axis=axis, descending=descending, stable=stable)
        return ops.gather_elements(x, places, axis=axis)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int, descending: bool, stable: bool) -> tuple[Any, ...]:
        """To the elements at the places that sort them."""
        places = ops.argsort(x, axis=axis, descending=descending, stable=stable)
        return (ops.scatter_elements(ops.zeros_like(x), places, g, axis=axis, reduction="add"),)


@tensor_op
class TopKOp(AlongAxis, CompositeOp):
    """The `k` largest elements of `x` along `axis`, or the smallest ones unless `largest`, and their indices (i64).

    The best comes first, whether or not `sorted` asks for it. Of equal elements the one of lower index comes first. NaN
    is larger than every number.

    >>> x = np.array([3.0, 1.0, 3.0, 2.0])
    >>> tenon.top_k(x, 2)
    >>> tenon.top_k(x, 2, largest=False)
    """

    name = "tenon.top_k"
    x = operand_def(ANY_TENSOR)
    k = setting(int)
    axis = setting(int, default=-1)
    largest = setting(bool, default=True)
    sorted = setting(bool, default=True)
    values = result_def(ANY_TENSOR)
    indices = result_def(INTEGER_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("topk",)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape, k = shape_of(x), settings["k"]
        if shape is None:
            return tensor_type(None, element_of(x)), tensor_type(None, i64)
        axis = normalize_axis(settings["axis"], len(shape))
        if k < 0 or 0 <= shape[axis] < k:
            raise InferenceError(
                f"k is {k}, and x has {'?' if shape[axis] < 0 else shape[axis]} elements along axis {axis}"
            )
        if not _is_selected(k, shape[axis]):
            _check_length(shape, axis)
        result = (*shape[:axis], k, *shape[axis + 1 :])
        return tensor_type(result, element_of(x)), tensor_type(result, i64)

    @staticmethod
    def decompose(x: Value, *, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Value, Value]:
        axis = normalize_axis(axis, x.ndim)
        limits = tuple([k if i == axis else size for i, size in enumerate(x.shape)])
        if _IS_SERIAL.get() and 0 not in limits and _is_selected(k, x.shape[axis]):
            first = _along_rows(x, axis, lambda rows: ops.leading_places(rows, k=k, descending=largest))
        else:
            places = ops.argsort(x, axis=axis, descending=largest)
            first = ops.slice(places, starts=(0,) * x.ndim, limits=limits)
        return ops.gather_elements(x, first, axis=axis), first

    @staticmethod
    def vjp(
        g: tuple[Value, Value], out: tuple[Value, Value], x: Value, *, axis: int, **settings: Any
    ) -> tuple[Any, ...]:
        """To the elements at the places."""
        return (ops.scatter_elements(ops.zeros_like(x), out[1], g[0], axis=axis, reduction="add"),)
