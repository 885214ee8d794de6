"""Normalization: each group of numbers brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.dialects.types.size import Size
from tenon.nn.derived import check_sizes, lazy
from tenon.nn.module import Array, Module


class _ShapeNorm(Module):
    """A norm of slices of `normalized_shape` along the last axes."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None, elementwise_affine: bool) -> None:
        super().__init__()
        is_number = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if is_number else tuple(normalized_shape)
        check_sizes(self, normalized_shape=self.normalized_shape)
        self.eps: Any = eps
        self.elementwise_affine = elementwise_affine
        self.weight: Array = None

    def _axes(self, x: Array) -> tuple[int, ...]:
        rank = len(self.normalized_shape)
        if tuple(x.shape[-rank:]) != self.normalized_shape:
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)}, which does not end in {self.normalized_shape}"
            )
        return tuple(range(-rank, 0))

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_ShapeNorm):
    """Each slice of `normalized_shape` along the last axes brought to mean 0, variance 1, then scaled and shifted."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        self.weight = np.ones(self.normalized_shape, dtype) if elementwise_affine else None
        self.bias: Array = np.zeros(self.normalized_shape, dtype) if elementwise_affine and bias else None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bias={self.bias is not None}"

    def forward(self, x: Array) -> Array:
        return tenon.layer_norm(x, self.weight, self.bias, axis=self._axes(x), eps=self.eps)


class RMSNorm(_ShapeNorm):
    """Each slice of `normalized_shape` along the last axes over the root of its mean square, then scaled.

    `eps` is the distance from 1 to the next number of the dtype of x unless it is given; see `tenon.rms_norm`.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        self.weight = np.ones(self.normalized_shape, dtype) if elementwise_affine else None

    def forward(self, x: Array) -> Array:
        eps = float(tenon.finfo(x.dtype).eps) if self.eps is None else self.eps
        return tenon.rms_norm(x, self.weight, axis=self._axes(x), eps=eps)


class GroupNorm(Module):
    """Each of `num_groups` groups of channels of (n, c, ...) brought to mean 0, variance 1, then scaled and shifted."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        check_sizes(self, 1, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels is {num_channels}, no multiple of num_groups, {num_groups}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight: Array = np.ones(num_channels, dtype) if affine else None
        self.bias: Array = np.zeros(num_channels, dtype) if affine and bias else None

    def forward(self, x: Array) -> Array:
        if len(x.shape) < 2 or x.shape[1] != self.num_channels:
            raise ValueError(f"GroupNorm: x has shape {tuple(x.shape)} where (n, {self.num_channels}, ...) is needed")
        return tenon.group_norm(x, self.weight, self.bias, groups=self.num_groups, eps=self.eps)

    def extra_repr(self) -> str:
        said = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return f"{said}, bias={self.bias is not None}"


class _StatisticsNorm(Module):
    """A norm of channels whose running statistics follow those of what it is called on while training, with weight
    `momentum`; or, if that is `None`, are their mean.
    """

    RANKS: ClassVar[tuple[int, ...]]
    OPTIONAL_STATE: ClassVar[tuple[str, ...]] = ("num_batches_tracked",)

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        dtype: Any,
    ) -> None:
        super().__init__()
        check_sizes(self, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight: Array = np.ones(num_features, dtype) if affine else None
        self.bias: Array = np.zeros(num_features, dtype) if affine and bias else None
        if track_running_stats:
            self.register_buffer("running_mean", np.zeros(num_features, dtype))
            self.register_buffer("running_var", np.ones(num_features, dtype))
            self.register_buffer("num_batches_tracked", np.zeros((), np.int64))
            self.num_batches_tracked: Array

    def _check(self, x: Array, channels: int) -> None:
        if len(x.shape) not in self.RANKS:
            ranks = " or ".join(map(str, self.RANKS))
            raise ValueError(f"{type(self).__name__}: x has shape {tuple(x.shape)} where {ranks} dimensions are needed")
        if x.shape[channels] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)}, and num_features is {self.num_features}"
            )

    def _by_running(self, x: Array) -> Array:
        return tenon.batch_norm(
            x, mean=self.running_mean, variance=self.running_var, weight=self.weight, bias=self.bias, eps=self.eps
        )

    def _follow(self, mean: Array, variance: Array, count: Any) -> None:
        """Have the running statistics follow those of `count` numbers of each channel."""
        if isinstance(count, Size):
            count = tenon.cast(tenon.size(count), dtype="f32")
            unbiased = count / tenon.maximum(count - 1, 1)
        else:
            unbiased = count / max(count - 1, 1)
        self.num_batches_tracked = tenon.add(self.num_batches_tracked, 1)
        take: Any = self.momentum
        if take is None:
            take = 1 / tenon.cast(self.num_batches_tracked, dtype=self.running_mean.dtype)
        mean, variance = tenon.stop_gradient(mean), tenon.stop_gradient(variance)
        self.running_mean = tenon.add(tenon.multiply(self.running_mean, 1 - take), tenon.multiply(mean, take))
        self.running_var = tenon.add(
            tenon.multiply(self.running_var, 1 - take), tenon.multiply(variance, take * unbiased)
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_StatisticsNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, dtype)

    def forward(self, x: Array) -> Array:
        self._check(x, 1)
        if not self.training and self.track_running_stats:
            return self._by_running(x)
        if self.training and all(size == 1 for axis, size in enumerate(x.shape) if axis != 1):
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)}, one number of each channel, which has no "
                "variance; train on more, or switch to evaluation with eval()"
            )
        result, mean, variance = tenon.batch_norm_training(x, self.weight, self.bias, eps=self.eps)
        if self.training and self.track_running_stats:
            self._follow(mean, variance, math.prod(size for axis, size in enumerate(x.shape) if axis != 1))
        return result


class BatchNorm1d(_BatchNorm):
    """Each channel of (n, c) or (n, c, length) brought to mean 0 and variance 1, then scaled and shifted.

    While training by the batch's statistics, which the running ones follow with weight `momentum` (or, if that is
    `None`, are the mean of); otherwise by the running ones, unless `track_running_stats` is false.
    """

    RANKS = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of (n, c, h, w) brought to mean 0 and variance 1, then scaled and shifted.

    While training by the batch's statistics, which the running ones follow with weight `momentum` (or, if that is
    `None`, are the mean of); otherwise by the running ones, unless `track_running_stats` is false.
    """

    RANKS = (4,)


