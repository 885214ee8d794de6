"""Functions with derivatives of their own, in JAX's form: what JAX's documentation shows, and what they refuse."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

import tenon
from tenon.passes.transform.differentiate import DifferentiatePass
from tenon.runtime.lower import new_context

X = np.random.default_rng(0).standard_normal(5)


@tenon.custom_jvp
def log1pexp(x: Any) -> Any:
    return tenon.log(1.0 + tenon.exp(x))


@log1pexp.defjvp
def _log1pexp_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + tenon.exp(x))) * x_dot


def test_a_derivative_that_does_not_overflow() -> None:
    """JAX's documentation: "Example: numerical stability"."""
    slope = tenon.grad(log1pexp)
    assert slope(100.0) == 1.0
    np.testing.assert_allclose(tenon.jit(slope)(1.0), 1 / (1 + np.exp(-1.0)), rtol=1e-6)
    np.testing.assert_allclose(tenon.vmap(tenon.jit(slope))(X), 1 / (1 + np.exp(-X)), rtol=1e-12)
    s = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(tenon.vmap(tenon.grad(slope))(X), s * (1 - s), rtol=1e-12)
    np.testing.assert_allclose(tenon.vmap(tenon.grad(tenon.grad(slope)))(X), s * (1 - s) * (1 - 2 * s), rtol=1e-12)
    np.testing.assert_allclose(tenon.jvp(log1pexp, (X,), (2 * X,))[1], s * 2 * X, rtol=1e-12)
    x = tenon.tensor(X, requires_grad=True)
    log1pexp(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), s, rtol=1e-12)
    np.testing.assert_allclose(log1pexp(X), np.log1p(np.exp(X)), rtol=1e-12)


def test_rules_that_call_the_function_have_derivatives_up_to_the_third() -> None:
    exponential = tenon.custom_vjp(lambda x: tenon.exp(x))
    exponential.defvjp(lambda x: (exponential(x),) * 2, lambda y, g: (g * y,))
    slope = exponential
    for _ in range(3):
        slope = tenon.grad(slope)
        np.testing.assert_allclose(slope(0.5), np.exp(0.5), rtol=1e-6)
    with pytest.raises(tenon.GradientError, match=r"this far, gradients of gradients have no rule"):
        tenon.grad(slope)(0.5)


def test_a_clipped_gradient() -> None:
    """JAX's documentation: "Example: gradient clipping", with bounds that are arguments without a gradient."""

    @tenon.custom_vjp
    def clip_gradient(lo: Any, hi: Any, x: Any) -> Any:
        return x

    def forward(lo: Any, hi: Any, x: Any) -> Any:
        return x, (lo, hi)

    def backward(res: Any, g: Any) -> Any:
        lo, hi = res
        return None, None, tenon.clip(g, lo, hi)

    clip_gradient.defvjp(forward, backward)
    slope = tenon.grad(lambda x: tenon.sum(3 * clip_gradient(-1.0, 0.5, tenon.sin(x)) * X))
    expected = np.clip(3 * X, -1, 0.5) * np.cos(X)
    np.testing.assert_allclose(slope(X), expected, rtol=1e-12)
    np.testing.assert_allclose(tenon.jit(slope)(X), expected, rtol=1e-12)
    low, high, _ = tenon.grad(lambda *a: tenon.sum(clip_gradient(*a)), (0, 1, 2))(-1.0, 1.0, X)
    assert (low, high) == (0, 0)
    x = tenon.tensor(X, requires_grad=True)
    (3 * clip_gradient(hi=0.5, x=x.sin(), lo=-1.0) * X).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


def test_arguments_that_are_functions() -> None:
    """JAX's documentation: "Example: `jax.custom_vjp` with `nondiff_argnums`"."""

    @partial(tenon.custom_vjp, nondiff_argnums=(0,))
    def app(f: Any, x: Any) -> Any:
        return f(x)

    def forward(f: Any, x: Any) -> Any:
        return f(x), x

    def backward(f: Any, x: Any, g: Any) -> Any:
        return (5 * g * f(x),)

    app.defvjp(forward, backward)
    np.testing.assert_allclose(tenon.grad(lambda x: app(lambda y: y**2, x))(4.0), 80.0)
    np.testing.assert_allclose(tenon.grad(tenon.grad(lambda x: app(lambda y: y**2, x)))(4.0), 5 * 8.0)

    @partial(tenon.custom_jvp, nondiff_argnames="f")
    def other(x: Any, f: Any = None) -> Any:
        return f(x)

    @other.defjvp
    def _(f: Any, primals: Any, tangents: Any) -> Any:
        return f(*primals), 2.0 * tangents[0]

    np.testing.assert_allclose(tenon.grad(lambda x: other(x, f=tenon.sin))(3.0), 2.0)
    np.testing.assert_allclose(other(3.0, tenon.sin), np.sin(3.0), rtol=1e-6)


