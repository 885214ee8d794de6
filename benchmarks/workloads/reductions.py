"""Reductions over 4096² numbers, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Preparation
from benchmarks.workload import Target, Workload, in_f64, normal

SECTION = "Reductions and movement"
N = 4096


Functions = dict[str, Callable[..., Any]]


def _row(name: str, functions: Functions, onnx: Preparation, exact: Any, rounding: float) -> Workload:
    return Workload(
        name,
        SECTION,
        lambda: (normal(N, N),),
        {
            "tenon": peers.tenon(functions["tenon"]),
            "tenon, out=": peers.tenon_into(functions["tenon"]),
            "numpy": peers.numpy(functions["numpy"]),
            "torch": peers.torch(functions["torch"]),
            "onnxruntime": onnx,
            "jax": peers.jax(functions["jax"]),
        },
        exact=in_f64(exact),
        tolerance=rounding,
        target=Target(best=1.2, best_into=3.0),
    )


def _sum(axis: int) -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.sum(x, axis=axis)

    onnx = peers.onnx("ReduceSum", constants=(1,), inputs=lambda a: [*a, np.array([axis])], keepdims=0)
    functions: Functions = {
        "tenon": ours,
        "numpy": lambda x: x.sum(axis),
        "torch": lambda x: x.sum(axis),
        "jax": lambda x: x.sum(axis),
    }
    return _row(f"sum-axis{axis}-4096", functions, onnx, functions["numpy"], 1e-4)


def _argmax() -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.argmax(x, axis=1)

    functions: Functions = {
        "tenon": ours,
        "numpy": lambda x: x.argmax(1),
        "torch": lambda x: x.argmax(1),
        "jax": lambda x: x.argmax(1),
    }
    return _row("argmax-4096", functions, peers.onnx("ArgMax", axis=1, keepdims=0), functions["numpy"], 0.0)


def _cumsum() -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.cumsum(x, axis=1)

    onnx = peers.onnx("CumSum", constants=(1,), inputs=lambda a: [*a, np.array(1)])
    functions: Functions = {
        "tenon": ours,
        "numpy": lambda x: x.cumsum(1),
        "torch": lambda x: x.cumsum(1),
        "jax": lambda x: x.cumsum(1),
    }
    return _row("cumsum-4096", functions, onnx, functions["numpy"], 1e-4)


WORKLOADS = (_sum(0), _sum(1), _argmax(), _cumsum())
