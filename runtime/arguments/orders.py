"""Arrays that are not row-major: programs read large ones where they are.

A transposed array is a contiguous one with its dimensions in another order, and columns of a table, or every second
row, are a part of a larger array. A program compiled for such a place takes the array that it is a part of, and begins
with the slice and the transposition, which the compiler joins with what follows. Others, and small ones, for which
another program is not worth it, are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

LEAST = 1 << 20
"""Bytes from which on an array is not copied."""
LEAST_PERMUTED = 1 << 16
"""The same of one without gaps, where no program that takes a copy is there: to copy a transposed one takes longer."""

Order = tuple[int, ...]


class Place(NamedTuple):
    """Where the elements of an array lie: `order` are its dimensions as they follow in the memory of a larger array of
    `shape`, of which it has the first ones, along the last dimension each `step`-th one."""

    order: Order
    shape: tuple[int, ...]
    step: int = 1

    def whole(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array that `array` is a part of."""
        turned = array.transpose(self.order)
        if not self.has_gaps(array.shape):
            return turned
        return as_strided(turned, self.shape, self._row_major(array.itemsize), writeable=False)

    def has_gaps(self, shape: Sequence[int]) -> bool:
        """Whether an array of `shape` there leaves out some of the larger one."""
        return self.shape != tuple([shape[axis] for axis in self.order])

    def limits(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Where an array of `shape` ends along the dimensions of the larger one."""
        *outer, last = [shape[axis] for axis in self.order]
        return (*outer, (last - 1) * self.step + 1)

    def strides(self, itemsize: int) -> tuple[int, ...]:
        """How many bytes apart neighbours are along each dimension."""
        pitches = self._row_major(itemsize)
        found = dict(zip(self.order, (*pitches[:-1], pitches[-1] * self.step), strict=True))
        return tuple([found[axis] for axis in range(len(found))])

    def _row_major(self, itemsize: int) -> tuple[int, ...]:
        return tuple([prod(self.shape[axis:]) * itemsize for axis in range(1, len(self.shape) + 1)])


Orders = Mapping[int, Place]
"""The places of leaves, by position; none for those that lie as usual."""


def order_of(leaf: Any, least: int = LEAST) -> Order | None:
    """The dimensions of an array of at least so many bytes in the order of memory; `None` if that is usual, or if there
    are gaps."""
    if type(leaf) is not np.ndarray or leaf.flags.c_contiguous or leaf.nbytes < least or not leaf.flags.aligned:
        return None
    order = _by_distance(leaf)
    return order if leaf.transpose(order).flags.c_contiguous else None


def place_of(leaf: Any, least: int = LEAST) -> Place | None:
    """Where an array of at least so many bytes lies, of `LEAST` if there are gaps; `None` if that is usual, or if it is
    no part of an array whose memory is there as a whole."""
    order = order_of(leaf, least)
    if order is not None:
        return Place(order, tuple([leaf.shape[axis] for axis in order]))
    if type(leaf) is not np.ndarray or leaf.flags.c_contiguous or leaf.nbytes < max(least, LEAST):
        return None
    owner, order = leaf.base, _by_distance(leaf)
    if type(owner) is not np.ndarray or not owner.flags.c_contiguous or not leaf.flags.aligned:
        return None
    strides = [leaf.strides[axis] for axis in order]
    if min(strides) <= 0 or min(leaf.shape) < 2 or strides[-1] % leaf.itemsize:
        return None
    step, distance, shape = strides[-1] // leaf.itemsize, leaf.itemsize, list[int]()
    if step > _MOST_STEP or leaf.dtype != owner.dtype:
        return None
    for axis, outer in zip(order[:0:-1], strides[-2::-1], strict=True):
        taken = (leaf.shape[axis] - 1) * (1 if shape else step) + 1
        if outer % distance or outer // distance < taken:
            return None
        shape.insert(0, outer // distance)
        distance = outer
    shape.insert(0, leaf.shape[order[0]] if shape else (leaf.size - 1) * step + 1)
    place = Place(order, tuple(shape), step)
    end = leaf.ctypes.data + prod(shape) * leaf.itemsize
    return place if end <= owner.ctypes.data + owner.nbytes else None


_MOST_STEP = 4
"""Elements along the last dimension of which one is read: of more, too little of what comes from memory is used."""


def orders_of(leaves: Sequence[Any], donated: Sequence[bool] = (), least: int = LEAST) -> Orders:
    """The places of the leaves of a call, but for those whose memory is given away to row-major results."""
    found = {position: place for position, leaf in enumerate(leaves) if (place := place_of(leaf, least)) is not None}
    return {p: place for p, place in found.items() if not donated[p]} if found and donated else found


def inverse(order: Order) -> Order:
    """The order that brings dimensions back."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _by_distance(array: np.ndarray[Any, Any]) -> Order:
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
