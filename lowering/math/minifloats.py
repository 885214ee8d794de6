"""What floats of 8 bits and less are: their codes to f32 and back, in integer arithmetic.

A code is in the low bits of an integer: a sign, an exponent, a fraction, as the type's `FloatSemantics` says.
"""

from __future__ import annotations

from xdsl.dialects.builtin import FloatNanEncoding, FloatNonfiniteBehavior, FloatSemantics
from xdsl.ir import SSAValue

from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import F32

_SIGN = 1 << 31
_INFINITY = 0x7F800000
_QUIET_NAN = 0x7FC00000


def decode(b: ArithmeticBuilder, code: SSAValue, kind: FloatSemantics) -> SSAValue:
    """The f32 that `code`, an i32 whose other bits are 0, stands for, exactly."""
    if not kind.has_zero:
        return b.from_bits(_decoded_power(b, code))
    dropped = F32.fraction - kind.mantissa_bits
    magnitude = b.both(code, b.constant((1 << kind.sign_shift) - 1, code.type))
    shifted = b.shift_left(magnitude, dropped)
    normal = b.integer_add(shifted, (F32.bias - kind.exponent_bias) << F32.fraction)
    # Subnormals are multiples of the last place of `aligned`, and no subnormals of f32 come up, which are slow.
    aligned = _subnormal_aligner(kind)
    placed = b.from_bits(b.either(magnitude, b.constant(aligned, code.type)))
    subnormal = b.bits(b.sub(placed, 2.0 ** ((aligned >> F32.fraction) - F32.bias)))
    is_subnormal = b.compare_integers("ult", magnitude, 1 << kind.mantissa_bits)
    bits = b.select(is_subnormal, subnormal, normal)
    if kind.nonfinite is FloatNonfiniteBehavior.IEEE:
        infinity = kind.max_exponent << kind.mantissa_bits
        bits = b.select(b.compare_integers("eq", magnitude, infinity), b.constant(_INFINITY, code.type), bits)
        bits = b.select(b.compare_integers("ugt", magnitude, infinity), b.constant(_QUIET_NAN, code.type), bits)
    elif kind.nonfinite is FloatNonfiniteBehavior.NAN_ONLY and kind.nan_encoding is FloatNanEncoding.ALL_ONES:
        is_nan = b.compare_integers("eq", magnitude, (1 << kind.sign_shift) - 1)
        bits = b.select(is_nan, b.constant(_QUIET_NAN, code.type), bits)
    sign = b.shift_left(b.exclusive(code, magnitude), 31 - kind.sign_shift)
    bits = b.either(bits, sign)
    if kind.nan_encoding is FloatNanEncoding.NEGATIVE_ZERO:
        is_nan = b.compare_integers("eq", code, 1 << kind.sign_shift)
        bits = b.select(is_nan, b.constant(_QUIET_NAN | _SIGN, code.type), bits)
    return b.from_bits(bits)


