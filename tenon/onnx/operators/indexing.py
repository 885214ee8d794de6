"""Operators that read and write at indices, and that choose, order or add up elements along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import is_float, of_dtype


@operator("Scatter", since=9, until=10)
@operator("ScatterElements", since=11)
def scatter_elements(node: Node, x: Operand, indices: Operand, updates: Operand) -> Any:
    """From opset 16 on `reduction` may combine updates with what is there."""
    return ops.scatter_elements(
        x, indices, updates, axis=node.attribute("axis", 0), reduction=node.attribute("reduction", "none")
    )


@operator("Trilu", since=14)
def trilu(node: Node, x: Operand, k: Operand | None = None) -> Any:
    """The upper or lower triangle of matrices (..., m, n); 0 elsewhere."""
    diagonal = 0 if k is None else int(node.number(k, "k"))
    return (ops.triu if node.attribute("upper", 1) else ops.tril)(x, k=diagonal)


def _cumulative(name: str, since: int, function: str) -> None:
    @operator(name, since=since)
    def along(node: Node, x: Operand, axis: Operand) -> Any:
        chosen = int(node.number(axis, "axis"))
        return ops.find(function)(
            x,
            axis=chosen,
            exclusive=bool(node.attribute("exclusive", 0)),
            reverse=bool(node.attribute("reverse", 0)),
        )


_cumulative("CumSum", 11, "cumsum")
_cumulative("CumProd", 26, "cumprod")


@operator("TopK")
def top_k(node: Node, x: Operand, k: Operand | None = None) -> Any:
    count = node.required("k") if k is None else int(node.number(k, "k"))
    return ops.top_k(
        x,
        k=count,
        axis=node.attribute("axis", -1),
        largest=bool(node.attribute("largest", 1)),
        sorted=bool(node.attribute("sorted", 1)),
    )


@operator("TensorScatter", since=24)
def tensor_scatter(node: Node, cache: Operand, update: Operand, starts: Operand | None = None) -> Any:
    """`update` in the place of a part of `cache` along `axis`, from `starts` (batch,) on; `circular` goes on in front.

    What lies beyond the end is left out.
    """
    axis, mode = normalize_axis(node.attribute("axis", -2), cache.ndim), node.attribute("mode", "linear")
    if mode not in ("linear", "circular"):
        raise OnnxError(f"{node.where}: mode {mode!r} is not one of linear, circular")
    if axis == 0 or update.ndim != cache.ndim or update.shape[axis] > cache.shape[axis]:
        raise OnnxError(f"{node.where}: an update of shape {list(update.shape)} does not fit along axis {axis}")
    size, count = cache.shape[axis], update.shape[axis]
    if count == 0:
        return cache
    steps = ops.iota(shape=(1, size, *(1,) * (cache.ndim - 1 - axis)), axis=1)
    places: Any = ops.cast(ops.reshape(steps, shape=(*(1,) * axis, *steps.shape[1:])), dtype="i64")
    if starts is not None:
        places = places - ops.reshape(of_dtype(starts, np.int64), shape=(-1, *(1,) * (cache.ndim - 1)))
    if mode == "circular":
        places = ops.remainder(places, size)
    is_written = ops.logical_and(ops.greater_equal(places, 0), ops.less(places, count))
    return ops.select(
        is_written, ops.take_along_axis(update, ops.clip(places, low=0, high=count - 1), axis=axis), cache
    )


# --- padding ----------------------------------------------------------------------------------------------------------


def _padded(node: Node, x: Operand, pads: list[int], axes: list[int] | None, value: Any) -> Any:
    """`pads` has all sizes before and then all behind; negative ones cut off."""
    chosen = [normalize_axis(axis, x.ndim) for axis in (range(x.ndim) if axes is None else axes)]
    if len(pads) != 2 * len(chosen):
        raise OnnxError(f"{node.where}: pads has {len(pads)} entries where {2 * len(chosen)} are needed")
    low, high = [0] * x.ndim, [0] * x.ndim
    for axis, before, behind in zip(chosen, pads[: len(chosen)], pads[len(chosen) :], strict=True):
        low[axis], high[axis] = before, behind
    mode = node.attribute("mode", "constant")
    if mode != "constant" or isinstance(value, float):
        return ops.pad(x, low=tuple(low), high=tuple(high), value=0.0 if mode != "constant" else value, mode=mode)
    inside = ops.pad(ops.full(node.shape(x), True, np.bool_), low=tuple(low), high=tuple(high))
    return ops.select(inside, ops.pad(x, low=tuple(low), high=tuple(high)), ops.reshape(value, shape=()))


@operator("Pad", since=2, until=10)
def pad_attributes(node: Node, x: Operand) -> Any:
    return _padded(node, x, node.required("pads"), None, float(node.attribute("value", 0.0)))


@operator("Pad", since=11)
def pad(node: Node, x: Operand, pads: Operand, value: Operand | None = None, axes: Operand | None = None) -> Any:
    if value is None:
        number: Any = 0.0
    elif isinstance(value, np.ndarray) and (is_float(value) or abs(int(value.reshape(-1)[0])) < 2**53):
        number = float(value.reshape(-1)[0])
    else:
        number = value
    return _padded(node, x, node.integers(pads, "pads") or [], node.integers(axes, "axes"), number)


# --- shapes that follow from values -----------------------------------------------------------------------------------


@operator("NonZero", since=9)
def nonzero(node: Node, x: Operand) -> np.ndarray[Any, Any]:
    """The indices (rank, count) of what is not 0: how many there are has to be known, so that `x` has to."""
    return np.asarray(np.nonzero(np.atleast_1d(node.known(x, "the operand"))), np.int64)


@operator("Compress", since=9)
def compress(node: Node, x: Operand, condition: Operand) -> Any:
    """The slices along `axis` where `condition` holds; without an axis, elements of the flattened `x`."""
    (chosen,) = np.nonzero(node.known(condition, "the condition"))
    axis = node.attribute("axis")
    if axis is None:
        return ops.gather(ops.reshape(x, shape=(-1,)), chosen, axis=0)
    return ops.gather(x, chosen, axis=axis)


@operator("Unique", since=11)
def unique(node: Node, x: Operand) -> Any:
    """The different elements (or slices along `axis`), in order or as they come first, and where they are."""
    values = node.known(x, "the operand")
    axis = node.attribute("axis")
    found, first, inverse, counts = np.unique(values, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not node.attribute("sorted", 1):
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        found = np.take(found, order, axis=0 if axis is None else axis)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return found, *[part.astype(np.int64) for part in (first, inverse, counts)]


@operator("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Operand, lengths: Operand) -> Any:
    """The first `lengths[b]` elements along the time axis in reverse order, for each b along the batch axis."""
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise OnnxError(f"{node.where}: batch_axis {batch} and time_axis {time} where 0 and 1, or 1 and 0, are needed")
    steps = ops.reshape(ops.iota(shape=(x.shape[time],)), shape=(-1, 1) if time == 0 else (1, -1))
    size = ops.reshape(of_dtype(lengths, np.int64), shape=(-1, 1) if batch == 0 else (1, -1))
    places = ops.select(steps < size, size - 1 - steps, steps)
    behind = (1,) * (x.ndim - 2)
    shape = (*places.shape, *x.shape[2:])
    spread = ops.broadcast_to(ops.reshape(places, shape=(*places.shape, *behind)), shape=shape)
    return ops.gather_elements(x, spread, axis=time)


@operator("NonMaxSuppression", since=10)
def non_max_suppression(
    node: Node,
    boxes: Operand,
    scores: Operand,
    most: Operand | None = None,
    overlap: Operand | None = None,
    least: Operand | None = None,
) -> np.ndarray[Any, Any]:
    """Rows of batch, class and box of what is left (k, 3), for boxes (n, b, 4) and scores (n, classes, b).

    For each class the boxes with the highest scores, without those that overlap one of them by more than `overlap` of
    what both cover together. How many there are has to be known, so that all values have to be.
    """
    places, points = node.known(boxes, "boxes").astype(np.float64), node.known(scores, "scores")
    count = 0 if most is None else int(node.number(most, "max_output_boxes_per_class"))
    limit = 0.0 if overlap is None else float(node.number(overlap, "iou_threshold"))
    floor = None if least is None else float(node.number(least, "score_threshold"))
    if places.ndim != 3 or points.ndim != 3 or places.shape != (points.shape[0], points.shape[2], 4):
        raise OnnxError(f"{node.where}: boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit")
    if node.attribute("center_point_box", 0):
        middle, half = places[..., :2], places[..., 2:] / 2
        low, high = middle - half, middle + half
    else:
        low, high = np.minimum(places[..., :2], places[..., 2:]), np.maximum(places[..., :2], places[..., 2:])
    rows: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(*points.shape[:2]):
        order = np.argsort(-points[batch, kind], kind="stable")
        if floor is not None:
            order = order[points[batch, kind, order] > floor]
        rows += [(batch, kind, int(box)) for box in _apart(low[batch], high[batch], order, limit, count)]
    return np.asarray(rows, np.int64).reshape(-1, 3)


def _apart(low: Any, high: Any, order: Any, limit: float, count: int) -> list[int]:
    """At most `count` of the boxes in this order, none of which overlaps one before it by more than `limit`."""
    chosen: list[int] = []
    areas = np.prod(high - low, axis=-1)
    while len(order) and len(chosen) < count:
        box, order = order[0], order[1:]
        chosen.append(int(box))
        sides = np.minimum(high[box], high[order]) - np.maximum(low[box], low[order])
        shared = np.prod(np.maximum(sides, 0), axis=-1)
        together = areas[box] + areas[order] - shared
        order = order[shared <= limit * together]
    return chosen
