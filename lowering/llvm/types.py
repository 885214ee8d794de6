"""LLVM's spelling of types and constants.

f16 and bf16 are storage types: their values are `i16` bit patterns everywhere, and `float16` converts them to
and from `float`. So no instruction of LLVM's `half` or `bfloat` can become a call into a compiler runtime library that
the process lacks. `index` is `i64`; a memref is a `ptr` to its first element. A vector of two dimensions has its rows
side by side.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute


@dataclass(frozen=True, slots=True)
class LlvmType:
    """A first-class LLVM type: a scalar (`lanes` is None), a fixed vector of scalars, or `ptr`.

    `half` is "f16" or "bf16" when the `i16` values are such a float, and "" otherwise.
    """

    element: str
    bits: int
    lanes: int | None = None
    half: str = ""

    @property
    def text(self) -> str:
        return self.element if self.lanes is None else f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The type as it appears in names of overloaded intrinsics: `f32`, `v16i32`."""
        letter = "f" if self.element in ("float", "double") else "i"
        return f"{letter}{self.bits}" if self.lanes is None else f"v{self.lanes}{letter}{self.bits}"

    @property
    def scalar(self) -> LlvmType:
        return LlvmType(self.element, self.bits, None, self.half)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; an i1 takes one."""
        return max(self.bits // 8, 1)

    @property
    def in_memory(self) -> LlvmType:
        """The type loads and stores use: i1 is one byte, 0 or 1."""
        return LlvmType("i8", 8, self.lanes) if self.bits == 1 else self

    def integer(self, bits: int | None = None) -> LlvmType:
        """Integers of `bits` (by default as wide as this type's elements) in as many lanes."""
        bits = self.bits if bits is None else bits
        return LlvmType(f"i{bits}", bits, self.lanes)

    def float(self) -> LlvmType:
        """f32 in as many lanes."""
        return LlvmType("float", 32, self.lanes)

    def constant(self, value: int | float) -> str:
        """The literal whose every lane is `value`."""
        literal = scalar_literal(self, value)
        if self.lanes is None:
            return literal
        return f"splat ({self.element} {literal})"


POINTER = LlvmType("ptr", 64)
I1 = LlvmType("i1", 1)
I64 = LlvmType("i64", 64)


MOST_LANES = 4096
"""How many elements a vector may have, 256 registers of f32. LLVM ends the process over much larger ones."""


class UnsupportedTypeError(ValueError):
    """A type that the CPU target has no values of; the message says which and why."""


# By identity, since many values have one type, and to compare types walks all of them.
_known: dict[int, tuple[Attribute, LlvmType]] = {}
_MOST_KNOWN = 1024


def llvm_type(value_type: Attribute) -> LlvmType:
    """The LLVM type of values of an IR type; raises `UnsupportedTypeError` if the CPU target has none."""
    known = _known.get(id(value_type))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(value_type)] = (value_type, _llvm_type(value_type))
    return known[1]


def _llvm_type(value_type: Attribute) -> LlvmType:
    match value_type:
        case Float32Type():
            return LlvmType("float", 32)
        case Float64Type():
            return LlvmType("double", 64)
        case Float16Type():
            return LlvmType("i16", 16, None, "f16")
        case BFloat16Type():
            return LlvmType("i16", 16, None, "bf16")
        case IndexType():
            return I64
        case IntegerType() if value_type.width.data > 0:
            return LlvmType(f"i{value_type.width.data}", value_type.width.data)
        case MemRefType():
            return POINTER
        case VectorType() if value_type.get_num_dims() <= 2 and not any(value_type.get_scalable_dims()):
            element, lanes = llvm_type(value_type.element_type), prod(value_type.get_shape())
            if lanes > MOST_LANES:
                raise UnsupportedTypeError(f"{value_type} has {lanes} elements, and vectors at most {MOST_LANES}")
            return LlvmType(element.element, element.bits, lanes, element.half)
        case _:
            raise UnsupportedTypeError(
                f"{value_type} has no LLVM type, expected a scalar of a bit or more, a vector of one or two "
                "dimensions, or a memref"
            )


def scalar_literal(element: LlvmType, value: int | float) -> str:
    """One element as LLVM reads it: floats by their exact bits, so that nothing is lost in decimal."""
    match element.element, element.half:
        case "float", _:
            return f"0x{_bits_of_double(_round_to_float(value)):016X}"
        case "double", _:
            return f"0x{_bits_of_double(value):016X}"
        case _, "f16":
            return str(_bits_of_f16(value))
        case _, "bf16":
            return str(_bits_of_bf16(value))
        case "i1", _:
            return "true" if value else "false"
        case _:
            return str(int(value))


def literal(element: LlvmType, value: Attribute) -> str:
    """The literal of a constant attribute whose elements have type `element`."""
    match value:
        case IntegerAttr() | FloatAttr():
            return element.constant(value.value.data)
        case DenseIntOrFPElementsAttr():
            values = cast(Sequence[int | float], value.get_values())
            if len(set(values)) == 1 and (values[0] == values[0]):
                if str(values[0]) in ("0", "0.0") and element.lanes is not None:
                    return "zeroinitializer"
                if str(values[0]) != "-0.0" and not (values[0] == 0 and "-0.0" in map(str, values)):
                    return element.constant(values[0])
            scalar = element.scalar
            return "<" + ", ".join(f"{scalar.element} {scalar_literal(scalar, item)}" for item in values) + ">"
        case _:
            raise ValueError(f"emit_llvm: arith.constant of {type(value).__name__} is not supported")


def byte_string(data: bytes) -> str:
    """The bytes, at least one, as an LLVM `c"..."` literal: all by their numbers, which is what is written fast."""
    return 'c"\\' + data.hex("\\") + '"'


def initial_bytes(value: DenseIntOrFPElementsAttr) -> bytes:
    """The elements as they lie in memory."""
    element = llvm_type(value.get_element_type())
    return bytes(map(bool, cast(Sequence[int], value.get_values()))) if element.bits == 1 else value.data.data


def _bits_of_double(value: int | float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _round_to_float(value: int | float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _bits_of_f16(value: int | float) -> int:
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def _bits_of_bf16(value: int | float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", _round_to_float(value)))
    if value != value:
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
