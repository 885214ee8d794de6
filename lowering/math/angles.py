"""Sine and cosine in f64; the tangent and the inverse trigonometric functions in f32 and f64.

Angles are reduced by multiples of pi in three parts (Cody and Waite): the first product is exact thanks to `fma`, the
second has its error added, so that what is left is exact to its last place even next to a multiple of pi.
"""

from __future__ import annotations

from math import inf, pi

from xdsl.ir import SSAValue

from tenon.lowering.math import coefficients
from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import (
    FloatFormat,
    format_of,
    nearest_integer,
    product,
    sum_of_any,
    sum_of_larger,
    with_sign_bit,
)


def _rest(b: ArithmeticBuilder, x: SSAValue, n: SSAValue, unit: float) -> tuple[SSAValue, SSAValue]:
    """x - n pi unit in two parts, for a `unit` that is a power of two"""
    first, second, third = [part * unit for part in format_of(x).pi]
    taken, taken_low = product(b, n, b.constant(second, x.type))
    high, low = sum_of_any(b, b.fma(n, -first, x), b.negate(taken))
    return high, b.sub(low, b.fma(n, third, taken_low))


def _sine(b: ArithmeticBuilder, r: SSAValue, low: SSAValue) -> SSAValue:
    """sin(r + low) for |r| <= pi/2, f64"""
    z = b.mul(r, r)
    # low counts cos(r) times; this is 0 at pi/2, too, and elsewhere close enough
    low = b.mul(low, b.fma(z, -4.0 / pi**2, 1.0))
    sine = b.add(r, b.fma(b.mul(r, z), b.polynomial(z, coefficients.SIN_F64), low))
    return b.at_least(b.at_most(sine, 1.0), -1.0)


def sin(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The sine, for |x| below the format's limit: sin(n pi + r) = (-1)^n sin(r)"""
    n, shifted = nearest_integer(b, x, 1.0 / pi)
    result = with_sign_bit(b, _sine(b, *_rest(b, x, n, 1.0)), shifted)
    return b.select(b.compare("oeq", x, 0.0), x, result)


def cos(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The cosine, for |x| below the format's limit: cos((n - 1/2) pi + r) = (-1)^n sin(r)"""
    n, shifted = nearest_integer(b, b.fma(x, 1.0 / pi, 0.5), 1.0)
    return with_sign_bit(b, _sine(b, *_rest(b, x, b.sub(n, 0.5), 1.0)), shifted)


def tan(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The tangent, for |x| below the format's limit: that of n pi/2 + r is tan(r), or -1 / tan(r) for an odd n"""
    kind = format_of(x)
    n, shifted = nearest_integer(b, x, 2.0 / pi)
    r, low = _rest(b, x, n, 0.5)
    z = b.mul(r, r)
    sine = b.add(r, b.fma(b.mul(r, z), b.polynomial(z, kind.sine), low))
    half = b.mul(z, 0.5)
    one_less = b.sub(1.0, half)
    lost = b.sub(b.sub(1.0, one_less), half)
    more = b.fma(b.mul(z, z), b.polynomial(z, kind.cosine), b.fma(b.negate(r), low, lost))
    cosine = b.add(one_less, more)
    odd = b.compare_integers("slt", b.shift_left(b.bits(shifted), kind.width - 1), 0)
    result = b.div(b.select(odd, cosine, sine), b.select(odd, sine, cosine))
    return b.select(b.compare("oeq", x, 0.0), x, with_sign_bit(b, result, shifted))


def _angle(
    b: ArithmeticBuilder, u: SSAValue, z: SSAValue, terms: tuple[float, ...], start: tuple[SSAValue, SSAValue]
) -> SSAValue:
    """start + u + u z p(z), for a start in two parts that is 0 or larger than |u|"""
    total, lost = sum_of_larger(b, start[0], u)
    return b.add(total, b.add(lost, b.fma(b.mul(u, z), b.polynomial(z, terms), start[1])))


def _start(b: ArithmeticBuilder, x: SSAValue, places: list[tuple[SSAValue, float]]) -> tuple[SSAValue, SSAValue]:
    """The multiple of pi of the last condition that holds, 0 where none does, in two parts"""
    high, low = b.constant(0.0, x.type), b.constant(0.0, x.type)
    for condition, factor in places:
        first, second, _ = format_of(x).pi
        high, low = b.select(condition, first * factor, high), b.select(condition, second * factor, low)
    return high, low


def _is_negative(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    return b.compare_integers("slt", b.bits(x), 0)


def atan(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse tangent: beyond 1 by that of the reciprocal"""
    kind: FloatFormat = format_of(x)
    magnitude = b.at_most(b.absolute(x), 2.0**60)
    large = b.compare("ogt", magnitude, 1.0)
    numerator, denominator = b.select(large, -1.0, magnitude), b.select(large, magnitude, 1.0)
    u = b.div(numerator, denominator)
    high, low = _start(b, x, [(large, 0.5)])
    # what the quotient lost, over the denominator: that is the reciprocal, or nothing was lost
    low = b.fma(b.fma(b.negate(u), denominator, numerator), b.negate(u), low)
    return b.copy_sign(_angle(b, u, b.mul(u, u), kind.arctangent, (high, low)), x)


def atan2(b: ArithmeticBuilder, y: SSAValue, x: SSAValue) -> SSAValue:
    """The angle of the point (x, y): the inverse tangent of the smaller magnitude over the larger one"""
    of_y, of_x = b.absolute(y), b.absolute(x)
    steep = b.compare("ogt", of_y, of_x)
    numerator, denominator = b.select(steep, of_x, of_y), b.select(steep, of_y, of_x)
    # 0/0 is to be 0, and inf/inf 1
    both_infinite = b.both(b.compare("oeq", of_x, inf), b.compare("oeq", of_y, inf))
    denominator = b.select(b.compare("oeq", denominator, 0.0), 1.0, b.select(both_infinite, 1.0, denominator))
    u = b.div(b.select(both_infinite, 1.0, numerator), denominator)
    left = _is_negative(b, x)
    turned = b.select(b.exclusive(steep, left), b.negate(u), u)
    start = _start(b, x, [(left, 1.0), (steep, 0.5)])
    return b.copy_sign(_angle(b, turned, b.mul(u, u), format_of(x).arctangent, start), y)


def _half_angle(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """asin |x| = asin(s), or pi/2 - 2 asin(s) beyond 1/2: whether that is so, s or 2 s, and s^2"""
    magnitude = b.absolute(x)
    large = b.compare("ogt", magnitude, 0.5)
    z = b.select(large, b.mul(b.sub(1.0, magnitude), 0.5), b.mul(magnitude, magnitude))
    root = b.square_root(z)
    return large, b.select(large, b.add(root, root), magnitude), z


def asin(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse sine"""
    large, u, z = _half_angle(b, x)
    u = b.select(large, b.negate(u), u)
    return b.copy_sign(_angle(b, u, z, format_of(x).arcsine, _start(b, x, [(large, 0.5)])), x)


def acos(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse cosine"""
    large, u, z = _half_angle(b, x)
    negative = _is_negative(b, x)
    u = b.select(b.exclusive(large, negative), u, b.negate(u))
    zero = b.constant(0.0, x.type)
    first, second, _ = format_of(x).pi
    of_large = b.select(negative, first, zero), b.select(negative, second, zero)
    start = b.select(large, of_large[0], first * 0.5), b.select(large, of_large[1], second * 0.5)
    return _angle(b, u, z, format_of(x).arcsine, start)
