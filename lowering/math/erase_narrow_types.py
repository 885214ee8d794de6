"""The end of narrow types: elements of 8 bits and less become bytes, and conversions become arithmetic on bytes.

Before: structured IR on tensors, with conversions between narrow types and others. After: no type of `types.NARROW` is
left; i8 takes its place, with the codes of floats and with integers in the low bits, the others 0. Public functions
keep the dtypes that callers see, as for unsigned integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    f32,
    f64,
    i1,
    i8,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.settings import array_of
from tenon.dialects.definition.signedness import Erasure
from tenon.dialects.support.location import at_line
from tenon.dialects.types.types import NarrowFloatType, bit_width, is_narrow, numpy_dtype, significant_bits
from tenon.dialects.upstream.vector_arith import ExtSIOp, ExtUIOp, FPToSIOp, TruncIOp
from tenon.lowering.math.builder import ArithmeticBuilder, Constants
from tenon.lowering.math.minifloats import decode, encode

_MOVING = (arith.ConstantOp, arith.SelectOp, arith.BitcastOp)
"""Ops of `arith` that mean the same on bytes."""


@dataclass(frozen=True)
class EraseNarrowTypesPass(ModulePass):
    """Store narrow types as bytes, and write out the conversions from and to them."""

    name = "erase-narrow-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        erasure = _Bytes()
        if not erasure.is_needed(op):
            return
        constants: dict[Block, Constants] = {}
        # From the last one: what an op takes still has the type that says how it is to be read.
        for each in reversed(list(op.walk())):
            if each.name.startswith(("arith.", "math.")) and not isinstance(each, _MOVING):
                types = [value.type for value in (*each.operands, *each.results)]
                if any(map(is_narrow, types)):
                    _write_out(each, constants)
        erasure.apply(op)


class _Bytes(Erasure):
    """Narrow types made i8."""

    def element(self, element: Attribute) -> Attribute:
        return i8 if is_narrow(element) else element

    def number(self, number: IntegerAttr | FloatAttr[Any]) -> Attribute:
        value = np.asarray(number.value.data, np.int8 if isinstance(number, IntegerAttr) else np.float64)
        return IntegerAttr(int(value.astype(numpy_dtype(number.type)).view(np.int8)), i8)

    def array(self, array: DenseIntOrFPElementsAttr[Any], kind: Any) -> Attribute:
        values = array_of(array)
        single = values.reshape(-1)[:1] if values.size and not any(values.strides) else values
        return DenseIntOrFPElementsAttr(kind, BytesAttr(single.tobytes()))


def _write_out(op: Operation, constants: dict[Block, Constants]) -> None:
    """Replace a conversion from or to a narrow type by arithmetic."""
    block = op.parent
    assert block is not None
    b = ArithmeticBuilder(op, constants.setdefault(block, Constants(block)), f32)
    result = _converted(b, op)
    if result is None:
        narrow = next(value.type for value in (*op.operands, *op.results) if is_narrow(value.type))
        raise PassFailedException(
            f"{op.name}: computes with {narrow}, which is a storage type: convert first{at_line(op)}"
        )
    op.results[0].replace_all_uses_with(result)
    op.detach()
    op.erase()


def _converted(b: ArithmeticBuilder, op: Operation) -> SSAValue | None:
    """The result of a conversion; `None` for any other op."""
    match op:
        case arith.ExtFOp(input=x, result=result) | arith.TruncFOp(input=x, result=result):
            return _of_single(b, _single(b, x), result.type)
        case arith.SIToFPOp(input=x, result=result) | arith.UIToFPOp(input=x, result=result):
            wide = _integer(b, x, b.i32, is_signed=isinstance(op, arith.SIToFPOp)) if is_narrow(x.type) else x
            return _of_single(b, b.insert(type(op).create(operands=[wide], result_types=[f32])), result.type)
        case arith.FPToSIOp(input=x, result=result) | arith.FPToUIOp(input=x, result=result):
            if is_narrow(result.type):
                return _limited(b, x, result.type, is_signed=isinstance(op, arith.FPToSIOp))
            return b.insert(type(op).create(operands=[_single(b, x)], result_types=[result.type]))
        case arith.ExtSIOp(input=x, result=result) | arith.ExtUIOp(input=x, result=result):
            return _integer(b, x, result.type, is_signed=isinstance(op, arith.ExtSIOp))
        case arith.TruncIOp(input=x, result=result):
            return _low_bits(b, x, result.type)
        case _:
            return None


def _single(b: ArithmeticBuilder, x: SSAValue) -> SSAValue:
    """A float as f32: exactly, but for f64, which is rounded to odd, so that what rounds it next does so once."""
    kind = x.type
    if isinstance(kind, NarrowFloatType):
        return decode(b, _resized(b, x, b.i32), kind.SEMANTICS)
    if kind == f64:
        return b.rounded_to_odd(x)
    return x if kind == f32 else b.extend(x, f32)


def _of_single(b: ArithmeticBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    """An f32 as another float."""
    if isinstance(target, NarrowFloatType):
        return _resized(b, encode(b, x, target.SEMANTICS), i8)
    if target == f32:
        return x
    return b.extend(x, target) if target == f64 else b.narrow(x, target)


def _limited(b: ArithmeticBuilder, x: SSAValue, target: Attribute, *, is_signed: bool) -> SSAValue:
    """A float as a narrow integer: truncated, limited to its range, NaN becoming 0."""
    bits = significant_bits(target)
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    source = _single(b, x) if is_narrow(x.type) else x
    whole = b.insert(FPToSIOp.create(operands=[source], result_types=[b.i32]))
    limited = b.insert(arith.MaxSIOp.create(operands=[whole, b.constant(least, b.i32)], result_types=[b.i32]))
    limited = b.insert(arith.MinSIOp.create(operands=[limited, b.constant(most, b.i32)], result_types=[b.i32]))
    return _low_bits(b, limited, target)


def _integer(b: ArithmeticBuilder, x: SSAValue, target: Attribute, *, is_signed: bool) -> SSAValue:
    """An integer, one of the two types being narrow, extended."""
    if is_narrow(x.type) and is_signed:
        # There are no shifts of bytes in vector units.
        sign = 1 << (significant_bits(x.type) - 1)
        x = b.integer_sub(b.exclusive(x, b.constant(sign, i8)), b.constant(sign, i8))
    if is_narrow(target):
        return _low_bits(b, x, target)
    return _resized(b, x, target, is_signed=is_signed)


def _low_bits(b: ArithmeticBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    """The low bits of an integer as a narrow one."""
    return b.both(_resized(b, x, i8), b.constant((1 << significant_bits(target)) - 1, i8))


def _resized(b: ArithmeticBuilder, x: SSAValue, target: Attribute, *, is_signed: bool = False) -> SSAValue:
    """An integer, narrow types being bytes, in the integer type `target`."""
    have, wanted = 1 if x.type == i1 else bit_width(x.type), bit_width(target)
    if have == wanted:
        return x
    extended = ExtSIOp if is_signed else ExtUIOp
    return b.insert((extended if have < wanted else TruncIOp).create(operands=[x], result_types=[target]))
