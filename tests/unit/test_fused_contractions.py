"""Contractions that share loops with other ops: the numbers of whole programs, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tenon

Array = NDArray[Any]


def softmax(scores: Array) -> Array:
    """The softmax along the last axis, in double precision."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As users write it."""
    scores = q @ tenon.transpose(k, (0, 2, 1)) * np.float32(q.shape[-1] ** -0.5)
    return tenon.softmax(tenon.where(mask, scores, np.float32(-1e9)), axis=-1) @ v


def expected_attention(q: Array, k: Array, v: Array, mask: Array) -> Array:
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) * q.shape[-1] ** -0.5
    return softmax(np.where(mask, scores, -1e9)) @ v.astype(float)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("shape", [(3, 67, 67, 8, 5), (2, 96, 33, 16, 16), (1, 1, 7, 3, 2)])
def test_attention(shape: tuple[int, ...], bits: int) -> None:
    batch, rows, keys, depth, width = shape
    q, k, v = normal(batch, rows, depth), normal(batch, keys, depth), normal(batch, keys, width)
    mask = np.tri(rows, keys, dtype=bool)
    with tenon.knobs.override(vector_bits=bits):
        result = tenon.jit(attention)(q, k, v, mask)
    np.testing.assert_allclose(result, expected_attention(q, k, v, mask), atol=2e-5)


@pytest.mark.parametrize("shape", [(70, 33, 50), (7, 5, 3), (1, 64, 48), (65, 1, 17), (200, 128, 16)])
def test_epilogues(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    x, w, bias, residual = normal(rows, inner), normal(inner, columns), normal(columns), normal(rows, columns)
    result = tenon.jit(lambda x, w, b, r: tenon.tanh(x @ w + b) * r)(x, w, bias, residual)
    expected = np.tanh(x.astype(float) @ w.astype(float) + bias) * residual
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_rows_of_a_contraction_with_any_number_of_them() -> None:
    def program(x: Any, w: Any, v: Any) -> Any:
        return tenon.softmax(tenon.relu(x @ w), axis=-1) @ v

    compiled = tenon.jit(program, dynamic={"x": ("n", None)})
    w, v = normal(8, 20), normal(20, 6)
    for rows in (0, 1, 5, 64, 131):
        x = normal(rows, 8)
        expected = softmax(np.maximum(x.astype(float) @ w, 0)) @ v
        np.testing.assert_allclose(compiled(x, w, v), expected, atol=1e-5)
