"""Elementary functions in f32 as polynomials, without tables or calls. Each takes and returns values of type f32.

Errors are at most 1.6 units in the last place, the tests measure them. NaN, infinities, zeros of both signs, subnormal
numbers and overflow give what the C standard's annex F asks for, except where a function's docstring says otherwise.
Coefficients: Cephes (S. Moshier) for exp, log and sin/cos; N. Juffa for erf; Chebyshev interpolation for tanh; least
maximum error fits for `power`.
"""

from __future__ import annotations

from math import inf, nan, pi

from xdsl.ir import SSAValue

from tenon.lowering.expand_math_builder import ArithmeticBuilder

_ROUND_F32 = 1.5 * 2.0**23
_ROUND_F64 = 1.5 * 2.0**52
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
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
_TANH_SMALL = (
    -0.006269119719649728,
    0.021110959049514787,
    -0.05387394884864333,
    0.13332915366987452,
    -0.3333333033273154,
)
_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_LOG2_F64 = (
    0.2828946567676907,
    0.3199061205212268,
    0.41220924161289957,
    0.5770779424675506,
    0.9617966941131121,
    2.8853900817778477,
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
_PIO2_HIGH, _PIO2_LOW = 1.5707963267948966, 6.123233995736766e-17
_SMALLEST_NORMAL = 2.0**-126
_SQRT_HALF_BITS_F32 = 0x3F3504F3
_SQRT_HALF_BITS_F64 = 0x3FE6A09E667F3BCD

TRIGONOMETRIC_LIMIT = 2.0**30
"""Arguments of sin and cos from here on need more digits of pi than two doubles have."""


def _round_to_integer(b: ArithmeticBuilder, x: SSAValue, factor: float) -> tuple[SSAValue, SSAValue]:
    """The integer nearest to x * factor, as f32 and as i32, for |x * factor| < 2^22."""
    # the low bits of the sum are that integer
    shifted = b.fma(x, factor, _ROUND_F32) if factor != 1.0 else b.add(x, _ROUND_F32)
    return b.sub(shifted, _ROUND_F32), b.integer_sub(b.bits(shifted), 0x4B400000)


def _reduce_exponent(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """x = n ln 2 + r with |r| <= ln 2 / 2: r as f32 and n as i32."""
    n, integer = _round_to_integer(b, x, 1.44269504088896341)
    return b.fma(n, -_LN2_LOW, b.fma(n, -_LN2_HIGH, x)), integer


def _expm1_reduced(b: ArithmeticBuilder, r: SSAValue) -> SSAValue:
    """exp(r) - 1 for |r| <= ln 2 / 2"""
    return b.fma(b.polynomial(r, _EXP), b.mul(r, r), r)


def _power_of_two(b: ArithmeticBuilder, exponent: SSAValue) -> SSAValue:
    """2^exponent for an i32 in -126 ... 127"""
    return b.from_bits(b.shift_left(b.integer_add(exponent, 127), 23))


def _scale(b: ArithmeticBuilder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """x * 2^exponent, rounded once, for exponents beyond those of f32: two factors of about half the exponent each"""
    half = b.shift_right(exponent, 1)
    rest = b.integer_sub(exponent, half)
    return b.mul(b.mul(x, _power_of_two(b, half)), _power_of_two(b, rest))


def exp(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """e^x"""
    r, n = _reduce_exponent(b, b.at_least(b.at_most(x, 89.0), -104.0))
    return _scale(b, b.add(_expm1_reduced(b, r), 1.0), n)


def exp2(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """2^x"""
    bounded = b.at_least(b.at_most(x, 129.0), -151.0)
    n, integer = _round_to_integer(b, bounded, 1.0)
    r = b.mul(b.sub(bounded, n), 0.6931471805599453)
    return _scale(b, b.add(_expm1_reduced(b, r), 1.0), integer)


def expm1(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """e^x - 1"""
    r, n = _reduce_exponent(b, b.at_least(b.at_most(x, 89.0), -20.0))
    # half of the result, since 2^128 is not a float
    half = _power_of_two(b, b.integer_sub(n, 1))
    result = b.fma(_expm1_reduced(b, r), half, b.sub(half, 0.5))
    return b.select(b.compare("oeq", x, 0.0), x, b.add(result, result))


def _split_logarithm(b: ArithmeticBuilder, mantissa_minus_one: SSAValue) -> tuple[SSAValue, SSAValue]:
    """log(1 + f) = f + y for 1 + f between sqrt(1/2) and sqrt(2): f and y"""
    f = mantissa_minus_one
    squared = b.mul(f, f)
    tail = b.mul(b.mul(squared, f), b.polynomial(f, _LOG))
    return f, b.fma(squared, -0.5, tail)


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
    return e, *_split_logarithm(b, b.sub(mantissa, 1.0))


def _outside_logarithm(b: ArithmeticBuilder, x: SSAValue, pole: float, result: SSAValue) -> SSAValue:
    """The values of a logarithm whose pole is at `pole` where its formula does not hold"""
    result = b.select(b.compare("oeq", x, inf), inf, result)
    result = b.select(b.compare("oeq", x, pole), -inf, result)
    return b.select(b.compare("ult", x, pole), nan, result)


def log(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The natural logarithm"""
    e, f, y = _logarithm_parts(b, x)
    result = b.fma(e, _LN2_HIGH, b.add(f, b.fma(e, _LN2_LOW, y)))
    return _outside_logarithm(b, x, 0.0, result)


def log2_(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 2"""
    e, f, y = _logarithm_parts(b, x)
    # log2(e) = 1 + 0.4426...: the leading one is added without an error
    fraction = b.fma(f, 0.44269504088896340736, b.mul(y, 0.44269504088896340736))
    result = b.add(e, b.add(f, b.add(fraction, y)))
    return _outside_logarithm(b, x, 0.0, result)


def log10(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The logarithm to base 10"""
    e, f, y = _logarithm_parts(b, x)
    # log10(e) and log10(2) in two parts, the first with few bits
    result = b.mul(b.add(f, y), 7.00731903251827651129e-4)
    result = b.fma(f, 0.43359375, b.fma(y, 0.43359375, result))
    result = b.fma(e, 0.30078125, b.fma(e, 2.48745663981195213739e-4, result))
    return _outside_logarithm(b, x, 0.0, result)


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
    f, y = _split_logarithm(b, b.add(b.sub(mantissa, 1.0), lost))
    e = b.to_float(exponent, b.f32)
    result = b.fma(e, _LN2_HIGH, b.add(f, b.fma(e, _LN2_LOW, y)))
    result = b.select(b.compare("oeq", x, 0.0), x, result)
    return _outside_logarithm(b, x, -1.0, result)


def tanh(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The hyperbolic tangent: a polynomial below 0.6, 1 - 2 / (exp(2 |x|) + 1) from there"""
    magnitude = b.absolute(x)
    squared = b.mul(x, x)
    near = b.fma(b.mul(b.polynomial(squared, _TANH_SMALL), squared), magnitude, magnitude)
    r, n = _reduce_exponent(b, b.mul(b.at_most(magnitude, 9.5), 2.0))
    power = b.mul(b.add(_expm1_reduced(b, r), 1.0), _power_of_two(b, n))
    far = b.sub(1.0, b.div(2.0, b.add(power, 1.0)))
    return b.copy_sign(b.select(b.compare("olt", magnitude, 0.6), near, far), x)


def erf(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The error function"""
    magnitude = b.absolute(x)
    near = b.fma(b.polynomial(b.mul(x, x), _ERF_SMALL), x, x)
    t = b.at_most(magnitude, 4.2)
    squared = b.mul(t, t)
    low = b.fma(t, -1.72853470e-5, 3.83197126e-4)
    high = b.fma(t, -3.88396438e-3, 2.42546219e-2)
    tail = b.fma(low, squared, high)
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        tail = b.fma(tail, t, coefficient)
    r, n = _reduce_exponent(b, b.fma(tail, t, b.negate(t)))
    power = b.mul(b.add(_expm1_reduced(b, r), 1.0), _power_of_two(b, n))
    far = b.copy_sign(b.sub(1.0, power), x)
    return b.select(b.compare("ogt", magnitude, 0.927734375), far, near)


def _quarter_turns(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """x = n pi/2 + r for |x| below `TRIGONOMETRIC_LIMIT`: r as f32, exact to its last place, and n as i64"""
    wide = b.extend(x, b.f64)
    shifted = b.fma(wide, 2.0 / pi, _ROUND_F64)
    n = b.sub(shifted, _ROUND_F64)
    r = b.fma(n, -_PIO2_LOW, b.fma(n, -_PIO2_HIGH, wide))
    return b.narrow(r, b.f32), b.bits(shifted)


def _sine_or_cosine(b: ArithmeticBuilder, r: SSAValue, turns: SSAValue) -> SSAValue:
    """sin(r + turns pi/2) for |r| <= pi/4"""
    squared = b.mul(r, r)
    sine = b.fma(b.mul(r, squared), b.polynomial(squared, _SIN), r)
    cosine = b.fma(b.mul(squared, squared), b.polynomial(squared, _COS), b.fma(squared, -0.5, 1.0))
    odd = b.compare_integers("ne", b.both(turns, b.constant(1, b.i64)), 0)
    value = b.select(odd, cosine, sine)
    lower_half = b.compare_integers("ne", b.both(turns, b.constant(2, b.i64)), 0)
    return b.select(lower_half, b.negate(value), value)


def sin(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The sine, for |x| below `TRIGONOMETRIC_LIMIT`"""
    r, turns = _quarter_turns(b, x)
    return b.select(b.compare("oeq", x, 0.0), x, _sine_or_cosine(b, r, turns))


def cos(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The cosine, for |x| below `TRIGONOMETRIC_LIMIT`"""
    r, turns = _quarter_turns(b, x)
    return _sine_or_cosine(b, r, b.integer_add(turns, 1))


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
