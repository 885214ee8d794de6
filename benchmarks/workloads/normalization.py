"""Softmax and normalizations, forward and with the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import Target, Workload, generator, in_f64, normal

SECTION = "Softmax and normalization"
EPS = 1e-5


def _softmax_exact(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _softmax() -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.softmax(x)

    def in_torch(x: Any) -> Any:
        return x.softmax(-1)

    def in_jax(x: Any) -> Any:
        import jax

        return jax.nn.softmax(x)

    return Workload(
        "softmax-4096x1024",
        SECTION,
        lambda: (normal(4096, 1024),),
        {
            "tenon": peers.tenon(ours),
            "numpy": peers.numpy(_softmax_exact),
            "torch": peers.torch(in_torch),
            "torch.compile": peers.compiled_torch(in_torch),
            "onnxruntime": peers.onnx("Softmax", axis=-1),
            "jax": peers.jax(in_jax),
        },
        exact=in_f64(_softmax_exact),
        target=Target(best=1.5),
    )


def _inputs(gradient: bool) -> tuple[Array, ...]:
    random = generator()
    x, dy = [random.standard_normal((4096, 768), np.float32) for _ in range(2)]
    weight, bias = [random.standard_normal(768, np.float32) for _ in range(2)]
    return (x, weight, bias, dy) if gradient else (x, weight, bias)


def _statistics(x: Array) -> tuple[Array, Array]:
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
    return centred * scale, scale


def _layer_norm_exact(x: Array, weight: Array, bias: Array) -> Array:
    return _statistics(x)[0] * weight + bias


def _gradient_exact(x: Array, weight: Array, bias: Array, dy: Array) -> tuple[Array, ...]:
    normed, scale = _statistics(x)
    slope = dy * weight
    dx = scale * (slope - slope.mean(-1, keepdims=True) - normed * (slope * normed).mean(-1, keepdims=True))
    return normed * weight + bias, dx, (dy * normed).sum(0), dy.sum(0)


def _ours(x: Any, weight: Any, bias: Any) -> Any:
    import tenon

    return tenon.layer_norm(x, weight, bias, eps=EPS)


def _torch(x: Any, weight: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, EPS)


def _jax(x: Any, weight: Any, bias: Any) -> Any:
    import jax

    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPS) * weight + bias


def _layer_norm() -> Workload:
    return Workload(
        "layernorm-4096x768",
        SECTION,
        lambda: _inputs(gradient=False),
        {
            "tenon": peers.tenon(_ours),
            "numpy": peers.numpy(_layer_norm_exact),
            "torch": peers.torch(_torch),
            "torch.compile": peers.compiled_torch(_torch),
            "onnxruntime": peers.onnx("LayerNormalization", axis=-1, epsilon=EPS),
            "jax": peers.jax(_jax),
        },
        exact=in_f64(_layer_norm_exact),
        target=Target(best=2.0),
    )


def _our_gradient(x: Any, weight: Any, bias: Any, dy: Any) -> Any:
    import tenon

    result, gradients = tenon.vjp(_ours, x, weight, bias, cotangent=dy)
    return (result, *gradients)


def _jax_gradient(x: Any, weight: Any, bias: Any, dy: Any) -> Any:
    import jax

    result, pullback = jax.vjp(_jax, x, weight, bias)
    return (result, *pullback(dy))


def _layer_norm_with_gradient() -> Workload:
    return Workload(
        "layernorm-4096x768-gradient",
        SECTION,
        lambda: _inputs(gradient=True),
        {
            "tenon": peers.tenon(_our_gradient),
            "numpy": peers.numpy(_gradient_exact),
            "torch": peers.torch(peers.with_torch_gradients(_torch), differentiates=True),
            "torch.compile": peers.compiled_torch_gradients(_torch),
            "jax": peers.jax(_jax_gradient),
        },
        exact=in_f64(_gradient_exact),
        tolerance=1e-4,
        target=Target(best=2.0),
    )


def _images() -> tuple[Array, ...]:
    """Images (16, 64, 56, 56), a scale and a shift for each channel, and a cotangent."""
    random = generator()
    x, dy = [random.standard_normal((16, 64, 56, 56), np.float32) for _ in range(2)]
    return x, random.standard_normal(64, np.float32), random.standard_normal(64, np.float32), dy


def _batch_norm(x: Any, weight: Any, bias: Any) -> Any:
    """In training: with the statistics of the batch."""
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    scale = (((x - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True) + EPS) ** -0.5
    return (x - mean) * scale * weight.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def _group_norm(x: Any, weight: Any, bias: Any) -> Any:
    groups = x.reshape(x.shape[0], 8, -1)
    mean = groups.mean(axis=-1, keepdims=True)
    scale = (((groups - mean) ** 2).mean(axis=-1, keepdims=True) + EPS) ** -0.5
    return ((groups - mean) * scale).reshape(*x.shape) * weight.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def _batch_norm_with_gradient() -> Workload:
    return program(
        "batchnorm-16x64x56-gradient",
        SECTION,
        _images,
        tenon=lambda tenon, *a: _batch_norm(*a),
        torch=lambda torch, x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True),
        jax=lambda jax, *a: _batch_norm(*a),
        is_gradient=True,
        tolerance=1e-4,
    )


def _group_norm_with_gradient() -> Workload:
    return program(
        "groupnorm-16x64x56-gradient",
        SECTION,
        _images,
        tenon=lambda tenon, *a: _group_norm(*a),
        torch=lambda torch, x, w, b: torch.nn.functional.group_norm(x, 8, w, b),
        jax=lambda jax, *a: _group_norm(*a),
        is_gradient=True,
        tolerance=1e-4,
    )


WORKLOADS = (
    _softmax(),
    _layer_norm(),
    _layer_norm_with_gradient(),
    _batch_norm_with_gradient(),
    _group_norm_with_gradient(),
)
