"""Remainders of division in f32 and f64, exact."""

from __future__ import annotations

from math import inf, nan

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Block, Region, SSAValue

from tenon.dialects.upstream.vector_arith import element_type_of
from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import format_of

_INDEX = IndexType()


def remainder(b: ArithmeticBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """What C's fmod gives: x - n y for the whole n nearest to x / y that is no larger in magnitude

    One step does where the quotient is below 2^fraction, and long division where it is larger, infinite or NaN.
    """
    dividend, divisor = b.absolute(x), b.absolute(y)
    quotient = b.div(dividend, divisor)
    # the divisor may be infinite, and 0 times that is NaN
    is_whole = b.compare("olt", dividend, divisor)
    reduced = b.select(is_whole, dividend, _reduced(b, dividend, divisor, quotient))
    large = b.compare("uge", quotient, 2.0 ** format_of(x).fraction)
    result = b.unless(large, reduced, lambda inner: _long_division(inner, dividend, divisor))
    return b.copy_sign(result, x)


def _reduced(b: ArithmeticBuilder, dividend: SSAValue, divisor: SSAValue, quotient: SSAValue) -> SSAValue:
    """What one step leaves: exact, since the quotient is a whole number, or was rounded up to the next one"""
    left = b.fma(b.negate(b.truncate(quotient)), divisor, dividend)
    return b.select(b.compare("olt", left, 0.0), b.add(left, divisor), left)


def _long_division(b: ArithmeticBuilder, dividend: SSAValue, divisor: SSAValue) -> SSAValue:
    """`fraction` - 1 bits of the quotient a step, from the significands, as often as the farthest element needs"""
    places = format_of(dividend).fraction - 1
    significand, exponent = _normalized(b, dividend)
    by, by_exponent = _normalized(b, divisor)
    distance = b.integer_sub(exponent, by_exponent)
    body = Block(arg_types=[_INDEX, significand.type, distance.type])
    _, left, distance_left = body.args
    body.add_op(anchor := scf.YieldOp.create())
    inner = ArithmeticBuilder(anchor, b.constants, left.type, scaling=b.scaling)
    shift = inner.select(inner.compare_integers("slt", distance_left, places), distance_left, places)
    shift = inner.select(inner.compare_integers("sgt", shift, 0), shift, 0)
    shifted = inner.mul(left, _power_of_two(inner, shift, left))
    anchor.operands = [_reduced(inner, shifted, by, inner.div(shifted, by)), inner.integer_sub(distance_left, shift)]
    loop = scf.ForOp.create(
        operands=[b.constant(0, _INDEX), _largest(b, distance), b.constant(places, _INDEX), significand, distance],
        result_types=[left.type, distance.type],
        regions=[Region(body)],
    )
    # the quotient of the divisor and its significand is a power of two
    result = b.mul(b.insert(loop), b.div(divisor, by))
    has_remainder = b.both(b.compare("olt", dividend, inf), b.compare("ogt", divisor, 0.0))
    return b.select(has_remainder, result, nan)


def _normalized(b: ArithmeticBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A positive x = m 2^e with m from 1 to 2, subnormal ones as well: m, and e as an integer"""
    kind = format_of(x)
    shift = kind.fraction + 1
    subnormal = b.compare("olt", x, kind.smallest_normal)
    bits = b.bits(b.select(subnormal, b.mul(x, 2.0**shift), x))
    biased = b.shift_right(bits, kind.fraction, signed=False)
    bias = b.select(subnormal, b.constant(kind.bias + shift, bits.type), kind.bias)
    m = b.integer_sub(bits, b.shift_left(b.integer_sub(biased, kind.bias), kind.fraction))
    return b.from_bits(m), b.integer_sub(biased, bias)


def _power_of_two(b: ArithmeticBuilder, exponent: SSAValue, like: SSAValue) -> SSAValue:
    """2^exponent of an integer, as a normal number of the type of `like`"""
    kind = format_of(like)
    return b.from_bits(b.shift_left(b.integer_add(exponent, kind.bias), kind.fraction))


def _largest(b: ArithmeticBuilder, numbers: SSAValue) -> SSAValue:
    """The largest of some integers, as an index"""
    if isinstance(numbers.type, VectorType):
        properties = {
            "kind": vector.CombiningKindAttr(vector.CombiningKindFlag.MAXSI),
            "fastmath": arith.FastMathFlagsAttr("none"),
        }
        element = element_type_of(numbers.type)
        op = vector.ReductionOp.create(operands=[numbers], result_types=[element], properties=properties)
        numbers = b.insert(op)
    return b.insert(arith.IndexCastOp(numbers, _INDEX))
