"""What hooks of ops read from around them counts as it is at each call, in whatever was compiled before."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

X = np.ones((2, 3))
FACTOR = 2.0
TABLE = np.array([1.0, 2.0])
SETTINGS = {"scale": 1.0}


def scaled(x: Any) -> Any:
    return x * SETTINGS["scale"]


@tenon.tensor_op
class ReadingOp(tenon.UnaryOp):
    """An op whose hook reads a number, an element of an array, and through a function an item of a dict."""

    name = "changed_hooks.reading_around"

    @staticmethod
    def scalar(x: Any) -> Any:
        return scaled(x * FACTOR + float(TABLE[0]))


@tenon.tensor_op
class OuterOp(tenon.CompositeOp):
    """One that reads them through the other."""

    name = "changed_hooks.reading_through"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Any) -> Any:
        return tenon.reading_around(x) + 0


def value() -> float:
    return (FACTOR + float(TABLE[0])) * SETTINGS["scale"]


def slope() -> float:
    return FACTOR * SETTINGS["scale"]


def on_tape() -> Any:
    x = tenon.tensor(X, requires_grad=True)
    tenon.reading_around(x).sum().backward()
    return x.grad


def summed(x: Any) -> Any:
    return tenon.reading_around(x).sum()


def uses() -> dict[str, tuple[Callable[[], Any], Callable[[], float]]]:
    compiled, gradient = tenon.jit(lambda x: tenon.reading_through(x)), tenon.jit(tenon.grad(summed))
    traced = tenon.trace(lambda x: tenon.reading_around(x))
    return {
        "eager": (lambda: tenon.reading_around(X), value),
        "composite": (lambda: tenon.reading_through(X), value),
        "jit": (lambda: compiled(X), value),
        "jit_of_grad": (lambda: gradient(X), slope),
        "grad": (lambda: tenon.grad(summed)(X), slope),
        "tape": (on_tape, slope),
        "trace": (lambda: traced(tenon.tensor(X)), value),
    }


def test_what_hooks_read_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = uses()

    def check(change: str, *names: str) -> None:
        for name in names or made:
            use, expected = made[name]
            for _ in range(3):  # as native calls, too
                assert np.asarray(use()).flat[0] == expected(), (change, name)

    check("nothing")
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    check("a number")
    TABLE[0] = 5.0
    check("an element", "eager")
    monkeypatch.setitem(SETTINGS, "scale", 0.5)
    check("an item", "eager")
    monkeypatch.setitem(globals(), "scaled", lambda x: 2 * x * SETTINGS["scale"] / 2)
    check("a function", "eager")
    monkeypatch.undo()
    TABLE[0] = 1.0


def test_hooks_that_change_what_they_read_are_not_followed_for_ever() -> None:
    calls: list[int] = []

    @tenon.tensor_op
    class CountingOp(tenon.UnaryOp):
        """An op whose hook is no function."""

        name = "changed_hooks.counting"

        @staticmethod
        def scalar(x: Any) -> Any:
            calls.append(1)
            return x

    def count() -> None:
        for _ in range(30):
            CountingOp.apply(X)

    with pytest.warns(UserWarning, match=r"counting: the number of items, which its hooks read, has changed 16 times"):
        count()
    assert len(calls) < 25
