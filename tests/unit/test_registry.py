"""Every op, on every sample: compiled and interpreted it gives what the oracle says, and its gradient is the slope.

The machine code comes from the whole path (trace, passes, loops, LLVM), the interpreter reads the structured IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sample import Sample, widened
from samples import SAMPLES

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.families import ElementwiseOp
from tenon.runtime.knobs import knobs

SMOOTH = [sample for sample in SAMPLES if sample.differentiable]
# The derivative by the first operand has none of its own, as in JAX.
ONCE = {"tenon.gammainc", "tenon.gammaincc"}
ELEMENTWISE = [
    sample for sample in SMOOTH if issubclass(registry()[sample.op_name], ElementwiseOp) and sample.op_name not in ONCE
]


def floats(arrays: Sequence[Any]) -> list[int]:
    return [i for i, array in enumerate(arrays) if array.dtype.kind == "f"]


def test_every_op_has_a_sample() -> None:
    missing = {name for name in registry() if name.startswith("tenon.")} - {sample.op_name for sample in SAMPLES}
    assert not missing


_FIRST = {sample.op_name: sample for sample in reversed(SAMPLES)}


@pytest.mark.parametrize(
    "sample",
    [pytest.param(s, marks=[pytest.mark.quick] if s is _FIRST[s.op_name] else []) for s in SAMPLES],
    ids=str,
)
def test_compiled_matches_oracle(sample: Sample) -> None:
    sample.check(tenon.jit(lambda *arrays: sample.apply(arrays))(*sample.arrays))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_interpreted_matches_oracle(sample: Sample) -> None:
    with knobs.override(interpret=True, verify=False):  # the passes are those of the test above
        sample.check(tenon.jit(lambda *arrays: sample.apply(arrays))(*sample.arrays))


def weights_of(results: Sequence[Any]) -> list[Any]:
    """Fixed numbers for each floating-point result, so that a weighted sum of them tells all results apart."""
    generator = np.random.default_rng(7)
    return [generator.uniform(0.5, 1.5, np.shape(r)) if np.asarray(r).dtype.kind == "f" else None for r in results]


def weighted(sample: Sample, weights: Sequence[Any]) -> Any:
    def function(*arrays: Any) -> Any:
        terms = [
            tenon.sum(tenon.multiply(result, weight))
            for result, weight in zip(sample.apply(arrays), weights, strict=True)
            if weight is not None
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    return function


def slopes(function: Any, arrays: Sequence[Any], position: int, step: float) -> Any:
    """Central differences of `function` in each element of the array at `position`."""
    base = [np.array(array) for array in arrays]
    result = np.zeros(base[position].shape)
    for index in np.ndindex(*base[position].shape):
        values: list[float] = []
        for sign in (1, -1):
            moved = [array.copy() for array in base]
            moved[position][index] += sign * step
            values.append(float(function(moved)))
        result[index] = (values[0] - values[1]) / (2 * step)
    return result


@pytest.mark.parametrize("sample", SMOOTH, ids=str)
def test_gradient_is_the_slope_of_the_oracle(sample: Sample) -> None:
    wide = sample.in_float64()
    weights = weights_of(wide.expected())
    wanted = floats(wide.arrays)

    def oracle(arrays: Sequence[Any]) -> float:
        rest = iter(arrays)
        args = tuple(
            tuple(next(rest) for _ in a) if isinstance(a, tuple) else None if a is None else next(rest)
            for a in wide.args
        )
        moved = Sample(wide.op_name, args, wide.settings, wide.oracle, wide.label)
        return sum(float((r * w).sum()) for r, w in zip(moved.expected(), weights, strict=True) if w is not None)

    gradient = tenon.grad(weighted(wide, weights), tuple(wanted))(*wide.arrays)
    for position, found in zip(wanted, gradient, strict=True):
        expected = slopes(oracle, wide.arrays, position, 1e-6)
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-7 * scale)


@pytest.mark.parametrize("sample", ELEMENTWISE, ids=str)
def test_second_derivative_is_the_slope_of_the_gradient(sample: Sample) -> None:
    wide = sample.in_float64()
    arrays = [np.asarray(widened(array)) for array in wide.arrays]
    (weights, *_) = [w for w in weights_of(wide.expected()) if w is not None]
    function = weighted(wide, [weights] * len(wide.expected()))
    for position in floats(arrays):
        first = tenon.grad(function, position)

        def along(*values: Any, first: Any = first) -> Any:
            slope = first(*values)
            return tenon.sum(tenon.multiply(slope, np.cos(np.arange(slope.size)).reshape(slope.shape)))

        second = tenon.grad(along, position)(*arrays)
        compiled = tenon.jit(along)
        expected = slopes(lambda moved, compiled=compiled: compiled(*moved), arrays, position, 1e-5)
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(second, expected, rtol=2e-5, atol=2e-5 * scale)
