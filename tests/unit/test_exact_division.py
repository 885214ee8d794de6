"""Division by numbers known while compiling is division: bitwise NumPy's, not a product with a rounded reciprocal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

DIVISORS = (3.0, 7.0, 0.1, 49.0, -1.5)  # with a reciprocal that no format holds

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "full": lambda ops, x, c: ops.divide(x, np.full(x.shape, c)),
    "scalar": lambda ops, x, c: ops.divide(x, c),
    "row": lambda ops, x, c: ops.divide(x, np.full((1, x.shape[1]), c)),
    "fused": lambda ops, x, c: ops.abs(ops.divide(ops.negative(x), c)),
    "reduced": lambda ops, x, c: ops.max(ops.divide(x, c), axis=1),
    "of a broadcast": lambda ops, x, c: ops.divide(x, ops.broadcast_to(np.full((1, 1), c), x.shape)),
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_constants_divide_exactly(program: Callable[[Any, Any, Any], Any], dtype: str) -> None:
    numbers = np.random.default_rng(0).uniform(-1000, 1000, (23, 37)).astype(dtype)
    divisors = [np.dtype(dtype).type(number) for number in DIVISORS]
    results = tenon.jit(lambda x: tuple([program(tenon, x, c) for c in divisors]))(numbers)
    for result, divisor in zip(results, divisors, strict=True):
        expected = program(np, numbers, divisor)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        inexact = program(np, numbers, divisor) != program(_Reciprocal, numbers, divisor)
        assert inexact.any() or dtype == "f2"  # else the fault could not show


class _Reciprocal:
    """NumPy with the fault: products with the reciprocal in the place of quotients."""

    abs, negative, max, broadcast_to = np.abs, np.negative, np.max, np.broadcast_to

    @staticmethod
    def divide(x: Any, c: Any) -> Any:
        return x * (np.asarray(1, x.dtype) / c)
