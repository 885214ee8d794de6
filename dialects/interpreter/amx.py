"""NumPy implementations of the `amx` dialect. A tile is an array of its shape that nobody writes to.

Subnormal numbers, which processors take for 0 in products, are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tenon.dialects.interpreter.access import check_index
from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, element_dtype, implements
from tenon.dialects.upstream.amx import TileLoadOp, TileMulFOp, TileMulIOp, TileStoreOp, TileType, TileZeroOp, tile_type


def _rows(op: Any, type_: TileType, array: Any, index: Sequence[Any], stride: Any) -> np.ndarray:
    """The view of the rows of a tile at `array[index]`, which are `stride` elements apart."""
    check_index(op, index, array.shape)
    size = array.itemsize
    start = sum(int(i) * step for i, step in zip(index, array.strides, strict=True)) // size
    end = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)) // size
    last = start + (type_.rows - 1) * int(stride) + type_.columns - 1
    if last > end:
        raise InterpreterError(f"{op.name}: a tile {type_} reaches place {last}, the last one is {end}")
    return as_strided(array[(*index, ...)], (type_.rows, type_.columns), (int(stride) * size, size))


@implements(TileZeroOp)
def _zero(interpreter: Interpreter, op: TileZeroOp) -> Sequence[Any]:
    type_ = tile_type(op.tile)
    return (np.zeros((type_.rows, type_.columns), element_dtype(type_)),)


@implements(TileLoadOp)
def _load(interpreter: Interpreter, op: TileLoadOp, array: Any, *operands: Any) -> Sequence[Any]:
    *index, stride = operands
    return (_rows(op, tile_type(op.tile), array, index, stride).copy(),)


@implements(TileStoreOp)
def _store(interpreter: Interpreter, op: TileStoreOp, array: Any, *operands: Any) -> Sequence[Any]:
    *index, tile, stride = operands
    _rows(op, tile_type(op.tile), array, index, stride)[...] = tile
    return ()


def _ungrouped(rhs: np.ndarray) -> np.ndarray:
    """The matrix whose rows lie in groups of 32 bits."""
    group = 4 // rhs.itemsize
    rows, columns = rhs.shape
    return rhs.reshape(rows, columns // group, group).swapaxes(1, 2).reshape(rows * group, columns // group)


@implements(TileMulFOp)
def _mulf(interpreter: Interpreter, op: TileMulFOp, lhs: Any, rhs: Any, acc: Any) -> Sequence[Any]:
    return (acc + lhs.astype(np.float32) @ _ungrouped(rhs).astype(np.float32),)


@implements(TileMulIOp)
def _muli(interpreter: Interpreter, op: TileMulIOp, lhs: Any, rhs: Any, acc: Any) -> Sequence[Any]:
    pair = zip((lhs, _ungrouped(rhs)), op.unsigned, strict=True)
    left, right = (factor.view(np.uint8 if is_unsigned else np.int8).astype(np.int64) for factor, is_unsigned in pair)
    return ((acc + left @ right).astype(np.int32),)
