"""Every op, on every sample: batched, it gives what it gives for each example on its own.

The examples are a sample's own operands and variations of them. All operands are batched, and each one alone. What
executes is the interpreter, which starts at once; a part is compiled as well, and differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from sample import TOLERANCE, Array, Sample, codes, widened
from samples import SAMPLES

import tenon
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.runtime.knobs import knobs


def distinct(samples: Iterable[Sample], *, by_op: bool = False) -> list[Sample]:
    """One sample for each op (if `by_op`), or for each of its settings and ranks of operands, which is all that rules
    look at.
    """
    found: dict[Any, Sample] = {}
    for sample in samples:
        ranks = tuple([(array.ndim, 0 in array.shape) for array in sample.arrays])
        found.setdefault(sample.op_name if by_op else (sample.op_name, str(sample.settings), ranks), sample)
    return list(found.values())


WITH_OPERANDS = [sample for sample in SAMPLES if sample.arrays]
FULL = [sample for sample in WITH_OPERANDS if all(array.size for array in sample.arrays)]
SMOOTH = [sample for sample in FULL if sample.differentiable]


def varied(array: Array) -> Array:
    """Another array of the same shape, of the same numbers from the last to the first where it has several: of matrices
    that stays definite what was.
    """
    if array.size > 1:
        return np.ascontiguousarray(np.flip(array))
    if array.dtype == np.bool_:
        return ~array
    return (array // 2 if array.dtype.kind in "iu" else array * 0.75).astype(array.dtype)


def agree(found: Any, expected: Any) -> None:
    """Assert that results are the same up to the order in which sums are added up."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = TOLERANCE.get(found.dtype)
    if tolerance is None:
        np.testing.assert_array_equal(codes(found), codes(expected))
        return
    finite = np.abs(widened(expected)[np.isfinite(widened(expected))])
    scale = max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(widened(found), widened(expected), rtol=10 * tolerance, atol=tolerance * scale)


def check(function: Callable[..., Any], arrays: Sequence[Array], *, alone: bool = True) -> None:
    """Compare `function` batched over all of `arrays`, and over each of them `alone`, with single calls."""
    batches = [np.stack((array, varied(array))) for array in arrays]
    choices = [(True,) * len(arrays)]
    if alone and len(arrays) > 1:
        choices += [tuple([i == j for j in range(len(arrays))]) for i in range(len(arrays))]
    single = tenon.jit(function)
    first = single(*arrays)
    for chosen in choices:
        mixed = [batch if pick else array for batch, array, pick in zip(batches, arrays, chosen, strict=True)]
        found = tenon.jit(tenon.vmap(function, in_axes=tuple([0 if pick else None for pick in chosen])))(*mixed)
        second = single(*[x[1] if pick else x for x, pick in zip(mixed, chosen, strict=True)])
        for result, *each in zip(found, first, second, strict=True):
            agree(result, np.stack([np.asarray(one) for one in each]))


@pytest.mark.parametrize("sample", distinct(WITH_OPERANDS), ids=str)
def test_interpreted(sample: Sample) -> None:
    with knobs.override(interpret=True), np.errstate(all="ignore"):
        check(lambda *arrays: sample.apply(arrays), sample.arrays)


@pytest.mark.parametrize("sample", distinct(FULL, by_op=True), ids=str)
def test_compiled(sample: Sample) -> None:
    check(lambda *arrays: sample.apply(arrays), sample.arrays, alone=False)


@pytest.mark.parametrize("sample", distinct(SMOOTH, by_op=True), ids=str)
def test_gradients_of_every_example(sample: Sample) -> None:
    """`vmap(grad(f))`, and the gradient of what is batched, are the gradients of single calls."""
    wide = sample.in_float64()
    positions = tuple([i for i, array in enumerate(wide.arrays) if array.dtype.kind == "f"])

    def loss(*arrays: Any) -> Any:
        results = [r for r in wide.apply(arrays) if r.dtype.kind == "f"]
        return functools.reduce(tenon.add, [tenon.sum(tenon.sin(r)) for r in results])

    def of_all(*batches: Any) -> Any:
        return tenon.grad(lambda *given: tenon.sum(tenon.vmap(loss)(*given)), positions)(*batches)

    with knobs.override(interpret=True), np.errstate(all="ignore"):
        check(tenon.grad(loss, positions), wide.arrays, alone=False)
        batches = [np.stack((array, varied(array))) for array in wide.arrays]
        per_example = tenon.jit(tenon.vmap(tenon.grad(loss, positions)))(*batches)
        for found, expected in zip(tenon.jit(of_all)(*batches), per_example, strict=True):
            agree(found, expected)


NO_RULE = {"tenon.dynamic_slice", "tenon.dynamic_update_slice"}
"""Ops that run example by example, where the examples start at places of their own."""


@pytest.mark.parametrize("sample", distinct(FULL, by_op=True), ids=str)
def test_examples_are_computed_together(sample: Sample) -> None:
    batches = [np.stack((array, array)) for array in sample.arrays]
    module = tenon.jit(tenon.vmap(lambda *arrays: sample.apply(arrays))).trace(*batches).module
    loops = [op for op in module.walk() if isinstance(op, ScanOp)]
    alone = {op.name for loop in loops for op in loop.body.block.ops if isinstance(op, TensorOp)}
    assert alone <= NO_RULE