def test_a_fixed_point_whose_gradient_is_another_one() -> None:
    """JAX's documentation: "Example: implicit function differentiation of iterative implementations". The loop of the
    forward pass is there once, though the rule runs it as well."""

    def iterate(step: Any, parameters: Any, guess: Any) -> Any:
        def goes_on(state: Any) -> Any:
            before, now = state
            return tenon.abs(before - now) > 1e-13

        def body(state: Any) -> Any:
            return state[1], step(parameters, state[1])

        return tenon.while_loop(goes_on, body, (guess, step(parameters, guess)))[1]

    fixed_point = tenon.custom_vjp(iterate, nondiff_argnums=(0,))

    def forward(step: Any, parameters: Any, guess: Any) -> Any:
        found = iterate(step, parameters, guess)
        return found, (parameters, found)

    def backward(step: Any, res: Any, g: Any) -> Any:
        parameters, found = res

        def rev_iter(packed: Any, u: Any) -> Any:
            parameters, found, g = packed
            return g + tenon.vjp(lambda x: step(parameters, x), found, cotangent=u)[1][0]

        turned = iterate(rev_iter, (parameters, found, g), g)
        return tenon.vjp(lambda p: step(p, found), parameters, cotangent=turned)[1][0], tenon.zeros_like(found)

    fixed_point.defvjp(forward, backward)

    def root(a: Any) -> Any:
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    two = np.float64(2.0)
    np.testing.assert_allclose(root(two), np.sqrt(2), rtol=1e-12)
    np.testing.assert_allclose(tenon.grad(root)(two), 0.5 / np.sqrt(2), rtol=1e-10)
    both = tenon.jit(tenon.value_and_grad(root))
    np.testing.assert_allclose(both(two), (np.sqrt(2), 0.5 / np.sqrt(2)), rtol=1e-10)
    assert str(both.lower(two)).count("scf.while") == 2


def test_trees_and_integers() -> None:
    @tenon.custom_vjp
    def looked_up(tables: Any, place: Any) -> Any:
        return {"row": tables["a"][place] * tables["b"], "place": place}

    def forward(tables: Any, place: Any) -> Any:
        return looked_up(tables, place), (tables, place)

    def backward(res: Any, g: Any) -> Any:
        assert g["place"] is None
        return {"a": None, "b": 10 * g["row"] * res[0]["a"][res[1]]}, None

    looked_up.defvjp(forward, backward)
    tables = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(3)}
    slopes = tenon.grad(lambda t, i: looked_up(t, i)["row"].sum())(tables, 1)
    np.testing.assert_array_equal(slopes["a"], np.zeros((2, 3)))
    np.testing.assert_array_equal(slopes["b"], 10 * tables["a"][1])
    batched = tenon.vmap(tenon.grad(lambda t, i: looked_up(t, i)["row"].sum()), in_axes=(None, 0))(tables, np.arange(2))
    np.testing.assert_array_equal(batched["b"], 10 * tables["a"])
    assert looked_up(tables, 0)["place"] == 0


def test_derivatives_of_single_arguments_and_pairs() -> None:
    @tenon.custom_jvp
    def product(x: Any, y: Any) -> Any:
        return x * y

    product.defjvps(lambda dx, value, x, y: 3 * dx * y, None)
    first, second = tenon.grad(lambda x, y: product(x, y).sum(), (0, 1))(X, 2 * X)
    np.testing.assert_allclose(first, 6 * X, rtol=1e-12)
    np.testing.assert_array_equal(second, 0 * X)

    @tenon.custom_gradient
    def scaled(x: Any) -> Any:
        return x**2, lambda g: (g * x,)

    np.testing.assert_allclose(tenon.grad(scaled)(3.0), 3.0)
    np.testing.assert_allclose(tenon.grad(tenon.grad(scaled))(3.0), 1.0)
    np.testing.assert_allclose(scaled(3.0), 9.0)
    wide = tenon.tensor(X, requires_grad=True)
    (scaled(wide) * 2).sum().backward()
    np.testing.assert_allclose(wide.grad.numpy(), 2 * X, rtol=1e-12)


def test_dtypes_are_those_of_the_arguments() -> None:
    @tenon.custom_vjp
    def twice(x: Any) -> Any:
        return x * 2.0

    twice.defvjp(lambda x: (x * 2.0, None), lambda _, g: (tenon.cast(g, dtype="f64") * 3.0,))
    for dtype in (np.float16, np.float32, np.float64):
        x = X.astype(dtype)
        assert twice(x).dtype == dtype
        slope = tenon.grad(lambda x: twice(x).sum())(x)
        assert slope.dtype == dtype
        np.testing.assert_array_equal(slope, np.full(5, 3, dtype))
    assert (twice(2.0) * np.float64(1)).dtype == np.float64


