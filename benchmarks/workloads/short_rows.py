"""Many rows of a few numbers: scores of a few classes, colours, positions in space."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import generator, normal

SECTION = "Short rows"


def _softmax(np_: Any, x: Any) -> Any:
    weights = np_.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _log_sum(np_: Any, x: Any) -> Any:
    largest = x.max(-1, keepdims=True)
    return np_.log(np_.exp(x - largest).sum(-1)) + largest[..., 0]


def _normed(np_: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np_.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def _pulls(x: Any) -> Any:
    """The sums of what all bodies at `x` (n, 3) pull each of them with."""
    away = x[:, None, :] - x[None, :, :]
    weights = ((away * away).sum(-1) + 1e-3) ** -1.5
    return (away * weights[:, :, None]).sum(1)


def _our_pulls(x: Any) -> Any:
    away = x[:, None, :] - x[None, :, :]
    weights = ((away * away).sum(axis=-1) + 1e-3) ** -1.5
    return (away * weights[:, :, None]).sum(axis=1)


def _kernel(np_: Any, x: Any) -> Any:
    return np_.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))


def _image() -> tuple[Array]:
    """1920 x 1080 pixels, red, green and blue beside each other."""
    return (generator().integers(0, 256, (1080, 1920, 3), np.uint8),)


def _products(stack: Any, a: Any, b: Any) -> Any:
    """Of complex numbers whose parts are the columns of `a` and `b`."""
    return stack([a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]])


def _hue(where: Any, maximum: Any, minimum: Any, stack: Any, x: Any) -> Any:
    """Hue, saturation and value of pixels between 0 and 1."""
    red, green, blue = x[..., 0], x[..., 1], x[..., 2]
    value = maximum(maximum(red, green), blue)
    range_ = value - minimum(minimum(red, green), blue)
    some = where(range_ == 0, 1.0, range_)
    side = where(value == green, 2.0 + (blue - red) / some, 4.0 + (red - green) / some)
    side = where(value == red, (green - blue) / some, side)
    return stack([side / 6.0, range_ / where(value == 0, 1.0, value), value])


def _centred(stack: Any, x: Any) -> Any:
    """Centres and sizes of boxes that are said by two corners."""
    left, top, right, bottom = x[:, 0], x[:, 1], x[:, 2], x[:, 3]
    return stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top])


WORKLOADS = (
    program(
        "softmax-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.softmax(x),
        like_numpy=_softmax,
        torch=lambda torch, x: x.softmax(-1),
        jax=lambda jax, x: jax.nn.softmax(x),
    ),
    program(
        "logsumexp-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.logsumexp(x, axis=-1),
        like_numpy=_log_sum,
        torch=lambda torch, x: x.logsumexp(-1),
        jax=lambda jax, x: jax.nn.logsumexp(x, -1),
    ),
    program(
        "layernorm-65536x16",
        SECTION,
        lambda: (normal(65536, 16),),
        tenon=lambda tenon, x: tenon.layer_norm(x),
        like_numpy=_normed,
        torch=lambda torch, x: torch.nn.functional.layer_norm(x, (16,)),
    ),
    program(
        "argmax-65536x10",
        SECTION,
        lambda: (normal(65536, 10),),
        tenon=lambda tenon, x: tenon.argmax(x, axis=-1),
        like_numpy=lambda np_, x: np_.argmax(x, -1),
        torch=lambda torch, x: x.argmax(-1),
    ),
    program(
        "sum-1e6x3",
        SECTION,
        lambda: (normal(1_000_000, 3),),
        tenon=lambda tenon, x: tenon.sum(x, axis=-1),
        like_numpy=lambda np_, x: x.sum(-1),
        torch=lambda torch, x: x.sum(-1),
    ),
    program(
        "n-body-1500",
        SECTION,
        lambda: (normal(1500, 3),),
        tenon=lambda tenon, x: _our_pulls(x),
        like_numpy=lambda np_, x: _pulls(x),
        torch=lambda torch, x: _pulls(x),
        tolerance=1e-4,
    ),
    program(
        "rbf-kernel-2000x16",
        SECTION,
        lambda: (normal(2000, 16) * np.float32(0.2),),
        tenon=lambda tenon, x: tenon.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=-1)),
        like_numpy=_kernel,
        torch=lambda torch, x: torch.exp(-(torch.cdist(x, x) ** 2)),
        jax=lambda jax, x: _kernel(jax.numpy, x),
        tolerance=1e-4,
    ),
    program(
        "einsum-chain-1000",
        SECTION,
        lambda: (normal(1000, 10), normal(10, 1000), normal(1000, 10)),
        tenon=lambda tenon, *a: tenon.einsum("ij,jk,kl->il", *a),
        like_numpy=lambda np_, *a: np_.einsum("ij,jk,kl->il", *a, optimize=True),
        torch=lambda torch, *a: torch.einsum("ij,jk,kl->il", *a),
        tolerance=1e-4,
    ),
    program(
        "complex-products-1e6",
        SECTION,
        lambda: (normal(1_000_000, 2), generator().standard_normal((1_000_000, 2), np.float32)),
        tenon=lambda tenon, *a: _products(lambda parts: tenon.stack(parts, axis=-1), *a),
        like_numpy=lambda np_, *a: _products(lambda parts: np_.stack(parts, -1), *a),
        torch=lambda torch, *a: _products(lambda parts: torch.stack(parts, -1), *a),
        tolerance=1e-5,
    ),
    program(
        "hue-1920x1080",
        SECTION,
        _image,
        tenon=lambda tenon, x: _hue(
            tenon.where,
            tenon.maximum,
            tenon.minimum,
            lambda parts: tenon.stack(parts, axis=-1),
            tenon.cast(x, dtype="f32") / 255.0,
        ),
        like_numpy=lambda np_, x: _hue(
            np_.where, np_.maximum, np_.minimum, lambda parts: np_.stack(parts, -1), x.astype(np.float32) / 255.0
        ),
        torch=lambda torch, x: _hue(
            torch.where, torch.maximum, torch.minimum, lambda parts: torch.stack(parts, -1), x.float() / 255.0
        ),
        tolerance=1e-5,
    ),
    program(
        "boxes-1e5",
        SECTION,
        lambda: (normal(100_000, 4),),
        tenon=lambda tenon, x: _centred(lambda parts: tenon.stack(parts, axis=-1), x),
        like_numpy=lambda np_, x: _centred(lambda parts: np_.stack(parts, -1), x),
        torch=lambda torch, x: _centred(lambda parts: torch.stack(parts, -1), x),
    ),
    program(
        "channels-first-1920x1080",
        SECTION,
        _image,
        tenon=lambda tenon, x: tenon.transpose(tenon.cast(x, dtype="f32") / 255.0 - 0.5, (2, 0, 1)),
        like_numpy=lambda np_, x: np_.transpose(x.astype(np.float32) / 255.0 - 0.5, (2, 0, 1)),
        torch=lambda torch, x: (x.float() / 255.0 - 0.5).permute(2, 0, 1).contiguous(),
    ),
)
