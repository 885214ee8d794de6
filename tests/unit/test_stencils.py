"""Stencils of slices of padded values, and means of windows: what they move, and their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

X = np.arange(37 * 50, dtype=np.float32).reshape(37, 50)


def moved(function: Callable[..., Any], x: Any) -> list[tuple[int, int]]:
    """What each kernel reads and writes, in bytes."""
    return [(kernel.read, kernel.written) for kernel in tenon.jit(function).compile(x).memory().moved or ()]


def test_means_of_windows_are_written_once() -> None:
    (counts,) = moved(lambda x: tenon.relu(tenon.avg_pool2d(x, window=2)), X[None, None])
    assert counts == (4 * 36 * 50, 4 * 18 * 25)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "constant"])
def test_padding_around_a_stencil_is_in_no_memory(mode: Any) -> None:
    def stencil(x: Any, pad: Callable[..., Any]) -> Any:
        p = pad(x)
        return 4 * p[1:-1, 1:-1] - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    def padded(x: Any) -> Any:
        return stencil(x, lambda x: tenon.pad(x, low=(1, 1), high=(1, 1), mode=mode))

    assert moved(padded, X) == [(X.nbytes, X.nbytes)]
    expected = stencil(X, lambda x: np.pad(x, 1, mode=mode))
    np.testing.assert_allclose(tenon.jit(padded)(X), expected)
    # Padding of the result has its own pieces.
    twice = tenon.jit(lambda x: padded(tenon.pad(padded(x), low=(0, 1), high=(2, 0))))(X)
    around = stencil(np.pad(expected, ((0, 2), (1, 0))), lambda x: np.pad(x, 1, mode=mode))
    np.testing.assert_allclose(twice, around, rtol=1e-5, atol=1e-3)
