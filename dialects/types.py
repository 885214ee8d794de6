"""Element types, tensor types and the constraints that op definitions state on them.

An element type has one name everywhere (`f32`): in IR text, in errors and as a setting. `bf16` is ml_dtypes' type in
NumPy.
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

FLOATS: tuple[ElementType, ...] = (f16, bf16, f32, f64)
INTEGERS: tuple[ElementType, ...] = (i8, i16, i32, i64)
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
}
_BY_NAME: dict[str, ElementType] = {str(t): t for t in (*FLOATS, *INTEGERS, *BOOLS)}
_BY_NUMPY: dict[np.dtype[Any], ElementType] = {dtype: _BY_NAME[str(t)] for t, dtype in _NUMPY.items()}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype that stores `element`."""
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    return _NUMPY[element]


def element_type(dtype: object) -> ElementType:
    """The element type named by `dtype`: an IR type, its name (`"f32"`), or anything NumPy takes as a dtype.

    Raises `TypeError` for a dtype that Tenon does not store.
    """
    if isinstance(dtype, ElementType):
        return dtype
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
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


def compute_type(element: Attribute) -> Attribute:
    """The type in which a body computes: f16 and bf16 are stored as such and computed in f32."""
    return f32 if isinstance(element, BFloat16Type | Float16Type) else element


def _rank(element: Attribute) -> tuple[int, int]:
    if is_bool(element):
        return 0, 1
    if isinstance(element, IndexType):  # scalars in bodies only; above every stored integer
        return 1, 65
    if isinstance(element, IntegerType):
        return 1, element.width.data
    return 2, {f16: 16, bf16: 16, f32: 32, f64: 64}[element]  # pyright: ignore[reportArgumentType]


def promote(elements: Iterable[Attribute]) -> Attribute:
    """The type in which operands of `elements` meet: i1 < integers by width < floats by width; f16 with bf16 is f32.

    An integer never widens a float (f32 with i64 is f32), as in PyTorch and JAX.
    """
    best: Attribute | None = None
    for element in elements:
        if best is None or _rank(element) > _rank(best):
            best = element
        elif best != element and _rank(element) == _rank(best):
            best = f32
    assert best is not None
    return best


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
