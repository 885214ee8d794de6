"""What is told of data, by the names and arguments that PyTorch has for it: counts, areas and covariances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating, shaped, vector_along
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import compute_type, element_type, is_float, numpy_dtype


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def var_mean(
    x: Any, axis: Any = None, *, correction: float = 1, keepdims: bool = False, unbiased: bool = True
) -> tuple[Any, Any]:
    """The variances along `axis`, or of all elements, and the means. The former divide by the number of elements less
    `correction`, which is 1 here, as in PyTorch, or 0 if not `unbiased`; `tenon.var` divides by the number.

    >>> tenon.var_mean(np.array([1.0, 2.0, 6.0]))
    """
    x = shaped(x)
    ddof = correction if unbiased else 0
    return ops.var(x, axis=axis, ddof=ddof, keepdims=keepdims), ops.mean(x, axis=axis, keepdims=keepdims)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def std_mean(
    x: Any, axis: Any = None, *, correction: float = 1, keepdims: bool = False, unbiased: bool = True
) -> tuple[Any, Any]:
    """The roots of the variances, and the means, that `var_mean` gives.

    >>> tenon.std_mean(np.array([1.0, 2.0, 6.0]))
    """
    variance, mean = var_mean(x, axis, correction=correction, keepdims=keepdims, unbiased=unbiased)
    return ops.sqrt(variance), mean


@tensor_function
@also_called(input="x")
@one_program_of_large
def cov(x: Any, correction: float = 1) -> Any:
    """The covariances (m, m) of the rows of `x` (m, n), each of which is a variable: the sums of the products of their
    differences from the means, over n - `correction`.

    >>> tenon.cov(np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 0.0]]))
    """
    x = shaped(x)
    if x.ndim != 2:
        raise ValueError(f"cov: x has rank {x.ndim} where 2 is needed, a row for each variable")
    centered = ops.subtract(x, ops.mean(x, axis=1, keepdims=True))
    return ops.divide(ops.matmul(centered, ops.transpose(centered)), float(x.shape[1] - correction))


@tensor_function
@also_called(input="x")
@one_program_of_large
def corrcoef(x: Any) -> Any:
    """The correlations (m, m) of the rows of `x` (m, n): their covariances over the roots of both variances.

    >>> tenon.corrcoef(np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 0.0]]))
    """
    found = cov(x)
    deviations = ops.sqrt(ops.diagonal(found))
    scaled = ops.divide(found, ops.expand_dims(deviations, axis=1))
    return ops.clip(ops.divide(scaled, ops.expand_dims(deviations, axis=0)), low=-1.0, high=1.0)


@tensor_function
@also_called(input="x")
def bucketize(x: Any, boundaries: Any, *, right: bool = False) -> Any:
    """Between which `boundaries`, in ascending order, each element lies: the number of those below it, or, with
    `right`, not above it.

    >>> tenon.bucketize(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0]))
    """
    return ops.searchsorted(boundaries, x, side="right" if right else "left")


@tensor_function
@also_called(input="x")
@one_program_of_large
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements of `x` lie in each of `bins` equal parts of [min, max], in the dtype of `x`, or i64 if that is
    an integer; others do not count. Where both are the same, the least and the greatest element are meant.

    >>> tenon.histc(np.array([0.0, 1.0, 1.5, 4.0]), bins=4, min=0, max=4)
    """
    if bins < 1:
        raise ValueError(f"histc: there are {bins} bins where 1 or more is needed")
    if min > max:
        raise ValueError(f"histc: min is {min}, above max, which is {max}")
    given = shaped(x)
    flat = ops.reshape(floating(given), shape=(-1,))
    low: Any = min if min != max else ops.min(flat)
    high: Any = max if min != max else ops.max(flat)
    width = ops.subtract(high, low) if min == max else max - min
    if min == max:  # all elements may be the same
        low = ops.select(ops.equal(width, 0), ops.subtract(low, 1), low)
        width = ops.select(ops.equal(width, 0), ops.full_like(width, 2), width)
        high = ops.add(low, width)
    places = ops.floor(ops.multiply(ops.divide(ops.subtract(flat, low), width), bins))
    counts = ops.logical_and(ops.greater_equal(flat, low), ops.less_equal(flat, high))
    places = ops.cast(ops.clip(ops.select(counts, places, 0.0), low=0, high=bins - 1), dtype="i64")
    # Counted in integers: floats of 16 bits stop at 256 or 2048.
    found = ops.scatter_add(ops.zeros((bins,), dtype="i64"), places, ops.cast(counts, dtype="i64"))
    return found if given.dtype.kind in "biu" else ops.cast(found, dtype=given.dtype)


