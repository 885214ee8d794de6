"""Samples of the ops that work element by element, of constants and of conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from sample import BF16, F16, F32, F64, FLOATS, INF, NAN, SPECIAL, Array, add, integers, numbers, truths, widened

# --- elementwise, one operand -----------------------------------------------------------------------------------------


def unary(name: str, oracle: Callable[[Array], Any], low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    """Floats of every dtype, several ranks and sizes, and special values; the first row is smooth."""
    smooth = options.pop("smooth", True)
    special = options.pop("special", SPECIAL)
    add(name, [numbers(name, (3, 7), F32, low, high)], oracle, differentiable=smooth, **options)
    add(name, [numbers(name + "0", (), F64, low, high)], oracle, **options)
    add(name, [numbers(name + "h", (11,), F16, low, high)], oracle, **options)
    add(name, [numbers(name + "b", (5, 1, 3), BF16, low, high)], oracle, **options)
    add(name, [special], oracle, "special", **options)


def _erf(x: Array) -> Any:
    return scipy.special.erf(x)


unary("negative", np.negative)
unary("abs", np.abs, 0.5, 2.0)
unary("sign", np.sign, smooth=False)
unary("square", np.square)
unary("reciprocal", lambda x: 1.0 / x, 0.5, 2.0)
unary("floor", np.floor, smooth=False)
unary("ceil", np.ceil, smooth=False)
unary("round", np.rint, smooth=False)
unary("trunc", np.trunc, smooth=False)
unary("exp", np.exp)
unary("exp2", np.exp2)
unary("expm1", np.expm1)
unary("log", np.log, 0.1, 4.0)
unary("log2", np.log2, 0.1, 4.0)
unary("log10", np.log10, 0.1, 4.0)
unary("log1p", np.log1p, -0.9, 4.0)
unary("sqrt", np.sqrt, 0.1, 4.0)
# 1 / sqrt(-0.0) differs between targets.
unary("rsqrt", lambda x: 1.0 / np.sqrt(x), 0.1, 4.0, special=SPECIAL[np.signbit(SPECIAL) <= (SPECIAL < 0)])
unary("sin", np.sin, -7.0, 7.0)
unary("cos", np.cos, -7.0, 7.0)
unary("tan", np.tan, -1.3, 1.3)
unary("asin", np.arcsin, -0.9, 0.9)
unary("acos", np.arccos, -0.9, 0.9)
unary("atan", np.arctan, -4.0, 4.0)
unary("sinh", np.sinh)
unary("cosh", np.cosh)
unary("tanh", np.tanh)
unary("asinh", np.arcsinh)
unary("acosh", np.arccosh, 1.1, 4.0)
unary("atanh", np.arctanh, -0.9, 0.9)
unary("erf", _erf)
unary("relu", lambda x: np.where(x > 0, x, x * 0.0), 0.1, 2.0, special=SPECIAL[np.isfinite(SPECIAL)])
unary("sigmoid", scipy.special.expit)
unary("silu", lambda x: x * scipy.special.expit(x))
unary("softplus", lambda x: np.logaddexp(x, 0.0))
unary("log_sigmoid", lambda x: -np.logaddexp(-x, 0.0))
unary("gelu", lambda x: x * scipy.special.ndtr(x), special=SPECIAL[np.isfinite(SPECIAL)])
unary(
    "gelu",
    lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    special=SPECIAL[np.isfinite(SPECIAL)],
    approximate="tanh",
)
unary("leaky_relu", lambda x: np.where(x < 0, 0.01 * x, x))
unary("elu", lambda x: np.where(x < 0, 1.0 * np.expm1(x), x))
unary("hardtanh", lambda x: np.clip(x, -1.0, 1.0), -0.9, 0.9)
unary("identity", lambda x: x)
unary("stop_gradient", lambda x: x, smooth=False)

add(
    "leaky_relu",
    [numbers("leaky", (4, 3), low=-2, high=-0.1)],
    lambda x: 0.2 * x,
    negative_slope=0.2,
    differentiable=True,
)
add("elu", [numbers("elu", (4, 3), low=-2, high=-0.1)], lambda x: 0.5 * np.expm1(x), alpha=0.5, differentiable=True)
add("relu", [numbers("relu", (4, 3), low=-2, high=-0.1)], lambda x: np.zeros_like(x), "negative", differentiable=True)
add("relu", [np.array([NAN, INF, -INF], F32)], lambda x: np.array([NAN, INF, 0.0]), "special")
add("hardtanh", [numbers("hard", (13,), low=-5, high=5)], lambda x: np.clip(x, -3.0, 2.0), min_val=-3.0, max_val=2.0)
add("exp", [np.array([-1000.0, -88.0, 80.0, 1000.0], F32)], np.exp, "large", rtol=2e-5)
add("sigmoid", [np.array([-1000.0, -80.0, 80.0, 1000.0], F32)], scipy.special.expit, "large", rtol=2e-5, atol=1e-38)
add("softplus", [np.array([-1000.0, -50.0, 50.0, 1000.0], F32)], lambda x: np.logaddexp(x, 0.0), "large")
add("tanh", [np.array([-100.0, -1e-6, 1e-6, 100.0], F32)], np.tanh, "large", rtol=1e-5, atol=0.0)
add("expm1", [np.array([-1e-7, 1e-9, 1e-4], F32)], np.expm1, "small", rtol=1e-5, atol=0.0)
add("log1p", [np.array([-1e-7, 1e-9, 1e-4], F32)], np.log1p, "small", rtol=1e-5, atol=0.0)
for _name, _oracle in {"negative": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square}.items():
    for _dtype in (np.int8, np.int16, np.int32, np.int64):
        add(_name, [integers(_name, (3, 5), _dtype)], _oracle)
add("abs", [np.array([-128, -127, 127], np.int8)], np.abs, "least")
add("reciprocal", [np.array([1, 2, -4], np.int32)], lambda x: 1.0 / x)
add("exp", [np.zeros((2, 0), F32)], np.exp)
add("negative", [np.zeros((0,), np.int32)], np.negative)
add("exp", [np.array([0, 1, 2], np.int64)], lambda x: np.exp(x.astype(float)))
add("identity", [truths("identity", (3, 2))], lambda x: x)

for _name, _oracle in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    for _dtype in FLOATS:
        add(_name, [SPECIAL.astype(_dtype)], _oracle)
    add(_name, [np.float64(3.0)], _oracle)

# --- elementwise, two operands ----------------------------------------------------------------------------------------

BROADCASTS = [((3, 7), (3, 7)), ((5, 1, 3), (4, 1)), ((), (2, 3)), ((7,), ()), ((2, 0), (1, 1))]


def binary(name: str, oracle: Callable[..., Any], low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    """Floats that broadcast in every way, and every float dtype."""
    smooth = options.pop("smooth", True)
    for left, right in BROADCASTS:
        args = [numbers(name + "l", left, F32, low, high), numbers(name + "r", right, F32, low, high)]
        add(name, args, oracle, differentiable=smooth and 0 not in left, **options)
    for dtype in (F16, BF16, F64):
        args = [numbers(name + "l", (11,), dtype, low, high), numbers(name + "r", (1,), dtype, low, high)]
        add(name, args, oracle, **options)


def on_integers(name: str, oracle: Callable[..., Any], low: int = -9, high: int = 10) -> None:
    """Integers of every dtype."""
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        add(
            name,
            [integers(name + "l", (13, 1), dtype, low, high), integers(name + "r", (5,), dtype, low, high)],
            oracle,
        )


_PAIRS = np.array([(a, b) for a in SPECIAL[:9] for b in SPECIAL[:9]], F32).T

binary("add", np.add)
binary("subtract", np.subtract)
binary("multiply", np.multiply)
binary("divide", np.divide, 0.5, 2.0)
binary("floor_divide", np.floor_divide, smooth=False)
binary("remainder", np.remainder, 1.0, 1.9)
binary("power", np.power, 0.3, 2.0)
binary("maximum", np.maximum)
binary("minimum", np.minimum)
binary("atan2", np.arctan2)
for _name, _oracle in {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
}.items():
    add(_name, list(_PAIRS), _oracle, "special")
on_integers("add", np.add, -100, 100)
on_integers("subtract", np.subtract, -100, 100)
on_integers("multiply", np.multiply, -100, 100)
on_integers("maximum", np.maximum)
on_integers("minimum", np.minimum)


def _by_zero(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's integer division, where dividing by 0 gives 0."""
    return lambda x, y: np.where(y == 0, 0, function(x, np.where(y == 0, 1, y))).astype(x.dtype)


