"""What only moves numbers: a transpose, and rows that are gathered or added at random places."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array
from benchmarks.workload import Target, Workload, generator, normal
from benchmarks.workloads.reductions import SECTION

ROWS, WIDTH = 1_000_000, 64
TARGET = Target(best=1.2, best_into=3.0)


def _transpose() -> Workload:
    def ours(x: Any) -> Any:
        import tenon

        return tenon.transpose(x)

    return Workload(
        "transpose-4096",
        SECTION,
        lambda: (normal(4096, 4096),),
        {
            "tenon": peers.tenon(ours),
            "tenon, out=": peers.tenon_into(ours),
            "numpy": peers.numpy(lambda x: x.T.copy()),
            "torch": peers.torch(lambda x: x.T.contiguous()),
            "onnxruntime": peers.onnx("Transpose"),
            "jax": peers.jax(lambda x: x.T),
        },
        exact=np.transpose,
        tolerance=0.0,
        target=TARGET,
    )


def _rows() -> tuple[Array, Array]:
    random = generator()
    table = random.standard_normal((ROWS, WIDTH), np.float32)
    return table, random.integers(0, ROWS, ROWS).astype(np.int32)


def _gather() -> Workload:
    def ours(x: Any, indices: Any) -> Any:
        import tenon

        return tenon.gather(x, indices)

    def in_torch(x: Any, indices: Any) -> Any:
        return x.index_select(0, indices)

    return Workload(
        "gather-1e6x64",
        SECTION,
        _rows,
        {
            "tenon": peers.tenon(ours),
            "tenon, out=": peers.tenon_into(ours),
            "numpy": peers.numpy(lambda x, indices: x[indices]),
            "torch": peers.torch(in_torch),
            "onnxruntime": peers.onnx("Gather"),
            "jax": peers.jax(lambda x, indices: x[indices]),
        },
        exact=lambda x, indices: x[indices],
        tolerance=0.0,
        reads=(ROWS * WIDTH + ROWS) * 4,
        target=TARGET,
    )


def _scatter_add() -> Workload:
    """The rows of one array added to those of another at random places."""

    def inputs() -> tuple[Array, Array, Array]:
        updates, indices = _rows()
        return np.zeros((ROWS, WIDTH), np.float32), indices, updates

    def ours(x: Any, indices: Any, updates: Any) -> Any:
        import tenon

        return tenon.scatter_add(x, indices, updates)

    def in_torch(x: Any, indices: Any, updates: Any) -> Any:
        return x.index_add(0, indices, updates)

    def exact(x: Array, indices: Array, updates: Array) -> Array:
        order = np.argsort(indices, kind="stable")
        rows, starts = np.unique(indices[order], return_index=True)
        result = x.astype(np.float64)
        result[rows] += np.add.reduceat(updates[order].astype(np.float64), starts, axis=0)
        return result

    onnx = peers.onnx("ScatterND", inputs=lambda a: [a[0], a[1].astype(np.int64)[:, None], a[2]], reduction="add")
    return Workload(
        "scatter-add-1e6x64",
        SECTION,
        inputs,
        {
            "tenon": peers.tenon(ours),
            "tenon, out=": peers.tenon_into(ours),
            "torch": peers.torch(in_torch),
            "onnxruntime": onnx,
            "jax": peers.jax(lambda x, indices, updates: x.at[indices].add(updates)),
        },
        exact=exact,
        target=TARGET,
    )


WORKLOADS = (_transpose(), _gather(), _scatter_add())
