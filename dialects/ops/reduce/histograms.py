"""Counts of elements between edges, and measures that leave some elements out or change those that are too large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating, shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.support.plain_arrays import elements_of
from tenon.dialects.types.shapes import check_count, normalize_axis


@tensor_function
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Between which of `bins`, which rise, or fall if they are known, each element lies: the number of those not above
    it, or, with `right`, below it; of bins that fall, of those above it.

    >>> tenon.digitize(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0]))
    """
    bins = shaped(bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins have rank {bins.ndim} where a vector is needed")
    held = elements_of(bins)
    if isinstance(held, np.ndarray) and held.shape[0] > 1 and held[0] > held[-1]:
        found = ops.searchsorted(ops.flip(bins, axis=0), x, side="left" if right else "right")
        return ops.subtract(bins.shape[0], found)
    return ops.searchsorted(bins, x, side="left" if right else "right")


@tensor_function
@also_called(a="x", input="x", weight="weights")
def histogram(
    x: Any, bins: Any = 10, range: tuple[float, float] | None = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any]:
    """How many elements of `x` lie between neighbouring edges (i64), or the sums of their `weights`, and the edges: a
    vector `bins`, or those of so many equal parts of `range`, of all elements without it. The last part has both of its
    edges. With `density`, over the widths and the sum of all: an integral of 1.

    >>> tenon.histogram(np.array([0.0, 1.0, 1.5, 4.0]), 4)
    """
    flat = ops.reshape(shaped(x), shape=(-1,))
    edges = _edges(flat, bins, range)
    count = edges.shape[0] - 1
    places = ops.subtract(ops.searchsorted(edges, flat, side="right"), 1)
    places = ops.select(ops.equal(flat, edges[count]), count - 1, places)
    inside = ops.logical_and(ops.greater_equal(flat, edges[0]), ops.less_equal(flat, edges[count]))
    places = ops.select(inside, places, count)  # which is outside, and left out
    given = ops.full_like(places, 1) if weights is None else ops.reshape(shaped(weights), shape=(-1,))
    if tuple(given.shape) != tuple(flat.shape):
        raise ValueError(f"histogram: x has {flat.shape[0]} elements, and there are {given.shape[0]} weights")
    found = ops.scatter_add(ops.zeros((count,), dtype=given.dtype), places, given)
    if density:
        widths = floating(ops.subtract(edges[1:], edges[:-1]))
        found = ops.divide(ops.divide(floating(found), widths), ops.sum(found))
    return found, edges


def _edges(flat: Any, bins: Any, limits: tuple[float, float] | None) -> Any:
    if not isinstance(bins, int):
        bins = shaped(bins)
        if bins.ndim != 1 or bins.shape[0] < 2:
            raise ValueError(f"histogram: bins have shape {tuple(bins.shape)} where a vector of edges is needed")
        return bins
    check_count("histogram", "bins", bins)
    if not bins:
        raise ValueError("histogram: there are 0 bins where 1 or more is needed")
    if limits is None and not flat.shape[0]:
        limits = 0.0, 1.0
    wide = floating(flat)
    if limits is not None:
        low, high = (float(limit) for limit in limits)
        if high < low:
            raise ValueError(f"histogram: range is {limits}, which falls")
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        return ops.asarray(np.linspace(low, high, bins + 1), wide.dtype)
    low, high = ops.min(wide), ops.max(wide)
    is_one = ops.equal(low, high)
    low, high = ops.select(is_one, ops.subtract(low, 0.5), low), ops.select(is_one, ops.add(high, 0.5), high)
    shares = ops.asarray(np.arange(bins) / bins, wide.dtype)
    rising = ops.add(low, ops.multiply(shares, ops.subtract(high, low)))
    return ops.concatenate([rising, ops.reshape(high, shape=(1,))], axis=0)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanvar(x: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    """The variance along `axis`, or of all elements, of those that are not NaN: over their number less `ddof`, and NaN
    where that is not positive.

    >>> tenon.nanvar(np.array([1.0, np.nan, 2.0]))
    """
    x = floating(x)
    counts = ops.logical_not(ops.isnan(x))
    number = ops.subtract(ops.count_nonzero(counts, axis=axis, keepdims=keepdims), ddof)
    wide = x if x.dtype.itemsize > 2 else ops.cast(x, dtype="f32")
    off = ops.select(counts, ops.subtract(wide, ops.nanmean(wide, axis=axis, keepdims=True)), 0)
    total = ops.sum(ops.square(off), axis=axis, keepdims=keepdims)
    number = ops.select(ops.greater(number, 0), ops.cast(number, dtype=total.dtype), math.nan)
    return ops.cast(ops.divide(total, number), dtype=x.dtype)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanstd(x: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    """The root of the variance that `nanvar` gives.

    >>> tenon.nanstd(np.array([1.0, np.nan, 2.0]))
    """
    return ops.sqrt(nanvar(x, axis, ddof=ddof, keepdims=keepdims))


@tensor_function
@also_called(dim="axis", input="x")
@one_program_of_large
def renorm(x: Any, p: float, axis: int, maxnorm: float) -> Any:
    """`x`, of which each part along `axis` whose norm of order `p` is larger than `maxnorm` is made as small as that.

    >>> tenon.renorm(np.array([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "renorm: axis")
    others = tuple([i for i in range(x.ndim) if i != axis])
    size = ops.norm(x, p=float(p), axis=others, keepdims=True)
    # The small number is PyTorch's.
    return ops.multiply(x, ops.select(ops.greater(size, maxnorm), ops.divide(maxnorm, ops.add(size, 1e-7)), 1))
