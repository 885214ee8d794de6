"""Functions of neighbours along an axis, by the names that NumPy has for them: convolutions and slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating, shaped, vector_along
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.ops.reduce.measures import trapezoids
from tenon.dialects.types.shapes import normalize_axis

_MODES = ("full", "same", "valid")


def _vectors(function: str, x: Any, weight: Any, mode: str) -> tuple[Any, Any]:
    if mode not in _MODES:
        raise ValueError(f"{function}: mode is {mode!r}, none of 'full', 'same' and 'valid'")
    x, weight = shaped(x), shaped(weight)
    if x.ndim != 1 or weight.ndim != 1 or not x.shape[0] or not weight.shape[0]:
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"{function}: the shapes are {shapes} where two vectors that are not empty are needed")
    return x, weight


def _slid(x: Any, weight: Any, mode: str) -> Any:
    """The sums of products of `weight`, which is no longer than `x`, with what is below it as it slides along."""
    size = weight.shape[0]
    before = {"full": size - 1, "same": size // 2, "valid": 0}[mode]
    behind = size - 1 - before if mode == "same" else before
    padded = ops.pad(x, low=(before,), high=(behind,)) if size > 1 and mode != "valid" else x
    rows = [ops.reshape(v, shape=(1, 1, -1)) for v in (padded, weight)]
    return ops.reshape(ops.conv1d(*rows), shape=(-1,))


@tensor_function
@also_called(a="x", v="weight")
@one_program_of_large
def convolve(x: Any, weight: Any, mode: str = "full") -> Any:
    """The convolution of two vectors of n and m elements: n + m - 1 sums of products of elements whose indices have one
    sum; of them the max(n, m) in the middle ("same"), or those in which all of one vector takes part ("valid").

    >>> tenon.convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    """
    x, weight = _vectors("convolve", x, weight, mode)
    if weight.shape[0] > x.shape[0]:
        x, weight = weight, x
    return _slid(x, ops.flip(weight, axis=0), mode)


@tensor_function
@also_called(a="x", v="weight")
@one_program_of_large
def correlate(x: Any, weight: Any, mode: str = "valid") -> Any:
    """The sums of products of `weight` with the elements of `x` below it as it slides along: the convolution with
    `weight` in reverse order.

    >>> tenon.correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    """
    x, weight = _vectors("correlate", x, weight, mode)
    if weight.shape[0] > x.shape[0]:
        return ops.flip(_slid(weight, x, mode), axis=0)
    return _slid(x, weight, mode)


@tensor_function
@also_called(dim="axis", input="x")
def gradient(
    x: Any, *distances: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1, spacing: Any = None
) -> Any:
    """The slopes of `x` along each axis, or those of `axis`, by differences of neighbours, exact for parabolas; at the
    ends of order `edge_order`, 1 or 2. Neighbours are 1 apart, or as `distances` say (in PyTorch `spacing`): one
    number for all axes, or for each axis a number, or a vector of where the elements are.

    One array for one axis, and otherwise a tuple. Integers are taken as floats.

    >>> tenon.gradient(np.array([1.0, 2.0, 4.0, 7.0]))
    >>> tenon.gradient(np.array([1.0, 2.0, 4.0, 7.0]), np.array([0.0, 1.0, 3.0, 4.0]))
    """
    x = floating(x)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order} where 1 or 2 is needed")
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else [*axis]
    axes = [normalize_axis(one, x.ndim, "gradient: axis") for one in axes]
    if spacing is not None:
        distances = tuple(spacing) if isinstance(spacing, list | tuple) else (spacing,)
    if len(distances) == 1 and len(axes) > 1 and not shaped(distances[0]).ndim:
        distances = distances * len(axes)
    if distances and len(distances) != len(axes):
        raise TypeError(f"gradient: there are {len(distances)} distances and {len(axes)} axes")
    found = [_slope(x, at, given, edge_order) for at, given in zip(axes, distances or [1.0] * len(axes), strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(x: Any, axis: int, distance: Any, edge_order: int) -> Any:
    size = x.shape[axis]
    if size <= edge_order:
        raise ValueError(f"gradient: axis {axis} has size {size} where {edge_order + 1} or more are needed")
    distance = floating(distance) if not isinstance(distance, int | float) else distance
    if not isinstance(distance, int | float) and distance.ndim:
        if distance.ndim != 1 or distance.shape[0] != size:
            raise ValueError(
                f"gradient: the places have shape {tuple(distance.shape)}, and axis {axis} has size {size}"
            )
        steps = vector_along(ops.subtract(distance[1:], distance[:-1]), axis, x.ndim)
    else:
        steps = None

    def part(v: Any, first: int, count: int) -> Any:
        return ops.narrow(v, axis, first, count)

    rises = ops.subtract(part(x, 1, size - 1), part(x, 0, size - 1))
    rises = ops.divide(rises, distance if steps is None else steps)
    first, last = part(rises, 0, 1), part(rises, size - 2, 1)
    if size == 2:
        return ops.concatenate([first, last], axis=axis)
    before, after = part(rises, 0, size - 2), part(rises, 1, size - 2)
    if steps is None:
        share: Any = 0.5
        at_first = at_last = 0.5
    else:
        left, right = part(steps, 0, size - 2), part(steps, 1, size - 2)
        share = ops.divide(left, ops.add(left, right))
        at_first, at_last = part(share, 0, 1), ops.subtract(1, part(share, size - 3, 1))
    # Each slope is that of the parabola through three points: a mean of the rises beside it.
    inner = ops.add(before, ops.multiply(share, ops.subtract(after, before)))
    if edge_order == 2:
        first = ops.subtract(first, ops.multiply(at_first, ops.subtract(part(after, 0, 1), first)))
        last = ops.add(last, ops.multiply(at_last, ops.subtract(last, part(before, size - 3, 1))))
    return ops.concatenate([first, inner, last], axis=axis)


@tensor_function
@one_program_of_large
def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours among all elements of `x` in a row, behind `to_begin` and before `to_end`.

    >>> tenon.ediff1d(np.array([1, 2, 4, 7]), to_end=99)
    """
    x = ops.reshape(shaped(x), shape=(-1,))
    found = ops.subtract(x[1:], x[:-1])
    ends = [None if v is None else ops.reshape(ops.asarray(v, x.dtype), shape=(-1,)) for v in (to_begin, to_end)]
    return ops.concatenate([v for v in (ends[0], found, ends[1]) if v is not None], axis=0)


