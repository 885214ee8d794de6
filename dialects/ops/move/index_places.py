"""Where indices that are data point: what those who read there and those who write there share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tenon.dialects.definition.scalar import as_index
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.linalg_builders import CountedIndex, Reader, clamp
from tenon.dialects.types.shapes import InferenceError, Shape, broadcast, normalize_axis, refine, show
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import i32, i64


def counted_from_front(position: Value, size: int) -> Value:
    """An index (of any integer type) as `index`, negative ones counted from the end of `size` elements."""
    place = as_index(position)
    return ops.select(place < 0, place + size, place)


def place_inside(position: Value, size: int) -> Value:
    """The same, limited to `size` elements. In 32 bits where these hold it, of which vectors take twice as many."""
    if position.element_type != i32 or isinstance(size, Size) or not 0 < size <= np.iinfo(np.int32).max:
        return clamp(counted_from_front(position, size), size)
    place = ops.select(position < 0, position + size, position)
    return CountedIndex(as_index(ops.minimum(ops.maximum(place, 0), size - 1)).ssa, size)


def nearest_inside(indices: Value, size: int | tuple[int, ...]) -> Value:
    """`indices` of `size` elements, those outside moved to the nearest element, which is where `gather` reads.

    With a tuple of sizes there is one for each place of the last axis of `indices`.
    """
    if isinstance(size, Size):
        return ops.gather(ops.iota(shape=(size,)), indices, axis=0)  # which reads there
    if isinstance(size, tuple) and any(isinstance(one, Size) for one in size):
        parts = [ops.cast(nearest_inside(indices[..., i], one), dtype=i64) for i, one in enumerate(size)]
        return ops.stack(parts, axis=-1)
    limits = np.iinfo(indices.dtype)
    sizes = np.asarray(size, np.int64)
    low = np.maximum(-sizes, int(limits.min)).astype(indices.dtype)
    high = np.minimum(sizes - 1, min(int(limits.max), np.iinfo(np.int64).max)).astype(indices.dtype)
    return ops.clip(indices, low=low, high=high)


def is_inside(indices: Value, size: int | tuple[int, ...]) -> Value:
    """Whether `indices` of `size` elements, of which there are some, name an element."""
    return nearest_inside(indices, size) == indices


def check_any(shape: tuple[int, ...], axes: Sequence[int], places: tuple[int, ...]) -> None:
    """Raise if indices of shape `places` name elements along `axes` of a tensor of `shape` that has none there."""
    empty = [axis for axis in axes if shape[axis] == 0]
    if empty and all(size > 0 for size in places):
        raise InferenceError(f"x has shape {show(shape)}, so it has no elements along axis {empty[0]} to take")


def check_places(shape: Shape, places: Shape, axis: int) -> None:
    """Raise unless indices of shape `places` can stand for elements along `axis` of a tensor of `shape`."""
    if shape is None or places is None:
        return
    if len(shape) != len(places):
        raise InferenceError(f"rank is {len(shape)} in x and {len(places)} in indices, and they must be equal")
    axis = normalize_axis(axis, len(shape))
    for i, (size, taken) in enumerate(zip(shape, places, strict=True)):
        if i != axis and 0 <= size < taken:
            raise InferenceError(f"dimension {i} is {size} in x and {taken} in indices, which may not be larger there")


def broadcast_apart_from(axis: int, shape: tuple[int, ...], places: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Two shapes of one rank broadcast against each other, but along `axis`, where each keeps its size."""
    if len(shape) != len(places):
        raise InferenceError(f"rank is {len(shape)} in x and {len(places)} in indices, and they must be equal")
    axis = normalize_axis(axis, len(shape))
    others = broadcast([("x", _without(shape, axis)), ("indices", _without(places, axis))])
    assert others is not None
    return tuple([(*others[:axis], own[axis], *others[axis:]) for own in (shape, places)])


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def indexed_sizes(x: Value, indices: Value, batch_dims: int) -> tuple[int, ...]:
    """The sizes of the axes of `x` that the last axis of `indices` names places of."""
    return x.shape[batch_dims : batch_dims + indices.shape[-1]]


def parts_shape(shape: Shape, places: Shape, batch_dims: int) -> Shape:
    """The shape of the parts at indices of shape `places` of a tensor of `shape`."""
    if places is not None and not 0 <= batch_dims < len(places):
        raise InferenceError(f"batch_dims is {batch_dims} where indices has rank {len(places)}, its last axis included")
    if shape is None or places is None or places[-1] < 0:
        return None
    depth = batch_dims + places[-1]
    if depth > len(shape):
        raise InferenceError(
            f"indices name {places[-1]} axes behind {batch_dims} of the batch, and x has rank {len(shape)}"
        )
    try:
        batch = refine(shape[:batch_dims], places[:batch_dims]) or ()
    except InferenceError as error:
        raise InferenceError(f"the first {batch_dims} dimensions of x and indices differ: {error}") from None
    return (*batch, *places[batch_dims:-1], *shape[depth:])


def part_place(index: tuple[Value, ...], x: Reader, indices: Reader, batch_dims: int) -> tuple[Value, ...]:
    """Where in `x` the element at `index` of the parts at `indices` is."""
    leading = indices.ndim - 1
    sizes = x.shape[batch_dims : batch_dims + indices.shape[-1]]
    place = [counted_from_front(indices.read(*index[:leading], i), size) for i, size in enumerate(sizes)]
    return (*index[:batch_dims], *place, *index[leading:])


def check_updates(shape: Shape, places: Shape, needed: Shape, updates: Shape) -> None:
    """Raise unless the shape of `updates` is that `needed` by x of `shape` and indices of shape `places`."""
    try:
        refine(needed, updates)
    except InferenceError:
        raise InferenceError(
            f"updates has shape {show(updates)} where {show(needed)} is needed, "
            f"by x of shape {show(shape)} and indices of shape {show(places)}"
        ) from None


def swapped(first: int, second: int, rank: int) -> tuple[int, ...]:
    """The permutation that swaps the `first` axes behind the examples with the `second` axes behind those."""
    middle, end = 1 + first, 1 + first + second
    return (0, *range(middle, end), *range(1, middle), *range(end, rank))
