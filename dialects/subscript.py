"""`x[key]`: NumPy's basic indexing by integers, slices, `None` and `...`, and one array of integers."""

from __future__ import annotations

from operator import index as exact_integer
from typing import Any

import numpy as np

from tenon.dialects.size import Size, UndecidedSizeError
from tenon.dialects.types import is_integer
from tenon.dialects.value import Value, ops


def subscript(x: Value, key: Any) -> Value:
    """The part of `x` that NumPy's `x[key]` selects.

    An array of integers may stand at one place, and its dimensions take that place. Raises `IndexError` for an index
    outside of `x` and `TypeError` for what is not supported: several arrays, and arrays of truth values, whose result
    has no known shape.
    """
    entries = _with_ellipsis(key if isinstance(key, tuple) else (key,), x.ndim)
    _check_arrays(entries)
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    gathered: tuple[int, Any] | None = None
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        axis = len(starts)
        size = x.shape[axis]
        if isinstance(size, Size) and isinstance(entry, slice):
            start, limit, stride = _of_size(entry, size)
            shape.append(size if limit is size else len(range(start, limit, stride)))
        elif isinstance(entry, slice):
            selected = range(size)[_plain(entry)]
            start, limit, stride = selected.start, selected.stop, selected.step
            shape.append(len(selected))
        elif _is_array(entry):
            start, limit, stride = 0, size, 1
            gathered = len(shape), entry
            shape.append(size)
        else:
            position = exact_integer(entry)
            if isinstance(size, Size):
                start, stride = position if position >= 0 else size + position, 1  # launch tells whether that is inside
            elif -size <= position < size:
                start, stride = position % size, 1
            else:
                raise IndexError(f"index {position} is out of bounds for axis {axis} of size {size}")
            limit = start + 1
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
    part = x
    if starts != [0] * x.ndim or tuple(limits) != x.shape or strides != [1] * x.ndim:
        steps = None if strides == [1] * x.ndim else tuple(strides)
        part = ops.slice(x, starts=tuple(starts), limits=tuple(limits), strides=steps)
    if part.shape != tuple(shape):
        part = ops.reshape(part, shape=tuple(shape))
    return part if gathered is None else ops.gather(part, gathered[1], axis=gathered[0])


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


def _is_array(entry: Any) -> bool:
    return isinstance(entry, Value | list) or (isinstance(entry, np.ndarray) and entry.ndim > 0)


def _check_arrays(entries: list[Any]) -> None:
    arrays = [position for position, entry in enumerate(entries) if _is_array(entry)]
    for position in arrays:
        entry = entries[position]
        integral = is_integer(entry.element_type) if isinstance(entry, Value) else np.asarray(entry).dtype.kind == "i"
        if not integral:
            raise TypeError(
                "an index is an array of truth values or floats; only integer arrays can index, "
                "and tenon.select(mask, x, y) chooses by truth values"
            )
    if len(arrays) > 1:
        raise TypeError("an index has more than one array; flatten the axes and index them by one array instead")
    for entry in entries:
        if isinstance(entry, bool | np.bool_):
            raise TypeError("an index is a truth value; use tenon.select to choose by truth values")
    if arrays:
        _check_order(entries, arrays[0])


def _check_order(entries: list[Any], array: int) -> None:
    """Refuse an integer and an array apart from each other: NumPy then moves the array's dimensions to the front."""
    advanced = [
        position
        for position, entry in enumerate(entries)
        if position == array or not (entry is None or isinstance(entry, slice))
    ]
    separated = advanced[-1] - advanced[0] + 1 != len(advanced)
    if separated and any(entry is None or isinstance(entry, slice) for entry in entries[:array]):
        raise TypeError("an index has an integer and an array apart from each other; index in two steps instead")


def _of_size(key: slice, size: Any) -> tuple[Any, Any, int]:
    """Start, limit and stride of a slice of a dimension that may have any size: at launch, at least the limit."""
    plain = _plain(key)
    if plain == slice(None) or plain == slice(0, None, 1):
        return 0, size, 1
    if plain.stop is None or min(plain.start or 0, plain.stop) < 0 or (plain.step or 1) < 1:
        raise UndecidedSizeError(f"how much the slice {key.start}:{key.stop}:{key.step} takes of the size {size}")
    return plain.start or 0, max(plain.stop, plain.start or 0), plain.step or 1


def _plain(key: slice) -> slice:
    """A slice whose bounds are Python integers."""
    parts = (None if part is None else exact_integer(part) for part in (key.start, key.stop, key.step))
    return slice(*parts)
