"""`legalize-arith`: what `arith` and `math` mean at the edges, written out in ops that mean the same everywhere.

Before: loop-stage IR, on scalars and vectors, in which every operation is defined for all operands:

- integer division by zero gives 0, and so does its remainder; the least integer divided by -1 wraps around to itself;
  vectors of integers are divided in floats (`integer_division.py`);
- a shift by the width or more gives what shifting one by one would give: 0, or the sign for `shrsi`;
- a conversion from floats to integers saturates at the ends of the integer's range, and NaN gives 0;
- `maximumf` and `minimumf` give NaN when an operand is NaN, `maxnumf` and `minnumf` the other operand; zeros of both
  signs are equal to all four, and either may be the result;
- an integer to a negative power is 0, but for 1 and -1;
- f16 and bf16 are computed with in f32 and rounded once an operation, to nearest even, and so are conversions to them;
- true is -1 to signed operations on i1.

    %q = arith.divsi %x, %y : i32

After: the same results from ops on operands for which LLVM, C and NumPy agree:

    %by_zero = arith.cmpi eq, %y, %zero : i32
    ...
    %safe = arith.select %unsafe, %one, %y : i32
    %quotient = arith.divsi %x, %safe : i32
    %q = arith.select %by_zero, %zero, %quotient : i32

No divisor is 0, or -1 of the least integer; no shift is by the width or more; no float outside of an integer's range is
converted to it; no `floordivsi`, `ceildivsi`, `ceildivui`, `addui_extended`, `ipowi`, `maximumf`, `minimumf`, `maxnumf`
and `minnumf` is left. Floats of 16 bits are loaded, stored, chosen, converted to and from f32, and seen as integers.
On i1 there are `andi`, `ori`, `xori`, and `cmpi` with equality or the unsigned order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tenon.dialects.upstream.vector_arith import TruncIOp, element_type_of, with_element_type
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.math import integer_division
from tenon.lowering.math.builder import ArithmeticBuilder, Constants
from tenon.lowering.math.powers import integer_power, square_and_multiply

Results: TypeAlias = "SSAValue | tuple[SSAValue, ...] | None"
Rewrite: TypeAlias = "Callable[[ArithmeticBuilder, Any], Results]"
"""What an operation's results are instead; None where it may stay."""

_HALVES = (Float16Type, BFloat16Type)
_BIT = IntegerType(1)
_INDEX = IndexType()
_F32 = Float32Type()


@dataclass(frozen=True)
class LegalizeArithPass(FunctionPass):
    """The pass `legalize-arith`; see the module docstring."""

    name = "legalize-arith"
    kernels_only = False

    def change(self, module: ModuleOp) -> Change:
        return _legalize


def _legalize(function: FuncOp) -> None:
    constants = Constants(function.body.block)
    for op in all_ops(function):
        if op.name in _NAMES:
            _rewrite(op, constants)


def _rewrite(op: Operation, constants: Constants) -> None:
    source = element_type_of(op.operands[0].type)
    rewrite = _REWRITES.get(op.name)
    if isinstance(source, IntegerType) and source.width.data == 0:
        return  # no target has such numbers, and each says so
    if isinstance(source, IntegerType) and source.width.data == 1:
        rewrite = _ON_BITS.get(op.name, rewrite)
    elif isinstance(source, _HALVES):
        rewrite = _OF_HALVES.get(op.name, rewrite) or _in_f32
    if rewrite is None:
        return
    results = rewrite(ArithmeticBuilder(op, constants, op.operands[0].type), op)
    if results is None:
        return
    for old, new in zip(op.results, results if isinstance(results, tuple) else (results,), strict=True):
        new.name_hint = new.name_hint or old.name_hint
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _again(b: ArithmeticBuilder, op: Operation, *operands: SSAValue, flags: bool = True) -> SSAValue:
    """The same operation on other operands."""
    properties = {name: value for name, value in op.properties.items() if flags or name != "overflowFlags"}
    return b.insert(type(op).create(operands=operands, result_types=op.result_types, properties=properties))


def _width(value: SSAValue) -> int:
    element = element_type_of(value.type)
    return element.width.data if isinstance(element, IntegerType) else 64


