"""Elements of many short rows, taken apart and put together: channels of pixels, coordinates, complex numbers."""

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
DTYPES = ("float32", "float32", "float64", "float16", "int32", "uint8")


def _part(n: Any, draw: Random, x: Array) -> Array:
    """Some columns of `x`: one, without its axis perhaps, several, or all in another order."""
    width = x.shape[-1]
    first = draw.randrange(width)
    match draw.randrange(5):
        case 0 | 1:
            return x[..., first]
        case 2:
            return x[..., first : first + 1]
        case 3:
            return x[..., first : draw.randrange(first, width) + 1]
        case _:
            return x[..., :: draw.choice((-1, 2))]


def _combined(n: Any, draw: Random, x: Array, y: Array, rank: int) -> Array:
    """Element by element: in all columns that both have, or one in all of the other."""
    if x.ndim != y.ndim:
        x, y = _as_rows(x, rank), _as_rows(y, rank)
    if x.ndim == rank and 1 not in (x.shape[-1], y.shape[-1]):
        width = min(x.shape[-1], y.shape[-1])
        x, y = x[..., :width], y[..., :width]
    return draw.choice((n.maximum, n.minimum, lambda a, b: n.where(a > b, b, a)))(x, y)


def _as_rows(x: Array, rank: int) -> Array:
    return x[..., None] if x.ndim < rank else x


def program(seed: str) -> tuple[Callable[[Any, Array, Array], list[Array]], list[Array]]:
    """A program, given the module whose functions it calls, and arguments of it."""
    draw = Random(seed)
    rows = draw.choice(((1024,), (1100,), (1031,), (30, 40), (2, 520), (3, 1024)))
    dtype = draw.choice(DTYPES)
    widths = [draw.randrange(2, 9) for _ in range(2)]
    numbers = np.random.default_rng(draw.randrange(1 << 30))
    arguments = [numbers.integers(-20 if dtype not in ("uint8") else 0, 20, (*rows, w)) for w in widths]
    choices = draw.randrange(1 << 30)

    def run(n: Any, x: Array, y: Array) -> list[Array]:
        draw, rank = Random(choices), len(rows) + 1
        values = [x, y]
        for _ in range(draw.randrange(2, 7)):
            wide = [v for v in values if v.ndim == rank]
            match draw.randrange(6):
                case 0 | 1:
                    values.append(_part(n, draw, draw.choice(wide)))
                case 2:
                    values.append(_combined(n, draw, draw.choice(values), draw.choice(values), rank))
                case 3:
                    values.append(n.max(draw.choice(wide), axis=-1, keepdims=draw.random() < 0.5))
                case 4:
                    parts = [_as_rows(draw.choice(values), rank) for _ in range(draw.randrange(2, 4))]
                    values.append(n.concatenate(parts, axis=-1))
                case _:
                    columns = [_part(n, draw, draw.choice(wide)) for _ in range(draw.randrange(2, 5))]
                    flat = [c if c.ndim < rank else c[..., 0] for c in columns]
                    made = [_combined(n, draw, c, draw.choice(flat), rank) for c in flat]
                    values.append(n.stack(made, axis=-1))
        # Rows seen as longer ones, of which elements are computed.
        given = values[-draw.randrange(1, 3) :]
        return given if draw.random() < 0.3 else [n.maximum(v.reshape((*rows[:-1], -1)), 3) for v in given]

    return run, [a.astype(dtype) for a in arguments]


@pytest.mark.parametrize("seed", [f"known {n}" for n in range(KNOWN)] + [f"new {n}" for n in range(NEW)])
def test_columns_go_where_they_belong(seed: str) -> None:
    run, arguments = program(seed if seed.startswith("known") else f"{run_seed()} {seed}")
    expected = run(np, *arguments)
    found = tenon.jit(lambda x, y: run(tenon, x, y))(*arguments)
    for right, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(got, right, strict=True)
