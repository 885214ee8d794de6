"""Random programs of tensors with views and changes in place give what PyTorch gives, or what PyTorch refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from seeds import run_seed

import tenon

SHAPE = (3, 4)


class Program:
    """A random program, which is the same at each run."""

    def __init__(self, library: Any, seed: int) -> None:
        self.library = library
        self.random = random.Random(seed)
        generator = np.random.default_rng(seed)
        arrays = [generator.uniform(0.5, 1.5, SHAPE).astype(np.float32) for _ in range(2)]
        self.leaves = [library.tensor(array, requires_grad=True) for array in arrays]
        a, b = self.leaves
        self.pool = [a * 1, b * 2, a + b]

    def run(self) -> tuple[float, list[Any]]:
        """The loss, and the gradients of the leaves."""
        for _ in range(self.random.randint(3, 9)):
            self.random.choice(STEPS)(self)
        loss = sum((x * x).sum() for x in self.pool[-3:])
        loss.backward()  # pyright: ignore[reportAttributeAccessIssue]
        gradients = [None if leaf.grad is None else leaf.grad.detach().numpy() for leaf in self.leaves]
        return loss.item(), gradients  # pyright: ignore[reportAttributeAccessIssue]

    def matrix(self) -> Any:
        """One of the matrices."""
        return self.random.choice([x for x in self.pool if tuple(x.shape) == SHAPE])

    def row(self) -> int:
        """The number of a row."""
        return self.random.randrange(SHAPE[0])


def add_in_place(program: Program) -> None:
    x = program.matrix()
    x += program.matrix()


def scale_in_place(program: Program) -> None:
    x = program.matrix()
    x *= 1.5


def scale_unrecorded(program: Program) -> None:
    x = program.matrix()
    with program.library.no_grad():
        x *= 0.5


def scale_a_view(program: Program) -> None:
    views = [x for x in program.pool if tuple(x.shape) != SHAPE]
    if views:
        view = program.random.choice(views)
        view *= 2.0


def set_row(program: Program) -> None:
    program.matrix()[program.row()] = program.random.random()


def copy_row(program: Program) -> None:
    x, y = program.matrix(), program.matrix()
    x[0] = y[1]


def scale_columns(program: Program) -> None:
    # A copy, as PyTorch reads what it has just written where both are columns of one matrix.
    program.matrix()[:, 1:3] *= program.matrix()[:, 0:2].clone()


def set_masked(program: Program) -> None:
    x = program.matrix()
    x[x > program.random.random()] = 0.25


def appended(make: Callable[[Program], Any]) -> Callable[[Program], None]:
    return lambda program: program.pool.append(make(program))


STEPS: list[Callable[[Program], None]] = [
    add_in_place,
    scale_in_place,
    scale_unrecorded,
    scale_a_view,
    set_row,
    copy_row,
    scale_columns,
    set_masked,
    appended(lambda p: p.matrix() * p.matrix()),
    appended(lambda p: p.matrix().tanh()),
    appended(lambda p: p.matrix()[p.row()]),
    appended(lambda p: p.matrix().reshape(4, 3).reshape(3, 4)),
    appended(lambda p: p.matrix().T.T),
    appended(lambda p: p.matrix().detach() * 2),
    appended(lambda p: p.matrix()[[0, 2, 1]]),
]


@pytest.mark.parametrize("number", range(16))
def test_gradients_are_those_of_torch(number: int) -> None:
    seed = run_seed() + number
    try:
        expected, slopes = Program(torch, seed).run()
    except RuntimeError:
        pytest.skip("PyTorch refuses a change in place")
    loss, gradients = Program(tenon, seed).run()
    np.testing.assert_allclose(loss, expected, rtol=1e-3)
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert (gradient is None) == (slope is None)
        if gradient is not None:
            np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4)
