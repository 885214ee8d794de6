"""Functions that are no ops: they make tensors, or give as many results as a shape says. Traced and on arrays alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

CALLS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: tenon.eye(3), np.eye(3, dtype=np.float32)),
    (lambda: tenon.eye(2, 4, 1, dtype="i8"), np.eye(2, 4, 1, dtype=np.int8)),
    (lambda: tenon.eye(4, 2, -1, dtype="i1"), np.eye(4, 2, -1, dtype=np.bool_)),
    (lambda: tenon.eye(0), np.eye(0, dtype=np.float32)),
    (lambda: tenon.arange(5), np.arange(5)),
    (lambda: tenon.arange(7, 1, -2), np.arange(7, 1, -2)),
    (lambda: tenon.arange(0.5, 2.0, 0.25), np.arange(0.5, 2.0, 0.25, dtype=np.float32)),
    (lambda: tenon.arange(3, dtype="f16"), np.arange(3, dtype=np.float16)),
    (lambda: tenon.arange(2, 2), np.arange(0)),
    (lambda: tenon.ones(np.int64(3)), np.ones(3, np.float32)),
    (lambda: tenon.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
    (lambda: tenon.linspace(-1, 1, 4, endpoint=False, dtype="f64"), np.linspace(-1, 1, 4, endpoint=False)),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_made_tensors_are_numpys(call: Callable[[], Any], expected: Any) -> None:
    for found in (call(), tenon.jit(call)()):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def same_traced_and_on_arrays(function: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    for found in (function(*arrays), tenon.jit(function)(*arrays)):
        assert len(found) == len(expected)
        for result, exact in zip(found, expected, strict=True):
            np.testing.assert_array_equal(result, exact)


VECTORS = (np.arange(3.0), np.arange(2.0) + 10, np.arange(4.0) - 5)


@pytest.mark.parametrize("kind", [tenon.jit, tenon.trace, lambda f: f])
def test_what_is_filled_with_may_be_computed(kind: Callable[..., Any]) -> None:
    """A number that is traced, or a tensor, and each element of a result of one's own."""

    def made(x: Any) -> Any:
        filled = tenon.full((2, 3), x[:3], dtype="f64"), tenon.full_like(x, x[1]), tenon.full((), -x[0], dtype="i32")
        return *filled, tenon.linspace(x[0], 5.0, 4, dtype="f64"), tenon.linspace(-1, x[3], 3, endpoint=False)

    data = np.array([1.0, 2.0, 3.0, 4.0])
    found = kind(made)(data if kind is tenon.jit else tenon.tensor(data))
    expected = [
        np.full((2, 3), data[:3]),
        np.full(4, 2.0),
        np.full((), -1, np.int32),
        np.linspace(1, 5, 4),
        np.linspace(-1, 4, 3, endpoint=False, dtype=np.float32),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_tensor_that_is_filled_is_another_one() -> None:
    number = tenon.tensor(np.ones(3, np.float32))
    made = tenon.full((3,), number)
    made += 1
    assert number.tolist() == [1.0] * 3
    assert made.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tenon.hstack(None), "tenon.hstack: tensors is None where several tensors are needed"),
        (lambda: tenon.vstack(3.0), "tenon.vstack: tensors is a float where several tensors are needed"),
        (
            lambda: tenon.hstack([np.ones(2), None]),
            "tenon.hstack: tensors[1]: a NoneType is neither a number nor an array",
        ),
        (
            lambda: tenon.meshgrid(np.ones(2), None),
            "tenon.meshgrid: argument 1: a NoneType is neither a number nor an array",
        ),
        (lambda: tenon.solve(None, np.ones(2)), "tenon.solve: a: a NoneType is neither a number nor an array"),
    ],
)
def test_what_is_no_tensor_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_is_numpys(indexing: Any, count: int) -> None:
    vectors = VECTORS[:count]
    same_traced_and_on_arrays(
        lambda *xs: tenon.meshgrid(*xs, indexing=indexing), np.meshgrid(*vectors, indexing=indexing), *vectors
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unstack_takes_an_axis_apart(axis: int) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    same_traced_and_on_arrays(lambda x: tenon.unstack(x, axis=axis), list(np.moveaxis(x, axis, 0)), x)
    assert tenon.unstack(np.zeros((3, 0)), axis=1) == ()


def test_nonzero_gives_the_indices_along_each_axis() -> None:
    x = np.array([[0, 3, 0], [np.nan, 0, -0.0]])
    same_traced_and_on_arrays(lambda x: tenon.nonzero(x, size=2), np.nonzero(x), x)
    same_traced_and_on_arrays(lambda x: tenon.nonzero(x, size=1), ([0], [1]), x)
    same_traced_and_on_arrays(lambda x: tenon.nonzero(x, size=3, fill_value=(7, 9)), ([0, 1, 7], [1, 0, 9]), x)
    np.testing.assert_array_equal(tenon.nonzero(x, fill_value=(7, 9)), np.nonzero(x))
    with pytest.raises(tenon.InferenceError, match=r"fill_value \(1, 2, 3\) has 3 entries, and x has rank 2"):
        tenon.nonzero(x, fill_value=(1, 2, 3))


def test_compress_takes_a_known_condition() -> None:
    x = np.arange(6.0).reshape(2, 3)
    condition = [True, False, True]
    found = tenon.jit(lambda x: tenon.compress(condition, x, axis=1))(x)
    np.testing.assert_array_equal(found, np.compress(condition, x, axis=1))
    np.testing.assert_array_equal(tenon.compress(condition, x), np.compress(condition, x))
    with pytest.raises(ValueError, match="compress: condition 3 is true, and x has 3 elements along axis 0"):
        tenon.compress([False, True, False, True], np.arange(3))
    with pytest.raises(ValueError, match=r"compress: the condition has shape \(1, 3\) where one of rank 1 is needed"):
        tenon.compress([[True, False, True]], np.arange(3))
    with pytest.raises(TypeError, match="compress: the condition is traced"):
        tenon.jit(lambda x: tenon.compress(x > 2, x))(x)


@pytest.mark.parametrize("size", [64, 65, 4096, 100_003])
def test_long_rows_are_sorted_stably(size: int) -> None:
    x = np.random.default_rng(size).integers(0, 1000, size).astype(np.float32)
    found = tenon.jit(lambda x: (tenon.sort(x), tenon.argsort(x)))(x)
    np.testing.assert_array_equal(found[0], np.sort(x))
    np.testing.assert_array_equal(found[1], np.argsort(x, kind="stable"))


def test_long_running_sums_need_no_memory_of_their_own() -> None:
    x = np.ones(1 << 18)
    gradient = tenon.grad(lambda x: tenon.sum(tenon.cumsum(x)))(x)
    np.testing.assert_array_equal(gradient, np.arange(len(x), 0, -1.0))


def test_an_update_that_is_replaced_gets_no_gradient() -> None:
    def last(values: Any) -> Any:
        return tenon.sum(tenon.asarray(np.zeros(3)).at[np.array([1, 1, 2])].set(values) * np.array([1.0, 2.0, 4.0]))

    np.testing.assert_array_equal(tenon.grad(last)(np.ones(3)), [0.0, 2.0, 4.0])
