"""Logarithms in f64, powers of them, and inverse hyperbolic functions in f32 and f64.

log(1 + f) = 2 artanh(s) for s = f / (2 + f): f - f^2/2 + s (f^2/2 + R(s^2)), as in Sun's fdlibm, with
other coefficients.
NaN, infinities, zeros and numbers outside of the domain give what the C standard's annex F asks for.
"""

from __future__ import annotations

from math import inf, nan

from xdsl.ir import SSAValue

from tenon.lowering.math import coefficients
from tenon.lowering.math import f32 as functions
from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import (
    F32,
    decompose,
    format_of,
    is_unusual,
    power_of_two,
    product,
    sum_of_any,
    sum_of_larger,
)

_SUBNORMAL_SHIFT = 54
_PER_LOG2 = (1.4426950408889634, 2.0355273740931033e-17)
_PER_LOG10 = (0.4342944819032518, 1.098319650216765e-17)
_LOG10_OF_2 = (0.3010299955494702, 1.1451100898021838e-10)
"""The first part has 32 bits, so that its products with exponents are exact."""


def _split(b: ArithmeticBuilder, f: SSAValue) -> tuple[SSAValue, SSAValue]:
    """log(1 + f) = f - h + t in f64, for 1 + f between sqrt(1/2) and sqrt(2): h = f^2/2, and t"""
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    half = b.mul(b.mul(f, 0.5), f)
    return half, b.mul(s, b.fma(b.polynomial(z, coefficients.LOG_F64), z, half))


def _tail(b: ArithmeticBuilder, f: SSAValue) -> SSAValue:
    """log(1 + f) - f, f32 or f64, for 1 + f between sqrt(1/2) and sqrt(2)"""
    if format_of(f) is F32:
        return functions.logarithm_tail(b, f)
    half, rest = _split(b, f)
    return b.sub(rest, half)


