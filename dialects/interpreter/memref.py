"""NumPy implementations of the `memref` dialect. A memref is an array, and views of it share its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType

from tenon.dialects.interpreter.access import (
    check_cast,
    check_index,
    collapsed_shape,
    dimension,
    load_element,
    offsets_sizes_strides,
    reduced_shape,
    refuse_vectorized,
    reshape_view,
    runtime_shape,
    slice_view,
    uninitialized,
    with_dynamic,
)
from tenon.dialects.interpreter.arith import BINARY
from tenon.dialects.interpreter.interpreter import (
    Interpreter,
    InterpreterError,
    constant_value,
    element_dtype,
    implements,
)
from tenon.dialects.upstream.atomic_kinds import ATOMIC_KINDS
from tenon.dialects.upstream.prefetch import PrefetchOp


@implements(memref.AllocOp, memref.AllocaOp)
def _alloc(interpreter: Interpreter, op: memref.AllocOp, *sizes: Any) -> Sequence[Any]:
    return (uninitialized(op.memref.type, sizes[: len(op.dynamic_sizes)]),)


@implements(memref.DeallocOp)
def _dealloc(interpreter: Interpreter, op: memref.DeallocOp, array: Any) -> Sequence[Any]:
    return ()


@implements(memref.AllocaScopeOp)
def _alloca_scope(interpreter: Interpreter, op: memref.AllocaScopeOp) -> Sequence[Any]:
    return interpreter.run_region(op.regions[0])


@implements(memref.AllocaScopeReturnOp)
def _alloca_scope_return(interpreter: Interpreter, op: memref.AllocaScopeReturnOp, *values: Any) -> Sequence[Any]:
    return values


@implements(memref.LoadOp)
def _load(interpreter: Interpreter, op: memref.LoadOp, array: Any, *index: Any) -> Sequence[Any]:
    return (load_element(interpreter, op, array, index),)


@implements(memref.StoreOp)
def _store(interpreter: Interpreter, op: memref.StoreOp, value: Any, array: Any, *index: Any) -> Sequence[Any]:
    refuse_vectorized(interpreter, op)
    check_index(op, index, array.shape)
    array[index] = value
    return ()


@implements(PrefetchOp)
def _prefetch(interpreter: Interpreter, op: PrefetchOp, array: Any, *index: Any) -> Sequence[Any]:
    return ()


@implements(memref.CopyOp)
def _copy(interpreter: Interpreter, op: memref.CopyOp, source: Any, destination: Any) -> Sequence[Any]:
    if source.shape != destination.shape:
        raise InterpreterError(f"{op.name}: shape {source.shape} of the source is not {destination.shape}")
    destination[...] = source
    return ()


@implements(memref.AtomicRMWOp)
def _atomic_rmw(interpreter: Interpreter, op: memref.AtomicRMWOp, value: Any, array: Any, *index: Any) -> Sequence[Any]:
    refuse_vectorized(interpreter, op)
    check_index(op, index, array.shape)
    old = array[index]
    kind = ATOMIC_KINDS[op.kind.value.data]
    array[index] = value if kind is None else BINARY[kind](old, value)
    return (old,)


@implements(memref.GlobalOp)
def _global(interpreter: Interpreter, op: memref.GlobalOp) -> Sequence[Any]:
    return ()


@implements(memref.ExtractAlignedPointerAsIndexOp)
def _pointer(interpreter: Interpreter, op: memref.ExtractAlignedPointerAsIndexOp, array: Any) -> Sequence[Any]:
    return (array.__array_interface__["data"][0],)


@implements(memref.GetGlobalOp)
def _get_global(interpreter: Interpreter, op: memref.GetGlobalOp) -> Sequence[Any]:
    name = op.name_.string_value()
    if name not in interpreter.globals:
        definition = interpreter.symbol(op, name, memref.GlobalOp)
        if isinstance(definition.initial_value, DenseIntOrFPElementsAttr):
            array = np.array(constant_value(definition.initial_value))
        else:
            array = uninitialized(definition.type)
        array.flags.writeable = definition.constant is None
        interpreter.globals[name] = array
    return (interpreter.globals[name],)


@implements(memref.ViewOp)
def _view(interpreter: Interpreter, op: memref.ViewOp, source: Any, offset: Any, *sizes: Any) -> Sequence[Any]:
    dtype = element_dtype(op.result.type)
    shape = runtime_shape(op.result.type, sizes)
    end = offset + int(np.prod(shape)) * dtype.itemsize
    if offset < 0 or end > source.size:
        raise InterpreterError(f"{op.name}: bytes {offset} to {end} are out of bounds for {source.size} bytes")
    return (source[offset:end].view(dtype).reshape(shape),)


@implements(memref.ReinterpretCastOp)
def _reinterpret_cast(
    interpreter: Interpreter, op: memref.ReinterpretCastOp, source: Any, *operands: Any
) -> Sequence[Any]:
    (offset,), sizes, strides = offsets_sizes_strides(op, operands)
    source_type = op.source.type
    if not isinstance(source_type, MemRefType) or source_type.get_offset() != 0:
        raise InterpreterError(f"{op.name}: the offset of {source_type} is not known to be 0")
    itemsize = source.itemsize
    extent = 1 + sum((size - 1) * stride for size, stride in zip(source.shape, source.strides, strict=True)) // itemsize
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if 0 not in sizes and (min(offset, *strides, 0) < 0 or last >= extent):
        raise InterpreterError(f"{op.name}: elements {offset} to {last} are out of bounds for {extent} elements")
    elements = as_strided(source, (extent,), (itemsize,))
    return (as_strided(elements[offset:], sizes, [stride * itemsize for stride in strides]),)


@implements(memref.SubviewOp)
def _subview(interpreter: Interpreter, op: memref.SubviewOp, source: Any, *operands: Any) -> Sequence[Any]:
    offsets, sizes, strides = offsets_sizes_strides(op, operands)
    selected = slice_view(op, source, offsets, sizes, strides)
    return (reshape_view(op, selected, reduced_shape(op.result.type, sizes)),)


@implements(memref.CollapseShapeOp)
def _collapse_shape(interpreter: Interpreter, op: memref.CollapseShapeOp, source: Any) -> Sequence[Any]:
    return (reshape_view(op, source, collapsed_shape(op.reassociation, source.shape)),)


@implements(memref.ExpandShapeOp)
def _expand_shape(interpreter: Interpreter, op: memref.ExpandShapeOp, source: Any, *sizes: Any) -> Sequence[Any]:
    return (reshape_view(op, source, with_dynamic(op.static_output_shape, sizes)),)


@implements(memref.CastOp, memref.MemorySpaceCastOp, memref.AssumeAlignmentOp)
def _cast(interpreter: Interpreter, op: memref.CastOp, source: Any) -> Sequence[Any]:
    check_cast(op, source, op.results[0].type)
    return (source,)


@implements(memref.DimOp)
def _dim(interpreter: Interpreter, op: memref.DimOp, source: Any, axis: Any) -> Sequence[Any]:
    return (dimension(op, source, axis),)


@implements(memref.RankOp)
def _rank(interpreter: Interpreter, op: memref.RankOp, source: Any) -> Sequence[Any]:
    return (np.int64(source.ndim),)