on_integers("floor_divide", _by_zero(np.floor_divide))
on_integers("remainder", _by_zero(np.remainder))
on_integers("divide", lambda x, y: x.astype(float) / y, 1, 10)
_SIGNS = [np.array([7.5, -7.5, 7.5, -7.5, 6.0, -6.0, 5.0, -5.0], F32), np.array([2, 2, -2, -2, 2, -3, INF, INF], F32)]
add("floor_divide", _SIGNS, np.floor_divide, "signs")
add("remainder", _SIGNS, np.remainder, "signs")
add(
    "remainder",
    [np.array([1e6, -1e6, 12345.678], F32), np.array([0.1, 0.3, 7.1], F32)],
    np.remainder,
    "long",
    rtol=0,
    atol=0,
)
add("remainder", [numbers("mod", (3, 5), F64, -9, 9), np.array(0.7)], np.remainder, "signs", rtol=1e-9, atol=1e-9)
add("divide", [np.array([1.0, -1.0, 0.0], F32), np.zeros(3, F32)], np.divide, "zero")
add(
    "power",
    [np.array([0.0, 0.0, -2.0, 2.0, -2.0, 0.0], F32), np.array([0.0, 2.0, 3.0, -1.0, 0.5, -1.0], F32)],
    np.power,
    "special",
)
add("power", [integers("pow", (3, 5), np.int32), np.array([0, 1, 2, 3, 7], np.int32)], np.power)
add("power", [integers("pow", (7,), np.int64), np.array(20, np.int64)], np.power, "wraps")
add(
    "clip",
    [numbers("clip", (4, 5)), np.float32(-0.5), np.float32(0.7)],
    lambda x, low, high: np.clip(x, low, high),
    differentiable=True,
)
add(
    "clip",
    [numbers("clip", (4, 5), F64), numbers("low", (5,), F64, -2, 0), None],
    lambda x, low, _: np.maximum(x, low),
    differentiable=True,
)
add("clip", [numbers("clip", (4, 5), BF16), None, np.asarray(0.5, BF16)], lambda x, _, high: np.minimum(x, high))
add("clip", [integers("clip", (13,)), np.int32(-3), np.int32(4)], lambda x, low, high: np.clip(x, -3, 4))
add("clip", [SPECIAL, np.float32(-1), np.float32(1)], lambda x, low, high: np.clip(x, -1, 1), "special")