def _normal(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A positive finite x = m 2^e with m between sqrt(1/2) and sqrt(2): m - 1 and e, in f64"""
    subnormal = b.compare("olt", x, format_of(x).smallest_normal)
    mantissa, e = decompose(b, b.select(subnormal, b.mul(x, 2.0**_SUBNORMAL_SHIFT), x))
    return b.sub(mantissa, 1.0), b.select(subnormal, b.sub(e, float(_SUBNORMAL_SHIFT)), e)


def _sum(b: ArithmeticBuilder, e: SSAValue, f: SSAValue) -> SSAValue:
    """e ln 2 + log(1 + f)"""
    high, low = format_of(f).ln2
    return b.fma(e, high, b.add(f, b.fma(e, low, _tail(b, f))))


def log(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The natural logarithm"""
    mantissa, e = decompose(b, x)
    result = _sum(b, e, b.sub(mantissa, 1.0))
    return b.unless(is_unusual(b, x), result, lambda inner: _log_unusual(inner, x))


def _log_unusual(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    f, e = _normal(b, x)
    return functions.outside_logarithm(b, x, 0.0, _sum(b, e, f))


def log2(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 2"""
    return _to_base(b, x, (1.0, 0.0), _PER_LOG2)


def log10(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 10"""
    return _to_base(b, x, _LOG10_OF_2, _PER_LOG10)


Parts = tuple[float, float]


def _to_base(b: ArithmeticBuilder, x: SSAValue, per_exponent: Parts, per_log: Parts) -> SSAValue:
    def unusual(inner: ArithmeticBuilder) -> SSAValue:
        f, e = _normal(inner, x)
        return functions.outside_logarithm(inner, x, 0.0, _scaled_sum(inner, e, f, per_exponent, per_log))

    mantissa, e = decompose(b, x)
    result = _scaled_sum(b, e, b.sub(mantissa, 1.0), per_exponent, per_log)
    return b.unless(is_unusual(b, x), result, unusual)


def _scaled_sum(b: ArithmeticBuilder, e: SSAValue, f: SSAValue, per_exponent: Parts, per_log: Parts) -> SSAValue:
    """per_exponent e + per_log log(1 + f)"""
    half, rest = _split(b, f)
    high, lost = sum_of_larger(b, f, b.negate(half))
    low = b.add(lost, rest)
    scaled, scaled_low = product(b, high, per_log[0])
    scaled_low = b.add(b.fma(high, per_log[1], scaled_low), b.mul(low, per_log[0]))
    total, total_low = sum_of_larger(b, b.mul(e, per_exponent[0]), scaled)
    return b.add(total, b.fma(e, per_exponent[1], b.add(total_low, scaled_low)))


def _log_of_sum(b: ArithmeticBuilder, x: SSAValue, low: SSAValue | None, e_more: SSAValue | None = None) -> SSAValue:
    """log(1 + x + low), and ln 2 times e_more, for 1 + x in (0, inf) and low much smaller"""
    kind = format_of(x)
    total, lost = sum_of_any(b, x, b.constant(1.0, x.type))
    lost = lost if low is None else b.add(lost, low)
    mantissa, e = decompose(b, total)
    # beyond this what was lost does not matter, and 2^-e might not be a float
    limited = b.at_most(e, float(kind.fraction + 20))
    scale = power_of_two(b, b.sub(kind.round, limited))
    f = b.add(b.sub(mantissa, 1.0), b.mul(lost, scale))
    return _sum(b, e if e_more is None else b.add(e, e_more), f)


def log1p(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """log(1 + x), accurate near zero"""
    result = b.copy_sign(_log_of_sum(b, x, None), x)
    unusual = is_unusual(b, b.add(x, 1.0))
    return b.unless(unusual, result, lambda inner: functions.outside_logarithm(inner, x, -1.0, result))


def _large(b: ArithmeticBuilder, x: SSAValue, at_least: float) -> tuple[SSAValue, SSAValue]:
    large = b.compare("oge", x, at_least)
    return large, b.select(large, b.constant(1.0, x.type), 0.0)


def asinh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse hyperbolic sine: log(1 + a + a^2 / (1 + sqrt(1 + a^2))) for a = |x|, and log(2 a) if that is large"""
    a = b.absolute(x)
    large, twice = _large(b, a, 2.0 ** (format_of(x).fraction + 2))
    root = b.square_root(b.fma(a, a, 1.0))
    more = b.div(b.mul(a, a), b.add(root, 1.0))
    high, low = sum_of_larger(b, a, b.select(large, 0.0, more))
    result = b.copy_sign(_log_of_sum(b, high, low, twice), x)
    usual = b.both(b.compare("olt", a, inf), b.compare("ogt", a, 0.0))
    return b.select(usual, result, x)


def acosh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse hyperbolic cosine: log(1 + t + sqrt(t (t + 2))) for t = x - 1, and log(2 x) if that is large"""
    large, twice = _large(b, x, 2.0 ** (format_of(x).fraction + 2))
    t = b.sub(x, 1.0)
    root = b.square_root(b.fma(t, t, b.add(t, t)))
    high, low = sum_of_larger(b, b.select(large, x, root), b.select(large, 0.0, t))
    result = b.select(b.compare("oeq", x, inf), x, _log_of_sum(b, high, low, twice))
    return b.select(b.compare("oge", x, 1.0), b.select(b.compare("oeq", x, 1.0), 0.0, result), nan)


def atanh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The inverse hyperbolic tangent: log(1 + 2 a / (1 - a)) / 2 for a = |x|"""
    a = b.absolute(x)
    denominator, lost = sum_of_any(b, b.negate(a), b.constant(1.0, x.type))
    twice = b.add(a, a)
    quotient = b.div(twice, denominator)
    remainder = b.fma(b.negate(quotient), denominator, twice)
    low = b.div(b.fma(b.negate(quotient), lost, remainder), denominator)
    result = b.copy_sign(b.mul(_log_of_sum(b, quotient, low), 0.5), x)
    result = b.select(b.compare("oeq", a, 1.0), b.copy_sign(b.constant(inf, x.type), x), result)
    result = b.select(b.compare("oeq", x, 0.0), x, result)
    return b.select(b.compare("ole", a, 1.0), result, nan)
