"""Sorting, and the selection of the first few elements in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array
from benchmarks.workload import Target, Workload, generator, normal

SECTION = "Order"
TARGET = Target(best=1.0)


def _sort(name: str, *shape: int, dtype: Any = np.float32, scale: float = 1e6, in_order: bool = False) -> Workload:
    def numbers() -> tuple[Array]:
        x = (scale * normal(*shape)).astype(dtype)
        return (np.sort(x) if in_order else x,)

    def ours(x: Any) -> Any:
        import tenon

        return tenon.sort(x)

    return Workload(
        name,
        SECTION,
        numbers,
        {
            "tenon": peers.tenon(ours),
            "numpy": peers.numpy(np.sort),
            "torch": peers.torch(lambda x: x.sort().values),
            "jax": peers.jax(lambda x: x.sort()),
        },
        exact=np.sort,
        tolerance=0.0,
        has_limit=False,
        target=TARGET,
    )


def _argsort() -> Workload:
    """Equal elements keep their order in all of them."""

    def ours(x: Any) -> Any:
        import tenon

        return tenon.argsort(x)

    return Workload(
        "argsort-1e6",
        SECTION,
        lambda: (generator().integers(0, 1 << 20, 1_000_000).astype(np.int32),),
        {
            "tenon": peers.tenon(ours),
            "numpy": peers.numpy(lambda x: x.argsort(kind="stable")),
            "torch": peers.torch(lambda x: x.argsort(stable=True)),
            "jax": peers.jax(lambda x: x.argsort(stable=True)),
        },
        exact=lambda x: x.argsort(kind="stable"),
        tolerance=0.0,
        has_limit=False,
        target=TARGET,
    )


def _top_k(name: str, k: int, *shape: int) -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.top_k(x, k)

    def in_jax(x: Any) -> Any:
        import jax

        return jax.lax.top_k(x, k)

    def exact(x: Array) -> tuple[Array, Array]:
        places = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(x, places, -1), places

    return Workload(
        name,
        SECTION,
        lambda: (normal(*shape),),
        {
            "tenon": peers.tenon(ours),
            "torch": peers.torch(lambda x: tuple(x.topk(k))),
            "onnxruntime": peers.onnx("TopK", constants=(1,), inputs=lambda a: [*a, np.array([k])], outputs=2),
            "jax": peers.jax(in_jax),
        },
        exact=exact,
        tolerance=0.0,
        has_limit=False,
        target=TARGET,
    )


WORKLOADS = (
    _sort("sort-1e6", 1_000_000),
    _sort("sort-f64-1e6", 1_000_000, dtype=np.float64),
    _sort("sort-i32-1e6", 1_000_000, dtype=np.int32),
    _sort("sort-f16-1e6", 1_000_000, dtype=np.float16, scale=1e2),
    _sort("sort-few-1e6", 1_000_000, dtype=np.int32, scale=3.0),
    _sort("sort-sorted-1e6", 1_000_000, in_order=True),
    _sort("sort-1000", 1000),
    _sort("sort-rows-1000", 1000, 1000),
    _sort("sort-rows-64", 10_000, 64),
    _sort("sort-rows-8", 100_000, 8),
    _argsort(),
    _top_k("topk-10-4096x1024", 10, 4096, 1024),
    _top_k("topk-100-1e6", 100, 1_000_000),
)