# --- comparison and logic ---------------------------------------------------------------------------------------------

for _name, _oracle in {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}.items():
    add(_name, list(_PAIRS), _oracle, "special")
    add(_name, [numbers(_name, (5, 1, 3), BF16, -1, 1), np.zeros((4, 1), BF16)], _oracle)
    add(_name, [integers(_name, (13, 1), np.int64, -3, 4), integers(_name + "r", (5,), np.int64, -3, 4)], _oracle)
    add(_name, [np.array([False, False, True, True]), np.array([False, True, False, True])], _oracle)
    add(_name, [np.float64(1.0), np.zeros((0, 2))], _oracle)

_LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
for _name, _oracle in _LOGICAL.items():
    add(_name, [np.array([False, False, True, True]), np.array([False, True, False, True])], _oracle)
    add(_name, [SPECIAL, np.array(2, np.int32)], _oracle)
    add(_name, [integers(_name, (3, 1), low=-1, high=2), numbers(_name, (4,), F16).round()], _oracle)
add("logical_not", [np.array([False, True])], np.logical_not)
add("logical_not", [SPECIAL], np.logical_not)
add("logical_not", [np.array([[0, 3], [-1, 0]], np.int8)], np.logical_not)

_BITWISE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
for _name, _oracle in _BITWISE.items():
    on_integers(_name, _oracle, -100, 100)
    add(_name, [np.array([[False], [True]]), np.array([False, True])], _oracle)
