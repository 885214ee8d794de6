"""The sweep behind docs/accuracy.md, thinned out: every function is within 2.5 ULP."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("subject", [s for s in accuracy.SUBJECTS if s.extended], ids=lambda subject: subject.name)
@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="the reference needs numbers wider than f64")
def test_f64_is_within_two_and_a_half_ulp(subject: Any) -> None:
    assert accuracy.sweep_f64(subject, 2**14)["tenon"].error <= 2.5


def test_errors_are_seen() -> None:
    exact = np.array([1.0, 1.0, 1e-45, np.inf, np.nan, -0.0])
    result = np.array([1 + 2**-22, 1 - 2**-23, 0.0, 3.4e38, np.nan, 0.0], np.float32)
    np.testing.assert_allclose(accuracy.errors(result, exact), [2, 1, 1e-45 / 2.0**-149, np.inf, 0, 0], rtol=1e-6)
