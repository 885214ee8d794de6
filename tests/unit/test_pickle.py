"""Compiled functions go to other processes, and come along when what holds them is copied."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_models import perceptron

import tenon
from tenon.runtime.jit import JitFunction

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@tenon.jit
def plus_one(x: Any) -> Any:
    return x + 1


def scaled(x: Any, twice: bool = True, *, by: float = 3.0) -> Any:
    return x * by * 2 if twice else x * by


def product(w: Any, x: Any) -> Any:
    return w @ x


@dataclasses.dataclass(frozen=True)
class Step:
    @tenon.jit
    def run(self, x: Any) -> Any:
        return x - 1


class Net(tenon.nn.Module):
    def __init__(self) -> None:
        self.linear = tenon.nn.Linear(3, 2)
        self.activation = tenon.jit(tenon.tanh)
        self.local = tenon.jit(lambda x: x * 2)

    def forward(self, x: Any) -> Any:
        return self.local(self.activation(self.linear(x)))


jitted = tenon.jit(scaled, static=("twice",), dynamic={"x": ("n", None)})
W = np.array([[1, 2], [3, 4]], np.float32)
FUNCTIONS: dict[str, tuple[Any, np.ndarray]] = {
    "decorated": (plus_one, X + 1),
    "settings": (jitted, X * 6),
    "frozen": (tenon.jit(product).freeze(W), W @ X),
    "frozen and decorated": (plus_one.freeze(X), X + 1),
    "op": (tenon.jit(tenon.exp), np.exp(X)),
    "eager op": (tenon.exp, np.exp(X)),
    "object": (tenon.jit(tenon.nn.ReLU()), X),
}


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_can_be_imported(name: str, again: Callable[[Any], Any]) -> None:
    function, expected = FUNCTIONS[name]
    made = again(function)
    arguments = () if name == "frozen and decorated" else (X,)
    np.testing.assert_allclose(made(*arguments), expected, rtol=1e-6)
    if name in ("decorated", "eager op"):
        assert made is function
    if name == "settings":
        np.testing.assert_array_equal(made(X, False, by=2.0), X * 2)
        assert "n" in str(made.trace(X))


def test_a_method_is_that_of_its_class() -> None:
    assert pickle.loads(pickle.dumps(Step.run)) is Step.run
    np.testing.assert_array_equal(copy.deepcopy(Step()).run(X), X - 1)


def test_a_module_that_holds_functions_is_copied() -> None:
    net = Net()
    other = copy.deepcopy(net)
    np.testing.assert_array_equal(other(X), net(X))
    assert other.local is net.local
    assert other.linear.weight is not net.linear.weight


def test_functions_go_to_other_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        results = pool.map(jitted, [X, X + 1])
    np.testing.assert_array_equal(results, [X * 6, (X + 1) * 6])


def test_what_cannot_be_found_by_name_says_so() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
        pickle.dumps(tenon.jit(lambda x: x))


def test_machine_code_is_not_pickled() -> None:
    compiled = plus_one.compile(X)
    with pytest.raises(TypeError, match=r"^plus_one: machine code cannot be pickled; pickle what `jit` gave"):
        pickle.dumps(compiled)
    np.testing.assert_array_equal(copy.deepcopy({"compiled": compiled})["compiled"](X), X + 1)


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_an_onnx_model(again: Callable[[Any], Any]) -> None:
    model = tenon.onnx.load(perceptron()[0])
    x = np.ones((2, 8), np.float32)
    np.testing.assert_array_equal(again(model)(x)[0], model(x)[0])


def test_what_is_made_again_is_of_the_same_class() -> None:
    assert isinstance(pickle.loads(pickle.dumps(jitted)), JitFunction)
