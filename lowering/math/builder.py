"""`ArithmeticBuilder`: writes formulas on values of one shape as `arith` and `math` operations.

A formula is written once and works on scalars and vectors: `f32`, `f64`, `i32` and `i64` below stand for the scalar
type or for vectors of the shape of the operation that is expanded. Constants go to the start of the function, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tenon.dialects.upstream.intrinsics import SCALE, CallIntrinsicOp
from tenon.dialects.upstream.vector_arith import (
    CmpfOp,
    CmpiOp,
    SelectOp,
    SIToFPOp,
    element_type_of,
    with_element_type,
)
from tenon.passes.machine import VECTOR_BITS

_NONE = arith.FastMathFlagsAttr("none")
_NO_FLAGS = {"fastmath": _NONE}
_NO_OVERFLOW = {"overflowFlags": arith.IntegerOverflowAttr("none")}
Operand = SSAValue | float | int


class Constants:
    """The constants of one function, made on demand at its start."""

    def __init__(self, entry: Block) -> None:
        self._entry = entry
        self._made: dict[tuple[str, str, int], SSAValue] = {}

    def get(self, value: float | int, value_type: Attribute) -> SSAValue:
        """A constant of a scalar or vector type."""
        key = (type(value).__name__, repr(value), id(value_type))
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(value, value_type)
        return made

    def _make(self, value: float | int, value_type: Attribute) -> SSAValue:
        if isinstance(value_type, VectorType) and not isinstance(element_type_of(value_type), IntegerType):
            # xDSL 0.74 prints some floats as dense<0x7F800000>, and reads that as the number 2139095040
            scalar = arith.ConstantOp.create(
                result_types=[value_type.element_type],
                properties={"value": constant_attribute(value, value_type.element_type)},
            )
            op = vector.BroadcastOp.create(operands=scalar.results, result_types=[value_type])
            self._insert(op)
            self._insert(scalar)
        else:
            properties = {"value": constant_attribute(value, value_type)}
            self._insert(op := arith.ConstantOp.create(result_types=[value_type], properties=properties))
        return op.results[0]

    def _insert(self, op: Operation) -> None:
        first = self._entry.first_op
        if first is None:
            self._entry.add_op(op)
        else:
            self._entry.insert_op_before(op, first)


def constant_attribute(value: float | int, value_type: Attribute) -> Attribute:
    """The attribute of an `arith.constant` whose every element is `value`."""
    element = element_type_of(value_type)
    if isinstance(value_type, VectorType):
        return DenseIntOrFPElementsAttr.from_list(value_type, [value])
    if isinstance(element, IntegerType | IndexType):
        return IntegerAttr(int(value), element)
    return FloatAttr(value, cast(AnyFloat, element))


@cache
def family_of_types(value_type: Attribute) -> tuple[Attribute, Attribute, Attribute, Attribute, Attribute]:
    """f32, f64, i32, i64 and i1 in the shape of a type; one object per type, so that identity can be a key."""
    f32_type, f64_type, i32_type, i64_type, i1_type = (
        with_element_type(value_type, element) for element in (f32, f64, i32, i64, i1)
    )
    return f32_type, f64_type, i32_type, i64_type, i1_type


@cache
def _register_of(element: Attribute, lanes: int) -> VectorType[Attribute]:
    return VectorType(element, (lanes,))


@cache
def _mask_type(bits: int) -> IntegerType:
    return IntegerType(bits)


class ArithmeticBuilder:
    """Inserts operations before `anchor`, with its location; with `scaling`, the one that scales among them."""

    def __init__(
        self, anchor: Operation, constants: Constants, shape_like: Attribute, *, scaling: bool = False
    ) -> None:
        block = anchor.parent
        assert block is not None
        self.block = block
        self.anchor = anchor
        self.location = anchor.location
        self.constants = constants
        self.scaling = scaling
        self.f32, self.f64, self.i32, self.i64, self.i1 = family_of_types(shape_like)

    def insert(self, op: Operation) -> SSAValue:
        """Put an operation before the anchor and return its first result."""
        op.location = self.location
        self.block.insert_op_before(op, self.anchor)
        return op.results[0]

    def constant(self, value: float | int, value_type: Attribute) -> SSAValue:
        """A constant in every element."""
        return self.constants.get(value, value_type)

    def _pair(self, lhs: Operand, rhs: Operand) -> tuple[SSAValue, SSAValue]:
        value_type = lhs.type if isinstance(lhs, SSAValue) else rhs.type  # pyright: ignore[reportAttributeAccessIssue]
        return self._value(lhs, value_type), self._value(rhs, value_type)

    def _value(self, operand: Operand, value_type: Attribute) -> SSAValue:
        return operand if isinstance(operand, SSAValue) else self.constant(operand, value_type)

    def _float(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        return self.insert(op.create(operands=operands, result_types=[operands[0].type], properties=_NO_FLAGS))

    def _integer(self, op: type[Operation], lhs: Operand, rhs: int | SSAValue) -> SSAValue:
        operands = self._pair(lhs, rhs)
        properties = _NO_OVERFLOW if issubclass(op, arith.SignlessIntegerBinaryOperationWithOverflow) else {}
        return self.insert(op.create(operands=operands, result_types=[operands[0].type], properties=properties))

    def add(self, lhs: Operand, rhs: Operand) -> SSAValue:
        """lhs + rhs, floats"""
        return self._float(arith.AddfOp, *self._pair(lhs, rhs))

    def sub(self, lhs: Operand, rhs: Operand) -> SSAValue:
        """lhs - rhs, floats"""
        return self._float(arith.SubfOp, *self._pair(lhs, rhs))

    def mul(self, lhs: Operand, rhs: Operand) -> SSAValue:
        """lhs * rhs, floats"""
        return self._float(arith.MulfOp, *self._pair(lhs, rhs))

    def div(self, lhs: Operand, rhs: Operand) -> SSAValue:
        """lhs / rhs, floats"""
        return self._float(arith.DivfOp, *self._pair(lhs, rhs))

    def fma(self, a: Operand, b: Operand, c: Operand) -> SSAValue:
        """a * b + c, rounded once"""
        value_type = next(operand.type for operand in (a, b, c) if isinstance(operand, SSAValue))
        return self._float(math.FmaOp, *(self._value(operand, value_type) for operand in (a, b, c)))

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Horner's rule, highest power first"""
        value = self.constant(coefficients[0], x.type)
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, coefficient)
        return value

    def polynomial_in_pairs(self, x: SSAValue, squared: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Horner's rule in x^2 over pairs of terms, at least three: half as many steps wait for each other"""
        alone = len(coefficients) % 2
        pairs = zip(coefficients[alone::2], coefficients[alone + 1 :: 2], strict=True)
        value, *rest = [*coefficients[:alone], *(self.fma(x, first, second) for first, second in pairs)]
        for pair in rest:
            value = self.fma(value, squared, pair)
        assert isinstance(value, SSAValue)
        return value

    def scale(self, x: SSAValue, exponent: SSAValue) -> SSAValue:
        """x * 2^exponent, both f32 or both f64, rounded once (scaleB of IEEE 754).

        The exponent is a whole number from -190 to 128 in f32 and from -1150 to 1024 in f64, and x is between 2^-32 and
        2^32 in magnitude, or NaN. 0 times any power but infinity is 0. All else gives some number.
        """
        width = element_width(x)
        if self._scales(x):
            return self._scaled_at_once(x, exponent)
        fraction, bias, extra = (23, 127, 64) if width == 32 else (52, 1023, 128)
        negative = self.compare("olt", exponent, 0.0)
        # the low bits of the sum are the exponent
        shifted = self.shift_left(self.bits(self.add(exponent, 1.5 * 2.0**fraction)), fraction)
        # by a normal number, then by what is left of the power, so that a subnormal result is rounded once
        large = self.constant((bias + extra) << fraction, shifted.type)
        rest = self.select(negative, self.constant(2.0**-extra, x.type), 2.0)
        factor = self.integer_add(shifted, self.select(negative, large, (bias - 1) << fraction))
        return self.mul(self.mul(x, self.from_bits(factor)), rest)

    def _scaled_at_once(self, x: SSAValue, exponent: SSAValue) -> SSAValue:
        """The same by one instruction"""
        width, letter = element_width(x), "s" if element_width(x) == 32 else "d"
        if isinstance(x.type, VectorType):
            lanes, kind = x.type.element_count(), f"p{letter}.{x.type.element_count() * width}"
            return self._call_scaling(kind, x, exponent, lanes)
        lane = {"static_position": DenseArrayBase.from_list(i64, [0])}
        vector_type = _register_of(x.type, 128 // width)
        zeros = self.constant(0.0, vector_type)
        first, second = (
            self.insert(vector.InsertOp.create(operands=[y, zeros], result_types=[vector_type], properties=lane))
            for y in (x, exponent)
        )
        scaled = self._call_scaling(f"s{letter}", first, second, 1)
        return self.insert(vector.ExtractOp.create(operands=[scaled], result_types=[x.type], properties=lane))

    def _call_scaling(self, kind: str, x: SSAValue, exponent: SSAValue, lanes: int) -> SSAValue:
        arguments = [x, exponent, x, self.constant(-1, _mask_type(max(lanes, 8)))]
        if kind.endswith(("512", "ss", "sd")):
            arguments.append(self.constant(4, i32))  # rounding as it is set
        return self.insert(CallIntrinsicOp.of(SCALE + kind, arguments, x.type))

    def _scales(self, x: SSAValue) -> bool:
        """Whether one instruction scales x"""
        bits = VECTOR_BITS if isinstance(x.type, VectorType) else (element_width(x),)
        count = x.type.element_count() if isinstance(x.type, VectorType) else 1
        return self.scaling and count * element_width(x) in bits

    def square_root(self, x: SSAValue) -> SSAValue:
        """The square root of x"""
        return self._float(math.SqrtOp, x)

    def negate(self, x: SSAValue) -> SSAValue:
        """-x"""
        return self._float(arith.NegfOp, x)

    def absolute(self, x: SSAValue) -> SSAValue:
        """|x|"""
        return self._float(math.AbsFOp, x)

    def copy_sign(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        """|magnitude| with the sign of `sign`"""
        return self._float(math.CopySignOp, magnitude, sign)

    def truncate(self, x: SSAValue) -> SSAValue:
        """x without its fraction"""
        return self._float(math.TruncOp, x)

    def compare(
        self, predicate: str, lhs: Operand, rhs: Operand, *, flags: arith.FastMathFlagsAttr = _NONE
    ) -> SSAValue:
        """A comparison of floats"""
        properties = {
            "predicate": IntegerAttr(arith.CMPF_COMPARISON_OPERATIONS.index(predicate), 64),
            "fastmath": flags,
        }
        return self.insert(CmpfOp.create(operands=self._pair(lhs, rhs), result_types=[self.i1], properties=properties))

    def compare_integers(self, predicate: str, lhs: Operand, rhs: Operand) -> SSAValue:
        """A comparison of integers"""
        properties = {"predicate": IntegerAttr(arith.CMPI_COMPARISON_OPERATIONS.index(predicate), 64)}
        return self.insert(CmpiOp.create(operands=self._pair(lhs, rhs), result_types=[self.i1], properties=properties))

    def select(self, condition: SSAValue, then: Operand, otherwise: Operand) -> SSAValue:
        """`then` where the condition holds"""
        lhs, rhs = self._pair(then, otherwise)
        return self.insert(SelectOp.create(operands=[condition, lhs, rhs], result_types=[lhs.type]))

    def both(self, lhs: SSAValue, rhs: int | SSAValue) -> SSAValue:
        """lhs and rhs"""
        return self._integer(arith.AndIOp, lhs, rhs)

    def either(self, lhs: SSAValue, rhs: int | SSAValue) -> SSAValue:
        """lhs or rhs"""
        return self._integer(arith.OrIOp, lhs, rhs)

    def exclusive(self, lhs: SSAValue, rhs: int | SSAValue) -> SSAValue:
        """lhs xor rhs"""
        return self._integer(arith.XOrIOp, lhs, rhs)

    def integer_add(self, lhs: Operand, rhs: int | SSAValue) -> SSAValue:
        """lhs + rhs, wrapping"""
        return self._integer(arith.AddiOp, lhs, rhs)

    def integer_sub(self, lhs: Operand, rhs: int | SSAValue) -> SSAValue:
        """lhs - rhs, wrapping"""
        return self._integer(arith.SubiOp, lhs, rhs)

    def integer_mul(self, lhs: Operand, rhs: int | SSAValue) -> SSAValue:
        """lhs * rhs, wrapping"""
        return self._integer(arith.MuliOp, lhs, rhs)

    def shift_left(self, value: SSAValue, places: int) -> SSAValue:
        """value << places"""
        return self._integer(arith.ShLIOp, value, places)

    def shift_right(self, value: SSAValue, places: int, *, signed: bool = True) -> SSAValue:
        """value >> places, keeping the sign or filling with zeros"""
        return self._integer(arith.ShRSIOp if signed else arith.ShRUIOp, value, places)

    def bits(self, x: SSAValue) -> SSAValue:
        """The bits of a float as an integer of its width"""
        wide = element_width(x) == 64
        return self.insert(arith.BitcastOp.create(operands=[x], result_types=[self.i64 if wide else self.i32]))

    def from_bits(self, value: SSAValue) -> SSAValue:
        """The float that has these bits"""
        wide = element_width(value) == 64
        return self.insert(arith.BitcastOp.create(operands=[value], result_types=[self.f64 if wide else self.f32]))

    def to_float(self, value: SSAValue, float_type: Attribute) -> SSAValue:
        """A signed integer as a float"""
        return self.insert(SIToFPOp.create(operands=[value], result_types=[float_type]))

    def extend(self, x: SSAValue, float_type: Attribute) -> SSAValue:
        """A float in a wider type"""
        return self.insert(arith.ExtFOp.create(operands=[x], result_types=[float_type]))

    def narrow(self, x: SSAValue, float_type: Attribute) -> SSAValue:
        """A float rounded to a narrower type"""
        return self.insert(arith.TruncFOp.create(operands=[x], result_types=[float_type]))

    def rounded_to_odd(self, x: SSAValue) -> SSAValue:
        """The f32 next to an f64 towards zero, its last bit set when that is not x (Boldo and Melquiond, 2008): what is
        rounded next to fewer bits is what rounding x once gives"""
        near = self.narrow(x, self.f32)
        reached, wanted = self.absolute(self.extend(near, self.f64)), self.absolute(x)
        bits = self.bits(near)
        toward_zero = self.select(self.compare("ogt", reached, wanted), self.integer_sub(bits, 1), bits)
        odd = self.either(toward_zero, 1)
        return self.from_bits(self.select(self.compare("one", reached, wanted), odd, toward_zero))

    def unless(self, rare: SSAValue, value: SSAValue, otherwise: Callable[[ArithmeticBuilder], SSAValue]) -> SSAValue:
        """`value`, and in the elements that are rare another one, which is computed only where there are such"""
        is_any = rare
        if isinstance(rare.type, VectorType):
            properties = {"kind": vector.CombiningKindAttr(vector.CombiningKindFlag.OR), **_NO_FLAGS}
            is_any = self.insert(vector.ReductionOp.create(operands=[rare], result_types=[i1], properties=properties))
        then = Block()
        then.add_op(anchor := scf.YieldOp.create())
        inner = ArithmeticBuilder(anchor, self.constants, rare.type, scaling=self.scaling)
        inner.location = self.location
        anchor.operands = [inner.select(rare, otherwise(inner), value)]
        regions = [Region(then), Region(Block([scf.YieldOp.create(operands=[value])]))]
        return self.insert(scf.IfOp.create(operands=[is_any], result_types=[value.type], regions=regions))

    def at_most(self, x: SSAValue, limit: float) -> SSAValue:
        """min(x, limit); NaN stays NaN"""
        return self.select(self.compare("ogt", x, limit), limit, x)

    def vanishing(self, x: SSAValue, limit: float) -> tuple[SSAValue, SSAValue]:
        """Whether x < `limit`, where 0 is to be scaled by 2^n, and x as small as n may be then: what becomes 0 only by
        being scaled takes some processors a hundred times as long"""
        is_zero = self.compare("olt", x, limit)
        return is_zero, x if self._scales(x) else self.select(is_zero, limit, x)

    def at_least(self, x: SSAValue, limit: float) -> SSAValue:
        """max(x, limit); NaN stays NaN"""
        return self.select(self.compare("olt", x, limit), limit, x)


def element_width(value: SSAValue) -> int:
    """The bits of a number, or of an element of a vector."""
    element = element_type_of(value.type)
    assert isinstance(element, FixedBitwidthType | IndexType)
    return 64 if isinstance(element, IndexType) else element.bitwidth
