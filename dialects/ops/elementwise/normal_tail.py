"""The upper tail of the normal distribution and of the error function on scalars, exact to the last places where it is
tiny, too: the formulas behind `erfc`, `ndtr` and `gelu`. Arguments are not negative, f32 or f64; NaN stays NaN.

In f64 the error function's tail is exp(-z^2) times Chebyshev's interpolant of a scaled function of t = 2 / (2 + z). f32
(and narrower types) have a shorter one, which does not use f64, half of whose lanes a vector has. There the scaled
function, the exponential and a quotient are multiplied so that only the last product rounds all of the result, and the
square in the exponent is exact.
"""

from __future__ import annotations

import math as numbers

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32

from tenon.dialects.definition.scalar import emit_scalar, exact_product, fma, polynomial, scalar_constant
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.elementwise import special_coefficients as coefficients
from tenon.dialects.types.types import f32, f64

_APPROXIMATE = arith.FastMathFlagsAttr([arith.FastMathFlag.APPROX_FUNC])
_ROUND = 1.5 * 2.0**23
"""Added to a small f32, it rounds that to a whole number, the low bits of the sum."""
_EXTRA_EXPONENT = 64
"""Powers of two are made too large by this exponent, so that they are normal numbers."""
_RAISED_HIGH, _RAISED_LOW = 44.36141955573112, 1.0538207733054133e-10
"""The logarithm of 2 to the power of that in two parts, the first with few bits."""
_PLACE = 0.25
_SQRT_HALF, _SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17
"""The square root of 1/2 in two parts."""


def normal_tail(a: Value) -> Value:
    """The probability that a standard normal variable is above `a`; its error is at most 2.6 ULP, in f64 2."""
    if a.type == f64:
        return _long_tail(_at_most(a, 40.0), 0.5)
    return _short_tail(a, 1.0, coefficients.NORMAL_TAIL)


def weighted_normal_tail(a: Value, *, rounded: bool = False) -> Value:
    """`a` times the probability that a standard normal variable is above it; its error is at most 2.5 ULP, in f64 2.

    Of what is `rounded` to f16 or bf16 it is 2^-17: half as many operations, which a GPU may approximate.
    """
    if rounded:
        return _rounded_weighted_tail(a)
    if a.type == f64:
        limited = _at_most(a, 40.0)
        return _long_tail(limited, 0.5, weight=limited)
    return _short_weighted_tail(a, coefficients.NORMAL_TAIL)


def _rounded_weighted_tail(a: Value) -> Value:
    a = _at_most(a, coefficients.NORMAL_TAIL.limit)
    total = a + coefficients.ROUNDED_NORMAL_TAIL_POLE
    quotient = emit_scalar(lambda a, b: arith.DivfOp(a, b, _APPROXIMATE), a, total)
    exponent = (-0.5 / numbers.log(2.0)) * (a * a)
    power = emit_scalar(lambda x: math.Exp2Op(x, _APPROXIMATE), exponent)
    return quotient * polynomial(quotient, coefficients.ROUNDED_NORMAL_TAIL) * power


def error_tail(z: Value) -> Value:
    """The complementary error function of `z`; its error is at most 2.5 ULP, in f64 2."""
    if z.type == f64:
        return _long_tail(_at_most(z, 28.0), 1.0)
    return _short_tail(z, 2.0, coefficients.ERROR_TAIL)


def _at_most(a: Value, limit: float) -> Value:
    return ops.select(a > limit, limit, a)


def _long_tail(a: Value, square: float, weight: Value | None = None) -> Value:
    """`square` erfc(sqrt(`square`) `a`), f64, for a `square` of 1 or 1/2; with a `weight`, times that.

    Each factor is multiplied with what it lost, so that besides the exponential only the last product rounds all of the
    result.
    """
    power, power_lost, scale = _exponential_of_square(a, square)
    t, t_lost = _mapped(a, square)
    series, series_lost = _series(t)
    factor = square * t
    # The logarithmic derivative of the series times t is about 1 + 1.26 t.
    relative = fma(0.5 + 0.63 * t, t_lost, power_lost)
    if weight is None:
        product, lost = exact_product(factor, series)
    else:
        factor, factor_lost = exact_product(factor, weight)
        product, lost = exact_product(factor, series)
        lost = fma(factor_lost, series, lost)
    lost = fma(product, relative, fma(factor, series_lost, lost))
    return scale * fma(power, product, power * lost)


