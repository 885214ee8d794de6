"""Element types, tensor types and the constraints that op definitions state on them.

An element type has one name everywhere (`f32`, `ui8`): in IR text, in errors and as a setting. `bf16` and the narrow
types are those of ml_dtypes in NumPy. In tensor IR `i2` to `i64` are signed and `ui2` to `ui64` are not; `signedness`
says what they become.

Narrow types, of 8 bits and less, are stored, moved and converted, and nothing is computed in them. An element takes a
byte; one of 4 or 2 bits is in its low bits, and the others are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BFloat16Type,
    FixedBitwidthType,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    UnrankedTensorType,
    bf16,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, VerificationContext
from xdsl.utils.exceptions import VerifyException

NarrowFloatType = (
    Float8E4M3FNType | Float8E4M3FNUZType | Float8E5M2Type | Float8E5M2FNUZType | Float8E8M0FNUType | Float4E2M1FNType
)
ElementType = BFloat16Type | Float16Type | Float32Type | Float64Type | IntegerType | NarrowFloatType
AnyTensor = TensorType[Attribute] | UnrankedTensorType[Attribute]

RESOURCE = "tenon.resource"
"""The attribute of an argument of a function that is an array of the module's own, such as a weight."""

ui8, ui16, ui32, ui64 = (IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64))

FLOATS: tuple[ElementType, ...] = (f16, bf16, f32, f64)
SIGNED: tuple[ElementType, ...] = (i8, i16, i32, i64)
UNSIGNED: tuple[ElementType, ...] = (ui8, ui16, ui32, ui64)
INTEGERS: tuple[ElementType, ...] = (*SIGNED, *UNSIGNED)
BOOLS: tuple[ElementType, ...] = (i1,)
i4, i2 = IntegerType(4), IntegerType(2)
ui4, ui2 = (IntegerType(width, Signedness.UNSIGNED) for width in (4, 2))
f4E2M1FN = Float4E2M1FNType()
NARROW_FLOATS: tuple[ElementType, ...] = (f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN)
NARROW_INTEGERS: tuple[ElementType, ...] = (i4, ui4, i2, ui2)
NARROW: tuple[ElementType, ...] = (*NARROW_FLOATS, *NARROW_INTEGERS)

