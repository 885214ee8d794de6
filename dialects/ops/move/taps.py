"""Values between the elements of images: which elements they are computed from, with which weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.size import Size

_CUBIC = -0.75
"""The free coefficient of the cubic kernel, as PyTorch and ONNX have it."""


FEW_CHANNELS = 3
"""So many are interpolated one by one: the row of more fills a vector, of which gradients are added up at once."""


class Tap(NamedTuple):
    """One element along a dimension: where it is (a whole number, as a float), how it counts, and whether it does."""

    place: Value
    weight: Value | None
    inside: Value | None


def linear_taps(place: Value) -> list[Tap]:
    """Linear interpolation between the two elements around `place`."""
    first = ops.floor(place)
    part = place - first
    return [Tap(first, 1.0 - part, None), Tap(first + 1.0, part, None)]


def cubic_taps(place: Value) -> list[Tap]:
    """Keys, "Cubic convolution interpolation for digital image processing", IEEE ASSP 1981, equation 4."""
    first = ops.floor(place)
    part = place - first
    a = _CUBIC

    def near(d: Value) -> Value:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0

    def far(d: Value) -> Value:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part))
    return [Tap(first + float(offset), weight, None) for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def extent_of(size: int, like: Value) -> Any:
    """A size as a number to compute with: a tensor of the dtype of `like` where it is known at run time only."""
    return ops.cast(ops.size(value=size), dtype=like.element_type) if isinstance(size, Size) else float(size)


def clipped(place: Value, high: Any) -> Value:
    """`place` brought into [0, high]."""
    if isinstance(high, float):
        return ops.clip(place, low=0.0, high=high)
    return ops.minimum(ops.maximum(place, 0.0), high)


def masked(tap: Tap, size: int) -> Tap:
    """The tap, which does not count outside of the image."""
    return tap._replace(inside=ops.logical_and(tap.place >= 0.0, tap.place <= extent_of(size, tap.place) - 1.0))


def _index(tap: Tap, size: int, dtype: str) -> Value:
    """Where the tap is, or the element of the image that is nearest to it."""
    return ops.cast(clipped(tap.place, extent_of(size, tap.place) - 1.0), dtype=dtype)


def _weight(tap: Tap) -> Value | None:
    """What an element counts times: nothing outside of the image, `None` is one."""
    if tap.inside is None:
        return tap.weight
    return ops.select(tap.inside, tap.place * 0.0 + 1.0 if tap.weight is None else tap.weight, 0.0)


def combined(x: Value, images: Value, axes: Sequence[Sequence[Tap]], image: Sequence[int], how: str = "add") -> Value:
    """`x` (n * elements, c) at the places of taps (b, p) along each dimension of `image`: (b, p, c).

    `images` (b, 1) says which of the n images each row of places is about. Products of weights and elements are added
    up, or (`how` is "maximum") the largest of them is taken.
    """
    dtype = _index_dtype(x.shape[0])
    total: Value | None = None
    for index, scale in _corners(ops.cast(images, dtype=dtype), axes, image, dtype):
        part = ops.gather(x, index, axis=0)
        if scale is not None:
            part = part * ops.expand_dims(scale, axis=-1)
        total = part if total is None else ops.maximum(total, part) if how == "maximum" else total + part
    assert total is not None
    return total


def interpolated(x: Value, axes: Sequence[Sequence[Tap]]) -> Value:
    """Images `x` (n, c, *image) at the places of taps (n, p) along each dimension of `image`: (n, c, p).

    Products of weights and elements are added up. Of many channels, those of a place are read side by side, which takes
    a copy of the images; of `FEW_CHANNELS` each is read where it is, at many places at once.
    """
    batch, channels, *image = x.shape
    if type(channels) is not int or channels > FEW_CHANNELS:
        rows = ops.transpose(ops.reshape(x, shape=(batch, channels, prod(image))), permutation=(0, 2, 1))
        numbers = ops.cast(ops.iota(shape=(batch, 1), axis=0), dtype="i64")
        total = combined(ops.reshape(rows, shape=(batch * prod(image), channels)), numbers, axes, image)
        return ops.transpose(total, permutation=(0, 2, 1))
    planes = ops.reshape(x, shape=(batch, channels, prod(image)))
    total: Value | None = None
    for index, scale in _corners(None, axes, image, _index_dtype(prod(image))):
        places = ops.broadcast_to(ops.expand_dims(index, axis=1), shape=(batch, channels, index.shape[1]))
        part = ops.gather_elements(planes, places, axis=2)
        if scale is not None:
            part = part * ops.expand_dims(scale, axis=1)
        total = part if total is None else total + part
    assert total is not None
    return total


def _index_dtype(count: int) -> str:
    """The dtype of places among `count` elements: twice as many numbers of 32 bits are computed at a time."""
    return "i32" if type(count) is int and count <= np.iinfo(np.int32).max else "i64"


def _corners(
    images: Value | None, axes: Sequence[Sequence[Tap]], image: Sequence[int], dtype: str
) -> list[tuple[Value, Value | None]]:
    """The elements that taps along all dimensions meet in, as places in an image, or behind those of all `images`
    before, and what each counts times."""
    corners: list[tuple[Value | None, Value | None]] = [(images, None)]
    for taps, size in zip(axes, image, strict=True):
        along = [(_index(tap, size, dtype), _weight(tap)) for tap in taps]
        corners = [
            (
                own if index is None else index * size + own,
                scale if weight is None else weight if scale is None else scale * weight,
            )
            for index, scale in corners
            for own, weight in along
        ]
    return [(index, scale) for index, scale in corners if index is not None]
