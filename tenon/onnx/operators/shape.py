"""Operators that arrange elements anew: reshape, transpose, slices, joins, and what tells sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator


@operator("Shape")
def shape_of(node: Node, x: Operand) -> Any:
    """The sizes, from opset 15 on those from `start` to before `end`; bounds outside are moved to the nearest."""
    asked = slice(node.attribute("start", 0), node.attribute("end"))
    sizes = x.shape[asked]
    return np.asarray(node.shape(x)[asked] if any(size < 0 for size in sizes) else sizes, np.int64)


@operator("Size")
def size_of(node: Node, x: Operand) -> Any:
    return np.asarray(prod(node.shape(x)), np.int64)


@operator("Reshape", since=5)
def reshape(node: Node, x: Operand, shape: Operand) -> Any:
    """A size of 0 is that of `x`, unless `allowzero` is set; -1 is computed."""
    asked = node.integers(shape, "shape") or []
    if not node.attribute("allowzero", 0):
        if any(size == 0 and axis >= x.ndim for axis, size in enumerate(asked)):
            raise OnnxError(f"{node.where}: shape {asked} takes a size from an operand of rank {x.ndim}")
        asked = _with_copied_sizes(x, asked)
    if sum(size < 0 for size in asked) > 1 and any(size < 0 for size in x.shape):
        node.shape(x)
    return ops.reshape(x, shape=tuple(asked))


def _with_copied_sizes(x: Operand, asked: Sequence[int]) -> list[int]:
    """`asked` with the sizes of `x` for 0. Where one of them is open, -1 is what the other sizes leave for it."""
    copied = [axis for axis, size in enumerate(asked) if size == 0]
    sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(asked)]
    if list(asked).count(-1) == 1 and any(x.shape[axis] < 0 for axis in copied):
        others = [size for axis, size in enumerate(x.shape) if axis not in copied]
        stated = prod([size for size in asked if size > 0])
        if all(size >= 0 for size in others) and prod(others) % stated == 0:
            sizes[list(asked).index(-1)] = prod(others) // stated
    return sizes


@operator("Flatten")
def flatten(node: Node, x: Operand) -> Any:
    axis, shape = node.attribute("axis", 1), tuple(x.shape)
    if not -len(shape) <= axis <= len(shape):
        raise OnnxError(f"{node.where}: axis {axis} is outside of rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    sides = [-1 if any(size < 0 for size in part) else prod(part) for part in (shape[:axis], shape[axis:])]
    if sides.count(-1) == 2 or (-1 in sides and 0 in sides):
        node.shape(x)
    return ops.reshape(x, shape=tuple(sides))


@operator("Squeeze")
def squeeze(node: Node, x: Operand, axes: Operand | None = None) -> Any:
    chosen = node.listed(axes, "axes")
    return ops.squeeze(x, axis=None if chosen is None else tuple(chosen))


@operator("Unsqueeze")
def unsqueeze(node: Node, x: Operand, axes: Operand | None = None) -> Any:
    return ops.expand_dims(x, axis=tuple(node.listed(axes, "axes", needed=True)))


@operator("Transpose")
def transpose(node: Node, x: Operand) -> Any:
    permutation = node.attribute("perm")
    return ops.transpose(x, permutation=None if permutation is None else tuple(permutation))


@operator("Expand", since=8)
def expand(node: Node, x: Operand, shape: Operand) -> Any:
    """`x` and `shape` broadcast against each other."""
    asked = node.integers(shape, "shape") or []
    try:
        return ops.broadcast_to(x, shape=np.broadcast_shapes(node.shape(x), tuple(asked)))
    except ValueError:
        raise OnnxError(f"{node.where}: shapes {tuple(x.shape)} and {tuple(asked)} do not broadcast") from None


@operator("Concat", since=4)
def concatenate(node: Node, *operands: Operand) -> Any:
    return operands[0] if len(operands) == 1 else ops.concatenate(operands, axis=node.required("axis"))


def sliced(x: Any, slices: dict[int, slice]) -> Any:
    """`x` with Python slices along some of its axes."""
    ranges = [range(size)[slices.get(axis, slice(None))] for axis, size in enumerate(x.shape)]
    if all(part == range(size) for part, size in zip(ranges, x.shape, strict=True)):
        return x
    starts, limits, strides = zip(*[(part.start, part.stop, part.step) for part in ranges], strict=True)
    return ops.slice(x, starts=starts, limits=limits, strides=strides)


@operator("Slice")
def slice_(
    node: Node,
    x: Operand,
    starts: Operand | None = None,
    ends: Operand | None = None,
    axes: Operand | None = None,
    steps: Operand | None = None,
) -> Any:
    """Bounds count from the end where they are negative, and those outside are moved to the nearest, as Python's."""
    first, last = node.listed(starts, "starts", needed=True), node.listed(ends, "ends", needed=True)
    chosen = node.listed(axes, "axes")
    places = [normalize_axis(axis, x.ndim) for axis in (range(len(first)) if chosen is None else chosen)]
    node.shape(x)
    bounds = zip(first, last, node.integers(steps, "steps") or [1] * len(first), strict=True)
    return sliced(x, dict(zip(places, [slice(*bound) for bound in bounds], strict=True)))


def _even_sizes(whole: int, count: int) -> list[int]:
    """`count` equal sizes that add up to `whole`; the last ones are smaller where it is no multiple."""
    each = -(-whole // count)
    return [max(min(each, whole - part * each), 0) for part in range(count)]


@operator("Split", since=2)
def split(node: Node, x: Operand, parts: Operand | None = None) -> tuple[Any, ...]:
    """`x` cut into parts of these sizes along the axis; without them, into one for each output.

    From opset 18 on `num_outputs` may say how many parts there are; the last one is then the smaller.
    """
    axis = normalize_axis(node.attribute("axis", 0), x.ndim)
    whole = node.shape(x)[axis]
    count = node.attribute("num_outputs", node.output_count)
    if count != node.output_count:
        raise OnnxError(f"{node.where}: num_outputs is {count}, and {node.output_count} outputs are listed")
    given = node.listed(parts, "split")
    sizes = _even_sizes(whole, count) if given is None else given
    if sum(sizes) != whole or min(sizes, default=0) < 0:
        raise OnnxError(f"{node.where}: parts of sizes {sizes} do not make up dimension {axis}, which is {whole}")
    ends = np.cumsum(sizes)
    return tuple([sliced(x, {axis: slice(int(end) - size, int(end))}) for end, size in zip(ends, sizes, strict=True)])


@operator("Tile", since=6)
def tile(node: Node, x: Operand, repeats: Operand) -> Any:
    return ops.tile(x, repeats=tuple(node.integers(repeats, "repeats") or ()))
