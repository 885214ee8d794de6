"""Element types, tensor types and the constraints that op definitions state on them.

An element type has one name everywhere (`f32`, `ui8`): in IR text, in errors and as a setting. `bf16` is ml_dtypes'
type in NumPy. In tensor IR `i8` to `i64` are signed and `ui8` to `ui64` are not; `signedness` says what they become.
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

ElementType = BFloat16Type | Float16Type | Float32Type | Float64Type | IntegerType
AnyTensor = TensorType[Attribute] | UnrankedTensorType[Attribute]

RESOURCE = "tenon.resource"
"""The attribute of an argument of a function that is an array of the module's own, such as a weight."""

ui8, ui16, ui32, ui64 = (IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64))

FLOATS: tuple[ElementType, ...] = (f16, bf16, f32, f64)
SIGNED: tuple[ElementType, ...] = (i8, i16, i32, i64)
UNSIGNED: tuple[ElementType, ...] = (ui8, ui16, ui32, ui64)
INTEGERS: tuple[ElementType, ...] = (*SIGNED, *UNSIGNED)
BOOLS: tuple[ElementType, ...] = (i1,)

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
}
_BY_NAME: dict[str, ElementType] = {str(t): t for t in (*FLOATS, *INTEGERS, *BOOLS)}
# NumPy takes "u8" for an integer of eight bytes.
_BY_SHORT_NAME: dict[str, ElementType] = {"u8": ui8, "u16": ui16, "u32": ui32, "u64": ui64}
_BY_NUMPY: dict[np.dtype[Any], ElementType] = {dtype: _BY_NAME[str(t)] for t, dtype in _NUMPY.items()}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype that stores `element`."""
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    return _NUMPY[element]


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
    return isinstance(element, BFloat16Type | Float16Type | Float32Type | Float64Type)


def is_bool(element: Attribute) -> bool:
    return element == i1


def is_integer(element: Attribute) -> bool:
    """Whether `element` is an integer type of more than one bit, or `index`."""
    return isinstance(element, IndexType) or (isinstance(element, IntegerType) and element != i1)


def is_unsigned(element: Attribute) -> bool:
    """Whether `element` is one of `ui8` to `ui64`."""
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
      i64), and in f32 where there is none (any signed type with ui64).

    `index`, which only bodies have, is above every stored integer.
    """
    present = set(elements)
    assert present
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
        return tuple([-1 if dim == DYNAMIC_INDEX and type(dim) is int else dim for dim in type_.get_shape()])
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
            raise VerifyException(f"dtype is {attr.element_type} where one of {self.names()} is needed")
        if isinstance(attr, TensorType) and not isinstance(attr.encoding, NoneAttr):
            raise VerifyException(f"{attr} has an encoding, which tenon has no meaning for")

    def mapping_type_vars(self, type_var_mapping: Any) -> TensorConstraint:
        return self

    def names(self) -> str:
        """The element types, as an error lists them."""
        return ", ".join(str(element) for element in self.elements)


def _constraint(*groups: Sequence[ElementType]) -> TensorConstraint:
    return TensorConstraint(tuple(element for group in groups for element in group))


FLOAT_TENSOR = _constraint(FLOATS)
INTEGER_TENSOR = _constraint(INTEGERS)
BOOL_TENSOR = _constraint(BOOLS)
NUMERIC_TENSOR = _constraint(FLOATS, INTEGERS)
INTEGRAL_TENSOR = _constraint(INTEGERS, BOOLS)
ANY_TENSOR = _constraint(FLOATS, INTEGERS, BOOLS)
