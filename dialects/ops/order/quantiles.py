"""What sorting says of the elements along an axis: medians, modes and quantiles, and counts of integers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import axis_or_all, floating, shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.types.shapes import InferenceError, normalize_axis
from tenon.dialects.types.types import i64


def _rows(x: Any, axis: int | None) -> Any:
    """`x` with the axis, or all elements, as the last one."""
    x = shaped(x)
    if axis is None:
        return ops.reshape(x, shape=(-1,))
    axis = normalize_axis(axis, x.ndim, "axis")
    order = [i for i in range(x.ndim) if i != axis]
    return ops.transpose(x, permutation=(*order, axis))


def _kept(found: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    if not keepdims:
        return found
    rank = shaped(x).ndim
    return ops.expand_dims(found, axis=tuple(range(rank)) if axis is None else normalize_axis(axis, rank, "axis"))


def _ordered(x: Any, axis: int | None, what: str) -> Any:
    """The elements along the axis, or all, in order; raises `InferenceError` where there are none."""
    rows = _rows(x, axis)
    if rows.shape[-1] == 0:
        raise InferenceError(f"{what}: x of shape {shaped(x).shape} has no elements to take it of")
    return ops.sort(rows, axis=-1)


def _shares(function: str, q: Any) -> np.ndarray[Any, Any]:
    """Which shares of the elements are asked for: a number or a vector."""
    shares = np.asarray(plain_array(q, f"{function}: q"), np.float64)
    if shares.ndim > 1 or not shares.size or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"{function}: q is {q!r} where a number from 0 to 1, or a list of such, is needed")
    return shares


def _or_nan(found: Any, ordered: Any) -> Any:
    """`found`, or the NaN that is among the elements: it is the last of them."""
    last = ordered[..., -1]
    return ops.select(ops.isnan(last), last, found)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def quantile(x: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """What the share `q` of the elements along `axis`, or of all, is at most: between two of them, on the line through
    both (method 7 of Hyndman and Fan, 1996); NaN if there is any. Several shares, in a list, are the first dimension.

    >>> tenon.quantile(np.array([1.0, 2.0, 3.0, 10.0]), 0.5)
    >>> tenon.quantile(np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 9.0]]), [0.25, 0.5], axis=1)
    """
    shares = _shares("quantile", q)
    ordered = _ordered(x, axis, "quantile")
    found = [
        _kept(_or_nan(_between(ordered, share), ordered), x, axis, keepdims) for share in shares.reshape(-1).tolist()
    ]
    return ops.stack(found) if shares.ndim else found[0]


def _between(ordered: Any, share: float) -> Any:
    count = ordered.shape[-1]
    place = share * (count - 1)
    below = int(place)
    low, high = ordered[..., below], ordered[..., min(below + 1, count - 1)]
    return ops.lerp(low, high, place - below) if place != below else low


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The element in the middle of those along `axis`, or of all, when they are sorted: of an even number the lower
    of the two, as in PyTorch (`quantile(x, 0.5)` is between them, as NumPy's median); NaN if there is any. Without
    places: PyTorch's `median(x, dim)` gives these, too.

    >>> tenon.median(np.array([[1, 5, 2], [4, 0, 9]]), axis=1)
    """
    ordered = _ordered(x, axis, "median")
    return _kept(_or_nan(ordered[..., (ordered.shape[-1] - 1) // 2], ordered), x, axis, keepdims)


@tensor_function
@also_called(input="x")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 on is in the vector `x`, or the sums of the `weights` of each.

    Counts are i64, whatever `x` is, sums those of floats, of integers as f64. There are `minlength` counts, and outside
    of traces as many more as `x` has larger integers; in a trace these are left out, as their number depends on values,
    and so are negative ones, which are an error outside.

    >>> tenon.bincount(np.array([0, 2, 2]), minlength=2)
    """
    x = shaped(x)
    if x.ndim != 1:
        raise ValueError(f"bincount: x has rank {x.ndim} where a vector is needed")
    if x.dtype.kind not in "biu":
        raise InferenceError(f"bincount: x has dtype {x.dtype} where integers are needed")
    count = minlength
    if not isinstance(x, Value) and x.size:
        count = max(count, int(x.max()) + 1)
        if int(x.min()) < 0:
            raise ValueError("bincount: x has negative integers")
    return _counted(x, weights, count)


@one_program_of_large
def _counted(x: Any, weights: Any, count: Any) -> Any:
    # A narrow type holds neither the counts nor, where a negative one is put last, their number.
    x = ops.cast(x, dtype=i64)
    given = ops.ones_like(x) if weights is None else shaped(weights)
    if weights is not None and given.dtype.kind in "biu":
        given = ops.cast(given, dtype="f64")
    # As an index a negative one would count from the end.
    return ops.scatter_add(ops.zeros((count,), given.dtype), ops.select(x < 0, count, x), given, axis=0)


@tensor_function
def percentile(x: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """`quantile` of `q` hundredths.

    >>> tenon.percentile(np.array([1.0, 2.0, 3.0, 10.0]), 50)
    """
    return quantile(x, np.asarray(plain_array(q, "percentile: q"), np.float64) / 100, axis, keepdims)


def _known_first(x: Any, axis: int | None, what: str) -> tuple[Any, Any]:
    """The elements in order, NaN last, and how many are not NaN, with an axis of size 1."""
    ordered = _ordered(x, axis, what)
    return ordered, ops.count_nonzero(ops.logical_not(ops.isnan(ordered)), axis=-1, keepdims=True)


def _at(ordered: Any, place: Any, known: Any) -> Any:
    found = ops.take_along_axis(ordered, ops.maximum(place, 0), axis=-1)
    return ops.squeeze(ops.select(ops.greater(known, 0), found, math.nan), axis=-1)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanmedian(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """What `median` is of the elements that are not NaN: of an even number the lower of the two in the middle, as in
    PyTorch (`nanquantile(x, 0.5)` is between them, as NumPy's); NaN where there is none. Without places.

    >>> tenon.nanmedian(np.array([1.0, np.nan, 2.0, 5.0]))
    """
    x = floating(x)
    ordered, known = _known_first(x, axis, "nanmedian")
    return _kept(_at(ordered, ops.floor_divide(ops.subtract(known, 1), 2), known), x, axis, keepdims)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def nanquantile(x: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """What `quantile` is of the elements that are not NaN; NaN where there is none.

    >>> tenon.nanquantile(np.array([1.0, np.nan, 2.0, 6.0]), 0.75)
    """
    x, shares = floating(x), _shares("nanquantile", q)
    ordered, known = _known_first(x, axis, "nanquantile")
    found: list[Any] = []
    for share in shares.reshape(-1).tolist():
        place = ops.multiply(ops.cast(ops.subtract(known, 1), dtype="f64"), share)
        below = ops.cast(place, dtype="i64")
        low, high = _at(ordered, below, known), _at(ordered, ops.minimum(below + 1, known - 1), known)
        weight = ops.squeeze(ops.cast(place - ops.floor(place), dtype=low.dtype), axis=-1)
        found.append(_kept(ops.select(ops.equal(weight, 0), low, ops.lerp(low, high, weight)), x, axis, keepdims))
    return ops.stack(found) if shares.ndim else found[0]


class Mode(NamedTuple):
    """What `mode` returns."""

    values: Any
    indices: Any


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def mode(x: Any, axis: int = -1, keepdims: bool = False) -> Mode:
    """The element that is there most often along `axis`, the smallest of several, and the last place (i64) where it is:
    `(values, indices)`. NaN equals nothing, itself included. Raises `InferenceError` where there are no elements.

    >>> tenon.mode(np.array([[3, 1, 3], [2, 1, 0]]))
    """
    x = shaped(x)
    if not x.ndim:
        return Mode(x, ops.zeros((), "i64"))
    axis = normalize_axis(axis, x.ndim, "mode: axis")
    if not x.shape[axis]:
        raise InferenceError(f"mode: x of shape {x.shape} has no elements along axis {axis}")
    return Mode(*_most_often(x, axis, keepdims))


@one_program_of_large
def _most_often(x: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    rows = _rows(x, axis)
    order = ops.argsort(rows, axis=-1)
    ordered = ops.take_along_axis(rows, order, axis=-1)
    places = ops.iota(shape=(rows.shape[-1],), dtype="i64")
    is_other = ops.not_equal(ordered[..., 1:], ordered[..., :-1])
    begins = ops.concatenate([ops.zeros_like(order[..., :1]), ops.cast(is_other, dtype="i64") * places[1:]], axis=-1)
    runs = places - ops.cummax(begins, axis=-1)[0]
    best = ops.expand_dims(ops.argmax(runs, axis=-1), axis=-1)
    found = [ops.squeeze(ops.take_along_axis(given, best, axis=-1), axis=-1) for given in (ordered, order)]
    return _kept(found[0], x, axis, keepdims), _kept(found[1], x, axis, keepdims)


def _checked_places(function: str, x: Any, kth: Any, axis: int | None) -> tuple[Any, int]:
    """`x`, or all of its elements, and the axis, after a check that the places `kth` are there."""
    x, axis = axis_or_all(function, shaped(x), axis)
    size, places = x.shape[axis], np.asarray(kth)
    if places.dtype.kind not in "iu" or places.ndim > 1:
        raise TypeError(f"{function}: kth is {kth!r} where an integer, or a list of such, is needed")
    outside = places[(places < -size) | (places >= size)]
    if outside.size and 0 not in x.shape:
        raise ValueError(f"{function}: kth is {outside.flat[0]}, and there are {size} elements along axis {axis}")
    return x, axis


@tensor_function
@also_called(a="x", dim="axis", input="x")
def partition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    """`x` along `axis`, or all of its elements, rearranged so that at the place `kth`, or at several, there is what is
    there in order; before it is nothing that is larger, and behind it nothing that is smaller. All of it is in order.

    Raises `ValueError` for a place that is not there.

    >>> tenon.partition(np.array([3, 1, 4, 1, 5]), 2)
    """
    x, axis = _checked_places("partition", x, kth, axis)
    return ops.sort(x, axis=axis)


@tensor_function
@also_called(a="x", dim="axis", input="x")
def argpartition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    """The indices (i64) along `axis` of the elements as `partition` rearranges them.

    >>> tenon.argpartition(np.array([3, 1, 4, 1, 5]), 2)
    """
    x, axis = _checked_places("argpartition", x, kth, axis)
    return ops.argsort(x, axis=axis)
