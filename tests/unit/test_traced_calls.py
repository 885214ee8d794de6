"""Calls of traced functions that native code makes: the same as through Python, and through Python where they must."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon import nn, optim
from tenon.runtime.call.callable_class import is_supported
from tenon.traces.program import Program

ROWS = np.random.default_rng(0).uniform(0.2, 1.0, (4, 3)).astype(np.float32)
pytestmark = pytest.mark.skipif(not is_supported(), reason="calls are not native here")


@contextmanager
def through_python(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Notes the names of programs that Python runs."""
    names: list[str] = []
    run = Program.run
    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", lambda self, leaves: names.append(self.name) or run(self, leaves))
        yield names


def called(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *args: Any, calls: int = 3) -> int:
    """How many of some calls Python runs, after some that it may."""
    for _ in range(3):
        function(*args)
    with through_python(monkeypatch) as names:
        for _ in range(calls):
            function(*args)
    return len(names)


def test_a_function_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    bias = tenon.tensor(np.ones(3, np.float32))
    scales = {"rate": 2.0}

    @tenon.trace
    def function(x: Any, y: float, *, label: str) -> Any:
        return {"sum": (x * scales["rate"] + bias, [x.mean() * y]), "label": label, "none": None}

    x = tenon.tensor(ROWS)
    assert called(monkeypatch, lambda: function(x, 0.5, label="a")) == 0
    with through_python(monkeypatch) as names:
        for rate in (2.0, 2.0, 2.0):
            bias += 1.0
            found = function(x, rate, label="a")
            np.testing.assert_allclose(found["sum"][0].numpy(), ROWS * 2 + bias.numpy(), rtol=1e-6)
            np.testing.assert_allclose(found["sum"][1][0].item(), ROWS.mean() * rate, rtol=1e-6)
            assert type(found["sum"][0]) is tenon.Tensor
            assert (found["label"], found["none"]) == ("a", None)
    assert not names
    scales["rate"] = 5.0
    np.testing.assert_allclose(function(x, 0.5, label="a")["sum"][0].numpy(), ROWS * 5 + bias.numpy(), rtol=1e-6)


def test_what_is_given_tells_programs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.trace(lambda x, flag=True: x * 2.0 if flag else x * 3.0)
    given: list[Any] = [
        tenon.tensor(ROWS),
        tenon.Parameter(ROWS, requires_grad=False),
        ROWS,
        tenon.tensor(ROWS.astype(np.float64)),
        tenon.tensor(ROWS[:2]),
        tenon.tensor(ROWS, requires_grad=True),
    ]
    for _ in range(4):
        for x in given:
            for flag in (True, False):
                found = function(x, flag)
                array = x if isinstance(x, np.ndarray) else x.detach().numpy()
                assert type(found) is tenon.Tensor
                np.testing.assert_array_equal(found.detach().numpy(), array * np.float32(2 if flag else 3))
                assert found.requires_grad == (x is given[-1])
    with tenon.no_grad():
        for _ in range(3):
            assert not function(given[-1]).requires_grad
    assert function(given[-1]).requires_grad
    assert called(monkeypatch, lambda: [function(x) for x in given[:-1]]) == 0


