"""Sums of many f32 keep their digits: however they are computed, the error does not grow with how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.lowering.loop_passes.block_sums import BlockSumsPass

N = 1 << 20
PART = np.float32(0.1)
"""Rounding a sum of equal numbers errs in one direction for long: the worst case."""

SUMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], float]] = {
    "all": (tenon.sum, (N,), N),
    "products": (lambda x: tenon.sum(x * x * 10), (N,), N * float(PART) * 10),
    "mean": (tenon.mean, (N,), 1),
    "rows": (lambda x: tenon.sum(x, axis=1), (4, N // 4), N // 4),
    "columns": (lambda x: tenon.sum(x, axis=0), (N // 4, 4), N // 4),
    "wide columns": (lambda x: tenon.sum(x, axis=0), (N // 128, 136), N // 128),
    "a vector by wide columns": (
        lambda x: tenon.matmul(tenon.ones((N // 128,)), x),
        (N // 128, 136),
        N // 128,
    ),
    "matrix": (lambda x: tenon.sum(x, axis=(0, 2)), (64, 2, N // 128), N // 2),
    "dot": (lambda x: tenon.matmul(x, tenon.ones((N,))), (N,), N),
    "rows by a vector": (lambda x: tenon.matmul(x, tenon.ones((N // 4,))), (4, N // 4), N // 4),
    "a vector by columns": (lambda x: tenon.matmul(tenon.ones((N // 16,)), x), (N // 16, 16), N // 16),
    "matrices": (lambda x: tenon.matmul(x, tenon.ones((N // 16, 16))), (16, N // 16), N // 16),
    "a vector by long rows, doubled": (
        lambda x: tenon.matmul(tenon.ones((1, N // 256)), x) * 2.0,
        (N // 256, 256),
        N // 128,
    ),
    "matrices across": (lambda x: tenon.matmul(tenon.transpose(x), tenon.ones((N // 16, 16))), (N // 16, 16), N // 16),
}


@pytest.mark.parametrize("name", SUMS)
def test_of_equal_numbers(name: str) -> None:
    function, shape, count = SUMS[name]
    found = np.asarray(tenon.jit(function)(np.full(shape, PART)), np.float64)
    assert np.abs(found / (count * float(PART)) - 1).max() < 2e-6


def test_bits_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(0).random((3, N), np.float32)
    total = tenon.jit(lambda x: (tenon.sum(x), tenon.sum(x, axis=0), tenon.matmul(x, tenon.transpose(x))))
    results: list[Any] = []
    for threads in (1, 2):
        with tenon.num_threads(threads):
            results.append(total(x))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_blocks_of_one_are_refused() -> None:
    """A sum of sums of one number is as long as the sum."""
    for limits in ({"limit": 1}, {"tile_limit": 1}):
        with pytest.raises(ValueError, match=r"block-sums: .*, expected at least 2"):
            BlockSumsPass(**limits).change(ModuleOp([]))
