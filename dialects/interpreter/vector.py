"""NumPy implementations of the `vector` dialect. Vectors are values: loads copy, updates make new arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from xdsl.dialects import vector

from tenon.dialects.families.monoid import MONOIDS
from tenon.dialects.interpreter.access import check_index, out_of_bounds, runtime_shape, slice_view, with_dynamic
from tenon.dialects.interpreter.arith import BINARY
from tenon.dialects.interpreter.interpreter import Interpreter, computes, element_dtype, implements
from tenon.dialects.interpreter.math import in_float64, multiply_add
from tenon.dialects.upstream.vector_ops import GatherOp, VectorContractOp


def _window(op: Any, array: Any, index: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """The view of the elements from `index` on, over the last dimensions."""
    leading = len(index) - len(shape)
    offsets = [int(position) for position in index]
    window = slice_view(op, array, offsets, [1] * leading + list(shape), [1] * len(index))
    return window.reshape(shape)


@implements(vector.LoadOp)
def _load(interpreter: Interpreter, op: vector.LoadOp, array: Any, *index: Any) -> Sequence[Any]:
    return (_window(op, array, index, runtime_shape(op.results[0].type)).copy(),)


@implements(vector.StoreOp)
def _store(interpreter: Interpreter, op: vector.StoreOp, value: Any, array: Any, *index: Any) -> Sequence[Any]:
    _window(op, array, index, value.shape)[...] = value
    return ()


def _lanes(op: Any, array: Any, index: Sequence[Any], mask: np.ndarray) -> tuple[Any, ...]:
    """The index of the elements of the lanes that `mask` holds on, all of them in bounds."""
    *leading, first = index
    lanes = first + np.flatnonzero(mask)
    if lanes.size:
        check_index(op, (*leading, lanes[0]), array.shape)
        if lanes[-1] >= array.shape[-1]:
            raise out_of_bounds(op, (*leading, lanes[-1]), array.shape)
    return *leading, lanes


@implements(vector.MaskedLoadOp)
def _masked_load(interpreter: Interpreter, op: vector.MaskedLoadOp, array: Any, *operands: Any) -> Sequence[Any]:
    *index, mask, pass_through = operands
    loaded = np.array(pass_through)
    if mask.any():
        loaded[mask] = array[_lanes(op, array, index, mask)]
    return (loaded,)


@implements(GatherOp)
def _gather(interpreter: Interpreter, op: GatherOp, array: Any, *operands: Any) -> Sequence[Any]:
    *leading, first = operands[:-3]
    places, mask, others = operands[-3:]
    gathered = np.array(others)
    for lane in np.flatnonzero(mask):
        index = (*leading, first + places[lane])
        check_index(op, index, array.shape)
        gathered[lane] = array[index]
    return (gathered,)


@implements(vector.MaskedStoreOp)
def _masked_store(interpreter: Interpreter, op: vector.MaskedStoreOp, array: Any, *operands: Any) -> Sequence[Any]:
    *index, mask, value = operands
    if mask.any():
        array[_lanes(op, array, index, mask)] = value[mask]
    return ()


@implements(vector.BroadcastOp)
def _broadcast(interpreter: Interpreter, op: vector.BroadcastOp, source: Any) -> Sequence[Any]:
    return (np.broadcast_to(source, runtime_shape(op.results[0].type)),)


computes(vector.FMAOp)(in_float64(multiply_add))


def _sum_of_products(lhs: Any, rhs: Any, total: Any) -> Any:
    return total + (lhs * rhs).sum(axis=1, dtype=total.dtype)


@computes(VectorContractOp)
def _contract(lhs: Any, rhs: Any, total: Any) -> Any:
    if total.dtype.kind == "f":
        return in_float64(_sum_of_products)(lhs, rhs, total)
    return _sum_of_products(lhs, rhs, total)


@implements(vector.CreateMaskOp)
def _create_mask(interpreter: Interpreter, op: vector.CreateMaskOp, *sizes: Any) -> Sequence[Any]:
    mask = np.zeros(runtime_shape(op.mask_vector.type), np.bool_)
    mask[tuple(slice(max(int(size), 0)) for size in sizes)] = True
    return (mask,)


@implements(vector.ExtractOp)
def _extract(interpreter: Interpreter, op: vector.ExtractOp, source: Any, *positions: Any) -> Sequence[Any]:
    position = with_dynamic(op.static_position, positions)
    check_index(op, position, source.shape)
    return (source[tuple(position)],)


@implements(vector.InsertOp)
def _insert(interpreter: Interpreter, op: vector.InsertOp, value: Any, target: Any, *positions: Any) -> Sequence[Any]:
    position = with_dynamic(op.static_position, positions)
    check_index(op, position, target.shape)
    updated = np.array(target)
    updated[tuple(position)] = value
    return (updated,)


@implements(vector.ShuffleOp)
def _shuffle(interpreter: Interpreter, op: vector.ShuffleOp, first: Any, second: Any) -> Sequence[Any]:
    lanes = np.concatenate([np.atleast_1d(first), np.atleast_1d(second)])
    # A mask value of -1 leaves the lane open; NumPy takes the last one.
    return (lanes[list(op.mask.get_values())],)


@implements(vector.BitcastOp)
def _bitcast(interpreter: Interpreter, op: vector.BitcastOp, source: Any) -> Sequence[Any]:
    return (np.ascontiguousarray(source).view(element_dtype(op.result.type)).reshape(op.result.type.get_shape()),)


# Integers, whose monoids come last, are added as floats are where they are no truth values.
_COMBINE = {monoid.kind: BINARY[monoid.op_type] for monoid in MONOIDS.values()}


@implements(vector.ReductionOp)
def _reduction(interpreter: Interpreter, op: vector.ReductionOp, lanes: Any, *start: Any) -> Sequence[Any]:
    combine = _COMBINE[op.kind.data]
    return (reduce(combine, lanes, *start),)
