"""Modules that surround images, make them larger or smaller, and take them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from typing import Any, ClassVar, Literal

import numpy as np

import tenon
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.support.interpolation import Kernel, cubic, linear
from tenon.nn.derived import Sizes, sizes_of
from tenon.nn.module import Array, Module


class _Pad(Module):
    """The last `RANK` dimensions with more elements before and behind them, or fewer where a size is negative."""

    RANK: ClassVar[int]
    MODE: ClassVar[Literal["constant", "reflect", "edge", "wrap"]] = "constant"
    value: float = 0.0

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = sizes_of(padding, 2 * self.RANK, "padding")

    def forward(self, x: Array) -> Array:
        if len(x.shape) < self.RANK:
            raise ValueError(f"{type(self).__name__}: x has shape {tuple(x.shape)} and {self.RANK} are padded")
        kept = (0,) * (len(x.shape) - self.RANK)
        low, high = self.padding[-2::-2], self.padding[::-2]
        return tenon.pad(x, low=(*kept, *low), high=(*kept, *high), value=float(self.value), mode=self.MODE)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _padding(name: str, rank: int, mode: str, meaning: str, base: type[_Pad] = _Pad) -> type[_Pad]:
    text = f"{meaning} around the last {'dimension' if rank == 1 else f'{rank} dimensions'}; see `tenon.pad`."
    return type(name, (base,), {"RANK": rank, "MODE": mode, "__doc__": text, "__module__": __name__})


ConstantPad1d, ConstantPad2d, ConstantPad3d = [
    _padding(f"ConstantPad{rank}d", rank, "constant", "A number", _ConstantPad) for rank in (1, 2, 3)
]
ZeroPad1d, ZeroPad2d, ZeroPad3d = [_padding(f"ZeroPad{rank}d", rank, "constant", "Zeros") for rank in (1, 2, 3)]
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = [
    _padding(f"ReflectionPad{rank}d", rank, "reflect", "What is mirrored at the edges") for rank in (1, 2, 3)
]
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = [
    _padding(f"ReplicationPad{rank}d", rank, "edge", "The nearest element") for rank in (1, 2, 3)
]
CircularPad1d, CircularPad2d, CircularPad3d = [
    _padding(f"CircularPad{rank}d", rank, "wrap", "What begins again") for rank in (1, 2, 3)
]

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_KERNELS: dict[str, tuple[Kernel, int]] = {
    "linear": (linear, 1),
    "bilinear": (linear, 1),
    "trilinear": (linear, 1),
    "bicubic": (cubic(-0.75), 2),
}


class Upsample(Module):
    """Images (n, c, *image) interpolated to `size`, or to floor(`scale_factor` times theirs): by the nearest element,
    linearly, or bicubically (Keys, 1981), or by the mean of an `area`. With `align_corners` the first and last elements
    stay where they are; with `antialias`, what is made smaller counts all elements, as by a wider kernel.
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ValueError("Upsample: size or scale_factor is needed, and not both")
        if mode not in (modes := ("nearest", "nearest-exact", "area", *_RANKS)):
            raise ValueError(f"Upsample: mode {mode!r} is not one of {', '.join(modes)}")
        if align_corners is not None and mode not in _RANKS:
            raise ValueError(f"Upsample: align_corners means nothing for mode {mode!r}")
        if antialias and _RANKS.get(mode) != 2:
            raise ValueError(f"Upsample: antialias is for modes bilinear and bicubic, and mode is {mode!r}")
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, list | tuple) else scale_factor
        self.recompute_scale_factor, self.antialias = recompute_scale_factor, antialias

    @one_program_of_large
    def forward(self, x: Array) -> Array:
        image = tuple(x.shape[2:])
        rank = _RANKS.get(self.mode)
        if not image or (rank is not None and len(image) != rank):
            needed = "(n, c, *image)" if rank is None else f"{rank + 2} dimensions"
            raise ValueError(f"Upsample: x has shape {tuple(x.shape)} where {needed} are needed for mode {self.mode!r}")
        if self.size is not None:
            sizes = sizes_of(self.size, len(image), "size")
            scales = [size / own for size, own in zip(sizes, image, strict=True)]
        else:
            given: Any = self.scale_factor
            scales = [float(scale) for scale in sizes_of(given, len(image), "scale_factor")]
            sizes = tuple([floor(own * scale) for own, scale in zip(image, scales, strict=True)])
            if self.recompute_scale_factor:
                scales = [size / own for size, own in zip(sizes, image, strict=True)]
        if min(sizes) < 1:
            raise ValueError(f"Upsample: of {image} an image of {sizes} is made, where sizes of 1 or more are needed")
        if self.mode == "area":
            return tenon.adaptive_avg_pool(x, sizes)
        along = self._smoothed if self.antialias else self._along
        for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True), start=2):
            x = along(x, axis, size, scale)
        return x

    def _smoothed(self, x: Array, axis: int, size: int, scale: float) -> Array:
        """As Pillow does: the kernel is as wide as the distance of neighbours in the result."""
        length = x.shape[axis]
        step = 1 / scale
        if self.align_corners:
            step = (length - 1) / (size - 1) if size > 1 else 0.0
        kernel, radius = (linear, 1) if self.mode == "bilinear" else (cubic(-0.5), 2)
        wide = max(step, 1.0)
        center = step * (np.arange(size)[:, None] + 0.5)
        places = np.arange(length)
        low, high = np.trunc(center - radius * wide + 0.5), np.trunc(center + radius * wide + 0.5)
        weights = np.where((places >= low) & (places < high), kernel((places - center + 0.5) / wide), 0.0)
        weights = (weights / weights.sum(axis=1, keepdims=True)).astype(x.dtype)
        return tenon.moveaxis(tenon.matmul(tenon.moveaxis(x, axis, -1), weights.T), -1, axis)

    def _along(self, x: Array, axis: int, size: int, scale: float) -> Array:
        length, out = x.shape[axis], np.arange(size, dtype=np.float64)
        if self.mode.startswith("nearest"):
            place = (out + 0.5) / scale if self.mode == "nearest-exact" else out / scale
            return tenon.gather(x, np.clip(np.floor(place), 0, length - 1).astype(np.int64), axis=axis)
        kernel, radius = _KERNELS[self.mode]
        place = out * ((length - 1) / max(size - 1, 1)) if self.align_corners else (out + 0.5) / scale - 0.5
        if radius == 1:
            place = np.maximum(place, 0)
        taps = np.floor(place)[:, None] + np.arange(1 - radius, radius + 1)
        weights = kernel(taps - place[:, None]).astype(x.dtype).reshape(size, 2 * radius, *[1] * (x.ndim - 1 - axis))
        parts = tenon.gather(x, np.clip(taps, 0, length - 1).astype(np.int64), axis=axis)
        return tenon.sum(parts * weights, axis=axis + 1)

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            given: Any = self.scale_factor
            shown = tuple(map(float, given)) if isinstance(given, tuple) else float(given)
            return f"scale_factor={shown}, mode={self.mode!r}"
        return f"size={self.size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of (n, c, h, w) by the nearest element."""

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of (n, c, h, w), linearly, with aligned corners."""

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Module):
    """Channels (..., c·r², h, w) made squares of pixels: (..., c, h·r, w·r); see `tenon.depth_to_space`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, x: Array) -> Array:
        return tenon.depth_to_space(x, self.upscale_factor, mode="CRD")

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Squares of pixels made channels, which undoes `PixelShuffle`; see `tenon.space_to_depth`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, x: Array) -> Array:
        return tenon.space_to_depth(x, self.downscale_factor, mode="CRD")

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels of (n, c, ...) taken in turn from each of `groups` groups (Zhang et al., arXiv:1707.01083)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    @one_program_of_large
    def forward(self, x: Array) -> Array:
        n, channels, *image = x.shape
        if channels % self.groups:
            raise ValueError(f"ChannelShuffle: {channels} channels are no multiple of groups, which is {self.groups}")
        apart = tenon.reshape(x, shape=(n, self.groups, channels // self.groups, *image))
        order = (0, 2, 1, *range(3, len(image) + 3))
        return tenon.reshape(tenon.transpose(apart, permutation=order), shape=tuple(x.shape))

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Blocks(Module):
    """Windows of images, side by side."""

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def _settings(self) -> dict[str, Any]:
        names = {"window": self.kernel_size, "dilation": self.dilation, "stride": self.stride}
        return {name: sizes_of(value, 2, name) for name, value in names.items()}

    def _on_batch(self, function: Callable[[Array], Array], x: Array, rank: int) -> Array:
        if len(x.shape) == rank:
            return function(x)
        return tenon.squeeze(function(tenon.expand_dims(x, axis=0)), axis=0)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Blocks):
    """The windows of images (n, c, h, w), as columns: (n, c·elements, windows); see `tenon.sliding_windows`."""

    @one_program_of_large
    def forward(self, x: Array) -> Array:
        def unfolded(x: Array) -> Array:
            low = (0, 0, *sizes_of(self.padding, 2, "padding"))
            windows = tenon.sliding_windows(tenon.pad(x, low=low, high=low), **self._settings())
            n, c, rows, columns, height, width = windows.shape
            columns_last = tenon.transpose(windows, permutation=(0, 1, 4, 5, 2, 3))
            return tenon.reshape(columns_last, shape=(n, c * height * width, rows * columns))

        return self._on_batch(unfolded, x, 4)


class Fold(_Blocks):
    """Windows (n, c·elements, windows) added up to images (n, c, *output_size); see `tenon.fold`."""

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, x: Array) -> Array:
        settings = {
            "size": sizes_of(self.output_size, 2, "output_size"),
            "padding": sizes_of(self.padding, 2, "padding"),
            **self._settings(),
        }
        return self._on_batch(lambda x: tenon.fold(x, **settings), x, 3)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]
