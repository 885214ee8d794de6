"""Gradients where functions have a kink or overflow are those of PyTorch, written out here."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon

INF, NAN = np.inf, np.nan

KINKS: list[tuple[str, dict[str, Any], list[float], list[float]]] = [
    ("relu", {}, [0.0, -0.0, 1e-30], [0, 0, 1]),
    ("relu6", {}, [0.0, 6.0, 3.0], [0, 0, 1]),
    ("hardtanh", {}, [-1.0, 1.0, 0.0], [0, 0, 1]),
    ("leaky_relu", {}, [0.0, 1.0, -1.0], [0.01, 1, 0.01]),
    ("thresholded_relu", {}, [1.0, 1.1, -1.0], [0, 1, 0]),
    ("hardshrink", {}, [0.5, -0.5, 0.6], [0, 0, 1]),
    ("softshrink", {}, [0.5, -0.5, -0.6], [0, 0, 1]),
    ("hard_sigmoid", {"alpha": 1 / 6}, [-3.0, 3.0, 0.0], [0, 0, 1 / 6]),
    ("hard_swish", {}, [-3.0, 3.0, 0.0], [0, 1, 0.5]),
    ("elu", {"alpha": 0.7}, [0.0, 1e4, -1e4], [0.7, 1, 0]),
    ("celu", {"alpha": 0.7}, [0.0, 1e4, -1e4], [1, 1, 0]),
    ("selu", {}, [0.0, 1e4, -1e4], [1.7580993408473766, 1.0507009873554805, 0]),
    ("softsign", {}, [0.0], [1]),
    ("softplus", {}, [1e4, -1e4, 0.0], [1, 0, 0.5]),
    ("log_sigmoid", {}, [1e4, -1e4, 0.0], [0, 1, 0.5]),
    ("mish", {}, [1e4, -1e4, 0.0], [1, 0, 0.6]),
    ("silu", {}, [1e4, -1e4, 0.0], [1, 0, 0.5]),
    ("gelu", {}, [1e4, -1e4, 0.0], [1, 0, 0.5]),
    ("abs", {}, [0.0], [0]),
    ("sinc", {}, [0.0, 1.0], [0, -1]),
    ("cbrt", {}, [0.0], [INF]),
    ("nan_to_num", {}, [NAN, INF, -INF, 2.0], [0, 0, 0, 1]),
    ("logit", {"eps": 0.1}, [0.05, 0.5, 0.95], [0, 4, 0]),
    ("std", {}, [0.5, 0.5, 0.5], [0, 0, 0]),
    ("std", {"ddof": 1, "keepdims": True}, [-1.0, 1.0], [-(0.5**0.5), 0.5**0.5]),
    ("norm", {}, [0.0, 0.0], [0, 0]),
    ("norm", {"p": 1.0}, [0.0, -2.0], [0, -1]),
    ("norm", {"p": INF}, [2.0, -2.0, 1.0], [0.5, -0.5, 0]),
    ("norm", {"p": 0.5}, [0.0, 4.0], [0, 1]),
    ("max", {"start": 0.0}, [-1.0, -2.0], [0, 0]),
    ("max", {"start": 0.0}, [3.0, 3.0], [0.5, 0.5]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "settings", "x", "slopes"), KINKS, ids=lambda value: str(value)[:24])
def test_one_operand(name: str, settings: dict[str, Any], x: list[float], slopes: list[float], dtype: Any) -> None:
    gradient = tenon.grad(lambda v: tenon.sum(getattr(tenon, name)(v, **settings)))(np.array(x, dtype))
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gradients_in_half_precision_do_not_depend_on_what_it_keeps_of_the_result(dtype: Any) -> None:
    large = tenon.grad(lambda x: tenon.logsumexp(x))(np.full(3, 1000).astype(dtype))
    np.testing.assert_array_equal(large, np.full(3, 1 / 3).astype(dtype))
    many = tenon.grad(lambda x: tenon.max(x))(np.ones(70_000, dtype))
    np.testing.assert_array_equal(many, np.full(70_000, 1 / 70_000).astype(dtype))


PAIRS: list[tuple[str, list[float], list[float], list[float], list[float]]] = [
    ("hypot", [0.0, 3.0], [0.0, 4.0], [0, 0.6], [0, 0.8]),
    (
        "atan2",
        [0.0, -0.0, 3e-200, 0.0, 1e200],
        [0.0, 0.0, 4e-200, 5.0, 0.0],
        [0, 0, 16e198, 0.2, 0],
        [0, 0, -12e198, 0, -1e-200],
    ),
    ("logaddexp", [INF, -INF, 1.0], [INF, -INF, 1.0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    ("xlogy", [0.0, 0.0], [0.0, 2.0], [0, np.log(2)], [NAN, 0]),
    ("copysign", [0.0, -2.0], [-1.0, 3.0], [0, -1], [0, 0]),
    ("prelu", [0.0, -0.0, INF], [0.25, 0.25, 0.0], [0.25, 0.25, 1], [0, 0, 0]),
    ("l1_loss", [1.0, 2.0], [1.0, 1.0], [0, 0.5], [0, -0.5]),
    ("smooth_l1_loss", [1.0, 3.0], [0.0, 0.0], [0.5, 0.5], [-0.5, -0.5]),
]


@pytest.mark.parametrize(("name", "x", "y", "to_x", "to_y"), PAIRS, ids=[row[0] for row in PAIRS])
def test_two_operands(name: str, x: list[float], y: list[float], to_x: list[float], to_y: list[float]) -> None:
    gradients = tenon.grad(lambda a, b: tenon.sum(getattr(tenon, name)(a, b)), (0, 1))(np.array(x), np.array(y))
    for found, expected in zip(gradients, (to_x, to_y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_ops_without_a_gradient_say_so() -> None:
    for name in ("heaviside", "nextafter"):
        with pytest.raises(tenon.GradientError, match=f"tenon.{name}: has no gradient"):
            tenon.grad(lambda x, name=name: tenon.sum(getattr(tenon, name)(x, x)))(np.ones(3))
    with pytest.raises(tenon.GradientError, match=r"tenon.hardmax: has no gradient"):
        tenon.grad(lambda x: tenon.sum(tenon.hardmax(x)))(np.ones(3))


X, LABELS = np.ones((4, 3), np.float32), np.zeros(4, np.int64)


ZEROS = ([2.0, 3.0, 4.0, 5.0], [2.0, 0.0, 4.0, 5.0], [0.0, 3.0, 0.0, 5.0], [0.0, 3.0, 0.0, 0.0])


def _products(x: list[float], upto: int, without: set[int]) -> float:
    return float(np.prod([v for i, v in enumerate(x[:upto]) if i not in without]))


@pytest.mark.parametrize("x", ZEROS, ids=lambda x: f"{x.count(0.0)} zeros")
@pytest.mark.parametrize(("name", "lengths"), [("prod", [4]), ("cumprod", [1, 2, 3, 4])])
def test_derivatives_of_products_at_zeros(name: str, lengths: list[int], x: list[float]) -> None:
    """The first and second derivatives are products of the other elements, however many of them are zero."""
    weights, places = np.arange(1.0, len(lengths) + 1), range(len(x))

    def total(v: Any) -> Any:
        return tenon.sum(getattr(tenon, name)(v) * (weights if name == "cumprod" else 1.0))

    def derivative(*indices: int) -> float:
        each = [w * _products(x, n, {*indices}) for w, n in zip(weights, lengths, strict=True) if max(indices) < n]
        return sum(each) if len({*indices}) == len(indices) else 0.0

    np.testing.assert_allclose(tenon.grad(total)(np.array(x)), [derivative(i) for i in places], rtol=1e-14)
    for row in places:
        second = tenon.grad(lambda v, row=row: tenon.grad(total)(v)[row])(np.array(x))
        np.testing.assert_allclose(second, [derivative(row, i) for i in places], rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tenon.glu(np.ones(3)), "tenon.glu: dimension 0 of x is 3 where an even size is needed"),
        (lambda: tenon.celu(X, alpha=0.0), "tenon.celu: alpha is 0 where another number is needed"),
        (lambda: tenon.polygamma(X, order=0), "tenon.polygamma: order is 0 where a number from 1 to 20 is needed"),
        (
            lambda: tenon.nextafter(X.astype(np.float16), X.astype(np.float16)),
            "tenon.nextafter: dtype of x is f16 where one of f32, f64 is needed",
        ),
        (lambda: tenon.group_norm(X, groups=2), "tenon.group_norm: x has 3 channels, which 2 groups do not divide"),
        (lambda: tenon.instance_norm(X[0]), "tenon.instance_norm: x has shape (3,) where (n, channels, ...) is needed"),
        (
            lambda: tenon.rms_norm(X, np.ones(4, np.float32)),
            "tenon.rms_norm: weight has shape (4,), which does not broadcast to x, (4, 3)",
        ),
        (
            lambda: tenon.layer_norm_statistics(X, stash_dtype="i32"),
            "tenon.layer_norm_statistics: stash_dtype is i32 where a float is needed",
        ),
        (
            lambda: tenon.nll_loss(X, LABELS[:2]),
            "tenon.nll_loss: labels has shape (2,) where log_probabilities (4, 3) needs (4,)",
        ),
        (
            lambda: tenon.cross_entropy(X, LABELS, np.ones(5, np.float32)),
            "tenon.cross_entropy: there are 3 classes and weight has 5",
        ),
        (
            lambda: tenon.cross_entropy(X, LABELS, label_smoothing=1.5),
            "tenon.cross_entropy: label_smoothing is 1.5 where a number from 0 to 1 is needed",
        ),
        (
            lambda: tenon.mse_loss(X, X, reduction="average"),  # pyright: ignore[reportArgumentType]
            "tenon.mse_loss: setting 'reduction': 'average' is not one of 'mean', 'sum', 'none'",
        ),
        (
            lambda: tenon.smooth_l1_loss(X, X, beta=-1.0),
            "tenon.smooth_l1_loss: beta is -1.0 where 0 or more is needed",
        ),
        (
            lambda: tenon.max(np.zeros((0, 3)), axis=0),
            "tenon.max: axis 0 of (0, 3) has no elements, and there is no result for none",
        ),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared as a whole
        call()
    assert str(caught.value) == message
