"""`arith` to LLVM, on scalars and vectors: an instruction an operation, as the pass `legalize-arith` leaves them.

The operations' `fastmath` and `overflow` flags go over unchanged. Floats of 16 bits are their bits.
"""

from __future__ import annotations

from functools import cache, partial

from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    FastMathFlagsAttr,
    IntegerOverflowAttr,
)
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation

from tenon.lowering.llvm.function import LEFT_ALONE, FunctionWriter, Handlers
from tenon.lowering.llvm.half_floats import extend_to_float, truncate_from_float
from tenon.lowering.llvm.tables import CONVERSIONS, INSTRUCTIONS
from tenon.lowering.llvm.types import literal

_FLAG_ORDER = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


def fastmath_flags(op: Operation) -> str:
    """The operation's fast-math flags as LLVM spells them, with a space after each."""
    flags = op.properties.get("fastmath")
    return _flags_text(flags) if isinstance(flags, FastMathFlagsAttr) else ""


@cache
def _flags_text(flags: FastMathFlagsAttr) -> str:
    present = {flag.value for flag in flags.data}
    if len(present) == len(_FLAG_ORDER):
        return "fast "
    return "".join(f"{flag} " for flag in _FLAG_ORDER if flag in present)


def _overflow_flags(op: Operation) -> str:
    flags = op.properties.get("overflowFlags")
    return "".join(f"{flag.value} " for flag in flags.data) if isinstance(flags, IntegerOverflowAttr) else ""


ARITH_HANDLERS = Handlers("arith.")
handles = ARITH_HANDLERS.register


def _instruction(writer: FunctionWriter, op: Operation) -> None:
    writer.define(op.results[0], _instruction_text(writer, op))


def _instruction_text(writer: FunctionWriter, op: Operation) -> str:
    flags = fastmath_flags(op) or _overflow_flags(op)
    operands = ", ".join(writer.operands(op))
    return f"{INSTRUCTIONS[op.name]} {flags}{writer.type_of(op.operands[0]).text} {operands}"


def _add(writer: FunctionWriter, op: Operation) -> None:
    (left, right), result = op.operands, op.results[0]
    number = writer.integers.get(right) if isinstance(result.type, IndexType) else None
    if number is None or writer.attributes != LEFT_ALONE:
        _instruction(writer, op)
    else:
        writer.add_number(result, left, number, partial(_instruction_text, writer, op))


def _convert(writer: FunctionWriter, op: Operation) -> None:
    source, target = (writer.type_of(value).text for value in (op.operands[0], op.results[0]))
    writer.define(op.results[0], f"{CONVERSIONS[op.name]} {source} {writer.values[op.operands[0]]} to {target}")


@handles("constant")
def _constant(writer: FunctionWriter, op: Operation) -> None:
    value, result = op.properties["value"], op.results[0]
    if isinstance(value, IntegerAttr):
        writer.integers[result] = value.value.data
    writer.values[result] = literal(writer.stored_type_of(result), value)


@handles("cmpi")
def _compare_integers(writer: FunctionWriter, op: Operation) -> None:
    predicate, (lhs, rhs) = CMPI_COMPARISON_OPERATIONS[_predicate(op)], op.operands
    writer.define(op.results[0], f"icmp {predicate} {writer.typed(lhs)}, {writer.values[rhs]}")


@handles("cmpf")
def _compare_floats(writer: FunctionWriter, op: Operation) -> None:
    text, (lhs, rhs) = writer.type_of(op.operands[0]).text, writer.operands(op)
    predicate = CMPF_COMPARISON_OPERATIONS[_predicate(op)]
    writer.define(op.results[0], f"fcmp {fastmath_flags(op)}{predicate} {text} {lhs}, {rhs}")


def _predicate(op: Operation) -> int:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return predicate.value.data


@handles("select")
def _select(writer: FunctionWriter, op: Operation) -> None:
    condition, then, otherwise = (writer.typed(operand) for operand in op.operands)
    writer.define(op.results[0], f"select {condition}, {then}, {otherwise}")


@handles("mulsi_extended", "mului_extended")
def _multiply_extended(writer: FunctionWriter, op: Operation) -> None:
    value_type = writer.type_of(op.operands[0])
    wide = value_type.integer(2 * value_type.bits)
    extend = "sext" if op.name == "arith.mulsi_extended" else "zext"
    lhs, rhs = (writer.emit(f"{extend} {value_type.text} {value} to {wide.text}") for value in writer.operands(op))
    product = writer.emit(f"mul {wide.text} {lhs}, {rhs}")
    writer.define(op.results[0], f"trunc {wide.text} {product} to {value_type.text}")
    high = writer.emit(f"lshr {wide.text} {product}, {wide.constant(value_type.bits)}")
    writer.define(op.results[1], f"trunc {wide.text} {high} to {value_type.text}")


@handles("bitcast")
def _bitcast(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.stored_type_of(op.operands[0]), writer.stored_type_of(op.results[0])
    (value,) = writer.operands(op)
    if source.text == target.text:
        writer.values[op.results[0]] = value
    else:
        writer.define(op.results[0], f"bitcast {source.text} {value} to {target.text}")


@handles("extsi", "extui", "trunci", "index_cast")
def _resize_integer(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,), result = writer.operands(op), op.results[0]
    if op.operands[0] in writer.integers and source.bits <= target.bits and op.name == "arith.index_cast":
        writer.integers[result] = writer.integers[op.operands[0]]
    if source.bits == target.bits:
        writer.values[result] = value
        return
    widen = "zext" if op.name == "arith.extui" else "sext"
    opcode = "trunc" if target.bits < source.bits else widen
    writer.define(result, f"{opcode} {source.text} {value} to {target.text}")


@handles("extf")
def _extend_float(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.stored_type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,) = writer.operands(op)
    if source.half and target.bits == 32:
        writer.values[op.results[0]] = extend_to_float(writer, source, value)
    else:
        source = writer.type_of(op.operands[0])
        writer.define(op.results[0], f"fpext {source.text} {value} to {target.text}")


@handles("truncf")
def _truncate_float(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.stored_type_of(op.results[0])
    (value,) = writer.operands(op)
    if target.half and source.bits == 32:
        writer.values[op.results[0]] = truncate_from_float(writer, target, value)
    else:
        target = writer.type_of(op.results[0])
        writer.define(op.results[0], f"fptrunc {source.text} {value} to {target.text}")


ARITH_HANDLERS.update(dict.fromkeys(INSTRUCTIONS, _instruction) | dict.fromkeys(CONVERSIONS, _convert))
ARITH_HANDLERS["arith.addi"] = _add