@pytest.mark.parametrize("kind", ["SGD", "momentum", "Adam", "AdamW"])
def test_training_steps_are_native_and_have_torchs_losses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_()
    other = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    own.load_state_dict({name: value.detach().numpy() for name, value in other.state_dict().items()})
    settings = {"lr": 0.05, **({"momentum": 0.9} if kind == "momentum" else {})}
    name = "SGD" if kind == "momentum" else kind
    steps = getattr(optim, name)(**settings).over(own)
    others = getattr(torch.optim, name)(other.parameters(), **settings)

    @tenon.trace
    def step(x: Any) -> Any:
        steps.zero_grad()
        loss = ((own(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        steps.step()
        return loss

    x = tenon.tensor(ROWS)
    with through_python(monkeypatch) as names:
        for number in range(10):
            rate = 0.05 / (1 + number)
            steps.param_groups[0]["lr"] = others.param_groups[0]["lr"] = rate
            others.zero_grad()
            expected = ((other(torch.tensor(ROWS)) - torch.tensor(ROWS).sum(1, keepdim=True)) ** 2).mean()
            expected.backward()
            others.step()
            np.testing.assert_allclose(step(x).item(), expected.item(), rtol=1e-4)
    assert len(names) <= 4
    for mine, theirs in zip(own.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-6)
        with pytest.raises(RuntimeError, match="the gradient was not kept by the traced function step"):
            _ = mine.grad


def changing() -> tuple[Any, Any]:
    state = tenon.tensor(np.zeros(3, np.float32))

    @tenon.trace
    def function(x: Any) -> Any:
        nonlocal state
        state += x.sum(0)
        return state * 2.0

    return function, state


def test_what_others_have_of_changed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    function, state = changing()
    x = tenon.tensor(ROWS)
    assert called(monkeypatch, function, x) == 0
    total = ROWS.sum(0)
    np.testing.assert_allclose(state.numpy(), 6 * total, rtol=1e-6)
    seen, row = state.numpy(), state[1:]
    for count in (7, 8):
        np.testing.assert_allclose(function(x).numpy(), 2 * count * total, rtol=1e-6)
        np.testing.assert_allclose(seen, count * total, rtol=1e-6)
        np.testing.assert_allclose(row.numpy(), count * total[1:], rtol=1e-6)


def test_a_gradient_does_not_take_a_changed_value_for_the_former(monkeypatch: pytest.MonkeyPatch) -> None:
    function, state = changing()
    x, w = tenon.tensor(ROWS), tenon.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert called(monkeypatch, function, x) == 0
    product = w * state
    function(x)
    with pytest.raises(RuntimeError, match="changed in place"):
        product.sum().backward()


def test_leaves_that_a_record_has_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    w = tenon.tensor([1.0, 2.0], requires_grad=True)

    @tenon.trace
    def step() -> None:
        with tenon.no_grad():
            w.multiply_(2.0)

    assert called(monkeypatch, step) == 0
    before = w._array.copy()  # detach() would leave a view, though a dead one
    former = (w * 3.0).sum()
    leaf = w._source
    step()
    assert w._source is not leaf
    np.testing.assert_array_equal(w.detach().numpy(), before * 2)
    (former + (w * w).sum()).backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), 3 + 4 * before)


def test_state_that_somebody_has_kept_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = tenon.Parameter(np.ones(3, np.float32))
    steps = optim.SGD(lr=0.1, momentum=0.9).over([weight])

    @tenon.trace
    def step() -> None:
        steps.zero_grad()
        (weight * weight).sum().backward()
        steps.step()

    assert called(monkeypatch, step) == 0
    state = copy.copy(steps._states[0])
    assert state is not None
    (kept,) = [value["0"] for value in state.values() if isinstance(value, dict)]
    before = kept.copy()
    step()
    np.testing.assert_array_equal(kept, before)


def test_recorded_calls_in_pieces_and_within_traces_go_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    function = tenon.trace(lambda x: x.exp())
    x = tenon.tensor(ROWS)
    assert called(monkeypatch, function, x) == 0
    outer = tenon.trace(lambda x: function(x) * 2.0)
    np.testing.assert_allclose(outer(x).numpy(), np.exp(ROWS) * 2, rtol=1e-6)
    np.testing.assert_allclose(tenon.jit(lambda x: function(x))(ROWS), np.exp(ROWS), rtol=1e-6)
    pieces = tenon.trace(lambda x: function(x * 2.0), symbolic=False)
    np.testing.assert_allclose(pieces(x).numpy(), np.exp(ROWS * 2), rtol=1e-6)
    with tenon.autocast(dtype="bf16"):
        product = tenon.trace(lambda x: x @ x.T)
        assert [str(product(x).dtype) for _ in range(4)] == ["bfloat16"] * 4
    assert [str(product(x).dtype) for _ in range(4)] == ["float32"] * 4
    with tenon.autocast(dtype="bf16"):
        assert str(product(x).dtype) == "bfloat16"


@pytest.mark.usefixtures("few_objects")
def test_nothing_is_held_or_lost() -> None:
    function, state = changing()
    x = tenon.tensor(ROWS)
    for _ in range(5):
        function(x)
    gc.collect()
    array, counts = state._array, [sys.getrefcount(o) for o in (x, x._array, state, None)]
    for _ in range(200):
        function(x)
    assert state._array is array
    after = [sys.getrefcount(o) for o in (x, x._array, state, None)]
    assert np.abs(np.subtract(after, counts)).max() < 50
    kept = weakref.ref(function)
    del function
    gc.collect()
    assert kept() is None
