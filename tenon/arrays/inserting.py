"""NumPy's functions that give arrays of more or fewer elements: these are put in, taken away or repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.operands import axis_or_all, known_elements, shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis, show


def _places(function: str, obj: Any, size: int) -> np.ndarray[Any, Any]:
    """The indices that `obj` means along an axis of that size: an index, a slice, or a vector of indices or of truth
    values. Raises `TypeError` where these are traced, as the shape of the result may depend on them."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(size))
    found = np.asarray(obj) if isinstance(obj, int | list | tuple | range) else known_elements(shaped(obj))
    if found is None:
        raise TypeError(f"{function}: obj is traced, and the result depends on where elements are; give an array")
    if not found.size and isinstance(obj, list | tuple):
        found = found.astype(np.int64)
    if found.dtype.kind not in "biu" or (found.ndim > 1 and function == "insert"):
        given = f"{found.dtype}{list(found.shape)}"
        raise TypeError(f"{function}: obj is {given} where integers, or a vector of truth values, are needed")
    if found.dtype != np.bool_:
        return found.astype(np.int64)
    if not found.ndim:
        raise ValueError(f"{function}: obj is a truth value where a vector of such is needed")
    return found


def _check_places(function: str, places: np.ndarray[Any, Any], least: int, most: int, size: int) -> None:
    if (outside := places[(places < least) | (places > most)]).size:
        raise IndexError(f"{function}: index {outside.flat[0]} is out of bounds for an axis of size {size}")


@also_called(x="arr")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`arr` and behind it `values` along `axis`, or all elements of both in a vector."""
    if axis is None:
        return ops.concatenate([ops.reshape(shaped(v), shape=(-1,)) for v in (arr, values)], axis=0)
    return ops.concatenate([shaped(arr), shaped(values)], axis=axis)


@also_called(x="arr")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`arr`, or all its elements in a vector, with `values` before the places `obj` along `axis`: an index, a slice, or
    a list of indices or of truth values. The values broadcast and get the dtype of `arr`.

    Raises `IndexError` for a place that is not there, and `TypeError` for places that are traced.
    """
    arr, axis = axis_or_all("insert", shaped(arr, "insert: arr"), axis)
    size = arr.shape[axis]
    places = _places("insert", obj, size)
    places = np.flatnonzero(places) if places.dtype == np.bool_ else places
    _check_places("insert", places, -size, size, size)
    places = np.where(places < 0, places + size, places)
    new = ops.cast(shaped(values), dtype=arr.dtype)
    is_one = not places.ndim
    if places.size == 1:
        new = ops.reshape(new, shape=(*(1,) * (arr.ndim - new.ndim), *new.shape))
        new = ops.movedim(new, 0, axis) if is_one else new
        places = np.repeat(places.reshape(-1), new.shape[axis])
    sizes = tuple([len(places) if i == axis else n for i, n in enumerate(arr.shape)])
    if new.ndim > arr.ndim or any(n not in (1, m) for n, m in zip(new.shape[::-1], sizes[::-1], strict=False)):
        raise ValueError(f"insert: values have shape {show(new.shape)} where {show(sizes)} is needed")
    # Those before one place keep their order, and stand before what was there.
    order = np.argsort(np.concatenate([places, np.arange(size)]), kind="stable")
    both = ops.concatenate([ops.broadcast_to(new, shape=sizes), arr], axis=axis)
    return ops.gather(both, order, axis=axis)


@also_called(x="arr")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """`arr`, or all its elements in a vector, without those at the places `obj` along `axis`: an index, a slice, or a
    list of indices or of truth values.

    Raises `IndexError` for a place that is not there, and `TypeError` for places that are traced.
    """
    arr, axis = axis_or_all("delete", shaped(arr, "delete: arr"), axis)
    size = arr.shape[axis]
    places, stays = _places("delete", obj, size), np.ones(size, np.bool_)
    if places.dtype == np.bool_ and places.shape != (size,):
        raise ValueError(f"delete: obj has {places.size} truth values for an axis of size {size}")
    if places.dtype != np.bool_:
        _check_places("delete", places, -size, size - 1, size)
    stays[places] = False
    return ops.gather(arr, np.flatnonzero(stays), axis=axis)


@also_called(x="a")
def resize(a: Any, new_shape: int | Sequence[int]) -> Any:
    """As many elements of `a`, from the first one on and again, as an array of that shape has; 0, if `a` has none.
    Raises `ValueError` for a negative size.
    """
    elements = ops.reshape(shaped(a), shape=(-1,))
    sizes = (new_shape,) if isinstance(new_shape, int | np.integer) else tuple(new_shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"resize: new_shape is {show(sizes)}, which has a negative size")
    count, have = math.prod(sizes), elements.shape[0]
    if not have or not count:
        return ops.zeros(sizes, elements.dtype)
    return ops.reshape(ops.gather(elements, np.arange(count) % have, axis=0), shape=sizes)


@also_called(x="filt")
def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """`filt` without the zeros before the first (`f`) and behind the last (`b`) element that is none, along all axes or
    these. Raises `TypeError` for what is traced, since the shape of the result depends on the elements.
    """
    given = shaped(filt, "trim_zeros: filt")
    known = known_elements(given)
    if known is None:
        raise TypeError("trim_zeros: filt is traced, and the shape of the result depends on its elements")
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"trim_zeros: trim is {trim!r} where one of f, b and fb is needed")
    wanted = range(given.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for place in [normalize_axis(axis, given.ndim, "trim_zeros: axis") for axis in wanted]:
        found = np.flatnonzero(known.any(axis=tuple([i for i in range(known.ndim) if i != place])))
        first, end = (found[0], found[-1] + 1) if found.size else (0, 0)
        first = first if "f" in trim.lower() or not found.size else 0
        end = end if "b" in trim.lower() or not found.size else given.shape[place]
        given = ops.narrow(given, place, int(first), int(end - first))
    return given
