"""Short programs as they are written: what is in front of a product, operands of many kinds, masks, filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import generator, normal

SECTION = "Short programs"
BLUR = (0.06, 0.24, 0.4, 0.24, 0.06)


def _masked_inputs() -> tuple[Array, ...]:
    """Queries, keys and values of 16 sentences of 128 words, and which of these there are."""
    random = generator()
    q, k, v = (random.standard_normal((16, 128, 64), np.float32) for _ in range(3))
    return q, k, v, random.random((16, 1, 128)) > 0.2


def _masked(where: Any, exp: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = where(mask, q @ k.swapaxes(1, 2) * 0.125, -1e9)
    weights = exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def _our_masked(tenon: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = tenon.where(mask, q @ tenon.swapaxes(k, 1, 2) * 0.125, -1e9)
    return tenon.softmax(scores, axis=-1) @ v


def _blurred(x: Any) -> Any:
    """By columns, then by rows."""
    height, width = x.shape[0] - 4, x.shape[1] - 4
    columns: Any = sum(factor * x[start : start + height] for start, factor in enumerate(BLUR))
    return sum(factor * columns[:, start : start + width] for start, factor in enumerate(BLUR))


def _torch_blurred(torch: Any, x: Any) -> Any:
    taps, conv = torch.tensor(BLUR), torch.nn.functional.conv2d
    return conv(conv(x[None, None], taps[None, None, :, None]), taps[None, None, None])[0, 0]


def _our_blurred(tenon: Any, x: Any) -> Any:
    taps = np.array(BLUR, np.float32)
    columns = tenon.conv2d(x[None, None], taps[None, None, :, None])
    return tenon.conv2d(columns, taps[None, None, None])[0, 0]


WORKLOADS = (
    program(
        "relu-product-1024",
        SECTION,
        lambda: (normal(1024, 1024), normal(1024, 1024)[::-1].copy()),
        tenon=lambda tenon, x, w: tenon.relu(x) @ w,
        like_numpy=lambda np_, x, w: np_.maximum(x, 0) @ w,
        torch=lambda torch, x, w: torch.relu(x) @ w,
        tolerance=1e-5,
    ),
    program(
        "product-256x1024x512",
        SECTION,
        lambda: (normal(256, 1024), normal(1024, 512)),
        tenon=lambda tenon, x, w: x @ w,
        like_numpy=lambda np_, x, w: x @ w,
        torch=lambda torch, x, w: x @ w,
        tolerance=1e-5,
    ),
    program(
        "product-f16-64x768x768",
        SECTION,
        lambda: (normal(64, 768).astype(np.float16), normal(768, 768).astype(np.float16)),
        tenon=lambda tenon, x, w: x @ w,
        like_numpy=lambda np_, x, w: x @ w,
        torch=lambda torch, x, w: x @ w,
        tolerance=2e-3,
    ),
    program(
        "attention-of-a-mask-16x128x64",
        SECTION,
        _masked_inputs,
        tenon=_our_masked,
        like_numpy=lambda np_, *a: _masked(np_.where, np_.exp, *a),
        torch=lambda torch, q, k, v, m: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m),
        tolerance=1e-5,
    ),
    program(
        "einsum-bilinear-64x100x100x50",
        SECTION,
        lambda: (normal(64, 100), normal(50, 100, 100), normal(64, 100)),
        tenon=lambda tenon, *a: tenon.einsum("bi,oij,bj->bo", *a),
        like_numpy=lambda np_, *a: np_.einsum("bi,oij,bj->bo", *a, optimize=True),
        torch=lambda torch, *a: torch.einsum("bi,oij,bj->bo", *a),
        tolerance=1e-4,
    ),
    program(
        "blur-1920x1080",
        SECTION,
        lambda: (normal(1080, 1920),),
        tenon=_our_blurred,
        like_numpy=lambda np_, x: _blurred(x),
        torch=_torch_blurred,
        tolerance=1e-5,
    ),
)
