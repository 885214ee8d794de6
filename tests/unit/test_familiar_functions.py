"""Functions that put in, take away, order and count elements, or combine windows, and those of the same name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tenon

X = np.arange(12, dtype=np.float32).reshape(3, 4)
PLACES: list[Any] = [1, -1, [0], [2, 0, 0], [], slice(None, None, 2), np.array([True, False, True]), 5, [0, -9], [[0]]]


def same(name: str, *args: Any, **settings: Any) -> None:
    """Check that a function gives what NumPy's gives, or raises where that raises."""
    try:
        expected = getattr(np, name)(*args, **settings)
    except (ValueError, IndexError):
        with pytest.raises((ValueError, IndexError, TypeError), match=name):
            getattr(tenon, name)(*args, **settings)
        return
    found = np.asarray(getattr(tenon, name)(*args, **settings))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, strict=True)


def test_what_is_put_in_and_taken_away() -> None:
    for place, axis in itertools.product(PLACES, (0, -2, None)):
        same("delete", X, place, axis)
        same("insert", X, place, 7, axis)
    for place, values, axis in (
        (1, [8, 9, 10, 11], 0),
        (1, [8, 9, 10], 1),
        ([1], [[8], [9], [10]], 1),
        ([0, 4], [8, 9], -1),
        ([0, 4], np.ones((2, 3)), 1),
        ([1], [7.5, 8.5], None),
        (12, 1, None),
    ):
        same("insert", X, place, np.array(values), axis)
    for x in (X, X.astype(np.int32), X[:0], X > 3):
        same("delete", x, [0] if len(x) else [], 0)
        same("append", x, x)
        same("append", x, x[:1], 0)
        for shape in (7, (2, 3), (0, 2), (), (-1,)):
            same("resize", x, shape)
    with pytest.raises(TypeError, match="insert: obj is traced"):
        tenon.jit(lambda x, i: tenon.insert(x, i, 0.0))(X, 1)


def test_zeros_that_are_trimmed() -> None:
    x = np.zeros((4, 5), np.int32)
    x[1, 2:4] = 1, 3
    for trim, axis, given in itertools.product(("fb", "b", "F"), (None, 0, -1), (x, x[:1], x[:0])):
        same("trim_zeros", given, trim, axis)
    with pytest.raises(ValueError, match="trim is 'x'"):
        tenon.trim_zeros(x, "x")
    with pytest.raises(TypeError, match="filt is traced"):
        tenon.jit(tenon.trim_zeros)(x)


def test_gradients_go_through() -> None:
    def changed(x: Any) -> Any:
        more = tenon.append(tenon.insert(x, [0, 2], x[1] * 2), tenon.delete(x, 0))
        return (tenon.resize(more, (3, 4)) * np.arange(12.0).reshape(3, 4)).sum()

    x = tenon.tensor([1.0, 2.0, 3.0], dtype="f64", requires_grad=True)
    changed(x).backward()
    assert x.grad is not None
    slopes = [(changed(np.eye(3)[i]) - changed(np.zeros(3))) for i in range(3)]
    np.testing.assert_allclose(x.grad.numpy(), slopes)


def test_partitions() -> None:
    x = np.array([[3.0, np.nan, 1.0, 2.0], [5.0, 4.0, 4.0, 6.0]], np.float32)
    for kth, axis in itertools.product((0, -1, [0, 2], 1), (-1, 1, None)):
        ordered = np.sort(x, axis)
        np.testing.assert_array_equal(tenon.partition(x, kth, axis), ordered)
        whole = x if axis is not None else x.reshape(-1)
        np.testing.assert_array_equal(np.take_along_axis(whole, tenon.argpartition(x, kth, axis), -1), ordered)
    with pytest.raises(ValueError, match="partition: kth is 4, and there are 4 elements along axis 1"):
        tenon.partition(x, 4)
    with pytest.raises(TypeError, match=r"argpartition: kth is 1\.5"):
        tenon.argpartition(x, 1.5)
    assert tenon.partition(x[:0], 9, axis=0).shape == (0, 4)


