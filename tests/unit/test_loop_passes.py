"""What passes move out of loops: the same numbers as loops in NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_transform import doubles

import tenon


def test_what_leaves_nested_loops() -> None:
    @tenon.jit
    def program(w: Any, b: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = tenon.while_loop(lambda v: tenon.sum(v * v) > tenon.sum(w * w), lambda v: v * 0.5 + tenon.tanh(row), h)
            return tenon.tanh(h @ w.T + tenon.sum(b)), h

        return tenon.scan(step, x[0], x)

    w, b, x = doubles(4, 4), doubles(3, seed=1), 3 * doubles(5, 4, seed=2)
    h, states = x[0], []
    for row in x:
        while (h * h).sum() > (w * w).sum():
            h = h * 0.5 + np.tanh(row)
        states.append(h)
        h = np.tanh(h @ w.T + b.sum())
    last, stacked = program(w, b, x)
    np.testing.assert_allclose(last, h)
    np.testing.assert_allclose(stacked, states)


@pytest.mark.parametrize(("batch", "reverse"), [(1, False), (2, True)])
def test_recurrent_network_and_its_gradient(batch: int, reverse: bool) -> None:
    """Products in front of the loop (x @ w), in it (h @ u), behind it (h @ v), and sums of products (the gradient)."""

    def loss(parameters: Any, x: Any, h: Any, library: Any) -> Any:
        w, u, v, b = parameters

        def step(carry: Any, row: Any) -> Any:
            h, total, count = carry
            h = library.tanh(row @ w.T + h @ u.T + b)
            y = library.tanh(h @ v)
            return (h, total + library.exp(row) @ u, count + 1), (y * row, h)

        if library is tenon:
            (h, total, count), (outputs, states) = tenon.scan(step, (h, 0.5 * h, 3), x, reverse=reverse)
        else:
            carry, given = (h, 0.5 * h, 3), []
            for row in reversed(x) if reverse else x:
                carry, output = step(carry, row)
                given.append(output)
            (h, total, count), (outputs, states) = carry, map(torch.stack, zip(*given[:: 1 - 2 * reverse], strict=True))
        scale = library.tanh(states) * outputs
        return (scale * scale).sum() + (total * h).sum() + 0.0 * count + (outputs[1] * h).sum()

    parameters = tuple(0.4 * doubles(*shape, seed=i) for i, shape in enumerate([(16, 16)] * 3 + [(16,)]))
    x, h = doubles(5, batch, 16, seed=7), doubles(batch, 16, seed=8)
    value, (slopes, to_x) = tenon.jit(tenon.value_and_grad(lambda p, x, h: loss(p, x, h, tenon), argnums=(0, 1)))(
        parameters, x, h
    )
    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in (*parameters, x)]
    expected = loss(leaves[:4], leaves[4], torch.tensor(h), torch)
    expected.backward()
    np.testing.assert_allclose(value, expected.detach())
    for slope, leaf in zip((*slopes, to_x), leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(slope, leaf.grad, rtol=1e-9, atol=1e-12)


def test_sums_that_steps_read_and_sums_of_numbers() -> None:
    """A sum stays in the loop that decides what is added next; whole numbers wrap as they do one by one."""

    @tenon.jit
    def program(x: Any, k: Any) -> Any:
        def step(carry: Any, item: Any) -> Any:
            total, twice, numbers, matrix = carry
            row, number = item
            outer = tenon.expand_dims(row, 1) * tenon.expand_dims(row, 0)
            return (total + row * total, twice + row, numbers + number, matrix + outer), total

        return tenon.scan(step, (x[0], x[1], k[0], x[:3, :3] * 0.0), (x, k))

    x, k = doubles(4, 3), np.array([100, 100, 100, 3], np.int8)
    (total, twice, numbers, matrix), totals = program(x, k)
    np.testing.assert_allclose(totals, x[0] * np.cumprod(np.vstack([np.ones(3), 1 + x[:3]]), axis=0))
    np.testing.assert_allclose(total, x[0] * np.prod(1 + x, axis=0))
    np.testing.assert_allclose(twice, x[1] + x.sum(0))
    assert numbers == np.int8(403 - 512)
    np.testing.assert_allclose(matrix, x.T @ x)


def test_gradient_of_gates_that_were_split() -> None:
    """Its parts are put beside each other, unless they overlap."""

    def loss(x: Any, *, overlap: bool) -> Any:
        a, b, c = x[:, :4], x[:, 4:6], x[:, 6:]
        split = tenon.sum(tenon.exp(c) * a) + tenon.sum(b * b)
        return split + tenon.sum(x[1:2, 2:9]) if overlap else split

    x = doubles(3, 10)
    expected = np.concatenate([np.exp(x[:, 6:]), 2 * x[:, 4:6], np.exp(x[:, 6:]) * x[:, :4]], axis=1)
    np.testing.assert_allclose(tenon.jit(tenon.grad(lambda x: loss(x, overlap=False)))(x), expected)
    expected[1:2, 2:9] += 1
    np.testing.assert_allclose(tenon.jit(tenon.grad(lambda x: loss(x, overlap=True)))(x), expected)