def encode(b: ArithmeticBuilder, x: SSAValue, kind: FloatSemantics) -> SSAValue:
    """The code, as an i32, of the number nearest to the f32 `x`, ties to even (in `f8E8M0FNU` to the larger).

    Beyond the largest number it is an infinity, NaN where there is none, or the largest number where there is neither.
    """
    bits = b.bits(x)
    if not kind.has_zero:
        return _encoded_power(b, bits)
    dropped, shift = F32.fraction - kind.mantissa_bits, kind.sign_shift
    magnitude = b.both(bits, b.constant(_SIGN - 1, bits.type))
    smallest_normal = (F32.bias + 1 - kind.exponent_bias) << F32.fraction
    normal = _rounded(b, b.integer_sub(magnitude, (F32.bias - kind.exponent_bias) << F32.fraction), dropped)
    # The sum is rounded to a multiple of the least subnormal, by the hardware.
    aligned = _subnormal_aligner(kind)
    total = b.add(b.from_bits(magnitude), 2.0 ** ((aligned >> F32.fraction) - F32.bias))
    subnormal = b.integer_sub(b.bits(total), aligned)
    code = b.select(b.compare_integers("ult", magnitude, smallest_normal), subnormal, normal)
    largest = _largest(kind)
    code = b.select(b.compare_integers("sgt", code, largest), b.constant(_beyond(kind), bits.type), code)
    is_nan = b.compare_integers("sgt", magnitude, _INFINITY)
    sign = b.both(b.shift_right(bits, 31 - shift, signed=False), b.constant(1 << shift, bits.type))
    if kind.nan_encoding is FloatNanEncoding.NEGATIVE_ZERO:
        is_unsigned = b.compare_integers("eq", code, 0)
        signed = b.select(is_unsigned, code, b.either(code, sign))
        signed = b.select(b.compare_integers("sgt", code, largest), b.constant(1 << shift, bits.type), signed)
        return b.select(is_nan, b.constant(1 << shift, bits.type), signed)
    if kind.nonfinite is FloatNonfiniteBehavior.FINITE_ONLY:
        # NaN becomes a zero of the other sign, as in ml_dtypes.
        other_zero = b.exclusive(sign, b.constant(1 << shift, bits.type))
        return b.select(is_nan, other_zero, b.either(code, sign))
    return b.either(b.select(is_nan, b.constant(_nan(kind), bits.type), code), sign)


def _decoded_power(b: ArithmeticBuilder, code: SSAValue) -> SSAValue:
    """2^(code - 127), which is subnormal for 0; 255 is NaN."""
    bits = b.shift_left(code, F32.fraction)
    half = b.constant(1 << (F32.fraction - 1), code.type)
    is_end = b.compare_integers("ugt", b.integer_sub(code, 1), 0xFD)
    return b.select(is_end, b.either(bits, half), bits)


def _encoded_power(b: ArithmeticBuilder, bits: SSAValue) -> SSAValue:
    """The exponent of the nearest power of two; 0, negative numbers, infinities and NaN give NaN.

    As in ml_dtypes, a tie gives the larger one, and so do subnormals above 2^-127.
    """
    half = b.constant(1 << (F32.fraction - 1), bits.type)
    is_subnormal = b.compare_integers("ult", bits, 1 << F32.fraction)
    code = b.shift_right(b.integer_add(bits, b.select(is_subnormal, b.integer_sub(half, 1), half)), F32.fraction)
    is_positive = b.compare_integers("ult", b.integer_sub(bits, 1), _INFINITY - 1)
    return b.select(is_positive, code, 0xFF)


def _rounded(b: ArithmeticBuilder, bits: SSAValue, dropped: int) -> SSAValue:
    """`bits` without the last `dropped` ones, rounded to the nearest, ties to even."""
    odd = b.both(b.shift_right(bits, dropped), b.constant(1, bits.type))
    return b.shift_right(b.integer_add(b.integer_add(bits, (1 << (dropped - 1)) - 1), odd), dropped)


def _subnormal_aligner(kind: FloatSemantics) -> int:
    """The bits of the f32 whose last place is the least subnormal."""
    return (F32.bias + F32.fraction + 1 - kind.exponent_bias - kind.mantissa_bits) << F32.fraction


def _largest(kind: FloatSemantics) -> int:
    """The code of the largest number."""
    if kind.nonfinite is FloatNonfiniteBehavior.IEEE:
        return (kind.max_exponent << kind.mantissa_bits) - 1
    has_nan_there = kind.nonfinite is not FloatNonfiniteBehavior.FINITE_ONLY
    all_ones = (1 << kind.sign_shift) - 1
    return all_ones - (has_nan_there and kind.nan_encoding is FloatNanEncoding.ALL_ONES)


def _beyond(kind: FloatSemantics) -> int:
    """The code, without its sign, of what is too large."""
    return _largest(kind) + (kind.nonfinite is not FloatNonfiniteBehavior.FINITE_ONLY)


def _nan(kind: FloatSemantics) -> int:
    """The code of NaN, without its sign."""
    is_ieee = kind.nan_encoding is FloatNanEncoding.IEEE
    return (kind.max_exponent << kind.mantissa_bits) + (1 << (kind.mantissa_bits - 1)) if is_ieee else _beyond(kind)
