"""Pooling as modules."""

from __future__ import annotations

from typing import Any

import tenon
from tenon.dialects.ops.contract.pooling import counted
from tenon.dialects.ops.contract.windows import Windows
from tenon.nn.derived import Sizes, WindowModule, sizes_of
from tenon.nn.module import Array, Module


class _Pool(WindowModule):
    """Windows of `kernel_size`, `stride` apart (`kernel_size` unless given)."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None, padding: Sizes | str, ceil_mode: bool) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def _settings(self) -> dict[str, Any]:
        return {"window": sizes_of(self.kernel_size, self.RANK, "kernel_size"), **super()._settings()}


class _MaxPool(_Pool):
    """The largest element of windows; with `return_indices`, and where in its image it is, as `MaxUnpool` takes it."""

    SETTINGS = ("stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation, self.return_indices = dilation, return_indices

    def forward(self, x: Array) -> Any:
        pool = tenon.max_pool_with_indices if self.return_indices else tenon.max_pool
        return pool(x, **self._settings())

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return ", ".join([f"{name}={getattr(self, name)}" for name in names])


class MaxPool1d(_MaxPool):
    """The largest element of each window of (..., length); see `tenon.max_pool`."""

    RANK = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of (..., height, width); see `tenon.max_pool`."""

    RANK = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of (..., depth, height, width); see `tenon.max_pool`."""

    RANK = 3


class _MaxUnpool(WindowModule):
    """What `MaxPool` with `return_indices` has taken, put back, and zeros elsewhere; see `tenon.max_unpool`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = sizes_of(kernel_size, self.RANK, "kernel_size")
        self.stride = self.kernel_size if stride is None else sizes_of(stride, self.RANK, "stride")
        self.padding = sizes_of(padding, self.RANK, "padding")

    def forward(self, x: Array, indices: Array, output_size: Any = None) -> Array:
        if output_size is None:
            sides = zip(x.shape[-self.RANK :], self.kernel_size, self.stride, self.padding, strict=True)
            size = tuple([(count - 1) * stride - 2 * pad + window for count, window, stride, pad in sides])
        else:
            size = tuple(output_size)[-self.RANK :]
        return tenon.max_unpool(x, indices, output_size=size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """What `MaxPool1d` has taken, put back; see `tenon.max_unpool`."""

    RANK = 1


class MaxUnpool2d(_MaxUnpool):
    """What `MaxPool2d` has taken, put back; see `tenon.max_unpool`."""

    RANK = 2


class MaxUnpool3d(_MaxUnpool):
    """What `MaxPool3d` has taken, put back; see `tenon.max_unpool`."""

    RANK = 3


class _AvgPool(_Pool):
    """The mean of windows, over `divisor_override` instead of the number of elements if that is given."""

    SETTINGS = ("stride", "padding", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes | str = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, x: Array) -> Array:
        settings = self._settings()
        if self.divisor_override is None:
            return tenon.avg_pool(x, count_include_pad=self.count_include_pad, **settings)
        rank = self.RANK
        padding = self.padding if isinstance(self.padding, str) else sizes_of(self.padding, rank, "padding")
        windows = Windows.of(
            settings["window"], sizes_of(self.stride, rank, "stride"), padding, (1,) * rank, self.ceil_mode
        )
        mean = tenon.avg_pool(x, count_include_pad=False, **settings)
        # The sum of a window is its mean times the number of elements that are in the image.
        for axis, count in enumerate(counted(windows, tuple(x.shape[-rank:]), False)):
            mean = mean * count.astype(x.dtype).reshape(-1, *[1] * (rank - 1 - axis))
        return mean / self.divisor_override

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding")
        sizes = {name: getattr(self, name) for name in names}
        if self.RANK == 1:
            sizes = {name: sizes_of(value, 1, name) for name, value in sizes.items()}
        return ", ".join([f"{name}={value}" for name, value in sizes.items()])


class AvgPool1d(_AvgPool):
    """The mean of each window of (..., length); see `tenon.avg_pool`."""

    RANK = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of (..., height, width); see `tenon.avg_pool`."""

    RANK = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (..., depth, height, width); see `tenon.avg_pool`."""

    RANK = 3


class _LPPool(_Pool):
    """(sum of |x|^p)^(1/p) of windows, for `norm_type` p. PyTorch's has x^p there, which is the same for even p."""

    SETTINGS = ("stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, 0, ceil_mode)
        self.norm_type, self.stride = norm_type, stride

    def forward(self, x: Array) -> Array:
        return tenon.lp_pool(x, p=float(self.norm_type), **self._settings())

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of each window of (..., length); see `tenon.lp_pool`."""

    RANK = 1


class LPPool2d(_LPPool):
    """The p-norm of each window of (..., height, width); see `tenon.lp_pool`."""

    RANK = 2


class LPPool3d(_LPPool):
    """The p-norm of each window of (..., depth, height, width); see `tenon.lp_pool`."""

    RANK = 3


class _AdaptivePool(WindowModule):
    """`output_size` windows that cover the last dimensions; `None`, or -1, keeps a size."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def _settings(self) -> dict[str, Any]:
        return {
            "output_size": tuple([-1 if s is None else s for s in sizes_of(self.output_size, self.RANK, "output_size")])
        }

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def forward(self, x: Array) -> Array:
        return tenon.adaptive_avg_pool(x, **self._settings())


class _AdaptiveMaxPool(_AdaptivePool):
    def forward(self, x: Array) -> Array:
        return tenon.adaptive_max_pool(x, **self._settings())


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of `output_size` windows that cover (..., length); see `tenon.adaptive_avg_pool`."""

    RANK = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of `output_size` windows that cover (..., height, width); see `tenon.adaptive_avg_pool`."""

    RANK = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of `output_size` windows that cover (..., depth, height, width); see `tenon.adaptive_avg_pool`."""

    RANK = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows that cover (..., length); see `tenon.adaptive_max_pool`."""

    RANK = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows that cover (..., height, width); see `tenon.adaptive_max_pool`."""

    RANK = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows that cover (..., depth, height, width)."""

    RANK = 3


class GlobalAvgPool(Module):
    """The mean of each channel of images (n, c, ...), as (n, c), or with `keepdims` as (n, c, 1, ...)."""

    def __init__(self, keepdims: bool = False) -> None:
        super().__init__()
        self.keepdims = keepdims

    def forward(self, x: Array) -> Array:
        pooled = tenon.global_avg_pool(x)
        return pooled if self.keepdims else tenon.reshape(pooled, shape=tuple(pooled.shape[:2]))


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "GlobalAvgPool",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]
