"""A float of Python's beside f64 arrays is exact, and changes no dtype: as argument as it is as literal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon

U = np.ones(3)
ARGUMENT = {
    "product": lambda u, k: u * k,
    "computed with": lambda u, k: u * ((k + 1) / 11),
    "cast": lambda u, k: u * tenon.cast(k, "f64"),
    "in a tree": lambda u, k: tenon.jit(lambda t: t["u"] * t["k"][0])({"u": u, "k": (k,)}),
    "to a transformed function": lambda u, k: tenon.grad(lambda v, c: (v * c).sum())(u, k),
    "differentiated": lambda u, k: u * tenon.grad(lambda c: (u * c * c).sum())(k),
    "mapped": lambda u, k: tenon.vmap(lambda v, c: v * c, in_axes=(0, None))(u, k),
}


@pytest.mark.parametrize("name", ARGUMENT)
def test_is_exact(name: str) -> None:
    """Given as an argument, and in a call by native code, it is what it is as a literal."""
    function = ARGUMENT[name]
    exact = {"computed with": (0.1 + 1) / 11, "differentiated": 0.6}.get(name, 0.1)
    compiled = tenon.jit(function)
    for _ in range(4):
        result = compiled(U, 0.1)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, np.full(3, exact), rtol=4e-16)
    np.testing.assert_array_equal(tenon.jit(lambda u, k: u * k)(U, 0.3), np.full(3, 0.3))
    np.testing.assert_allclose(tenon.jit(lambda u: function(u, 0.1))(U), np.full(3, exact), rtol=4e-16)


@pytest.mark.parametrize("within", [lambda f: f, tenon.jit], ids=["outside of a trace", "in a trace"])
def test_is_exact_in_transformations(within: Any) -> None:
    """Also where they compile and run at once, and with respect to the float itself."""

    def product(k: Any, u: Any) -> Any:
        return (k * u).sum()

    def results(k: Any, u: Any) -> Any:
        return (
            tenon.value_and_grad(product, 0)(k, u),
            tenon.value_and_grad(product, 1)(k, u)[0],
            tenon.vjp(product, k, u, cotangent=1.0)[0],
            tenon.jvp(product, (k, u), (0.3, np.zeros(3))),
            tenon.vmap(lambda v, c: v * c, in_axes=(0, None))(u, k).sum(),
            tenon.cond(True, product, lambda k, u: u[0], k, u),
            tenon.checkpoint(product)(k, u),
        )

    (value, slope), *values, pushed, mapped, chosen, kept = within(results)(0.1, U)
    values += [value, pushed[0], mapped, chosen, kept]
    np.testing.assert_allclose(values, np.full(len(values), 0.3), rtol=4e-16)
    assert slope == 3
    np.testing.assert_allclose(pushed[1], 0.9, rtol=4e-16)


def test_changes_no_dtype() -> None:
    def function(x: Any, u: Any, k: float) -> Any:
        return x * k, u * k, k, k + 1

    dtypes = [r.dtype for r in tenon.jit(function)(np.ones(2, np.float32), U, 0.1)]
    assert dtypes == [np.float32, np.float64, np.float32, np.float32]
    dtypes = [r.dtype for r in tenon.jit(function)(np.ones(2, np.float32), np.ones(3, np.float32), 0.1)]
    assert dtypes == [np.float32] * 4
    for x in (np.ones(2, np.float32), U):
        assert tenon.grad(lambda k, x: (x * k).sum())(0.1, x).dtype == np.float32
        assert tenon.jit(lambda x: tenon.grad(lambda k: k * k)(0.1))(x).dtype == np.float32


def test_frozen_and_compiled() -> None:
    product = tenon.jit(lambda k, u: u * k)
    np.testing.assert_array_equal(product.freeze(0.1)(U), np.full(3, 0.1))
    assert product.freeze(0.1)(np.ones(2, np.float32)).dtype == np.float32
    compiled = product.compile(0.5, U)
    np.testing.assert_array_equal(compiled(0.1, U), np.full(3, 0.1))
    for_f32 = product.compile(tenon.ShapeDtype((), "f32"), U)
    np.testing.assert_array_equal(for_f32(0.1, U), np.full(3, np.float32(0.1)))
    with pytest.raises(TypeError, match=r"k is f64\[\] where float is needed"):
        compiled(np.float64(0.1), U)


def test_cast_of_a_literal() -> None:
    assert tenon.cast(0.1, "f64") == 0.1
    assert tenon.jit(lambda u: u * tenon.cast(0.1, "f64"))(U)[0] == 0.1


def test_numbers_that_do_not_fit() -> None:
    product = tenon.jit(lambda u, k: u * k)
    with pytest.raises(OverflowError, match=r"argument k: 9223372036854775808 does not fit into i64"):
        product(U, 2**63)
    with pytest.raises(TypeError, match="complex"):
        product(U, 1 + 2j)
    np.testing.assert_array_equal(product(U, 1e300), np.full(3, 1e300))
    np.testing.assert_array_equal(product(U, 2**40), np.full(3, 2.0**40))
    np.testing.assert_array_equal(product(U, True), U)
