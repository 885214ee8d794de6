"""Powers in f64 and of integers, and cube roots in f32 and f64."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from xdsl.dialects import arith, scf, vector
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Block, Region, SSAValue

from tenon.dialects.upstream.vector_arith import element_type_of
from tenon.lowering.math import coefficients
from tenon.lowering.math.builder import ArithmeticBuilder, element_width
from tenon.lowering.math.float_formats import decompose, format_of, is_unusual, nearest_integer, product, sum_of_larger

_INDEX = IndexType()
_LOG2E = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_LARGEST_EXPONENT = 1021.0
_SUBNORMAL_SHIFT = 54


def _log2_parts(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """log2 of a positive normal x = m 2^e in two parts, to 64 bits: twice the artanh of s = (m - 1) / (m + 1)"""
    m, e = decompose(b, x)
    numerator, denominator = b.sub(m, 1.0), b.add(m, 1.0)
    reciprocal = b.div(1.0, denominator)
    s = b.mul(numerator, reciprocal)
    minus = b.negate(s)
    rest = b.fma(minus, b.sub(m, b.sub(denominator, 1.0)), b.fma(minus, denominator, numerator))
    s_low = b.mul(rest, reciprocal)
    z, z_low = product(b, s, s)
    cube, cube_low = product(b, s, z)
    cube_low = b.fma(s, z_low, cube_low)
    third, third_low = product(b, cube, _TWO_THIRDS[0])
    third_low = b.fma(cube, _TWO_THIRDS[1], b.fma(cube_low, _TWO_THIRDS[0], third_low))
    low = b.fma(
        b.mul(cube, z), b.polynomial(z, coefficients.POWER_LOG_F64), b.fma(s_low, b.fma(z, 2.0, 2.0), third_low)
    )
    high, lost = sum_of_larger(b, b.add(s, s), third)
    low = b.add(lost, low)
    scaled, scaled_low = product(b, high, _LOG2E[0])
    scaled_low = b.fma(low, _LOG2E[0], b.fma(high, _LOG2E[1], scaled_low))
    total, lost = sum_of_larger(b, e, scaled)
    return total, b.add(lost, scaled_low)


def _with_sign_of_power(b: ArithmeticBuilder, result: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    """The power of x from that of its magnitude"""
    half = b.mul(y, 0.5)
    odd = b.compare("one", b.truncate(half), half)
    signed = b.select(odd, b.negate(result), result)
    signed = b.select(b.compare("oeq", b.truncate(y), y), signed, nan)
    return b.select(b.compare("olt", x, 0.0), signed, result)


def power(
    b: ArithmeticBuilder, x: SSAValue, y: SSAValue, otherwise: Callable[[ArithmeticBuilder], SSAValue]
) -> SSAValue:
    """x^y in f64, 2^(y log2 |x|) with the logarithm in two parts; and `otherwise` where that does not hold

    These are the x that are 0, subnormal, infinite or NaN, and results of such magnitudes.
    """
    magnitude = b.absolute(x)
    high, low = _log2_parts(b, magnitude)
    exponent, rest = product(b, y, high)
    rest = b.fma(y, low, rest)
    n, shifted = nearest_integer(b, b.add(exponent, rest), 1.0)
    fraction = b.add(b.sub(exponent, n), rest)
    value = b.polynomial(fraction, (*coefficients.EXP2_F64, 1.0))
    result = b.from_bits(b.integer_add(b.bits(value), b.shift_left(b.bits(shifted), format_of(x).fraction)))
    large = b.compare("uge", b.absolute(exponent), _LARGEST_EXPONENT)

    def of_any(inner: ArithmeticBuilder) -> SSAValue:
        unusual = inner.either(is_unusual(inner, magnitude), large)
        return inner.unless(unusual, _with_sign_of_power(inner, result, x, y), otherwise)

    # negative numbers are not usual here, so that others take one branch
    return b.unless(b.either(is_unusual(b, x), large), result, of_any)


def cbrt(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """The cube root: x = v 8^k for v from 1/3 to 3, and Halley's iteration for v^(-1/3)"""
    kind = format_of(x)
    magnitude = b.absolute(x)
    subnormal = b.compare("olt", magnitude, kind.smallest_normal)
    m, e = decompose(b, b.select(subnormal, b.mul(magnitude, 2.0**_SUBNORMAL_SHIFT), magnitude))
    k, _ = nearest_integer(b, e, 1.0 / 3.0)
    left = b.fma(k, -3.0, e)
    above, below = b.compare("ogt", left, 0.5), b.compare("olt", left, -0.5)
    v = b.mul(m, b.select(above, 2.0, b.select(below, b.constant(0.5, x.type), 1.0)))
    factor = b.select(above, 2.0 ** (-1 / 3), b.select(below, b.constant(2.0 ** (1 / 3), x.type), 1.0))
    y = b.mul(factor, b.polynomial(b.sub(m, 1.0), kind.cube_root))
    error = b.fma(b.negate(v), b.mul(b.mul(y, y), y), 1.0)
    y = b.fma(b.mul(y, error), b.fma(error, 2.0 / 9.0, 1.0 / 3.0), y)
    squared = b.mul(y, y)
    root = b.mul(squared, v)
    # Newton's step for root^3 = v, with the cube in two parts
    square, lost = product(b, root, root)
    rest = b.fma(b.negate(lost), root, b.fma(b.negate(square), root, v))
    root = b.fma(b.mul(squared, 1.0 / 3.0), rest, root)
    whole = b.select(subnormal, b.sub(k, float(_SUBNORMAL_SHIFT // 3)), k)
    exponent = b.shift_left(b.bits(b.add(whole, kind.round)), kind.fraction)
    result = b.copy_sign(b.from_bits(b.integer_add(b.bits(root), exponent)), x)
    finite = b.compare("olt", magnitude, inf)
    return b.select(b.both(finite, b.compare("ogt", magnitude, 0.0)), result, x)


def integer_power(b: ArithmeticBuilder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """x^exponent for unsigned exponents, wrapping: the product of x^(2^i) for the bits i that are set"""
    body = Block(arg_types=[_INDEX, x.type, x.type, x.type])
    _, result, square, rest = body.args
    body.add_op(anchor := scf.YieldOp.create())
    inner = ArithmeticBuilder(anchor, b.constants, x.type)
    odd = inner.compare_integers("ne", inner.both(rest, 1), 0)
    multiplied = inner.select(odd, inner.integer_mul(result, square), result)
    anchor.operands = [multiplied, inner.integer_mul(square, square), inner.shift_right(rest, 1, signed=False)]
    operands = [b.constant(0, _INDEX), _most_bits(b, exponent), b.constant(1, _INDEX), b.constant(1, x.type), x]
    loop = scf.ForOp.create(operands=[*operands, exponent], result_types=[x.type] * 3, regions=[Region(body)])
    return b.insert(loop)


def _most_bits(b: ArithmeticBuilder, numbers: SSAValue) -> SSAValue:
    """The bits of the largest of some unsigned integers, as an index"""
    kind = element_type_of(numbers.type)
    if isinstance(numbers.type, VectorType):
        together = vector.CombiningKindAttr(vector.CombiningKindFlag.OR)
        properties = {"kind": together, "fastmath": arith.FastMathFlagsAttr("none")}
        numbers = b.insert(vector.ReductionOp.create(operands=[numbers], result_types=[kind], properties=properties))
    zeros = b.insert(math_dialect.CountLeadingZerosOp.create(operands=[numbers], result_types=[kind]))
    return b.insert(arith.IndexCastOp(b.integer_sub(element_width(numbers), zeros), _INDEX))


def square_and_multiply(b: ArithmeticBuilder, x: SSAValue, exponent: int) -> SSAValue:
    """x^exponent for integers and a constant exponent >= 0, wrapping"""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else b.integer_mul(result, square)
        exponent >>= 1
        if exponent:
            square = b.integer_mul(square, square)
    return b.constant(1, x.type) if result is None else result
