"""Integers divided by constants: multiply-adds give the bits of division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from seeds import run_seed

import tenon

CONSTANTS = (255.0, -255.0, 3.0, 7.0, 58.395, 0.229, 1e-9, 16777215.0, 1e17, 4.0, 1e30, 2.0**-61 * 3)


def _drawn(count: int) -> list[float]:
    numbers = np.random.default_rng(run_seed())
    return [float(c) for c in numbers.uniform(1, 2, count) * 2.0 ** numbers.integers(-40, 40, count)]


def _check(x: np.ndarray[Any, Any], dtype: str, constants: tuple[float, ...] | list[float]) -> None:
    known = [np.dtype(dtype).type(c) for c in constants]
    found = tenon.jit(lambda x: [tenon.cast(x, dtype=dtype) / c for c in known])(x)
    with np.errstate(over="ignore"):
        for c, got in zip(known, found, strict=True):
            right = x.astype(dtype) / c
            np.testing.assert_array_equal(got.view(f"u{right.itemsize}"), right.view(f"u{right.itemsize}"), str(c))


@pytest.mark.parametrize("element", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_integers_of_few_bits(element: str, dtype: str) -> None:
    info = np.iinfo(element)
    x = np.arange(info.min, info.max + 1).astype(element)
    _check(x, dtype, CONSTANTS)
    _check(x, dtype, _drawn(20))


@pytest.mark.parametrize("element", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_of_more_bits(element: str, dtype: str) -> None:
    info = np.iinfo(element)
    numbers = np.random.default_rng(run_seed())
    x = np.concatenate([numbers.integers(info.min, info.max, 20000), [info.min, info.max, 0, 1]]).astype(element)
    x >>= numbers.integers(0, info.bits - 1, x.size).astype(element)
    _check(x, dtype, CONSTANTS)
    _check(x, dtype, _drawn(20))
