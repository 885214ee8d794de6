"""Constants, comparisons and conversions in CUDA C++."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation

from tenon.lowering.cuda.kernel_writer import KernelWriter
from tenon.lowering.cuda.tables import (
    BITCASTS,
    FLOAT_COMPARISONS,
    FROM_FLOAT,
    INTEGER_COMPARISONS,
    ROUNDED,
    TO_FLOAT,
    same_width_unsigned,
)
from tenon.lowering.grids.thread_code import AT_LAUNCH

BIT = IntegerType(1)
_GREATER, _LESS = 2, 4  # predicates of arith.cmpf: ogt, olt


def emit_constant(writer: KernelWriter, op: arith.ConstantOp) -> None:
    """A constant is written where it is used, unless the launch tells it."""
    if AT_LAUNCH in op.attributes:
        return
    text = literal(writer, op.value)
    writer.names[op.result] = f"({text})" if text.startswith("-") else text


def literal(writer: KernelWriter, value: Attribute) -> str:
    """The C literal of a constant."""
    if isinstance(value, IntegerAttr):
        return integer_literal(value, writer.known(value.type))
    if not isinstance(value, FloatAttr):
        raise writer.error(f"arith.constant of type {getattr(value, 'type', value)} is not a scalar")
    number, element = value.value.data, value.type
    bits = int.from_bytes(element.pack([number]), "little")
    if isinstance(element, Float32Type):
        number = element.unpack(element.pack([number]), 1)[0]
        return f"{float_digits(number, 9)}f" if isfinite(number) else f"__int_as_float({bits:#x})"
    if isinstance(element, Float64Type):
        return float_digits(number, 17) if isfinite(number) else f"__longlong_as_double({bits:#x}ll)"
    return f"{bits:#x}"


def float_digits(number: float, digits: int) -> str:
    text = f"{number:.{digits}g}"
    return text if "." in text or "e" in text else text + ".0"


def integer_literal(value: IntegerAttr, kind: Attribute) -> str:
    number = value.value.data
    if kind == BIT:
        return "true" if number else "false"
    width = kind.width.data if isinstance(kind, IntegerType) else 64
    number = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    if width < 64:
        return str(number) if number != -(1 << 31) else "(-2147483647 - 1)"
    return f"{number}ll" if number != -(1 << 63) else "(-9223372036854775807ll - 1)"


def emit_compare_integers(writer: KernelWriter, op: arith.CmpiOp) -> None:
    writer.declare(op.result, writer.filled(op, INTEGER_COMPARISONS[op.predicate.value.data], op.result.type))


def emit_compare_floats(writer: KernelWriter, op: arith.CmpfOp) -> None:
    if not isinstance(op.lhs.type, Float32Type | Float64Type):
        raise writer.error(f"{op.name} on {op.lhs.type} has no CUDA C++ form")
    writer.declare(op.result, writer.filled(op, FLOAT_COMPARISONS[op.predicate.value.data], op.result.type))


def emit_select(writer: KernelWriter, op: arith.SelectOp) -> None:
    condition, first, second = (writer.names[operand] for operand in op.operands)
    if (extremum := _extremum(op)) is not None:
        writer.declare(op.result, f"{extremum}({first}, {second})")
    else:
        writer.declare(op.result, f"{condition} ? {first} : {second}")


def _extremum(op: arith.SelectOp) -> str | None:
    """The function of the larger or smaller of two f32 that a choice is, none of which is NaN: one instruction."""
    known = op.cond.owner
    if not isinstance(known, arith.CmpfOp) or tuple(known.operands) != tuple(op.operands[1:]):
        return None
    has_numbers = known.lhs.type == Float32Type() and arith.FastMathFlag.NO_NANS in known.fastmath.data
    return {_GREATER: "fmaxf", _LESS: "fminf"}.get(known.predicate.value.data) if has_numbers else None


def emit_convert_float(writer: KernelWriter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    rounding = op.operands[0].owner
    if (
        isinstance(rounding, arith.TruncFOp)
        and Float32Type() == rounding.input.type == target
        and type(source) in ROUNDED
    ):
        writer.declare(op.results[0], ROUNDED[type(source)].format(writer.names[rounding.input]))
        return
    expression = TO_FLOAT.get(type(source)) or FROM_FLOAT.get(type(target))
    if expression is not None and Float32Type() in (source, target):
        writer.declare(op.results[0], expression.format(writer.names[op.operands[0]]))
    else:
        emit_cast(writer, op)


def emit_cast(writer: KernelWriter, op: Operation) -> None:
    """A conversion from signed numbers. True is -1."""
    if op.results[0].type == BIT and op.operands[0].type != BIT:
        writer.declare(op.results[0], f"({writer.names[op.operands[0]]} & 1) != 0")
        return
    sign = "-(int)" if op.operands[0].type == BIT else ""
    writer.declare(op.results[0], f"({writer.number_type(op)}){sign}{writer.names[op.operands[0]]}")


def emit_cast_unsigned(writer: KernelWriter, op: Operation) -> None:
    """A conversion from unsigned integers."""
    source = same_width_unsigned(writer.known(op.operands[0].type))
    writer.declare(op.results[0], f"({writer.number_type(op)})({source}){writer.names[op.operands[0]]}")


def emit_truncate_integer(writer: KernelWriter, op: arith.TruncIOp) -> None:
    low_bit = f"({writer.names[op.input]} & 1) != 0"
    target = op.result.type
    writer.declare(op.result, low_bit if target == BIT else f"({writer.type(target)}){writer.names[op.input]}")


def emit_to_unsigned(writer: KernelWriter, op: arith.FPToUIOp) -> None:
    """A conversion to unsigned integers."""
    unsigned = same_width_unsigned(writer.known(op.result.type))
    writer.declare(op.result, f"({writer.number_type(op)})({unsigned}){writer.names[op.input]}")


def emit_bitcast(writer: KernelWriter, op: arith.BitcastOp) -> None:
    source, target = writer.type(op.input.type), writer.type(op.result.type)
    expression = BITCASTS.get((source, target), "({T}){0}")
    writer.declare(op.result, expression.format(writer.names[op.input], T=target))


STATEMENTS: dict[str, Callable[[KernelWriter, Any], None]] = {
    arith.ConstantOp.name: emit_constant,
    arith.CmpiOp.name: emit_compare_integers,
    arith.CmpfOp.name: emit_compare_floats,
    arith.SelectOp.name: emit_select,
    arith.ExtFOp.name: emit_convert_float,
    arith.TruncFOp.name: emit_convert_float,
    arith.IndexCastOp.name: emit_cast,
    arith.ExtSIOp.name: emit_cast,
    arith.SIToFPOp.name: emit_cast,
    arith.ExtUIOp.name: emit_cast_unsigned,
    arith.UIToFPOp.name: emit_cast_unsigned,
    arith.TruncIOp.name: emit_truncate_integer,
    arith.FPToSIOp.name: emit_cast,
    arith.FPToUIOp.name: emit_to_unsigned,
    arith.BitcastOp.name: emit_bitcast,
}
