"""Recurrent layers over 128 steps: LSTM and GRU with 256 units, forward and with the gradient; and as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Preparation, Runner
from benchmarks.program import program
from benchmarks.workload import Target, Workload, generator

SECTION = "Recurrent layers"
STEPS, UNITS = 128, 256
TARGET = Target(best=1.2)


def _inputs(gates: int, batch: int, is_gradient: bool) -> tuple[Array, ...]:
    """Steps, weights of the inputs and of the state, and biases of both; the cotangent of the results last."""
    random = generator()
    rows = gates * UNITS
    shapes = [(STEPS, batch, UNITS), (rows, UNITS), (rows, UNITS), (rows,), (rows,)]
    shapes += [(STEPS, batch, UNITS)] if is_gradient else []
    scales = [1.0, *[UNITS**-0.5] * 4, 1.0]
    return tuple(
        [
            random.standard_normal(shape, np.float32) * np.float32(scale)
            for shape, scale in zip(shapes, scales, strict=False)
        ]
    )


def _lstm(framework: Any, scan: Any, zeros: Any, x: Any, w: Any, u: Any, b: Any, a: Any) -> Any:
    def step(state: Any, now: Any) -> Any:
        h, c = state
        gates = now @ w.T + h @ u.T + (a + b)
        i, f, g, o = [gates[:, k * UNITS : (k + 1) * UNITS] for k in range(4)]
        c = framework.sigmoid(f) * c + framework.sigmoid(i) * framework.tanh(g)
        h = framework.sigmoid(o) * framework.tanh(c)
        return (h, c), h

    start = zeros((x.shape[1], UNITS))
    return scan(step, (start, start), x)[1]


def _gru(framework: Any, scan: Any, zeros: Any, x: Any, w: Any, u: Any, b: Any, a: Any) -> Any:
    def step(h: Any, now: Any) -> Any:
        given, kept = now @ w.T + b, h @ u.T + a
        r, z, n = [slice(k * UNITS, (k + 1) * UNITS) for k in range(3)]
        reset = framework.sigmoid(given[:, r] + kept[:, r])
        update = framework.sigmoid(given[:, z] + kept[:, z])
        new = framework.tanh(given[:, n] + reset * kept[:, n])
        h = (1.0 - update) * new + update * h
        return h, h

    return scan(step, zeros((x.shape[1], UNITS)), x)[1]


def _in_tenon(layer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tenon, *arrays: layer(tenon, tenon.scan, tenon.zeros, *arrays)


def _in_jax(layer: Callable[..., Any]) -> Callable[..., Any]:
    def run(jax: Any, *arrays: Any) -> Any:
        class Functions:
            sigmoid, tanh = staticmethod(jax.nn.sigmoid), staticmethod(jax.numpy.tanh)

        return layer(Functions, jax.lax.scan, jax.numpy.zeros, *arrays)

    return run


def _lstm_in_torch(torch: Any, x: Any, *weights: Any) -> Any:
    start = torch.zeros(1, x.shape[1], UNITS)
    return torch._VF.lstm(x, (start, start), weights, True, 1, 0.0, True, False, False)[0]


def _gru_in_torch(torch: Any, x: Any, *weights: Any) -> Any:
    start = torch.zeros(1, x.shape[1], UNITS)
    return torch._VF.gru(x, start, weights, True, 1, 0.0, True, False, False)[0]


def _workload(
    name: str, layer: Callable[..., Any], in_torch: Callable[..., Any], gates: int, batch: int, is_gradient: bool
) -> Workload:
    return program(
        f"{name}-batch-{batch}{'-gradient' * is_gradient}",
        SECTION,
        lambda: _inputs(gates, batch, is_gradient),
        tenon=_in_tenon(layer),
        torch=in_torch,
        jax=_in_jax(layer),
        exact="torch",
        tolerance=1e-4,
        is_gradient=is_gradient,
        target=TARGET,
    )


def _layer_of(library: str, kind: str, x: Array, weights: Sequence[Array]) -> tuple[Any, Any]:
    """A layer of `nn` with these weights, which want gradients, and its input, as tensors of a library."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    if library == "torch":
        import torch

        torch.set_num_threads(peers.thread_count())
        layer: Any = getattr(torch.nn, kind)(UNITS, UNITS)
        layer.load_state_dict(dict(zip(names, map(peers.torch_tensor, weights), strict=True)))
        return layer, peers.torch_tensor(x)
    import tenon

    layer = getattr(tenon.nn, kind)(UNITS, UNITS)
    layer.load_state_dict(dict(zip(names, weights, strict=True)))
    return layer.requires_grad_(), tenon.tensor(x)


def _training(library: str, kind: str) -> Preparation:
    """A recorded call of a layer, and the gradients of its weights, as tensors give them."""

    def prepare(arrays: Sequence[Array]) -> Runner:
        x, *weights, cotangent = arrays
        layer, given = _layer_of(library, kind, x, weights)
        seed = peers.torch_tensor(cotangent) if library == "torch" else type(given)(cotangent)
        parameters = [*layer.parameters()]

        def run() -> list[Any]:
            for parameter in parameters:
                parameter.grad = None
            result = layer(given)[0]
            result.backward(seed)
            return [result, *[parameter.grad for parameter in parameters]]

        return Runner(run, lambda results: [np.asarray(result.detach()) for result in results])

    return prepare


def _tensor_workload(kind: str, gates: int, batch: int) -> Workload:
    contestants = {library: _training(library, kind) for library in ("tenon", "torch")}
    name = f"tensor-{kind.lower()}-batch-{batch}-gradient"
    inputs = partial(_inputs, gates, batch, is_gradient=True)
    return Workload(name, SECTION, inputs, contestants, "torch", has_limit=False, target=TARGET, tolerance=1e-4)


WORKLOADS = tuple(
    [
        _workload(name, layer, in_torch, gates, batch, is_gradient)
        for name, layer, in_torch, gates in (("lstm", _lstm, _lstm_in_torch, 4), ("gru", _gru, _gru_in_torch, 3))
        for is_gradient in (False, True)
        for batch in (1, 32)
    ]
) + tuple([_tensor_workload(kind, gates, batch) for kind, gates in (("LSTM", 4), ("GRU", 3)) for batch in (1, 32)])
