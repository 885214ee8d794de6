"""Integers divided in vectors of floats: processors have no instruction that divides vectors of integers.

A quotient of integers that is not whole is 1 / y or more away from whole numbers, which is 1 / x of it. With x below
2^p the float with p bits next to it is on the same side of them, so that its whole part is right: f32 (24 bits) does
for integers of 8 and 16 bits, f64 (53 bits) for those of 32. So is what x - q y leaves, all of which are floats.

Those of 64 bits are divided like that where they are small, as numbers of rows and places are, which is looked at; from
there to floats and back it is a sum, since the low bits of x + 1.5 2^52 are x.

By numbers that are known LLVM divides in products, of 64 bits lane by lane. There x + 1/2, or x - 1/2 where x is
negative, is multiplied by 1 / y: it is 1 / (2 y) or more away from whole numbers, and wrong by less for x below 2^50.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

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
from tenon.lowering.math.builder import ArithmeticBuilder, Operand

Division: TypeAlias = "type[arith.DivSIOp] | type[arith.DivUIOp] | type[arith.RemSIOp] | type[arith.RemUIOp]"

_SIGNED = (arith.DivSIOp, arith.RemSIOp)
_REMAINDERS = (arith.RemSIOp, arith.RemUIOp)
_SMALL = 51
"""Bits of a magnitude that the sum with `_SHIFT` holds beside the sign."""
_SHIFT = 1.5 * 2.0**52
_SHIFT_BITS = 0x4338000000000000


def divided(b: ArithmeticBuilder, op: Division, x: SSAValue, y: SSAValue, known: Sequence[int]) -> SSAValue:
    """What `op`, a quotient rounded toward zero or what it leaves, gives of x and y, the elements of which are `known`
    numbers if there are such; it is in the range of the integers, and y is not 0."""
    element = element_type_of(x.type)
    width = element.width.data if isinstance(element, IntegerType) else 0
    is_vector = isinstance(x.type, VectorType) and len(x.type.get_shape()) == 1
    if not is_vector or width not in (8, 16, 32, 64) or (known and not (width == 64 and _is_factor(known, op))):
        return _by_instruction(b, op, x, y)
    if width == 64:
        return _where_small(b, op, x, y, known)
    left, right = (_as_float(b, value, width, signed=op in _SIGNED) for value in (x, y))
    whole = b.truncate(b.div(left, right))
    result = _left_of(b, left, whole, right) if op in _REMAINDERS else whole
    if width == 32:
        return _cast(b, FPToSIOp if op in _SIGNED else FPToUIOp, result, x.type)
    return _cast(b, TruncIOp, _cast(b, FPToSIOp, result, b.i32), x.type)


def _is_factor(known: Sequence[int], op: Division) -> bool:
    """Whether one over what all of the numbers are is a factor that is small enough; powers of two are shifts."""
    size = abs(known[0])
    fits = size < 1 << _SMALL and (op in _SIGNED or known[0] > 0)  # numbers from 2^63 on are negative here
    return fits and len(set(known)) == 1 and size & (size - 1) != 0


def _by_instruction(b: ArithmeticBuilder, op: Division, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.insert(op.create(operands=[x, y], result_types=[x.type]))


def _left_of(b: ArithmeticBuilder, x: SSAValue, whole: SSAValue, y: Operand) -> SSAValue:
    return b.sub(x, b.mul(whole, y))


def _as_float(b: ArithmeticBuilder, x: SSAValue, width: int, *, signed: bool) -> SSAValue:
    if width == 32:
        return _cast(b, SIToFPOp if signed else UIToFPOp, x, b.f64)
    return _cast(b, SIToFPOp, _cast(b, ExtSIOp if signed else ExtUIOp, x, b.i32), b.f32)


def _where_small(b: ArithmeticBuilder, op: Division, x: SSAValue, y: SSAValue, known: Sequence[int]) -> SSAValue:
    limit = 1 << (_SMALL - 1 if known else _SMALL)
    values = (x,) if known else (x, y)
    if op in _SIGNED:
        beyond = [b.compare_integers("uge", b.integer_add(value, limit), 2 * limit) for value in values]
        large = b.either(*beyond) if len(beyond) > 1 else beyond[0]
    else:
        large = b.compare_integers("uge", x if known else b.either(x, y), limit)
    left = _small_as_float(b, x)
    if known:
        right = float(known[0])
        whole = b.truncate(b.mul(b.add(left, b.copy_sign(b.constant(0.5, left.type), left)), 1 / right))
    else:
        right = _small_as_float(b, y)
        whole = b.truncate(b.div(left, right))
    result = _left_of(b, left, whole, right) if op in _REMAINDERS else whole
    small = b.integer_sub(b.bits(b.add(result, _SHIFT)), _SHIFT_BITS)
    return b.unless(large, small, lambda inner: _by_instruction(inner, op, x, y))


def _small_as_float(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    return b.sub(b.from_bits(b.integer_add(x, _SHIFT_BITS)), _SHIFT)


def _cast(b: ArithmeticBuilder, op: type[Operation], value: SSAValue, type_: Attribute) -> SSAValue:
    return b.insert(op.create(operands=[value], result_types=[type_]))
