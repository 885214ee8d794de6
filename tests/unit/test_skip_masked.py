"""Causal and sliding masks, whose hidden blocks are not computed: numbers against NumPy and torch's rules of NaN."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import IndexType, IntegerAttr

import tenon
from tenon.lowering.kernels.masked_range import VISIBLE
from tenon.lowering.kernels.masked_values import Band, band_of, oriented
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stages
from tenon.runtime.lower import new_context

Array = NDArray[Any]

SHAPES = [
    # rows, columns, how far a row sees ahead, and how many columns; all of them where that is None
    (1, 5, 0, None),
    (7, 7, 0, None),
    (67, 67, 0, None),
    (67, 131, 64, None),
    (131, 67, 0, None),
    (131, 67, -64, None),
    (64, 64, 0, 16),
    (131, 131, 3, 1),
    (131, 67, -64, 40),
    (131, 67, 0, 40),
    (67, 131, 100, None),
]


def visible(rows: int, columns: int, ahead: int, window: int | None) -> Array:
    mask = np.tri(rows, columns, ahead, dtype=bool)
    return mask if window is None else mask & ~np.tri(rows, columns, ahead - window, dtype=bool)


def as_constant(*mask: Any) -> Any:
    return visible(*mask)


def as_comparison(rows: int, columns: int, ahead: int, window: int | None) -> Any:
    i, j = tenon.arange(rows)[:, None], tenon.arange(columns)[None, :]
    sees = j <= i + ahead
    return sees if window is None else sees & (i + (ahead - window) < j)


def as_triangle(rows: int, columns: int, ahead: int, window: int | None) -> Any:
    ones = tenon.ones((rows, columns), dtype="i1")
    sees = tenon.tril(ones, k=ahead)
    return sees if window is None else sees & tenon.logical_not(tenon.tril(ones, k=ahead - window))


def attention(mask: Any) -> Any:
    def function(q: Any, k: Any, v: Any) -> Any:
        scores = q @ tenon.transpose(k, (0, 2, 1)) * 0.25
        return tenon.softmax(tenon.where(mask(), scores, -np.inf)) @ v

    return function


def with_gradients(function: Any) -> Any:
    def gradients(q: Any, k: Any, v: Any, g: Any) -> Any:
        result, parts = tenon.vjp(function, q, k, v, cotangent=g)
        return (result, *parts)

    return gradients


def inputs(rows: int, columns: int, dtype: Any = np.float32) -> list[Array]:
    random = np.random.default_rng(rows + columns)
    shapes = [(2, rows, 16), (2, columns, 16), (2, columns, 16), (2, rows, 16)]
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def expected(arrays: list[Array], mask: Array) -> list[Array]:
    """The result, and the gradients, in double precision."""
    q, k, v, g = (array.astype(float) for array in arrays)
    with np.errstate(all="ignore"):
        scores = np.where(mask, q @ k.swapaxes(1, 2) * 0.25, -np.inf)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        inner = (g @ v.swapaxes(1, 2)) * weights
        slope = np.where(mask, inner - weights * inner.sum(axis=-1, keepdims=True), 0) * 0.25
        return [weights @ v, slope @ k, slope.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ g]


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(shape: tuple[int, int, int, int | None], bits: int) -> None:
    arrays = inputs(*shape[:2])
    with tenon.knobs.override(vector_bits=bits):
        results = tenon.jit(with_gradients(attention(lambda: as_constant(*shape))))(*arrays)
    for result, wanted in zip(results, expected(arrays, visible(*shape)), strict=True):
        np.testing.assert_allclose(result, wanted, atol=3e-5)


@pytest.mark.parametrize("mask", [as_comparison, as_triangle])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ways_to_write_a_mask(shape: tuple[int, int, int, int | None], mask: Any) -> None:
    arrays = inputs(*shape[:2])
    result = tenon.jit(attention(lambda: mask(*shape)))(*arrays[:3])
    np.testing.assert_allclose(result, expected(arrays, visible(*shape))[0], atol=2e-5)


def test_masks_that_are_almost_bands() -> None:
    """A place that a band would show is hidden, or one that it would hide is shown."""
    for place in [(40, 20), (20, 21)]:
        mask = visible(67, 67, 0, None)
        mask[place] = not mask[place]
        arrays = inputs(67, 67)
        result = tenon.jit(attention(lambda mask=mask: mask))(*arrays[:3])
        np.testing.assert_allclose(result, expected(arrays, mask)[0], atol=2e-5)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision(dtype: str) -> None:
    arrays = [tenon.cast(array, dtype) for array in inputs(131, 131)]
    results = tenon.jit(with_gradients(attention(lambda: as_constant(131, 131, 0, None))))(*arrays)
    wanted = expected([np.asarray(array).astype(np.float32) for array in arrays], visible(131, 131, 0, None))
    for result, values in zip(results, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(result).astype(float), values, atol=0.1)


@pytest.mark.parametrize("shape", [(67, 131, 64, None), (131, 131, 3, 40)], ids=str)
def test_the_interpreter_agrees(shape: tuple[int, int, int, int | None]) -> None:
    arrays = inputs(*shape[:2])
    program = with_gradients(attention(lambda: as_comparison(*shape)))
    with tenon.knobs.override(interpret=True):
        results = tenon.jit(program)(*arrays)
    for result, wanted in zip(results, expected(arrays, visible(*shape)), strict=True):
        np.testing.assert_allclose(result, wanted, atol=3e-5)


def test_hidden_scores_may_be_anything() -> None:
    """What a select hides is not looked at: infinities and NaN in the last key reach the last row only."""
    q, k, v, _ = inputs(131, 131)
    k[:, -1, :3] = np.inf, -np.inf, np.nan
    result = np.asarray(tenon.jit(attention(lambda: as_constant(131, 131, 0, None)))(q, k, v))
    assert np.isfinite(result[:, :-1]).all()
    assert np.isnan(result[:, -1]).all()


def test_factors_of_hidden_weights() -> None:
    """Zero times infinity is NaN in all rows of the strips that reach it; with the knob, in all rows."""
    arrays = inputs(512, 512)
    arrays[2][:, -1] = np.inf
    program = attention(lambda: as_constant(512, 512, 0, None))
    skipped = np.asarray(tenon.jit(program)(*arrays[:3]))
    assert np.isfinite(skipped[:, :256]).all()
    with tenon.knobs.override(skip_masked=False):
        assert np.isnan(np.asarray(tenon.jit(program)(*arrays[:3]))[:, :-1]).all()


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("slt", Band(0, 1, upper=4)),
        ("sle", Band(0, 1, upper=5)),
        ("sgt", Band(0, 1, lower=6)),
        ("sge", Band(0, 1, lower=5)),
        ("eq", None),
        ("ult", None),
    ],
)
def test_bands_of_comparisons(predicate: str, wanted: Band | None) -> None:
    """Of column - 2 with row + 3."""
    row, column = linalg.ops.IndexOp(0).result, linalg.ops.IndexOp(1).result
    two, three = [arith.ConstantOp(IntegerAttr(number, IndexType())).result for number in (2, 3)]
    lhs, rhs = arith.SubiOp(column, two).result, arith.AddiOp(row, three).result
    assert band_of(arith.CmpiOp(lhs, rhs, predicate).result) == wanted


def test_bands_in_bands() -> None:
    for wide, narrow in [(Band(0, 1, -3, 2), Band(0, 1, -2, 2)), (Band(0, 1, -inf, 2), Band(0, 1, -inf, 1))]:
        assert wide.contains(wide)
        assert wide.contains(narrow)
        assert not narrow.contains(wide)
    assert not Band(0, 1).contains(Band(0, 2))


def test_bands_seen_from_the_other_loop() -> None:
    """-3 <= column - row <= 2 is -2 <= row - column <= 3."""
    assert oriented(Band(0, 1, -3, 2), 0) == Band(0, 1, -3, 2)
    assert oriented(Band(0, 1, -3, 2), 1) == Band(1, 0, -2, 3)


def marked(function: Any, *arrays: Array) -> int:
    """How many statements leave out what is hidden."""
    module = tenon.jit(function).trace(*arrays).module
    for stage in stages(LoweringOptions())[:3]:
        run_passes(new_context(), module, stage.passes)
    run_passes(new_context(), module, stages(LoweringOptions())[3].passes[:2])
    return sum(VISIBLE in op.attributes for op in module.walk())


def test_what_is_marked() -> None:
    arrays = inputs(131, 131)
    assert marked(attention(lambda: as_constant(131, 131, 0, None)), *arrays[:3]) == 5
    assert marked(with_gradients(attention(lambda: as_constant(131, 131, 0, None))), *arrays) == 12
    # Rows that see nothing would reach the gradients of all keys.
    assert marked(with_gradients(attention(lambda: as_constant(131, 131, -1, None))), *arrays) == 0
    assert marked(attention(lambda: np.arange(131) % 3 > 0), *arrays[:3]) == 0