def _exponential_of_square(a: Value, square: float) -> tuple[Value, Value, Value]:
    """exp(-`square` a^2), f64, with `square` a power of two, is (1 + l) p s: p, l and s, which is a power of two.

    Where that is small, p is not, so that a subnormal result is rounded once, by its product with s.
    """
    high, low = exact_product(square * a, a)
    none, one = scalar_constant(0.0, f64), scalar_constant(1.0, f64)
    is_small = high > 600.0
    power = ops.exp(ops.select(is_small, _RAISED_HIGH, none) - high)
    return power, ops.select(is_small, _RAISED_LOW, none) - low, ops.select(is_small, 2.0**-_EXTRA_EXPONENT, one)


def _mapped(a: Value, square: float) -> tuple[Value, Value]:
    """t = 2 / (2 + z) for z = sqrt(`square`) `a`, f64, and twice what it lost, relative to it."""
    z = a if square == 1.0 else _SQRT_HALF * a
    denominator = 2.0 + z
    t = 2.0 / denominator
    rest = z - (denominator - 2.0)
    if square != 1.0:
        rest = rest + fma(a, _SQRT_HALF_LOW, fma(a, _SQRT_HALF, -z))
    return t, fma(-t, denominator, 2.0) - t * rest


def _series(t: Value) -> tuple[Value, Value]:
    """exp(z^2) erfc(z) / t for t = 2 / (2 + z) and 0 <= z <= 30, f64, and what its last sum lost."""
    place, first = fma(t, 2.0, -1.0), coefficients.SCALED_ERFC[-1]
    rising = polynomial(place, coefficients.SCALED_ERFC[:-1])
    series = fma(rising, place, first)
    return series, fma(rising, place, first - series)


def _short_tail(a: Value, weight: float, tail: coefficients.ScaledTail) -> Value:
    """`weight` times a tail of `a`, f32."""
    a = _at_most(a, tail.limit)
    total = a + tail.pole
    quotient = weight / total
    place = fma(quotient, -tail.pole / weight, 1.0 - _PLACE)
    high, low, exponent = _scaled_tail(a, place, tail)
    # What the sum and the quotient lost, times the derivative of the tail's logarithm by that of the quotient, which
    # falls from 2 to 1. For a weight of `a` that is below 1, and can be left out.
    lost = fma(-quotient, a - (total - tail.pole), fma(-quotient, total, weight))
    low = fma(lost * ((2.0 - _PLACE - place) / weight), high, low)
    return _scaled_down(fma(quotient, high, quotient * low), exponent)


def _short_weighted_tail(a: Value, tail: coefficients.ScaledTail) -> Value:
    """`a` times a tail of `a`, f32."""
    a = _at_most(a, tail.limit)
    quotient = a / (a + tail.pole)
    high, low, exponent = _scaled_tail(a, quotient - _PLACE, tail)
    return _scaled_down(fma(quotient, high, quotient * low), exponent)


def _scaled_tail(a: Value, place: Value, tail: coefficients.ScaledTail) -> tuple[Value, Value, Value]:
    """A tail of `a` times the sum of `a` and the pole is (h + l) 2^n for small l: h, l, and n in the low bits."""
    power, exponent = _exponential_of_square_less_one(a, tail.square)
    rising, first = polynomial(place, tail.terms[:-1]), tail.terms[-1]
    series = fma(rising, place, first)
    rest = fma(series, power, fma(rising, place, first - series))
    high = series + rest
    return high, rest - (high - series), exponent


def _exponential_of_square_less_one(a: Value, factor: float) -> tuple[Value, Value]:
    """exp(-`factor` a^2) is (1 + p) 2^n with `factor` a power of two, f32: p, and n in the low bits."""
    shifted = fma((-factor / numbers.log(2.0)) * a, a, _ROUND)
    n = shifted - _ROUND
    square = fma(a, a, n * (coefficients.LN2_HIGH / factor))
    square = fma(n, coefficients.LN2_LOW / factor, square)
    terms = (*coefficients.EXPONENTIAL, 1.0)
    scaled = [term * (-factor) ** (len(terms) - number) for number, term in enumerate(terms)]
    return square * polynomial(square, scaled), shifted


def _scaled_down(x: Value, shifted: Value) -> Value:
    """`x` times 2^n, for a whole number n from -190 to 0 that is the low bits of `shifted`.

    Two factors, so that a result below the smallest normal number is rounded once, by the last of them.
    """
    exponent = emit_scalar(arith.ShLIOp, emit_scalar(lambda value: arith.BitcastOp(value, i32), shifted), _integer(23))
    biased = emit_scalar(arith.AddiOp, exponent, _integer((127 + _EXTRA_EXPONENT) << 23))
    return x * emit_scalar(lambda bits: arith.BitcastOp(bits, f32), biased) * 2.0**-_EXTRA_EXPONENT


def _integer(number: int) -> Value:
    return scalar_constant(number, i32)
