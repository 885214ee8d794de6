"""Quotients and remainders of integers in vectors, which are computed in floats, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import generator

import tenon


def numbers_of(dtype: np.dtype) -> np.ndarray:
    """Numbers of all magnitudes, and what is next to powers of two, where floats end that hold all integers"""
    random, info = generator(), np.iinfo(dtype)
    powers = np.array([1 << bit for bit in range(dtype.itemsize * 8)], object)
    edges = np.concatenate([powers - 1, powers, powers + 1, [info.min, info.max]])
    shifted = random.integers(info.min, info.max, 300, dtype, endpoint=True) >> random.integers(
        0, dtype.itemsize * 8 - 1, 300
    ).astype(dtype)
    signed = np.concatenate([edges, -edges]) if info.min < 0 else edges
    return np.concatenate([np.array([n for n in signed if info.min <= n <= info.max], dtype), shifted.astype(dtype)])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_quotients_and_remainders_are_exact(dtype: str) -> None:
    numbers = numbers_of(np.dtype(dtype))
    x, y = np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)
    x, y = x[y != 0], y[y != 0]
    functions = (tenon.floor_divide, tenon.remainder, tenon.truncate_divide, tenon.fmod)
    results = tenon.jit(lambda x, y: tuple([function(x, y) for function in functions]))(x, y)
    with np.errstate(over="ignore"):
        left, whole = np.fmod(x, y), np.floor_divide(x, y)
        truncated = whole + ((left != 0) & ((x < 0) != (y < 0))).astype(dtype)
        for result, expected in zip(results, (whole, np.remainder(x, y), truncated, left), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_known_divisors_of_64_bits_are_exact(dtype: str) -> None:
    for divisor in (49, 1000003, (1 << 50) - 1, (1 << 51) + 1, -7 if dtype == "i8" else (1 << 64) - 3):
        c = np.dtype(dtype).type(divisor)
        multiples = generator().integers(1, max(2, (1 << 50) // abs(divisor)), 99).astype(dtype) * c
        x = np.concatenate(
            [numbers_of(np.dtype(dtype)), multiples, multiples + c.dtype.type(1), multiples - c.dtype.type(1)]
        )
        results = tenon.jit(lambda x, c=c: (x // c, x % c, tenon.truncate_divide(x, c), tenon.fmod(x, c)))(x)
        left, whole = np.fmod(x, c), x // c
        truncated = whole + ((left != 0) & ((x < 0) != (c < 0))).astype(dtype)
        for result, expected in zip(results, (whole, x % c, truncated, left), strict=True):
            np.testing.assert_array_equal(result, expected, err_msg=str(divisor))


@pytest.mark.parametrize("small", [True, False])
def test_few_large_numbers_among_small_ones(small: bool) -> None:
    x = np.arange(1, 1001)
    if not small:
        x[[17, 500]] = 2**62 + 1, -(2**62) - 3
    np.testing.assert_array_equal(tenon.jit(lambda x, n: (x // n, x % n))(x, 7), (x // 7, x % 7))
