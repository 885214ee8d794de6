"""`map` and `vectorize`: functions of one element along arrays; and what is linear, forward and transposed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenon

X = np.arange(12.0).reshape(4, 3)
GENERATOR = np.random.default_rng(0)
M, V = GENERATOR.standard_normal((5, 1, 3, 4)), GENERATOR.standard_normal((2, 4))


def both(element: Any) -> Any:
    return {"squares": (element["x"] ** 2).sum(), "next": element["y"] + 1}


def test_functions_of_the_leaves_of_trees() -> None:
    params, slopes = {"w": X, "rest": (X[0], 2)}, {"rest": [V[0], 4], "w": V}
    found = tenon.tree_map(lambda p, g: p.sum() - g if isinstance(p, np.ndarray) else p + g, params, slopes)
    assert isinstance(found["rest"], tuple)
    assert found["rest"][1] == 6
    np.testing.assert_array_equal(found["w"], X.sum() - V)
    model: Any = tenon.nn.Linear(3, 2)
    slope = tenon.grad(lambda model: (model(X) ** 2).sum())(model)
    stepped = tenon.jit(lambda m, g: tenon.tree_map(lambda p, g: p - 0.1 * g, m, g))(model, slope)
    np.testing.assert_allclose(stepped.weight, model.weight - 0.1 * slope.weight, rtol=1e-6)
    assert tenon.tree_map(lambda x: x + 1, (1, None)) == (2, None)
    with pytest.raises(ValueError, match=r"^tree_map: b is in one of tree and rest\[0\], and not in the other"):
        tenon.tree_map(lambda p, g: p, {"a": 1, "b": 2}, {"a": 1})


def test_a_function_without_aux_is_named() -> None:
    with pytest.raises(TypeError, match=r"^grad: <lambda> must return \(value, aux\), as has_aux says, but"):
        tenon.grad(lambda x: (x.sum(), x, x), has_aux=True)(X)


@pytest.mark.parametrize("batch_size", [None, 1, 3, 4, 7])
def test_map_is_a_loop(batch_size: int | None) -> None:
    xs = {"x": X, "y": np.arange(4)}
    for found in (
        tenon.map(both, xs, batch_size=batch_size),
        tenon.jit(lambda xs: tenon.map(both, xs, batch_size=batch_size))(xs),
    ):
        np.testing.assert_allclose(found["squares"], (X**2).sum(1))
        np.testing.assert_array_equal(found["next"], np.arange(4) + 1)


def test_map_has_gradients_and_batches() -> None:
    x: Any = tenon.tensor(X, requires_grad=True)
    tenon.map(lambda row: (row**3).sum(), x, batch_size=3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)
    np.testing.assert_allclose(tenon.vmap(lambda x: tenon.map(lambda row: row * 2, x))(X), 2 * X)
    assert tenon.map(lambda row: row * 2, np.zeros((0, 2)), batch_size=2).shape == (0, 2)


def _clipped(a: Any, b: Any) -> Any:
    return tenon.cond(a > b, lambda: a - b, lambda: b * 2)


def _product(matrix: Any, vector: Any) -> Any:
    return matrix @ vector


def test_vectorize_goes_along_all_that_broadcasts() -> None:
    a, b = np.array([1.0, 5.0, 3.0])[:, None], np.array([2.0, 4.0])
    np.testing.assert_allclose(tenon.vectorize(_clipped)(a, b), np.where(a > b, a - b, b * 2))
    assert tenon.vectorize(_clipped)(np.ones((1, 1)), np.ones(1)).shape == (1, 1)
    assert float(tenon.vectorize(_clipped)(1.0, 2.0)) == 4.0
    product = tenon.vectorize(_product, signature="(m,n),(n)->(m)")
    np.testing.assert_allclose(product(M, V), np.vectorize(_product, signature="(m,n),(n)->(m)")(M, V))
    np.testing.assert_allclose(tenon.jit(product)(M[0, 0], V[0]), M[0, 0] @ V[0])
    largest, doubled = tenon.vectorize(lambda x: (x.max(), x * 2), signature="(n)->(),(n)")(V)
    np.testing.assert_array_equal(largest, V.max(1))
    np.testing.assert_array_equal(doubled, V * 2)
    power = tenon.vectorize(lambda x, p, *, less: x**p - less, excluded={1, "less"})
    np.testing.assert_allclose(power(tenon.tensor(V), 2, less=1.0), V**2 - 1)
    slopes: Any = tenon.grad(lambda x: tenon.vectorize(lambda a, b: a * b)(x, x[:, None]).sum())(V[0])
    np.testing.assert_allclose(slopes, np.full(4, 2 * V[0].sum()))


def test_linear_functions_forward_and_transposed() -> None:
    value, push = tenon.linearize(lambda x, y: x * y + x, 2.0, 3.0)
    assert [float(number) for number in (value, push(1.0, 0.0), push(0.0, 1.0))] == [8.0, 4.0, 2.0]
    transposed = tenon.linear_transpose(lambda x, y: M[0, 0] @ x + y, np.empty(4), np.empty(3))
    to_x, to_y = transposed(np.arange(3.0))
    np.testing.assert_allclose(to_x, np.arange(3.0) @ M[0, 0])
    np.testing.assert_array_equal(to_y, np.arange(3.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tenon.map(both, 1.0), "map: among xs there is a number, which has no slices"),
        (lambda: tenon.map(both, []), "map: xs has no arrays"),
        (lambda: tenon.map(both, (X, X[:2])), "map: the arrays of xs have sizes 4, 2 along axis 0"),
        (lambda: tenon.map(both, X, batch_size=0), "map: batch_size is 0 where 1 or more is needed"),
        (lambda: tenon.vectorize(both, signature="(a)"), "vectorize: signature is '(a)' where one as"),
        (lambda: tenon.vectorize(_product, signature="(m,n),(n)->(m)")(M, V[:, :3]), "n of (m,n),(n)->(m) is 4 and"),
        (lambda: tenon.vectorize(_product, signature="(n),(n)->()")(M), "there are 1 arguments, and the signature"),
        (lambda: tenon.vectorize(both, signature="(n)->()")(1.0), "argument 0 has rank 0, too few axes for (n)->()"),
        (lambda: tenon.vectorize(tenon.exp, signature="(n)->()")(V), "ranks of the results are [1], and the signature"),
        (lambda: tenon.vectorize(_clipped)(X, V), "arguments have shapes (4, 3), (2, 4), which do not broadcast"),
        (lambda: tenon.vectorize(_clipped)(a=1), "argument 'a' is given by name and is not excluded"),
        (lambda: tenon.linearize(tenon.exp, 1.0)[1](), "there are 0 tangents where there are 1 primals"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call()
