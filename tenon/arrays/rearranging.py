"""The standard's functions that rearrange and repeat, as compositions of ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.ops.move.creation import filled, sizes_and_dtype
from tenon.dialects.types.shapes import normalize_axis


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of `shapes` are broadcast to where they meet; an error where they do not."""
    return np.broadcast_shapes(*shapes)


def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Each of the arrays, broadcast to the shape in which they meet."""
    given = [shaped(x) for x in arrays]
    shape = np.broadcast_shapes(*[tuple(x.shape) for x in given])
    return tuple([ops.broadcast_to(x, shape=shape) for x in given])


@also_called(input="x")
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Any:
    """`x` with the axes `source` at the places `destination`, and all others in their order."""
    rank = shaped(x).ndim
    taken = [source] if isinstance(source, int) else source
    places = [destination] if isinstance(destination, int) else destination
    moved = [normalize_axis(axis, rank, "moveaxis: source") for axis in taken]
    to = [normalize_axis(axis, rank, "moveaxis: destination") for axis in places]
    if len(moved) != len(to) or len(set(moved)) != len(moved) or len(set(to)) != len(to):
        raise ValueError(f"moveaxis: source is {source} and destination {destination}; both name axes, each once")
    order = [axis for axis in range(rank) if axis not in moved]
    for place, axis in sorted(zip(to, moved, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, permutation=tuple(order))


def matrix_transpose(x: Any, /) -> Any:
    """The matrices `x` (..., m, n), each transposed (..., n, m)."""
    rank = shaped(x).ndim
    if rank < 2:
        raise ValueError(f"matrix_transpose: x has rank {rank} where 2 or more is needed")
    return ops.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


@also_called(size="shape")
def empty(
    *sizes: Any, shape: Any = None, dtype: object = None, device: str | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of a shape (sizes or one tuple of them) for contents to come, f32 by default. Its elements are 0:
    nothing depends on chance."""
    size, dtype = sizes_and_dtype("empty", sizes if shape is None else (shape, *sizes), dtype)
    return filled("empty", size, 0, dtype, device, requires_grad)


@also_called(input="x")
def empty_like(x: Any, *, dtype: object = None, device: str | None = None, requires_grad: bool = False) -> Any:
    """A tensor of `x`'s shape for contents to come, of its dtype by default. Its elements are 0."""
    return ops.zeros_like(x, dtype=dtype, device=device, requires_grad=requires_grad)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False) -> Any:
    """The sums of the elements of `x` up to each place along `axis`, behind a 0 with `include_initial`.

    `axis` may be left out of a vector. Integers keep their dtype unless `dtype` is another.
    """
    return _running("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False) -> Any:
    """The products of the elements of `x` up to each place along `axis`, behind a 1 with `include_initial`.

    `axis` may be left out of a vector. Integers keep their dtype unless `dtype` is another.
    """
    return _running("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def _running(name: str, op: Any, initial: int, x: Any, axis: int | None, dtype: object, include_initial: bool) -> Any:
    values = shaped(x) if dtype is None else ops.cast(x, dtype=dtype)
    if axis is None and values.ndim != 1:
        raise ValueError(f"{name}: axis is missing where x has rank {values.ndim}")
    axis = normalize_axis(0 if axis is None else axis, values.ndim, f"{name}: axis")
    result = op(values, axis=axis)
    if not include_initial:
        return result
    first = tuple([1 if i == axis else size for i, size in enumerate(values.shape)])
    return ops.concatenate([ops.full(first, initial, result.dtype), result], axis=axis)


@also_called(input="x")
def positive(x: Any) -> Any:
    """`x` as it is."""
    return ops.identity(x)


@also_called(input="x")
@one_program_of_large
def signbit(x: Any) -> Any:
    """Whether the sign of the floats `x` is set, also that of a zero or NaN."""
    return ops.less(ops.copysign(ops.ones_like(x), x), 0)
