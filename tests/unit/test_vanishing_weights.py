"""Weights too small to show beside the largest of their row: what is summed with them is as exact as ever, what others
find of them is there, and nothing else is taken for such weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon

Array = np.ndarray[Any, Any]
TOLERANCES = {"float32": 1e-6, "float64": 1e-13}


def _attention(x: Any, v: Any) -> Any:
    return tenon.softmax(x) @ v


def _weights(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("slope", [0.01, 0.5, 40.0])
def test_attention_whose_weights_vanish(slope: float, dtype: str) -> None:
    random = np.random.default_rng(0)
    count, tolerance = 150, TOLERANCES[dtype]
    distance = np.abs(np.arange(count)[:, None] - np.arange(count))
    scores = (random.standard_normal((2, count, count)) - slope * distance).astype(dtype)
    values = random.standard_normal((2, count, 24)).astype(dtype)
    scores[0, 3, :], scores[0, 4, 5:], scores[1, 5, 6] = -np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        exact = _weights(scores.astype(np.float64)) @ values.astype(np.float64)
    given = tenon.jit(_attention)(scores, values)
    np.testing.assert_allclose(given, exact, rtol=tolerance, atol=4 * tolerance)
    squares = tenon.grad(lambda x, v: (_attention(x, v) ** 2).sum())
    gradient = tenon.jit(squares)(scores[1, 9:], values[1])
    weights = _weights(scores[1, 9:].astype(np.float64))
    cotangent = 2 * (weights @ values[1]) @ values[1].T.astype(np.float64)
    wanted = weights * (cotangent - (weights * cotangent).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient, wanted, rtol=50 * tolerance, atol=50 * tolerance)


@pytest.mark.parametrize(("dtype", "far"), [("float32", 95.0), ("float64", 720.0)])
def test_weights_that_others_find_are_there(dtype: str, far: float) -> None:
    x = np.zeros((3, 40), dtype)
    x[1] = -far
    x[1, 7] = 0
    exact = np.exp(np.longdouble(-far))

    def found(x: Any) -> Any:
        powers = tenon.exp(x - x.max(axis=-1, keepdims=True))
        return powers, powers.sum(axis=-1)

    powers, _ = tenon.jit(found)(x)
    step = np.finfo(dtype).smallest_subnormal
    for weight in (tenon.softmax(x)[1, 0], powers[1, 0]):
        assert abs(np.longdouble(weight) - exact) <= 2 * step


def test_largest_elements_of_another_axis() -> None:
    x = np.full((16, 16), -90.0, np.float32)
    x[3] = 0.0
    function = tenon.jit(lambda x: tenon.exp(x - x.max(axis=0, keepdims=True)).sum(axis=1))
    exact = np.exp(x.astype(np.float64) - x.max(axis=0)).sum(axis=1)
    np.testing.assert_allclose(function(x), exact, rtol=1e-2)  # subnormal numbers have few digits
