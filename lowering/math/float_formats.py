"""What formulas for f32 and f64 alike need to know of a float format, and the steps they share.

Sums with `ROUND` of a format put a whole number into the low bits of the sum, where integer operations find it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from xdsl.ir import SSAValue

from tenon.lowering.math import coefficients
from tenon.lowering.math.builder import ArithmeticBuilder, element_width

Terms = tuple[float, ...]


@dataclass(frozen=True)
class FloatFormat:
    """A binary format of IEEE 754, constants in it, and the polynomials that are exact enough for it."""

    width: int
    fraction: int
    """Bits of the fraction."""
    bias: int
    sqrt_half: int
    """The bits of sqrt(1/2)."""
    ln2: tuple[float, float]
    pi: tuple[float, float, float]
    trigonometric_limit: float
    """Arguments of tan from here on, and of sin and cos in f64, are the C library's."""
    exponential_limit: float
    """A little above the largest number whose hyperbolic sine is finite."""
    tanh_is_one: float
    """The hyperbolic tangent of larger numbers rounds to 1."""
    sine: Terms
    cosine: Terms
    hyperbolic_sine: Terms
    hyperbolic_cosine: Terms
    hyperbolic_tangent: Terms
    arctangent: Terms
    arcsine: Terms
    cube_root: Terms

    @property
    def round(self) -> float:
        """Added to a small number, it rounds that to a whole one."""
        return 1.5 * 2.0**self.fraction

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all bits of the fraction."""
        return 2.0 ** (1 - self.bias)

    @property
    def least_exponent(self) -> float:
        """Of e, for a power that is the smallest normal number over the distance from 1 to the next."""
        return (1 - self.bias + self.fraction) * log(2)


F32 = FloatFormat(
    width=32,
    fraction=23,
    bias=127,
    sqrt_half=0x3F3504F3,
    ln2=(0.6931471824645996, -1.9046542121259336e-09),
    pi=(3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    trigonometric_limit=2.0**16,
    exponential_limit=89.5,
    tanh_is_one=9.02,
    sine=coefficients.SHORT_SIN_F32,
    cosine=coefficients.SHORT_COS_F32,
    hyperbolic_sine=coefficients.SINH_F32,
    hyperbolic_cosine=coefficients.COSH_F32,
    hyperbolic_tangent=coefficients.SHORT_TANH_F32,
    arctangent=coefficients.ATAN_F32,
    arcsine=coefficients.ASIN_F32,
    cube_root=coefficients.CBRT_F32,
)
F64 = FloatFormat(
    width=64,
    fraction=52,
    bias=1023,
    sqrt_half=0x3FE6A09E667F3BCD,
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    pi=(3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
    trigonometric_limit=2.0**30,
    exponential_limit=710.5,
    tanh_is_one=19.1,
    sine=coefficients.SHORT_SIN_F64,
    cosine=coefficients.SHORT_COS_F64,
    hyperbolic_sine=coefficients.SINH_F64,
    hyperbolic_cosine=coefficients.COSH_F64,
    hyperbolic_tangent=coefficients.SHORT_TANH_F64,
    arctangent=coefficients.ATAN_F64,
    arcsine=coefficients.ASIN_F64,
    cube_root=coefficients.CBRT_F64,
)


def format_of(x: SSAValue) -> FloatFormat:
    """The format of a float, or of a vector of floats."""
    return F64 if element_width(x) == 64 else F32


def is_unusual(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """Whether x is not a positive normal number"""
    kind = format_of(x)
    smallest, infinity = 1 << kind.fraction, (2 * kind.bias + 1) << kind.fraction
    return b.compare_integers("uge", b.integer_sub(b.bits(x), smallest), infinity - smallest)


def decompose(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A positive normal x = m 2^e with m between sqrt(1/2) and sqrt(2): m, and e as a float"""
    kind = format_of(x)
    bits = b.bits(x)
    one, integers = kind.bias << kind.fraction, bits.type
    biased = b.shift_right(b.integer_sub(bits, kind.sqrt_half - one), kind.fraction, signed=False)
    m = b.from_bits(b.integer_sub(bits, b.shift_left(b.integer_sub(biased, kind.bias), kind.fraction)))
    # the bits of 2^fraction + biased: exact, and in one instruction where integers to floats have none
    placed = b.from_bits(b.either(biased, b.constant((kind.bias + kind.fraction) << kind.fraction, integers)))
    return m, b.sub(placed, 2.0**kind.fraction + kind.bias)


def nearest_integer(b: ArithmeticBuilder, x: SSAValue, factor: float) -> tuple[SSAValue, SSAValue]:
    """n, the integer nearest to x * factor, and a float whose low bits are n"""
    magic = format_of(x).round
    shifted = b.fma(x, factor, magic) if factor != 1.0 else b.add(x, magic)
    return b.sub(shifted, magic), shifted


def power_of_two(b: ArithmeticBuilder, shifted: SSAValue, offset: int = 0) -> SSAValue:
    """2^(n + offset), a normal number, for the n in the low bits of `shifted`"""
    kind = format_of(shifted)
    exponent = b.shift_left(b.bits(shifted), kind.fraction)
    return b.from_bits(b.integer_add(exponent, (kind.bias + offset) << kind.fraction))


def with_sign_bit(b: ArithmeticBuilder, x: SSAValue, shifted: SSAValue) -> SSAValue:
    """x, negated where the lowest bit of `shifted` is set"""
    sign = b.shift_left(b.bits(shifted), format_of(x).width - 1)
    return b.from_bits(b.exclusive(b.bits(x), sign))


def sum_of_larger(b: ArithmeticBuilder, larger: SSAValue, smaller: SSAValue) -> tuple[SSAValue, SSAValue]:
    """larger + smaller as a float and what it lost (Dekker, 1971); `larger` may also be 0"""
    total = b.add(larger, smaller)
    return total, b.add(b.sub(larger, total), smaller)


def sum_of_any(b: ArithmeticBuilder, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """x + y as a float and what it lost (Knuth, The Art of Computer Programming 2, 4.2.2)"""
    total = b.add(x, y)
    second = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, second)), b.sub(y, second))


def product(b: ArithmeticBuilder, x: SSAValue, y: SSAValue | float) -> tuple[SSAValue, SSAValue]:
    """x * y as a float and what it lost"""
    rounded = b.mul(x, y)
    return rounded, b.fma(x, y, b.negate(rounded))
