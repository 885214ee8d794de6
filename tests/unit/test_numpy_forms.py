"""Forms of calls that NumPy has: pairs for each axis, and what is straight between points."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import tenon
from tenon.dialects.support.suggestion import INSTEAD

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
@pytest.mark.parametrize(
    "width", [1, (1, 2), ((1, 2),), ((1, 0), (2, 1)), ((1,), (2,)), np.array([[1, 2], [0, 1]])], ids=repr
)
def test_padding_by_pairs(width: Any, mode: Any) -> None:
    expected = np.pad(X, width, mode=mode)
    np.testing.assert_array_equal(tenon.pad(X, width, mode=mode), expected)
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.pad(x, pad_width=width, mode=mode))(X), expected)


def test_padding_by_numbers_and_by_sides() -> None:
    pairs: Any = ((1, 0), (0, 2))
    np.testing.assert_array_equal(tenon.pad(X, 1, constant_values=7), np.pad(X, 1, constant_values=7))
    np.testing.assert_array_equal(tenon.pad(X, (1, 0), (0, 2)), np.pad(X, pairs))
    np.testing.assert_array_equal(tenon.pad(tenon.tensor(X), pairs).numpy(), np.pad(X, pairs))


@pytest.mark.parametrize("width", [((1, 2),) * 3, 1.5, ((1, 2), 3), "edge"], ids=repr)
def test_pairs_that_do_not_fit(width: Any) -> None:
    message = re.escape(f"tenon.pad: pad_width is {width!r} where a pair of integers for each of 2 axes is needed")
    with pytest.raises(TypeError, match=message):
        tenon.pad(X, width)
    with pytest.raises(TypeError, match=r"tenon\.pad: pad_width is given beside high and low"):
        tenon.pad(X, (1, 1), (1, 1), pad_width=1)
    with pytest.raises(tenon.InferenceError, match=r"tenon\.pad: low is missing"):
        tenon.pad(X)
    with pytest.raises(tenon.InferenceError, match=r"tenon\.pad: high is missing"):
        tenon.pad(X, low=(1, 1))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_values_between_points(count: int) -> None:
    generator = np.random.default_rng(count)
    xp, fp = np.sort(generator.uniform(0, 10, count)), generator.standard_normal(count)
    x = np.concatenate([generator.uniform(-2, 12, 20), xp, [np.nan]])
    np.testing.assert_allclose(tenon.interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-12, atol=1e-13)
    found = tenon.jit(lambda x, xp, fp: tenon.interp(x, xp, fp, left=-1.0, right=5.0))(x, xp, fp)
    np.testing.assert_allclose(found, np.interp(x, xp, fp, left=-1, right=5), rtol=1e-12, atol=1e-13)


NARROW: dict[str, tuple[Any, Any]] = {
    "interp, values": (lambda m, x: m.interp(np.array([1.5, 2.0]), np.array([1.0, 2.0]), x[:2]), np.uint8),
    "interp, places": (lambda m, x: m.interp(x[2:3], x[:2], np.array([0.0, 220.0])), np.int8),
    "trapezoid": (lambda m, x: m.trapezoid(x), np.uint8),
    "trapezoid, places": (lambda m, x: m.trapezoid(np.ones(4), x), np.int8),
    "trapezoid, wide": (lambda m, x: m.trapezoid(x * 2**50, x * 2**20), np.int64),
    "cov": (lambda m, x: m.cov(x.reshape(2, 2)), np.uint8),
    "var": (lambda m, x: m.var(x), np.int8),
    "norm of columns": (lambda m, x: m.linalg.matrix_norm(x.reshape(2, 2), ord=1), np.int8),
}


@pytest.mark.parametrize("name", NARROW)
def test_integers_do_not_wrap(name: str) -> None:
    function, dtype = NARROW[name]
    x = np.array([-100, 120, 100, 90]).astype(dtype)
    expected = function(np, x.astype(np.float64))
    np.testing.assert_allclose(function(tenon, x), expected, rtol=1e-6)
    with tenon.knobs.override(interpret=True):
        np.testing.assert_allclose(tenon.jit(lambda x: function(tenon, x))(x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("limits", [(0, 0), (-100, 200)])
def test_parts_of_integers_are_counted(dtype: Any, limits: tuple[int, int]) -> None:
    x = np.array([-100, 100, 27, 0] * 300).astype(dtype)
    found = tenon.histc(x, 4, *limits)
    np.testing.assert_array_equal(found, np.histogram(x.astype(np.int64), 4, limits if any(limits) else None)[0])


def test_distances_of_integers_do_not_wrap() -> None:
    x, y = np.array([[200, 100]], np.uint8), np.array([[203, 104]], np.uint8)
    np.testing.assert_allclose(tenon.cdist(x, y), [[5.0]], rtol=1e-6)


def test_points_that_coincide_and_slopes_between_points() -> None:
    x, xp, fp = np.array([1.0, 2.0, 2.5]), np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.0, 1.0, 5.0, 6.0])
    np.testing.assert_array_equal(tenon.interp(x, xp, fp), np.interp(x, xp, fp))
    slopes = tenon.grad(lambda x, fp: tenon.interp(x, xp, fp).sum(), argnums=(0, 1))(np.array([1.25, 2.5]), fp)
    np.testing.assert_allclose(slopes[0], [1, 1])
    np.testing.assert_allclose(slopes[1], [0.75, 0.25, 0.5, 0.5])
    with pytest.raises(tenon.InferenceError, match=r"interp: xp of shape \(4,\) and fp of \(3,\) where two vectors"):
        tenon.interp(x, xp, fp[:3])


def test_what_is_named_instead_is_there_and_right() -> None:
    """What messages say to write in the place of names that others have."""
    names = {"x": np.array([0.5, 1.0, 3.0, 3.5]), "tenon": tenon, "inf": np.inf, "n": 4}
    names |= {"segments": np.array([0, 0, 2, 2])}

    def written(name: str) -> Any:
        return eval(INSTEAD[name].removeprefix("write ").replace("(n, ...)", "(n,)"), names)

    np.testing.assert_allclose(written("segment_sum"), [1.5, 0, 6.5, 0])
    np.testing.assert_allclose(written("segment_max"), [1, -np.inf, 3.5, -np.inf])
    np.testing.assert_allclose(written("segment_min"), [0.5, np.inf, 3, np.inf])


def test_nothing_is_named_instead_of_what_is_there() -> None:
    assert [name for name in INSTEAD if hasattr(tenon, name)] == []


def test_copies_of_arrays_traced_values_and_tensors() -> None:
    copied, tensor = tenon.copy(X), tenon.tensor(X)
    assert not np.shares_memory(copied, X)
    other = tensor.copy()
    other[0] = 7.0
    np.testing.assert_array_equal(tensor.numpy(), X)
    np.testing.assert_array_equal(
        tenon.jit(lambda x: x.copy().at[0].set(1.0) + x)(X), np.where([[1], [0]], 1 + X, 2 * X)
    )


@pytest.mark.parametrize(
    ("repeats", "axis"), [([1, 0, 2], 0), (np.array([2]), 1), (tuple(range(12)), None), (tenon.tensor([0, 2, 1]), 0)]
)
def test_each_place_is_repeated_as_often_as_is_said(repeats: Any, axis: int | None) -> None:
    x = np.arange(12.0).reshape(3, 4)
    expected = np.repeat(x, np.asarray(repeats), axis)
    np.testing.assert_array_equal(tenon.repeat(x, repeats, axis=axis), expected)
    np.testing.assert_array_equal(tenon.jit(lambda x: x.repeat(repeats, axis=axis))(x), expected)
    gradient = tenon.grad(lambda x: (tenon.repeat(x, repeats, axis) * expected).sum())(x)
    np.testing.assert_allclose(
        gradient,
        x
        * np.broadcast_to(np.asarray(repeats), 12 if axis is None else x.shape[axis]).reshape(
            (3, 4) if axis is None else (-1, 1) if axis == 0 else (1, -1)
        ),
    )


def test_computed_repeats() -> None:
    repeat = tenon.jit(lambda x, n: tenon.repeat(x, n, output_size=5))
    np.testing.assert_array_equal(repeat(np.arange(3), np.array([2, 0, 3])), [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(repeat(np.arange(3), np.array([4, 4, 4])), [0, 0, 0, 0, 1])  # the rest is left out
    np.testing.assert_array_equal(repeat(np.arange(3), np.array([1, 0, 1])), [0, 2, 2, 2, 2])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1, 2], 0), r"repeats have shape \(2,\) where \(3,\) is needed"),
        (([1, -2, 3], 0), "where integers of at least 0 are needed"),
        (([1.5, 2, 3], 0), "where integers of at least 0 are needed"),
        (([1, 2, 3], 0, 7), "repeats make 6 elements, and output_size is 7"),
        ((2, 0, 7), "repeats make 6 elements, and output_size is 7"),
    ],
)
def test_repeats_that_do_not_fit(arguments: Any, said: str) -> None:
    repeats, axis, *size = arguments
    with pytest.raises(tenon.InferenceError, match=said):
        tenon.repeat(np.ones((3, 4)), repeats, axis, **({"output_size": size[0]} if size else {}))


@pytest.mark.parametrize("is_traced", [False, True])
def test_the_method_repeats_elements_or_the_whole(is_traced: bool) -> None:
    def repeated(x: Any, *args: Any, **settings: Any) -> Any:
        if is_traced:
            return tenon.jit(lambda x: x.repeat(*args, **settings))(x)
        return tenon.tensor(x).repeat(*args, **settings).numpy()

    vector, matrix, stack = (np.arange(12.0).reshape(shape) for shape in ((12,), (3, 4), (1, 3, 4)))
    for x, counts in ((matrix, (2, 3)), (stack, (2, 1, 1)), (vector, (2, 1))):
        expected = torch.from_numpy(x).repeat(*counts).numpy()
        np.testing.assert_array_equal(repeated(x, *counts), expected)
        np.testing.assert_array_equal(repeated(x, counts), expected)
    for x, args, axis in ((stack, (2, 1), 1), (matrix, (2,), None), (vector, (2, 0), 0), (vector, ([2] * 12, 0), 0)):
        np.testing.assert_array_equal(repeated(x, *args), np.repeat(x, args[0], axis))
    np.testing.assert_array_equal(repeated(matrix, 2, axis=1), np.repeat(matrix, 2, 1))
    for x, args in ((vector, (2,)), (matrix, (2, 1))):
        with pytest.raises(TypeError, match=r"write x\.tile\(\.\.\.\) or x\.repeat_interleave"):
            repeated(x, *args)


def test_norms_of_zeros_have_slopes_of_zero() -> None:
    for order in (0.5, 1, 1.5, 2, 3, np.inf):
        slope = tenon.grad(lambda x: tenon.linalg.vector_norm(x, ord=order))(np.zeros(3))  # noqa: B023
        np.testing.assert_array_equal(slope, 0)
