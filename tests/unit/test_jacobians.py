"""Jacobians and Hessians against central differences, by rows and by columns; and `fori_loop`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

A, X = np.random.default_rng(0).standard_normal((3, 4)), np.array([0.5, -1.0, 0.25, 2.0])
BOTH = pytest.mark.parametrize("jacobian", [tenon.jacrev, tenon.jacfwd])


def field(x: Any) -> Any:
    return tenon.tanh(A @ x)


def differences(function: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    """(result..., argument...)"""
    basis = np.eye(x.size).reshape(x.size, *x.shape)
    columns = [(np.asarray(function(x + step * d)) - np.asarray(function(x - step * d))) / (2 * step) for d in basis]
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *x.shape)


@BOTH
def test_derivatives_of_each_element_by_each_element(jacobian: Any) -> None:
    expected = (1 - np.tanh(A @ X) ** 2)[:, None] * A
    np.testing.assert_allclose(jacobian(field)(X), expected, rtol=1e-12)
    np.testing.assert_allclose(tenon.jit(jacobian(field))(X), expected, rtol=1e-12)
    np.testing.assert_allclose(tenon.vmap(jacobian(field))(np.stack([0 * X, X]))[1], expected, rtol=1e-12)
    square = np.arange(4.0).reshape(2, 2) / 3
    np.testing.assert_allclose(
        jacobian(lambda m: tenon.cumsum(m @ m, axis=1))(square),
        differences(lambda m: np.cumsum(m @ m, axis=1), square),
        atol=1e-8,
    )


@BOTH
def test_trees_and_several_arguments(jacobian: Any) -> None:
    def function(p: Any, y: Any, *, scale: float) -> Any:
        return {"sum": (p["v"] * y).sum() * scale, "y": y[:2] * p["b"]}

    p = {"v": X, "b": np.array(3.0)}
    found = jacobian(function, argnums=(0, 1))(p, 2 * X, scale=10.0)
    np.testing.assert_allclose(found["sum"][0]["v"], 20 * X)
    np.testing.assert_allclose(found["sum"][0]["b"], 0)
    np.testing.assert_allclose(found["y"][0]["b"], 2 * X[:2])
    np.testing.assert_allclose(found["y"][1], 3 * np.eye(2, 4))
    assert jacobian(lambda x: x)(np.zeros((0, 2))).shape == (0, 2, 0, 2)
    assert jacobian(lambda x: x * 2, argnums=-1)(np.float64(3)) == 2


def test_hessians() -> None:
    def energy(x: Any) -> Any:
        return (field(x) ** 2).sum() + tenon.prod(x)

    found = tenon.hessian(energy)(X)
    np.testing.assert_allclose(found, differences(tenon.grad(energy), X), rtol=1e-6, atol=1e-7)
    (_, mixed), _ = tenon.hessian(lambda a, b: (a * b).sum() ** 2, argnums=(0, 1))(X, X)
    np.testing.assert_allclose(mixed, 2 * np.outer(X, X) + 2 * (X @ X) * np.eye(4))


@BOTH
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda j: j(lambda x: x > 0)(X), TypeError, "the result is of type tensor<4xi1> where floating-point"),
        (lambda j: j(lambda x: x)(np.arange(3)), TypeError, "an argument has tensor<3xi64> where floating-point"),
        (lambda j: j(field, 2)(X), ValueError, "argument 2 is asked for, but 1 are given"),
        (lambda j: j(3), TypeError, "a int is given where a function is needed"),
    ],
    ids=["result", "argument", "number", "no function"],
)
def test_what_has_no_jacobian(jacobian: Any, call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=re.escape(f"{jacobian.__name__}: {message}")):
        call(jacobian)


def test_loops_over_numbers() -> None:
    def total(lower: Any, upper: Any) -> Any:
        return tenon.fori_loop(lower, upper, lambda i, v: (v[0] + i, v[1] * 2), (0, np.float64(1)))

    for lower, upper in ((0, 5), (-2, 3), (3, 3), (5, 2)):
        expected = (sum(range(lower, upper)), 2.0 ** max(0, upper - lower))
        assert total(lower, upper) == expected
        assert total(np.int64(lower), np.int8(upper)) == expected
        assert tenon.jit(total)(lower, upper) == expected
    np.testing.assert_array_equal(tenon.vmap(lambda n: total(0, n)[0])(np.arange(5)), [0, 0, 1, 3, 6])
    slope = tenon.grad(lambda x: tenon.fori_loop(0, 3, lambda i, v: v * v, x))(np.float64(1.1))
    np.testing.assert_allclose(slope, 8 * 1.1**7)
    with pytest.raises(TypeError, match=r"fori_loop: the bounds are tensor<i64> and tensor<f32> where integers"):
        total(0, 1.5)
    with pytest.raises(tenon.GradientError, match="while_loop"):
        tenon.grad(lambda x: tenon.fori_loop(0, np.int64(3), lambda i, v: v * v, x))(np.float64(1.1))
