"""softmax(QKᵀ/8)V over 8 heads of 64, as users write it, forward and with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Preparation
from benchmarks.workload import Target, Workload, generator, in_f64

SECTION = "Attention"
HEADS, WIDTH = 8, 64
SCALE = 0.125


def _inputs(tokens: int, count: int) -> tuple[Array, ...]:
    random = generator()
    return tuple([random.standard_normal((1, HEADS, tokens, WIDTH), np.float32) for _ in range(count)])


def _ours(causal: bool) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any) -> Any:
        import tenon

        scores = q @ tenon.transpose(k, (0, 1, 3, 2)) * SCALE
        if causal:
            tokens = q.shape[2]
            scores = tenon.select(np.tri(tokens, dtype=bool), scores, -np.inf)
        return tenon.softmax(scores) @ v

    return function


def _torch(causal: bool) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return function


def _composite(causal: bool) -> Callable[..., Any]:
    """As users write it in torch, for `torch.compile`."""

    def function(q: Any, k: Any, v: Any) -> Any:
        import torch

        scores = q @ k.transpose(2, 3) * SCALE
        if causal:
            tokens = q.shape[2]
            scores = scores.masked_fill(~torch.ones(tokens, tokens, dtype=torch.bool).tril(), -torch.inf)
        return scores.softmax(-1) @ v

    return function


def _jax(causal: bool) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any) -> Any:
        import jax

        scores = q @ k.swapaxes(2, 3) * SCALE
        if causal:
            scores = jax.numpy.where(np.tri(q.shape[2], dtype=bool), scores, -jax.numpy.inf)
        return jax.nn.softmax(scores) @ v

    return function


def _exact(q: Array, k: Array, v: Array, causal: bool) -> Array:
    scores = q @ k.swapaxes(2, 3) * SCALE
    if causal:
        scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def _name(tokens: int, causal: bool) -> str:
    return f"attention-{'causal-' if causal else ''}{tokens}"


def _operations(tokens: int, causal: bool) -> float:
    return 4 * HEADS * tokens * tokens * WIDTH / (2 if causal else 1)


def _forward(tokens: int, causal: bool) -> Workload:
    contestants: dict[str, Preparation] = {
        "tenon": peers.tenon(_ours(causal)),
        "torch": peers.torch(_torch(causal)),
        "torch.compile": peers.compiled_torch(_composite(causal)),
        "onnxruntime": peers.onnx("Attention", opset=23, is_causal=int(causal)),
        "jax": peers.jax(_jax(causal)),
    }
    return Workload(
        _name(tokens, causal),
        SECTION,
        lambda: _inputs(tokens, 3),
        contestants,
        exact=in_f64(lambda q, k, v: _exact(q, k, v, causal)),
        operations=_operations(tokens, causal),
        target=Target(best=1.5),
    )


def _with_gradients(tokens: int, causal: bool) -> Workload:
    """The result, and the gradients of all three."""

    def ours(q: Any, k: Any, v: Any, dy: Any) -> Any:
        import tenon

        result, gradients = tenon.vjp(_ours(causal), q, k, v, cotangent=dy)
        return (result, *gradients)

    def in_jax(q: Any, k: Any, v: Any, dy: Any) -> Any:
        import jax

        result, pullback = jax.vjp(_jax(causal), q, k, v)
        return (result, *pullback(dy))

    def exact(q: Array, k: Array, v: Array, dy: Array) -> list[Array]:
        import torch

        given = [torch.from_numpy(a).double() for a in (q, k, v, dy)]
        return [part.numpy() for part in peers.with_torch_gradients(_composite(causal))(*given)]

    return Workload(
        f"{_name(tokens, causal)}-gradients",
        SECTION,
        lambda: _inputs(tokens, 4),
        {
            "tenon": peers.tenon(ours),
            "torch": peers.torch(peers.with_torch_gradients(_torch(causal)), differentiates=True),
            "torch.compile": peers.compiled_torch_gradients(_composite(causal)),
            "jax": peers.jax(in_jax),
        },
        exact=exact,
        tolerance=1e-4,
        operations=3.5 * _operations(tokens, causal),
        target=Target(best=1.5),
    )


CASES = ((512, False), (2048, False), (2048, True))
WORKLOADS = (*[_forward(*case) for case in CASES], *[_with_gradients(*case) for case in CASES])
