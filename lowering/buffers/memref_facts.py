"""The memrefs that stand for tensors: how many bytes they take, and where elements and slices lie in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects import memref, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, NoneAttr, StridedLayoutAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.types.types import dimensions, numpy_dtype

SliceOp = tensor.ExtractSliceOp | tensor.InsertSliceOp

RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ReshapeOp)
"""Ops whose result is in the memory of their first operand."""
WHOLE_VIEWS = (memref.CollapseShapeOp, memref.ExpandShapeOp, memref.CastOp)
"""Ops whose result is all of the memref that is their operand."""


class UnknownSizeError(ValueError):
    """A size or stride of a memref that must be known at compile time is not; the message says which."""


def without_reshapes(value: SSAValue) -> SSAValue:
    """What `value` is a reshape of."""
    while isinstance(value.owner, RESHAPES):
        value = value.owner.operands[0]
    return value


@lru_cache(4096)
def memref_type(type_: TensorType[Attribute]) -> MemRefType[Attribute]:
    """Dense, row-major memory for a tensor of this type."""
    return MemRefType(type_.element_type, type_.shape, NoneAttr(), NoneAttr())


def collapsed_type(buffer: MemRefType[Attribute], shape: Sequence[int]) -> MemRefType[Attribute]:
    """The type of a row-major buffer when neighbouring dimensions are one, so that it has this shape: where it is a
    part of memory that begins at an offset, it stays that."""
    layout = buffer.layout
    if isinstance(layout, StridedLayoutAttr):
        layout = StridedLayoutAttr(row_major_strides(shape), layout.get_offset())
    return MemRefType(buffer.element_type, dimensions(shape), layout)


def element_bytes(element: Attribute) -> int:
    """Bytes of one element in memory; an `i1` takes a whole byte. Raises `ValueError` for a type without a size."""
    if isinstance(element, IndexType):
        return 8
    try:
        return numpy_dtype(element).itemsize
    except TypeError as error:
        raise ValueError(f"an element has no size in memory: {error}") from None


def buffer_bytes(shaped: TensorType[Attribute] | MemRefType[Attribute]) -> int:
    """Bytes of a row-major buffer of this type; raises `UnknownSizeError`."""
    total = element_bytes(shaped.element_type)
    for size in shaped.get_shape():
        if size < 0:
            raise UnknownSizeError(f"{shaped} has a size that is not known at compile time")
        total *= size
    return total


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense array of this shape."""
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def offset_terms(op: SliceOp, shape: Sequence[int]) -> tuple[int, list[tuple[SSAValue, int]]]:
    """The offset of a slice in elements: a number, and indices with their strides."""
    static, dynamic, indices = 0, list[tuple[SSAValue, int]](), iter(op.offsets)
    for offset, stride in zip(op.static_offsets.get_values(), row_major_strides(shape), strict=True):
        if offset == DYNAMIC_INDEX:
            dynamic.append((next(indices), stride))
        else:
            static += offset * stride
    return static, dynamic


def kept_strides(op: SliceOp, whole: Sequence[int], part: Sequence[int]) -> list[int]:
    """The strides of a slice in the tensor around it, without those of the unit dimensions that the slice drops."""
    strides: list[int] = []
    for size, stride in zip(op.static_sizes.get_values(), row_major_strides(whole), strict=True):
        if len(strides) < len(part) and size == part[len(strides)]:
            strides.append(stride)
    return strides


def strides_of(buffer: MemRefType) -> tuple[int, ...]:
    """The strides of a memref in elements; raises `UnknownSizeError`."""
    buffer_bytes(buffer)  # its sizes must be known
    if isinstance(buffer.layout, NoneAttr):
        return row_major_strides(buffer.get_shape())
    strides = buffer.get_strides()
    if strides is None or None in strides:
        raise UnknownSizeError(f"{buffer} has strides that are not known at compile time")
    return tuple(cast(Sequence[int], strides))


def is_contiguous(buffer: MemRefType) -> bool:
    """Whether the elements lie densely in row-major order (dimensions of size one do not matter)."""
    shape = buffer.get_shape()
    pairs = zip(shape, strides_of(buffer), row_major_strides(shape), strict=True)
    return all(size == 1 or stride == dense for size, stride, dense in pairs)


def is_one_run(op: SliceOp) -> bool:
    """Whether the slice that `op` takes or inserts is one run of memory in the row-major tensor around it."""
    whole = op.source if isinstance(op, tensor.ExtractSliceOp) else op.dest
    assert isinstance(whole.type, TensorType)
    sizes, shape = op.static_sizes.get_values(), whole.type.get_shape()
    leading = next((index for index, size in enumerate(sizes) if size != 1), len(sizes))
    return tuple(sizes[leading + 1 :]) == tuple(shape[leading + 1 :])
