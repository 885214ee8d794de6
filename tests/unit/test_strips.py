"""Kernels whose rows are computed in strips: what these keep fits."""

from __future__ import annotations

from typing import Any

import numpy as np

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
