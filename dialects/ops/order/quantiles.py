"""What sorting says of the elements along an axis: medians and quantiles, and counts of integers."""

from __future__ import annotations

from typing import Any

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.shapes import normalize_axis
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


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def quantile(x: Any, q: float, axis: int | None = None, keepdims: bool = False) -> Any:
    """What the share `q` of the elements along `axis`, or of all, is at most: between two of them, on the line through
    both (method 7 of Hyndman and Fan, 1996). NaN counts as the largest.

    >>> tenon.quantile(np.array([1.0, 2.0, 3.0, 10.0]), 0.5)
    """
    if not 0 <= q <= 1:
        raise ValueError(f"quantile: q is {q!r} where a number from 0 to 1 is needed")
    rows = _rows(x, axis)
    place = q * (rows.shape[-1] - 1)
    below = int(place)
    ordered = ops.sort(rows, axis=-1)
    low, high = ordered[..., below], ordered[..., min(below + 1, rows.shape[-1] - 1)]
    return _kept(ops.lerp(low, high, place - below) if place != below else low, x, axis, keepdims)


@tensor_function
@also_called(dim="axis", keepdim="keepdims", input="x")
def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The element in the middle of those along `axis`, or of all, when they are sorted: of an even number the lower
    of the two, as in PyTorch (`quantile(x, 0.5)` is between them, as NumPy's median). Without places: PyTorch's
    `median(x, dim)` gives these, too.

    >>> tenon.median(np.array([[1, 5, 2], [4, 0, 9]]), axis=1)
    """
    rows = _rows(x, axis)
    return _kept(ops.sort(rows, axis=-1)[..., (rows.shape[-1] - 1) // 2], x, axis, keepdims)


@tensor_function
@also_called(input="x")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 on is in the vector `x`, or the sums of the `weights` of each.

    There are `minlength` counts, and outside of traces as many more as `x` has larger integers; in a trace these are
    left out, as their number depends on values, and so are negative ones, which are an error outside.

    >>> tenon.bincount(np.array([0, 2, 2]), minlength=2)
    """
    x = shaped(x)
    if x.ndim != 1:
        raise ValueError(f"bincount: x has rank {x.ndim} where a vector is needed")
    count = minlength
    if isinstance(x, Value):
        # As an index a negative one would count from the end. The type must hold the number of counts.
        x = ops.cast(x, dtype=i64)
        x = ops.select(x < 0, count, x)
    elif x.size:
        count = max(count, int(x.max()) + 1)
        if int(x.min()) < 0:
            raise ValueError("bincount: x has negative integers")
    given = ops.ones_like(x) if weights is None else shaped(weights)
    return ops.scatter_add(ops.zeros((count,), given.dtype), x, given, axis=0)
