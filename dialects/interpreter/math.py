"""NumPy implementations of the `math` dialect, on scalars and on whole arrays alike.

Transcendental functions are computed in float64 and rounded once, so that the interpreter is the more exact side of a
comparison with compiled code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.dialects import math as math_dialect

from tenon.dialects.interpreter.arith import Function, round_float, signed, unsigned
from tenon.dialects.interpreter.interpreter import computes


def in_float64(function: Function) -> Function:
    """Compute a function of floats in float64 and round its result to the type of the operands."""

    def on_floats(*operands: Any) -> Any:
        result = function(*(operand.astype(np.float64, copy=False) for operand in operands))
        return round_float(result, operands[0].dtype)

    return on_floats


_erf_objects = np.frompyfunc(math.erf, 1, 1)


def error_function(value: Any) -> Any:
    """The error function in float64, as the C library computes it."""
    return np.asarray(_erf_objects(value)).astype(np.float64)[()]


def round_half_away(value: Any) -> Any:
    """The nearest whole number, halves away from zero."""
    whole = np.trunc(value)
    return np.copysign(abs(whole) + (abs(value - whole) >= 0.5), value)


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`; rounded once for types narrower than float64, whose products float64 holds exactly."""
    return a * b + c


_FLOAT_FUNCTIONS: dict[type[Any], Function] = {
    math_dialect.AbsFOp: np.abs,
    math_dialect.AcosOp: np.arccos,
    math_dialect.AcoshOp: np.arccosh,
    math_dialect.AsinOp: np.arcsin,
    math_dialect.AsinhOp: np.arcsinh,
    math_dialect.AtanOp: np.arctan,
    math_dialect.AtanhOp: np.arctanh,
    math_dialect.Atan2Op: np.arctan2,
    math_dialect.CbrtOp: np.cbrt,
    math_dialect.CeilOp: np.ceil,
    math_dialect.CopySignOp: np.copysign,
    math_dialect.CosOp: np.cos,
    math_dialect.CoshOp: np.cosh,
    math_dialect.ErfOp: error_function,
    math_dialect.ExpOp: np.exp,
    math_dialect.Exp2Op: np.exp2,
    math_dialect.ExpM1Op: np.expm1,
    math_dialect.FloorOp: np.floor,
    math_dialect.FmaOp: multiply_add,
    math_dialect.FPowIOp: np.power,
    math_dialect.LogOp: np.log,
    math_dialect.Log1pOp: np.log1p,
    math_dialect.Log2Op: np.log2,
    math_dialect.Log10Op: np.log10,
    math_dialect.PowFOp: np.power,
    math_dialect.RoundEvenOp: np.rint,
    math_dialect.RoundOp: round_half_away,
    math_dialect.RsqrtOp: lambda value: 1.0 / np.sqrt(value),
    math_dialect.SinOp: np.sin,
    math_dialect.SinhOp: np.sinh,
    math_dialect.SqrtOp: np.sqrt,
    math_dialect.TanOp: np.tan,
    math_dialect.TanhOp: np.tanh,
    math_dialect.TruncOp: np.trunc,
}
for _op_type, _function in _FLOAT_FUNCTIONS.items():
    computes(_op_type)(in_float64(_function))

computes(math_dialect.AbsIOp)(signed(np.abs))
computes(math_dialect.CtPopOp)(unsigned(lambda bits: np.bitwise_count(bits).astype(bits.dtype)))


@computes(math_dialect.IPowIOp)
@signed
def _integer_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`, wrapping; `1 / base ** -exponent` rounded toward zero for negative exponents."""
    is_odd = exponent & 1
    inverse = np.where(base == 1, base, np.where(base == -1, 1 - 2 * is_odd, 0))
    power, factor, remaining = np.ones_like(base), base, np.maximum(exponent, 0)
    while np.any(remaining):
        power = np.where(remaining & 1, power * factor, power)
        factor, remaining = factor * factor, remaining >> 1
    return np.where(exponent < 0, inverse, power).astype(base.dtype)[()]


@computes(math_dialect.CountTrailingZerosOp)
def _count_trailing_zeros(value: Any) -> Any:
    if value.dtype == np.bool_:
        return ~value
    return unsigned(lambda bits: np.bitwise_count((bits & -bits) - np.ones_like(bits)).astype(bits.dtype))(value)


@computes(math_dialect.CountLeadingZerosOp)
def _count_leading_zeros(value: Any) -> Any:
    if value.dtype == np.bool_:
        return ~value
    return unsigned(_leading_zeros)(value)


def _leading_zeros(bits: Any) -> Any:
    width, shift = 8 * bits.dtype.itemsize, 1
    while shift < width:
        bits, shift = bits | (bits >> bits.dtype.type(shift)), 2 * shift
    return np.bitwise_count(~bits).astype(bits.dtype)
