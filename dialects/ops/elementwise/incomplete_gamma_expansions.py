"""Expansions of the incomplete gamma functions, regularized, on f64 scalars; with derivatives by a where a is a `Jet`:

- Temme's uniform expansion (NIST's Digital Library of Mathematical Functions, 8.12) for a from 16 on, near x = a;
- Legendre's continued fraction (8.9.2) where x is at least a and 0.8. It begins behind 46 terms with the asymptotic
  expansion of its tail: without, it would take 127 terms where it converges worst;
- the power series of 8.11.4 elsewhere, and for the upper function where it is small against 1 that of 8.7.3.

All but the last are multiples of x^a exp(-x) / Gamma(a + 1), whose exponent is computed in two parts: it is a sum of
large terms that cancel.
"""

from __future__ import annotations

import math as numbers
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Attribute

from tenon.dialects.definition.scalar import convert, emit_scalar, exact_product, fma, polynomial, scalar_constant
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.elementwise import special_coefficients as coefficients
from tenon.dialects.ops.elementwise.gamma import BERNOULLI, STIRLING, positive_digamma
from tenon.dialects.ops.elementwise.special import scaled_error_tail
from tenon.dialects.types.types import f64, i64

LARGE, LOW, HIGH = 16.0, 0.303, 2.35
"""From which a on, and between which x / a, the uniform expansion holds: |eta| is at most 1 there."""
_ROWS = (27, 27, 25, 24, 22, 20, 18, 16, 14, 12, 10, 8, 2)
"""How many coefficients of the uniform expansion count, for each power of 1 / a."""
_SERIES, _SMALL_SERIES, _FRACTION = 46, 18, 46
"""How many terms are enough."""
BEGIN = 0.8
"""From which x on the fraction converges with so many terms; below, the series of 8.7.3 cancels little."""
_STIRLING = 8.0
VANISHED = 4e3
"""Where a or x is larger, all but the uniform expansion is multiplied by 0."""


# --- numbers with their derivatives -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jet:
    """A number and its derivative by a."""

    value: Any
    slope: Any

    def __add__(self, other: Any) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value + other.value, self.slope + other.slope)
        return Jet(self.value + other, self.slope)

    def __sub__(self, other: Any) -> Jet:
        return self + -other

    def __rsub__(self, other: Any) -> Jet:
        return -self + other

    def __neg__(self) -> Jet:
        return Jet(-self.value, -self.slope)

    def __mul__(self, other: Any) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value * other.value, self.slope * other.value + self.value * other.slope)
        return Jet(self.value * other, self.slope * other)

    def __truediv__(self, other: Jet) -> Jet:
        ratio = self.value / other.value
        return Jet(ratio, (self.slope - ratio * other.slope) / other.value)

    __radd__, __rmul__ = __add__, __mul__


def value_of(x: Any) -> Any:
    return x.value if isinstance(x, Jet) else x


def choose(condition: Value, first: Any, second: Any) -> Any:
    if isinstance(first, Jet):
        return Jet(ops.select(condition, first.value, second.value), ops.select(condition, first.slope, second.slope))
    return ops.select(condition, first, second)


def _horner(x: Any, terms: tuple[float, ...]) -> Any:
    """A polynomial, highest power first."""
    if isinstance(x, Value):
        return polynomial(x, terms)
    total = x * terms[0] + terms[1]
    for term in terms[2:]:
        total = total * x + term
    return total


# --- the factor that all have -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factor:
    """x^a exp(-x) / Gamma(a + 1), and what its parts are."""

    ratio: Value
    """x / a."""
    log_ratio: Value
    """Its logarithm."""
    exponent: Value
    """log(x / a) a - (x - a) where a is large."""
    power: Value
    """exp of that."""
    value: Any


def _bits(number: int) -> Value:
    return scalar_constant(number, i64)


def _cast(value: Value, target: Attribute) -> Value:
    return emit_scalar(lambda x: arith.BitcastOp(x, target), value)


def _sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y, and what it lost."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ARTANH = tuple([1.0 / (2 * n + 1) for n in range(13, 1, -1)])


