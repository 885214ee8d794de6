"""ONNX models run on the GPU that they are loaded for, or that their inputs are on.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_tensors import floats, gpus, on_gpu, second
from onnx_models import model, node, perceptron

import tenon
from tenon.onnx import load

__all__ = ["gpus"]  # of which each test has one


def test_a_model_runs_where_it_is_wanted() -> None:
    cupy, (proto, weights) = sys.modules["cupy"], perceptron()
    x = floats(2, 8)
    expected = np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
    follows, there, here = load(proto), load(proto, device=second()), load(proto, device="cpu")
    assert (follows.device, there.device, here.device) == ("cpu", second(), "cpu")
    np.testing.assert_allclose(follows(x)[0], expected, rtol=1e-4)
    for given in (cupy.asarray(x), on_gpu(x), x):  # the weights are there by the last call
        np.testing.assert_allclose(follows(given)[0].get(), expected, rtol=1e-4)
    assert follows.device == "cuda:0"
    held = dict(follows.weights)
    follows(x)
    assert all(follows.weights[name] is array for name, array in held.items())
    (found,) = there(x)
    assert found.device.id == int(second()[-1])
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4)
    with pytest.raises(TypeError, match="on another device than the CPU"):
        here(cupy.asarray(x))
    np.testing.assert_allclose(pickle.loads(pickle.dumps(follows))(x)[0].get(), expected, rtol=1e-4)
    follows.weights["w2"] = 2 * weights["w2"]
    np.testing.assert_allclose(follows(x)[0].get(), 2 * expected, rtol=1e-4)
    np.testing.assert_allclose(follows.apply({"w1": weights["w1"]}, x)[0].get(), 2 * expected, rtol=1e-4)
    assert type(follows.to("cpu")(x)[0]) is np.ndarray


def test_a_model_in_functions_there(tmp_path: Path) -> None:
    cupy, (proto, weights) = sys.modules["cupy"], perceptron()
    given, x = load(proto), floats(2, 8)
    expected = np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
    given.to("cuda").to_mlir(tmp_path / "model.mlir", (2, 8))
    assert (tmp_path / "model.mlir").exists()
    for function in (tenon.jit(lambda x: given(x)[0]), given.freeze(), tenon.vmap(lambda row: given(row[None])[0][0])):
        found = function(cupy.asarray(x))
        array = found[0] if isinstance(found, tuple) else found
        np.testing.assert_allclose(array.get(), expected, rtol=1e-4)
    slopes = tenon.grad(lambda x: tenon.sum(given(x)[0]))(on_gpu(x))
    own = tenon.grad(lambda x: tenon.sum(load(proto)(x)[0]))(tenon.tensor(x))
    np.testing.assert_allclose(slopes.cpu().numpy(), own.numpy(), rtol=1e-4)


def test_values_that_decide_shapes_may_be_there() -> None:
    cupy = sys.modules["cupy"]
    inputs = {"x": (np.float32, (2, 3)), "s": (np.int64, ("k",))}
    given = load(model([node("Reshape", "x s", "y")], inputs, ["y"]), device="cuda")
    for sizes in ([3, 2], [6], [3, 2]):
        for s in (np.array(sizes), cupy.asarray(np.array(sizes))):
            np.testing.assert_array_equal(given(floats(2, 3), s)[0].get(), floats(2, 3).reshape(sizes))


def test_arrays_there_in_inner_functions() -> None:
    w = on_gpu(floats(3, 2))
    per_row = tenon.vmap(lambda x: tenon.grad(lambda w: tenon.sum((x @ w) ** 2))(w))(on_gpu(floats(4, 3)))
    expected = 2 * floats(4, 3)[:, :, None] * (floats(4, 3) @ floats(3, 2))[:, None]
    np.testing.assert_allclose(per_row.cpu().numpy(), expected, rtol=1e-4)
    held = sys.modules["cupy"].asarray(floats(3))
    both = tenon.jit(lambda x: (x + 1, held))(sys.modules["cupy"].asarray(floats(2)))
    np.testing.assert_array_equal(both[1].get(), floats(3))
