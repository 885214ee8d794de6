"""Convolutions of the networks for images and signals, and gradients of those of single images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Preparation
from benchmarks.program import program
from benchmarks.workload import Target, Workload, generator, normal

SECTION = "Convolutions"


@dataclass(frozen=True)
class Convolution:
    """Images (images, channels, size, size) with `filters` of side `side`."""

    name: str
    channels: int
    size: int
    filters: int
    side: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    factor: float = 1.1
    images: int = 1

    @property
    def result_shape(self) -> tuple[int, int, int, int]:
        extent = (self.size + 2 * self.padding - self.side) // self.stride + 1
        return self.images, self.filters, extent, extent

    @property
    def operations(self) -> int:
        return 2 * int(np.prod(self.result_shape)) * (self.channels // self.groups) * self.side**2

    def inputs(self) -> tuple[Array, Array]:
        random = generator()
        images = random.standard_normal((self.images, self.channels, self.size, self.size), np.float32)
        shape = (self.filters, self.channels // self.groups, self.side, self.side)
        return images, random.standard_normal(shape, np.float32)

    def with_cotangent(self) -> tuple[Array, Array, Array]:
        return *self.inputs(), np.random.default_rng(1).standard_normal(self.result_shape, np.float32)

    def ours(self, x: Any, weight: Any) -> Any:
        import tenon

        return tenon.conv2d(x, weight, stride=self.stride, padding=self.padding, groups=self.groups)

    def torch(self, x: Any, weight: Any) -> Any:
        import torch

        return torch.nn.functional.conv2d(x, weight, None, self.stride, self.padding, 1, self.groups)

    def jax(self, x: Any, weight: Any) -> Any:
        import jax

        strides, padding = (self.stride,) * 2, ((self.padding,) * 2,) * 2
        return jax.lax.conv_general_dilated(x, weight, strides, padding, feature_group_count=self.groups)

    def our_gradients(self, x: Any, weight: Any, dy: Any) -> Any:
        import tenon

        return tenon.vjp(self.ours, x, weight, cotangent=dy)[1]

    def torch_gradients(self, x: Any, weight: Any, dy: Any) -> Any:
        import torch

        strides, padding, one = [self.stride] * 2, [self.padding] * 2, [1, 1]
        backward = torch.ops.aten.convolution_backward
        return backward(dy, x, weight, None, strides, padding, one, False, [0, 0], self.groups, [True, True, False])[:2]

    def jax_gradients(self, x: Any, weight: Any, dy: Any) -> Any:
        import jax

        return jax.vjp(self.jax, x, weight)[1](dy)

    def exact(self, x: Array, weight: Array) -> Array:
        import torch

        return self.torch(torch.from_numpy(x).double(), torch.from_numpy(weight).double()).numpy()

    def exact_gradients(self, x: Array, weight: Array, dy: Array) -> list[Array]:
        import torch

        given = [torch.from_numpy(a).double() for a in (x, weight, dy)]
        return [part.numpy() for part in self.torch_gradients(*given)]


def _forward(convolution: Convolution) -> Workload:
    onnx = peers.onnx(
        "Conv",
        constants=(1,),
        strides=[convolution.stride] * 2,
        pads=[convolution.padding] * 4,
        group=convolution.groups,
    )
    contestants: dict[str, Preparation] = {
        "tenon": peers.tenon(convolution.ours),
        "torch": peers.torch(convolution.torch),
        "onednn": peers.torch(convolution.torch, convert=peers.channels_last),
        "onnxruntime": onnx,
        "jax": peers.jax(convolution.jax),
    }
    return Workload(
        convolution.name,
        SECTION,
        convolution.inputs,
        contestants,
        exact=convolution.exact,
        operations=convolution.operations,
        target=Target(best=convolution.factor),
    )


def _gradients(convolution: Convolution) -> Workload:
    """Those of the images and of the filters."""
    return Workload(
        f"{convolution.name}-gradients",
        SECTION,
        convolution.with_cotangent,
        {
            "tenon": peers.tenon(convolution.our_gradients),
            "torch": peers.torch(convolution.torch_gradients),
            "onednn": peers.torch(convolution.torch_gradients, convert=peers.channels_last),
            "jax": peers.jax(convolution.jax_gradients),
        },
        exact=convolution.exact_gradients,
        tolerance=1e-4,
        operations=2 * convolution.operations,
        target=Target(best=convolution.factor),
    )


CONVOLUTIONS = (
    Convolution("conv-3x3-64-56", 64, 56, 64, 3, padding=1),
    Convolution("conv-1x1-256-64-56", 256, 56, 64, 1),
    Convolution("conv-7x7s2-3-64-224", 3, 224, 64, 7, stride=2, padding=3, factor=1.3),
    Convolution("conv-depthwise-3x3-64-112", 64, 112, 64, 3, padding=1, groups=64),
)

FORWARD_ONLY = (
    Convolution("conv-5x5-8-groups-64-56", 64, 56, 64, 5, padding=2, groups=8, factor=1.0, images=8),
    Convolution("conv-patches-16x16-768-224", 3, 224, 768, 16, stride=16, factor=1.0, images=8),
    Convolution("conv-patches-4x4-96-224", 3, 224, 96, 4, stride=4, factor=1.0, images=16),
)


def _signal(name: str, inputs: Sequence[int], filters: Sequence[int], stride: int = 1, dilation: int = 1) -> Workload:
    """A convolution of signals (batch, channels, length)."""
    return program(
        name,
        SECTION,
        lambda: (normal(*inputs), normal(*filters)),
        tenon=lambda tenon, x, w: tenon.conv1d(x, w, stride=stride, dilation=dilation),
        torch=lambda torch, x, w: torch.nn.functional.conv1d(x, w, None, stride, 0, dilation),
        jax=lambda jax, x, w: jax.lax.conv_general_dilated(
            x, w, (stride,), ((0, 0),), rhs_dilation=(dilation,), dimension_numbers=("NCH", "OIH", "NCH")
        ),
        exact="torch",
    )


WORKLOADS = (
    *map(_forward, (*CONVOLUTIONS, *FORWARD_ONLY)),
    *map(_gradients, CONVOLUTIONS),
    _signal("conv1d-8-stride-4-64-4096", (16, 64, 4096), (64, 64, 8), stride=4),
    _signal("conv1d-3-dilation-4-128-2048", (8, 128, 2048), (128, 128, 3), dilation=4),
)