@tensor_function
@one_program_of_large
def polyval(p: Any, x: Any) -> Any:
    """The polynomial with the coefficients `p`, a vector, the highest power first, at `x`.

    >>> tenon.polyval(np.array([3.0, 0.0, 1.0]), np.array([1.0, 2.0]))
    """
    p, x = shaped(p), shaped(x)
    if p.ndim != 1:
        raise ValueError(f"polyval: p has rank {p.ndim} where a vector is needed")
    found = ops.multiply(ops.zeros_like(x), p[0] if p.shape[0] else 0)
    for place in range(p.shape[0]):
        found = ops.add(ops.multiply(found, x), p[place])
    return found


@tensor_function
@also_called(dim="axis")
@one_program_of_large
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Any:
    """The areas below `y` along `axis` up to each point but the first, by trapezoids, as `trapezoid` has them.

    >>> tenon.cumulative_trapezoid(np.array([1.0, 5.0, 10.0]))
    """
    y = floating(y)
    axis = normalize_axis(axis, y.ndim, "cumulative_trapezoid: axis")
    if y.shape[axis] < 2:
        return ops.narrow(y, axis, 0, 0)
    areas, share = trapezoids(y, x, dx, axis)
    return ops.multiply(ops.cumsum(areas, axis=axis), share)


@tensor_function
@also_called(p="x")
@one_program_of_large
def unwrap(x: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Any:
    """`x` along `axis` with multiples of `period` added where neighbours differ by more than half of it, or by
    `discont` at least if that is more, so that they do not.

    >>> tenon.unwrap(np.array([0.0, 2.0, 5.5, 0.2]))
    """
    x = floating(x)
    axis = normalize_axis(axis, x.ndim, "unwrap: axis")
    if x.shape[axis] < 2:
        return x
    half, steps = period / 2, ops.diff(x, axis=axis)
    turned = ops.subtract(ops.remainder(ops.add(steps, half), period), half)
    turned = ops.select(ops.logical_and(ops.equal(turned, -half), ops.greater(steps, 0)), half, turned)
    moved = ops.select(ops.less(ops.abs(steps), half if discont is None else discont), 0, ops.subtract(turned, steps))
    rest = ops.add(ops.narrow(x, axis, 1, x.shape[axis] - 1), ops.cumsum(moved, axis=axis))
    return ops.concatenate([ops.narrow(x, axis, 0, 1), rest], axis=axis)
