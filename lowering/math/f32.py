"""Elementary functions in f32 as polynomials, without tables or calls. Each takes and returns values of type f32.

Errors are at most 2.4 units in the last place, the tests measure them. NaN, infinities, zeros of both signs, subnormal
numbers and overflow give what the C standard's annex F asks for, except where a function's docstring says otherwise.
Coefficients: Cephes (S. Moshier) for exp and log; fits of least maximum error for erf, sin/cos and `power`.
"""

from __future__ import annotations

from math import inf, nan, pi

from xdsl.ir import SSAValue

from tenon.dialects.ops.elementwise.special_coefficients import EXPONENTIAL, LN2_HIGH, LN2_LOW
from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import is_unusual

_ROUND_F32 = 1.5 * 2.0**23
_ROUND_F64 = 1.5 * 2.0**52
_LN2 = 0.69314718055994531
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LOG_NORMAL = (
    -0.07623060778756238,
    0.12905503045669112,
    -0.13242981138600618,
    0.14181634947392643,
    -0.1660905665056974,
    0.20001984590437955,
    -0.25001584810566424,
    0.3333332550725339,
    -0.49999988314098565,
)
_ERF_FIRST = -1.128379225730896
_ERF = (
    -4.070757859153673e-05,
    3.809979825746268e-04,
    -1.2517388677224517e-03,
    -2.057272504316643e-04,
    1.9321724772453308e-02,
    -1.0281441360712051e-01,
    -6.366164684295654e-01,
    1.866116328130829e-08,
)
_SIN = (2.6057807644974673e-06, -1.9809602235909551e-04, 8.33306647837162e-03, -1.6666659712791443e-01)
_LOG2_F64 = (
    0.2828946567676907,
    0.3199061205212268,
    0.41220924161289957,
    0.5770779424675506,
    0.9617966941131121,
    2.8853900817778477,
)
_LOG2 = (0.3402185693925584, 0.41170633257873707, 0.5770828521864473, 0.9617966791927455)
_EXP2 = (
    0.0001535325668004003,
    0.0013399003883165217,
    0.009618438609633639,
    0.055503321615834274,
    0.24022647896757918,
    0.6931472029858444,
)
_EXP2_F64 = (
    1.5201920140731723e-05,
    0.00015469291131736673,
    0.0013333922573021805,
    0.009618027253703927,
    0.05550410353432247,
    0.24022651198157446,
    0.6931471807284529,
    0.9999999999616831,
)
_PI_HIGH, _PI_LOW = pi, 1.2246467991473532e-16
_PI_PARTS = (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15)
_TWO_LOG2E_HIGH, _TWO_LOG2E_LOW = 2.885390043258667, 3.85192597818218e-08
_SMALLEST_NORMAL = 2.0**-126
_SQRT_HALF_BITS_F32 = 0x3F3504F3
_SQRT_HALF_BITS_F64 = 0x3FE6A09E667F3BCD

_LARGEST_EXPONENT = 64.0
TRIGONOMETRIC_LIMIT_F32 = 2.0**16
"""Arguments of sin and cos from here on need more digits of pi than three numbers of type f32 have."""
TRIGONOMETRIC_LIMIT = 2.0**30
"""Arguments of sin and cos from here on need more digits of pi than two doubles have."""


def _round_to_integer(b: ArithmeticBuilder, x: SSAValue, factor: float) -> tuple[SSAValue, SSAValue]:
    """n, the integer nearest to x * factor, for |x * factor| < 2^22: as f32, and n * 2^23 as i32"""
    # the low bits of the sum are n, and the shift takes away all others
    shifted = b.fma(x, factor, _ROUND_F32) if factor != 1.0 else b.add(x, _ROUND_F32)
    return b.sub(shifted, _ROUND_F32), b.shift_left(b.bits(shifted), 23)


