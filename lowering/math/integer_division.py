"""Integers divided in vectors of floats: processors have no instruction that divides vectors of integers.

A quotient of integers that is not whole is 1 / y or more away from whole numbers, which is 1 / x of it. With x below
2^p the float with p bits next to it is on the same side of them, so that its whole part is right: f32 (24 bits) does
for integers of 8 and 16 bits, f64 (53 bits) for those of 32. So is what x - q y leaves, all of which are floats.

Those of 64 bits are divided like that where they are small, as numbers of rows and places are, which is looked at; from
there to floats and back it is a sum, since the low bits of x + 1.5 2^52 are x.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.upstream.vector_arith import (
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
    element_type_of,
)
from tenon.lowering.math.builder import ArithmeticBuilder

_SIGNED = (arith.DivSIOp, arith.RemSIOp)
_REMAINDERS = (arith.RemSIOp, arith.RemUIOp)
_SMALL = 51
"""Bits of a magnitude that the sum with `_SHIFT` holds beside the sign."""
_SHIFT = 1.5 * 2.0**52
_SHIFT_BITS = 0x4338000000000000


def quotient(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, *, signed: bool, known: bool = False) -> SSAValue:
    """x / y rounded toward zero, which is an integer of their type, for y that is not 0; LLVM has products for a
    `known` one."""
    op = arith.DivSIOp if signed else arith.DivUIOp
    return _by_instruction(b, x, y, op) if known else _divided(b, x, y, op)


def remainder(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, *, signed: bool) -> SSAValue:
    """What that leaves of x"""
    return _divided(b, x, y, arith.RemSIOp if signed else arith.RemUIOp)


def _divided(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, op: type[Operation]) -> SSAValue:
    element = element_type_of(x.type)
    width = element.width.data if isinstance(element, IntegerType) else 0
    if not isinstance(x.type, VectorType) or len(x.type.get_shape()) != 1 or width not in (8, 16, 32, 64):
        return _by_instruction(b, x, y, op)
    if width == 64:
        return _where_small(b, x, y, op)
    left, right = (_as_float(b, value, width, signed=op in _SIGNED) for value in (x, y))
    result = _in_floats(b, left, right, remains=op in _REMAINDERS)
    if width == 32:
        return _cast(b, FPToSIOp if op in _SIGNED else FPToUIOp, result, x.type)
    return _cast(b, TruncIOp, _cast(b, FPToSIOp, result, b.i32), x.type)


def _by_instruction(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, op: type[Operation]) -> SSAValue:
    return b.insert(op.create(operands=[x, y], result_types=[x.type]))


def _in_floats(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, *, remains: bool) -> SSAValue:
    whole = b.truncate(b.div(x, y))
    return b.sub(x, b.mul(whole, y)) if remains else whole


def _as_float(b: ArithmeticBuilder, x: SSAValue, width: int, *, signed: bool) -> SSAValue:
    if width == 32:
        return _cast(b, SIToFPOp if signed else UIToFPOp, x, b.f64)
    return _cast(b, SIToFPOp, _cast(b, ExtSIOp if signed else ExtUIOp, x, b.i32), b.f32)


def _where_small(b: ArithmeticBuilder, x: SSAValue, y: SSAValue, op: type[Operation]) -> SSAValue:
    if op in _SIGNED:
        beyond = [b.compare_integers("uge", b.integer_add(value, 1 << _SMALL), 2 << _SMALL) for value in (x, y)]
        large = b.either(*beyond)
    else:
        large = b.compare_integers("uge", b.either(x, y), 1 << _SMALL)
    left, right = (b.sub(b.from_bits(b.integer_add(value, _SHIFT_BITS)), _SHIFT) for value in (x, y))
    result = b.add(_in_floats(b, left, right, remains=op in _REMAINDERS), _SHIFT)
    small = b.integer_sub(b.bits(result), _SHIFT_BITS)
    return b.unless(large, small, lambda inner: _by_instruction(inner, x, y, op))


def _cast(b: ArithmeticBuilder, op: type[Operation], value: SSAValue, type_: Attribute) -> SSAValue:
    return b.insert(op.create(operands=[value], result_types=[type_]))
