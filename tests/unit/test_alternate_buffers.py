"""Loops that take two steps at a time, so that state goes there and back, give what single ones give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon

Array = np.ndarray[Any, Any]


def advance(u: Array) -> Array:
    """A step that reads neighbours on both sides: the next state cannot be written over this one."""
    return u + 0.1 * (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 0))


@pytest.mark.parametrize("steps", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_stencil_and_what_each_step_gives(steps: int, *, reverse: bool) -> None:
    random = np.random.default_rng(0)
    start, forces = random.standard_normal((12, 5)), random.standard_normal((steps, 12, 5))

    def step(u: Any, force: Any) -> Any:
        following = u + 0.1 * (tenon.roll(u, 1, 0) - 2 * u + tenon.roll(u, -1, 0)) + force
        return following, tenon.sum(u * force)

    last, given = tenon.jit(lambda u, f: tenon.scan(step, u, f, reverse=reverse))(start, forces)
    state, expected = start, np.zeros(steps)
    for number in reversed(range(steps)) if reverse else range(steps):
        expected[number] = np.sum(state * forces[number])
        state = advance(state) + forces[number]
    np.testing.assert_allclose(last, state, rtol=1e-12)
    np.testing.assert_allclose(given, expected, rtol=1e-12)


@pytest.mark.parametrize("steps", [2, 5, 8])
def test_a_wave_exchanges_what_it_was_and_what_it_is(steps: int) -> None:
    random = np.random.default_rng(0)
    start = (random.standard_normal((9, 4)), random.standard_normal((9, 4)))

    def step(state: Any, _: Any) -> Any:
        before, now = state
        return (now, 2 * now - before + 0.1 * (tenon.roll(now, 1, 0) - now)), None

    found = tenon.jit(lambda *state: tenon.scan(step, state, None, steps)[0])(*start)
    before, now = start
    for _ in range(steps):
        before, now = now, 2 * now - before + 0.1 * (np.roll(now, 1, 0) - now)
    np.testing.assert_allclose(found[0], before, rtol=1e-12)
    np.testing.assert_allclose(found[1], now, rtol=1e-12)


@pytest.mark.parametrize(("outer", "inner"), [(2, 3), (3, 2), (5, 4)])
def test_loops_in_loops(outer: int, inner: int) -> None:
    start = np.random.default_rng(0).standard_normal((6, 3))

    def step(u: Any, _: Any) -> Any:
        return u + 0.1 * (tenon.roll(u, 1, 0) - 2 * u + tenon.roll(u, -1, 0)), None

    def steps(u: Any, _: Any) -> Any:
        return tenon.roll(tenon.scan(step, u, None, inner)[0], 1, 1), None

    found = tenon.jit(lambda u: tenon.scan(steps, u, None, outer)[0])(start)
    state = start
    for _ in range(outer):
        for _ in range(inner):
            state = advance(state)
        state = np.roll(state, 1, 1)
    np.testing.assert_allclose(found, state, rtol=1e-12)


def test_a_scheme_of_finite_differences_copies_no_state() -> None:
    state = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)

    def step(u: Any, _: Any) -> Any:
        return u + 0.1 * (tenon.roll(u, 1, 0) - 2 * u + tenon.roll(u, -1, 0)), None

    compiled = tenon.jit(lambda u: tenon.scan(step, u, None, 41)[0])
    assert "memref.copy" not in str(compiled.lower(state))
