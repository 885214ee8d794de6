"""Ops of families that loop over elements, written by scans and gathers of Tenon's own: what they combine or read is a
function of the user's, which is traced on whole tensors, or as the body of a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineMap

from tenon.control_flow import scan
from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CumulativeOp, IndexingOp, ReductionOp, ScatterOp, WindowOp
from tenon.dialects.types.shapes import normalize_axes, normalize_axis
from tenon.dialects.types.types import compute_type, element_of, numpy_dtype


def reduction(op: ReductionOp) -> list[Value]:
    """Elements along the axes combined one after the other."""
    cls: Any = type(op)
    x, like = Value(op.operands[0]), Value(op.results[0])
    axis = op.settings["axis"]
    axes = normalize_axes((axis,) if isinstance(axis, int) else axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = ops.transpose(x, permutation=(*axes, *kept)).reshape((prod(x.shape[i] for i in axes), -1))
    found = _combined(cls, rows, cls.result_element(element_of(x.ssa.type)))
    return [found.reshape(like.shape).astype(like.dtype)]


def window(op: WindowOp) -> list[Value]:
    """Elements of windows gathered, and combined one after the other."""
    cls: Any = type(op)
    operands, like = [Value(v) for v in op.operands], Value(op.results[0])
    structure = cls.loops([v.shape for v in operands], op.settings)
    loops = range(len(structure.extents))
    plain = [e.position for e in structure.result_map.results]
    order = [*[i for i in loops if i not in plain], *plain]
    places = dict(zip(order, np.indices([structure.extents[i] for i in order]), strict=True))
    index = [places[i] for i in loops]
    shape = (prod(structure.extents[i] for i in order[: len(order) - len(plain)]), -1)
    gathered = [_taken(v, index, map_).reshape(shape) for v, map_ in zip(operands, structure.operands, strict=True)]
    return [_combined(cls, gathered, element_of(like.ssa.type)).reshape(like.shape).astype(like.dtype)]


def _taken(x: Value, index: Sequence[Any], map_: AffineMap) -> Value:
    places = [np.broadcast_to(np.asarray(e.eval(index, []), np.int64), index[0].shape) for e in map_.results]
    flat = np.ravel_multi_index(tuple(places), x.shape) if places else np.zeros(index[0].shape, np.int64)
    return ops.take(x.reshape(-1), np.ascontiguousarray(flat), axis=0)


def _combined(cls: Any, rows: Value | Sequence[Value], element: Any) -> Value:
    """What `scalar` makes of the rows of one tensor, or of several, in the dtype that `element` is computed in."""
    given = [rows] if isinstance(rows, Value) else list(rows)
    wide = compute_type(element)
    dtype = numpy_dtype(wide)
    start = ops.full(given[0].shape[1:], cls.initial(wide), dtype=dtype)

    def step(accumulator: Value, row: Sequence[Value]) -> tuple[Value, tuple[()]]:
        return _as(cls.scalar(accumulator, *[v.astype(dtype) for v in row]), accumulator), ()

    return scan(step, start, tuple(given))[0]


def _as(value: Any, like: Value) -> Value:
    """What a function of elements has made, as a tensor like another one."""
    made = to_value(value).astype(like.dtype)
    return made if made.shape == like.shape else ops.broadcast_to(made, shape=like.shape)


def cumulative(op: CumulativeOp) -> list[Value]:
    """The steps of a combination along the axis."""
    cls: Any = type(op)
    x, like, settings = Value(op.operands[0]), Value(op.results[0]), op.settings
    axis = normalize_axis(settings["axis"], x.ndim)
    order = [axis, *[i for i in range(x.ndim) if i != axis]]
    rows = ops.transpose(x, permutation=tuple(order)).astype(numpy_dtype(compute_type(x.element_type)))
    start = ops.full(rows.shape[1:], cls.initial(compute_type(x.element_type)), dtype=rows.dtype)

    def step(accumulator: Value, row: Value) -> tuple[Value, Value]:
        after = _as(cls.scalar(accumulator, row), accumulator)
        return after, accumulator if settings.get("exclusive", False) else after

    _, found = scan(step, start, rows, reverse=settings.get("reverse", False))
    return [ops.transpose(found, permutation=tuple(np.argsort(order).tolist())).astype(like.dtype)]


class _Whole:
    """An operand that is read at all elements of a result at once."""

    def __init__(self, source: Value, places: tuple[int, ...]) -> None:
        self.source, self._places = source, places
        self.shape, self.ndim, self.element_type = source.shape, source.ndim, source.element_type

    def read(self, *indices: Any) -> Value:
        """The elements at `indices`, each clamped into its dimension."""
        flat = ops.full(self._places, 0, dtype=np.int64)
        for index, size in zip(indices, self.shape, strict=True):
            place = ops.maximum(ops.minimum(to_value(index).astype(np.int64), size - 1), 0)
            flat = flat * size + place
        return ops.take(self.source.reshape(-1), flat, axis=0)

    read_inside = read


def _numbers(shape: tuple[int, ...]) -> tuple[Value, ...]:
    return tuple([to_value(np.ascontiguousarray(places)) for places in np.indices(shape)])


def indexing(op: IndexingOp) -> list[Value]:
    """The elements of a result as their function computes them of whole tensors of indices."""
    cls: Any = type(op)
    like = Value(op.results[0])
    readers = [_Whole(Value(v), like.shape) for v in op.operands]
    return [_as(cls.element(_numbers(like.shape), *readers, **op.settings), like)]


def scatter(op: ScatterOp) -> list[Value]:
    """The updates, one after the other."""
    cls: Any = type(op)
    operands, like = [Value(v) for v in op.operands], Value(op.results[0])
    updates = operands[[o.name for o in cls.SIGNATURE.operands].index(cls.UPDATES)]
    readers = [_Whole(v, updates.shape) for v in operands]
    targets = cls.target(_numbers(updates.shape), *readers, **op.settings)
    flat, is_inside = ops.full(updates.shape, 0, dtype=np.int64), ops.full(updates.shape, True, dtype=np.bool_)
    for target, size in zip(targets, like.shape, strict=True):
        place = to_value(target).astype(np.int64)
        is_inside = ops.logical_and(is_inside, ops.logical_and(place >= 0, place < size))
        flat = flat * size + ops.maximum(ops.minimum(place, size - 1), 0)
    wide = numpy_dtype(compute_type(like.element_type))

    def step(current: Value, update: tuple[Value, ...]) -> tuple[Value, tuple[()]]:
        place, new, is_kept = update
        old = ops.take(current, place, axis=0)
        after = new if cls.replaces(**op.settings) else cls.combine(old, new, **op.settings)
        return current.at[place].set(ops.select(is_kept, _as(after, old), old)), ()

    start = operands[0].astype(wide).reshape(-1)
    xs = (flat.reshape(-1), updates.astype(wide).reshape(-1), is_inside.reshape(-1))
    return [scan(step, start, xs)[0].reshape(like.shape).astype(like.dtype)]


__all__ = ["cumulative", "indexing", "reduction", "scatter", "window"]
