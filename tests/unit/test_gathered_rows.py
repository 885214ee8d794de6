"""Reductions over rows that are read at computed places, such as bags of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon

RANDOM = generator("gathered rows")
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "weighted": (lambda e, i, w: (e[i] * w[:, :, None]).sum(1), lambda rows, w: (rows * w[:, :, None]).sum(1)),
    "largest": (lambda e, i, w: e[i].max(1), lambda rows, w: rows.max(1)),
    "where": (lambda e, i, w: tenon.argmin(e[i], axis=1), lambda rows, w: rows.argmin(1)),
    "any": (lambda e, i, w: (e[i] > 0.5).any(0), lambda rows, w: (rows > 0.5).any(0)),
    "functions": (lambda e, i, w: tenon.exp(e[i]).sum((0, 1)), lambda rows, w: np.exp(rows).sum((0, 1))),
    "two": (lambda e, i, w: (e[i] * e[i[::-1]]).sum(1), lambda rows, w: (rows * rows[::-1]).sum(1)),
    "elements": (lambda e, i, w: e[i].sum(), lambda rows, w: rows.sum()),
}


@pytest.mark.parametrize("shape", [(50, 1, 30, 4), (20, 48, 9, 12), (300, 130, 17, 3)])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_numpy(name: str, shape: tuple[int, int, int, int]) -> None:
    count, width, bags, length = shape
    function, oracle = CASES[name]
    e, w = RANDOM.normal(size=(count, width)), RANDOM.normal(size=(bags, length))
    i = RANDOM.integers(-count - 2, count + 2, (bags, length))
    wanted = oracle(e[np.clip(np.where(i < 0, i + count, i), 0, count - 1)], w)
    np.testing.assert_allclose(tenon.jit(function)(e, i, w), wanted, rtol=1e-11, atol=1e-11)
    sized = tenon.jit(function, dynamic={"i": ("bags", None), "w": ("bags", None)})
    np.testing.assert_allclose(sized(e, i, w), wanted, rtol=1e-11, atol=1e-11)