def ruled(backward: Any, function: Any = lambda x, y: x * y) -> Any:
    def product(x: Any, y: Any) -> Any:
        return function(x, y)

    made = tenon.custom_vjp(product)
    made.defvjp(lambda x, y: (x * y, None), backward)
    return tenon.grad(lambda x, y: made(x, y).sum())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ruled(lambda _, g: (g,))(X, X), TypeError, r"^product: the rule gives 1 gradients where a tuple of 2"),
        (lambda: ruled(lambda _, g: g)(X, X), TypeError, r"^product: the rule gives a Value where a tuple of 2"),
        (lambda: ruled(lambda _, g: (g[:2], g))(X, X), ValueError, r"^product: the gradient of argument 0 has shape"),
        (lambda: ruled(lambda _, g: ({"a": g}, g))(X, X), TypeError, r"^product: the gradient of argument 0 is a dict"),
        (
            lambda: ruled(lambda _, g: ("no", g))(X, X),
            TypeError,
            r"^product: the gradient of argument 0 is a str\(\), which has not",
        ),
        (
            lambda: tenon.grad(lambda x: ruled_around(x)(x).sum())(X),
            tenon.GradientError,
            r"^a function with a gradient of its own reads a value from around it .* make it an argument",
        ),
        (lambda: tenon.grad(tenon.custom_vjp(abs))(1.0), AttributeError, r"^custom_vjp: abs has no rule; give one by"),
        (lambda: tenon.grad(tenon.custom_jvp(abs))(1.0), AttributeError, r"^custom_jvp: abs has no rule; give one by"),
        (
            lambda: tenon.custom_vjp(lambda x: x, nondiff_argnames="y"),
            ValueError,
            r"^custom_vjp: <lambda> has no argument 'y'",
        ),
        (lambda: tenon.custom_vjp(3), TypeError, r"^custom_vjp: a int is given where a function is needed"),  # pyright: ignore[reportArgumentType]
        (lambda: log1pexp(1.0, 2.0), TypeError, r"^log1pexp: too many positional arguments"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_rule_that_fails_is_an_error_where_a_gradient_is_asked_for() -> None:
    def refusing(_: Any, g: Any) -> Any:
        raise NotImplementedError("no gradient here")

    lacking = tenon.custom_vjp(lambda x, y: x * y)
    lacking.defvjp(lambda x, y: (x * y, None), refusing)
    np.testing.assert_array_equal(tenon.jit(lambda x: lacking(x, x + 1) * 2)(X), X * (X + 1) * 2)
    np.testing.assert_array_equal(tenon.grad(lambda x: (lacking(X, X) + x).sum())(X), np.ones_like(X))
    with pytest.raises(NotImplementedError, match="no gradient here"):
        tenon.grad(lambda x: lacking(x, x).sum())(X)
    mapped = tenon.jit(tenon.vmap(lacking))
    module = Parser(new_context(), str(mapped.trace(X, X))).parse_module()
    with pytest.raises(PassFailedException, match="<lambda>: its rule failed: NotImplementedError: no gradient here"):
        DifferentiatePass().apply(new_context(), module)


def ruled_around(outer: Any) -> Any:
    made = tenon.custom_vjp(lambda x: x * outer)
    made.defvjp(lambda x: (x * outer, outer), lambda outer, g: (g * outer,))
    return made


def test_what_it_reads_from_around_may_be_constant() -> None:
    np.testing.assert_allclose(tenon.grad(lambda x: ruled_around(X)(x).sum())(X), X, rtol=1e-12)
    np.testing.assert_allclose(
        tenon.jit(lambda y, x: tenon.grad(lambda x: ruled_around(y)(x).sum())(x))(2 * X, X), 2 * X, rtol=1e-12
    )
    rows = np.stack([X, 3 * X])
    batched = tenon.vmap(lambda y: tenon.grad(lambda x: ruled_around(y)(x).sum())(X))(rows)
    np.testing.assert_allclose(batched, rows, rtol=1e-12)
    np.testing.assert_allclose(tenon.vmap(lambda y: ruled_around(y)(X))(rows), rows * X, rtol=1e-12)
    around = tenon.tensor(X, requires_grad=True)
    x = tenon.tensor(X, requires_grad=True)
    with pytest.raises(tenon.GradientError, match="make it an argument"):
        ruled_around(around)(x).sum().backward()


def test_a_rule_that_takes_the_place_of_another_is_noticed() -> None:
    of_vjp, of_jvp = tenon.custom_vjp(lambda x: x * x), tenon.custom_jvp(lambda x: x * x)
    of_vjp.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    of_jvp.defjvp(lambda primals, tangents: (of_jvp(*primals), 2 * primals[0] * tangents[0]))
    compiled = [tenon.jit(tenon.grad(lambda x, f=f: f(x) * 1.0)) for f in (of_vjp, of_jvp)]
    assert [float(slope(3.0)) for slope in compiled] == [6.0, 6.0]
    of_vjp.defvjp(lambda x: (x * x, x), lambda x, g: (7 * x * g,))
    of_jvp.defjvp(lambda primals, tangents: (of_jvp(*primals), 7 * primals[0] * tangents[0]))
    assert [float(slope(3.0)) for slope in compiled] == [21.0, 21.0]
