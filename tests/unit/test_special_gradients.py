"""Gradients of special functions far out, where their formulas cancel or overflow."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import tenon

DTYPES = [(np.float32, 1e-6), (np.float64, 1e-11)]


def slopes(function: Any, x: Any) -> Any:
    return tenon.grad(lambda x: function(x).sum())(x)


@pytest.mark.parametrize(("dtype", "rtol"), DTYPES)
def test_slope_of_log_ndtr(dtype: Any, rtol: float) -> None:
    x = np.array([-1e30, -5000, -1000, -50, -1, 0, 1, 20], dtype)
    wanted = np.sqrt(2 / np.pi) / scipy.special.erfcx(x.astype(np.float64) / -np.sqrt(2))
    np.testing.assert_allclose(slopes(tenon.log_ndtr, x), wanted, rtol=rtol, atol=1e-40)
    np.testing.assert_array_equal(slopes(tenon.log_ndtr, np.array([-np.inf, np.inf], dtype)), [np.inf, 0])


@pytest.mark.parametrize(("dtype", "rtol"), DTYPES)
def test_slope_of_erfcx(dtype: Any, rtol: float) -> None:
    x = np.array([-3, 0, 4, 29, 100, 1e3, 1e4, 1e10], dtype)
    wide = x.astype(np.float64)
    square = np.maximum(wide, 20) ** 2
    far = -(1 - 1.5 / square + 3.75 / square**2 - 13.125 / square**3 + 59.0625 / square**4) / square / np.sqrt(np.pi)
    near = 2 * wide * scipy.special.erfcx(wide) - 2 / np.sqrt(np.pi)
    np.testing.assert_allclose(slopes(tenon.erfcx, x), np.where(wide > 20, far, near), rtol=rtol)
    assert slopes(tenon.erfcx, np.array([np.inf], dtype)) == 0


@pytest.mark.parametrize(("dtype", "rtol"), DTYPES)
def test_slopes_of_bessel_functions(dtype: Any, rtol: float) -> None:
    """exp(-x) (I0(x) - I1(x)) of 60 digits far out, and what is infinite."""
    x = np.array([0.5, 20, 127, 129, 1e4, 1e8, 1e20], dtype)
    with mpmath.workdps(120):
        scaled = [[mpmath.exp(-mpmath.mpf(float(v))) * mpmath.besseli(k, float(v)) for v in x[:-1]] for k in (0, 1)]
        falls = [float(i0 - i1) for i0, i1 in zip(*scaled, strict=True)]
    falls.append(float(x[-1]) ** -1.5 / np.sqrt(8 * np.pi))  # the first term of the series
    i1e = scipy.special.i1e(x.astype(np.float64))
    for sign in (1, -1):
        np.testing.assert_allclose(slopes(tenon.i0e, sign * x), -sign * np.array(falls), rtol=rtol)
        np.testing.assert_allclose(slopes(tenon.i1e, sign * x), falls - i1e / x, rtol=rtol)
    far = np.array([800.0, -800.0], dtype)
    np.testing.assert_array_equal(slopes(tenon.i0, far), [np.inf, -np.inf])
    np.testing.assert_array_equal(slopes(tenon.i1, far), [np.inf, np.inf])
