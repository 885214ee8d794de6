"""Division with a remainder gives the numbers of NumPy, bit by bit, at any quotient, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def dividends(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of special values, of numbers of all exponents, and of such as have quotients of some thousands."""
    bounds = ml_dtypes.finfo(dtype)
    ends = [float(bounds.max), float(bounds.smallest_subnormal), float(bounds.smallest_normal)]
    special = np.array([0.0, 1.0, 2.0, 3.0, 0.1, 7.5, np.inf, np.nan, *ends])
    x, y = (side.ravel() for side in np.meshgrid(np.append(special, -special), np.append(special, -special)))
    random = np.random.default_rng(5)
    bits = random.integers(0, 1 << (8 * np.dtype(dtype).itemsize), (2, 20_000), np.uint64)
    spread = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    usual = (random.normal(size=10_000) * 1000).astype(dtype), (random.integers(1, 50, 10_000) / 8).astype(dtype)
    first, second = (
        np.concatenate([side.astype(dtype), *rest]) for side, *rest in zip((x, y), spread, usual, strict=True)
    )
    return first, second


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal, and zeros of one sign."""
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | (found != found) & (expected != expected)
    assert same.all(), (found[~same][:4], expected[~same][:4])


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_as_numpy(dtype: Any, interpret: bool) -> None:
    x, y = dividends(dtype)
    computed = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    wide = x.astype(computed), y.astype(computed)
    with tenon.knobs.override(interpret=interpret), np.errstate(all="ignore"):
        for name in ("fmod", "remainder", "floor_divide"):
            assert_same(getattr(tenon, name)(x, y), getattr(np, name)(*wide).astype(dtype))
        magnitude = np.floor_divide(abs(wide[0]), abs(wide[1]))
        plain = wide[0] / wide[1]
        truncated = np.where(np.isnan(magnitude), plain, np.copysign(magnitude, plain))
        assert_same(tenon.truncate_divide(x, y), truncated.astype(dtype))


@pytest.mark.parametrize(("op", "whole"), [(tenon.fmod, np.trunc), (tenon.remainder, np.floor)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_at_large_quotients(dtype: Any, op: Any, whole: Any) -> None:
    x, y = np.array([1e6, -1e6, 7.0, -7.0], dtype), np.array([0.3, 0.3, 2.0, 2.0], dtype)
    to_x, to_y = tenon.grad(lambda a, b: op(a, b).sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(to_x, np.ones(4))
    np.testing.assert_array_equal(to_y, -whole(x.astype(np.longdouble) / y))


def test_of_scalars_and_without_multiply_adds() -> None:
    """One element is computed as many are; a processor without fused multiply-adds calls the C library in f64."""
    x, y = dividends(np.float64)
    for a, b in zip(x[250:270], y[250:270], strict=True):
        with np.errstate(all="ignore"):
            assert_same(tenon.fmod(a, b), np.fmod(a, b))
    with tenon.knobs.override(target_cpu="x86-64", target_features=None), np.errstate(all="ignore"):
        assert_same(tenon.jit(lambda a, b: tenon.fmod(a, b))(x, y), np.fmod(x, y))
        x, y = dividends(np.float32)
        assert_same(tenon.jit(lambda a, b: tenon.fmod(a, b))(x, y), np.fmod(x, y))
