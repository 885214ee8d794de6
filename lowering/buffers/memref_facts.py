"""The memrefs that stand for tensors, and where slices lie in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from tenon.lowering.buffers.storage_assignment import SliceOp


@lru_cache(4096)
def memref_type(type_: TensorType[Attribute]) -> MemRefType[Attribute]:
    """Dense, row-major memory for a tensor of this type."""
    return MemRefType(type_.element_type, type_.shape, NoneAttr(), NoneAttr())


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
