"""Convolutions and transposed convolutions with learned weights, in one to three spatial dimensions."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.nn.derived import Sizes, WindowModule, check_sizes, lazy, sizes_of
from tenon.nn.init import Seed, generator_of, uniform
from tenon.nn.module import Array

_MODES: dict[str, Any] = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


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
        padding_mode: str = "zeros",
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        check_sizes(self, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size, groups=groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{kind}: groups is {groups}, which does not divide {in_channels} and {out_channels} channels"
            )
        if padding_mode not in _MODES or (self.IS_TRANSPOSED and padding_mode != "zeros"):
            modes = "zeros" if self.IS_TRANSPOSED else ", ".join(_MODES)
            raise ValueError(f"{kind}: padding_mode {padding_mode!r} is not one of {modes}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = sizes_of(kernel_size, self.RANK, "kernel_size")
        self.stride, self.dilation = sizes_of(stride, self.RANK, "stride"), sizes_of(dilation, self.RANK, "dilation")
        self.padding = padding if isinstance(padding, str) else sizes_of(padding, self.RANK, "padding")
        self.groups, self.padding_mode = groups, padding_mode
        channels = (in_channels, out_channels) if self.IS_TRANSPOSED else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
        generator, fan_in = generator_of(seed), prod(shape[1:])
        self.weight = uniform(generator, shape, fan_in, dtype)
        self.bias: Array = uniform(generator, (out_channels,), fan_in, dtype) if bias else None

    def _convolved(self, x: Array) -> Array:
        settings = self._settings()
        if self.padding_mode != "zeros":
            x = self._padded(x)
            settings["padding"] = (0,) * self.RANK
        return tenon.conv(x, self.weight, self.bias, **settings)

    def _padded(self, x: Array) -> Array:
        """`x` with what continues it around it."""
        if self.padding == "valid":
            return x
        if isinstance(self.padding, str):
            spans = [step * (size - 1) for step, size in zip(self.dilation, self.kernel_size, strict=True)]
            low = [span // 2 for span in spans]
            high = [span - before for span, before in zip(spans, low, strict=True)]
        else:
            low = high = [*self.padding]
        return tenon.pad(x, low=(0, 0, *low), high=(0, 0, *high), mode=_MODES[self.padding_mode])

    def forward(self, x: Array) -> Array:
        return self._on_batch(self._convolved, x)

    def extra_repr(self) -> str:
        said = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        ones = (1,) * self.RANK
        for name, default in (
            ("padding", (0,) * self.RANK),
            ("dilation", ones),
            ("output_padding", (0,) * self.RANK),
            ("groups", 1),
        ):
            value = getattr(self, name, default)
            said += "" if value == default else f", {name}={value}"
        said += ", bias=False" if self.bias is None else ""
        return said + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


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
    SETTINGS = ("stride", "padding", "dilation", "groups")
    IS_TRANSPOSED = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        *,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            dtype=dtype,
            seed=seed,
        )
        self.output_padding = sizes_of(output_padding, self.RANK, "output_padding")

    def forward(self, x: Array, output_size: Any = None) -> Array:
        """The images, of `output_size` if that is given: a size for each of the last dimensions."""
        extra = self.output_padding if output_size is None else self._extra(x, tuple(output_size)[-self.RANK :])

        def spread(x: Array) -> Array:
            return tenon.conv_transpose(x, self.weight, self.bias, output_padding=extra, **self._settings())

        return self._on_batch(spread, x)

    def _extra(self, x: Array, wanted: tuple[int, ...]) -> tuple[int, ...]:
        sides = zip(
            x.shape[-self.RANK :], self.stride, self.padding, self.dilation, self.kernel_size, wanted, strict=True
        )
        extra = tuple(
            [
                size - ((own - 1) * stride - 2 * int(pad) + step * (window - 1) + 1)
                for own, stride, pad, step, window, size in sides
            ]
        )
        if any(not 0 <= more < stride for more, stride in zip(extra, self.stride, strict=True)):
            raise ValueError(
                f"{type(self).__name__}: output_size is {wanted}, which needs {extra} more than the least size; "
                f"strides of {self.stride} leave room for less"
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, length); see `tenon.conv_transpose` for the settings."""

    RANK = 1


class ConvTranspose2d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, h, w); see `tenon.conv_transpose` for the settings."""

    RANK = 2


class ConvTranspose3d(_ConvTranspose):
    """The transposed convolution of (n, `in_channels`, d, h, w); see `tenon.conv_transpose` for the settings."""

    RANK = 3


LazyConv1d = lazy(Conv1d, -2, weight=1)
LazyConv2d = lazy(Conv2d, -3, weight=1)
LazyConv3d = lazy(Conv3d, -4, weight=1)
LazyConvTranspose1d = lazy(ConvTranspose1d, -2, weight=0)
LazyConvTranspose2d = lazy(ConvTranspose2d, -3, weight=0)
LazyConvTranspose3d = lazy(ConvTranspose3d, -4, weight=0)
