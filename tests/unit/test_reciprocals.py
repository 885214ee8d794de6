"""Numbers that divide many: what their reciprocals do at the ends of the range, and how far they are off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon


def _divided(x: Any, y: Any) -> Any:
    return x / tenon.sqrt(tenon.maximum(y, 1e-30))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_are_within_one_and_a_half_units(dtype: type) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 64)).astype(dtype)
    y = np.exp(random.uniform(-60, 60, (50, 1))).astype(dtype)
    root = np.sqrt(y).astype(np.longdouble)
    right = x / root
    found = tenon.jit(_divided)(x, y)
    error = np.abs(found - right) / np.spacing(np.abs(right.astype(dtype)))
    assert 0.5001 < error.max() <= 1.5  # a division is within a half


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_at_the_ends_of_the_range(dtype: type) -> None:
    limits = np.finfo(dtype)
    numbers = [0.0, -0.0, limits.tiny, -limits.max, limits.max, np.inf, -np.inf, np.nan, 1.0, -3.0]
    x = np.array([numbers] * 6, dtype)
    y = np.array([[0.0], [1.0], [limits.max], [np.inf], [np.nan], [-1.0]], dtype)
    with np.errstate(all="ignore"):
        right = x / np.sqrt(np.maximum(y, dtype(1e-30)))
    found = tenon.jit(_divided)(x, y)
    np.testing.assert_allclose(found, right, rtol=4 * limits.eps, atol=2 * limits.tiny)
    assert (np.signbit(found) == np.signbit(right))[:, [0, 1, 5, 6]].all()


@pytest.mark.parametrize("is_causal", [False, True])
def test_weights_of_attention_are_not_stored_for_its_gradients(is_causal: bool) -> None:
    given = [np.zeros((2, 512, 32), np.float32) for _ in range(4)]

    def loss(q: Any, k: Any, v: Any, g: Any) -> Any:
        return (tenon.scaled_dot_product_attention(q, k, v, is_causal=is_causal) * g).sum()

    memory = tenon.jit(tenon.grad(loss, argnums=(0, 1, 2))).compile(*given).memory()
    assert memory.lower_bound < 2 * 512 * 512 * 4 / 4  # of the weights of all heads
