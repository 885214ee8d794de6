"""NumPy implementations of the `tensor` dialect.

Tensors are values: updates copy, slices and reshapes may share memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import tensor

from tenon.dialects.interpreter.access import (
    check_cast,
    check_index,
    collapsed_shape,
    dimension,
    load_element,
    offsets_sizes_strides,
    reduced_shape,
    refuse_vectorized,
    runtime_shape,
    slice_view,
    uninitialized,
    with_dynamic,
)
from tenon.dialects.interpreter.interpreter import Interpreter, element_dtype, implements


@implements(tensor.EmptyOp)
def _empty(interpreter: Interpreter, op: tensor.EmptyOp, *sizes: Any) -> Sequence[Any]:
    return (uninitialized(op.tensor.type, sizes),)


@implements(tensor.SplatOp)
def _splat(interpreter: Interpreter, op: tensor.SplatOp, value: Any, *sizes: Any) -> Sequence[Any]:
    return (np.full(runtime_shape(op.result.type, sizes), value, element_dtype(op.result.type)),)


@implements(tensor.FromElementsOp)
def _from_elements(interpreter: Interpreter, op: tensor.FromElementsOp, *elements: Any) -> Sequence[Any]:
    result_type = op.result.type
    return (np.array(elements, element_dtype(result_type)).reshape(result_type.get_shape()),)


@implements(tensor.ExtractOp)
def _extract(interpreter: Interpreter, op: tensor.ExtractOp, array: Any, *index: Any) -> Sequence[Any]:
    return (load_element(interpreter, op, array, index),)


@implements(tensor.InsertOp)
def _insert(interpreter: Interpreter, op: tensor.InsertOp, scalar: Any, array: Any, *index: Any) -> Sequence[Any]:
    refuse_vectorized(interpreter, op)
    check_index(op, index, array.shape)
    updated = np.array(array)
    updated[index] = scalar
    return (updated,)


@implements(tensor.ExtractSliceOp)
def _extract_slice(interpreter: Interpreter, op: tensor.ExtractSliceOp, source: Any, *operands: Any) -> Sequence[Any]:
    offsets, sizes, strides = offsets_sizes_strides(op, operands)
    selected = slice_view(op, np.asarray(source), offsets, sizes, strides)
    return (selected.reshape(reduced_shape(op.result.type, sizes)),)


@implements(tensor.InsertSliceOp)
def _insert_slice(
    interpreter: Interpreter, op: tensor.InsertSliceOp, source: Any, target: Any, *operands: Any
) -> Sequence[Any]:
    offsets, sizes, strides = offsets_sizes_strides(op, operands)
    updated = np.array(target)
    selected = slice_view(op, updated, offsets, sizes, strides)
    selected[...] = np.reshape(source, sizes)
    return (updated,)


@implements(tensor.ReshapeOp)
def _reshape(interpreter: Interpreter, op: tensor.ReshapeOp, source: Any, shape: Any) -> Sequence[Any]:
    return (np.reshape(source, tuple(int(size) for size in shape)),)


@implements(tensor.CollapseShapeOp)
def _collapse_shape(interpreter: Interpreter, op: tensor.CollapseShapeOp, source: Any) -> Sequence[Any]:
    return (np.reshape(source, collapsed_shape(op.reassociation, source.shape)),)


@implements(tensor.ExpandShapeOp)
def _expand_shape(interpreter: Interpreter, op: tensor.ExpandShapeOp, source: Any, *sizes: Any) -> Sequence[Any]:
    return (np.reshape(source, with_dynamic(op.static_output_shape, sizes)),)


@implements(tensor.CastOp)
def _cast(interpreter: Interpreter, op: tensor.CastOp, source: Any) -> Sequence[Any]:
    check_cast(op, source, op.dest.type)
    return (source,)


@implements(tensor.ConcatOp)
def _concat(interpreter: Interpreter, op: tensor.ConcatOp, *inputs: Any) -> Sequence[Any]:
    return (np.concatenate(inputs, axis=op.dim.value.data),)


@implements(tensor.DimOp)
def _dim(interpreter: Interpreter, op: tensor.DimOp, source: Any, axis: Any) -> Sequence[Any]:
    return (dimension(op, source, axis),)
