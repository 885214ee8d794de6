"""Functions that read what is on a GPU from around them run there.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from gpu_tensors import close, floats, gpus, on_gpu

import tenon

__all__ = ["gpus"]  # of which each test has one


def test_programs_read_arrays_on_a_gpu_as_they_are() -> None:
    cupy = sys.modules["cupy"]
    held, x, traces = {"w": cupy.asarray(floats(3, 2))}, cupy.asarray(floats(4, 3)), list[int]()
    bias = cupy.asarray(floats(2, seed=3))

    def function(x: Any) -> Any:
        traces.append(1)
        return tenon.tanh(x @ held["w"]) + bias

    def expected() -> Any:
        return np.tanh(floats(4, 3) @ held["w"].get()) + bias.get()

    compiled = tenon.jit(function)
    for number in range(4):  # the last ones by code for their kind
        np.testing.assert_allclose(compiled(x).get(), expected(), rtol=1e-5)
        held["w"][0] = float(number)
    assert len(traces) == 1
    held["w"] = cupy.asarray(floats(3, 2, seed=1))
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).get(), expected(), rtol=1e-5)
    assert len(traces) == 2
    held["w"] = cupy.asarray(floats(3, 2, seed=2))[:, ::-1]  # of another order, so copied at each call
    for number in range(3):
        np.testing.assert_allclose(compiled(x).get(), expected(), rtol=1e-5)
        held["w"][0] = float(number)
    target = cupy.asarray(np.empty((4, 2), np.float32))
    compiled(x, out=target)
    np.testing.assert_allclose(target.get(), expected(), rtol=1e-5)
    ahead = compiled.trace(x).lower().compile()
    np.testing.assert_allclose(ahead(x).get(), expected(), rtol=1e-5)
    np.testing.assert_allclose(ahead.run([x])[0].get(), expected(), rtol=1e-5)
    with pytest.raises(TypeError, match="2 arrays are given where 1 are needed"):
        ahead.run([x, x])
    with pytest.raises(ValueError, match="shares memory"):
        tenon.jit(lambda x: x + bias)(cupy.asarray(floats(2)), out=bias)
    frozen = tenon.jit(lambda v, x: tenon.tanh(x @ v) + bias).freeze(held["w"])
    for _ in range(3):
        np.testing.assert_allclose(frozen(x).get(), expected(), rtol=1e-5)
        bias[...] = 1.0


def test_what_is_computed_of_an_array_while_tracing_is_guarded() -> None:
    cupy = sys.modules["cupy"]
    w, x = cupy.asarray(floats(3)), cupy.asarray(floats(3))
    calls = [
        tenon.jit(lambda x: x * (w * 2.0)),
        tenon.jit(lambda x: x * float(w.get()[0])),
        tenon.jit(lambda x: x * w[0:1]),
    ]
    for number in range(3):
        values = w.get()
        for call, expected in zip(calls, (2 * values, values[0], values[0]), strict=True):
            np.testing.assert_allclose(call(x).get(), floats(3) * expected, rtol=1e-5)
        w[...] = float(number)


def test_gradients_of_programs_that_read_arrays_on_a_gpu() -> None:
    cupy = sys.modules["cupy"]
    w = cupy.asarray(floats(3, 2))
    compiled = tenon.jit(lambda x, scale: tenon.tanh(x @ w) * scale)
    for scale in (2.0, np.arange(2)):  # kept for the gradient, or computed again
        for number in range(3):
            x = on_gpu(floats(4, 3), requires_grad=True)
            result, values = compiled(x, scale), w.get()
            w[...] = float(number)
            result.sum().backward()
            close(x.grad, (scale * (1 - np.tanh(floats(4, 3) @ values) ** 2)) @ values.T)
    there = cupy.asarray(floats(4, 3))
    slopes = tenon.jit(tenon.grad(lambda x: tenon.sum(tenon.tanh(x @ w))))
    for _ in range(2):
        np.testing.assert_allclose(
            slopes(there).get(), (1 - np.tanh(floats(4, 3) @ w.get()) ** 2) @ w.get().T, rtol=1e-5
        )
        w[...] = 0.5
    with pytest.raises(tenon.TracedValueError, match="on a GPU is read from around a function that runs on the CPU"):
        tenon.jit(lambda x: x @ w)(floats(4, 3))
