"""Kernels whose rows are computed in strips: what these keep fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon


def test_strips_of_two_lengths_fit_on_the_stack() -> None:
    """512 rows are a strip of 264 and one of 248 where the cache has 2 MiB, each with intermediates of its own."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float16) for shape in ((512, 1024), (1024, 16)))
    v = random.standard_normal((16, 384)).astype(np.float16)

    def function(x: Any, w: Any, v: Any) -> Any:
        y = tenon.relu(x @ w / 32)
        return tenon.relu((y * y) @ v)

    y = np.maximum(x.astype(np.float64) @ w / 32, 0)
    np.testing.assert_allclose(tenon.jit(function)(x, w, v), np.maximum((y * y) @ v, 0), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("rows", [64, 1000, 17])
def test_what_is_computed_of_each_row_is_computed_in_strips_of_rows(rows: int) -> None:
    random = np.random.default_rng(rows)
    x, w = random.standard_normal((rows, 40)), random.standard_normal(40)
    product, total = tenon.jit(lambda x, w: (tenon.softplus(x @ w), tenon.logsumexp(x, axis=1)))(x, w)
    np.testing.assert_allclose(product, np.logaddexp(x @ w, 0), rtol=1e-12)
    np.testing.assert_allclose(total, np.log(np.exp(x).sum(axis=1)), rtol=1e-12)
    shifted = tenon.jit(lambda x: tenon.log_softmax(x, axis=1))(x)
    np.testing.assert_allclose(shifted, x - total[:, None], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(200, 16), (131, 5)])
def test_short_rows_of_a_product_become_columns(rows: int, columns: int) -> None:
    random = np.random.default_rng(columns)
    x, w = random.standard_normal((rows, 8)), random.standard_normal((8, columns))

    def function(x: Any, w: Any) -> Any:
        y = x @ w
        return tenon.argmin(y, axis=1), tenon.logsumexp(y, axis=1), tenon.softmax(y, axis=1)

    y = x @ w
    total = np.exp(y).sum(axis=1, keepdims=True)
    least, logarithm, share = tenon.jit(function)(x, w)
    np.testing.assert_array_equal(least, y.argmin(axis=1))
    np.testing.assert_allclose(logarithm, np.log(total[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(share, np.exp(y) / total, rtol=1e-12)
    np.testing.assert_array_equal(tenon.jit(lambda x, w: tenon.argmin(x @ w, axis=1))(x, w), y.argmin(axis=1))
