"""Elementary functions on a million numbers, and a chain of elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from benchmarks import peers
from benchmarks.peers import Array, Preparation
from benchmarks.workload import Target, Workload, generator, in_f64, ulp_error

SECTION = "Elementwise"
COUNT = 1_000_000


def _gelu(x: Array) -> Array:
    return x * scipy.special.ndtr(x)


def _erf(x: Any) -> Any:
    import jax

    return jax.scipy.special.erf(x)


def _exact_gelu(x: Any) -> Any:
    import jax

    return jax.nn.gelu(x, approximate=False)


def _torch(name: str) -> Callable[..., Any]:
    def function(*tensors: Any) -> Any:
        import torch

        return (torch.nn.functional.gelu if name == "gelu" else getattr(torch, name))(*tensors)

    return function


def _ours(name: str) -> Callable[..., Any]:
    def function(*values: Any) -> Any:
        import tenon

        return getattr(tenon, "power" if name == "pow" else name)(*values)

    return function


def _in_jax(name: str) -> Callable[..., Any]:
    def function(*values: Any) -> Any:
        import jax

        special = {"erf": _erf, "gelu": _exact_gelu, "sigmoid": jax.nn.sigmoid, "pow": jax.numpy.power}
        special["atan2"] = jax.numpy.arctan2
        return (special.get(name) or getattr(jax.numpy, name))(*values)

    return function


ONNX = {"exp": "Exp", "log": "Log", "tanh": "Tanh", "erf": "Erf", "sigmoid": "Sigmoid", "gelu": "Gelu", "sin": "Sin"}
NUMPY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
    "gelu": _gelu,
    "sin": np.sin,
    "pow": np.power,
    "atan2": np.arctan2,
}
IN_F64 = ("exp", "log", "sin", "tanh", "pow")


def _operands(name: str, kind: type[Any]) -> tuple[Array, ...]:
    random = generator()
    x = random.uniform(-6, 6, COUNT).astype(kind)
    positive = random.uniform(0.01, 20, COUNT).astype(kind)
    if name == "pow":
        return positive, random.uniform(-3, 3, COUNT).astype(kind)
    if name == "atan2":
        return x, random.uniform(-6, 6, COUNT).astype(kind)
    return (positive,) if name == "log" else (x,)


def _in_extended(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on numbers wider than f64, where there are such."""
    return lambda *arrays: function(*[a.astype(np.longdouble) for a in arrays])


def _function(name: str, kind: type[Any] = np.float32) -> Workload:
    is_f32 = kind is np.float32
    contestants: dict[str, Preparation] = {
        "tenon": peers.tenon(_ours(name)),
        "numpy": peers.numpy(NUMPY[name]),
        "torch": peers.torch(_torch(name)),
        "torch.compile": peers.compiled_torch(_torch(name)),
        "jax": peers.jax(_in_jax(name)),
    }
    if name != "atan2":
        contestants["onnxruntime"] = peers.onnx(ONNX.get(name, "Pow"))
    return Workload(
        f"{name}-1e6" if is_f32 else f"{name}-f64-1e6",
        SECTION,
        lambda: _operands(name, kind),
        contestants,
        exact=in_f64(NUMPY[name]) if is_f32 else _in_extended(NUMPY[name]),
        error=ulp_error,
        tolerance=math.inf,  # peers are as exact as they are; ours is part of the target
        target=Target(best=1.0, ulp=2.5),
    )


def _chain(count: int, name: str, target: Target) -> Workload:
    a, b, c = 1.5, 0.25, -0.75

    def inputs() -> tuple[Array]:
        return (generator().standard_normal(count, np.float32),)

    def ours(x: Any) -> Any:
        import tenon

        return tenon.gelu(x * a + b) + c

    def in_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.gelu(x * a + b) + c

    return Workload(
        name,
        SECTION,
        inputs,
        {
            "tenon": peers.tenon(ours),
            "numpy": peers.numpy(lambda x: _gelu(x * np.float32(a) + np.float32(b)) + np.float32(c)),
            "torch": peers.torch(in_torch),
            "torch.compile": peers.compiled_torch(in_torch),
            "jax": peers.jax(lambda x: _exact_gelu(x * a + b) + c),
        },
        exact=in_f64(lambda x: _gelu(x * a + b) + c),
        target=target,
    )


WORKLOADS = (
    *[_function(name) for name in NUMPY],
    *[_function(name, np.float64) for name in IN_F64],
    _chain(4_000_000, "gelu-chain-4e6", Target(limit=0.9, best=1.5)),
    _chain(16_000, "gelu-chain-16000", Target(best=6.0)),
)