def _log_in_two(x: Value) -> tuple[Value, Value]:
    """log x, f64, in two parts, together exact to 2^-60; `x` is positive and finite."""
    tiny = x < 1e-290
    bits = _cast(ops.select(tiny, x * 2.0**64, x), i64)
    root = emit_scalar(arith.SubiOp, bits, _bits(0x3FE6A09E667F3BCD))  # the square root of 1/2
    exponent = emit_scalar(arith.ShRSIOp, root, _bits(52))
    mantissa = _cast(emit_scalar(arith.SubiOp, bits, emit_scalar(arith.ShLIOp, exponent, _bits(52))), f64)
    power = convert(exponent, f64) - ops.select(tiny, 64.0, scalar_constant(0.0, f64))
    # log m = 2 artanh(s) for s = (m - 1) / (m + 1), of which the first term is in two parts.
    below = mantissa - 1.0
    above, above_lost = _sum(mantissa, scalar_constant(1.0, f64))
    s = below / above
    s_lost = (fma(-s, above, below) - s * above_lost) / above
    # The second term is, too: a times what it loses would count where log(x / a) a - (x - a) cancels.
    square, square_lost = exact_product(s, s)
    cube, cube_lost = exact_product(square, s)
    third = cube * (1.0 / 3.0)
    third_lost = (fma(third, -3.0, cube) + fma(square_lost, s, cube_lost)) * (1.0 / 3.0)
    rest = s * square * square * polynomial(square, _ARTANH) + s_lost * (1.0 + square + square * square)
    high, low = _sum(power * _LN2_HIGH, 2.0 * s)
    high, more = _sum(high, 2.0 * third)
    rest = 2.0 * (rest + third_lost) + power * _LN2_LOW + (low + more)
    return _sum(high, rest)


