"""Values and first derivatives of the ops on floats in f64, against mpmath: to a few units in the last place.

Points are spread over magnitudes, and dense where formulas might cancel: near 0, 1, 2 and where a function crosses 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from test_extremes import BINARY, UNARY

import tenon

Function = Callable[..., Any]

VALUE_BOUND, SLOPE_BOUND = 4.0, 6.0
"""Units in the last place."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(-abs(x))) + max(x, 0)


def _density(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _sinc(x: Any) -> Any:
    return mp.sinpi(x) / (mp.pi * x)


def _mish_slope(x: Any) -> Any:
    tanh = mp.tanh(_softplus(x))
    return tanh + x * (1 - tanh * tanh) * _sigmoid(x)


def _probit(x: Any) -> Any:
    return mp.sqrt(2) * mp.erfinv(2 * x - 1)


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _scaled_bessel(order: int) -> Function:
    return lambda x: mp.exp(-abs(x)) * mp.besseli(order, x)


_ERF = 2 / mp.sqrt(mp.pi)
_SELU = mp.mpf(1.0507009873554805), mp.mpf(1.0507009873554805) * mp.mpf(1.6732632423543772)

EXACT: dict[str, tuple[Function, Function]] = {
    "exp": (mp.exp, mp.exp),
    "exp2": (lambda x: mp.mpf(2) ** x, lambda x: mp.mpf(2) ** x * mp.log(2)),
    "expm1": (mp.expm1, mp.exp),
    "log": (mp.log, lambda x: 1 / x),
    "log2": (lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2))),
    "log10": (lambda x: mp.log(x, 10), lambda x: 1 / (x * mp.log(10))),
    "log1p": (mp.log1p, lambda x: 1 / (1 + x)),
    "sqrt": (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x))),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x))),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda x: 1 / (3 * mp.cbrt(x * x))),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / (x * x)),
    "square": (lambda x: x * x, lambda x: 2 * x),
    "sin": (mp.sin, mp.cos),
    "cos": (mp.cos, lambda x: -mp.sin(x)),
    "tan": (mp.tan, lambda x: 1 / mp.cos(x) ** 2),
    "asin": (mp.asin, lambda x: 1 / mp.sqrt(1 - x * x)),
    "acos": (mp.acos, lambda x: -1 / mp.sqrt(1 - x * x)),
    "atan": (mp.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (mp.sinh, mp.cosh),
    "cosh": (mp.cosh, mp.sinh),
    "tanh": (mp.tanh, lambda x: mp.sech(x) ** 2),
    "asinh": (mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x)),
    "acosh": (mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1)),
    "atanh": (mp.atanh, lambda x: 1 / (1 - x * x)),
    "erf": (mp.erf, lambda x: _ERF * mp.exp(-x * x)),
    "erfc": (mp.erfc, lambda x: -_ERF * mp.exp(-x * x)),
    "erfinv": (mp.erfinv, lambda x: mp.exp(mp.erfinv(x) ** 2) / _ERF),
    "erfcinv": (lambda x: mp.erfinv(1 - x), lambda x: -mp.exp(mp.erfinv(1 - x) ** 2) / _ERF),
    "ndtr": (lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, _density),
    "log_ndtr": (lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), lambda x: 2 * _density(x) / mp.erfc(-x / mp.sqrt(2))),
    "ndtri": (_probit, lambda x: 1 / _density(_probit(x))),
    "erfcx": (_erfcx, lambda x: 2 * x * _erfcx(x) - 2 / mp.sqrt(mp.pi)),
    "entr": (lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1),
    "i0": (lambda x: mp.besseli(0, x), lambda x: mp.besseli(1, x)),
    "i0e": (_scaled_bessel(0), lambda x: _scaled_bessel(1)(x) - mp.sign(x) * _scaled_bessel(0)(x)),
    "i1": (lambda x: mp.besseli(1, x), lambda x: mp.besseli(0, x) - mp.besseli(1, x) / x),
    "i1e": (_scaled_bessel(1), lambda x: _scaled_bessel(0)(x) - (mp.sign(x) + 1 / x) * _scaled_bessel(1)(x)),
    "lgamma": (lambda x: mp.re(mp.loggamma(x)), mp.digamma),
    "digamma": (mp.digamma, lambda x: mp.polygamma(1, x)),
    "polygamma": (lambda x: mp.polygamma(1, x), lambda x: mp.polygamma(2, x)),
    "sinc": (_sinc, lambda x: (mp.cospi(x) - _sinc(x)) / x),
    "logit": (lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x))),
    "deg2rad": (lambda x: x * mp.pi / 180, lambda x: mp.pi / 180),
    "rad2deg": (lambda x: x * 180 / mp.pi, lambda x: 180 / mp.pi),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    "log_sigmoid": (lambda x: -_softplus(-x), lambda x: _sigmoid(-x)),
    "softplus": (_softplus, _sigmoid),
    "silu": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
    "mish": (lambda x: x * mp.tanh(_softplus(x)), _mish_slope),
    "gelu": (lambda x: x * mp.ncdf(x), lambda x: mp.ncdf(x) + x * _density(x)),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
    "tanhshrink": (lambda x: x - mp.tanh(x), lambda x: mp.tanh(x) ** 2),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), lambda x: 1 if x > 0 else mp.exp(x)),
    "celu": (lambda x: x if x > 0 else mp.expm1(x), lambda x: 1 if x > 0 else mp.exp(x)),
    "selu": (
        lambda x: _SELU[0] * x if x > 0 else _SELU[1] * mp.expm1(x),
        lambda x: _SELU[0] if x > 0 else _SELU[1] * mp.exp(x),
    ),
}

