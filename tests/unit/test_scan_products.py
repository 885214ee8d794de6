"""The gradient of a recurrent layer computes no product that the layer computed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.types.types import shape_of
from tenon.lowering.pipeline import run_passes
from tenon.passes.pipeline import TENSOR_PIPELINE
from tenon.runtime.lower import new_context

STEPS, UNITS = 12, 64
Layer = Callable[..., Any]


def lstm(h: Any, c: Any, now: Any, w: Any, u: Any, b: Any, a: Any) -> Any:
    gates = now @ w.T + h @ u.T + (a + b)
    i, f, g, o = [gates[:, k * UNITS : (k + 1) * UNITS] for k in range(4)]
    c = tenon.sigmoid(f) * c + tenon.sigmoid(i) * tenon.tanh(g)
    return tenon.sigmoid(o) * tenon.tanh(c), c


def gru(h: Any, c: Any, now: Any, w: Any, u: Any, b: Any, a: Any) -> Any:
    given, kept = now @ w.T + b, h @ u.T + a
    r, z, n = [slice(k * UNITS, (k + 1) * UNITS) for k in range(3)]
    update = tenon.sigmoid(given[:, z] + kept[:, z])
    new = tenon.tanh(given[:, n] + tenon.sigmoid(given[:, r] + kept[:, r]) * kept[:, n])
    return (1.0 - update) * new + update * h, c


def multiply_adds(module: ModuleOp) -> int:
    """Those of contractions, in loops as often as these run, once kernels are to be made of them."""
    module = module.clone()
    run_passes(new_context(), module, TENSOR_PIPELINE[:-1])
    total = 0
    for op in module.walk():
        if isinstance(op, ContractOp):
            extents = op.loops([shape_of(operand.type) for operand in op.operands], op.settings).extents
            loop = op.parent_op()
            total += prod(extents) * (loop.steps if isinstance(loop, ScanOp) else 1)
    return total


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(("layer", "gates"), [(lstm, 4), (gru, 3)])
def test_no_product_is_computed_twice(layer: Layer, gates: int, batch: int) -> None:
    rows = gates * UNITS
    shapes = [(STEPS, batch, UNITS), (rows, UNITS), (rows, UNITS), (rows,), (rows,)]
    arrays = [np.ones(shape, np.float32) for shape in shapes]

    def states(x: Any, *weights: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            state = layer(*state, now, *weights)
            return state, state[0]

        start = tenon.zeros((batch, UNITS))
        return tenon.scan(step, (start, start), x)[1]

    forward = multiply_adds(tenon.jit(states).trace(*arrays).module)
    assert forward == 2 * STEPS * batch * rows * UNITS
    gradient = tenon.jit(lambda *arrays: tenon.vjp(states, *arrays[:-1])[1](arrays[-1]))
    cotangent = np.ones((STEPS, batch, UNITS), np.float32)
    assert multiply_adds(gradient.trace(*arrays, cotangent).module) == 3 * forward
