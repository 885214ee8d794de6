"""Kernels that add up the rows that they compute: numbers, and the same ones with any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tenon
from tenon.runtime.cpu import threads
from tenon.runtime.cpu.compile import host_target

Array = NDArray[Any]
EPS = 1e-5


def layer_norm_gradient(x: Any, weight: Any, bias: Any, dy: Any) -> Any:
    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return tenon.layer_norm(x, weight, bias, eps=EPS)

    return tenon.vjp(norm, x, weight, bias, cotangent=dy)[1]


def by_numpy(x: Array, weight: Array, bias: Array, dy: Array) -> tuple[Array, ...]:
    x, weight, dy = (array.astype(np.float64) for array in (x, weight, dy))
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
    normed, slope = centred * scale, dy * weight
    dx = scale * (slope - slope.mean(-1, keepdims=True) - normed * (slope * normed).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    return dx, (dy * normed).sum(rows), dy.sum(rows)


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def inputs(*shape: int, dtype: Any = np.float32) -> tuple[Array, ...]:
    x, w = numbers(*shape, dtype=dtype), numbers(shape[-1], dtype=dtype)
    return x, w, w[::-1].copy(), np.cos(x).astype(dtype)


def lowered(function: Callable[..., Any], *arguments: Array) -> str:
    """The loop IR."""
    return str(tenon.jit(function).lower(*arguments).module)


# Rows that blocks do not divide and columns that vectors do not; few rows; rows of two loops.
SHAPES = [(1021, 67), (70, 1000), (3, 500, 129)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_gradient(shape: tuple[int, ...]) -> None:
    arguments = inputs(*shape)
    compiled = tenon.jit(layer_norm_gradient)
    results = []
    for count in (1, 2, 3):
        with threads.num_threads(count):
            results.append(compiled(*arguments))
    for ours, again, others, exact in zip(*results, by_numpy(*arguments), strict=True):
        np.testing.assert_allclose(ours, exact, atol=2e-6 * np.abs(exact).max())
        np.testing.assert_array_equal(ours, again)
        np.testing.assert_array_equal(ours, others)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float64, 128), (np.float32, 256)], ids=["f64", "f32"])
def test_narrower_vectors(dtype: Any, bits: int) -> None:
    arguments = inputs(1021, 67, dtype=dtype)
    with tenon.knobs.override(vector_bits=min(bits, host_target().vector_bits)):
        results = tenon.jit(layer_norm_gradient)(*arguments)
    for ours, exact in zip(results, by_numpy(*arguments), strict=True):
        np.testing.assert_allclose(ours, exact, atol=2e-6 * np.abs(exact).max())


def test_one_kernel_reads_each_row_once() -> None:
    text = lowered(layer_norm_gradient, *inputs(1024, 128))
    assert text.count("func.func private") == 1
    assert "sum_block = 128 : i64" in text


def test_the_interpreter_agrees() -> None:
    """Blocks of rows, and the last one, which is shorter."""
    arguments = inputs(515, 130)
    results = tenon.jit(layer_norm_gradient).lower(*arguments).compile().run(arguments)
    with tenon.knobs.override(interpret=True):
        expected = tenon.jit(layer_norm_gradient).lower(*arguments).compile().run(arguments)
    for ours, interpreted in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, interpreted, rtol=1e-4, atol=1e-4)


def test_what_is_stored_may_be_summed() -> None:
    """A gradient, and that of a bias: the columns are loops of their own in each row."""
    x, dy = numbers(1500, 200), np.cos(numbers(1500, 200))

    def gradient(x: Any, dy: Any) -> Any:
        dx = tenon.exp(x) * dy
        return dx, dx.sum(axis=0)

    dx, total = tenon.jit(gradient)(x, dy)
    np.testing.assert_allclose(dx, np.exp(x) * dy, rtol=1e-6)
    np.testing.assert_allclose(total, (np.exp(x.astype(np.float64)) * dy).sum(0), rtol=2e-6)
    assert lowered(gradient, x, dy).count("func.func private") == 1


def test_softmax_and_the_product_of_rows() -> None:
    """Another op than a sum, beside a result that needs whole rows."""
    x = numbers(700, 150)

    def function(x: Any) -> Any:
        weights = tenon.softmax(x, axis=-1)
        return weights, tenon.prod(1 + weights * 0.01, axis=0)

    weights, product = tenon.jit(function)(x)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, exact, rtol=1e-5)
    np.testing.assert_allclose(product, np.prod(1 + exact * 0.01, axis=0), rtol=1e-5)


def test_a_sum_that_the_rows_need_stays_apart() -> None:
    """All rows are needed for the first row of the result."""
    x = numbers(1500, 200)

    def function(x: Any) -> Any:
        return tenon.softmax(x, axis=-1) - x.sum(axis=0)

    exact = np.exp(x.astype(np.float64))
    exact = exact / exact.sum(-1, keepdims=True) - x.astype(np.float64).sum(0)
    np.testing.assert_allclose(tenon.jit(function)(x), exact, atol=1e-3)
    assert "sum_block" not in lowered(function, x)
