"""Layers on signals, images and volumes: (channels, ...size) of an example."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from networks import (
    Layer,
    Layers,
    Oracle,
    Shape,
    Tree,
    Weight,
    need,
    result_of,
    run_tenon,
    run_torch,
    weights_of,
    work_of,
)

import tenon

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _rank(shape: Shape) -> int:
    need(2 <= len(shape) <= 4, "no image")
    return len(shape) - 1


@dataclass(frozen=True, repr=False)
class Conv(Layer):
    """A convolution; with `depthwise`, each channel by itself, times `channels`."""

    channels: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    depthwise: bool = False
    bias: bool = True

    def _groups(self, shape: Shape) -> tuple[int, int]:
        return (shape[0], shape[0] * self.channels) if self.depthwise else (self.groups, self.channels)

    def result(self, shape: Shape) -> Shape:
        _rank(shape)
        groups, channels = self._groups(shape)
        need(shape[0] % groups == 0 and channels % groups == 0, "groups do not divide")
        reach = (self.kernel - 1) * self.dilation + 1
        sizes = tuple((n + 2 * self.padding - reach) // self.stride + 1 for n in shape[1:])
        need(min(n + 2 * self.padding - reach for n in shape[1:]) >= 0, "an image smaller than the window")
        return (channels, *sizes)

    def weights(self, shape: Shape) -> Tree:
        groups, channels = self._groups(shape)
        window = (shape[0] // groups, *[self.kernel] * _rank(shape))
        w: dict[str, Weight] = {"w": Weight((channels, *window), prod(window) ** -0.5)}
        return w | {"b": Weight((channels,), 0.2)} if self.bias else w

    def work(self, shape: Shape) -> int:
        groups, _ = self._groups(shape)
        return prod(self.result(shape)) * shape[0] // groups * self.kernel ** _rank(shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        rank = x.ndim - 2
        groups, _ = self._groups(x.shape[1:])
        settings = {k: (v,) * rank for k, v in
                    {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}.items()}  # fmt: skip
        return getattr(tenon, f"conv{rank}d")(x, w["w"], w.get("b"), groups=groups, **settings)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        groups, _ = self._groups(x.shape[1:])
        return CONVOLVE[x.dim() - 2](x, w["w"], w.get("b"), self.stride, self.padding, self.dilation, groups)


@dataclass(frozen=True, repr=False)
class Transposed(Layer):
    """A transposed convolution."""

    channels: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    groups: int = 1

    def result(self, shape: Shape) -> Shape:
        _rank(shape)
        need(shape[0] % self.groups == 0 and self.channels % self.groups == 0, "groups do not divide")
        return (self.channels, *[(n - 1) * self.stride - 2 * self.padding + self.kernel for n in shape[1:]])

    def weights(self, shape: Shape) -> Tree:
        window = (self.channels // self.groups, *[self.kernel] * _rank(shape))
        spread = (shape[0] // self.groups * (self.kernel / self.stride) ** _rank(shape)) ** -0.5
        return {"w": Weight((shape[0], *window), spread), "b": Weight((self.channels,), 0.2)}

    def work(self, shape: Shape) -> int:
        return prod(shape) * self.channels // self.groups * self.kernel ** _rank(shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        rank = x.ndim - 2
        function = getattr(tenon, f"conv_transpose{rank}d")
        return function(
            x, w["w"], w["b"], groups=self.groups, stride=(self.stride,) * rank, padding=(self.padding,) * rank
        )

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return TRANSPOSED[x.dim() - 2](x, w["w"], w["b"], self.stride, self.padding, groups=self.groups)


def _order(x: Any) -> Any:
    """Numbers that differ within each window, to decide between values that are close."""
    order = torch.zeros((), dtype=x.dtype)
    for n in x.shape[2:]:
        order = 4 * order[..., None] + torch.arange(n, dtype=x.dtype) % 4
    return order


@dataclass(frozen=True, repr=False)
class Pool(Layer):
    kind: str = "average"
    window: int = 1
    stride: int = 1
    padding: int = 0

    def result(self, shape: Shape) -> Shape:
        _rank(shape)
        need(self.window <= 4 and self.padding <= self.window // 2, "a window of padding alone")
        sizes = tuple((n + 2 * self.padding - self.window) // self.stride + 1 for n in shape[1:])
        need(min(sizes) > 0 and min(shape[1:]) >= self.window, "an image smaller than the window")
        return (shape[0], *sizes)

    def work(self, shape: Shape) -> int:
        return prod(shape) * self.window ** _rank(shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        rank = x.ndim - 2
        function = getattr(tenon, f"{'max' if self.kind == 'max' else 'avg'}_pool{rank}d")
        return function(x, (self.window,) * rank, stride=(self.stride,) * rank, padding=(self.padding,) * rank)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        settings = (self.window, self.stride, self.padding)
        if self.kind == "max":
            return oracle.near(lambda x: MAX_POOL[x.dim() - 2](x, *settings), x, _order(x))
        return AVG_POOL[x.dim() - 2](x, *settings)


@dataclass(frozen=True, repr=False)
class GlobalPool(Layer):
    kind: str = "average"

    def result(self, shape: Shape) -> Shape:
        _rank(shape)
        return shape[:1]

    def tenon(self, w: Tree, x: Any) -> Any:
        axes = tuple(range(2, x.ndim))
        return tenon.max(x, axis=axes) if self.kind == "max" else tenon.mean(x, axis=axes)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        if self.kind == "max":
            order = torch.arange(prod(x.shape[2:]), dtype=x.dtype)
            return oracle.near(lambda x: x.amax(2), x.flatten(2), order)
        return x.flatten(2).mean(2)


@dataclass(frozen=True, repr=False)
class UNet(Layer):
    """Layers on the image of half the size, put beside what comes in (Ronneberger et al., arXiv:1505.04597)."""

    layers: Layers
    down: str = "average"
    up: str = "repeat"

    def _inner(self, shape: Shape) -> Shape:
        _rank(shape)
        need(all(n % 2 == 0 for n in shape[1:]), "an odd size cannot be halved")
        return (shape[0], *[n // 2 for n in shape[1:]])

    def result(self, shape: Shape) -> Shape:
        inner = self._inner(shape)
        made = result_of(self.layers, inner)
        need(made[1:] == inner[1:], "an image of another size")
        return (shape[0] + made[0], *shape[1:])

    def weights(self, shape: Shape) -> Tree:
        made = result_of(self.layers, self._inner(shape))[0]
        up = Weight((made, made, *[2] * _rank(shape)), made**-0.5)
        w: dict[str, Any] = {"layers": weights_of(self.layers, self._inner(shape))}
        return w | {"up": up} if self.up == "transposed" else w

    def work(self, shape: Shape) -> int:
        inner = self._inner(shape)
        return work_of(self.layers, inner) + prod(shape) * (result_of(self.layers, inner)[0] + 1)

    def tenon(self, w: Tree, x: Any) -> Any:
        rank = x.ndim - 2
        pool = getattr(tenon, f"{'max' if self.down == 'max' else 'avg'}_pool{rank}d")
        made = run_tenon(self.layers, w["layers"], pool(x, (2,) * rank, stride=(2,) * rank))
        if self.up == "transposed":
            made = getattr(tenon, f"conv_transpose{rank}d")(made, w["up"], stride=(2,) * rank)
        else:
            for axis in range(2, x.ndim):
                made = tenon.repeat(made, 2, axis=axis)
        return tenon.concatenate((x, made), axis=1)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        rank = x.dim() - 2
        halved = Pool(self.down, 2, 2).torch(oracle, {}, x)
        made = run_torch(self.layers, oracle, w["layers"], halved)
        if self.up == "transposed":
            made = TRANSPOSED[rank](made, w["up"], stride=2)
        else:
            for axis in range(2, x.dim()):
                made = made.repeat_interleave(2, axis)
        return torch.cat((x, made), 1)


@dataclass(frozen=True, repr=False)
class Patches(Layer):
    """An image cut into patches, which become a sequence."""

    size: int = 1

    def result(self, shape: Shape) -> Shape:
        need(len(shape) == 3 and shape[1] % self.size == 0 and shape[2] % self.size == 0, "patches do not fit")
        return (shape[1] * shape[2] // self.size**2, shape[0] * self.size**2)

    def tenon(self, w: Tree, x: Any) -> Any:
        n, c, height, width = x.shape
        time, features = self.result((c, height, width))
        x = tenon.reshape(x, shape=(n, c, height // self.size, self.size, width // self.size, self.size))
        return tenon.reshape(tenon.transpose(x, permutation=(0, 2, 4, 1, 3, 5)), shape=(n, time, features))

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return F.unfold(x, self.size, stride=self.size).transpose(1, 2)