def _reduce_exponent(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """x = n ln 2 + r with |r| <= ln 2 / 2: r, n as f32, and n * 2^23 as i32"""
    n, exponent = _round_to_integer(b, x, 1.44269504088896341)
    return b.fma(n, -LN2_LOW, b.fma(n, -LN2_HIGH, x)), n, exponent


def _expm1_reduced(b: ArithmeticBuilder, r: SSAValue) -> SSAValue:
    """exp(r) - 1 for |r| <= ln 2 / 2"""
    squared = b.mul(r, r)
    return b.fma(b.polynomial_in_pairs(r, squared, EXPONENTIAL), squared, r)


def _exp_reduced(b: ArithmeticBuilder, r: SSAValue) -> SSAValue:
    """exp(r) for |r| <= ln 2 / 2"""
    return b.polynomial(r, (*EXPONENTIAL, 1.0, 1.0))


def _power_of_two(b: ArithmeticBuilder, exponent: SSAValue) -> SSAValue:
    """2^n from n * 2^23 as i32, for n in -126 ... 127"""
    return b.from_bits(b.integer_add(exponent, 127 << 23))


def _times_power_of_two(b: ArithmeticBuilder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """x * 2^n from n * 2^23 as i32, where that is a normal number"""
    return b.from_bits(b.integer_add(b.bits(x), exponent))


def exp(b: ArithmeticBuilder, x: SSAValue, least: float = -104.0) -> SSAValue:
    """e^x; 0 for an x below `least`"""
    is_zero, bounded = b.vanishing(b.at_most(x, 89.0), least)
    r, n, _ = _reduce_exponent(b, bounded)
    return b.scale(b.select(is_zero, 0.0, _exp_reduced(b, r)), n)


def exp2(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """2^x"""
    is_zero, bounded = b.vanishing(b.at_most(x, 129.0), -151.0)
    n, _ = _round_to_integer(b, bounded, 1.0)
    return b.scale(b.select(is_zero, 0.0, b.polynomial(b.sub(bounded, n), (*_EXP2, 1.0))), n)


def expm1(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """e^x - 1"""
    r, _, exponent = _reduce_exponent(b, b.at_least(b.at_most(x, 89.0), -20.0))
    # half of the result, since 2^128 is not a float
    half = _power_of_two(b, b.integer_sub(exponent, 1 << 23))
    result = b.fma(_expm1_reduced(b, r), half, b.sub(half, 0.5))
    return b.select(b.compare("oeq", x, 0.0), x, b.add(result, result))


def logarithm_tail(b: ArithmeticBuilder, f: SSAValue) -> SSAValue:
    """log(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2)"""
    squared = b.mul(f, f)
    tail = b.mul(b.mul(squared, f), b.polynomial(f, _LOG))
    return b.fma(squared, -0.5, tail)


def _decompose(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A positive normal x = m 2^e with m between sqrt(1/2) and sqrt(2): m and e as i32"""
    bits = b.bits(x)
    exponent = b.shift_right(b.integer_sub(bits, _SQRT_HALF_BITS_F32), 23)
    return b.from_bits(b.integer_sub(bits, b.shift_left(exponent, 23))), exponent


def _logarithm_parts(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """log(x) = e log 2 + f + y for positive finite x: e, f and y"""
    subnormal = b.compare("olt", x, _SMALLEST_NORMAL)
    mantissa, exponent = _decompose(b, b.select(subnormal, b.mul(x, 2.0**23), x))
    e = b.add(b.to_float(exponent, b.f32), b.select(subnormal, b.constant(-23.0, b.f32), 0.0))
    f = b.sub(mantissa, 1.0)
    return e, f, logarithm_tail(b, f)


def outside_logarithm(b: ArithmeticBuilder, x: SSAValue, pole: float, result: SSAValue) -> SSAValue:
    """The values of a logarithm whose pole is at `pole` where its formula does not hold"""
    result = b.select(b.compare("oeq", x, inf), inf, result)
    result = b.select(b.compare("oeq", x, pole), -inf, result)
    return b.select(b.compare("ult", x, pole), nan, result)


def log(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The natural logarithm"""
    mantissa, exponent = _decompose(b, x)
    e, f = b.to_float(exponent, b.f32), b.sub(mantissa, 1.0)
    low = b.fma(b.mul(f, f), b.polynomial(f, _LOG_NORMAL), b.mul(e, LN2_LOW))
    result = b.fma(e, LN2_HIGH, b.add(f, low))
    return b.unless(is_unusual(b, x), result, lambda inner: _log_unusual(inner, x))


def _log_unusual(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The natural logarithm of any number"""
    e, f, y = _logarithm_parts(b, x)
    result = b.fma(e, LN2_HIGH, b.add(f, b.fma(e, LN2_LOW, y)))
    return outside_logarithm(b, x, 0.0, result)


def log2_(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 2"""
    e, f, y = _logarithm_parts(b, x)
    # log2(e) = 1 + 0.4426...: the leading one is added without an error
    fraction = b.fma(f, 0.44269504088896340736, b.mul(y, 0.44269504088896340736))
    result = b.add(e, b.add(f, b.add(fraction, y)))
    return outside_logarithm(b, x, 0.0, result)


def log10(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 10"""
    e, f, y = _logarithm_parts(b, x)
    # log10(e) and log10(2) in two parts, the first with few bits
    result = b.mul(b.add(f, y), 7.00731903251827651129e-4)
    result = b.fma(f, 0.43359375, b.fma(y, 0.43359375, result))
    result = b.fma(e, 0.30078125, b.fma(e, 2.48745663981195213739e-4, result))
    return outside_logarithm(b, x, 0.0, result)


def log1p(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """log(1 + x), accurate near zero"""
    total = b.add(x, 1.0)
    rest = b.sub(total, 1.0)
    lost = b.add(b.sub(1.0, b.sub(total, rest)), b.sub(x, rest))
    mantissa, exponent = _decompose(b, total)
    scale = b.shift_left(b.integer_sub(127, exponent), 23)
    # beyond 2^64 what was lost does not matter and the scale would not be a float
    small = b.compare_integers("slt", exponent, 64)
    lost = b.mul(lost, b.from_bits(b.select(small, scale, 0)))
    f = b.add(b.sub(mantissa, 1.0), lost)
    y = logarithm_tail(b, f)
    e = b.to_float(exponent, b.f32)
    result = b.fma(e, LN2_HIGH, b.add(f, b.fma(e, LN2_LOW, y)))
    result = b.select(b.compare("oeq", x, 0.0), x, result)
    return outside_logarithm(b, x, -1.0, result)


def _expm1_moderate(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """exp(x) - 1 for |x| <= 80, for use where a relative error of 2^-29 x is none once exp(x) or exp(-x) is large

    The relative error stays small near zero, where 2^n = 1 adds nothing.
    """
    n, exponent = _round_to_integer(b, x, 1.44269504088896341)
    r = b.fma(n, -_LN2, x)
    scale = _power_of_two(b, exponent)
    return b.fma(_expm1_reduced(b, r), scale, b.sub(scale, 1.0))


def erf(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The error function: 1 - exp(p(|x|)) for a polynomial p without a constant term"""
    magnitude = b.at_most(b.absolute(x), 3.95)  # 1 - erf is less than half a place from here on
    # the first coefficient in two parts: its rounding would be that of all small results
    series = b.polynomial_in_pairs(magnitude, b.mul(magnitude, magnitude), _ERF)
    exponent = b.fma(magnitude, _ERF_FIRST, b.mul(magnitude, series))
    return b.copy_sign(_expm1_moderate(b, exponent), x)


def _signed_rest(b: ArithmeticBuilder, wide: SSAValue, n: SSAValue, sign: SSAValue) -> SSAValue:
    """x - n pi as f32, exact to its last place, negated where the last bit of `sign` (i64) is set"""
    rest = b.fma(n, -_PI_LOW, b.fma(n, -_PI_HIGH, wide))
    return b.narrow(b.from_bits(b.exclusive(b.bits(rest), b.shift_left(sign, 63))), b.f32)


def _reduced_sine(b: ArithmeticBuilder, r: SSAValue) -> SSAValue:
    """sin(r) for |r| <= pi/2"""
    squared = b.mul(r, r)
    sine = b.fma(b.mul(r, squared), b.polynomial(squared, _SIN), r)
    return b.at_least(b.at_most(sine, 1.0), -1.0)


def _rest_f32(b: ArithmeticBuilder, x: SSAValue, n: SSAValue, sign: SSAValue) -> SSAValue:
    """The same from f32 for |x| below `TRIGONOMETRIC_LIMIT_F32`, `sign` as i32"""
    for part in _PI_PARTS:
        x = b.fma(n, -part, x)
    return b.from_bits(b.exclusive(b.bits(x), b.shift_left(sign, 31)))


def sin(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The sine, for |x| below `TRIGONOMETRIC_LIMIT_F32`: sin(n pi + r) = (-1)^n sin(r)"""
    shifted = b.fma(x, 1.0 / pi, _ROUND_F32)
    r = _rest_f32(b, x, b.sub(shifted, _ROUND_F32), b.bits(shifted))
    return b.select(b.compare("oeq", x, 0.0), x, _reduced_sine(b, r))


def sin_of_large(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The sine, for |x| below `TRIGONOMETRIC_LIMIT` and not 0"""
    wide = b.extend(x, b.f64)
    shifted = b.fma(wide, 1.0 / pi, _ROUND_F64)
    return _reduced_sine(b, _signed_rest(b, wide, b.sub(shifted, _ROUND_F64), b.bits(shifted)))


def cos(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The cosine, for |x| below `TRIGONOMETRIC_LIMIT_F32`: cos((n - 1/2) pi + r) = (-1)^n sin(r)"""
    shifted = b.add(b.fma(x, 1.0 / pi, 0.5), _ROUND_F32)
    half_odd = b.sub(b.sub(shifted, _ROUND_F32), 0.5)
    return _reduced_sine(b, _rest_f32(b, x, half_odd, b.bits(shifted)))


def cos_of_large(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The cosine, for |x| below `TRIGONOMETRIC_LIMIT`"""
    wide = b.extend(x, b.f64)
    shifted = b.add(b.fma(wide, 1.0 / pi, 0.5), _ROUND_F64)
    half_odd = b.sub(b.sub(shifted, _ROUND_F64), 0.5)
    return _reduced_sine(b, _signed_rest(b, wide, half_odd, b.bits(shifted)))


def _log2_f64(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """log2 of a positive normal f64, to 40 bits: twice the artanh of (m - 1) / (m + 1)"""
    bits = b.bits(x)
    biased = b.shift_right(b.integer_sub(bits, _SQRT_HALF_BITS_F64 - (1023 << 52)), 52, signed=False)
    exponent = b.integer_sub(biased, 1023)
    m = b.from_bits(b.integer_sub(bits, b.shift_left(exponent, 52)))
    # the bits of 2^52 + biased: exact, and in one instruction where i64 to f64 has none
    placed = b.from_bits(b.either(biased, b.constant(0x4330000000000000, b.i64)))
    e = b.sub(placed, 2.0**52 + 1023.0)
    s = b.div(b.sub(m, 1.0), b.add(m, 1.0))
    return b.fma(b.polynomial(b.mul(s, s), _LOG2_F64), s, e)


def _exp2_f64(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """2^x to 34 bits; beyond what f32 can hold, some number beyond it"""
    bounded = b.at_least(b.at_most(x, 200.0), -200.0)
    shifted = b.add(bounded, _ROUND_F64)
    fraction = b.sub(bounded, b.sub(shifted, _ROUND_F64))
    scale = b.shift_left(b.integer_add(b.bits(shifted), 1023), 52)
    return b.mul(b.polynomial(fraction, _EXP2_F64), b.from_bits(scale))


def power(b: ArithmeticBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x^y for x in f32 and y in f64: 2^(y log2 |x|) in f64, rounded once; then the signs and the special cases"""
    magnitude = b.absolute(x)
    logarithm = _log2_f64(b, b.extend(magnitude, b.f64))
    logarithm = b.select(b.compare("oeq", magnitude, 0.0), -inf, logarithm)
    logarithm = b.select(b.compare("oeq", magnitude, inf), inf, logarithm)
    logarithm = b.select(b.compare("uno", x, x), nan, logarithm)
    result = b.narrow(_exp2_f64(b, b.mul(y, logarithm)), b.f32)

    half = b.mul(y, 0.5)
    whole = b.compare("oeq", b.truncate(y), y)
    odd = b.both(whole, b.compare("one", b.truncate(half), half))
    negative = b.compare_integers("slt", b.bits(x), 0)
    result = b.select(b.both(negative, odd), b.negate(result), result)
    finite_negative = b.both(b.compare("olt", x, 0.0), b.compare("ogt", x, -inf))
    fractional = b.compare("une", b.truncate(y), y)
    result = b.select(b.both(finite_negative, fractional), nan, result)
    infinite = b.compare("oeq", b.absolute(y), inf)
    one = b.either(b.compare("oeq", x, 1.0), b.compare("oeq", y, 0.0))
    one = b.either(one, b.both(b.compare("oeq", magnitude, 1.0), infinite))
    return b.select(one, 1.0, result)


def _log2_parts(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """log2 of a positive normal x = m 2^e as the sum of two f32, and e: twice the artanh of s = (m - 1) / (m + 1)

    The second part is below 1 % of the first one.
    """
    m, exponent = _decompose(b, x)
    numerator, denominator = b.sub(m, 1.0), b.add(m, 1.0)
    lost = b.sub(m, b.sub(denominator, 1.0))
    reciprocal = b.div(1.0, denominator)
    s = b.mul(numerator, reciprocal)
    rest = b.fma(b.negate(s), lost, b.fma(b.negate(s), denominator, numerator))
    high = b.mul(s, _TWO_LOG2E_HIGH)
    low = b.fma(s, _TWO_LOG2E_LOW, b.fma(s, _TWO_LOG2E_HIGH, b.negate(high)))
    low = b.fma(b.mul(rest, reciprocal), _TWO_LOG2E_HIGH, low)
    squared = b.mul(s, s)
    low = b.fma(b.mul(squared, s), b.polynomial(squared, _LOG2), low)
    e = b.to_float(exponent, b.f32)
    total = b.add(e, high)
    return total, b.add(low, b.add(b.sub(e, total), high)), e


def power_f32(b: ArithmeticBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x^y in f32: 2^(y log2 x) with the logarithm in two parts; `power` unless x and the result are of ordinary size"""
    high, low, e = _log2_parts(b, x)
    exponent = b.mul(y, high)
    rest = b.fma(y, low, b.fma(y, high, b.negate(exponent)))
    n, shifted = _round_to_integer(b, b.add(exponent, rest), 1.0)
    fraction = b.add(b.sub(exponent, n), rest)
    result = _times_power_of_two(b, b.polynomial(fraction, (*_EXP2, 1.0)), shifted)
    # e is beyond this limit where x is zero, negative, subnormal, infinite or NaN
    unusual = b.compare("uge", b.fma(e, e, b.mul(exponent, exponent)), _LARGEST_EXPONENT**2)
    return b.unless(unusual, result, lambda inner: power(inner, x, inner.extend(y, inner.f64)))
