"""Donated arguments: results take their memory over, and what uses their arrays then is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.support.donation import Donation

SIZE = 64


def floats(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(SIZE,)).astype(np.float32)


def stepped() -> tuple[Any, Any, Any, int]:
    """A function, a donated array, the result that has its memory, and the line of the call."""
    function = tenon.jit(lambda p, g: p - 0.5 * g, donate="p")
    given, p, g = floats(), floats(), floats(1)
    for _ in range(3):  # the last ones are native calls
        given = p
        p = function(given, g)
    return function, given, p, stepped.__code__.co_firstlineno + 6


USES: dict[str, Callable[[Any], Any]] = {
    "op": lambda x: tenon.exp(x),
    "op with another": lambda x: tenon.add(np.ones(SIZE, np.float32), x),
    "jit": lambda x: tenon.jit(lambda y: y + 1)(x),
    "closure": lambda x: tenon.jit(lambda y: y + x)(np.ones(SIZE, np.float32)),
    "grad": lambda x: tenon.grad(lambda y: tenon.sum(y * y))(x),
    "trace": lambda x: tenon.trace(lambda y: y + 1)(x),
    "trace, of a dict": lambda x: tenon.trace(lambda y, given: y + given["x"])(np.ones(SIZE, np.float32), {"x": x}),
    "tensor": lambda x: tenon.tensor(x),
    "as_tensor": lambda x: tenon.as_tensor(x) + 1,
    "donated again": lambda x: tenon.jit(lambda y: y + 1, donate="y")(x),
}


@pytest.mark.parametrize("use", USES)
def test_a_donated_array_is_refused(use: str) -> None:
    _, given, result, line = stepped()
    kept = result.copy()
    words = rf"the array was donated as p of <lambda> \({__file__}:{line}\), and a result has its memory, unless"
    for _ in range(3):
        with pytest.raises(RuntimeError, match=words):
            USES[use](given)
    np.testing.assert_array_equal(result, kept)
    USES[use](result)


def test_native_calls_refuse_it_as_well() -> None:
    function, given, result, _ = stepped()
    plus, traced = tenon.jit(lambda x: x + 1), tenon.trace(lambda x: x + 1)
    for _ in range(3):
        plus(result)
        traced(result)
        tenon.exp(result)
    for call in (plus, traced, tenon.exp, lambda x: function(x, x), lambda x: function(floats(), x)):
        with pytest.raises(RuntimeError, match="was donated as p"):
            call(given)


def test_numpy_reads_it_and_does_not_write_to_it() -> None:
    _, given, result, _ = stepped()
    np.testing.assert_array_equal(given, result)
    with pytest.raises(ValueError, match="read-only"):
        given[0] = 1.0
    assert repr(given.base).startswith("<donated as p of <lambda> (")
    result[0] = 5.0
    assert given[0] == 5.0


def test_what_comes_out_is_right_over_many_steps() -> None:
    function = tenon.jit(lambda params, g: {k: v - g * v for k, v in params.items()}, donate="params")
    params = {"a": floats(), "b": floats(1)}
    expected = {k: v.astype(np.float64) for k, v in params.items()}
    addresses = {v.ctypes.data for v in params.values()}
    for _ in range(20):
        params = function(params, np.float32(0.1))
        expected = {k: v * (1 - float(np.float32(0.1))) for k, v in expected.items()}
    for name, value in params.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5)
        assert value.flags.writeable
    assert {v.ctypes.data for v in params.values()} == addresses


def test_names_are_those_of_leaves() -> None:
    @dataclass
    class State:
        mean: Any

    step = tenon.jit(lambda state, x: State(state.mean + x), donate="state")
    before = state = State(floats())
    for _ in range(3):
        before, state = state, step(state, floats(1))
    with pytest.raises(RuntimeError, match=r"argument state\.mean: the array was donated as state\.mean of <lambda>"):
        step(before, floats(1))
    np.testing.assert_allclose(state.mean, floats() + 3 * floats(1), rtol=1e-5)


@pytest.mark.usefixtures("few_objects")
def test_parts_of_an_array_that_others_have_stay_alive() -> None:
    step = tenon.jit(lambda x: x * 2, donate="x")
    for count in range(1, 5):
        whole = np.ones(2 * SIZE, np.float32)
        part = whole[:SIZE]
        result = step(part)
        alive = weakref.ref(whole)
        del whole, result
        gc.collect()
        assert alive() is not None, count
        assert part[0] == 2.0  # NumPy reads memory that is still there
        assert type(part.base) is Donation
        del part
        gc.collect()
        assert alive() is None, count


def test_arrays_whose_memory_is_not_taken_over_stay() -> None:
    step = tenon.jit(lambda x, y: (x.sum(), y + 1), donate=("x", "y"))
    for _ in range(3):
        x, fixed = floats()[:3].copy(), floats(1)
        fixed.flags.writeable = False
        _, result = step(x, fixed)
        assert result is not fixed
        for array in (x, fixed):
            tenon.exp(array)


def test_tensors() -> None:
    step = tenon.jit(lambda p, g: p - 0.5 * g, donate="p")
    g = tenon.tensor(floats(1))
    for _ in range(3):
        p = tenon.tensor(floats())
        made = step(p, g)
        np.testing.assert_allclose(made.numpy(), floats() - 0.5 * floats(1), rtol=1e-6)
        for use in (lambda p: p + 1, lambda p: p.exp(), lambda p: step(p, g)):
            with pytest.raises(RuntimeError, match="was donated as p of <lambda>"):
                use(p)


def test_a_gradient_that_needs_a_donated_tensor_is_refused() -> None:
    step = tenon.jit(lambda p: p + 1, donate="p")
    p, w = tenon.tensor(floats()), tenon.tensor(floats(1), requires_grad=True)
    y = (p * w).sum()
    step(p)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


@pytest.mark.usefixtures("few_objects")
def test_nothing_leaks() -> None:
    step = tenon.jit(lambda p: p + 1, donate="p")
    for _ in range(5):
        p = floats()
        references = [weakref.ref(p)]
        for _ in range(4):
            p = step(p)
            references.append(weakref.ref(p))
        del p
        gc.collect()
        assert [reference() is None for reference in references] == [True] * 5


def test_what_a_failed_call_might_have_overwritten_is_refused() -> None:
    inverse = tenon.jit(lambda x: (tenon.inv(x), x + 1), donate="x")
    for number in range(6):
        x = np.eye(2) * (number % 3 != 0)
        if number % 3:
            inverse(x)
        else:
            with pytest.raises(np.linalg.LinAlgError, match=r"tenon\.inv: singular"):
                inverse(x)
        with pytest.raises(RuntimeError, match=r"the array was donated as x of <lambda> .*that call failed"):
            tenon.exp(x)


def test_a_donated_array_that_is_made_writeable_is_still_donated() -> None:
    update = tenon.jit(lambda w: w - 1.0, donate="w")
    for _ in range(4):  # natively, too
        old = np.ones(4)
        new = update(old)
        old.flags.writeable = True
        for use in (tenon.exp, update):
            with pytest.raises(RuntimeError, match="the array was donated as w of <lambda>"):
                use(old)
        np.testing.assert_array_equal(new, np.zeros(4))
