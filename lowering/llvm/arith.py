"""`arith` to LLVM, on scalars and vectors.

Every operation is defined for all operands, so that no input stops the process:

- integer division by zero gives 0, and so does its remainder; `INT_MIN / -1` wraps to `INT_MIN` with remainder 0;
- shifts by the width or more give what shifting one by one would give (0, or the sign for `shrsi`);
- float to integer saturates at the ends of the integer's range, NaN gives 0;
- `maximumf`/`minimumf` give NaN when an operand is NaN, `maxnumf`/`minnumf` the other operand; -0.0 and 0.0 are equal
  to all four, either may be returned.

Arithmetic on f16 and bf16 is done in `float` and rounded once per operation. The operations' `fastmath` and `overflow`
flags go over unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from tenon.lowering.llvm.float16 import extend_to_float, round_to_odd, truncate_from_float
from tenon.lowering.llvm.function import FunctionWriter, Handler
from tenon.lowering.llvm.types import LlvmType, literal

ARITH_HANDLERS: dict[str, Handler] = {}

_COMPARE_INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_COMPARE_FLOATS = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
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


def float_operands(writer: FunctionWriter, op: Operation) -> tuple[LlvmType, list[str]]:
    """The operands in a type LLVM computes in: f16 and bf16 are extended to `float`."""
    source = writer.type_of(op.operands[0])
    values = writer.operands(op)
    if source.half:
        return source.float(), [extend_to_float(writer, source, value) for value in values]
    return source, values


def define_float(writer: FunctionWriter, op: Operation, value: str) -> None:
    """Let `value`, computed in the type of `float_operands`, be the result; f16 and bf16 are rounded to."""
    target = writer.type_of(op.results[0])
    writer.values[op.results[0]] = truncate_from_float(writer, target, value) if target.half else value


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of `arith` for operation names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            ARITH_HANDLERS[f"arith.{name}"] = handler
        return handler

    return register


def _register_simple() -> None:
    """Operations that are one instruction in LLVM."""

    def integer(opcode: str) -> Handler:
        def handler(writer: FunctionWriter, op: Operation) -> None:
            lhs, rhs = op.operands
            overflow = _overflow_flags(op)
            instruction = f"{opcode} {overflow}{writer.type_of(lhs).text} {writer.values[lhs]}, {writer.values[rhs]}"
            writer.define(op.results[0], instruction)

        return handler

    def floating(opcode: str) -> Handler:
        def handler(writer: FunctionWriter, op: Operation) -> None:
            compute, (lhs, rhs) = float_operands(writer, op)
            define_float(writer, op, writer.emit(f"{opcode} {fastmath_flags(op)}{compute.text} {lhs}, {rhs}"))

        return handler

    for name, opcode in {
        "addi": "add",
        "subi": "sub",
        "muli": "mul",
        "andi": "and",
        "ori": "or",
        "xori": "xor",
    }.items():
        ARITH_HANDLERS[f"arith.{name}"] = integer(opcode)
    for name, opcode in {"addf": "fadd", "subf": "fsub", "mulf": "fmul", "divf": "fdiv", "remf": "frem"}.items():
        ARITH_HANDLERS[f"arith.{name}"] = floating(opcode)


def select(writer: FunctionWriter, value_type: LlvmType, condition: str, then: str, otherwise: str) -> str:
    """A select whose condition has as many lanes as the values."""
    boolean = value_type.integer(1).text
    return writer.emit(f"select {boolean} {condition}, {value_type.text} {then}, {value_type.text} {otherwise}")


@handles("constant")
def _constant(writer: FunctionWriter, op: Operation) -> None:
    value, result = op.properties["value"], op.results[0]
    if isinstance(value, IntegerAttr):
        writer.integers[result] = value.value.data
    writer.values[result] = literal(writer.type_of(result), value)


@handles("cmpi")
def _compare_integers(writer: FunctionWriter, op: Operation) -> None:
    lhs, rhs = writer.operands(op)
    writer.define(
        op.results[0], f"icmp {_COMPARE_INTEGERS[_predicate(op)]} {writer.type_of(op.operands[0]).text} {lhs}, {rhs}"
    )


@handles("cmpf")
def _compare_floats(writer: FunctionWriter, op: Operation) -> None:
    compute, (lhs, rhs) = float_operands(writer, op)
    predicate = _COMPARE_FLOATS[_predicate(op)]
    writer.define(op.results[0], f"fcmp {fastmath_flags(op)}{predicate} {compute.text} {lhs}, {rhs}")


def _predicate(op: Operation) -> int:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return predicate.value.data


@handles("select")
def _select(writer: FunctionWriter, op: Operation) -> None:
    condition, then, otherwise = (writer.typed(operand) for operand in op.operands)
    writer.define(op.results[0], f"select {condition}, {then}, {otherwise}")


@handles("negf")
def _negate(writer: FunctionWriter, op: Operation) -> None:
    (value,), source = writer.operands(op), writer.type_of(op.operands[0])
    if source.half:
        writer.define(op.results[0], f"xor {source.text} {value}, {source.integer().constant(-0x8000)}")
    else:
        writer.define(op.results[0], f"fneg {fastmath_flags(op)}{source.text} {value}")


@handles("maximumf", "minimumf", "maxnumf", "minnumf")
def _extremum_of_floats(writer: FunctionWriter, op: Operation) -> None:
    compute, (lhs, rhs) = float_operands(writer, op)
    flags, text = fastmath_flags(op), compute.text
    predicate = "ogt" if "max" in op.name else "olt"
    condition = writer.emit(f"fcmp {flags}{predicate} {text} {lhs}, {rhs}")
    chosen = select(writer, compute, condition, lhs, rhs)
    # `chosen` is rhs whenever an operand is NaN
    if "nnan" not in flags and "fast" not in flags:
        if op.name.endswith("imumf"):
            lhs_is_nan = writer.emit(f"fcmp uno {text} {lhs}, {lhs}")
            chosen = select(writer, compute, lhs_is_nan, lhs, chosen)
        else:
            rhs_is_nan = writer.emit(f"fcmp uno {text} {rhs}, {rhs}")
            chosen = select(writer, compute, rhs_is_nan, lhs, chosen)
    define_float(writer, op, chosen)


@handles("maxsi", "minsi", "maxui", "minui")
def _extremum_of_integers(writer: FunctionWriter, op: Operation) -> None:
    value_type = writer.type_of(op.operands[0])
    intrinsic = {"maxsi": "smax", "minsi": "smin", "maxui": "umax", "minui": "umin"}[op.name.removeprefix("arith.")]
    operands = [(value_type, value) for value in writer.operands(op)]
    writer.values[op.results[0]] = writer.call_intrinsic(f"{intrinsic}.{value_type.suffix}", value_type, operands)


@handles("shli", "shrui", "shrsi")
def _shift(writer: FunctionWriter, op: Operation) -> None:
    value_type, (value, amount) = writer.type_of(op.operands[0]), writer.operands(op)
    opcode = {"arith.shli": "shl", "arith.shrui": "lshr", "arith.shrsi": "ashr"}[op.name]
    text, width = value_type.text, value_type.bits
    constant = constant_elements(op.operands[1].owner)
    if constant is not None and all(0 <= item < width for item in constant):
        writer.define(op.results[0], f"{opcode} {text} {value}, {amount}")
        return
    in_range = writer.emit(f"icmp ult {text} {amount}, {value_type.constant(width)}")
    limit = value_type.constant(width - 1)
    shifted = writer.emit(f"{opcode} {text} {value}, {select(writer, value_type, in_range, amount, limit)}")
    if opcode != "ashr":
        shifted = select(writer, value_type, in_range, shifted, value_type.constant(0))
    writer.values[op.results[0]] = shifted


def constant_elements(owner: Any) -> tuple[int, ...] | None:
    """The integers of an `arith.constant`, None when the owner is anything else."""
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    value: Attribute = owner.properties["value"]
    return (value.value.data,) if isinstance(value, IntegerAttr) else tuple(value.get_values())  # pyright: ignore


def divide(writer: FunctionWriter, op: Operation, signed: bool) -> tuple[LlvmType, str, str, str, str]:
    """Divide so that nothing traps: the type, the operands, quotient and remainder, both 0 where the divisor is 0."""
    value_type, (dividend, divisor) = writer.type_of(op.operands[0]), writer.operands(op)
    text, letter = value_type.text, "s" if signed else "u"
    constant = constant_elements(op.operands[1].owner)
    if constant is not None and all(item not in (0, -1) for item in constant):
        quotient = writer.emit(f"{letter}div {text} {dividend}, {divisor}")
        return value_type, dividend, divisor, quotient, _remainder(writer, text, dividend, divisor, quotient)
    zero, one = value_type.constant(0), value_type.constant(1)
    by_zero = writer.emit(f"icmp eq {text} {divisor}, {zero}")
    unsafe = by_zero
    if signed:
        lowest = value_type.constant(-(1 << (value_type.bits - 1)))
        at_lowest = writer.emit(f"icmp eq {text} {dividend}, {lowest}")
        by_minus_one = writer.emit(f"icmp eq {text} {divisor}, {value_type.constant(-1)}")
        boolean = value_type.integer(1).text
        overflows = writer.emit(f"and {boolean} {at_lowest}, {by_minus_one}")
        unsafe = writer.emit(f"or {boolean} {by_zero}, {overflows}")
    # dividing by one instead gives INT_MIN with remainder 0, which is what wrapping means
    safe = select(writer, value_type, unsafe, one, divisor)
    quotient = writer.emit(f"{letter}div {text} {dividend}, {safe}")
    remainder = _remainder(writer, text, dividend, safe, quotient)
    return value_type, dividend, safe, select(writer, value_type, by_zero, zero, quotient), remainder


def _remainder(writer: FunctionWriter, text: str, dividend: str, divisor: str, quotient: str) -> str:
    product = writer.emit(f"mul {text} {quotient}, {divisor}")
    return writer.emit(f"sub {text} {dividend}, {product}")


@handles("divsi", "divui")
def _quotient(writer: FunctionWriter, op: Operation) -> None:
    writer.values[op.results[0]] = divide(writer, op, op.name == "arith.divsi")[3]


@handles("remsi", "remui")
def _modulo(writer: FunctionWriter, op: Operation) -> None:
    writer.values[op.results[0]] = divide(writer, op, op.name == "arith.remsi")[4]


@handles("floordivsi", "ceildivsi")
def _round_quotient(writer: FunctionWriter, op: Operation) -> None:
    value_type, dividend, divisor, quotient, remainder = divide(writer, op, signed=True)
    text, boolean, zero = value_type.text, value_type.integer(1).text, value_type.constant(0)
    inexact = writer.emit(f"icmp ne {text} {remainder}, {zero}")
    signs = writer.emit(f"xor {text} {dividend}, {divisor}")
    floor = op.name == "arith.floordivsi"
    rounds = writer.emit(f"icmp {'slt' if floor else 'sge'} {text} {signs}, {zero}")
    adjust = writer.emit(f"and {boolean} {inexact}, {rounds}")
    # extending i1 by its sign subtracts one, by zero adds one
    step = writer.emit(f"{'sext' if floor else 'zext'} {boolean} {adjust} to {text}")
    writer.define(op.results[0], f"add {text} {quotient}, {step}")


@handles("ceildivui")
def _ceil_unsigned(writer: FunctionWriter, op: Operation) -> None:
    value_type, _, _, quotient, remainder = divide(writer, op, signed=False)
    text, boolean = value_type.text, value_type.integer(1).text
    inexact = writer.emit(f"icmp ne {text} {remainder}, {value_type.constant(0)}")
    step = writer.emit(f"zext {boolean} {inexact} to {text}")
    writer.define(op.results[0], f"add {text} {quotient}, {step}")


@handles("addui_extended")
def _add_extended(writer: FunctionWriter, op: Operation) -> None:
    lhs, rhs = writer.operands(op)
    text = writer.type_of(op.operands[0]).text
    total = writer.values[op.results[0]] = writer.emit(f"add {text} {lhs}, {rhs}")
    writer.define(op.results[1], f"icmp ult {text} {total}, {lhs}")


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
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,) = writer.operands(op)
    if source.text == target.text:
        writer.values[op.results[0]] = value
    else:
        writer.define(op.results[0], f"bitcast {source.text} {value} to {target.text}")


@handles("extsi", "extui", "trunci", "index_cast", "index_castui")
def _resize_integer(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,), result = writer.operands(op), op.results[0]
    if op.operands[0] in writer.integers and source.bits <= target.bits and op.name == "arith.index_cast":
        writer.integers[result] = writer.integers[op.operands[0]]
    if source.bits == target.bits:
        writer.values[result] = value
        return
    widen = "zext" if op.name in ("arith.extui", "arith.index_castui") else "sext"
    opcode = "trunc" if target.bits < source.bits else widen
    writer.define(result, f"{opcode} {source.text} {value} to {target.text}")


@handles("sitofp", "uitofp")
def _integer_to_float(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,) = writer.operands(op)
    if not target.half:
        writer.define(op.results[0], f"{op.name.removeprefix('arith.')} {source.text} {value} to {target.text}")
        return
    double = LlvmType("double", 64, source.lanes)
    if source.bits > 53:
        value = _fitting_double(writer, source, value, op.name == "arith.sitofp")
    wide = writer.emit(f"{op.name.removeprefix('arith.')} {source.text} {value} to {double.text}")
    writer.values[op.results[0]] = truncate_from_float(writer, target, round_to_odd(writer, double, wide))


def _fitting_double(writer: FunctionWriter, source: LlvmType, value: str, signed: bool) -> str:
    """`value`, of which a double loses nothing that decides how a 16-bit float is rounded.

    Integers of 2^53 and more lose their last 12 bits; that these were not zero is kept in the last bit that remains.
    """
    text, boolean, shift = source.text, source.integer(1).text, source.constant(12)
    lost = writer.emit(f"and {text} {value}, {source.constant(0xFFF)}")
    inexact = writer.emit(f"icmp ne {text} {lost}, {source.constant(0)}")
    last = writer.emit(f"zext {boolean} {inexact} to {text}")
    high = writer.emit(f"{'ashr' if signed else 'lshr'} {text} {value}, {shift}")
    rounded = writer.emit(f"shl {text} {writer.emit(f'or {text} {high}, {last}')}, {shift}")
    magnitude = value
    if signed:
        magnitude = writer.emit(f"xor {text} {value}, {writer.emit(f'ashr {text} {value}, {source.constant(63)}')}")
    small = writer.emit(f"icmp ult {text} {magnitude}, {source.constant(1 << 53)}")
    return select(writer, source, small, value, rounded)


@handles("fptosi", "fptoui")
def _float_to_integer(writer: FunctionWriter, op: Operation) -> None:
    compute, (value,) = float_operands(writer, op)
    target = writer.type_of(op.results[0])
    signed = op.name == "arith.fptosi"
    lowest, beyond = (-(2 ** (target.bits - 1)), 2 ** (target.bits - 1)) if signed else (0, 2**target.bits)
    # LLVM's saturating conversions work lane by lane on vectors
    under = writer.emit(f"fcmp olt {compute.text} {value}, {compute.constant(float(beyond))}")
    over = writer.emit(f"fcmp ogt {compute.text} {value}, {compute.constant(float(lowest))}")
    inside = writer.emit(f"and {target.integer(1).text} {under}, {over}")
    above = writer.emit(f"fcmp oge {compute.text} {value}, {compute.constant(float(beyond))}")
    below = writer.emit(f"fcmp ole {compute.text} {value}, {compute.constant(float(lowest))}")
    safe = select(writer, compute, inside, value, compute.constant(0.0))
    converted = writer.emit(f"{op.name.removeprefix('arith.')} {compute.text} {safe} to {target.text}")
    capped = select(writer, target, above, target.constant(beyond - 1), converted)
    writer.values[op.results[0]] = select(writer, target, below, target.constant(lowest), capped)


@handles("extf")
def _extend_float(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,) = writer.operands(op)
    if source.half:
        value, source = extend_to_float(writer, source, value), source.float()
        if target.text == source.text:
            writer.values[op.results[0]] = value
            return
    writer.define(op.results[0], f"fpext {source.text} {value} to {target.text}")


@handles("truncf")
def _truncate_float(writer: FunctionWriter, op: Operation) -> None:
    source, target = writer.type_of(op.operands[0]), writer.type_of(op.results[0])
    (value,) = writer.operands(op)
    if not target.half:
        writer.define(op.results[0], f"fptrunc {source.text} {value} to {target.text}")
        return
    if source.element == "double":
        value = round_to_odd(writer, source, value)
    writer.values[op.results[0]] = truncate_from_float(writer, target, value)


_register_simple()
