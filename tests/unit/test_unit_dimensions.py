"""Programs that add and drop dimensions of size 1 between ops of all kinds say what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import run_seed

import tenon

Array = Any
KNOWN, NEW = 12, 12
SIZES = (1, 1, 2, 3, 5)


def _reshaped(draw: Random, x: Array) -> Array:
    """`x` with other dimensions of size 1."""
    shape = [size for size in x.shape if size != 1]
    for _ in range(draw.randrange(3)):
        shape.insert(draw.randrange(len(shape) + 1), 1)
    return x.reshape(shape)


def _fits(x: Array, y: Array) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs) and max(x.size, y.size) <= 200


def program(seed: str) -> tuple[Callable[[Any, Array, Array], list[Array]], list[Array]]:
    """A program, given the module whose functions it calls, and arguments of it."""
    draw = Random(seed)
    numbers = np.random.default_rng(draw.randrange(1 << 30))
    shapes = [tuple(draw.choice(SIZES) for _ in range(draw.randrange(1, 4))) for _ in range(2)]
    choices = draw.randrange(1 << 30)

    def run(n: Any, x: Array, y: Array) -> list[Array]:
        draw, values = Random(choices), [x, y]
        for _ in range(draw.randrange(4, 14)):
            v = draw.choice(values)
            axis = draw.randrange(max(len(v.shape), 1))
            match draw.randrange(9):
                case 0 | 1 | 2:
                    values.append(_reshaped(draw, v))
                case 3 | 4:
                    w = draw.choice([w for w in values if _fits(v, w)] or [v])
                    values.append(n.minimum(v + w, 100.0) if draw.random() < 0.5 else n.maximum(v, w))
                case 5 if v.shape:
                    values.append(n.sum(v, axis=axis, keepdims=draw.random() < 0.5) % 7.0)
                case 6 if v.shape and v.size <= 60:
                    values.append(n.concatenate([v, v * 2.0 % 5.0], axis=axis))
                case 7 if v.shape:
                    values.append(n.cumsum(v, axis=axis) % 9.0)
                case 8 if v.shape and v.shape[axis] > 1:
                    part = slice(None, None, -1) if draw.random() < 0.3 else slice(draw.randrange(2), None, 2)
                    values.append(v[(slice(None),) * axis + (part,)])
                case _:
                    values.append(v * 0.5)
        return values[-3:]

    return run, [numbers.integers(0, 9, shape).astype(np.float64) for shape in shapes]


@pytest.mark.parametrize("seed", [f"known {n}" for n in range(KNOWN)] + [f"new {n}" for n in range(NEW)])
def test_dimensions_of_size_1_come_and_go(seed: str) -> None:
    run, arguments = program(seed if seed.startswith("known") else f"{run_seed()} {seed}")
    found = tenon.jit(lambda x, y: run(tenon, x, y))(*arguments)
    for right, got in zip(run(np, *arguments), found, strict=True):
        np.testing.assert_array_equal(got, right, strict=True)
