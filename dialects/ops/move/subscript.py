"""`x[key]`: NumPy's indexing by integers, slices, `None` and `...`, by arrays of integers, and by known masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from operator import index as exact_integer
from typing import Any

import numpy as np

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.registry import value_method
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.types.shapes import InferenceError, broadcast
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import i64, is_integer


@value_method
def subscript(x: Value, key: Any) -> Value:
    """The part of `x` that NumPy's `x[key]` selects.

    Arrays of integers broadcast against each other, and their dimensions take the place of the first one, or come first
    where a slice, `None` or `...` lies between them. An array of truth values stands for the places of the true ones.
    Raises `IndexError` for a known index outside of `x` (others are moved to the nearest element) and `TypeError` for
    traced truth values, whose result has no known shape.
    """
    written = entries_of(x.shape, key)
    for entry in written:
        _check_entry(entry)
    selection = _Selection(x)
    for entry in _with_ellipsis(written, x.ndim):
        selection.add(entry)
    return selection.moved(selection.taken(selection.part()), _are_apart(written))


def entries_of(shape: tuple[int, ...], key: Any) -> tuple[Any, ...]:
    """The entries of a key for a tensor of `shape`, with the indices of its true elements for each known mask.

    Raises `IndexError` for a mask of another shape than the axes that it is for.
    """
    given = key if isinstance(key, tuple) else (key,)
    # In functions of values that are traced with a step on tensors, these may be what indexes.
    written = tuple([to_value(entry) if getattr(type(entry), "_is_traced", False) else entry for entry in given])
    masks = [_known_mask(entry) for entry in written]
    if all(mask is None for mask in masks):
        return written
    entries: list[Any] = []
    taken = [
        0 if e is None or e is Ellipsis else 1 if m is None else m.ndim for e, m in zip(written, masks, strict=True)
    ]
    for position, (entry, mask) in enumerate(zip(written, masks, strict=True)):
        if mask is None:
            entries.append(entry)
            continue
        behind = any(e is Ellipsis for e in written[:position])
        axis = len(shape) - sum(taken[position:]) if behind else sum(taken[:position])
        if mask.shape != (sizes := tuple(shape[axis : axis + mask.ndim])):
            raise IndexError(f"a mask of shape {mask.shape} for axes of shape {sizes}")
        entries.extend(np.nonzero(mask))
    return tuple(entries)


def _known_mask(entry: Any) -> np.ndarray[Any, Any] | None:
    """An entry that is a NumPy array, or a list, of truth values."""
    if not isinstance(entry, np.ndarray | list):
        return None
    array = plain_array(entry, "an index")
    return array if array.dtype == np.bool_ and array.ndim > 0 else None


@dataclass(frozen=True)
class SliceKey:
    """What a key of integers, slices, `None` and `...` selects: the settings of `slice`, and the shape of the part."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...] | None
    shape: tuple[int, ...]


def slice_of(x: Value, written: tuple[Any, ...]) -> SliceKey | None:
    """The slice of `x` that a key selects; `None` where it has arrays or traced values. Raises as `subscript` does."""
    if any(map(_is_array, written)):
        return None
    selection = _Selection(x)
    for entry in written:
        _check_entry(entry)
    for entry in _with_ellipsis(written, x.ndim):
        selection.add(entry)
    strides = None if set(selection.strides) <= {1} else tuple(selection.strides)
    return SliceKey(tuple(selection.starts), tuple(selection.limits), strides, tuple(selection.shape))


def indices_of(x: Value, written: tuple[Any, ...]) -> tuple[int, Value] | None:
    """The first of the neighbouring axes that a key indexes by arrays, and the indices (axes before..., dimensions of
    the arrays..., axes indexed) as `scatter_nd` takes them; `None` where it selects in other ways than these.

    Raises as `subscript` does.
    """
    for entry in written:
        _check_entry(entry)
    entries = _with_ellipsis(written, x.ndim)
    axes = [axis for axis, entry in enumerate(entries) if not isinstance(entry, slice)]
    is_new_axis = any(entry is None for entry in entries)
    is_part = any(isinstance(entry, slice) and _plain(entry) != slice(None) for entry in entries)
    if is_new_axis or is_part or axes != list(range(axes[0], axes[0] + len(axes))):
        return None
    arrays = [
        _within(entry if _is_array(entry) else np.array(exact_integer(entry)), axis, x.shape[axis])
        for axis, entry in enumerate(entries)
        if axis in axes
    ]
    common = _common_shape(arrays)
    # One array keeps its dtype, as where it takes elements; several become one.
    alike = arrays if len(arrays) == 1 else [ops.cast(array, dtype=i64) for array in arrays]
    indices = ops.stack([ops.broadcast_to(array, shape=common) for array in alike], axis=-1)
    return axes[0], ops.broadcast_to(indices, shape=(*x.shape[: axes[0]], *common, len(arrays)))


