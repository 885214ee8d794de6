"""Counts of elements between edges, by the names that NumPy has for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.operands import floating, shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import check_count


@tensor_function
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Between which of `bins`, which rise, or fall if they are known, each element lies: the number of those not above
    it, or, with `right`, below it; of bins that fall, of those above it.

    >>> tenon.digitize(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0]))
    """
    bins = shaped(bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins have rank {bins.ndim} where a vector is needed")
    held = getattr(bins, "_array", bins)
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