class BatchNorm3d(_BatchNorm):
    """`BatchNorm2d` of (n, c, d, h, w)."""

    RANKS = (5,)


class _InstanceNorm(_StatisticsNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, dtype)

    def forward(self, x: Array) -> Array:
        self._check(x, len(x.shape) - self.RANKS[0])
        is_single = len(x.shape) == self.RANKS[0]
        x = tenon.expand_dims(x, axis=0) if is_single else x
        result = self._normalized(x)
        return tenon.squeeze(result, axis=0) if is_single else result

    def _normalized(self, x: Array) -> Array:
        if not self.training and self.track_running_stats:
            return self._by_running(x)
        image = tuple(range(2, len(x.shape)))
        if self.training and self.track_running_stats:
            mean = tenon.mean(tenon.mean(x, axis=image), axis=0)
            variance = tenon.mean(tenon.var(x, axis=image), axis=0)
            self._follow(mean, variance, math.prod(x.shape[2:]))
        return tenon.instance_norm(x, self.weight, self.bias, eps=self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample of (n, c, length) brought to mean 0 and variance 1, then scaled and shifted if
    `affine`; n may be missing. With `track_running_stats`, by the means of the running ones when not training.
    """

    RANKS = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm1d` of (n, c, h, w)."""

    RANKS = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm1d` of (n, c, d, h, w)."""

    RANKS = (4, 5)


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = [
    lazy(kind, 1, weight=0, running_mean=0) for kind in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
]
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = [
    lazy(kind, -kind.RANKS[0], weight=0, running_mean=0) for kind in (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
]


class LocalResponseNorm(Module):
    """x over (`k` + `alpha` / `size` · s)^`beta`, where s is the sum of the squares of the `size` channels around each:
    size // 2 before it and (size - 1) // 2 behind it, as far as there are any (Krizhevsky et al., 2012).
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Array) -> Array:
        # The op, as ONNX's, has the longer side of an even size behind.
        is_even = self.size % 2 == 0
        settings: Any = {"size": self.size, "alpha": float(self.alpha), "beta": float(self.beta), "bias": float(self.k)}
        result = tenon.local_response_norm(tenon.flip(x, axis=1) if is_even else x, **settings)
        return tenon.flip(result, axis=1) if is_even else result

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LocalResponseNorm",
    "RMSNorm",
]
