"""Pooling as modules."""

from __future__ import annotations

import tenon
from tenon.nn.module import Array, Module
from tenon.nn.windows import Sizes, WindowModule, sizes_of


class _MaxPool(WindowModule):
    """The largest element of windows of `kernel_size`, `stride` apart (`kernel_size` unless given)."""

    SETTINGS = ("window", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.window = sizes_of(kernel_size, self.RANK)
        self.stride, self.padding, self.dilation, self.ceil_mode = stride, padding, dilation, ceil_mode

    def forward(self, x: Array) -> Array:
        return tenon.max_pool(x, **self._settings())


class MaxPool1d(_MaxPool):
    """The largest element of each window of (..., length); see `tenon.max_pool`."""

    RANK = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of (..., height, width); see `tenon.max_pool`."""

    RANK = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of (..., depth, height, width); see `tenon.max_pool`."""

    RANK = 3


class _AvgPool(WindowModule):
    """The mean of windows of `kernel_size`, `stride` apart (`kernel_size` unless given)."""

    SETTINGS = ("window", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes | str = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.window = sizes_of(kernel_size, self.RANK)
        self.stride, self.padding, self.ceil_mode = stride, padding, ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Array) -> Array:
        return tenon.avg_pool(x, **self._settings())


class AvgPool1d(_AvgPool):
    """The mean of each window of (..., length); see `tenon.avg_pool`."""

    RANK = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of (..., height, width); see `tenon.avg_pool`."""

    RANK = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (..., depth, height, width); see `tenon.avg_pool`."""

    RANK = 3


class AdaptiveAvgPool2d(Module):
    """The means of `output_size` windows that cover (..., height, width); -1 keeps a size."""

    def __init__(self, output_size: Sizes) -> None:
        super().__init__()
        self.output_size = sizes_of(output_size, 2)

    def forward(self, x: Array) -> Array:
        return tenon.adaptive_avg_pool(x, output_size=self.output_size)


class GlobalAvgPool(Module):
    """The mean of each channel of images (n, c, ...), as (n, c), or with `keepdims` as (n, c, 1, ...)."""

    def __init__(self, keepdims: bool = False) -> None:
        super().__init__()
        self.keepdims = keepdims

    def forward(self, x: Array) -> Array:
        pooled = tenon.global_avg_pool(x)
        return pooled if self.keepdims else tenon.reshape(pooled, shape=tuple(pooled.shape[:2]))
