"""The upper tail of the normal distribution and of the error function on scalars, exact to the last places where it is
tiny, too: the formulas behind `erfc`, `ndtr` and `gelu`. Arguments are not negative, f32 or f64; NaN stays NaN.

In f64 the error function's tail is exp(-z^2) times Chebyshev's interpolant of a scaled function of t = 2 / (2 + z). f32
(and narrower types) have a shorter one, which does not use f64, half of whose lanes a vector has. There the scaled
function, the exponential and a quotient are multiplied so that only the last product rounds all of the result, and the
square in the exponent is exact.
"""

from __future__ import annotations

import math as numbers

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from tenon.dialects import special_coefficients as coefficients
from tenon.dialects.scalar import emit_scalar, fma, polynomial, scalar_constant
from tenon.dialects.types import f32, f64
from tenon.dialects.value import Value, ops

_ROUND = 1.5 * 2.0**23
"""Added to a small f32, it rounds that to a whole number, the low bits of the sum."""
_EXTRA_EXPONENT = 64
"""Powers of two are made too large by this exponent, so that they are normal numbers."""
_PLACE = 0.25


def normal_tail(a: Value) -> Value:
    """The probability that a standard normal variable is above `a`; its error is at most 2.6 ULP."""
    if a.type == f64:
        limited = _at_most(a, 40.0)
        return 0.5 * _exponential_of_square(limited, 0.5) * _scaled_erfc(numbers.sqrt(0.5) * limited)
    return _short_tail(a, 1.0, coefficients.NORMAL_TAIL)


def weighted_normal_tail(a: Value) -> Value:
    """`a` times the probability that a standard normal variable is above it; its error is at most 2.5 ULP."""
    if a.type == f64:
        return _at_most(a, 40.0) * normal_tail(a)
    return _short_weighted_tail(a, coefficients.NORMAL_TAIL)


def error_tail(z: Value) -> Value:
    """The complementary error function of `z`; its error is at most 3 ULP."""
    if z.type == f64:
        limited = _at_most(z, 28.0)
        return _exponential_of_square(limited, 1.0) * _scaled_erfc(limited)
    return _short_tail(z, 2.0, coefficients.ERROR_TAIL)


def _at_most(a: Value, limit: float) -> Value:
    return ops.select(a > limit, limit, a)


def _exponential_of_square(a: Value, factor: float) -> Value:
    """exp(-`factor` a^2), f64, with `factor` a power of two; exact in the last places of a^2, too."""
    scaled = factor * a
    high = scaled * a
    low = fma(scaled, a, -high)
    power = ops.exp(-high)
    return fma(power, -low, power)


def _scaled_erfc(z: Value) -> Value:
    """exp(z^2) erfc(z) for 0 <= `z` <= 30, f64."""
    denominator = 2.0 + z
    t = 2.0 / denominator
    scaled = t * polynomial(fma(t, 32 / 15, -17 / 15), coefficients.SCALED_ERFC)
    # What the sum and the quotient lost, times the logarithmic derivative in t, about 1 + 1.26 t.
    lost = fma(-t, denominator, 2.0) - t * (z - (denominator - 2.0))
    return fma(scaled, (0.5 + 0.63 * t) * lost, scaled)


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
