"""Sorting: argsort, sort and top_k.

On a CPU whose vectors can be packed by a mask, rows are sorted by partition (`partition_sorting`). Elsewhere, where one
thread does a row, many short rows are sorted side by side (`network_sorting`), as very short ones are everywhere, and
other rows of more than a few elements by their digits (`radix_sorting`). The first few elements are selected
(`row_selection`). Where a row is work for many threads, as on a GPU, blocks sort tiles of it by digits in memory that
their threads share, and move tiles of long rows by one digit after the other (`tile_sorting`). Short rows are sorted by
counting, for each element, those that go before it (`rank_sorting`). All of them keep the order of equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import log, log2, prod
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import AlongAxis
from tenon.dialects.ops.order.network_sorting import KEY_BITS
from tenon.dialects.ops.order.partition_sorting import sorted_places
from tenon.dialects.ops.order.radix_sorting import DIGIT_BITS
from tenon.dialects.ops.order.rank_sorting import LONGEST_SHORT, SHORT
from tenon.dialects.ops.order.tile_sorting import leading_places, sorted_rows
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import (
    ANY_TENSOR,
    INTEGER_TENSOR,
    bit_width,
    element_of,
    i64,
    shape_of,
    tensor_type,
)

_MOST_SELECTED = 128
"""How many elements of a row are selected one by one: in random order a thirtieth of what sorting the row costs, and at
worst, where each element is better than all before it, three times as much."""

_INSERTING, _MOVING = 60.0, 1.2
"""What it takes to insert an element among selected ones, and to move one of them, beside reading an element of a row
or one step of it, of log2(size), when the row is sorted."""

_GROUP_BITS = 512
"""Bits of the elements, one of each row, that are compared at once: one long vector or several shorter ones.
With twice as many, sorting took up to half as long again."""

_LONGEST_SORTED, _LONGEST_ARGSORTED = 1024, 256
"""Up to these lengths rows are sorted in groups: in about half the time that digits take, or less, so that a group
which is half empty is no loss. For indices, what is compared has 64 bits."""

_LONGEST_ARGSORTED_IN_COLUMNS = 12
"""As `_LONGEST_ARGSORTED`, where other rows are sorted by partition."""

_MOST_ARGSORTED = 1 << 21
"""How many elements of an operand are sorted in groups for their indices: with more, writing their keys to memory takes
longer than sorting by digits."""

_LONGEST_ROW = 2**31 - 1
"""Places in rows that are sorted are counted in i32."""


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
        # A single digit is faster than an element with its index.
        fits_key = DIGIT_BITS < bit_width(x.element_type) <= KEY_BITS
        if fits_key and _is_sorted_in_groups(x, axis, _LONGEST_ARGSORTED) and prod(x.shape) <= _MOST_ARGSORTED:
            sort = partial(ops.argsort_groups, descending=descending)
            return _along_rows(x, axis, lambda rows: _in_groups(rows, sort))
        if x.shape[axis] > SHORT:
            return _along_rows(x, axis, lambda rows: ops.argsort_rows(rows, descending=descending))
        return ArgsortOp.decompose_in_pieces(x, axis=axis, descending=descending)

    @classmethod
    def decompose_by_packing(
        cls, x: Value, *, packs: Collection[int], axis: int, descending: bool, stable: bool
    ) -> Value:
        has_digits = bit_width(x.element_type) > DIGIT_BITS
        if not has_digits or 64 not in packs or not _is_partitioned(x, axis, _LONGEST_ARGSORTED_IN_COLUMNS):
            return cls.decompose(x, axis=axis, descending=descending, stable=stable)
        return _along_rows(x, axis, lambda rows: sorted_places(rows, descending))

    @classmethod
    def decompose_in_pieces(cls, x: Value, *, axis: int, descending: bool, **settings: Any) -> Value:
        if 0 in x.shape:
            return ops.zeros(x.shape, "i64")
        if x.shape[axis] <= LONGEST_SHORT:
            sort = partial(ops.argsort_short_rows, descending=descending)
            return ops.cast(_along_rows(x, axis, sort), dtype=i64)
        return _along_rows(x, axis, lambda rows: leading_places(rows, rows.shape[1], descending))


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


def _is_sorted_in_groups(x: Value, axis: int, longest: int) -> bool:
    """Whether the rows of `x` along `axis` are no longer than `longest`, and fill half a group at least."""
    if any(isinstance(size, Size) for size in x.shape):
        return False
    size = x.shape[axis]
    return 1 < size <= longest and 2 * (prod(x.shape) // size) >= _group(x)


def _is_partitioned(x: Value, axis: int, longest: int) -> bool:
    """Whether the rows of `x` along `axis` are sorted by partition, where that is so of longer ones than `longest`, and
    of those that do not fill a group."""
    if any(isinstance(size, Size) for size in x.shape) or 0 in x.shape or x.shape[axis] == 1:
        return False
    return not _is_sorted_in_groups(x, axis, longest)


def _group(x: Value) -> int:
    """How many rows of `x` are sorted side by side."""
    return _GROUP_BITS // bit_width(x.element_type)


def _in_groups(x: Value, function: Callable[[Value], Value]) -> Value:
    """What `function` makes of `x` (rows, n) in groups (groups, rows, n)."""
    (rows, size), group = x.shape, _group(x)
    groups = -(-rows // group)
    if rows % group:
        x = ops.pad(x, low=(0, 0), high=(groups * group - rows, 0))
    result = function(ops.reshape(x, shape=(groups, group, size)))
    return ops.reshape(result, shape=(groups * group, size))[:rows]


def _is_selected(k: int, size: int) -> bool:
    """Whether one thread finds the first `k` of `size` elements in a row without sorting the rest, as that takes less
    time: in random order k (1 + log(size / k)) elements are inserted."""
    if k > _MOST_SELECTED or not 4 * k <= size:
        return False
    if k <= 1 or isinstance(size, Size):
        return True
    inserted = k * (1 + log(size / k))
    return size + inserted * (_INSERTING + _MOVING * k) <= size * log2(size)


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
        if _is_sorted_in_groups(x, axis, _LONGEST_SORTED):
            sort = partial(ops.sort_groups, descending=descending)
            return _along_rows(x, axis, lambda rows: _in_groups(rows, sort))
        if 0 not in x.shape and x.shape[axis] > SHORT:
            return _along_rows(x, axis, lambda rows: ops.sort_rows(rows, descending=descending))
        return SortOp.decompose_in_pieces(x, axis=axis, descending=descending, stable=stable)

    @classmethod
    def decompose_by_packing(
        cls, x: Value, *, packs: Collection[int], axis: int, descending: bool, stable: bool
    ) -> Value:
        if bit_width(x.element_type) not in packs or not _is_partitioned(x, axis, _group(x) - 1):
            return cls.decompose(x, axis=axis, descending=descending, stable=stable)
        return _along_rows(x, axis, lambda rows: ops.partition_sort(rows, descending=descending))

    @classmethod
    def decompose_in_pieces(cls, x: Value, *, axis: int, descending: bool, stable: bool) -> Value:
        if 0 not in x.shape and x.shape[axis] > LONGEST_SHORT:
            return _along_rows(x, axis, lambda rows: sorted_rows(rows, descending))
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
        if 0 in (k, *x.shape) or not _is_selected(k, x.shape[axis]):
            return _first_of_sorted(x, k, axis, largest)
        first = _along_rows(x, axis, lambda rows: ops.leading_places(rows, k=k, descending=largest))
        return ops.gather_elements(x, first, axis=axis), first

    @classmethod
    def decompose_in_pieces(cls, x: Value, *, k: int, axis: int, largest: bool, **settings: Any) -> tuple[Value, Value]:
        if 0 in (k, *x.shape) or x.shape[axis] <= LONGEST_SHORT:
            return _first_of_sorted(x, k, axis, largest)
        first = _along_rows(x, axis, lambda rows: leading_places(rows, k, largest))
        return ops.gather_elements(x, first, axis=axis), first

    @staticmethod
    def vjp(
        g: tuple[Value, Value], out: tuple[Value, Value], x: Value, *, axis: int, **settings: Any
    ) -> tuple[Any, ...]:
        """To the elements at the places."""
        return (ops.scatter_elements(ops.zeros_like(x), out[1], g[0], axis=axis, reduction="add"),)


def _first_of_sorted(x: Value, k: int, axis: int, descending: bool) -> tuple[Value, Value]:
    """The first `k` elements of what is sorted as a whole, and their indices."""
    axis = normalize_axis(axis, x.ndim)
    limits = tuple([k if i == axis else size for i, size in enumerate(x.shape)])
    places = ops.argsort(x, axis=axis, descending=descending)
    first = ops.slice(places, starts=(0,) * x.ndim, limits=limits)
    return ops.gather_elements(x, first, axis=axis), first
