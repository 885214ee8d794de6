"""The upper tail of the normal distribution and of the error function on scalars, exact to the last places where it is
tiny, too: the formulas behind `erfc`, `ndtr` and `gelu`.

In f64 the error function's tail is exp(-z^2) times Chebyshev's interpolant of a scaled function of t = 2 / (2 + z). f32
(and narrower types) have a shorter one. It does not use f64, half of whose lanes a vector has: what sums, quotients and
large products lose to rounding is computed as well, and added at the end. Its error is at most 2.5 ULP.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32

from tenon.dialects import special_coefficients as coefficients
from tenon.dialects.scalar import emit_scalar, scalar_constant
from tenon.dialects.types import f32, f64
from tenon.dialects.value import Value, ops

_EXTRA_EXPONENT = 64
"""Powers of two are made too large by this exponent, so that they are normal numbers."""


def normal_tail(a: Value, weight: Value | float = 1.0) -> Value:
    """`weight` times the probability that a standard normal variable is above `a`, 0 <= `a` <= 40; f32 or f64."""
    if a.type == f64:
        return weight * (0.5 * _exponential_of_square(a, 0.5) * _scaled_erfc(numbers.sqrt(0.5) * a))
    return _short_tail(ops.select(a > 15.0, 15.0, a), weight, coefficients.NORMAL_TAIL)


def error_tail(z: Value) -> Value:
    """The complementary error function of 0 <= `z` <= 28; f32 or f64."""
    if z.type == f64:
        return _exponential_of_square(z, 1.0) * _scaled_erfc(z)
    return _short_tail(ops.select(z > 11.0, 11.0, z), 2.0, coefficients.ERROR_TAIL)


def _exponential_of_square(a: Value, factor: float) -> Value:
    """exp(-`factor` a^2), f64, with `factor` a power of two; exact in the last places of a^2, too."""
    scaled = factor * a
    high = scaled * a
    low = _fma(scaled, a, -high)
    power = ops.exp(-high)
    return _fma(power, -low, power)


def _scaled_erfc(z: Value) -> Value:
    """exp(z^2) erfc(z) for 0 <= `z` <= 30, f64."""
    denominator = 2.0 + z
    t = 2.0 / denominator
    scaled = t * _polynomial(_fma(t, 32 / 15, -17 / 15), coefficients.SCALED_ERFC)
    # What the sum and the quotient lost, times the logarithmic derivative in t, about 1 + 1.26 t.
    lost = _fma(-t, denominator, 2.0) - t * (z - (denominator - 2.0))
    return _fma(scaled, (0.5 + 0.63 * t) * lost, scaled)


def _short_tail(a: Value, weight: Value | float, tail: coefficients.ScaledTail) -> Value:
    """`weight` times a tail, f32."""
    total = a + tail.pole
    t = tail.pole / total
    place, first = t - 0.5, tail.terms[-1]
    rising = _polynomial(place, tail.terms[:-1])
    series = _fma(rising, place, first)
    series_low = _fma(rising, place, first - series)
    product = weight * t
    value = product * series
    low = _fma(product, series_low, _fma(product, series, -value))
    if isinstance(weight, Value):
        low = _fma(_fma(weight, t, -product), series, low)
    quotient_low = _fma(-t, a - (total - tail.pole), _fma(-t, total, tail.pole))
    slope = _polynomial(t, [term / tail.pole for term in tail.slope])
    low = _fma(slope * quotient_low, value, low)
    return _times_exponential_of_square(value, low, a, tail.square)


def _times_exponential_of_square(value: Value, low: Value, a: Value, factor: float) -> Value:
    """(`value` + `low`) exp(-`factor` a^2), f32, with `factor` a power of two and the product at most 125."""
    scaled = factor * a
    square = scaled * a
    square_low = _fma(scaled, a, -square)
    # The low bits of the sum are the integer nearest to the exponent of two.
    shifted = _fma(-square, 1.0 / numbers.log(2.0), 1.5 * 2.0**23)
    n = shifted - 1.5 * 2.0**23
    rest = _fma(n, coefficients.MINUS_LN2[1], _fma(n, coefficients.MINUS_LN2[0], -square)) - square_low
    power = _fma(_polynomial(rest, coefficients.EXPONENTIAL), rest * rest, rest)
    result = value + _fma(power, value, low)
    # Two factors, so that a result below the smallest normal number is rounded once, by the last of them.
    exponent = emit_scalar(arith.ShLIOp, _bits(shifted), scalar_constant(23, i32))
    biased = emit_scalar(arith.AddiOp, exponent, scalar_constant((127 + _EXTRA_EXPONENT) << 23, i32))
    return result * _from_bits(biased) * 2.0**-_EXTRA_EXPONENT


def _bits(x: Value) -> Value:
    return emit_scalar(lambda value: arith.BitcastOp(value, i32), x)


def _from_bits(bits: Value) -> Value:
    return emit_scalar(lambda value: arith.BitcastOp(value, f32), bits)


def _fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c, rounded once."""
    b, c = (value if isinstance(value, Value) else scalar_constant(value, a.type) for value in (b, c))
    return emit_scalar(math.FmaOp, a, b, c)


def _polynomial(x: Value, terms: Sequence[float]) -> Value:
    """Horner's rule, highest power first."""
    value: Value | float = terms[0]
    for term in terms[1:]:
        value = _fma(x, value, term)
    assert isinstance(value, Value)
    return value
