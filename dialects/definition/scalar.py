"""Scalar ops inside bodies: what a primitive op of the tensor dialect is in `arith` and `math`.

`arith` says by its ops which integers are signed (`divsi`, `divui`) and is defined on signless types. While bodies are
built, their values carry the signedness of the tensors (`ui8`), by which the ops are chosen; `signedness` erases it
once they are complete.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from tenon.dialects.definition.value import Value, emit, ops
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import current_sizes
from tenon.dialects.types.types import (
    compute_type,
    f32,
    f64,
    i1,
    i8,
    is_bool,
    is_float,
    is_narrow,
    is_narrow_float,
    is_unsigned,
    numpy_dtype,
    ui8,
    ui64,
)

OpBuilder = Callable[..., Operation]

index = IndexType()

_FLOAT_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@dataclass(frozen=True)
class ScalarForms:
    """The scalar op of a primitive for each kind of element; `None` where it has none.

    What it is on unsigned integers is stated where it differs from what it is on signed ones.
    """

    on_floats: OpBuilder | None = None
    on_integers: OpBuilder | None = None
    on_bools: OpBuilder | None = None
    on_unsigned: OpBuilder | None = None

    def builder(self, element: Attribute) -> OpBuilder | None:
        """What builds the op on scalars of type `element`."""
        if is_float(element):
            return self.on_floats
        if is_bool(element):
            return self.on_bools
        return (is_unsigned(element) and self.on_unsigned) or self.on_integers

    def build(self, *operands: Value) -> Value | None:
        """The primitive on scalars of one type, or `None` where that type has no form."""
        builder = self.builder(operands[0].type)
        return None if builder is None else emit_scalar(builder, *operands)


def emit_scalar(builder: OpBuilder, *operands: Value) -> Value:
    """Build a scalar op of one result on `operands` at the insertion point."""
    return Value(emit(builder(*[operand.ssa for operand in operands])).results[0])


def scalar_constant(number: float, element: Attribute) -> Value:
    """An `arith.constant` of a scalar type. Unsigned integers wrap: -1 has every bit set."""
    if is_float(element) or is_narrow_float(element):
        # As a cast has it: what a format of a few bits lacks, xDSL replaces by what is next to it.
        known = float(numpy_dtype(element).type(number)) if is_narrow_float(element) else float(number)
        attr = FloatAttr(known, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
    elif is_bool(element):
        attr = IntegerAttr(int(bool(number)), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
    elif is_unsigned(element):
        assert isinstance(element, IntegerType)
        attr = IntegerAttr(int(number) % (1 << element.width.data), element)
    else:
        attr = IntegerAttr(int(number), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return Value(emit(arith.ConstantOp.create(result_types=[element], properties={"value": attr})).results[0])


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c, rounded once."""
    b, c = (value if isinstance(value, Value) else scalar_constant(value, a.type) for value in (b, c))
    return emit_scalar(math.FmaOp, a, b, c)


def exact_product(x: Value, y: Value) -> tuple[Value, Value]:
    """x y, and what it lost."""
    product = x * y
    return product, fma(x, y, -product)


def polynomial(x: Value, terms: Sequence[float]) -> Value:
    """Horner's rule, highest power first; at least two terms."""
    value: Value | float = terms[0]
    for term in terms[1:]:
        value = fma(x, value, term)
    assert isinstance(value, Value)
    return value


def convert(value: Value, target: Attribute) -> Value:
    """`value` converted to the scalar type `target`.

    Floats become integers by truncation, saturating at the ends of the range (NaN becomes 0); integers wrap, but for
    those too large for an index, which become the largest; anything becomes a truth value by comparison with zero.
    Floats become narrower ones by rounding once to the nearest, ties to even.
    """
    source = value.type
    if source == target:
        return value
    if value.is_tensor:  # where the body of an elementwise op is traced for its gradient
        return ops.cast(value, dtype=target)
    if is_narrow(source):
        return convert(_widened(value), target)
    if is_narrow(target):
        return _narrowed(value, target)
    if is_float(source):
        return _from_float(value, target)
    if is_bool(source):
        if is_float(target):
            return _cast(arith.UIToFPOp, value, target)
        return _cast(arith.IndexCastOp if isinstance(target, IndexType) else arith.ExtUIOp, value, target)
    if is_bool(target):
        return emit_scalar(lambda x, y: arith.CmpiOp(x, y, "ne"), value, scalar_constant(0, source))
    if isinstance(source, IndexType):
        if is_float(target):
            return convert(_cast(arith.IndexCastOp, value, IntegerType(64)), target)
        return _cast(arith.IndexCastOp, value, target)
    if isinstance(target, IndexType):
        return _index_of(value)
    if is_float(target):
        return _cast(arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp, value, target)
    assert isinstance(source, IntegerType)
    assert isinstance(target, IntegerType)
    if target.width == source.width:
        return _cast(arith.BitcastOp, value, target)
    extended = arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp
    return _cast(extended if target.width.data > source.width.data else arith.TruncIOp, value, target)


