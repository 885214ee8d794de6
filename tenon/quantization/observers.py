"""Modules that find the range of what passes through them, and from it scale and zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenon
from tenon.dialects.support.plain_arrays import elements_of, is_stored, on_host
from tenon.nn.module import Array, Module
from tenon.quantization.functions import fake_quantize, limits_of, parameters_for


def range_of(x: Array, axis: int | None) -> tuple[Array, Array]:
    """The least and the largest element of `x`, or of each slice at an index along `axis`."""
    axes = None if axis is None else tuple([other for other in range(x.ndim) if other != axis % x.ndim])
    return tenon.min(x, axis=axes), tenon.max(x, axis=axes)


class MinMaxObserver(Module):
    """Gives what it is given, and remembers the least and the largest elements while training; with `axis`, those of
    each of `channels` slices."""

    def __init__(
        self, *, dtype: Any = "i8", symmetric: bool = False, axis: int | None = None, channels: int | None = None
    ) -> None:
        super().__init__()
        limits_of(dtype)
        if (axis is None) != (channels is None):
            raise ValueError(f"{type(self).__name__}: axis is {axis} and channels {channels}; give both or none")
        self.dtype, self.symmetric, self.axis = dtype, symmetric, axis
        shape = () if channels is None else (channels,)
        self.register_buffer("low", np.full(shape, np.inf, np.float32))
        self.register_buffer("high", np.full(shape, -np.inf, np.float32))

    def followed(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The range after one that was observed."""
        return tenon.minimum(self.low, low), tenon.maximum(self.high, high)

    def forward(self, x: Array) -> Array:
        if self.training:
            found = range_of(tenon.stop_gradient(x), self.axis)
            self.low, self.high = self.followed(*[tenon.cast(bound, dtype="f32") for bound in found])
        return x

    def parameters_found(self) -> tuple[Array, Array]:
        """Scale and zero point for what was observed. Raises `ValueError` where that is nothing."""
        low = elements_of(self.low)
        if is_stored(low) and np.isinf(on_host(low)).any():
            raise ValueError(f"{type(self).__name__}: nothing was observed; call the module in training mode first")
        return parameters_for(self.low, self.high, dtype=self.dtype, symmetric=self.symmetric)


class MovingAverageObserver(MinMaxObserver):
    """As `MinMaxObserver`, with averages that follow each range by a share of `averaging_constant`."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        *,
        dtype: Any = "i8",
        symmetric: bool = False,
        axis: int | None = None,
        channels: int | None = None,
    ) -> None:
        super().__init__(dtype=dtype, symmetric=symmetric, axis=axis, channels=channels)
        if not 0 < averaging_constant <= 1:
            raise ValueError(f"MovingAverageObserver: averaging_constant is {averaging_constant}, outside of (0, 1]")
        self.averaging_constant = averaging_constant

    def followed(self, low: Array, high: Array) -> tuple[Array, Array]:
        def moved(average: Array, new: Array) -> Array:
            known = tenon.select(tenon.isinf(average), new, average)
            return tenon.add(known, tenon.multiply(tenon.subtract(new, known), self.averaging_constant))

        return moved(self.low, low), moved(self.high, high)


class FakeQuantize(Module):
    """What quantization by the range that `observer` finds would leave of what is given; the gradient goes straight
    through."""

    def __init__(self, observer: MinMaxObserver) -> None:
        super().__init__()
        self.observer = observer

    def forward(self, x: Array) -> Array:
        x = self.observer(x)
        scale, zero_point = self.observer.parameters_found()
        return fake_quantize(x, scale, zero_point, dtype=self.observer.dtype, axis=self.observer.axis)


__all__ = ["FakeQuantize", "MinMaxObserver", "MovingAverageObserver", "range_of"]
