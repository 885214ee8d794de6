"""Exponential and hyperbolic functions, and the error function, in f64; `sinh`, `cosh` and `tanh` in f32 as well.

All are exp(n ln 2 + r) = 2^n exp(r) with |r| <= ln 2 / 2, of 2 x for tanh. NaN, infinities and zeros give what the C
standard's annex F asks for.
"""

from __future__ import annotations

from math import e, log2

from xdsl.ir import SSAValue

from tenon.lowering.math import coefficients
from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import format_of, nearest_integer, power_of_two

_LOG2E = log2(e)
_ERF_FIRST = (1.1283791670955126, 1.5335459613165881e-17)
"""2 / sqrt(pi) in two parts."""
_ERF_IS_ONE = 5.93


def _reduce(b: ArithmeticBuilder, x: SSAValue, times: float = 1.0) -> tuple[SSAValue, SSAValue, SSAValue]:
    """times * x = n ln 2 + times * r, for a power of two: r, n, and a float with n in its low bits"""
    high, low = format_of(x).ln2
    n, shifted = nearest_integer(b, x, times * _LOG2E)
    rest = b.fma(n, -high / times, x)  # exact
    return b.fma(n, -low / times, rest), n, shifted


def _expm1_reduced(b: ArithmeticBuilder, r: SSAValue) -> SSAValue:
    """exp(r) - 1 in f64"""
    return b.add(r, b.mul(b.polynomial(r, coefficients.EXP_F64), b.mul(r, r)))


def exp(b: ArithmeticBuilder, x: SSAValue, least: float = -746.0) -> SSAValue:
    """e^x; 0 for an x below `least`"""
    is_zero, bounded = b.vanishing(b.at_most(x, 710.0), least)
    r, n, _ = _reduce(b, bounded)
    return b.scale(b.select(is_zero, 0.0, b.polynomial(r, (*coefficients.EXP_F64, 1.0, 1.0))), n)


def exp2(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """2^x"""
    is_zero, bounded = b.vanishing(b.at_most(x, 1025.0), -1076.0)
    n, _ = nearest_integer(b, bounded, 1.0)
    return b.scale(b.select(is_zero, 0.0, b.polynomial(b.sub(bounded, n), (*coefficients.EXP2_F64, 1.0))), n)


def expm1(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """e^x - 1"""
    r, _, shifted = _reduce(b, b.at_least(b.at_most(x, 710.0), -40.0))
    # half of the result, since 2^1024 is not a float
    half = power_of_two(b, shifted, -1)
    result = b.fma(_expm1_reduced(b, r), half, b.sub(half, 0.5))
    return b.select(b.compare("oeq", x, 0.0), x, b.add(result, result))


def tanh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The hyperbolic tangent, f32 or f64: ((s - 1) + t (s + 1)) / ((s + 1) + t (s - 1)), which is t for small numbers

    It is the sum of the tangents of r and n ln 2 / 2 = |x| - r, with s = 2^n and t = tanh r.
    """
    kind = format_of(x)
    magnitude = b.at_most(b.absolute(x), kind.tanh_is_one)
    r, _, shifted = _reduce(b, magnitude, 2.0)
    squared = b.mul(r, r)
    t = b.fma(b.mul(r, squared), b.polynomial(squared, kind.hyperbolic_tangent), r)
    scale = power_of_two(b, shifted)
    less, more = b.sub(scale, 1.0), b.add(scale, 1.0)
    return b.copy_sign(b.div(b.fma(t, more, less), b.fma(t, less, more)), x)


def _hyperbolic(b: ArithmeticBuilder, x: SSAValue, *, is_sine: bool) -> SSAValue:
    """sinh |x| or cosh x, by those of n ln 2 and of r"""
    kind = format_of(x)
    magnitude = b.at_most(b.absolute(x), kind.exponential_limit)
    r, n, shifted = _reduce(b, magnitude)
    squared = b.mul(r, r)
    sine = b.fma(b.mul(r, squared), b.polynomial(squared, kind.hyperbolic_sine), r)
    cosine_less_one = b.mul(squared, b.polynomial(squared, kind.hyperbolic_cosine))
    # a half of 2^n and 2^-n, since 2^n may be too large; a small power does not matter to a large one
    large = power_of_two(b, shifted, -2)
    small = power_of_two(b, b.sub(kind.round, b.at_most(n, float(kind.fraction + 4))), -2)
    difference, total = b.sub(large, small), b.add(large, small)
    with_cosine, with_sine = (difference, total) if is_sine else (total, difference)
    half = b.add(with_cosine, b.fma(sine, with_sine, b.mul(cosine_less_one, with_cosine)))
    return b.add(half, half)


def sinh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The hyperbolic sine, f32 or f64"""
    result = b.copy_sign(_hyperbolic(b, x, is_sine=True), x)
    # half of a subnormal number may not be one
    return b.select(b.compare("olt", b.absolute(x), 2.0 ** -(format_of(x).fraction)), x, result)


def cosh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The hyperbolic cosine, f32 or f64"""
    return _hyperbolic(b, x, is_sine=False)


def erf(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The error function: 1 - exp(p(|x|)) for a polynomial p without a constant term"""
    magnitude = b.at_most(b.absolute(x), _ERF_IS_ONE)
    high, low = _ERF_FIRST
    series = b.fma(magnitude, b.polynomial(b.sub(magnitude, 3.0), coefficients.ERF_F64), -low)
    r, _, shifted = _reduce(b, b.fma(magnitude, -high, b.mul(magnitude, series)))
    scale = power_of_two(b, shifted)
    return b.copy_sign(b.fma(_expm1_reduced(b, r), scale, b.sub(scale, 1.0)), x)
