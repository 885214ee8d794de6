"""Convolutions and transposed convolutions with learned weights, in one to three spatial dimensions."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.nn.initialization import Seed, generator_of, uniform
from tenon.nn.module import Array
from tenon.nn.windows import Sizes, WindowModule, sizes_of


class _Conv(WindowModule):
    """Weights start uniform in ±1/√(inputs of one output)."""

    SETTINGS = ("stride", "padding", "dilation", "groups")
    IS_TRANSPOSED: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{type(self).__name__}: groups is {groups}, which does not divide {in_channels} and {out_channels} "
                "channels"
            )
        self.stride, self.dilation = sizes_of(stride, self.RANK), sizes_of(dilation, self.RANK)
        self.padding = padding if isinstance(padding, str) else sizes_of(padding, self.RANK)
        self.groups = groups
        channels = (in_channels, out_channels) if self.IS_TRANSPOSED else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *sizes_of(kernel_size, self.RANK))
        generator, fan_in = generator_of(seed), prod(shape[1:])
        self.weight = uniform(generator, shape, fan_in, dtype)
        self.bias: Array = uniform(generator, (out_channels,), fan_in, dtype) if bias else None

    def forward(self, x: Array) -> Array:
        return tenon.conv(x, self.weight, self.bias, **self._settings())


class Conv1d(_Conv):
    """Cross-correlation of (n, `in_channels`, length) with learned windows; see `tenon.conv1d` for the settings."""

    RANK = 1


class Conv2d(_Conv):
    """Cross-correlation of (n, `in_channels`, h, w) with learned windows; see `tenon.conv2d` for the settings."""

    RANK = 2


class Conv3d(_Conv):
    """Cross-correlation of (n, `in_channels`, d, h, w) with learned windows; see `tenon.conv3d` for the settings."""

    RANK = 3


class _ConvTranspose(_Conv):
    SETTINGS = (*_Conv.SETTINGS, "output_padding")
    IS_TRANSPOSED = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype=dtype, seed=seed
        )
        self.output_padding = sizes_of(output_padding, self.RANK)

    def forward(self, x: Array) -> Array:
        return tenon.conv_transpose(x, self.weight, self.bias, **self._settings())


class ConvTranspose1d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, length); see `tenon.conv_transpose` for the settings."""

    RANK = 1


class ConvTranspose2d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, h, w); see `tenon.conv_transpose` for the settings."""

    RANK = 2


class ConvTranspose3d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, d, h, w); see `tenon.conv_transpose` for the settings."""

    RANK = 3