@pytest.mark.parametrize("dtype", ["f4", "u1", "?"])
def test_modes(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 3, (4, 5, 3)).astype(dtype)
    for dim, keepdim in ((0, False), (-2, True), (2, False)):
        expected = torch.mode(torch.tensor(x), dim, keepdim)
        found = tenon.mode(x, dim, keepdim)
        np.testing.assert_array_equal(found.values, expected.values.numpy(), strict=True)
        np.testing.assert_array_equal(found.indices, expected.indices.numpy(), strict=True)
    assert tenon.mode(x[0, 0, 0]).indices.shape == ()
    with pytest.raises(tenon.InferenceError, match="has no elements along axis 0"):
        tenon.mode(x[:0], 0)


def combined(
    x: Any, initial: Any, function: Any, window: Any, strides: Any, pads: Any, base: Any, dilation: Any
) -> Any:
    """What a window has of elements, one after the other."""
    ends = [(n - 1) * b + 1 + low + high for n, b, (low, high) in zip(x.shape, base, pads, strict=True)]
    counts = [(end - (w - 1) * d - 1) // s + 1 for end, w, d, s in zip(ends, window, dilation, strides, strict=True)]
    found = np.full(counts, initial, x.dtype)
    for place in np.ndindex(*counts):
        for tap in np.ndindex(*window):
            at = [p * s + t * d - low for p, s, t, d, (low, _) in zip(place, strides, tap, dilation, pads, strict=True)]
            if all(a % b == 0 and 0 <= a // b < n for a, b, n in zip(at, base, x.shape, strict=True)):
                found[place] = function(found[place], x[tuple([a // b for a, b in zip(at, base, strict=True)])])
    return found


COMBINING: list[tuple[Callable[..., Any], Any, float]] = [
    (tenon.add, np.add, 1),
    (tenon.multiply, np.multiply, 1),
    (tenon.maximum, np.maximum, -2),
    (np.minimum, np.minimum, 2),
    (lambda a, b: a + 2 * b, lambda a, b: a + 2 * b, 0),
]


@pytest.mark.parametrize(("own", "exact", "initial"), COMBINING)
def test_combined_windows(own: Any, exact: Any, initial: float) -> None:
    x = np.random.default_rng(1).integers(-3, 4, (4, 5)).astype(np.float32)
    for settings in (
        ((2, 3), (1, 2), [(0, 0), (0, 0)], (1, 1), (1, 1)),
        ((3, 2), (2, 1), [(1, 2), (3, -1)], (2, 1), (1, 2)),
    ):
        found = tenon.reduce_window(x, initial, own, *settings)
        np.testing.assert_allclose(found, combined(x, initial, exact, *settings))
    same_size = tenon.reduce_window(x.astype(np.int32), int(initial), own, (2, 2), (1, 1), "SAME")
    expected = combined(x.astype(np.int32), int(initial), exact, (2, 2), (1, 1), [(0, 1), (0, 1)], (1, 1), (1, 1))
    np.testing.assert_array_equal(same_size, expected)


def test_windows_that_do_not_fit() -> None:
    assert tenon.reduce_window(X, 0.0, tenon.add, (5, 1)).shape == (0, 4)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"window_dimensions": (2,)}, "window_dimensions is"),
        ({"window_dimensions": (2, 2), "padding": "FULL"}, "padding is 'FULL'"),
        ({"window_dimensions": (2, 2), "padding": [(0, 0)]}, "where 2 pairs are needed"),
        ({"window_dimensions": (2, 2), "init_value": np.ones(2)}, "init_value has shape"),
    ]
    for settings, message in cases:
        given: dict[str, Any] = {"init_value": 0.0, "computation": tenon.add, **settings}
        with pytest.raises(ValueError, match=message):
            tenon.reduce_window(X, **given)
