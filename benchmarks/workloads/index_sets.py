"""Programs that cut arrays up and join them: rotary positions, padded arrays, stencils, images made larger."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import generator, normal

SECTION = "Cut and joined arrays"


def _angles() -> tuple[Array, Array, Array]:
    """Queries (8, 12, 1024, 64) and the cosines and sines of their positions."""
    angles = np.arange(1024)[:, None] / 10_000 ** (np.arange(32) / 32)
    return normal(8, 12, 1024, 64), np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotated_halves(join: Any, x: Any, cosine: Any, sine: Any) -> Any:
    a, b = x[..., :32], x[..., 32:]
    return join([a * cosine - b * sine, b * cosine + a * sine])


def _rotated_pairs(stack: Any, x: Any, cosine: Any, sine: Any) -> Any:
    a, b = x[..., ::2], x[..., 1::2]
    return stack([a * cosine - b * sine, b * cosine + a * sine]).reshape(x.shape)


def _heated(roll: Any, x: Any) -> Any:
    """A step of the heat equation on a torus."""
    return x + 0.1 * (roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4.0 * x)


def _heated_inside(join: Any, x: Any) -> Any:
    """A step of the heat equation on a rod, whose ends keep their temperature."""
    inside = x[:, 1:-1] + 0.25 * (x[:, :-2] - 2.0 * x[:, 1:-1] + x[:, 2:])
    return join([x[:, :1], inside, x[:, -1:]])


def _pair(*shape: int) -> tuple[Array, Array]:
    random = generator()
    a, b = [random.standard_normal(shape, np.float32) for _ in range(2)]
    return a, b


def _larger(np_: Any, x: Any) -> Any:
    n, c, h, w = x.shape
    return np_.broadcast_to(x[:, :, :, None, :, None], (n, c, h, 2, w, 2)).reshape(n, c, 2 * h, 2 * w)


WORKLOADS = (
    program(
        "rotary-halves",
        SECTION,
        _angles,
        tenon=lambda tenon, *a: _rotated_halves(lambda parts: tenon.concatenate(parts, axis=-1), *a),
        like_numpy=lambda np_, *a: _rotated_halves(lambda parts: np_.concatenate(parts, -1), *a),
        torch=lambda torch, *a: _rotated_halves(lambda parts: torch.cat(parts, -1), *a),
    ),
    program(
        "rotary-pairs",
        SECTION,
        _angles,
        tenon=lambda tenon, *a: _rotated_pairs(lambda parts: tenon.stack(parts, axis=-1), *a),
        like_numpy=lambda np_, *a: _rotated_pairs(lambda parts: np_.stack(parts, -1), *a),
        torch=lambda torch, *a: _rotated_pairs(lambda parts: torch.stack(parts, -1), *a),
    ),
    program(
        "concatenate-relu-4096x512",
        SECTION,
        lambda: _pair(4096, 512),
        tenon=lambda tenon, a, b: tenon.relu(tenon.concatenate([a, b], axis=1)),
        like_numpy=lambda np_, a, b: np_.maximum(np_.concatenate([a, b], 1), 0),
        torch=lambda torch, a, b: torch.relu(torch.cat([a, b], 1)),
    ),
    program(
        "pad-16x64x56",
        SECTION,
        lambda: (normal(16, 64, 56, 56),),
        tenon=lambda tenon, x: tenon.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)),
        like_numpy=lambda np_, x: np_.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
        torch=lambda torch, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
    ),
    program(
        "flip-2048",
        SECTION,
        lambda: (normal(2048, 2048),),
        tenon=lambda tenon, x: tenon.flip(x, axis=1) + 1.0,
        like_numpy=lambda np_, x: np_.flip(x, 1) + 1.0,
        torch=lambda torch, x: torch.flip(x, (1,)) + 1.0,
    ),
    program(
        "heat-torus-2048",
        SECTION,
        lambda: (normal(2048, 2048),),
        tenon=lambda tenon, x: _heated(tenon.roll, x),
        like_numpy=lambda np_, x: _heated(np_.roll, x),
        torch=lambda torch, x: _heated(torch.roll, x),
    ),
    program(
        "heat-rods-4096x1000",
        SECTION,
        lambda: (normal(4096, 1000),),
        tenon=lambda tenon, x: _heated_inside(lambda parts: tenon.concatenate(parts, axis=1), x),
        like_numpy=lambda np_, x: _heated_inside(lambda parts: np_.concatenate(parts, 1), x),
        torch=lambda torch, x: _heated_inside(lambda parts: torch.cat(parts, 1), x),
    ),
    program(
        "twice-as-large-8x64x56",
        SECTION,
        lambda: (normal(8, 64, 56, 56),),
        tenon=lambda tenon, x: _larger(tenon, x),
        like_numpy=_larger,
        torch=lambda torch, x: torch.nn.functional.interpolate(x, scale_factor=2),
    ),
)
