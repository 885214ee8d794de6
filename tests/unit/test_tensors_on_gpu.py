"""Tensors on a GPU: what they give is what tensors on the CPU give, and is where they are.

On the stand-in for CuPy; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_tensors import Array, close, floats, gpus, on_gpu, second

import tenon
from tenon import nn, optim
from tenon.dialects.definition.registry import _start_generation
from tenon.dialects.definition.value import TracedValueError

__all__ = ["gpus"]  # of which each test has one


def both(function: Callable[..., Any], *arrays: Array) -> None:
    """A function of tensors gives the same results and gradients on the CPU and on a GPU."""
    found: list[list[Any]] = []
    for device in ("cpu", "cuda"):
        given = [tenon.tensor(array, device=device) for array in arrays]
        for tensor in given:
            if tensor.is_floating_point():
                tensor.requires_grad_()
        result = function(*given)
        (result * result).sum().backward()
        found.append([result, *[tensor.grad for tensor in given if tensor.requires_grad]])
    for one, other in zip(*found, strict=True):
        close(other, one)


def test_where_tensors_are() -> None:
    array = floats(2, 3)
    x = on_gpu(array)
    assert (x.device, x.is_cuda, x.shape, x.dtype) == ("cuda:0", True, (2, 3), np.float32)
    assert x.cuda() is x.to("cuda") is x.to(device="cuda:0")
    assert x.cpu().device == "cpu"
    assert x.to(second()).device == second()
    assert x.to(tenon.tensor([1.0, 2.0], dtype="f64")).dtype == np.float64
    assert tenon.tensor(array).to(x).device == "cuda:0"
    assert tenon.tensor([x.sum(), x.max()]).device == "cpu"
    assert repr(on_gpu(np.ones(2, np.float32))) == "tensor([1., 1.], device='cuda:0')"
    assert "on cuda:0" in x._repr_html_()
    assert x.tolist() == array.tolist()
    assert float(x[1, 2]) == x[1, 2].item() == array[1, 2]
    assert bool(x[0, 0] == float(array[0, 0]))
    assert float(array[0, 1]) in x
    again = pickle.loads(pickle.dumps(x))
    close(again, array)
    with pytest.raises(TypeError, match=r"^a tensor on cuda:0 has no NumPy array of its memory; write x.cpu\(\).numpy"):
        np.asarray(x)
    with pytest.raises(ValueError, match=r"^device cuda:77 is not there: this machine has "):
        x.to("cuda:77")


def test_arrays_of_others_are_shared() -> None:
    there = sys.modules["cupy"].asarray(floats(3))
    shared, copy = tenon.as_tensor(there), tenon.tensor(there)
    shared[0] = 7.0
    assert there.get()[0] == 7 != copy[0].item()
    assert tenon.from_dlpack(there) is there
    close(shared + there, 2 * there.get())


def test_made_there() -> None:
    x = on_gpu(floats(2, 3))
    close(x.new_zeros(2), np.zeros(2))
    close(tenon.zeros_like(x) + 1, np.ones((2, 3)))
    close(tenon.tensor(tenon.full((2,), 3, device="cuda")), np.full(2, 3))
    assert x.new_ones(2, device="cpu").device == "cpu"
    assert tenon.rand(3, device="cuda").device == tenon.randn_like(x).device == "cuda:0"
    assert tenon.bernoulli(x.new_full((4,), 1.0)).tolist() == 4 * [1.0]
    assert tenon.normal(x, 1.0).device == tenon.multinomial(x.abs(), 2).device == "cuda:0"
    there = sys.modules["cupy"].asarray(floats(2, 3))
    assert tenon.add(x, x, out=there) is there
    close(tenon.as_tensor(there), 2 * floats(2, 3))
    assert tenon.from_dlpack(x.to(second())._array, copy=True).device.id == int(second()[-1])
    x.normal_(generator=0)
    close(x, tenon.tensor(np.empty((2, 3), np.float32)).normal_(generator=0))
    assert (tenon.cuda.is_available(), tenon.cuda.current_device()) == (True, 0)
    assert tenon.device("cuda", 1) == "cuda:1"
    with pytest.raises(ValueError, match="zeros: device is 'tpu' where 'cpu', 'cuda' or 'cuda:N' is needed"):
        tenon.zeros(2, device="tpu")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: tenon.tanh(x @ y.T) * 2.0 + 1,
        lambda x, y: (x / (1 + y * y)).reshape(2, -1).T[1:, ::-1].unsqueeze(0).expand(2, -1, -1),
        lambda x, y: tenon.concat([x[:2], y[1:]], axis=0).astype("f64").softmax(-1),
        lambda x, y: x[[3, 0, 3], [1, 2, 1]] - y[y > 0].sum(),
        lambda x, y: x.at[[0, 2]].add(y[:2]).at[1, 2:].set(0.5),
        lambda x, y: x.clone().fill_(1.0).mul_(y).add_(x),
        lambda x, y: tenon.jit(lambda a, b: tenon.sin(a) * b)(x, y),
        lambda x, y: tenon.vmap(lambda a, b: a @ b)(x, y),
    ],
)
def test_results_and_gradients(function: Callable[..., Any]) -> None:
    both(function, floats(4, 6), floats(4, 6, seed=1))


def test_changes_in_place() -> None:
    expected = floats(4, 6)
    x = on_gpu(expected)
    row, column = x[1], x.T[2]
    row += 1
    x[0] = 5.0
    x[1:3, 2] = on_gpu(np.array([7, 8], np.float32))
    x[np.array([3, 3]), np.array([0, 1])] = -1.0
    x[x > 6] = 0.5
    x[2] = floats(6, seed=2)
    expected[1] += 1
    expected[0] = 5
    expected[1:3, 2] = [7, 8]
    expected[[3, 3], [0, 1]] = -1
    expected[expected > 6] = 0.5
    expected[2] = floats(6, seed=2)
    close(x, expected)
    close(column, expected[:, 2])
    close(x[x > 0], expected[expected > 0])
    close(x.nonzero()[1], expected.nonzero()[1])
    close((x > 0).unique(), [False, True])
    target = on_gpu(np.empty_like(expected))
    assert tenon.exp(x, out=target) is target
    close(target, np.exp(expected))
    y = on_gpu(floats(3), requires_grad=True)
    z = y * y
    z.mul_(2.0)
    doubled = z.exp()
    z.add_(1.0)
    with pytest.raises(RuntimeError, match="cannot be changed in place where calls are recorded"):
        y += 1
    doubled.sum().backward()
    close(y.grad, 4 * floats(3) * np.exp(2 * floats(3) ** 2))


def test_gradients_go_from_device_to_device() -> None:
    here = tenon.tensor(floats(5), requires_grad=True)
    there = (here * 2).cuda()
    elsewhere = there.to(second()) ** 2
    assert (there.requires_grad, elsewhere.device) == (True, second())
    elsewhere.sum().cpu().backward()
    close(here.grad, 8 * floats(5), "cpu")
    x = on_gpu(floats(5), requires_grad=True)
    seen: list[str] = []
    x.register_hook(lambda gradient: seen.append(gradient.device))
    (slope,) = tenon.autograd.grad((x**3).sum(), x, create_graph=True)
    (slope * slope).sum().backward()
    close(x.grad, 36 * floats(5) ** 3)
    assert seen[-1] == "cuda:0"
    (x * 2).backward(np.arange(5))
    with pytest.raises(ValueError, match=r"^backward: tensors are on cpu and cuda:0"):
        (x * 2).backward(tenon.tensor(floats(5)))
    x.grad = None
    (x * 2).sum().backward(tenon.tensor(3.0))
    close(x.grad, np.full(5, 6.0, np.float32))


def test_saved(tmp_path: Path) -> None:
    x = on_gpu(floats(5), requires_grad=True)
    tenon.saving.save(tmp_path / "state", {"w": x, "v": x.detach() * 2})
    found = tenon.saving.load(tmp_path / "state")
    np.testing.assert_array_equal(found["w"], floats(5))
    np.testing.assert_array_equal(found["v"], floats(5) * 2)


def test_a_function_whose_gradient_is_python() -> None:
    class Doubled(tenon.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * 2 + gradients[1] + ctx.saved_tensors[0] * 0

    both(lambda x: Doubled.apply(x.exp())[0], floats(4))


def test_tensors_of_one_call_are_on_one_device() -> None:
    here, there, elsewhere = tenon.tensor(floats(3)), on_gpu(floats(3)), tenon.tensor(floats(3), device=second())
    calls: list[Callable[[], Any]] = [
        lambda: here + there,
        lambda: tenon.concat([there, here], axis=0),
        lambda: tenon.select(there > 0, there, here),
    ]
    if tenon.cuda.device_count() > 1:
        calls.append(lambda: there + elsewhere)
    for call in calls:
        with pytest.raises(
            ValueError, match=r"^\w+: tensors are on cpu|cuda:0 and c.*, and have to be on one device; "
        ):
            call()
    close(there + floats(3), 2 * floats(3))  # arrays and numbers are no tensors
    close(there * tenon.tensor(2.0), 2 * floats(3))
    close(tenon.jit(lambda a, b: a + b)(there, here), 2 * floats(3))  # programs take copies
    close(tenon.exp(elsewhere), np.exp(floats(3)), second())
    close((elsewhere[1:].clone() + 1).add_(1.0), floats(3)[1:] + 2, second())
    here.copy_(there + 1)
    close(here, floats(3) + 1, "cpu")
    with pytest.raises(TypeError, match="out has a tensor on the CPU, and the function runs on a GPU"):
        tenon.jit(lambda a: a * 2)(there, out=here)


@pytest.mark.usefixtures("new_calls")
def test_calls_like_one_before_are_native(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = on_gpu(floats(4, 3)), on_gpu(floats(3, 2))
    calls: list[Callable[[Any, Any], Any]] = [
        lambda x, w: x * 2.0 - 3,
        lambda x, w: 2 / (x * x + 1),
        lambda x, w: x @ w,
        lambda x, w: tenon.sum(x, axis=(0,), keepdims=True),
        lambda x, w: tenon.concat([x, x], axis=1),
        lambda x, w: x > 0.0,
        lambda x, w: x * float("nan"),
    ]
    for call in calls:
        close(call(x, w), call(tenon.tensor(floats(4, 3)), tenon.tensor(floats(3, 2))))
        call(x, w)
    y = on_gpu(np.array([1, -2], np.float32))
    for _ in range(3):
        assert [(y / zero).tolist() for zero in (0.0, -0.0)] == [[np.inf, -np.inf], [-np.inf, np.inf]]
        assert [(y * number).dtype for number in (1, True, 1.0)] == 3 * [np.float32]
        assert np.isnan((y * float("nan")).tolist()).all()
    there = [tensor.to(second()) for tensor in (x, w)]
    for _ in range(3):
        close(calls[0](*there), 2 * floats(4, 3) - 3, second())
    again = on_gpu(floats(4, 3, seed=1))
    expected = [call(tenon.tensor(floats(4, 3, seed=1)), tenon.tensor(floats(3, 2))) for call in calls]
    monkeypatch.setattr("tenon.runtime.evaluate._compiled", None)
    for call, value in zip(calls, expected, strict=True):
        close(call(again, w), value)


def test_calls_like_one_before_are_learned_without_room_for_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenon.runtime.call.entry.MADE", 0)
    _start_generation()
    x, other = on_gpu(floats(7, 3)), on_gpu(floats(7, 3, seed=1))
    for _ in range(2):
        close(x * x, floats(7, 3) ** 2)
    monkeypatch.setattr("tenon.runtime.evaluate._compiled", None)
    close(other * other, floats(7, 3, seed=1) ** 2)


def test_functions_run_where_their_arguments_are() -> None:
    w = sys.modules["cupy"].asarray(floats(3, 2))
    function = tenon.jit(lambda w, x: {"y": tenon.sum(x @ w, axis=0)})
    expected = (floats(4, 3, seed=1) @ w.get()).sum(0)
    for given in (function, function.freeze(w)):
        args = (floats(4, 3, seed=1),) if given is not function else (w, floats(4, 3, seed=1))
        np.testing.assert_allclose(given(*args)["y"].get(), expected, rtol=1e-5)
    np.testing.assert_allclose(function(w.get(), floats(4, 3, seed=1))["y"], expected, rtol=1e-5)
    np.testing.assert_allclose(tenon.grad(lambda w: tenon.sum(w * w))(w).get(), 2 * w.get(), rtol=1e-5)
    np.testing.assert_allclose(tenon.exp(w).get(), np.exp(w.get()), rtol=1e-5)
    with pytest.raises(TypeError, match="another device than the CPU"):
        tenon.jit(lambda w: w * 2, device="cpu")(w)
    x = tenon.tensor(floats(3), requires_grad=True)
    result = tenon.jit(lambda x: tenon.sum(tenon.sin(x)), device="cuda")(x)
    assert result.device == "cuda:0"
    result.backward()
    close(x.grad, np.cos(floats(3)), "cpu")


def test_calls_that_follow_their_arguments_are_native(monkeypatch: pytest.MonkeyPatch) -> None:
    x, function = sys.modules["cupy"].asarray(floats(3)), tenon.jit(lambda x, *, shift: {"y": x * 2 + shift})
    for _ in range(3):
        np.testing.assert_allclose(function(x, shift=x)["y"].get(), 3 * floats(3), rtol=1e-6)
        np.testing.assert_allclose(function(floats(3), shift=1)["y"], 2 * floats(3) + 1, rtol=1e-6)
    monkeypatch.setattr(function, "parameters", None)
    np.testing.assert_allclose(function(x, shift=x)["y"].get(), 3 * floats(3), rtol=1e-6)


def test_traced_functions_run_where_their_tensors_are() -> None:
    w, places = on_gpu(floats(3, 2), requires_grad=True), list[str]()

    def function(x: Any) -> Any:
        places.append(x.device)
        return tenon.tanh(x @ w).to(x.device)

    traced = tenon.trace(function)
    for seed in range(3):
        w.grad = None
        result = traced(on_gpu(floats(4, 3, seed=seed)))
        close(result, np.tanh(floats(4, 3, seed=seed) @ floats(3, 2)))
        result.sum().backward()
        close(w.grad, floats(4, 3, seed=seed).T @ (1 - result.detach().cpu().numpy() ** 2))
    assert places == 3 * ["cuda:0"]
    there, here = sys.modules["cupy"].asarray(floats(3)), tenon.tensor(floats(3))
    increased = tenon.trace(lambda x: x.add_(1.0))
    for given in (on_gpu(floats(3)), here, on_gpu(floats(3))):
        assert increased(increased(given)).device == given.device
        close(given, floats(3) + 2, given.device)
    close(tenon.trace(lambda x: x * 2)(there), 2 * floats(3))
    close(tenon.trace(lambda x: x + tenon.ones(3, device=x.device))(there), 1 + floats(3))
    with pytest.raises(
        ValueError, match=r"^<lambda> runs on cpu, where its tensors are; bring what it is given to cuda"
    ):
        tenon.trace(lambda x: x.to("cuda"))(here)

    def collatz(x: Any) -> Any:
        while float(x.sum()) < 10:
            x = x * 2 + 1
        return x

    close(tenon.trace(collatz, symbolic=False)(on_gpu(np.ones(3, np.float32))), collatz(np.ones(3)))


def test_functions_read_what_is_around_them() -> None:
    model, w = nn.Linear(3, 3, seed=0).to("cuda").requires_grad_(), on_gpu(floats(3, 3), requires_grad=True)
    found: list[Any] = []
    for transform in (lambda f: f, tenon.checkpoint, tenon.vmap):
        w.grad = model.weight.grad = None
        transform(lambda x: tenon.tanh(model(x) @ w))(on_gpu(floats(4, 3))).sum().backward()
        found.append((w.grad, model.weight.grad))
    for gradients in found[1:]:
        for one, other in zip(gradients, found[0], strict=True):
            close(one, other)
    still = model.weight.detach()
    close(tenon.grad(lambda x: tenon.sum(x @ still))(on_gpu(floats(4, 3))), tenon.ones((4, 3)) @ still.cpu().numpy().T)
    with pytest.raises(TracedValueError, match=r"a tensor of shape .* is read from around a function of jit"):
        tenon.jit(lambda x: tenon.matmul(x, still))(on_gpu(floats(4, 3)))


def test_a_scaler_goes_with_its_losses() -> None:
    scaler, model = optim.GradScaler(init_scale=4.0, growth_interval=1), nn.Linear(3, 1, seed=0).to("cuda")
    steps = optim.SGD(lr=0.1).over(model.parameters())

    def step(x: Any) -> None:
        steps.zero_grad()
        scaler.scale(model(x).sum()).backward()
        scaler.step(steps)
        scaler.update()

    tenon.trace(step)(on_gpu(floats(4, 3)))
    assert pickle.dumps(scaler.state_dict())
    assert {type(value) for value in scaler.state_dict().values()} == {np.ndarray}
    step(on_gpu(floats(4, 3)))
    assert scaler.get_scale() == 16
    tenon.trace(step)(on_gpu(floats(4, 3)))
    model.cpu()
    step(tenon.tensor(floats(4, 3)))
    assert scaler.get_scale() == 64


def test_a_module_that_is_moved_is_traced_again() -> None:
    model, x = nn.Sequential(nn.Linear(3, 2, seed=0), nn.BatchNorm1d(2)), floats(5, 3)
    model.requires_grad_()
    traced = tenon.trace(lambda x: model(x).sum(axis=0))
    expected = traced(tenon.tensor(x))
    model.to("cuda")
    close(traced(on_gpu(x)), expected)
    close(traced(on_gpu(x)), expected)
    assert model.cpu()[1].num_batches_tracked == 3
    close(traced(tenon.tensor(x)), expected, "cpu")


def trained(device: str, optimizer: Any, *, is_traced: bool = False) -> tuple[Any, Any, Any, list[float]]:
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.25), nn.Linear(8, 3)).to(device)
    steps, scaler = optimizer.over(model.parameters()), optim.GradScaler(init_scale=8.0)
    average = optim.Average(model.parameters(), 0.5)
    x = tenon.tensor(floats(10, 6), device=device)
    labels = tenon.tensor(np.arange(10) % 3, device=device)

    def step(x: Any, labels: Any) -> Any:
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(steps)
        scaler.update()
        return loss

    call, losses = tenon.trace(step, keep_grad=True) if is_traced else step, list[float]()
    for _ in range(3):
        losses.append(call(x, labels).item())
        average.update()
    return model, steps, average, losses


@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize(
    "optimizer", [optim.SGD(lr=0.1, momentum=0.9), optim.AdamW(lr=0.05, eps=1e-2)], ids=["sgd", "adamw"]
)
def test_training(optimizer: Any, is_traced: bool, tmp_path: Path) -> None:
    here, steps, average, losses = trained("cpu", optimizer)
    there, those, other, found = trained("cuda", optimizer, is_traced=is_traced)
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    for name, value in here.state_dict().items():
        close(tenon.tensor(there.state_dict()[name]), value)
    for one, value in zip(other.values, average.values, strict=True):
        close(one, value)
    tenon.saving.save(tmp_path / "state", there.state_dict())
    parameters = [*there.parameters()]
    assert there.cpu().load_state_dict(tenon.saving.load(tmp_path / "state"))
    assert {tensor.device for tensor in there.parameters()} == {"cpu"}
    assert all(map(lambda a, b: a is b, parameters, there.parameters()))
    assert {tensor.grad.device for tensor in parameters} == {"cpu"}
    those.load_state_dict(steps.state_dict())
    steps.load_state_dict(those.state_dict())
