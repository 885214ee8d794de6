"""Functions that are loaded from files, or read what is on a GPU, run there as tensors do.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_tensors import close, floats, gpus, on_gpu, second

import tenon
from tenon import nn, optim

__all__ = ["gpus"]  # of which each test has one


def saved_model(path: Path, device: str) -> tuple[nn.Module, Any]:
    model = nn.Sequential(nn.Linear(3, 4, seed=0), nn.BatchNorm1d(4), nn.Linear(4, 2, seed=1)).to(device)
    steps = optim.SGD(lr=0.1, momentum=0.9).over(model.requires_grad_().parameters())

    def step(x: Any) -> Any:
        steps.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        steps.step()
        return loss.detach()

    traced = tenon.trace(step)
    x = tenon.tensor(floats(5, 3), device=device)
    traced(x)
    traced.save(path, x)
    return model, traced


@pytest.mark.parametrize("saved_on", ["cpu", "cuda"])
def test_a_loaded_step_runs_where_it_is_wanted(saved_on: str, tmp_path: Path) -> None:
    model, traced = saved_model(tmp_path / "step", saved_on)
    x = floats(5, 3, seed=1)
    here = tenon.load(tmp_path / "step")
    there = tenon.load(tmp_path / "step", device="cuda")
    elsewhere = tenon.load(tmp_path / "step", device=second())
    follows = tenon.load(tmp_path / "step")
    assert (here.device, there.device, elsewhere.device, follows.device) == ("cpu", "cuda", second(), "cpu")
    assert {tensor.device for tensor in elsewhere.state.values()} == {second()}
    for _ in range(3):
        loss = traced(tenon.tensor(x, device=saved_on)).item()
        np.testing.assert_allclose(here(tenon.tensor(x)).item(), loss, rtol=1e-4)
        close(there(tenon.tensor(x)), loss)
        close(elsewhere(x), loss, second())
        close(follows(on_gpu(x)), loss)
    assert follows.device == "cuda:0"
    close(follows(tenon.tensor(x)), traced(tenon.tensor(x, device=saved_on)).item())
    for name, tensor in model.state_dict().items():
        value = tenon.tensor(tensor, device="cpu")
        found = [t for n, t in follows.state.items() if n.endswith(name)]
        assert not found or any(np.allclose(t.cpu().numpy(), value.numpy(), rtol=1e-4, atol=1e-5) for t in found)
    assert follows.to("cpu").device == "cpu"
    assert {tensor.device for tensor in follows.state.values()} == {"cpu"}
    with pytest.raises(TypeError, match="input 0 is on a GPU, and the function runs on the CPU"):
        follows(on_gpu(x))
    with pytest.raises(ValueError, match="device 'tpu' is not one of"):
        tenon.load(tmp_path / "step", device="tpu")


def test_weights_of_a_loaded_function_are_moved_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    w = tenon.tensor(floats(3, 2))
    tenon.trace(lambda x: tenon.tanh(x @ w)).save(tmp_path / "f", tenon.tensor(floats(4, 3)))
    loaded, x = tenon.load(tmp_path / "f"), on_gpu(floats(4, 3))
    loaded(x)
    (held,) = loaded.state.values()
    array = held._array
    loaded(x)
    assert held.device == "cuda:0"
    assert held._array is array


def test_gradients_and_changes_of_loaded_functions(tmp_path: Path) -> None:
    w = tenon.tensor(floats(3, 2))
    tenon.trace(lambda x: tenon.tanh(x @ w)).save(tmp_path / "f", tenon.tensor(floats(4, 3)))
    expected = 1 - np.tanh(floats(4, 3) @ floats(3, 2)) ** 2
    loaded = tenon.load(tmp_path / "f")
    loaded.state["array.0" if "array.0" in loaded.state else next(iter(loaded.state))].requires_grad_()
    x = on_gpu(floats(4, 3), requires_grad=True)
    here = tenon.tensor(floats(4, 3), requires_grad=True)
    for given, device in ((x, "cuda:0"), (here, "cpu")):
        loaded(given).sum().backward()
        close(given.grad, expected @ floats(3, 2).T, device)
    (held,) = loaded.state.values()
    close(held.grad, 2 * floats(4, 3).T @ expected)
    tenon.trace(lambda x: x.add_(1.0)).save(tmp_path / "g", tenon.tensor(floats(3)))
    changed = tenon.load(tmp_path / "g", device="cuda")
    for given in (on_gpu(floats(3)), tenon.tensor(floats(3))):
        changed(given)
        close(given, floats(3) + 1, given.device)


def test_loaded_functions_of_arrays_and_sizes(tmp_path: Path) -> None:
    cupy = sys.modules["cupy"]
    function = tenon.trace(
        tenon.jit(lambda x, y: {"z": tenon.sum(x * y, axis=0), "n": tenon.full((2 * x.shape[0],), 1.5)})
    )
    n = tenon.dim("n")
    function.save(tmp_path / "f", tenon.ShapeDtype((n, 3)), tenon.ShapeDtype((n, 3)))
    loaded = tenon.load(tmp_path / "f")
    for rows in (2, 5, 2):
        x, y = floats(rows, 3), floats(rows, 3, seed=1)
        for given in (x, cupy.asarray(x)):
            found = loaded(given, y)
            for name, expected in {"z": (x * y).sum(0), "n": np.full(2 * rows, 1.5)}.items():
                np.testing.assert_allclose(tenon.tensor(found[name], device="cpu").numpy(), expected, rtol=1e-5)
        assert tenon.as_tensor(found["z"]).device == "cuda:0"
    for given in (floats(2, 3), cupy.asarray(floats(2, 3))):
        with pytest.raises(ValueError, match=r"n is 2 in dimension 0 of .* and 5 in dimension 0 of"):
            loaded(given, floats(5, 3))
    with pytest.raises(TypeError, match=r"input 0 is float64\[2, 3\] where float32\[n, 3\] was saved"):
        loaded(cupy.asarray(floats(2, 3).astype(np.float64)), y)


def test_a_loaded_function_inside_of_others(tmp_path: Path) -> None:
    w = tenon.tensor(floats(3, 2))
    tenon.trace(lambda x: tenon.tanh(x @ w)).save(tmp_path / "f", tenon.tensor(floats(4, 3)))
    loaded, x = tenon.load(tmp_path / "f", device="cuda"), on_gpu(floats(4, 3))
    expected = np.tanh(floats(4, 3) @ floats(3, 2))
    close(tenon.trace(lambda x: loaded(x) * 2)(x), 2 * expected)
    close(tenon.grad(lambda x: tenon.sum(loaded(x)))(x), (1 - expected**2) @ floats(3, 2).T)


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
        tenon.trace(lambda x: x * (w * 2.0)),
        tenon.trace(lambda x: x * w[0:1]),
    ]
    for number in range(3):
        values, first = w.get(), w.get()[0]
        for call, expected in zip(calls, (2 * values, first, first, 2 * values, first), strict=True):
            np.testing.assert_allclose(tenon.tensor(call(x), device="cpu"), floats(3) * expected, rtol=1e-5)
        w[...] = float(number)


def test_arrays_of_other_libraries_around_a_function() -> None:
    """They are inputs, where they are at each call; one whose gradient PyTorch records raises when it is asked."""
    cupy = sys.modules["cupy"]

    class Other:
        """An array on a GPU that is none of CuPy's."""

        shape = (3,)

        def __init__(self, held: Any, *, requires_grad: bool = False) -> None:
            self.held, self.requires_grad = held, requires_grad

        @property
        def __cuda_array_interface__(self) -> Any:
            if self.requires_grad:
                raise RuntimeError("Can't get __cuda_array_interface__ on a Variable that requires grad")
            return self.held.__cuda_array_interface__

        def detach(self) -> Any:
            return Other(self.held)

    held, x, traces = cupy.asarray(floats(3, seed=1)), cupy.asarray(floats(3)), list[int]()
    others: dict[str, Any] = {
        "w": Other(held),
        "b": held,
        "recorded": Other(cupy.asarray(floats(3)), requires_grad=True),
    }

    def function(x: Any) -> Any:
        traces.append(1)
        return tenon.tanh(x * others["w"]) + tenon.multiply(others["b"], others["w"]) * others["recorded"].shape[0]

    for call, count in ((tenon.jit(function), 2), (tenon.trace(function), 4)):  # in a trace, appending is an effect
        traces.clear()
        for number in range(4):
            w, b = others["w"].held.get(), others["b"].get()
            found = tenon.tensor(call(x), device="cpu")
            np.testing.assert_allclose(found, np.tanh(floats(3) * w) + 3 * b * w, rtol=1e-5)
            others["w"].held[0:1] = float(number)
            if number == 2:
                others["w"].held = cupy.asarray(floats(3, seed=number))  # in other memory, as PyTorch's `x.data = y`
        assert len(traces) == count
        others["w"] = Other(held)
    with pytest.raises(TypeError, match=r"a Other cannot be read: Can't get .* requires grad"):
        tenon.jit(lambda x: x * others["recorded"])(x)


def test_gradients_of_programs_that_read_arrays_on_a_gpu(tmp_path: Path) -> None:
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
            slopes(there).get(), (1 - np.tanh(floats(4, 3) @ w.get()) ** 2) @ w.get().T, rtol=1e-5, atol=1e-6
        )
        w[...] = 0.5
    tenon.trace(tenon.jit(lambda x: x @ w)).save(tmp_path / "f", there)
    for device in (None, "cpu"):
        loaded = tenon.load(tmp_path / "f", device)
        np.testing.assert_allclose(tenon.tensor(loaded(floats(4, 3)), device="cpu"), floats(4, 3) @ w.get(), rtol=1e-5)
    with pytest.raises(tenon.TracedValueError, match="on a GPU is read from around a function that runs on the CPU"):
        tenon.jit(lambda x: x @ w)(floats(4, 3))