def factor_of(a: Value, x: Value, *, with_slope: bool) -> Factor:
    is_large = a >= _STIRLING
    ratio = x / ops.select(is_large, a, 1.0)
    lost = fma(-ratio, ops.select(is_large, a, 1.0), x) / ops.select(is_large, a, 1.0)
    high, low = _log_in_two(ops.maximum(ratio, 5e-324))
    low = low + lost / ops.maximum(ratio, 5e-324)
    product, product_lost = exact_product(a, high)
    shift, shift_lost = _sum(ops.select(is_large, a, 0.0), -x)
    exponent, exponent_lost = _sum(product, shift)
    exponent, exponent_lost = _sum(exponent, exponent_lost + (product_lost + fma(a, low, shift_lost)))
    power = ops.exp(exponent)
    power = fma(power, exponent_lost, power)

    inverse = 1.0 / ops.maximum(a, _STIRLING)
    square = inverse * inverse
    series = inverse * polynomial(square, STIRLING)
    near, gamma = _gamma_near(ops.minimum(a, _STIRLING))
    correction = ops.exp(-ops.select(is_large, series, near))
    divisor = ops.select(is_large, numbers.sqrt(2 * numbers.pi) * ops.sqrt(a), gamma)
    value: Any = power * (correction / divisor)
    if with_slope:
        far = high - 0.5 * inverse
        terms = [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
        far = far + square * polynomial(square, terms[::-1])
        slope = ops.select(is_large, far, high - positive_digamma(ops.minimum(a, _STIRLING) + 1.0))
        value = Jet(value, value * slope)
    return Factor(ratio, high + low, exponent + exponent_lost, power, value)


def _gamma_near(a: Value) -> tuple[Value, Value]:
    """Gamma(1 + a) = exp(l) p for 0 <= a <= 8, and l in [-0.13, 0]: l and p."""
    product: Any = scalar_constant(1.0, f64)
    for _ in range(int(_STIRLING)):
        above = a >= 1.0
        product = ops.select(above, product * a, product)
        a = ops.select(above, a - 1.0, a)
    return a * (a - 1.0) * polynomial(2.0 * a - 1.0, coefficients.LOG_GAMMA), product


# --- the parts of the plane -------------------------------------------------------------------------------------------


def series_of(a: Any, x: Value) -> Any:
    """The sum of x^n / ((a + 1) ... (a + n)), of which the factor's multiple is the lower function."""
    denominator: Any = a * 0.0 + 1.0
    numerator = denominator
    for k in range(_SERIES, 0, -1):
        denominator = (a + float(k)) * denominator
        numerator = numerator * x + denominator
    return numerator / denominator


def _small_series(a: Any, x: Value) -> Any:
    """The sum of (-x)^n / ((a + n) n!) from n = 1 on, for x up to 1."""
    terms: list[Value] = []
    for n in range(1, _SMALL_SERIES + 1):
        terms.append(-x if n == 1 else terms[-1] * x * (-1.0 / n))
    numerator, denominator = a * 0.0 + terms[-1], a + float(_SMALL_SERIES)
    for n in range(_SMALL_SERIES - 1, 0, -1):
        numerator = numerator * (a + float(n)) + denominator * terms[n - 1]
        denominator = denominator * (a + float(n))
    return numerator / denominator


def small_upper(a: Any, x: Value, log_x: Value) -> Any:
    """The upper function for x and a up to 1: 1 - x^a / Gamma(1 + a) (1 + a s) with the sum s of the series."""
    center = a * 2.0 - 1.0
    exponent = a * ((1.0 - a) * _horner(center, coefficients.LOG_GAMMA) + log_x)
    if isinstance(exponent, Jet):
        power = ops.exp(exponent.value)
        rise = Jet(ops.expm1(exponent.value), power * exponent.slope)
    else:
        rise = ops.expm1(exponent)
    return -rise - (rise + 1.0) * (a * _small_series(a, x))


def fraction_of(a: Any, x: Value) -> Any:
    """The continued fraction of which the factor's multiple by a is the upper function."""
    behind = -a + (x + (2.0 * _FRACTION + 1.0))
    numerator = choose(x < 30.0, _tail(a, ops.minimum(x, 30.0), float(_FRACTION)), behind)
    denominator: Any = a * 0.0 + 1.0
    for k in range(_FRACTION, 0, -1):
        level = -a + (x + (2.0 * k - 1.0))
        numerator, denominator = level * numerator + (a - float(k)) * float(k) * denominator, numerator
    return denominator / numerator


def _tail(a: Any, x: Value, k: float) -> Any:
    """How the continued fraction goes on behind `k` terms, in descending powers of the root of `k`.

    What solves t(k) = x + 2 k + 1 - a - (k + 1) (k + 1 - a) / t(k + 1).
    """
    root, down, total = ops.sqrt(x), a - x, a + x
    square, both = down * down, down * total
    terms = (
        (square * 4.0 + (8.0 * x - 1.0)) * (1.0 / (32.0 * root)),
        (both * -4.0 + 1.0) * (1.0 / (64.0 * x)),
        (square * (square * -16.0 + x * -64.0) + a * (a * 104.0 - 16.0 * x) + (x * (16.0 - 24.0 * x) - 25.0))
        * (1.0 / (2048.0 * x * root)),
        (both * (square * 16.0 + 32.0 * x) - a * (a * 56.0 - 8.0 * x) + (13.0 - 8.0 * x)) * (1.0 / (1024.0 * x * x)),
    )
    found = down * -0.5 + (k + 0.25 + root * numbers.sqrt(k))
    for power, term in enumerate(terms, 1):
        found = found + term * k ** (-0.5 * power)
    return found


@cache
def uniform_coefficients() -> tuple[tuple[float, ...], ...]:
    """For each power of 1 / a the polynomial in eta of the expansion (8.12.9 to 8.12.13), highest power first."""
    count = max(length + 2 * k for k, length in enumerate(_ROWS)) + 3
    # lambda - 1 in powers of eta, by lambda' (lambda - 1) = eta lambda.
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        others = sum([i * alpha[i] * alpha[n + 1 - i] for i in range(2, n)], Fraction(0))
        alpha.append((alpha[n - 1] - others) / (n + 1))
    first = [Fraction(-1, 3), *[(n + 2) * alpha[n + 2] for n in range(1, count - 1)]]
    rows, stirling = [first], _stirling_coefficients(len(_ROWS))
    for k in range(1, len(_ROWS)):
        before = rows[-1]
        rows.append([(-1) ** k * stirling[k] * first[n] + (n + 2) * before[n + 2] for n in range(len(before) - 2)])
    return tuple([tuple([float(d) for d in row[:length][::-1]]) for row, length in zip(rows, _ROWS, strict=True)])


def _stirling_coefficients(count: int) -> list[Fraction]:
    """The coefficients of Gamma(a) / (sqrt(2 pi / a) (a / e)^a) in powers of 1 / a, from those of its logarithm."""
    logarithm = [Fraction(0)] * (count + 1)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        if 2 * k - 1 <= count:
            logarithm[2 * k - 1] = Fraction(bernoulli).limit_denominator(10**4) / (2 * k * (2 * k - 1))
    found = [Fraction(1)]
    for n in range(1, count):
        found.append(sum([j * logarithm[j] * found[n - j] for j in range(1, n + 1)], Fraction(0)) / n)
    return found


def _uniform_sum(inverse: Any, eta: Any) -> Any:
    total: Any = None
    for row in uniform_coefficients()[::-1]:
        term = _horner(eta, row)
        total = term if total is None else total * inverse + term
    return total


def uniform_tail(a: Value, x: Value, factor: Factor, *, with_slope: bool) -> Value:
    """For large a the smaller of the functions, which is the lower one where x is below a; or the lower one's slope."""
    scale = 1.0 / (numbers.sqrt(2 * numbers.pi) * ops.sqrt(a))
    square = ops.maximum(-factor.exponent, 0.0)
    is_lower = x < a
    size = ops.sqrt(2.0 * square / a)
    eta = ops.select(is_lower, -size, size)
    inverse = 1.0 / a
    if not with_slope:
        series = _uniform_sum(inverse, eta) * scale
        half = 0.5 * scaled_error_tail(ops.sqrt(square))
        return factor.power * (half + ops.select(is_lower, -series, series))
    # eta^2 / 2 = lambda - 1 - log(lambda), where x stays and lambda = x / a.
    above = ops.select(size == 0.0, 1.0, (x - a) * inverse / ops.select(size == 0.0, 1.0, eta))
    series = _uniform_sum(Jet(inverse, -inverse * inverse), Jet(eta, -above * inverse))
    rise = (above - 0.5 * eta) + series.value * (factor.log_ratio - 0.5 * inverse) + series.slope
    return -(factor.power * scale * rise)