_NUMPY: dict[Attribute, np.dtype[Any]] = {
    f16: np.dtype(np.float16),
    bf16: np.dtype(ml_dtypes.bfloat16),
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
    i1: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    ui8: np.dtype(np.uint8),
    ui16: np.dtype(np.uint16),
    ui32: np.dtype(np.uint32),
    ui64: np.dtype(np.uint64),
    f8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    f8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    f8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    f8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    f8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    f4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
    i4: np.dtype(ml_dtypes.int4),
    ui4: np.dtype(ml_dtypes.uint4),
    i2: np.dtype(ml_dtypes.int2),
    ui2: np.dtype(ml_dtypes.uint2),
}
_BY_NAME: dict[str, ElementType] = {str(t): t for t in (*FLOATS, *INTEGERS, *BOOLS, *NARROW)}
# NumPy takes "u8" for an integer of eight bytes, and of ml_dtypes' names those alone that it happens to have met.
_BY_SHORT_NAME: dict[str, ElementType] = {
    "u8": ui8,
    "u16": ui16,
    "u32": ui32,
    "u64": ui64,
    "u4": ui4,
    "u2": ui2,
    **{_NUMPY[t].name: t for t in (bf16, *NARROW)},
}
_BY_NUMPY: dict[np.dtype[Any], ElementType] = {dtype: _BY_NAME[str(t)] for t, dtype in _NUMPY.items()}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype that stores `element`; raises `TypeError` for one that Tenon does not store."""
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    found = _NUMPY.get(element)
    if found is None:
        raise TypeError(f"dtype {element} is not one of {', '.join(_BY_NAME)}")
    return found


def element_type(dtype: object) -> ElementType:
    """The element type named by `dtype`: an IR type, its name (`"f32"`, `"ui8"` or `"u8"`), or anything NumPy takes.

    Raises `TypeError` for a dtype that Tenon does not store.
    """
    if isinstance(dtype, ElementType):
        return dtype
    if isinstance(dtype, str) and (named := _BY_NAME.get(dtype) or _BY_SHORT_NAME.get(dtype)) is not None:
        return named
    try:
        found = _BY_NUMPY.get(np.dtype(dtype))  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:
        found = None
    if found is None:
        raise TypeError(f"dtype {dtype} is not one of {', '.join(_BY_NAME)}")
    return found


def is_float(element: Attribute) -> bool:
    """Whether `element` is a float type that ops compute with."""
    return isinstance(element, BFloat16Type | Float16Type | Float32Type | Float64Type)


def is_bool(element: Attribute) -> bool:
    return element == i1


def is_integer(element: Attribute) -> bool:
    """Whether `element` is an integer type that ops compute with, or `index`."""
    return isinstance(element, IndexType) or (isinstance(element, IntegerType) and element.width.data >= 8)


def is_narrow(element: Attribute) -> bool:
    """Whether `element` is a type that is stored and converted, but not computed with."""
    return is_narrow_float(element) or (isinstance(element, IntegerType) and element.width.data in (2, 4))


def is_narrow_float(element: Attribute) -> bool:
    """Whether `element` is a float type of 8 bits or less."""
    return isinstance(element, NarrowFloatType)


def is_unsigned(element: Attribute) -> bool:
    """Whether `element` is one of `ui2` to `ui64`."""
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def signless(element: IntegerType) -> IntegerType:
    """The signless type of the same width."""
    return IntegerType(element.width.data)


def compute_type(element: Attribute) -> Attribute:
    """The type in which a body computes: f16 and bf16 are stored as such and computed in f32."""
    return f32 if isinstance(element, BFloat16Type | Float16Type) else element


def promote(elements: Iterable[Attribute]) -> Attribute:
    """The type in which operands of `elements` meet, whatever their order, as in JAX:

    - truth values meet any other type in that type;
    - floats meet in the widest, f16 with bf16 in f32; an integer never widens a float (f16 with i64 is f16);
    - integers of one signedness meet in the widest;
    - signed and unsigned ones meet in the narrowest signed type that holds both (i8 with ui8 is i16, i64 with ui32 is
      i64), and in f32 where there is none (any signed type with ui64);
    - a narrow type meets itself alone: anything else raises `TypeError`.

    `index`, which only bodies have, is above every stored integer.
    """
    present = set(elements)
    assert present
    if len(present) > 1 and (narrow := next(filter(is_narrow, present), None)) is not None:
        other = min(str(element) for element in present - {narrow})
        raise TypeError(f"dtypes {narrow} and {other} do not meet; cast one of them (tenon.cast)")
    if len(present) == 1:
        return present.pop()
    if floats := [element for element in present if is_float(element)]:
        widest = max(map(bit_width, floats))
        found = [element for element in floats if bit_width(element) == widest]
        return found[0] if len(found) == 1 else f32
    if any(isinstance(element, IndexType) for element in present):
        return IndexType()
    integers = [element for element in present if is_integer(element)]
    if not integers:
        return i1
    unsigned = max((bit_width(element) for element in integers if is_unsigned(element)), default=0)
    signed = max((bit_width(element) for element in integers if not is_unsigned(element)), default=0)
    if not signed:
        return IntegerType(unsigned, Signedness.UNSIGNED)
    width = max(signed, 2 * unsigned)
    return IntegerType(width) if width <= 64 else f32


def bit_width(element: Attribute) -> int:
    """The bits of an element in memory."""
    return numpy_dtype(element).itemsize * 8


def significant_bits(element: Attribute) -> int:
    """The bits of an element that hold its value: fewer than those in memory for types of 4 and 2 bits."""
    return element.bitwidth if isinstance(element, FixedBitwidthType) and is_narrow(element) else bit_width(element)


def dimensions(shape: Iterable[int]) -> ArrayAttr[IntAttr]:
    """A shape as types hold it; its sizes may be such that are known at launch."""
    return ArrayAttr([IntAttr(size) for size in shape])


@cache
def tensor_type(shape: tuple[int, ...] | None, element: Attribute) -> AnyTensor:
    """`tensor<shape x element>`; -1 is an unknown dimension, `None` an unknown rank."""
    if shape is None:
        return UnrankedTensorType(element)
    return TensorType(element, dimensions([DYNAMIC_INDEX if dim < 0 else dim for dim in shape]))


def shape_of(type_: Attribute) -> tuple[int, ...] | None:
    """The shape of a tensor type with -1 for `?`, `None` where the rank is unknown."""
    if isinstance(type_, TensorType):
        shape = type_.get_shape()
        if DYNAMIC_INDEX not in shape:
            return shape
        return tuple([-1 if dim == DYNAMIC_INDEX and type(dim) is int else dim for dim in shape])
    return None


def element_of(type_: Attribute) -> Attribute:
    """The element type of a tensor type."""
    assert isinstance(type_, TensorType | UnrankedTensorType), type_
    return type_.element_type


def is_known(type_: Attribute) -> bool:
    """Whether the rank and every dimension are known, as numbers or as sizes with names."""
    shape = shape_of(type_)
    return shape is not None and all(dim >= 0 for dim in shape)


def is_static(type_: Attribute) -> bool:
    """Whether the rank and every dimension are known as numbers."""
    shape = shape_of(type_)
    return shape is not None and all(type(dim) is int and dim >= 0 for dim in shape)


def array_type(array: np.ndarray[Any, Any]) -> AnyTensor:
    """The tensor type of a NumPy array."""
    return tensor_type(array.shape, element_type(array.dtype))


@dataclass(frozen=True)
class TensorConstraint(AttrConstraint):
    """A tensor whose element type is one of `elements`; any shape, any rank."""

    elements: tuple[ElementType, ...]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, TensorType | UnrankedTensorType):
            raise VerifyException(f"{attr} is not a tensor")
        if attr.element_type not in self.elements:
            raise VerifyException(f"dtype is {attr.element_type} where {self.needed(attr.element_type)}")
        if isinstance(attr, TensorType) and not isinstance(attr.encoding, NoneAttr):
            raise VerifyException(f"{attr} has an encoding, which tenon has no meaning for")

    def mapping_type_vars(self, type_var_mapping: Any) -> TensorConstraint:
        return self

    def names(self) -> str:
        """The element types, as an error lists them."""
        return ", ".join(str(element) for element in self.elements)

    def needed(self, element: Attribute) -> str:
        """What an error says of `element`, which is none of them."""
        hint = f"; {element} is a storage type: cast first (tenon.cast)" if is_narrow(element) else ""
        return f"one of {self.names()} is needed{hint}"


def _constraint(*groups: Sequence[ElementType]) -> TensorConstraint:
    return TensorConstraint(tuple(element for group in groups for element in group))


FLOAT_TENSOR = _constraint(FLOATS)
INTEGER_TENSOR = _constraint(INTEGERS)
BOOL_TENSOR = _constraint(BOOLS)
NUMERIC_TENSOR = _constraint(FLOATS, INTEGERS)
INTEGRAL_TENSOR = _constraint(INTEGERS, BOOLS)
ANY_TENSOR = _constraint(FLOATS, INTEGERS, BOOLS)
"""Any dtype that ops compute with."""
CODED_TENSOR = _constraint(FLOATS, INTEGERS, NARROW)
"""Any dtype that uses all of its bits, as truth values do not."""
STORED_TENSOR = _constraint(FLOATS, INTEGERS, BOOLS, NARROW)
"""Any dtype at all: for ops that move elements and do not look at them."""