add("bitwise_not", [np.array([False, True])], np.bitwise_not)
add("bitwise_not", [integers("not", (3, 2), np.int8)], np.bitwise_not)
add("bitwise_not", [integers("not", (), np.int64)], np.bitwise_not)
add("bitwise_count", [integers("count", (3, 17), np.int32)], lambda x: np.bitwise_count(x).astype(np.int32))
add("population_count", [integers("count", (3, 17), np.int32)],
    lambda x: np.bitwise_count(x.view(np.uint32)).astype(np.int32))  # fmt: skip
add("shift_left", [integers("shift", (3, 2)), np.int32(5)], np.left_shift)
add(
    "shift_right_logical",
    [np.array([-1, 256, -256], np.int32), np.int32(4)],
    lambda x, y: (x.view(np.uint32) >> 4).view(np.int32),
)

add("select", [truths("where", (3, 7)), numbers("x", (3, 7)), numbers("y", (3, 7))], np.where, differentiable=True)
add(
    "select",
    [truths("where", (5, 1)), numbers("x", (), F64), numbers("y", (2, 1, 3), F64)],
    np.where,
    differentiable=True,
)
add("select", [truths("where", (11,)), numbers("x", (11,), F16), numbers("y", (1,), F16)], np.where)
add("select", [truths("where", (5,)), integers("x", (3, 5), np.int64), integers("y", (5,), np.int64)], np.where)
add("select", [truths("where", ()), truths("x", (4,)), truths("y", (4,))], np.where)
add("select", [np.array([True, False]), np.array([1.0, NAN], F32), np.array([INF, 2.0], F32)], np.where, "special")

# --- constants and conversion -----------------------------------------------------------------------------------------

for _value in (
    np.float32(2.5),
    numbers("constant", (3, 2), F64),
    numbers("constant", (7,), BF16),
    np.array([[0.5, NAN], [INF, -0.0]], F16),
    np.full((3, 5), -INF, F32),
    np.full((2, 3), 7, np.int64),
    integers("constant", (2, 1, 3), np.int8, -128, 128),
    np.array([2**62 + 1, -(2**63)], np.int64),
    np.array([[True, False, True]]),
    np.zeros((2, 0), F32),
):
    add("constant", [], lambda value=_value: widened(value), value=np.asarray(_value))

_CASTS = """
    float32 float64, float64 float32, float32 float16, float64 bfloat16, float16 bfloat16, bfloat16 float16,
    float32 int32, float64 int64, float16 int8, int64 float32, int8 float16, int32 int64, int64 int8, int16 int32,
    bool int32, bool float32, bool bfloat16, int32 bool, float32 bool, float32 float32
"""
for _from, _to in map(str.split, _CASTS.split(",")):
    _source = numbers("cast", (3, 5), low=-90, high=90).astype(_from)
    add(
        "cast",
        [_source],
        lambda x, to=_to: widened(x.astype(to)),
        dtype=np.dtype(_to),
        differentiable=_to == "float64",
    )
add("cast", [np.array([0.0, -0.0, NAN, 0.5], F32)], lambda x: np.array([False, False, True, True]), dtype=np.bool_)
add(
    "cast",
    [np.array([1e20, -1e20, NAN, 300.7, -INF], F32)],
    lambda x: np.array([2**31 - 1, -(2**31), 0, 300, -(2**31)], np.int32),
    "saturates",
    dtype=np.int32,
)
add(
    "cast",
    [np.array([1e5, 1e-9, -1e5], F32)],
    lambda x: np.array([INF, 0.0, -INF]),
    "overflows",
    dtype=F16,
    rtol=0,
    atol=1e-7,
)
