"""Loops with products whose matrices are read in blocks, against torch in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon.dialects.families.regions import captured_values
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.types.types import shape_of
from tenon.lowering.pipeline import run_passes
from tenon.passes.pipeline import TENSOR_PIPELINE
from tenon.runtime.lower import new_context

STEPS, ROWS, UNITS = 9, 8, 128


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(7)
    return [random.standard_normal(shape).astype(np.float32) / np.float32(shape[-1] ** 0.5) for shape in shapes]


def scans(function: Any, *args: Any) -> list[ScanOp]:
    """The loops of `function`, and what lies in front of them, as kernels are made of them."""
    module = tenon.jit(function).trace(*args).module.clone()
    run_passes(new_context(), module, TENSOR_PIPELINE)
    return [op for op in module.walk() if isinstance(op, ScanOp)]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_layers_and_gradients_are_as_in_torch(kind: str) -> None:
    ours = getattr(tenon.nn, kind)(UNITS, UNITS, bidirectional=True)
    theirs = getattr(torch.nn, kind)(UNITS, UNITS, bidirectional=True, dtype=torch.float64)
    ours.load_state_dict({name: v.detach().numpy().astype(np.float32) for name, v in theirs.state_dict().items()})
    x, cotangent = arrays((STEPS, ROWS, UNITS), (STEPS, ROWS, 2 * UNITS))
    gradient = tenon.jit(lambda layer, x, g: tenon.vjp(lambda y: layer(y)[0], x, cotangent=g))
    result, (of_x,) = gradient(ours, x, cotangent)
    wanted_x = torch.from_numpy(x).double().requires_grad_()
    wanted = theirs(wanted_x)[0]
    wanted.backward(torch.from_numpy(cotangent).double())
    assert wanted_x.grad is not None
    np.testing.assert_allclose(result, wanted.detach().numpy(), atol=2e-6)
    np.testing.assert_allclose(of_x, wanted_x.grad.numpy(), atol=2e-6)


def test_a_cell_with_a_norm_reads_blocks() -> None:
    """What a step does behind its product may combine whole rows."""
    x, w, u = arrays((STEPS, ROWS, UNITS), (UNITS, 2 * UNITS), (UNITS, 2 * UNITS))

    def layer(x: Any, w: Any, u: Any) -> Any:
        def step(h: Any, now: Any) -> Any:
            gates = tenon.layer_norm(now @ w + h @ u, axis=-1)
            h = tenon.sigmoid(gates[:, :UNITS]) * h + tenon.tanh(gates[:, UNITS:])
            return h, h

        return tenon.scan(step, tenon.zeros((ROWS, UNITS)), x)[1]

    h, steps = np.zeros((ROWS, UNITS)), []
    for now in x.astype(np.float64):
        gates = now @ w.astype(np.float64) + h @ u.astype(np.float64)
        gates = (gates - gates.mean(1, keepdims=True)) / np.sqrt(gates.var(1, keepdims=True) + 1e-5)
        h = h / (1 + np.exp(-gates[:, :UNITS])) + np.tanh(gates[:, UNITS:])
        steps.append(h)
    np.testing.assert_allclose(tenon.jit(layer)(x, w, u), np.stack(steps), rtol=1e-5, atol=1e-4)
    (scan,) = scans(layer, x, w, u)
    assert [shape_of(v.type) for v in captured_values(scan.body)] == [(8, UNITS, 32)]


def test_products_of_inputs_come_in_blocks() -> None:
    """6 MiB of products of all steps, which no cache of a core holds."""
    ours = tenon.nn.LSTM(UNITS, UNITS, bidirectional=True)
    theirs = torch.nn.LSTM(UNITS, UNITS, bidirectional=True, dtype=torch.float64)
    ours.load_state_dict({name: v.detach().numpy().astype(np.float32) for name, v in theirs.state_dict().items()})
    (x,) = arrays((96, 4 * ROWS, UNITS))
    wanted, (h, c) = theirs(torch.from_numpy(x).double())
    result, (last_h, last_c) = tenon.jit(lambda layer, x: layer(x))(ours, x)
    for mine, other in ((result, wanted), (last_h, h), (last_c, c)):
        np.testing.assert_allclose(mine, other.detach().numpy(), atol=2e-6)
    loops = scans(lambda layer, x: layer(x), ours, x)
    assert [(op.steps, op.reverse is not None) for op in loops] == [(12, False), (8, False), (12, True), (8, True)]
