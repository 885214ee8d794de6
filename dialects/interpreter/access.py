"""Bounds-checked access to elements and slices of arrays, for the dialects that read and write memory.

NumPy takes negative indices and clips slices; in IR both are errors, reported with the op, the index and the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerType, MemRefType, ShapedType, TensorType
from xdsl.ir import Attribute, Operation

from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, element_dtype


def out_of_bounds(op: Operation, index: Sequence[Any], shape: Sequence[int]) -> InterpreterError:
    """The error for an access of `op` at `index` that an array of `shape` does not have."""
    position = ", ".join(str(int(i)) for i in index)
    return InterpreterError(f"{op.name}: index [{position}] is out of bounds for shape {tuple(shape)}")


def check_index(op: Operation, index: Sequence[Any], shape: Sequence[int]) -> None:
    """Raise if one scalar index is negative or beyond its dimension."""
    for position, size in zip(index, shape, strict=True):
        if not 0 <= position < size:
            raise out_of_bounds(op, index, shape)


def load_element(interpreter: Interpreter, op: Operation, array: Any, index: Sequence[Any]) -> Any:
    """One element or, while the interpreter is vectorizing, one for each point."""
    if interpreter.vectorized:
        index = _clipped(interpreter, op, index, array.shape)
    else:
        check_index(op, index, array.shape)
    return array[tuple(index)]


def _clipped(interpreter: Interpreter, op: Operation, index: Sequence[Any], shape: Sequence[int]) -> Sequence[Any]:
    """The index brought into bounds at the points that are not really reached; an error where it matters."""
    if 0 in shape:
        raise out_of_bounds(op, [np.min(position) for position in index], shape)
    inside = []
    for position, size in zip(index, shape, strict=True):
        outside = (position < 0) | (position >= size)
        if np.any(outside):
            wrong = outside if interpreter.mask is None else outside & interpreter.mask
            if np.any(wrong):
                *positions, wrong = np.broadcast_arrays(*index, wrong)
                raise out_of_bounds(op, [part[wrong][0] for part in positions], shape)
            position = np.clip(position, 0, size - 1)
        inside.append(position)
    return inside


def refuse_vectorized(interpreter: Interpreter, op: Operation) -> None:
    """Raise for an effect in a body that is evaluated for many points at once, where its order would be lost."""
    if interpreter.vectorized:
        raise InterpreterError(f"{op.name}: effects in the body of a structured op are not supported")


def with_dynamic(static: DenseArrayBase[IntegerType], dynamic: Iterable[Any]) -> list[int]:
    """Static numbers with the operands filled in where they are left open."""
    operands = iter(dynamic)
    return [int(next(operands)) if value == DYNAMIC_INDEX else value for value in static.get_values()]


def offsets_sizes_strides(op: Any, operands: Sequence[Any]) -> tuple[list[int], list[int], list[int]]:
    """The numbers of a slicing op, whose last operands are its dynamic offsets, sizes and strides, in this order."""
    num_strides, num_sizes = len(op.strides), len(op.sizes)
    dynamic = iter(operands[len(operands) - num_strides - num_sizes - len(op.offsets) :])
    return (
        with_dynamic(op.static_offsets, dynamic),
        with_dynamic(op.static_sizes, dynamic),
        with_dynamic(op.static_strides, dynamic),
    )


def slice_view(
    op: Operation, array: np.ndarray, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> np.ndarray:
    """The view of `array` that the numbers select, all of it in bounds."""
    if 0 not in sizes:
        last = [offset + (size - 1) * stride for offset, size, stride in zip(offsets, sizes, strides, strict=True)]
        check_index(op, offsets, array.shape)
        check_index(op, last, array.shape)
    elif min(sizes) < 0:
        raise InterpreterError(f"{op.name}: size is {min(sizes)}, expected one that is not negative")
    # A stop of -1 would count from the end, so a slice that runs down to 0 has none.
    stops = [offset + size * stride for offset, size, stride in zip(offsets, sizes, strides, strict=True)]
    selected = (
        slice(start, stop if stop >= 0 else None, stride)
        for start, stop, stride in zip(offsets, stops, strides, strict=True)
    )
    return array[tuple(selected)].reshape(sizes) if 0 in sizes else array[tuple(selected)]


def runtime_shape(type_: Any, dynamic_sizes: Sequence[Any] = ()) -> tuple[int, ...]:
    """The shape of `type_` with its open dimensions taken from `dynamic_sizes`, in order."""
    sizes = iter(dynamic_sizes)
    return tuple(int(next(sizes)) if size == DYNAMIC_INDEX else size for size in type_.get_shape())


def uninitialized(type_: Any, dynamic_sizes: Sequence[Any] = ()) -> np.ndarray:
    """A new array of conspicuous content: NaN, the least integer or false."""
    dtype = element_dtype(type_)
    poison = np.iinfo(dtype).min if dtype.kind == "i" else False if dtype == np.bool_ else np.nan
    return np.full(runtime_shape(type_, dynamic_sizes), poison, dtype)


def reshape_view(op: Operation, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """`array` in another shape on the same memory."""
    view = array.reshape(shape)
    if not np.may_share_memory(view, array) and array.size:
        raise InterpreterError(f"{op.name}: memory of strides {array.strides} has no view of shape {tuple(shape)}")
    return view


def dimension(op: Operation, array: Any, axis: Any) -> np.int64:
    """The size of one dimension, as an index."""
    check_index(op, (axis,), (len(array.shape),))
    return np.int64(array.shape[int(axis)])


def reduced_shape(type_: ShapedType, sizes: Sequence[int]) -> Sequence[int]:
    """The shape of a slice of `sizes` as `type_` has it, which may leave out dimensions of size 1."""
    shape = type_.get_shape()
    if DYNAMIC_INDEX not in shape:
        return shape
    kept: list[int] = []
    surplus = len(sizes) - len(shape)
    for size in sizes:
        if surplus and size == 1 and (len(kept) == len(shape) or shape[len(kept)] != 1):
            surplus -= 1
        else:
            kept.append(size)
    return kept


def collapsed_shape(reassociation: Iterable[Iterable[Any]], shape: Sequence[int]) -> tuple[int, ...]:
    """The shape whose dimensions are the products of groups of dimensions."""
    return tuple(prod(shape[axis.value.data] for axis in group) for group in reassociation)


def check_cast(op: Operation, array: Any, type_: Attribute) -> None:
    """Raise if an array does not have the rank or the static dimensions of `type_`."""
    if isinstance(type_, TensorType | MemRefType):
        shape = type_.get_shape()
        if len(shape) != len(array.shape) or any(
            s not in (DYNAMIC_INDEX, n) for s, n in zip(shape, array.shape, strict=True)
        ):
            raise InterpreterError(f"{op.name}: shape {array.shape} does not fit {type_}")
