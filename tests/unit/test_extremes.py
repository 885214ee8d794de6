"""Every elementwise op on the floats where functions misbehave: zeros, infinities, NaN, the largest and the smallest
numbers, subnormal ones, and kinks, in every float dtype, compiled and interpreted.

The oracles are NumPy's and SciPy's functions (and PyTorch's definitions of activations) in float64. Where Tenon differs
from them, the op's page says so and `DIFFERENCES` has the case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from sample import BF16, F16, F32, F64

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.types.types import f32

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
KINKS = (1.0, 0.5, 2.0, 3.0, 6.0, 20.0, 40.0, 88.0, 104.0, 710.0, 1e4)

special = scipy.special


def extremes(dtype: Any) -> Array:
    """The values of a dtype at which functions are tested."""
    bounds = ml_dtypes.finfo(dtype)
    small = float(bounds.smallest_normal)
    positive = [0.0, float(bounds.smallest_subnormal), small - float(bounds.smallest_subnormal), small, INF]
    positive += [float(bounds.max), 1.0 + float(bounds.eps), 1.0 - float(bounds.eps) / 2, *KINKS]
    return np.array([*positive, *[-value for value in positive], NAN]).astype(dtype)


def _limited(x: Array, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _times(x: Array, factor: Array) -> Any:
    return np.where(np.isnan(x), x, x * factor)


def _elu(x: Array, alpha: float = 1.0, gamma: float = 1.0) -> Any:
    return gamma * np.where(x <= 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _gelu(x: Array) -> Any:
    return np.where(x == -INF, -0.0, x * special.ndtr(x))


def _grown(scaled: Array, x: Array) -> Any:
    """A Bessel function from what it is times exp(-|x|)."""
    half = np.exp(np.abs(x) / 2)
    return np.where(np.isinf(x), np.copysign(INF, scaled), scaled * half * half)


def _sinc(x: Array) -> Any:
    whole = np.rint(x)
    sine = np.sin(np.pi * (x - whole)) * np.where(np.rint(whole / 2) == whole / 2, 1, -1)
    return np.where(x == 0, 1.0, sine / (np.pi * x))


def _gamma_ends(oracle: Callable[..., Any], lower: bool) -> Callable[[Array, Array], Any]:
    """SciPy's incomplete gamma functions, which lose what is subnormal and overflow for the largest first operands."""

    def exact(a: Array, x: Array) -> Any:
        tiny = (a > 0) & (a < 1e-290) & (x > 0)
        found = np.where(tiny, 1.0 if lower else a * special.exp1(np.where(x > 0, x, 1.0)), oracle(a, x))
        found = np.where((a > 1e300) & (x >= 0) & (x < a), 0.0 if lower else 1.0, found)
        near_one = (np.abs(a - 1) < 1e-9) & (x > 0) & (x < 1e-300)
        power = x * (1 + (a - 1) * np.log(np.where(near_one, x, 1.0)))
        return np.where(near_one, power if lower else 1.0, found)

    return exact


def _beyond(x: Array, move: float) -> Any:
    return np.where(np.abs(x) <= 0.5, 0.0, x - np.sign(x) * move)


UNARY: dict[str, Callable[[Array], Any]] = {
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfcx": special.erfcx,
    "ndtr": special.ndtr,
    "log_ndtr": special.log_ndtr,
    "ndtri": special.ndtri,
    "i0": special.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "entr": special.entr,
    "erfinv": special.erfinv,
    # SciPy halves the smallest subnormal number to 0.
    "erfcinv": lambda x: np.where(x == 5e-324, 27.213293210812948, special.erfcinv(x)),
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "polygamma": lambda x: special.polygamma(1, x),
    "cbrt": np.cbrt,
    "sinc": _sinc,
    "logit": special.logit,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hardtanh": lambda x: _limited(x, -1.0, 1.0),
    "relu6": lambda x: _limited(x, 0.0, 6.0),
    "thresholded_relu": lambda x: np.where(x <= 1.0, 0.0, x),
    "shrink": lambda x: _beyond(x, 0.0),
    "hardshrink": lambda x: _beyond(x, 0.0),
    "softshrink": lambda x: _beyond(x, 0.5),
    "tanhshrink": lambda x: np.where(np.abs(x) < 1e-5, x**3 / 3, x - np.tanh(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))),
    "hard_sigmoid": lambda x: _limited(0.2 * x + 0.5, 0.0, 1.0),
    "hard_swish": lambda x: _times(x, _limited(x + 3.0, 0.0, 6.0) / 6.0),
    "silu": lambda x: _times(x, np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0.0),
    "mish": lambda x: _times(x, np.tanh(np.logaddexp(x, 0.0))),
    "elu": _elu,
    "celu": _elu,
    "selu": lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805),
    "gelu": _gelu,
}

BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "truncate_divide": lambda x, y: np.trunc(x / y),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "xlogy": special.xlogy,
    "xlog1py": special.xlog1py,
    "copysign": np.copysign,
    "gammainc": _gamma_ends(special.gammainc, lower=True),
    "gammaincc": _gamma_ends(special.gammaincc, lower=False),
    "heaviside": np.heaviside,
    "prelu": lambda x, slope: np.where(x > 0, x, slope * x),
}

