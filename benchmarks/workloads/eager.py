"""Ops on tensors that run when they are called: one, recorded or not, twenty of them, and their backward."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Function, Preparation, Runner
from benchmarks.workload import Target, Workload, in_f64, normal

SECTION = "Eager"

OfLibrary = Callable[[str], Function]
"""A function as it is called in a library."""


def _named(name: str) -> OfLibrary:
    return lambda library: getattr(import_module({"jax": "jax.numpy"}.get(library, library)), name)


def _tensors(library: str, arrays: Sequence[Array], *, records: bool) -> list[Any]:
    if library == "torch":
        import torch

        torch.set_num_threads(peers.thread_count())
        return [peers.torch_tensor(a).requires_grad_(records) for a in arrays]
    import tenon

    return [tenon.tensor(a, requires_grad=records) for a in arrays]


def _in_numpy(result: Any) -> list[Array]:
    return [np.asarray(part.detach()) for part in (result if isinstance(result, list) else [result])]


def _on_tensors(library: str, function: OfLibrary, *, records: bool = False) -> Preparation:
    def prepare(arrays: Sequence[Array]) -> Runner:
        return Runner(partial(function(library), *_tensors(library, arrays, records=records)), _in_numpy)

    return prepare


def _in_jax(function: OfLibrary) -> Preparation:
    """jax without `jit`."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        import jax

        given, called = [jax.device_put(a) for a in arrays], function("jax")
        return Runner(lambda: jax.block_until_ready(called(*given)), lambda result: [np.asarray(result)])

    return prepare


def _op(name: str, function: OfLibrary, *shapes: tuple[int, ...]) -> tuple[Workload, Workload]:
    """An op of tensors, without a record and with one."""

    def inputs() -> list[Array]:
        return [normal(*shape) for shape in shapes]

    plain = {
        "tenon": _on_tensors("tenon", function),
        "numpy": peers.numpy(function("numpy")),
        "torch": _on_tensors("torch", function),
        "jax": _in_jax(function),
    }
    recorded = {library: _on_tensors(library, function, records=True) for library in ("tenon", "torch")}
    target, beside = Target(peers={"numpy": 1.0, "torch": 3.3, "jax": 20.0}), Target(peers={"torch": 2.0})
    options: dict[str, Any] = {"exact": in_f64(function("numpy")), "has_limit": False, "threads": 1}
    return (
        Workload(f"tensor-{name}-16", SECTION, inputs, plain, target=target, **options),
        Workload(f"tensor-{name}-16-recorded", SECTION, inputs, recorded, target=beside, **options),
    )


def _twenty(library: str) -> Function:
    """Twenty ops of three arrays, which end in a number."""
    exp, tanh, sqrt, sin, maximum, absolute = [
        _named(name)(library) for name in ("exp", "tanh", "sqrt", "sin", "maximum", "abs")
    ]

    def function(a: Any, b: Any, c: Any) -> Any:
        h = tanh(exp((a * b + a) * 0.01) - b)
        h = h * a + 1.0
        h = sqrt(h * h) / 2.0 - a
        h = maximum(sin(h) * b, a) + b
        h = absolute(h) * c
        return (h + h).sum()

    return function


def _backward(library: str) -> Preparation:
    """The gradients of twenty ops that are recorded before."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        leaves = _tensors(library, arrays, records=True)
        result = _twenty(library)(*leaves)

        def run() -> list[Any]:
            for leaf in leaves:
                leaf.grad = None
            result.backward(retain_graph=True)
            return [leaf.grad for leaf in leaves]

        return Runner(run, _in_numpy)

    return prepare


def _program(size: int) -> tuple[Workload, Workload]:
    """Twenty ops with a record, and their backward alone."""

    def inputs() -> list[Array]:
        return [np.roll(normal(size), shift) for shift in range(3)]

    libraries = ("tenon", "torch")
    options: dict[str, Any] = {"exact": "torch", "has_limit": False, "threads": 1, "tolerance": 1e-4}
    target = Target(peers={"torch": 3.0 if size < 1000 else 1.0})
    forward = {library: _on_tensors(library, _twenty, records=True) for library in libraries}
    backward = {library: _backward(library) for library in libraries}
    return (
        Workload(f"tensor-20-ops-{size}", SECTION, inputs, forward, target=target, **options),
        Workload(f"tensor-20-ops-{size}-backward", SECTION, inputs, backward, target=target, **options),
    )


def _of_other_sizes(library: str) -> Preparation:
    """`x * x` of another size at each call; the first numbers of the result count."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        (x,) = arrays
        sizes = cycle(range(100, len(x)))
        given = x if library == "numpy" else _tensors(library, arrays, records=False)[0]

        def run() -> Any:
            part = given[: next(sizes)]
            return part * part

        return Runner(run, lambda result: [np.asarray(result)[:100]])

    return prepare


WORKLOADS = (
    *_op("add", lambda _: operator.add, (16,), (16,)),
    *_op("exp", _named("exp"), (16,)),
    *_op("matmul", lambda _: operator.matmul, (4, 4), (4, 4)),
    *_program(16),
    *_program(1_000_000),
    Workload(
        "tensor-new-sizes",
        SECTION,
        lambda: [normal(20_000)],
        {library: _of_other_sizes(library) for library in ("tenon", "numpy", "torch")},
        exact=in_f64(lambda x: (x * x)[:100]),
        has_limit=False,
        threads=1,
    ),
)