@tensor_function
@also_called(dim="axis")
@one_program_of_large
def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Any:
    """The area below `y` along `axis`, by trapezoids between its points, which lie at `x`, or `dx` apart.
    Integers are taken as floats: of 8 and 16 bits as f32, wider ones as f64.

    >>> tenon.trapezoid(np.array([1.0, 5.0, 10.0]), np.array([1.0, 3.0, 6.0]))
    """
    y = floating(y)
    axis = normalize_axis(axis, y.ndim, "trapezoid: axis")
    areas, share = trapezoids(y, x, dx, axis)
    return ops.multiply(ops.sum(areas, axis=axis), share)


def trapezoids(y: Any, x: Any, dx: float, axis: int) -> tuple[Any, Any]:
    """The areas between neighbours along `axis`, but for a factor that all have, and that."""
    sums = ops.add(ops.narrow(y, axis, 1, y.shape[axis] - 1), ops.narrow(y, axis, 0, y.shape[axis] - 1))
    if x is None:
        return sums, dx / 2
    x = floating(x)
    along = axis if x.ndim == y.ndim else 0
    steps = ops.subtract(ops.narrow(x, along, 1, x.shape[along] - 1), ops.narrow(x, along, 0, x.shape[along] - 1))
    return ops.multiply(sums, vector_along(steps, axis, y.ndim) if x.ndim == 1 and y.ndim > 1 else steps), 0.5


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def kthvalue(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Any, Any]:
    """The `k`th smallest element along `axis`, counted from 1, and its place.

    >>> tenon.kthvalue(np.array([4.0, 1.0, 3.0]), 2)
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "kthvalue: axis")
    if not 1 <= k <= x.shape[axis]:
        raise ValueError(f"kthvalue: k is {k}, and there are {x.shape[axis]} elements along axis {axis}")
    order = ops.narrow(ops.argsort(x, axis=axis), axis, k - 1, 1)
    values = ops.take_along_axis(x, order, axis=axis)
    return (values, order) if keepdims else (ops.squeeze(values, axis=axis), ops.squeeze(order, axis=axis))


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nansum(x: Any, axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> Any:
    """The sum of `x` along `axis`, or of all elements, in which NaN counts as 0.

    >>> tenon.nansum(np.array([1.0, np.nan, 2.0]))
    """
    x = shaped(x)
    return ops.sum(_without_nan(x, 0), axis=axis, keepdims=keepdims, dtype=dtype)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanmean(x: Any, axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> Any:
    """The mean along `axis`, or of all elements, of those that are not NaN; NaN where there are none.

    >>> tenon.nanmean(np.array([1.0, np.nan, 2.0]))
    """
    x = floating(x) if dtype is None else ops.cast(x, dtype=dtype)
    count = ops.count_nonzero(ops.logical_not(ops.isnan(x)), axis=axis, keepdims=keepdims)
    wide = numpy_dtype(compute_type(element_type(x.dtype)))
    # As for `mean`: f16 holds neither the sum nor the count.
    total = ops.sum(ops.cast(_without_nan(x, 0), dtype=wide), axis=axis, keepdims=keepdims)
    return ops.cast(ops.divide(total, ops.cast(count, dtype=total.dtype)), dtype=x.dtype)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanmax(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest element along `axis`, or of all, that is not NaN; NaN where there is none.

    >>> tenon.nanmax(np.array([1.0, np.nan, 2.0]))
    """
    return _extreme(ops.max, -math.inf, x, axis, keepdims)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def nanmin(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The smallest element along `axis`, or of all, that is not NaN; NaN where there is none.

    >>> tenon.nanmin(np.array([1.0, np.nan, 2.0]))
    """
    return _extreme(ops.min, math.inf, x, axis, keepdims)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
@one_program_of_large
def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest less the smallest element along `axis`, or of all.

    >>> tenon.ptp(np.array([[1, 5], [2, 9]]), axis=1)
    """
    x = shaped(x)
    return ops.subtract(ops.max(x, axis=axis, keepdims=keepdims), ops.min(x, axis=axis, keepdims=keepdims))


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean along `axis`, or of all elements, in which each counts by its one of `weights`, which have the shape of
    `x` or are a vector along the one axis; with `returned`, and the sums of the weights. Integers are taken as floats.

    >>> tenon.average(np.array([1.0, 2.0, 6.0]), weights=np.array([1.0, 1.0, 2.0]))
    """
    x = floating(x)
    if weights is None:
        found = ops.mean(x, axis=axis, keepdims=keepdims)
        count = math.prod(x.shape) / max(math.prod(found.shape), 1)
        return (found, ops.full_like(found, count)) if returned else found
    weights = floating(weights)
    if tuple(weights.shape) != tuple(x.shape):
        if weights.ndim != 1 or not isinstance(axis, int):
            shapes = f"{tuple(weights.shape)}, and x {tuple(x.shape)}"
            raise ValueError(f"average: weights have shape {shapes}; a vector of them is for one axis")
        at = normalize_axis(axis, x.ndim, "average: axis")
        if weights.shape[0] != x.shape[at]:
            raise ValueError(f"average: there are {weights.shape[0]} weights, and axis {axis} has size {x.shape[at]}")
        weights = vector_along(weights, at, x.ndim)
    found, total = _weighted_mean(x, weights, axis, keepdims)
    return (found, total) if returned else found


@one_program_of_large
def _weighted_mean(x: Any, weights: Any, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    weighted = ops.multiply(x, weights)
    weights = ops.broadcast_to(ops.cast(weights, dtype=weighted.dtype), shape=tuple(x.shape))
    total = ops.sum(weights, axis=axis, keepdims=keepdims)
    return ops.divide(ops.sum(weighted, axis=axis, keepdims=keepdims), total), total


def _without_nan(x: Any, instead: float) -> Any:
    return ops.select(ops.isnan(x), instead, x) if is_float(element_type(x.dtype)) else x


def _extreme(reduce: Any, neutral: float, x: Any, axis: Any, keepdims: bool) -> Any:
    x = shaped(x)
    found = reduce(_without_nan(x, neutral), axis=axis, keepdims=keepdims)
    if not is_float(element_type(x.dtype)):
        return found
    return ops.select(ops.all(ops.isnan(x), axis=axis, keepdims=keepdims), math.nan, found)


class Extremes(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def aminmax(x: Any, *, axis: Any = None, keepdims: bool = False) -> Extremes:
    """The smallest and the largest element along `axis`, or of all.

    >>> tenon.aminmax(np.array([1.0, 3.0, 2.0]))
    """
    x = shaped(x)
    return Extremes(ops.min(x, axis=axis, keepdims=keepdims), ops.max(x, axis=axis, keepdims=keepdims))


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def dist(x: Any, y: Any, p: float = 2.0) -> Any:
    """The norm `p` of all elements of `x` - `y`, as of one vector; where it is 0 its gradient is 0.

    >>> tenon.dist(np.array([0.0, 3.0]), np.array([4.0, 0.0]))
    """
    return ops.norm(floating(ops.subtract(x, y)), p=p)
