"""Special functions of one variable: error functions, and rarer elementary ones. Integers are taken as f32.

Polynomials are evaluated in f64, and the result of an f32 (or narrower) operand is rounded once.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable
from typing import Any, ClassVar

import ml_dtypes
from xdsl.dialects import math
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.scalar import ScalarForms, convert, emit_scalar, polynomial
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, PrimitiveOp, UnaryOp
from tenon.dialects.ops.elementwise import special_coefficients as coefficients
from tenon.dialects.ops.elementwise.normal_tail import error_tail, normal_tail
from tenon.dialects.types.types import NUMERIC_TENSOR, f64, is_float, numpy_dtype

_SQRT_HALF = numbers.sqrt(0.5)


# --- building blocks on scalars ---------------------------------------------------------------------------------------


def of_half_turns(function: Callable[[Value], Value], x: Value) -> Value:
    """sin(pi x) or cos(pi x), from what x has beyond whole numbers: exact at these, however large they are."""
    whole = ops.round(x)
    is_odd = ops.round(0.5 * whole) != 0.5 * whole
    value = function(numbers.pi * (x - whole))
    return ops.select(is_odd, -value, value)


# --- error functions --------------------------------------------------------------------------------------------------


@tensor_op
class ErfcOp(UnaryOp):
    """The complementary error function of `x`: 1 - erf(x), exact where that is small, too.

    >>> tenon.erfc(np.array([0.0, 1.0, -1.0]))
    >>> tenon.erfc(np.array([10.0])) * 1e45
    """

    name = "tenon.erfc"

    @staticmethod
    def scalar(x: Value) -> Value:
        tail = error_tail(abs(x))
        return ops.select(x < 0.0, 2.0 - tail, tail)

    vjp = staticmethod(lambda g, out, x: g * (-2.0 / numbers.sqrt(numbers.pi)) * ops.exp(-(x * x)))


@tensor_op
class NdtrOp(UnaryOp):
    """The probability that a standard normal variable is below `x`, exact in the lower tail.

    >>> tenon.ndtr(np.array([0.0, 1.0, -1.96]))
    """

    name = "tenon.ndtr"

    @staticmethod
    def scalar(x: Value) -> Value:
        tail = normal_tail(abs(x))
        return ops.select(x < 0.0, tail, 1.0 - tail)

    vjp = staticmethod(lambda g, out, x: g * numbers.sqrt(0.5 / numbers.pi) * ops.exp(-0.5 * x * x))


_ASYMPTOTIC = (162.421875, -29.53125, 6.5625, -1.875, 0.75, -0.5, 1.0)
_ASYMPTOTIC_SLOPE = [(13 - 2 * k) * term for k, term in enumerate(_ASYMPTOTIC)]


def scaled_error_tail(z: Value) -> Value:
    """exp(z^2) erfc(z) for an f64 z that is not negative."""
    near = ops.minimum(z, 30.0)
    t = 2.0 / (2.0 + near)
    far = 1.0 / ops.maximum(z, 30.0)
    square = far * far
    series = (numbers.sqrt(1 / numbers.pi) * far) * polynomial(square, _ASYMPTOTIC)
    return ops.select(z > 30.0, series, t * polynomial(2.0 * t - 1.0, coefficients.SCALED_ERFC))


@tensor_op
class ErfcxOp(UnaryOp):
    """exp(`x`^2) times the complementary error function of `x`, which does not vanish for large `x`.

    Computed in f64; the result of a narrower operand is rounded once.

    >>> tenon.erfcx(np.array([0.0, 1.0, 100.0, -1.0]))
    """

    name = "tenon.erfcx"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        tail = scaled_error_tail(abs(wide))
        return convert(ops.select(wide < 0.0, 2.0 * ops.exp(wide * wide) - tail, tail), x.type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        """2 x erfcx(x) - 2 / sqrt(pi), in f64, as it cancels; for large x the derivative of the series."""
        wide = ops.cast(x, dtype=f64)
        near = ops.minimum(wide, 30.0)
        far = 1.0 / ops.maximum(wide, 30.0)
        square = far * far
        series: Any = _ASYMPTOTIC_SLOPE[0]
        for term in _ASYMPTOTIC_SLOPE[1:]:
            series = series * square + term
        series = -numbers.sqrt(1 / numbers.pi) * square * series
        slope = ops.select(wide > 30.0, series, 2.0 * near * ops.erfcx(near) - 2.0 / numbers.sqrt(numbers.pi))
        return (g * ops.cast(slope, dtype=x.element_type),)


@tensor_op
class LogNdtrOp(UnaryOp):
    """The logarithm of the probability that a standard normal variable is below `x`, exact where that is 0 or 1 as a
    float, too.

    Computed in f64; the result of a narrower operand is rounded once.

    >>> tenon.log_ndtr(np.array([0.0, -100.0, 9.0]))
    """

    name = "tenon.log_ndtr"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        above = ops.log1p(-normal_tail(ops.maximum(wide, 0.0)))
        size = ops.maximum(-wide, 0.0)
        below = ops.log(0.5 * scaled_error_tail(_SQRT_HALF * size)) - 0.5 * size * size
        return convert(ops.select(wide < 0.0, ops.select(size == numbers.inf, wide, below), above), x.type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        """In f64: the square of x, and so the logarithm, is too large for the difference of both to be exact."""
        slope = numbers.sqrt(2.0 / numbers.pi) / ops.erfcx(-_SQRT_HALF * ops.cast(x, dtype=f64))
        return (g * ops.cast(slope, dtype=x.element_type),)


@tensor_op
class NdtriOp(UnaryOp):
    """The number that a standard normal variable is below with probability `x`: infinite at 0 and 1, NaN outside of
    [0, 1].

    By the functions of `erfcinv`, exact for small `x`.

    >>> tenon.ndtri(np.array([0.5, 0.975, 1e-30, 1.0]))
    """

    name = "tenon.ndtri"
    AUTOCAST = "full"
    scalar = staticmethod(lambda x: -numbers.sqrt(2.0) * ErfcinvOp.scalar(2.0 * x))
    vjp = staticmethod(lambda g, out, x: g * numbers.sqrt(2.0 * numbers.pi) * ops.exp(0.5 * out * out))


@tensor_op
class EntrOp(UnaryOp):
    """-`x` log(`x`), which is 0 at 0; -inf below.

    >>> tenon.entr(np.array([0.0, 0.5, 1.0, -1.0]))
    """

    name = "tenon.entr"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        inside = ops.select(x == 0.0, 1.0, x)
        return ops.select(x < 0.0, -numbers.inf, -x * ops.log(inside))

    vjp = staticmethod(lambda g, out, x: g * (-ops.log(x) - 1.0))


@tensor_op
class ErfinvOp(UnaryOp):
    """The number whose error function is `x`: infinite at -1 and 1, NaN outside of [-1, 1].

    f64 by Wichura, Algorithm AS 241 (Applied Statistics 37, 1988); other floats, within 2.1 units in the last place of
    f32, by polynomials in the logarithm of 1 - x^2, after Giles (GPU Computing Gems, 2011).

    >>> tenon.erfinv(np.array([0.0, 0.5, -1.0, 2.0]))
    """

    name = "tenon.erfinv"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        if x.element_type == f64:
            result = _quantile(x, -ops.log(0.5 - 0.5 * abs(x)))
        else:
            result = x * _inverse_error_ratio(-ops.log((1.0 - x) * (1.0 + x)), ranges=2)
        return ops.select(abs(x) == 1.0, numbers.inf * x, result)

    vjp = staticmethod(lambda g, out, x: g * (0.5 * numbers.sqrt(numbers.pi)) * ops.exp(out * out))


@tensor_op
class ErfcinvOp(UnaryOp):
    """The number whose complementary error function is `x`: infinite at 0 and 2, NaN outside of [0, 2].

    Exact for small `x`, where 1 - x is 1. By the functions of `erfinv`; f32 within 4 units in the last place.

    >>> tenon.erfcinv(np.array([1.0, 0.5, 1e-30, 2.0]))
    """

    name = "tenon.erfcinv"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        is_low = x <= 1.0
        tail = ops.select(is_low, x, 2.0 - x)
        if x.element_type == f64:
            size = _quantile(1.0 - tail, numbers.log(2.0) - ops.log(tail))
        else:
            size = (1.0 - tail) * _inverse_error_ratio(-ops.log(tail * (2.0 - tail)), ranges=3)
        size = ops.select(tail == 0.0, numbers.inf, size)
        return ops.select(is_low, size, -size)

    vjp = staticmethod(lambda g, out, x: g * (-0.5 * numbers.sqrt(numbers.pi)) * ops.exp(out * out))


def _inverse_error_ratio(w: Value, ranges: int) -> Value:
    """erfinv(x) / x in f32 by w = -log(1 - x^2); the last of three ranges is that of x nearer to 1 than f32 is."""
    root = ops.sqrt(w)
    places = (w - 1.0, root - 3.0, root - 7.0)
    parts = [polynomial(*given) for given in zip(places, coefficients.INVERSE_ERROR_F32, strict=True)][:ranges]
    result = ops.select(w < 5.0, *parts[:2])
    return result if ranges == 2 else ops.select(w < 16.0, result, parts[2])


def _quantile(x: Value, minus_log: Value) -> Value:
    """erfinv(x) in f64, by -log((1 - abs(x)) / 2)."""
    q, r = 0.5 * x, ops.sqrt(minus_log)
    ranges = (0.180625 - q * q, r - 1.6, r - 5.0)
    center, middle, far = [
        polynomial(place, terms[0]) / polynomial(place, terms[1])
        for place, terms in zip(ranges, _QUANTILE_RANGES, strict=True)
    ]
    outer = emit_scalar(math.CopySignOp, _SQRT_HALF * ops.select(r <= 5.0, middle, far), x)
    # q is 0 for the smallest subnormal number.
    return ops.select(abs(q) <= 0.425, x * (0.5 * _SQRT_HALF * center), outer)


_QUANTILE = coefficients.NORMAL_QUANTILE
_QUANTILE_RANGES = (_QUANTILE[0:2], _QUANTILE[2:4], _QUANTILE[4:6])


# --- elementary functions ---------------------------------------------------------------------------------------------


@tensor_op
class CbrtOp(UnaryOp, PrimitiveOp):
    """The cube root of `x`, of negative numbers, too. The gradient at 0 is infinite.

    >>> tenon.cbrt(np.array([27.0, -8.0, 2.0]))
    """

    name = "tenon.cbrt"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CbrtOp)
    vjp = staticmethod(lambda g, out, x: g / (3.0 * out * out))


_SINC_SLOPE = [(-1) ** k * 2 * k / numbers.factorial(2 * k + 1) for k in range(1, 12)]


@tensor_op
class SincOp(UnaryOp):
    """sin(pi x) / (pi x), and 1 at 0. Exactly 0 at all other whole numbers, where NumPy gives about 1e-17.

    >>> tenon.sinc(np.array([0.0, 0.5, 1.5, 2.0]))
    """

    name = "tenon.sinc"

    @staticmethod
    def scalar(x: Value) -> Value:
        return ops.select(x == 0.0, 1.0, of_half_turns(ops.sin, x) / (numbers.pi * ops.select(x == 0.0, 1.0, x)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        """(cos(pi x) - sinc(x)) / x, which cancels near 0: there, its series."""
        is_near = abs(x) < 0.5
        near, far = ops.select(is_near, x, 0.0), ops.select(is_near, 1.0, x)
        square = numbers.pi**2 * near * near
        series: Any = _SINC_SLOPE[-1]
        for term in _SINC_SLOPE[-2::-1]:
            series = series * square + term
        formula = (of_half_turns(ops.cos, far) - ops.sinc(far)) / far
        return (g * ops.select(is_near, numbers.pi**2 * near * series, formula),)


@tensor_op
class LogitOp(UnaryOp):
    """The inverse of the logistic function: log(`x` / (1 - `x`)); NaN outside of [0, 1].

    With `eps`, `x` is limited to [`eps`, 1 - `eps`] before.

    >>> tenon.logit(np.array([0.5, 0.9, 1.0, 2.0]))
    >>> tenon.logit(np.array([0.0, 1.0]), eps=0.1)
    """

    name = "tenon.logit"
    AUTOCAST = "full"
    eps = setting(float, default=None)

    @staticmethod
    def scalar(x: Value, *, eps: float | None) -> Value:
        if eps is not None:
            x = ops.clip(x, eps, 1.0 - eps)
        # log(1 + (2 x - 1) / (1 - x)): near 1/2 both logarithms are small and their arguments exact.
        middle = ops.log1p((2.0 * x - 1.0) / (1.0 - x))
        return ops.select(abs(x - 0.5) < 0.25, middle, ops.log(x / (1.0 - x)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, eps: float | None) -> tuple[Any, ...]:
        if eps is None:
            return (g / (x * (1.0 - x)),)
        is_limited = (x < eps) | (x > 1.0 - eps)
        inside = ops.select(is_limited, 0.5, x)
        return (ops.select(is_limited, 0.0, g / (inside * (1.0 - inside))),)


class AngleOp(UnaryOp):
    """An angle in another unit."""


@tensor_op
class DegreesToRadiansOp(AngleOp):
    """The angle of `x` degrees in radians.

    >>> tenon.deg2rad(np.array([0.0, 90.0, 180.0]))
    """

    name = "tenon.deg2rad"
    ALIASES: ClassVar[tuple[str, ...]] = ("radians",)
    scalar = staticmethod(lambda x: x * (numbers.pi / 180.0))


@tensor_op
class RadiansToDegreesOp(AngleOp):
    """The angle of `x` radians in degrees.

    >>> tenon.rad2deg(np.array([0.0, 1.0, np.pi]))
    """

    name = "tenon.rad2deg"
    ALIASES: ClassVar[tuple[str, ...]] = ("degrees",)
    scalar = staticmethod(lambda x: x * (180.0 / numbers.pi))


@tensor_op
class NanToNumOp(CompositeOp):
    """`x` with `nan` for NaN and `posinf` and `neginf` for the infinities: by default the largest and least number.

    The gradient is that of `x` where it is finite, else 0. Integers stay as they are.

    >>> tenon.nan_to_num(np.array([1.5, np.nan, np.inf, -np.inf]), nan=0.0, posinf=9.0, neginf=-9.0)
    """

    name = "tenon.nan_to_num"
    x = operand_def(NUMERIC_TENSOR)
    nan = setting(float, default=0.0)
    posinf = setting(float, default=None)
    neginf = setting(float, default=None)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def decompose(x: Value, *, nan: float, posinf: float | None, neginf: float | None) -> Value:
        if not is_float(x.element_type):
            return ops.identity(x)
        bounds = ml_dtypes.finfo(numpy_dtype(x.element_type))
        high, low = (float(bounds.max), float(bounds.min)) if None in (posinf, neginf) else (0.0, 0.0)
        high, low = high if posinf is None else posinf, low if neginf is None else neginf
        finite = ops.select(x == numbers.inf, high, ops.select(x == -numbers.inf, low, x))
        return ops.select(ops.isnan(x), nan, finite)