def known_integers(value: SSAValue) -> tuple[int, ...]:
    """The numbers that a constant has; none of any other value."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        owner = owner.source.owner
    if not isinstance(owner, arith.ConstantOp):
        return ()
    attribute = owner.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return tuple(cast(int, number) for number in attribute.get_values())
    return (attribute.value.data,) if isinstance(attribute, IntegerAttr) else ()


# ---------------------------------------------------------------------------------------------------- integer division


def _divisor(b: ArithmeticBuilder, op: Operation, *, signed: bool) -> tuple[SSAValue | None, SSAValue]:
    """Where the divisor is 0, None if it never is; and a divisor that gives what wrapping around would give, 1 for -1
    of the least integer, and 1 for 0."""
    x, y = op.operands
    known = known_integers(y)
    if known and all(number != 0 and not (signed and number == -1) for number in known):
        return None, y
    by_zero = unsafe = b.compare_integers("eq", y, 0)
    if signed:
        least = b.compare_integers("eq", x, -(1 << (_width(x) - 1)))
        unsafe = b.either(by_zero, b.both(least, b.compare_integers("eq", y, -1)))
    return by_zero, b.select(unsafe, b.constant(1, y.type), y)


def _quotient(b: ArithmeticBuilder, op: arith.DivSIOp | arith.DivUIOp) -> Results:
    """x / y -> y == 0 ? 0 : x / (y == 0 or (x == least and y == -1) ? 1 : y)"""
    by_zero, divisor = _divisor(b, op, signed=isinstance(op, arith.DivSIOp))
    quotient = integer_division.divided(b, type(op), op.lhs, divisor, known_integers(divisor))
    return quotient if by_zero is None else b.select(by_zero, 0, quotient)


def _remainder(b: ArithmeticBuilder, op: arith.RemSIOp | arith.RemUIOp) -> Results:
    """x % y -> x % (y == 0 or (x == least and y == -1) ? 1 : y)"""
    _, divisor = _divisor(b, op, signed=isinstance(op, arith.RemSIOp))
    return integer_division.divided(b, type(op), op.lhs, divisor, known_integers(divisor))


def _rounded_quotient(b: ArithmeticBuilder, op: arith.FloorDivSIOp | arith.CeilDivSIOp | arith.CeilDivUIOp) -> Results:
    """floor(x / y) -> q - (r != 0 and (x < 0) != (y < 0)), with q = x / y and r = x - q y; ceil(x / y) likewise"""
    signed = not isinstance(op, arith.CeilDivUIOp)
    by_zero, divisor = _divisor(b, op, signed=signed)
    division = arith.DivSIOp if signed else arith.DivUIOp
    quotient = integer_division.divided(b, division, op.lhs, divisor, known_integers(divisor))
    adjusted = b.compare_integers("ne", b.integer_sub(op.lhs, b.integer_mul(quotient, divisor)), 0)
    down = isinstance(op, arith.FloorDivSIOp)
    if signed:
        signs = b.exclusive(op.lhs, divisor)
        adjusted = b.both(adjusted, b.compare_integers("slt" if down else "sge", signs, 0))
    step = b.select(adjusted, b.constant(-1 if down else 1, op.lhs.type), 0)
    return b.integer_add(quotient if by_zero is None else b.select(by_zero, 0, quotient), step)


# ------------------------------------------------------------------------------------------------------------ integers


def _shift(b: ArithmeticBuilder, op: arith.ShLIOp | arith.ShRUIOp | arith.ShRSIOp) -> Results:
    """x << n -> n < width ? x << (n < width ? n : width - 1) : 0; shrsi(x, n) -> shrsi(x, min(n, width - 1))"""
    width = _width(op.lhs)
    known = known_integers(op.rhs)
    if known and all(0 <= number < width for number in known):
        return None
    in_range = b.compare_integers("ult", op.rhs, width)
    shifted = _again(b, op, op.lhs, b.select(in_range, op.rhs, width - 1), flags=False)
    return shifted if isinstance(op, arith.ShRSIOp) else b.select(in_range, shifted, 0)


def _power(b: ArithmeticBuilder, op: math.IPowIOp) -> Results:
    """x ** n -> n < 0 ? (x == 1 or x == -1 ? x ** (n & 1) : 0) : the product of x ** (2 ** i) for the bits i of n"""
    x, exponent = op.operands
    known = set(known_integers(exponent))
    if len(known) == 1 and min(known) >= 0:
        return square_and_multiply(b, x, known.pop())
    sign = b.select(b.compare_integers("ne", b.both(exponent, 1), 0), x, 1)
    unit = b.either(b.compare_integers("eq", x, 1), b.compare_integers("eq", x, -1))
    inverse = b.select(unit, sign, 0)
    return b.select(b.compare_integers("slt", exponent, 0), inverse, integer_power(b, x, exponent))


def _sum_and_carry(b: ArithmeticBuilder, op: arith.AddUIExtendedOp) -> Results:
    """addui_extended(x, y) -> x + y, x + y < x"""
    total = b.integer_add(op.lhs, op.rhs)
    return total, b.compare_integers("ult", total, op.lhs)


# -------------------------------------------------------------------------------------------------------------- floats


def _extremum(b: ArithmeticBuilder, op: arith.MaximumfOp) -> Results:
    """maximumf(x, y) -> x != x ? x : x > y ? x : y; maxnumf(x, y) -> y != y ? x : x > y ? x : y"""
    x, y = op.operands
    greater = b.compare("ogt" if "max" in op.name else "olt", *_extended(b, x, y), flags=op.fastmath)
    chosen = b.select(greater, x, y)
    if arith.FastMathFlag.NO_NANS in op.fastmath.data:
        return chosen
    (doubted,) = _extended(b, x if op.name.endswith("imumf") else y)
    return b.select(b.compare("uno", doubted, doubted), x, chosen)


def _to_integer(b: ArithmeticBuilder, op: arith.FPToSIOp | arith.FPToUIOp) -> Results:
    """fptosi(x) -> x != x ? 0 : x >= beyond ? most : fptosi(x >= beyond ? least : x > least ? x : least)"""
    signed, target = isinstance(op, arith.FPToSIOp), op.result.type
    if element_type_of(target) == _BIT:
        (least, most), whole = ((-1, 0) if signed else (0, 1)), with_element_type(target, IntegerType(32))
    else:
        bits, whole = _width(op.result), target
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    (x,) = _extended(b, op.input)
    above = b.compare("oge", x, float(most + 1))
    bounded = b.select(b.compare("ogt", x, float(least)), x, float(least))
    limited = b.select(above, float(least), bounded)
    result = b.select(above, most, b.insert(type(op).create(operands=[limited], result_types=[whole])))
    if least:
        result = b.select(b.compare("uno", x, x), 0, result)
    return result if whole == target else b.insert(TruncIOp.create(operands=[result], result_types=[target]))


# --------------------------------------------------------------------------------------------------- floats of 16 bits


def _is_half(value: SSAValue) -> bool:
    return isinstance(element_type_of(value.type), _HALVES)


def _extended(b: ArithmeticBuilder, *values: SSAValue) -> list[SSAValue]:
    """The values, those of 16 bits as f32."""
    return [b.extend(x, with_element_type(x.type, _F32)) if _is_half(x) else x for x in values]


def _in_f32(b: ArithmeticBuilder, op: Operation) -> Results:
    """op(x) -> truncf(op(extf(x)))"""
    (result,) = op.results
    wide = with_element_type(result.type, _F32) if _is_half(result) else result.type
    computed = type(op).create(operands=_extended(b, *op.operands), result_types=[wide], properties=op.properties)
    value = b.insert(computed)
    return b.narrow(value, result.type) if _is_half(result) else value


def _sign(b: ArithmeticBuilder, op: arith.NegfOp | math.AbsFOp) -> Results:
    """negf(x) -> x with the other sign bit; absf(x) -> x without it"""
    kind = op.results[0].type
    as_integer = with_element_type(kind, IntegerType(16))
    bits = b.insert(arith.BitcastOp.create(operands=op.operands, result_types=[as_integer]))
    bits = b.exclusive(bits, -0x8000) if isinstance(op, arith.NegfOp) else b.both(bits, 0x7FFF)
    return b.insert(arith.BitcastOp.create(operands=[bits], result_types=[kind]))


def _from_half(b: ArithmeticBuilder, op: arith.ExtFOp) -> Results:
    """extf(x) : f64 -> extf(extf(x) : f32)"""
    if not isinstance(element_type_of(op.result.type), Float64Type):
        return None
    return b.extend(b.extend(op.input, b.f32), op.result.type)


def _to_half(b: ArithmeticBuilder, op: arith.TruncFOp) -> Results:
    """truncf(x : f64) -> truncf(x as f32, rounded to odd)"""
    if not _is_half(op.result) or element_type_of(op.input.type) == _F32:
        return None
    return b.narrow(b.rounded_to_odd(op.input), op.result.type)


def _integer_to_half(b: ArithmeticBuilder, op: arith.SIToFPOp | arith.UIToFPOp) -> Results:
    """sitofp(x) : f16 -> truncf(sitofp(x) : f32), by way of f64 where f32 does not hold all x"""
    x, signed = op.input, isinstance(op, arith.SIToFPOp)
    if not _is_half(op.result):
        return None
    if _width(x) > 53:
        x = _fitting(b, x, signed=signed)
    wide = b.f32 if _width(x) <= 24 else b.f64
    value = b.insert(type(op).create(operands=[x], result_types=[wide]))
    return b.narrow(value if wide is b.f32 else b.rounded_to_odd(value), op.result.type)


def _fitting(b: ArithmeticBuilder, x: SSAValue, *, signed: bool) -> SSAValue:
    """An integer of which f64 loses nothing that decides how a float of 16 bits is rounded: those of 2^53 and more lose
    12 bits; that these were not zero is kept in the last bit that remains."""
    inexact = b.compare_integers("ne", b.both(x, 0xFFF), 0)
    last = b.select(inexact, b.constant(1, x.type), 0)
    rounded = b.shift_left(b.either(b.shift_right(x, 12, signed=signed), last), 12)
    magnitude = b.exclusive(x, b.shift_right(x, 63)) if signed else x
    return b.select(b.compare_integers("ult", magnitude, 1 << 53), x, rounded)


# ------------------------------------------------------------------------------------------------------------- on bits


_XOR, _AND, _OR = ArithmeticBuilder.exclusive, ArithmeticBuilder.both, ArithmeticBuilder.either
_BIT_FUNCTIONS: dict[str, Callable[..., SSAValue]] = {
    "arith.addi": _XOR,
    "arith.subi": _XOR,
    "arith.muli": _AND,
    "arith.divsi": _AND,
    "arith.divui": _AND,
    "arith.floordivsi": _AND,
    "arith.ceildivsi": _AND,
    "arith.ceildivui": _AND,
    "arith.remsi": lambda b, x, _: b.constant(0, x.type),
    "arith.remui": lambda b, x, _: b.constant(0, x.type),
    "arith.maxsi": _AND,
    "arith.minsi": _OR,
    "arith.maxui": _OR,
    "arith.minui": _AND,
    "arith.shli": lambda b, x, n: b.both(x, b.exclusive(n, 1)),
    "arith.shrui": lambda b, x, n: b.both(x, b.exclusive(n, 1)),
    "arith.shrsi": lambda b, x, _: x,
    "math.absi": lambda b, x: x,
    "math.ctpop": lambda b, x: x,
    "math.ctlz": lambda b, x: b.exclusive(x, 1),
    "math.cttz": lambda b, x: b.exclusive(x, 1),
    "math.ipowi": lambda b, x, n: b.either(x, b.exclusive(n, 1)),
}


def _compare_bits(b: ArithmeticBuilder, op: arith.CmpiOp) -> Results:
    """slt(x, y) -> ugt(x, y), as true is -1"""
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    opposite = {"slt": "ugt", "sle": "uge", "sgt": "ult", "sge": "ule"}.get(predicate)
    return None if opposite is None else b.compare_integers(opposite, op.lhs, op.rhs)


def _add_bits(b: ArithmeticBuilder, op: arith.AddUIExtendedOp) -> Results:
    """addui_extended(x, y) -> x xor y, x and y"""
    return b.exclusive(op.lhs, op.rhs), b.both(op.lhs, op.rhs)


def _multiply_bits(b: ArithmeticBuilder, op: arith.MulUIExtendedOp) -> Results:
    """mului_extended(x, y) -> x and y, 0"""
    return b.both(op.lhs, op.rhs), b.constant(0, op.lhs.type)


# -------------------------------------------------------------------------------------------------------------- tables

_ON_BITS: dict[str, Rewrite] = {
    **{name: lambda b, op, function=function: function(b, *op.operands) for name, function in _BIT_FUNCTIONS.items()},
    "arith.cmpi": _compare_bits,
    "arith.addui_extended": _add_bits,
    "arith.mului_extended": _multiply_bits,
    "arith.mulsi_extended": _multiply_bits,
}
_OF_HALVES: dict[str, Rewrite] = {"arith.negf": _sign, "math.absf": _sign, "arith.extf": _from_half}
_REWRITES: dict[str, Rewrite] = {
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.floordivsi": _rounded_quotient,
    "arith.ceildivsi": _rounded_quotient,
    "arith.ceildivui": _rounded_quotient,
    "arith.shli": _shift,
    "arith.shrui": _shift,
    "arith.shrsi": _shift,
    "arith.addui_extended": _sum_and_carry,
    "math.ipowi": _power,
    "arith.maximumf": _extremum,
    "arith.minimumf": _extremum,
    "arith.maxnumf": _extremum,
    "arith.minnumf": _extremum,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.truncf": _to_half,
    "arith.sitofp": _integer_to_half,
    "arith.uitofp": _integer_to_half,
}
IN_F32 = frozenset(
    {f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "remf", "cmpf")}
    | {op.name for op in math.Math.operations}
    | {"vector.fma", "vector.reduction"}
)
"""What is computed in f32 on floats of 16 bits."""
ENDED = frozenset(
    {f"arith.{name}" for name in ("floordivsi", "ceildivsi", "ceildivui", "addui_extended")}
    | {f"arith.{name}" for name in ("maximumf", "minimumf", "maxnumf", "minnumf")}
    | {"math.ipowi"}
)
"""What there is none of afterwards."""
_NAMES = frozenset({*_ON_BITS, *_OF_HALVES, *_REWRITES, *IN_F32})
