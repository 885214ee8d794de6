"""Gradients: `grad`, `value_and_grad`, `vjp`, `jvp`, of any order, against central differences in float64."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.arguments.tree import static_field


def doubles(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def central_difference(function: Callable[..., Any], arguments: list[np.ndarray], position: int) -> np.ndarray:
    """The gradient of the scalar `function` with respect to one argument, by central differences."""
    step = 1e-6
    flat = arguments[position].reshape(-1)
    gradient = np.empty(flat.size)
    for i in range(flat.size):
        values = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[i] += sign * step
            given = list(arguments)
            given[position] = moved.reshape(arguments[position].shape)
            values.append(float(function(*given)))
        gradient[i] = (values[0] - values[1]) / (2 * step)
    return gradient.reshape(arguments[position].shape)


def assert_gradients(function: Callable[..., Any], *arguments: np.ndarray) -> None:
    """Every gradient of the scalar `function` agrees with central differences of its jitted self."""
    positions = tuple(range(len(arguments)))
    found = tenon.grad(function, positions)(*arguments)
    jitted = tenon.jit(function)
    for position, gradient in zip(positions, found, strict=True):
        assert gradient.shape == arguments[position].shape
        expected = central_difference(jitted, list(arguments), position)
        np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=2e-6)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "broadcast": (lambda x, y: tenon.sum(x * y / (1.5 + tenon.sin(y))), [doubles(4, 1, 3), doubles(2, 1, seed=1)]),
    "matmul": (lambda x, w: tenon.sum(tenon.tanh(x @ w)), [doubles(3, 4), doubles(4, 2, seed=1)]),
    "softmax": (lambda x, t: tenon.sum(tenon.softmax(x) * t), [doubles(3, 5), doubles(3, 5, seed=1)]),
    "used twice": (lambda x: tenon.sum(x * tenon.exp(x) + x), [doubles(5)]),
    "unused": (lambda x, y: tenon.sum(x * 2.0), [doubles(3), doubles(2)]),
    "reshaped": (lambda x: tenon.sum(x.reshape((2, 6)).T[1:4] * 3.0), [doubles(3, 4)]),
    "reduced": (lambda x: tenon.sum(tenon.max(x, axis=1) * tenon.mean(x, axis=1)), [doubles(4, 5)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_agrees_with_central_differences(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    assert_gradients(function, *arguments)


def test_higher_orders_of_a_polynomial() -> None:
    derivative: Any = lambda x: x * x * x * x  # noqa: E731
    for expected in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0, 0.0):
        derivative = tenon.grad(derivative)
        assert float(derivative(np.float64(1.5))) == pytest.approx(expected)


def test_second_order_of_a_network() -> None:
    x = doubles(3, 2)

    def penalty(w: Any) -> Any:
        slopes = tenon.grad(lambda x: tenon.sum(tenon.tanh(x @ w)))(x)
        return tenon.sum(slopes * slopes)

    assert_gradients(penalty, doubles(2, 4, seed=1))


def test_perturbations_are_not_confused() -> None:
    # d/dx (x * d/dy (x + y)) = 1: Siskind and Pearlmutter, "Nesting forward-mode AD in a functional framework", 2008.
    assert float(tenon.grad(lambda x: x * tenon.grad(lambda y: x + y)(1.0))(1.0)) == 1.0
    assert float(tenon.grad(lambda x: tenon.grad(lambda y: x * y)(x))(3.0)) == 1.0
    assert float(tenon.grad(lambda x: x * tenon.grad(lambda x: x * x * x)(x))(2.0)) == 36.0


def test_closure_over_traced_values() -> None:
    @tenon.jit
    def outer(x: Any, y: Any) -> Any:
        shifted = tenon.exp(x)
        return tenon.grad(lambda z: tenon.sum(z * shifted + y * z * z))(y)

    x, y = doubles(3), doubles(3, seed=1)
    np.testing.assert_allclose(outer(x, y), np.exp(x) + 2 * y * y, rtol=1e-12)


def test_value_and_aux() -> None:
    def loss(w: Any, x: Any) -> Any:
        y = x * w
        return tenon.sum(y), {"y": y}

    w, x = doubles(3), doubles(3, seed=1)
    (value, aux), gradient = tenon.value_and_grad(loss, has_aux=True)(w, x)
    assert float(value) == pytest.approx((w * x).sum())
    np.testing.assert_allclose(aux["y"], w * x)
    np.testing.assert_allclose(gradient, x)
    gradient, aux = tenon.grad(loss, has_aux=True)(w, x)
    np.testing.assert_allclose(gradient, x)


@dataclass
class Affine:
    weight: Any
    bias: Any
    steps: Any
    name: str = static_field("affine")


def test_gradient_has_the_tree_of_the_argument() -> None:
    x = doubles(4)
    model: dict[str, Any] = {
        "layer": Affine(doubles(4, seed=1), np.float64(0.5), np.arange(3)),
        "scale": [np.float64(2.0)],
    }

    def loss(model: Any) -> Any:
        layer = model["layer"]
        assert layer.name == "affine"
        return tenon.sum(layer.weight * x + layer.bias) * model["scale"][0]

    gradient = tenon.grad(loss)(model)
    np.testing.assert_allclose(gradient["layer"].weight, x * 2)
    assert float(gradient["layer"].bias) == 8.0
    assert gradient["layer"].steps is None
    assert float(gradient["scale"][0]) == pytest.approx((model["layer"].weight * x).sum() + 2.0)


def test_several_arguments_and_negative_positions() -> None:
    x, y = doubles(2), doubles(2, seed=1)
    first, second = tenon.grad(lambda x, y: tenon.sum(x * x * y), (0, -1))(x, y)
    np.testing.assert_allclose(first, 2 * x * y)
    np.testing.assert_allclose(second, x * x)


def test_keyword_arguments_are_constants() -> None:
    gradient = tenon.grad(lambda x, *, factor: tenon.sum(x * factor))(doubles(2), factor=3.0)
    np.testing.assert_array_equal(gradient, [3.0, 3.0])


def test_vjp_takes_the_users_cotangent() -> None:
    x, w = doubles(3, 4), doubles(4, 2, seed=1)
    seed = doubles(3, 2, seed=2)
    value, pull_back = tenon.vjp(lambda x, w: x @ w, x, w)
    np.testing.assert_allclose(value, x @ w)
    for gradients in (pull_back(seed), tenon.vjp(lambda x, w: x @ w, x, w, cotangent=seed)[1]):
        np.testing.assert_allclose(gradients[0], seed @ w.T)
        np.testing.assert_allclose(gradients[1], x.T @ seed)


def test_vjp_of_a_tree() -> None:
    x = doubles(3)
    value, pull_back = tenon.vjp(lambda x: {"a": tenon.sin(x), "n": tenon.argmax(x, axis=0)}, x)
    assert set(value) == {"a", "n"}
    (gradient,) = pull_back({"a": np.ones(3), "n": None if False else np.int64(0)})
    np.testing.assert_allclose(gradient, np.cos(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_agrees_with_the_gradient(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    tangents = [doubles(*a.shape, seed=7 + i) for i, a in enumerate(arguments)]
    value, tangent = tenon.jvp(function, arguments, tangents)
    gradients = tenon.grad(function, tuple(range(len(arguments))))(*arguments)
    expected = sum(float((g * t).sum()) for g, t in zip(gradients, tangents, strict=True))
    assert float(value) == pytest.approx(float(tenon.jit(function)(*arguments)))
    assert float(tangent) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_jvp_of_many_outputs() -> None:
    x, t = doubles(4), doubles(4, seed=1)
    value, tangent = tenon.jvp(lambda x: (tenon.exp(x), x * 2.0), (x,), (t,))
    np.testing.assert_allclose(value[0], np.exp(x))
    np.testing.assert_allclose(tangent[0], np.exp(x) * t)
    np.testing.assert_allclose(tangent[1], 2 * t)


def test_jvp_of_grad_is_a_hessian_vector_product() -> None:
    x, t = doubles(3), doubles(3, seed=1)
    _, product = tenon.jvp(tenon.grad(lambda x: tenon.sum(x * x * x)), (x,), (t,))
    np.testing.assert_allclose(product, 6 * x * t)


@pytest.mark.parametrize("kind", [lambda f: f, tenon.jit, tenon.checkpoint])
def test_what_hangs_on_stopped_gradients_needs_none(kind: Any) -> None:
    """A loop of unknown length, with what it begins and what it reads from around it, alone and in a step of a scan."""

    def doubled(x: Any) -> Any:
        known = tenon.stop_gradient(x)
        return tenon.while_loop(lambda s: s < 10, lambda s: s * 2 * known, known)

    slope = tenon.grad(kind(lambda x: x * doubled(x)))
    np.testing.assert_allclose(slope(np.float64(1.5)), 1.5 * 3**2)
    steps = tenon.grad(lambda x: kind(lambda x: tenon.scan(lambda c, _: (c * doubled(x) + c, None), x, length=2)[0])(x))
    np.testing.assert_allclose(steps(np.float64(1.5)), (1.5 * 3**2 + 1) ** 2)
    for step in (lambda x: lambda s: s * 2, lambda x: lambda s: tenon.cond(s > 2, lambda: s * 2, lambda: s + x)):
        with pytest.raises(tenon.GradientError, match="while_loop"):
            tenon.grad(kind(lambda x: x * tenon.while_loop(lambda s: s < 9, step(x), x)))(np.float64(1.5))  # noqa: B023


@pytest.mark.parametrize("kind", [lambda f: f, tenon.jit, tenon.checkpoint])
def test_what_is_stopped_within_a_loop_needs_none(kind: Any) -> None:
    """Also behind other ops, and in functions within the function of the loop."""

    def search(x: Any, number: int) -> Any:
        steps = [
            lambda s: s + tenon.stop_gradient(x),
            lambda s: s + tenon.stop_gradient(x * 2) * 0.5,
            lambda s: s + tenon.cond(s < x, lambda: s, lambda: tenon.stop_gradient(x)),
        ]
        return tenon.while_loop(lambda s: s < x * 2, steps[number], tenon.stop_gradient(x))

    for number in range(3):
        slope = tenon.grad(kind(lambda x, number=number: x * x * search(x, number)))
        np.testing.assert_allclose(slope(np.float32(1.5)), 2 * 1.5 * 3)


def test_stop_gradient() -> None:
    x = doubles(3)
    np.testing.assert_allclose(tenon.grad(lambda x: tenon.sum(tenon.stop_gradient(x) * x))(x), x)
    np.testing.assert_array_equal(tenon.grad(lambda x: tenon.sum(tenon.stop_gradient(x * x)))(x), np.zeros(3))


def test_integers_on_the_way_have_no_gradient() -> None:
    x = doubles(6)
    gradient = tenon.grad(lambda x: tenon.sum(x * tenon.cast(tenon.argmax(x, axis=0), dtype="f64")))(x)
    np.testing.assert_array_equal(gradient, np.full(6, float(x.argmax())))


def test_float32_stays_float32() -> None:
    x = doubles(3).astype(np.float32)
    assert tenon.grad(lambda x: tenon.sum(tenon.exp(x) * 2.0))(x).dtype == np.float32


def test_gradient_of_nothing_is_zero() -> None:
    np.testing.assert_array_equal(tenon.grad(lambda x: tenon.sum(x))(np.zeros((0, 3))), np.zeros((0, 3)))
    assert float(tenon.grad(lambda x: 3.0)(2.0)) == 0.0


def test_jit_of_grad_is_one_program() -> None:
    traced = tenon.jit(tenon.value_and_grad(lambda x: tenon.sum(tenon.sin(x)))).trace(doubles(3))
    text = str(traced)
    assert "tenon.cos" in text
    assert text.count("func.func") == 1


# --- errors ---------------------------------------------------------------------------------------


def test_errors_of_grad() -> None:
    x = doubles(3)
    with pytest.raises(
        TypeError, match="grad: square must return one floating-point number, but its result is of type"
    ):
        tenon.grad(square)(x)
    with pytest.raises(TypeError, match="must return one floating-point number, but its result is a tuple"):
        tenon.grad(lambda x: (x, x))(x)
    with pytest.raises(ValueError, match="grad: argument 1 is asked for, but 1 are given"):
        tenon.grad(square, 1)(x)
    with pytest.raises(TypeError, match=r"grad: argument 0 has nothing floating-point .*tensor<i64>"):
        tenon.grad(lambda n: n * 2.0)(3)


def square(x: Any) -> Any:
    return x * x


def test_errors_of_vjp_and_jvp() -> None:
    x = doubles(3)
    _, pull_back = tenon.vjp(square, x)
    with pytest.raises(ValueError, match=r"vjp: cotangent: value has shape \(2,\) where \(3,\) is needed"):
        pull_back(doubles(2))
    with pytest.raises(ValueError, match="vjp: cotangent is a tuple"):
        pull_back((doubles(3), doubles(3)))
    single = np.ones(3, np.float32)
    for pulled in (
        lambda: pull_back(single),
        lambda: tenon.vjp(square, x, cotangent=single),
        lambda: tenon.jit(lambda x, c: tenon.vjp(square, x)[1](c))(x, single),
    ):
        with pytest.raises(
            TypeError, match="vjp: cotangent: value has dtype f32 where f64, that of the value, is needed"
        ):
            pulled()
    with pytest.raises(ValueError, match="jvp: 1 primals and 2 tangents are given"):
        tenon.jvp(square, (x,), (x, x))
    with pytest.raises(ValueError, match=r"jvp: tangent: value has shape \(2,\)"):
        tenon.jvp(square, (x,), (doubles(2),))


def test_op_without_a_gradient_is_named_with_the_line() -> None:
    def loss(x: Any) -> Any:
        words = tenon.cast(x, dtype="i32")
        return tenon.sum(tenon.my_rounded(x)) + tenon.sum(tenon.cast(words, dtype="f64"))

    @tenon.tensor_op
    class RoundedOp(tenon.ElementwiseOp):
        """`x` to the next integer; it has no gradient."""

        name = "transform.my_rounded"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        traits = tenon.traits_def(tenon.NoGradient())

        @staticmethod
        def scalar(x: Any) -> Any:
            return tenon.floor(x + 0.5)

    with pytest.raises(tenon.GradientError, match=r"transform.my_rounded: has no gradient \(.*test_transform.py:\d+\)"):
        tenon.grad(loss)(doubles(3))
