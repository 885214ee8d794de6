"""The order of elements: NaN is larger than every number, and zeros of both signs are equal.

Integers that stand in the order of other elements are compared and cut into digits as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from tenon.dialects.definition.scalar import convert, emit_scalar, scalar_constant, to_compute
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.types import bit_width, is_bool, is_float, is_unsigned, numpy_dtype


def goes_before(x: Value, y: Value, descending: bool) -> Value:
    """Whether `x` stands before `y` in sorted order; equal elements do not. NaN is larger than every number."""
    x, y = to_compute(x), to_compute(y)
    larger, smaller = (x, y) if descending else (y, x)
    if not is_float(x.type):
        return smaller < larger
    return (smaller == smaller) & ops.logical_not(larger <= smaller)


def ordered_bits(x: Value, descending: bool) -> Value:
    """An unsigned integer for `x`, in a signless type of its width, that stands in order where `x` does."""
    bits = _bits_of(x)
    kind = bits_type(x.type)
    lowest = 1 << (bit_width(kind) - 1)
    if is_float(x.type):
        # A sign and a magnitude; a zero has no sign, and a NaN is the largest.
        magnitude = emit_scalar(arith.AndIOp, bits, scalar_constant(lowest - 1, kind))
        signed = ops.select(bits < scalar_constant(0, kind), scalar_constant(0, kind) - magnitude, magnitude)
        bits = ops.select(magnitude > _infinity(x.type, kind), scalar_constant(lowest - 1, kind), signed)
    if not is_unsigned(x.type):
        bits = emit_scalar(arith.XOrIOp, bits, scalar_constant(-lowest, kind))
    return emit_scalar(arith.XOrIOp, bits, scalar_constant(-1, kind)) if descending else bits


def invertible_bits(x: Value, descending: bool) -> Value:
    """As `ordered_bits`, but a negative zero stands before a positive one, so that `from_bits` finds all but the sign
    of a NaN again."""
    bits = _bits_of(x)
    kind = bits_type(x.type)
    lowest = 1 << (bit_width(kind) - 1)
    if is_float(x.type):
        magnitude = emit_scalar(arith.AndIOp, bits, scalar_constant(lowest - 1, kind))
        bits = ops.select(magnitude > _infinity(x.type, kind), magnitude, _with_sign_last(bits))
    if not is_unsigned(x.type):
        bits = emit_scalar(arith.XOrIOp, bits, scalar_constant(-lowest, kind))
    return emit_scalar(arith.XOrIOp, bits, scalar_constant(-1, kind)) if descending else bits


def from_bits(bits: Value, element: Attribute, descending: bool) -> Value:
    """The scalar of type `element` whose `invertible_bits` are `bits`."""
    kind = bits.type
    if descending:
        bits = emit_scalar(arith.XOrIOp, bits, scalar_constant(-1, kind))
    if is_bool(element):
        return convert(emit_scalar(arith.XOrIOp, bits, scalar_constant(-(1 << (bit_width(kind) - 1)), kind)), element)
    if not is_unsigned(element):
        bits = emit_scalar(arith.XOrIOp, bits, scalar_constant(-(1 << (bit_width(kind) - 1)), kind))
    if is_float(element):
        bits = _with_sign_last(bits)
    return bits if element == kind else emit_scalar(lambda v: arith.BitcastOp(v, element), bits)


def bits_type(element: Attribute) -> IntegerType:
    """The type of the `ordered_bits` of an element."""
    return IntegerType(bit_width(element))


def _bits_of(x: Value) -> Value:
    kind = bits_type(x.type)
    if is_bool(x.type):
        return convert(x, kind)
    return x if x.type == kind else emit_scalar(lambda v: arith.BitcastOp(v, kind), x)


def _infinity(element: Attribute, kind: IntegerType) -> Value:
    return emit_scalar(lambda v: arith.BitcastOp(v, kind), scalar_constant(inf, element))


def _with_sign_last(bits: Value) -> Value:
    """Negative `bits` with all others inverted: a sign and a magnitude become a two's complement, and back."""
    lowest = 1 << (bit_width(bits.type) - 1)
    sign = emit_scalar(arith.ShRSIOp, bits, scalar_constant(bit_width(bits.type) - 1, bits.type))
    return emit_scalar(arith.XOrIOp, bits, emit_scalar(arith.AndIOp, sign, scalar_constant(lowest - 1, bits.type)))


@dataclass(frozen=True)
class Order:
    """How the bits of an element become an unsigned integer that stands where the element does: of a float, those of
    its `magnitude` with its sign, and all NaN beyond `infinity`; then `inverted` bits are."""

    bits: int
    magnitude: int
    infinity: int
    inverted: int

    @staticmethod
    def of(element: Attribute, descending: bool) -> Order:
        """The order of elements of a type."""
        bits = bit_width(element)
        highest, ones = 1 << (bits - 1), (1 << bits) - 1
        inverted = (0 if is_unsigned(element) or is_bool(element) else highest) ^ (ones if descending else 0)
        if not is_float(element):
            return Order(bits, 0, ones, inverted)
        infinity = int.from_bytes(np.array([inf], numpy_dtype(element)).tobytes(), "little")
        return Order(bits, highest - 1, infinity, inverted)

    def keys(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The integers for `x`."""
        word = np.dtype(f"u{self.bits // 8}")
        keys = np.ascontiguousarray(x).view(word)
        if self.magnitude:
            magnitude = keys & word.type(self.magnitude)
            signed = np.where(keys > self.magnitude, np.negative(magnitude), magnitude)
            keys = np.where(magnitude > self.infinity, word.type(self.magnitude), signed)
        return keys ^ word.type(self.inverted)

    def text(self) -> str:
        """The same in C++, of a variable `key`."""
        suffix = "ull" if self.bits == 64 else "u"
        largest, infinity, inverted = (
            f"{number:#x}{suffix}" for number in (self.magnitude, self.infinity, self.inverted)
        )
        ordered = "key"
        if self.magnitude:
            magnitude = f"(key & {largest})"
            signed = f"key > {largest} ? (Key)(0{suffix} - {magnitude}) : key"
            ordered = f"({magnitude} > {infinity} ? (Key){largest} : {signed})"
        return f"(Key)({ordered} ^ {inverted})"
