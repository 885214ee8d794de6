"""Updates whose places and values are computed where they are done, from what they change among others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon

RANDOM = generator("computed updates")


def added(x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, places, updates)
    return result


def last(x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    for place, update in zip(places, updates, strict=True):
        result[place] = update
    return result


def steps(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    for _ in range(3):
        x = added(x, i, 0.5 * x - 0.1)
    return x


CASES: dict[str, tuple[Callable[..., Any], Callable[..., np.ndarray]]] = {
    "from what they change": (lambda x, i: x.at[i].add(2.0 * x + 1.0), lambda x, i: added(x, i, 2 * x + 1)),
    "from a value before": (lambda x, i: (-x).at[i].add(x * x), lambda x, i: added(-x, i, x * x)),
    "the last one stays": (lambda x, i: x.at[i].set(1.0 - x), lambda x, i: last(x, i, 1 - x)),
    "computed places": (lambda x, i: x.at[(i * 3) % 40].add(x), lambda x, i: added(x, i * 3 % 40, x)),
    "functions": (lambda x, i: x.at[i].add(tenon.tanh(x)), lambda x, i: added(x, i, np.tanh(x))),
    "in a loop": (
        lambda x, i: tenon.fori_loop(0, 3, lambda _, x: x.at[i].add(0.5 * x - 0.1), x),
        steps,
    ),
}


@pytest.mark.parametrize("behind", [(), (5,)])
@pytest.mark.parametrize("size", [60, 9000])
@pytest.mark.parametrize("name", CASES)
def test_updates_read_what_was_there_before_all_of_them(name: str, size: int, behind: tuple[int, ...]) -> None:
    function, oracle = CASES[name]
    x, i = RANDOM.normal(size=(size, *behind)), RANDOM.integers(0, size, size)
    wanted = oracle(x, i)
    np.testing.assert_allclose(tenon.jit(function)(x, i), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tenon.jit(function, donate="x")(x.copy(), i), wanted, rtol=1e-12, atol=1e-12)
    target = np.empty_like(x)
    tenon.jit(function)(x, i, out=target)
    np.testing.assert_allclose(target, wanted, rtol=1e-12, atol=1e-12)


def test_nothing_is_stored_between_arithmetic_and_its_updates() -> None:
    x, i, w = np.zeros((50, 8)), RANDOM.integers(0, 50, 4000), RANDOM.normal(size=(4000, 8))
    jitted = tenon.jit(lambda x, i, w: x.at[i].add(2.0 * w))
    np.testing.assert_allclose(jitted(x, i, w), added(x, i, 2 * w), rtol=1e-12)
    assert jitted.compile(x, i, w).memory().peak < w.nbytes / 8
