"""The sweep behind docs/accuracy.md, thinned out: every function is within 2.5 ULP."""

from __future__ import annotations

import importlib.util
import sys
from math import erfc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "accuracy.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("accuracy_sweep", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["accuracy_sweep"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


accuracy = _load()


@pytest.mark.parametrize("subject", accuracy.SUBJECTS, ids=lambda subject: subject.name)
def test_f32_is_within_two_and_a_half_ulp(subject: Any) -> None:
    function, worst = accuracy.tenon.jit(subject.tenon), accuracy.Worst()
    for chunk in accuracy.evenly_spread(2**32 // 20011, 20011, np.float32):
        operands = accuracy.arguments(subject, chunk)
        with np.errstate(all="ignore"):
            exact = np.asarray(subject.exact(*[operand.astype(np.float64) for operand in operands]))
        worst.see(function(*operands), exact, operands)
    assert worst.error <= 2.5, worst


@pytest.mark.parametrize("subject", accuracy.SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="the reference needs numbers wider than f64")
def test_f64_is_within_two_and_a_half_ulp(subject: Any) -> None:
    if subject.multiple is not None:
        pytest.importorskip("mpmath")
    assert accuracy.sweep_f64(subject, 2**14 if subject.extended else 2**10)["tenon"].error <= 2.5


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_all_gelus_of_halves_are_within_0_51_ulp(dtype: Any) -> None:
    """Their formula is shorter than that of f32."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits[np.isfinite(bits.view(dtype).astype(np.float32))].view(dtype)
    exact = np.array([0.5 * a * erfc(-a * 0.5**0.5) for a in x.astype(np.float64)])
    info = ml_dtypes.finfo(dtype)
    ulp = np.exp2(np.maximum(np.frexp(exact)[1] - 1, info.minexp) - info.nmant)
    found = np.asarray(accuracy.tenon.gelu(x)).astype(np.float64)
    assert np.max(np.abs(found - exact) / ulp) <= 0.51


def test_the_smallest_numbers_are_not_lost() -> None:
    """Half of them is 0, and so are their products before a last factor."""
    x = np.array([5e-324, -5e-324, 1e-323, 2e-310])
    np.testing.assert_array_equal(accuracy.tenon.erfinv(x), [5e-324, -5e-324, 1e-323, 2e-310 * (np.pi**0.5 / 2)])
    exact = np.array([-2.53501434406e-321, -5.42150248321e-323, -1.70731854021e-323])  # by mpmath
    np.testing.assert_array_equal(accuracy.tenon.gelu(np.array([-38.4, -38.5, -38.53])), exact)


def test_errors_are_seen() -> None:
    exact = np.array([1.0, 1.0, 1e-45, np.inf, np.nan, -0.0])
    result = np.array([1 + 2**-22, 1 - 2**-23, 0.0, 3.4e38, np.nan, 0.0], np.float32)
    np.testing.assert_allclose(accuracy.errors(result, exact), [2, 1, 1e-45 / 2.0**-149, np.inf, 0, 0], rtol=1e-6)