# Not functions of floats alone, of more operands, or with special values that tests of their own go through.
ELSEWHERE = {
    *("cast", "bitcast", "select", "clip", "lerp", "nextafter", "floor_divide", "remainder", "fmod", "zeta"),
    *("gamma_density", "gammainc_slope"),
}

# Where Tenon differs from the oracles, as the ops' pages say: what the operands are there, and the results.
DIFFERENCES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    # Near 0, and for digamma near -1, it is SciPy that is far from the exact result.
    "lgamma": (
        lambda x: (x == -INF) | ((np.abs(x) < 1e-300) & (x != 0)),
        lambda x: np.where(np.isinf(x), INF, -np.log(np.abs(x))),
    ),
    "digamma": (lambda x: x == np.nextafter(-1, 0), lambda x: -1 / (1 + x)),
    # SciPy's overflow too early, and are NaN at infinity.
    "i0": (lambda x: np.abs(x) > 700, lambda x: _grown(special.i0e(x), x)),
    "i1": (lambda x: np.abs(x) > 700, lambda x: _grown(special.i1e(x), x)),
}


def test_every_op_is_here() -> None:
    floats = {
        name.removeprefix("tenon.")
        for name, op in registry().items()
        if name.startswith("tenon.")
        and issubclass(op, ElementwiseOp)
        and f32 in op.SIGNATURE.operands[0].constraint.elements
    }
    assert floats - ELSEWHERE == UNARY.keys() | BINARY.keys()


def expected_of(name: str, oracle: Callable[..., Any], operands: tuple[Array, ...]) -> Array:
    """What is right, in float64, or truth values."""
    wide = [operand.astype(np.float64) for operand in operands]
    with np.errstate(all="ignore"):
        exact = np.array(oracle(*wide))
        if name in DIFFERENCES:
            where, value = DIFFERENCES[name]
            chosen = where(*wide)
            exact[chosen] = value(*[operand[chosen] for operand in wide])
    return exact


def check(name: str, operands: tuple[Array, ...], found: Array, exact: Array) -> None:
    """Assert that results are the exact ones to a few ULP, and special ones are what they must be."""
    if exact.dtype == np.bool_:
        np.testing.assert_array_equal(found, exact)
        return
    dtype = found.dtype
    bounds = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        stored, result = exact.astype(dtype).astype(np.float64), found.astype(np.float64)
        step = np.maximum(np.abs(exact) * float(bounds.eps), float(bounds.smallest_subnormal))
        near = np.abs(result - exact) <= TOLERANCE.get(name, 4) * step + _slack(name, operands, bounds)
    same = (result == stored) | (np.isnan(result) & np.isnan(stored))
    zeros = (stored == 0) & (result == 0)
    signs = ~zeros | (np.signbit(result) == np.signbit(stored)) | (np.abs(exact) > 0) | (name in UNSIGNED)
    wrong = ~((same | (near & np.isfinite(stored))) & signs)
    assert not wrong.any(), [
        (*[float(operand[i]) for operand in operands], "gives", float(result[i]), "not", float(stored[i]))
        for i in np.flatnonzero(wrong)[:5]
    ]


# ULP where SciPy's own float64 results are less exact than 4.
TOLERANCE: dict[str, float] = dict.fromkeys(("ndtr", "log_ndtr", "gelu", "erfc", "gammainc", "gammaincc"), 2e3)

# Zeros that NumPy's functions make positive, or whose sign the oracles' formulas leave open.
UNSIGNED = {
    *("sign", "erfinv", "erfcinv", "ndtri", "entr", "sinc", "relu", "relu6", "hardtanh", "elu", "celu", "selu"),
    *("shrink", "hardshrink", "softshrink", "thresholded_relu"),
}

# Functions that cross 0 where two large terms cancel: their error is small against the terms.
CROSSING = {"lgamma", "digamma", "logaddexp", "logaddexp2", "tanhshrink"}


def _slack(name: str, operands: tuple[Array, ...], bounds: Any) -> Any:
    """The absolute error that is allowed."""
    if name in CROSSING:
        finite = [np.where(np.isfinite(x), np.abs(x.astype(np.float64)), 0) for x in operands]
        return 4 * float(bounds.eps) * np.minimum(np.maximum.reduce([*finite, np.ones(finite[0].shape)]), 2.0)
    if name in ("silu", "mish"):
        # x times a number that is too small for the dtype already
        return 1e3 * float(bounds.smallest_subnormal)
    return 0.0


DTYPES = [
    pytest.param(F32, id="float32"),
    *[pytest.param(d, marks=pytest.mark.variation, id=str(d)) for d in (F64, F16, BF16)],
]


@functools.cache
def compiled(name: str) -> Any:
    return tenon.jit(getattr(tenon, name))


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, dtype: Any, interpret: bool) -> None:
    x = extremes(dtype)
    with tenon.knobs.override(interpret=interpret):
        found = np.asarray(compiled(name)(x))
    check(name, (x,), found, expected_of(name, UNARY[name], (x,)))


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: Any, interpret: bool) -> None:
    values = extremes(dtype)
    x, y = (side.reshape(-1).astype(dtype) for side in np.meshgrid(values, values))
    with tenon.knobs.override(interpret=interpret):
        found = np.asarray(compiled(name)(x, y))
    check(name, (x, y), found, expected_of(name, BINARY[name], (x, y)))