def places_of(shape: tuple[int, ...], written: tuple[Any, ...]) -> Value:
    """For each element that a key selects of a tensor of `shape`, its place in row-major order; for traced indices
    outside of it one that no element has.
    """
    count = prod(shape)
    places = ops.reshape(ops.iota(shape=(count,)), shape=shape)
    entries: list[Any] = []
    axis = 0
    for position, entry in enumerate(written):
        if entry is Ellipsis:
            axis = len(shape) - sum(later is not None for later in written[position + 1 :])
        elif isinstance(entry, Value):
            _check_entry(entry)
            index, size = ops.cast(entry, dtype=i64), shape[axis]
            place = ops.select(index < 0, index + size, index)
            entry = ops.select(ops.bitwise_and(place >= 0, place < size), place, size)
            # behind the last element of the axis is one that stands for all outside
            places = ops.pad(places, low=_at(axis, 0, len(shape)), high=_at(axis, 1, len(shape)), value=count)
        entries.append(entry)
        axis += entry is not None and entry is not Ellipsis
    return subscript(places, tuple(entries))


def _at(axis: int, number: int, rank: int) -> tuple[int, ...]:
    return tuple([number if position == axis else 0 for position in range(rank)])


@dataclass
class _Selection:
    """What a key selects of `x`, axis by axis."""

    x: Value
    starts: list[int] = field(default_factory=list[int])
    limits: list[int] = field(default_factory=list[int])
    strides: list[int] = field(default_factory=list[int])
    shape: list[int] = field(default_factory=list[int])
    arrays: dict[int, Any] = field(default_factory=dict[int, Any])
    """The arrays, by the dimension of `shape` that they index."""

    def add(self, entry: Any) -> None:
        """Take the next axis, or a new one, as `entry` says."""
        if entry is None:
            self.shape.append(1)
            return
        axis = len(self.starts)
        size = self.x.shape[axis]
        if isinstance(size, Size) and isinstance(entry, slice):
            start, limit, stride = _of_size(entry, size)
            self.shape.append((limit - start + stride - 1) // stride)
        elif isinstance(entry, slice):
            selected = range(size)[_plain(entry)]
            start, limit, stride = selected.start, selected.stop, selected.step
            self.shape.append(len(selected))
        elif _is_array(entry):
            start, limit, stride = 0, size, 1
            self.arrays[len(self.shape)] = _within(entry, axis, size)
            self.shape.append(size)
        else:
            position = exact_integer(entry)
            if isinstance(size, Size):
                start, stride = position if position >= 0 else size + position, 1  # launch tells whether that is inside
            elif -size <= position < size:
                start, stride = position % size, 1
            else:
                raise IndexError(f"index {position} is out of bounds for axis {axis} of size {size}")
            limit = start + 1
        self.starts.append(start)
        self.limits.append(limit)
        self.strides.append(stride)

    def part(self) -> Value:
        """What integers, slices and `None` select, the axes of arrays left whole."""
        x, strides = self.x, self.strides
        if self.starts != [0] * x.ndim or tuple(self.limits) != x.shape or strides != [1] * x.ndim:
            steps = None if strides == [1] * x.ndim else tuple(strides)
            x = ops.slice(x, starts=tuple(self.starts), limits=tuple(self.limits), strides=steps)
        return x if x.shape == tuple(self.shape) else ops.reshape(x, shape=tuple(self.shape))

    def taken(self, part: Value) -> Value:
        """What the arrays select of `part`; their dimensions take the place of the first one."""
        if not self.arrays:
            return part
        first, *_ = self.arrays
        if len(self.arrays) == 1:
            return ops.gather(part, self.arrays[first], axis=first)
        common = self.common_shape()
        others = [dim for dim in range(part.ndim) if dim not in self.arrays]
        indices = [ops.broadcast_to(ops.cast(array, dtype=i64), shape=common) for array in self.arrays.values()]
        leading = ops.transpose(part, permutation=(*self.arrays, *others))
        return _moved(ops.gather_nd(leading, ops.stack(indices, axis=-1)), 0, first, len(common))

    def moved(self, taken: Value, to_front: bool) -> Value:
        """`taken` with the dimensions of the arrays at the front if that is where they belong."""
        return _moved(taken, next(iter(self.arrays)), 0, len(self.common_shape())) if to_front else taken

    def common_shape(self) -> tuple[int, ...]:
        """The shape of the arrays broadcast against each other."""
        return _common_shape(list(self.arrays.values()))


def _common_shape(arrays: Sequence[Any]) -> tuple[int, ...]:
    shapes = [np.shape(array) if not isinstance(array, Value) else array.shape for array in arrays]
    try:
        return broadcast([("", shape) for shape in shapes]) or ()
    except InferenceError:
        listed = ", ".join(map(str, shapes))
        raise IndexError(f"arrays of shapes {listed} index together, and do not broadcast") from None


def _moved(x: Value, start: int, target: int, count: int) -> Value:
    """`x` with the `count` axes from `start` moved to begin at `target`."""
    group = list(range(start, start + count))
    others = [axis for axis in range(x.ndim) if axis not in group]
    order = (*others[:target], *group, *others[target:])
    return x if order == tuple(range(x.ndim)) else ops.transpose(x, permutation=order)


def _with_ellipsis(key: tuple[Any, ...], rank: int) -> list[Any]:
    """`key` with an entry for every axis: `...`, or what is missing at the end, written out as whole slices."""
    taken = sum(entry is not None and entry is not Ellipsis for entry in key)
    if taken > rank:
        raise IndexError(f"{taken} indices for a tensor of rank {rank}")
    ellipses = [position for position, entry in enumerate(key) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index has more than one ellipsis")
    where = ellipses[0] if ellipses else len(key)
    return [*key[:where], *[slice(None)] * (rank - taken), *key[where + 1 :]]


def _are_apart(key: tuple[Any, ...]) -> bool:
    """Whether arrays and integers stand apart, which in NumPy brings the dimensions of the arrays to the front."""
    if not any(map(_is_array, key)):
        return False
    places = [i for i, entry in enumerate(key) if not (entry is None or entry is Ellipsis or isinstance(entry, slice))]
    return places[-1] - places[0] + 1 != len(places)


def _is_array(entry: Any) -> bool:
    return isinstance(entry, Value | list) or (isinstance(entry, np.ndarray) and entry.ndim > 0)


def _check_entry(entry: Any) -> None:
    """Raise `TypeError` for truth values that are not known, and for arrays that are not of integers."""
    if isinstance(entry, bool | np.bool_):
        raise TypeError("an index is a truth value; use tenon.select to choose by truth values")
    if not _is_array(entry):
        if not (entry is None or entry is Ellipsis or isinstance(entry, slice) or hasattr(entry, "__index__")):
            raise IndexError(f"index {entry!r} is a {type(entry).__name__} where integers or truth values are needed")
        return
    if isinstance(entry, Value):
        integral = is_integer(entry.element_type)
    else:
        array = plain_array(entry, "an index")
        integral = array.dtype.kind in "iu" or (array.size == 0 and isinstance(entry, list))
    if not integral:
        raise TypeError(
            "an index is an array of traced truth values or of floats; only integer arrays can index. Choose by truth "
            "values with tenon.select(mask, x, y) or x.at[mask].set(number), or find their places with "
            "tenon.nonzero(mask, size=...)"
        )


def _within(entry: Any, axis: int, size: int) -> Any:
    """The array `entry`; raises `IndexError` where it is known to leave an axis of `size`."""
    if isinstance(entry, Value):
        return entry
    array = plain_array(entry, "an index")
    array = array if array.size else array.astype(np.int64)
    outside = array[(array < -size) | (array >= size)]
    if outside.size:
        raise IndexError(f"index {outside.flat[0]} is out of bounds for axis {axis} of size {size}")
    return array


def _of_size(key: slice, size: Any) -> tuple[Any, Any, int]:
    """Start, limit and stride of a slice of a dimension that may have any size: at launch, at least the limit."""
    plain = _plain(key)
    if plain == slice(None) or plain == slice(0, None, 1):
        return 0, size, 1
    step = 1 if plain.step is None else plain.step
    is_counted = type(plain.stop) is int and plain.stop >= 0 and (plain.start is None or type(plain.start) is int)
    try:
        if step < 1:
            raise UndecidedSizeError
        if is_counted and (plain.start or 0) >= 0:
            return plain.start or 0, max(plain.stop, plain.start or 0), step
        start = 0 if plain.start is None else _bound(plain.start, size)
        limit = size if plain.stop is None else _bound(plain.stop, size)
        return start, limit if start <= limit else start, step
    except UndecidedSizeError:
        what = f"the slice {key.start}:{key.stop}:{key.step} takes of the size {size}"
        raise UndecidedSizeError(f"how much {what}") from None


def _bound(place: Any, size: Any) -> Any:
    """A bound of a slice, counted from the front, between 0 and `size`."""
    place = place + size if place < 0 else place
    return 0 if place < 0 else size if size <= place else place


def _plain(key: slice) -> slice:
    """A slice whose bounds are Python integers, or sizes."""
    parts = [
        part if part is None or isinstance(part, Size) else exact_integer(part)
        for part in (key.start, key.stop, key.step)
    ]
    return slice(*parts)
