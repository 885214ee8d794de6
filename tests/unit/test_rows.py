"""Rows gathered from and added to places that are data: vectors, what is behind them, prefetches past the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.cpu.compile import host_target

SHAPES = [(5000, 64, 777), (3000, 100, 500), (70_000, 7, 99), (40_000, 16, 1), (300, 1000, 3), (1, 1, 5), (9000, 33, 1)]
DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int64]


def _data(rows: int, width: int, count: int, dtype: Any) -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(rows)
    x, updates = (random.integers(-3, 3, shape).astype(dtype) for shape in ((rows, width), (count, width)))
    return x, random.integers(-rows - 3, rows + 3, count).astype(np.int32), updates


def _places(indices: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    return np.where(indices < 0, indices + rows, indices)


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows(shape: tuple[int, int, int], dtype: Any, bits: int) -> None:
    x, indices, updates = _data(*shape, dtype)
    places = _places(indices, len(x))
    inside = (places >= 0) & (places < len(x))
    added, largest = x.copy(), x.copy()
    np.add.at(added, places[inside], updates[inside])
    np.maximum.at(largest, places[inside], updates[inside])
    with tenon.knobs.override(vector_bits=min(bits, host_target().vector_bits)):
        gather = tenon.jit(lambda x, indices: tenon.gather(x, indices))
        scatter_add = tenon.jit(lambda x, indices, updates: tenon.scatter_add(x, indices, updates))
        scatter_max = tenon.jit(
            lambda x, indices, updates: tenon.scatter_nd(x, indices[:, None], updates, reduction="max")
        )
        np.testing.assert_array_equal(gather(x, indices), x[np.clip(places, 0, len(x) - 1)])
        np.testing.assert_array_equal(scatter_add(x, indices, updates), added)
        np.testing.assert_array_equal(scatter_max(x, indices, updates), largest)


def test_order_of_additions_is_that_of_the_updates() -> None:
    x, updates = (
        np.zeros((1, 40), np.float32),
        np.array([[1e8], [1], [-1e8]], np.float32) * np.ones((3, 40), np.float32),
    )
    result = tenon.jit(lambda x, i, u: tenon.scatter_add(x, i, u))(x, np.zeros(3, np.int32), updates)
    np.testing.assert_array_equal(result, np.zeros((1, 40)))


def test_numbers_in_lanes_and_numbers_of_rows() -> None:
    """An index that is both a number to compute with and the place of a vector."""
    x, rows = np.arange(600, dtype=np.float32).reshape(20, 30), np.array([3, 0, 19], np.int64)
    numbers = tenon.jit(lambda x, rows: tenon.gather(x, rows) + tenon.iota(shape=(3, 30), axis=1, dtype="f32"))
    np.testing.assert_array_equal(numbers(x, rows), x[rows] + np.arange(30))


@pytest.mark.parametrize(("bags", "of"), [(7, 3), (50, 20), (1, 40), (300, 1)])
def test_sums_of_bags(bags: int, of: int) -> None:
    """Rows that two loops number, behind the last of which nothing may be read, either."""
    random = np.random.default_rng(bags)
    x, rows = random.standard_normal((9000, 48), np.float32), random.integers(0, 9000, (bags, of))
    with tenon.knobs.override(check_memory=True):
        for axis in (0, 1):
            found = tenon.jit(lambda x, rows, axis=axis: tenon.gather(x, rows).sum(axis=axis))(x, rows)
            np.testing.assert_allclose(found, x[rows].sum(axis, dtype=np.float64), rtol=1e-5, atol=1e-5)
