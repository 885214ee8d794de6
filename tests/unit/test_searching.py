"""Places in sorted sequences, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tenon

Array = NDArray[Any]

LENGTHS = [*range(18), 31, 32, 33, 100, 1023]


def ends(dtype: Any) -> Array:
    """The numbers at which comparisons go wrong first."""
    if not np.issubdtype(dtype, np.floating):
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype)
    info = np.finfo(dtype)
    positive = [0.0, info.smallest_subnormal, info.tiny, 1.0, 1.0 + info.eps, info.max, np.inf, np.nan]
    return np.array([*positive, *(-number for number in positive)], dtype)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1"])
def test_every_length(dtype: str, side: Any) -> None:
    """Runs of equal elements, NaN, zeros of both signs, and values beyond both ends."""
    rng = np.random.default_rng(len(dtype))
    values = ends(np.dtype(dtype))
    for length in LENGTHS:
        x = np.sort(rng.choice(values, length))
        result = tenon.jit(lambda x, v: tenon.searchsorted(x, v, side=side))(x, values)
        np.testing.assert_array_equal(result, np.searchsorted(x, values, side=side), err_msg=f"{length} elements")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("count", [1, 7, 16, 1000])
def test_many_values(count: int, bits: int, side: Any) -> None:
    """More values than vectors hold, and what does not fill one, with arithmetic around."""
    rng = np.random.default_rng(count)
    x, v = np.sort(rng.random(300, np.float32)), rng.random(count, np.float32)
    with tenon.knobs.override(vector_bits=bits):
        places, halves = tenon.jit(lambda x, v: (p := tenon.searchsorted(x, v * 2 - 0.5, side=side), p // 2))(x, v)
    expected = np.searchsorted(x, v * np.float32(2) - np.float32(0.5), side=side)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(halves, expected // 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows(threads: int) -> None:
    rng = np.random.default_rng(0)
    x, v = np.sort(rng.random((5, 77)), axis=1), rng.random((5, 300))
    with tenon.num_threads(threads):
        result = tenon.jit(tenon.searchsorted)(x, v)
    np.testing.assert_array_equal(result, [np.searchsorted(a, b) for a, b in zip(x, v, strict=True)])
