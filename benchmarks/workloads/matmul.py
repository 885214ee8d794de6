"""Matrix products: square, transposed, skinny, narrow types, and small ones with the call included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Preparation
from benchmarks.workload import Target, Workload, generator, in_f64, normal

SECTION = "Matrix products"


def _linear(transposed: bool) -> Callable[..., Any]:
    """oneDNN's product of x and y, or of x and the transposed y, with plain memory on both sides."""

    def function(x: Any, y: Any) -> Any:
        import torch

        # torch's op takes the filters of a linear layer, (n, k)
        return torch.ops.mkldnn._linear_pointwise(x, y if transposed else y.T, None, "none", [], "")

    return function


def _contestants() -> dict[str, Preparation]:
    def ours(x: Any, y: Any) -> Any:
        return x @ y

    return {
        "tenon": peers.tenon(ours),
        "numpy": peers.numpy(np.matmul),
        "torch": peers.torch(ours),
        "onednn": peers.torch(_linear(transposed=False)),
        "onnxruntime": peers.onnx("MatMul"),
        "jax": peers.jax(ours),
    }


def product(m: int, k: int, n: int, target: Target, name: str = "", kind: str = "f32") -> Workload:
    """(m, k) by (k, n)."""

    def inputs() -> tuple[Array, Array]:
        random = generator()
        dtype = {"f32": np.float32, "f64": np.float64}[kind]
        return random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)

    return Workload(
        name or f"matmul-{kind}-{n}",
        SECTION,
        inputs,
        _contestants(),
        exact=in_f64(np.matmul),
        operations=2 * m * k * n,
        kind=kind,
        target=target,
    )


def _transposed(n: int, first: bool) -> Workload:
    """A·Bᵀ, or Aᵀ·B where the first operand is transposed."""

    def ours(x: Any, y: Any) -> Any:
        return x.T @ y if first else x @ y.T

    def onednn(x: Any, y: Any) -> Any:
        import torch

        return torch.ops.mkldnn._linear_pointwise(x.T if first else x, y.T if first else y, None, "none", [], "")

    return Workload(
        f"matmul-{'at-b' if first else 'a-bt'}-{n}",
        SECTION,
        lambda: (normal(n, n), normal(n, n)[::-1].copy()),
        {
            "tenon": peers.tenon(ours),
            "numpy": peers.numpy(ours),
            "torch": peers.torch(ours),
            "onednn": peers.torch(onednn),
            "onnxruntime": peers.onnx("Gemm", **{"transA" if first else "transB": 1}),
            "jax": peers.jax(ours),
        },
        exact=in_f64(ours),
        operations=2 * n**3,
        target=Target(best=1.0),
    )


def _bfloat16(n: int) -> Workload:
    import ml_dtypes

    def ours(x: Any, y: Any) -> Any:
        return x @ y

    contestants: Mapping[str, Preparation] = {
        "tenon": peers.tenon(ours),
        "torch": peers.torch(ours),
        "onednn": peers.torch(_linear(transposed=False)),
        "jax": peers.jax(ours),
    }
    return Workload(
        f"matmul-bf16-{n}",
        SECTION,
        lambda: (normal(n, n, dtype=ml_dtypes.bfloat16), normal(n, n, dtype=ml_dtypes.bfloat16)),
        contestants,
        exact=in_f64(np.matmul),
        tolerance=8e-3,
        operations=2 * n**3,
        kind="bf16",
        target=Target(best=1.0),
    )


def _int8(n: int) -> Workload:
    """i8 times i8, accumulated in i32."""

    def inputs() -> tuple[Array, Array]:
        random = generator()
        # 7 bits, as quantizers leave them where instructions saturate
        return tuple([random.integers(-64, 64, (n, n)).astype(np.int8) for _ in range(2)])  # type: ignore[return-value]

    def ours(x: Any, y: Any) -> Any:
        import tenon

        return tenon.matmul(tenon.cast(x, dtype="i32"), tenon.cast(y, dtype="i32"))

    def in_torch(x: Any, y: Any) -> Any:
        import torch

        return torch._int_mm(x, y)

    def in_jax(x: Any, y: Any) -> Any:
        import jax

        return jax.lax.dot(x, y, preferred_element_type=np.int32)

    return Workload(
        f"matmul-i8-{n}",
        SECTION,
        inputs,
        {
            "tenon": peers.tenon(ours),
            "onednn": peers.torch(in_torch),
            "onnxruntime": peers.onnx("MatMulInteger"),
            "jax": peers.jax(in_jax),
        },
        exact=lambda x, y: x.astype(np.float64) @ y.astype(np.float64),
        tolerance=0.0,
        operations=2 * n**3,
        kind="i8",
        target=Target(best=1.0),
    )


SQUARE = Target(limit=0.95, best=1.05)
OTHER = Target(limit=0.88, best=1.05)
LARGE = Target(limit=0.92, limit_of_several=0.9, best=1.0)
SKINNY = Target(limit=0.9, best=1.3)

WORKLOADS = (
    *[product(n, n, n, Target(best=1.15)) for n in (16, 32, 64)],
    *[product(n, n, n, SQUARE if n % 64 == 0 else OTHER) for n in (127, 128, 200, 256, 333, 512)],
    *[product(n, n, n, LARGE) for n in (1024, 2048)],
    *[_transposed(n, first) for n in (512, 1024) for first in (False, True)],
    product(1, 4096, 4096, SKINNY, "matmul-1x4096x4096"),
    product(8, 4096, 1024, SKINNY, "matmul-8x4096x1024"),
    product(32, 1024, 1024, SKINNY, "matmul-32x1024x1024"),
    *[_bfloat16(n) for n in (512, 1024)],
    *[_int8(n) for n in (512, 1024)],
)