# Choices, comparisons and roundings: what they give is exact, or one rounding.
PIECEWISE = {
    *("negative", "abs", "sign", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite", "logical_not"),
    *("relu", "relu6", "leaky_relu", "hardtanh", "thresholded_relu", "shrink", "hardshrink", "softshrink"),
    *("hard_sigmoid", "hard_swish"),
}

# Where the error is small against 1 only, in units of the last place of 1 or of the result if that is larger.
AGAINST_ONE: dict[tuple[str, str], tuple[float, str]] = {
    ("tanh", "slope"): (3.0, "1 - tanh(x)^2: of the result alone, which is kept in place of x"),
    ("sigmoid", "slope"): (1.0, "s(x) (1 - s(x)): of the result alone, which is kept in place of x"),
    ("lgamma", "value"): (4.0, "crosses 0 between the poles below 0, where the reflection formula subtracts"),
    ("lgamma", "slope"): (4.0, "is digamma"),
    ("digamma", "value"): (4.0, "crosses 0 between the poles below 0, where the reflection formula subtracts"),
    ("polygamma", "slope"): (32.0, "of order 2, crosses 0 between the poles below 0"),
    ("mish", "slope"): (6.0, "crosses 0 near -1.19"),
    ("sinc", "slope"): (2.0, "crosses 0 once between whole numbers, where cos(pi x) and sinc(x) are equal"),
    ("gelu", "slope"): (2.0, "crosses 0 near -0.75"),
    ("logaddexp", "value"): (2.0, "crosses 0 where exp(x) + exp(y) is 1, however exact the operands are"),
    ("logaddexp2", "value"): (2.0, "crosses 0 where 2^x + 2^y is 1, however exact the operands are"),
}

# Larger bounds, in units of the last place.
BOUNDS: dict[tuple[str, str], tuple[float, str]] = {
    ("erf", "slope"): (64.0, "exp(-x^2), for which the rounding of x^2 counts x^2 times"),
    ("erfc", "slope"): (64.0, "as erf"),
    ("ndtr", "slope"): (64.0, "as erf"),
    ("erfinv", "slope"): (96.0, "exp(y^2), for which the rounding of y counts 2 y^2 times"),
    ("log_ndtr", "slope"): (64.0, "as erf"),
    ("erfcx", "value"): (64.0, "exp(x^2) below 0, as erf"),
    ("erfcx", "slope"): (2048.0, "2 x erfcx(x) and 2 / sqrt(pi) are equal but for 1 / (2 x^2) of them, up to 30"),
    ("ndtri", "slope"): (256.0, "exp(y^2 / 2), for which the rounding of y counts y^2 times"),
    ("i0e", "slope"): (256.0, "i1e(x) - i0e(x), which are equal but for 1 / (2 x) of them, up to 128"),
    ("i1e", "slope"): (256.0, "as i0e"),
    ("erfcinv", "slope"): (2048.0, "as erfinv, for numbers so small that y is 26"),
    ("logaddexp", "slope"): (64.0, "exp(x - y), for which the rounding of x - y counts x - y times"),
    ("logaddexp2", "slope"): (64.0, "as logaddexp"),
    ("gammainc", "value"): (8.0, "a sum of 46 terms, times a power"),
    ("gammaincc", "value"): (8.0, "as gammainc, and a difference for x up to 0.8"),
    ("gammainc", "slope"): (16.0, "as the values"),
    ("gammaincc", "slope"): (16.0, "as the values"),
    ("power", "slope"): (32.0, "y x^(y - 1), for which the rounding of y - 1 counts y log x times"),
}


def points() -> np.ndarray:
    """Numbers of all signs and magnitudes, and some where functions have zeros, poles and ends."""
    spread = np.concatenate([np.logspace(-20, 2.8, 39), [0.25, 0.5, 0.75, 1.5, 2.5, 8.0, 10.3]])
    distances = np.logspace(-15, -1, 8)
    near = [1 + distances, 1 - distances, 2 + distances, 2 - distances, 1.4616321449683622 + distances[::3]]
    return np.unique(np.concatenate([spread, -spread, *near, -near[1], -0.75 - distances[::3]]))


def worst_of(found: np.ndarray, exact: Function, operands: list[np.ndarray], least: float) -> tuple[float, Any]:
    """The largest error in units of the last place of the exact result, or of `least` where that is larger."""
    worst: tuple[float, Any] = (0.0, None)
    for number, *numbers in zip(found, *operands, strict=True):
        with mpmath.workdps(80):
            try:
                expected = exact(*[mp.mpf(float(x)) for x in numbers])
            except (ZeroDivisionError, ValueError):
                continue  # a pole
            if isinstance(expected, mp.mpc) or not np.isfinite(float(expected)):
                continue
            unit = np.spacing(max(abs(float(expected)), least, float(np.finfo(np.float64).tiny)))
            error = float(abs(mp.mpf(float(number)) - expected) / unit) if np.isfinite(number) else np.inf
        worst = max(worst, (error, (*map(float, numbers), float(number), float(expected))), key=lambda w: w[0])
    return worst


def check(name: str, kind: str, found: np.ndarray, exact: Function, operands: list[np.ndarray], bound: float) -> None:
    """Assert the bound that is stated for a function."""
    least, key = 0.0, (name, kind)
    if key in AGAINST_ONE:
        (bound, _), least = AGAINST_ONE[key], 1.0
    elif key in BOUNDS:
        bound, _ = BOUNDS[key]
    error, where = worst_of(found, exact, operands, least)
    assert error <= bound, (error, where)


def test_every_op_is_here() -> None:
    assert UNARY.keys() - PIECEWISE == EXACT.keys()
    assert PAIRS.keys() <= BINARY.keys()


@pytest.mark.parametrize("name", EXACT)
def test_of_one_variable(name: str) -> None:
    op, (value, slope) = getattr(tenon, name), EXACT[name]
    x = points()
    found, slopes = tenon.value_and_grad(lambda x: (op(x).sum(), op(x)), has_aux=True)(x)
    inside = np.isfinite(found[1])
    check(name, "value", found[1][inside], value, [x[inside]], VALUE_BOUND)
    check(name, "slope", slopes[inside], slope, [x[inside]], SLOPE_BOUND)


PAIRS: dict[str, tuple[Function, Function, Function]] = {
    "divide": (lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / (y * y)),
    "power": (lambda x, y: x**y, lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mp.log(x)),
    "hypot": (mp.hypot, lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y)),
    "atan2": (mp.atan2, lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
    "logaddexp": (
        lambda x, y: y + _softplus(x - y),
        lambda x, y: _sigmoid(x - y),
        lambda x, y: _sigmoid(y - x),
    ),
    "logaddexp2": (
        lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2),
        lambda x, y: 1 / (1 + mp.mpf(2) ** (y - x)),
        lambda x, y: 1 / (1 + mp.mpf(2) ** (x - y)),
    ),
    "gammainc": (
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        lambda a, x: mp.diff(lambda a: mp.gammainc(a, 0, x, regularized=True), a),
        lambda a, x: x ** (a - 1) * mp.exp(-x) / mp.gamma(a),
    ),
    "gammaincc": (
        lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        lambda a, x: -mp.diff(lambda a: mp.gammainc(a, 0, x, regularized=True), a),
        lambda a, x: -(x ** (a - 1)) * mp.exp(-x) / mp.gamma(a),
    ),
    "xlogy": (lambda x, y: x * mp.log(y), lambda x, y: mp.log(y), lambda x, y: x / y),
    "xlog1py": (lambda x, y: x * mp.log1p(y), lambda x, y: mp.log1p(y), lambda x, y: x / (1 + y)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_of_two_variables(name: str) -> None:
    op, (value, *slopes) = getattr(tenon, name), PAIRS[name]
    numbers = np.array([1e-9, 0.1, 0.7, 1 - 1e-9, 1.0, 1.3, 3.0, 40.0])
    if name.startswith("gammainc"):
        x, y = (side.ravel() for side in np.meshgrid(numbers, numbers))
    elif name == "power":
        x, y = (side.ravel() for side in np.meshgrid(numbers, np.append(numbers, -numbers)))
    else:
        x, y = (side.ravel() for side in np.meshgrid(*[np.append(numbers, -numbers)] * 2))
    found, gradients = tenon.value_and_grad(lambda x, y: (op(x, y).sum(), op(x, y)), (0, 1), has_aux=True)(x, y)
    inside = np.isfinite(found[1])
    operands = [x[inside], y[inside]]
    check(name, "value", found[1][inside], value, operands, VALUE_BOUND)
    for slope, gradient in zip(slopes, gradients, strict=True):
        check(name, "slope", gradient[inside], slope, operands, SLOPE_BOUND)


def test_incomplete_gamma_functions_far_from_the_middle() -> None:
    """Where the exponent of the factor is the small difference of large numbers, by 50 digits."""
    upper = tenon.gammaincc(np.array([10791.0, 1000000.0]), np.array([13736.0, 1030000.0]))
    lower = tenon.gammainc(np.array([100156.0, 1000000.0]), np.array([92703.0, 1000000.0]))
    exact = np.array([1.0764608496478135e-150, 3.262430144876734e-194, 2.935748415921797e-129, 0.5001329807608725])
    assert (np.abs(np.concatenate([upper, lower]) - exact) / np.spacing(exact)).max() <= 5
