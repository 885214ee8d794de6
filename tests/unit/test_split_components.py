"""Loops and functions that take vectors apart and put them together give what they give as they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tenon


def field(library: Any, s: Any, axis: int) -> Any:
    """The Lorenz system, whose components are along `axis`."""
    x, y, z = (s[:, i] for i in range(3)) if axis else (s[0], s[1], s[2])
    parts = [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]
    return library.stack(parts, axis) if library is torch else library.stack(parts, axis=axis)


def step(library: Any, s: Any, axis: int) -> Any:
    k = field(library, s, axis)
    return s + 0.005 * (k + field(library, s + 0.01 * k, axis))


@pytest.mark.parametrize(("shape", "axis"), [((7, 3), 1), ((3, 20), 0), ((3,), 0)])
def test_a_state_and_all_states(shape: tuple[int, ...], axis: int) -> None:
    start = np.random.default_rng(0).standard_normal(shape)

    def run(s: Any) -> Any:
        return tenon.scan(lambda s, _: (step(tenon, s, axis), s), s, None, length=9)

    last, states = tenon.jit(run)(start)
    expected = [start]
    for _ in range(9):
        expected.append(step(np, expected[-1], axis))
    np.testing.assert_allclose(last, expected[-1], rtol=1e-12)
    np.testing.assert_allclose(states, expected[:-1], rtol=1e-12)


def test_the_gradient_of_a_loop() -> None:
    start = np.random.default_rng(1).standard_normal((5, 3))

    def loss(s: Any) -> Any:
        last, states = tenon.scan(lambda s, _: (step(tenon, s, 1),) * 2, s, None, length=6)
        return tenon.sum(last**2) + tenon.sum(states[:, :, 0])

    s = leaf = torch.tensor(start, requires_grad=True)
    firsts = []
    for _ in range(6):
        s = step(torch, s, 1)
        firsts.append(s[:, 0])
    ((s**2).sum() + sum(f.sum() for f in firsts)).backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(tenon.jit(tenon.grad(loss))(start), leaf.grad, rtol=1e-10)


def test_steps_of_different_length_of_each_row() -> None:
    """A while loop, batched: rows that are done keep their state, and the extreme of the components decides."""
    start = np.random.default_rng(2).standard_normal((6, 2))

    def advance(library: Any, c: tuple[Any, Any]) -> tuple[Any, Any]:
        s, t = c
        d = library.stack([s[1], -s[0] - 0.1 * s[1]])
        h = 0.1 / (1 + library.max(library.abs(d)))
        return s + h * d, t + h

    def run(s: Any) -> Any:
        return tenon.while_loop(lambda c: c[1] < 0.7, lambda c: advance(tenon, c), (s, np.float64(0)))

    found, times = tenon.jit(tenon.vmap(run))(start)
    for number, row in enumerate(start):
        c = row, np.float64(0)
        while c[1] < 0.7:
            c = advance(np, c)
        np.testing.assert_allclose(found[number], c[0], rtol=1e-12)
        np.testing.assert_allclose(times[number], c[1], rtol=1e-12)


def test_loops_in_loops_and_states_that_change_places() -> None:
    a, b, w = (np.random.default_rng(3).standard_normal(shape) for shape in ((4, 2), (4, 2), (2, 2)))

    def turned(library: Any, s: Any) -> Any:
        return s + 0.1 * library.stack([-s[:, 1], s[:, 0]], axis=1)

    def run(a: Any, b: Any, w: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            p, q = c
            p = tenon.fori_loop(0, 3, lambda _, s: turned(tenon, s), p)
            return turned(tenon, q), p

        p, q = tenon.fori_loop(0, 3, outer, (a @ w, b))
        return p, q, p[:, 0] * q[:, 1], p @ w

    found = tenon.jit(run)(a, b, w)
    p, q = a @ w, b
    for _ in range(3):
        for _ in range(3):
            p = turned(np, p)
        p, q = turned(np, q), p
    for one, other in zip(found, (p, q, p[:, 0] * q[:, 1], p @ w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_what_is_used_apart_and_returned_as_a_whole() -> None:
    x, y = (np.random.default_rng(4).standard_normal((9, 2)) for _ in range(2))

    def product(library: Any, a: Any, b: Any) -> Any:
        real = a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1]
        return library.stack([real, a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]], axis=1)

    def run(library: Any, x: Any, y: Any) -> Any:
        z = 2 * product(library, x, y) + x
        return z, product(library, z, y), library.max(z, axis=1), library.min(z, axis=1, keepdims=True)

    for one, other in zip(tenon.jit(lambda x, y: run(tenon, x, y))(x, y), run(np, x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_one_component_and_all() -> None:
    """The others are computed just for the whole."""
    x = np.random.default_rng(5).standard_normal((9, 3))

    def run(library: Any, x: Any) -> Any:
        y = library.sin(library.stack([x[:, 1], x[:, 2], x[:, 0]], axis=1) * 2)
        return y, y[:, 0] * 3

    for one, other in zip(tenon.jit(lambda x: run(tenon, x))(x), run(np, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_extremes_with_a_start() -> None:
    x = np.random.default_rng(6).standard_normal((9, 2))

    def run(library: Any, x: Any, **least: float) -> Any:
        y = library.stack([x[:, 1], x[:, 0]], axis=1) * 2
        return y[:, 0], library.max(y, axis=1, **least)

    found = tenon.jit(lambda x: run(tenon, x, start=0.5))(x)
    for one, other in zip(found, run(np, x, initial=0.5), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
