"""What fails halfway leaves parameters, gradients, the optimizer's state and the tape as they were before."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn, optim

X = np.array([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0]], np.float32)


def network() -> Any:
    nn.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).requires_grad_()


def loss_of(model: Any) -> Any:
    return (model(tenon.tensor(X)) ** 2).sum()


def state(model: Any, steps: Any = None) -> list[bytes | None]:
    """All elements of parameters and gradients, and the optimizer's state."""
    found: list[bytes | None] = []
    for tensor in model.parameters():
        found += [tensor.detach().numpy().tobytes(), None if tensor.grad is None else tensor.grad.numpy().tobytes()]
    if steps is not None:
        found.append(repr(steps.state_dict()).encode())
    return found


class Interruption:
    """Raises an error at the line number `at` that files of these `names` come to; `passed` says how many there were.

    The end of a `with` block is left out: Python calls no `__exit__` for what is raised just there.
    """

    def __init__(self, names: tuple[str, ...], at: int, error: type[BaseException]) -> None:
        self.names, self.at, self.error = names, at, error
        self.passed = 0

    def __enter__(self) -> Interruption:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.endswith(self.names) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with "
        ):
            self.passed += 1
            if self.passed == self.at:
                sys.settrace(None)
                raise self.error("planted")
        return self._line


def interrupted_everywhere(
    names: tuple[str, ...],
    error: type[BaseException],
    prepare: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]],
) -> int:
    """Interrupt what `prepare` gives at each of its lines: what it also gives, the state, is that before or after."""
    run, observe = prepare()
    before = observe()
    run()
    after = observe()
    assert before != after
    position, partly = 0, 0
    while True:
        position += 1
        run, observe = prepare()
        assert observe() == before
        with Interruption(names, position, error) as interruption:
            try:
                run()
            except error:
                partly += 1
            else:
                break
        assert observe() in (before, after), f"line {position} of {names}"
        assert interruption.passed == position
    return partly


STEP_FILES = ("tenon/optim/stepping.py", "tenon/eager/changes.py")
BACKWARD_FILES = (
    "tenon/eager/tensor.py",
    "tenon/eager/engine.py",
    "tenon/eager/differentiation.py",
    "eager/known_tapes.py",
)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("rule", [optim.SGD(lr=0.1, momentum=0.9), optim.Adam(lr=0.1)], ids=["SGD", "Adam"])
def test_a_step_happens_as_a_whole_or_not_at_all(rule: Any, error: type[BaseException]) -> None:
    def prepare() -> Any:
        model = network()
        steps = rule.over(model)
        loss_of(model).backward()
        return steps.step, lambda: state(model, steps)

    assert interrupted_everywhere(STEP_FILES, error, prepare) > 20


@pytest.mark.parametrize("has_gradients", [False, True])
def test_backward_happens_as_a_whole_or_not_at_all(has_gradients: bool) -> None:
    def prepare() -> Any:
        model = network()
        if has_gradients:
            loss_of(model).backward()
        loss = loss_of(model)
        return loss.backward, lambda: state(model)

    assert interrupted_everywhere(BACKWARD_FILES, KeyboardInterrupt, prepare) > 10


def test_an_error_in_a_hook_changes_nothing_and_backward_can_be_called_again() -> None:
    model = network()
    loss_of(model).backward()
    first, *_, last = model.parameters()
    before = state(model)
    for tensor in (first, last):
        loss = loss_of(model)
        handle = tensor.register_hook(lambda gradient: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward()
        assert state(model) == before
        handle.remove()
        loss.backward()  # what was recorded is still there
        expected = [2 * np.frombuffer(g, np.float32) for g in before[1::2] if g is not None]
        for found, wanted in zip(model.parameters(), expected, strict=True):
            np.testing.assert_allclose(found.grad.numpy().ravel(), wanted, rtol=1e-5)
        model.zero_grad()
        loss_of(model).backward()


def test_an_error_in_a_callback_of_a_manager_changes_nothing() -> None:
    model = network().requires_grad_(False)
    first, *rest = model.parameters()
    calls: list[int] = []

    def failing(tensor: Any, gradient: Any) -> Any:
        calls.append(1)
        raise ValueError("planted")

    manager = tenon.GradManager().attach(first).attach(rest, callbacks=failing)
    before = state(model)
    with manager, pytest.raises(ValueError, match="planted"):
        manager.backward(loss_of(model))
    assert calls
    assert state(model) == before
    assert not any(tensor.requires_grad for tensor in model.parameters())


def test_an_error_in_a_closure_leaves_parameters_and_state() -> None:
    model = network()
    steps = optim.Adam(lr=0.1).over(model)
    loss_of(model).backward()
    steps.step()
    before = state(model, steps)

    def closure() -> Any:
        steps.zero_grad()
        loss_of(model)
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        steps.step(closure)
    assert state(model, steps)[::2] == before[::2]
    assert tenon.is_grad_enabled()


def test_memory_that_cannot_be_had_is_told_with_op_shape_and_line() -> None:
    tall = tenon.tensor(np.ones((1 << 22, 1), np.float32), requires_grad=True)
    wide = tenon.tensor(np.ones((1, 1 << 22), np.float32))
    for _ in range(2):  # the second call goes to native code
        with pytest.raises(MemoryError) as caught:
            tenon.multiply(tall, wide)
        text = str(caught.value)
        assert text.startswith(
            "multiply: a result of shape (4194304, 4194304) and dtype float32 takes 70368744177664 bytes"
        )
        assert str(caught.traceback[-1].path).endswith("test_interrupted.py")
    with pytest.raises(MemoryError, match=r"^blown_up: a result of shape \(4194304, 4194304\) and dtype float32 takes"):
        tenon.jit(blown_up)(tall.detach().numpy(), wide.numpy())
    assert tall.grad is None
    (tall * 2).sum().backward()
    assert tall.grad is not None
    assert tall.grad.numpy()[0, 0] == 2


def blown_up(x: Any, y: Any) -> Any:
    return x * y


def test_an_overwritten_value_and_a_wrong_gradient_change_nothing() -> None:
    model = network()
    loss_of(model).backward()
    before = state(model)
    weight = next(iter(model.parameters()))
    product = weight * weight
    rows = product[:2]
    loss = tenon.sin(product).sum()
    rows += 1
    with pytest.raises(RuntimeError, match=r"backward needs .*, which was changed in place"):
        loss.backward()
    with pytest.raises(ValueError, match=r"^the gradient is float32\[2\] where that of a tensor float32\[\]"):
        loss_of(model).backward(tenon.tensor([1.0, 2.0]))
    assert state(model) == before
