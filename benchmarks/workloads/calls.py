"""What a call costs: of a compiled sum of two arrays of 16 numbers, of an op at once, of rows that lie as columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Runner
from benchmarks.program import program
from benchmarks.workload import Target, Workload, in_f64, normal

SECTION = "Calls"


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _into(x: Any, y: Any, target: Any) -> Any:
    import torch

    return torch.add(x, y, out=target)


def _for_any_size(arrays: Sequence[Array]) -> Runner:
    import tenon

    compiled = tenon.jit(_sum, dynamic={"x": ("n",), "y": ("n",)})
    return Runner(partial(compiled, *arrays), lambda result: [np.asarray(result)])


def _on_arrays(name: str, *shapes: tuple[int, ...]) -> Workload:
    """An op called at once, as `tenon.add(x, y)`."""

    def runner(arrays: Sequence[Array]) -> Runner:
        import tenon

        return Runner(partial(getattr(tenon, name), *arrays), lambda result: [np.asarray(result)])

    def in_torch(*tensors: Any) -> Any:
        import torch

        return getattr(torch, name)(*tensors)

    def in_jax(*arrays: Any) -> Any:
        import jax

        return getattr(jax.numpy, name)(*arrays)

    return Workload(
        f"op-{name}-16",
        SECTION,
        lambda: [normal(*shape) for shape in shapes],
        {
            "tenon": runner,
            "numpy": peers.numpy(getattr(np, name)),
            "torch": peers.torch(in_torch, differentiates=True),
            "jax": peers.jax(in_jax),
        },
        exact=in_f64(getattr(np, name)),
        has_limit=False,
        target=Target(peers={"numpy": 1.0, "torch": 1 / 0.3, "jax": 20.0}),
        threads=1,
    )


FACTORS = {"numpy": 2.5, "torch": 10.0, "jax": 30.0}

WORKLOADS = (
    Workload(
        "call-16",
        SECTION,
        lambda: (normal(16), normal(16)),
        {
            "tenon": peers.tenon(_sum),
            "numpy": peers.numpy(operator.add),
            "torch": peers.torch(operator.add, differentiates=True),
            "jax": peers.jax(_sum),
        },
        exact=in_f64(_sum),
        has_limit=False,
        target=Target(peers=FACTORS),
        threads=1,
    ),
    Workload(
        "call-16-out",
        SECTION,
        lambda: (normal(16), normal(16), np.zeros(16, np.float32)),
        {
            "tenon": peers.tenon_into_last(_sum),
            "numpy": peers.numpy(np.add),
            "torch": peers.torch(_into, differentiates=True),
        },
        exact=in_f64(lambda x, y, _: x + y),
        has_limit=False,
        target=Target(peers={"numpy": 2.5, "torch": 10.0}),
        threads=1,
    ),
    Workload(
        "call-16-any-size",
        SECTION,
        lambda: (normal(16), normal(16)),
        {
            "tenon": _for_any_size,
            "numpy": peers.numpy(operator.add),
            "torch": peers.torch(operator.add, differentiates=True),
            "jax": peers.jax(_sum),
        },
        exact=in_f64(_sum),
        has_limit=False,
        target=Target(best=1.0),
        threads=1,
    ),
    _on_arrays("add", (16,), (16,)),
    _on_arrays("exp", (16,)),
    _on_arrays("matmul", (4, 4), (4, 4)),
    program(
        "sum-of-transposed-4096",
        SECTION,
        lambda: (normal(4096, 4096).T,),
        tenon=lambda tenon, x: tenon.sum(x, axis=-1),
        numpy=lambda np_, x: x.sum(-1),
        torch=lambda torch, x: x.sum(-1),  # jax would order it anew before it is timed
    ),
)
