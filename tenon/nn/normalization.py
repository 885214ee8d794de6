"""Normalization, and dropout, which acts only while training, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tenon
from tenon.dialects.types.size import Size
from tenon.nn.initialization import Seed, generator_of
from tenon.nn.module import Array, Module


class LayerNorm(Module):
    """Each slice of `normalized_shape` along the last axes brought to mean 0, variance 1, then scaled and shifted."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.axes = tuple(range(-len(shape), 0))
        self.eps = eps
        self.weight = np.ones(shape, dtype) if elementwise_affine else None
        self.bias = np.zeros(shape, dtype) if elementwise_affine else None

    def forward(self, x: Array) -> Array:
        return tenon.layer_norm(x, self.weight, self.bias, axis=self.axes, eps=self.eps)


class BatchNorm2d(Module):
    """Each channel of (n, c, h, w) brought to mean 0 and variance 1, then scaled and shifted.

    While training by the batch's statistics, which the running ones follow with weight `momentum`; otherwise by the
    running ones.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, dtype: Any = np.float32) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = np.ones(num_features, dtype)
        self.bias = np.zeros(num_features, dtype)
        self.register_buffer("running_mean", np.zeros(num_features, dtype))
        self.register_buffer("running_var", np.ones(num_features, dtype))

    def forward(self, x: Array) -> Array:
        if not self.training:
            return tenon.batch_norm(
                x, mean=self.running_mean, variance=self.running_var, weight=self.weight, bias=self.bias, eps=self.eps
            )
        result, mean, variance = tenon.batch_norm_training(x, self.weight, self.bias, eps=self.eps)
        n, _, h, w = x.shape
        count: Any = n * h * w
        if isinstance(count, Size):
            count = tenon.cast(tenon.size(count), dtype="f32")
            unbiased = count / tenon.maximum(count - 1, 1)
        else:
            unbiased = count / max(count - 1, 1)
        keep, take = 1 - self.momentum, self.momentum
        mean, variance = tenon.stop_gradient(mean), tenon.stop_gradient(variance)
        self.running_mean = tenon.add(tenon.multiply(self.running_mean, keep), tenon.multiply(mean, take))
        self.running_var = tenon.add(tenon.multiply(self.running_var, keep), tenon.multiply(variance, take * unbiased))
        return result


class Dropout(Module):
    """While training, each element set to zero with probability `p` and the others scaled by 1/(1-p).

    The buffer `calls` counts the calls, so that each draws other elements; a traced function must return the module for
    that. Layers without a `seed` draw differently from each other.
    """

    def __init__(self, p: float = 0.5, *, seed: Seed = None) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p is {p}, outside of [0, 1)")
        self.p = p
        self.key: Array
        self.register_buffer("key", generator_of(seed).integers(0, 2**31, 2, np.int32))
        self.register_buffer("calls", np.zeros((), np.int32))

    def forward(self, x: Array) -> Array:
        if not self.training or self.p == 0:
            return x
        kept = tenon.random_uniform(tenon.fold_in(self.key, self.calls), x.shape) >= self.p
        self.calls = tenon.add(self.calls, 1)
        return tenon.select(kept, tenon.multiply(x, 1 / (1 - self.p)), 0.0)