def _widened(value: Value) -> Value:
    """A value of a narrow type in a type that ops compute with, which holds it exactly."""
    if is_narrow_float(value.type):
        return _cast(arith.ExtFOp, value, f32)
    return _cast(arith.ExtUIOp, value, ui8) if is_unsigned(value.type) else _cast(arith.ExtSIOp, value, i8)


def _narrowed(value: Value, target: Attribute) -> Value:
    """A value of a type that ops compute with in a narrow one."""
    source = value.type
    if is_narrow_float(target):
        return _cast(arith.TruncFOp, value if source == f64 else convert(value, f32), target)
    if is_float(source):
        return _cast(arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp, to_compute(value), target)
    if is_bool(source):
        return _cast(arith.ExtUIOp, value, target)
    if isinstance(source, IndexType):
        value = _cast(arith.IndexCastOp, value, IntegerType(64))
    return _cast(arith.TruncIOp, value, target)


def _index_of(value: Value) -> Value:
    if not is_unsigned(value.type):
        return _cast(arith.IndexCastOp, value, IndexType())
    if value.type == ui64:
        value = emit_scalar(arith.MinUIOp, value, scalar_constant((1 << 63) - 1, ui64))
    else:
        value = _cast(arith.ExtUIOp, value, IntegerType(64))
    return _cast(arith.IndexCastOp, value, IndexType())


def _from_float(value: Value, target: Attribute) -> Value:
    source = value.type
    if is_float(target):
        widths = _FLOAT_WIDTH[str(source)], _FLOAT_WIDTH[str(target)]
        if widths[0] == widths[1]:  # f16 and bf16 meet in f32
            return convert(convert(value, f32), target)
        return _cast(arith.ExtFOp if widths[1] > widths[0] else arith.TruncFOp, value, target)
    if target == i1:
        wide = to_compute(value)
        return emit_scalar(lambda x, y: arith.CmpfOp(x, y, "une"), wide, scalar_constant(0.0, wide.type))
    if isinstance(target, IndexType):
        return convert(_from_float(value, IntegerType(64)), target)
    return _cast(arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp, value, target)


def _cast(builder: OpBuilder, value: Value, target: Attribute) -> Value:
    return Value(emit(builder(value.ssa, target)).results[0])


def to_compute(value: Value) -> Value:
    """`value` in the type that bodies compute in: f16 and bf16 become f32."""
    return convert(value, compute_type(value.type))


def is_widened(value: Value) -> bool:
    """Whether a scalar was f16 or bf16 before `to_compute`. What is made of it is rounded to that again, so that an
    error of 2^-17 hardly shows."""
    return isinstance(value.ssa.owner, arith.ExtFOp)


def index_constant(number: int) -> Value:
    """A constant of type `index`, or the value of a size that is known at launch."""
    if isinstance(number, Size):
        return Value(current_sizes().value(number))
    return Value(emit(arith.ConstantOp(IntegerAttr(number, index))).result)


def as_index(value: Value | int) -> Value:
    """`value` as a scalar of type `index`; tensors, which have no such elements, as one of i64."""
    if isinstance(value, int | Size):
        return index_constant(value)
    if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
        if not hasattr(value, "__index__"):
            raise TypeError(f"an index is a {type(value).__name__} where a value or an integer is needed")
        return index_constant(operator.index(value))
    if is_float(value.element_type):
        raise TypeError(f"an index is a number of dtype {value.element_type} where an integer is needed; cast it")
    if value.is_tensor:
        most = (1 << 63) - 1
        return ops.cast(ops.minimum(value, most) if value.element_type == ui64 else value, dtype=IntegerType(64))
    return convert(value, index)
