"""A residual block on images with their channels last: jax's convolutions take these, those of Tenon and torch are
called between transposes, which torch makes views of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import generator

SECTION = "Convolutions"
IMAGES = (8, 56, 56, 64)


def _block(
    conv: Callable[[Any, Any], Any], relu: Callable[[Any], Any], x: Any, first: Any, second: Any, scale: Any, shift: Any
) -> Any:
    inner = relu(conv(x, first) * scale + shift)
    return relu(conv(inner, second) * scale + x)


def _tenon(tenon: Any, *arrays: Any) -> Any:
    def conv(x: Any, weight: Any) -> Any:
        return tenon.conv2d(x.transpose(0, 3, 1, 2), weight, padding=1).transpose(0, 2, 3, 1)

    return _block(conv, tenon.relu, *arrays)


def _torch(torch: Any, *arrays: Any) -> Any:
    def conv(x: Any, weight: Any) -> Any:
        return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), weight, padding=1).permute(0, 2, 3, 1)

    return _block(conv, torch.relu, *arrays)


def _jax(jax: Any, *arrays: Any) -> Any:
    def conv(x: Any, weight: Any) -> Any:
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC"))

    return _block(conv, jax.nn.relu, *arrays)


def _inputs(*, cotangent: bool) -> tuple[Array, ...]:
    random = generator()
    filters = [random.standard_normal((64, 64, 3, 3), np.float32) / np.float32(24) for _ in range(2)]
    images, scale, shift = [random.standard_normal(shape, np.float32) for shape in (IMAGES, 64, 64)]
    drawn = (images, *filters, scale, shift)
    return (*drawn, random.standard_normal(IMAGES, np.float32)) if cotangent else drawn


WORKLOADS = (
    program(
        "residual-channels-last-8x56x64",
        SECTION,
        lambda: _inputs(cotangent=False),
        tenon=_tenon,
        torch=_torch,
        jax=_jax,
        exact="torch",
    ),
    program(
        "residual-channels-last-8x56x64-gradient",
        SECTION,
        lambda: _inputs(cotangent=True),
        tenon=_tenon,
        torch=_torch,
        jax=_jax,
        is_gradient=True,
        tolerance=1e-4,
    ),
)
