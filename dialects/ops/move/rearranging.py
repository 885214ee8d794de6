"""Ops that repeat, rotate and pick out elements: tile, repeat, roll, space to depth."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning, MeantOtherwise, also_called
from tenon.dialects.definition.operands import axis_or_all, known_elements, shaped
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement, reordered_axes
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis, show
from tenon.dialects.types.types import STORED_TENSOR, element_of, shape_of, tensor_type


def _scaled(size: int, factor: int) -> int:
    return -1 if size < 0 else size * factor


def _replaced(shape: tuple[int, ...], axis: int, *sizes: int) -> tuple[int, ...]:
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


@tensor_op
class TileOp(KeepsElement, CompositeOp):
    """`x` repeated `repeats[i]` times along axis i, all of it after all of it. What is shorter, the shape of `x` or
    `repeats`, is continued by ones at the front.

    >>> tenon.tile(np.array([[1, 2]]), (2, 2))
    >>> tenon.tile(np.array([1, 2]), (3,))
    """

    name = "tenon.tile"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dims": "repeats"}
    x = operand_def(STORED_TENSOR)
    repeats = setting(tuple)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if any(count < 0 for count in settings["repeats"]):
            raise InferenceError(f"repeats is {settings['repeats']} where numbers of at least 0 are needed")

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        padded, counts = cls.aligned(shape, settings["repeats"])
        return tuple(map(_scaled, padded, counts))

    @staticmethod
    def aligned(shape: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A shape and counts of one rank."""
        rank = max(len(shape), len(repeats))
        return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(repeats)) + repeats

    @staticmethod
    def decompose(x: Value, *, repeats: tuple[int, ...]) -> Value:
        shape, counts = TileOp.aligned(x.shape, repeats)
        apart = [part for count, size in zip(counts, shape, strict=True) for part in (count, size)]
        alone = [part for size in shape for part in (1, size)]
        whole = tuple([count * size for count, size in zip(counts, shape, strict=True)])
        return ops.reshape(ops.broadcast_to(ops.reshape(x, shape=tuple(alone)), shape=tuple(apart)), shape=whole)


def _of_that_size(operands: list[Any], settings: dict[str, Any], value: Any) -> None:
    """`output_size`: how many elements there are along the axis, which one number of repeats tells, too."""
    x, axis = axis_or_all("repeat", shaped(operands[0]), settings.get("axis"))
    _check_total(x.shape[axis] * settings["repeats"], value)


def _check_total(total: int, output_size: int | None) -> None:
    if output_size not in (None, total):
        raise InferenceError(f"repeat: repeats make {total} elements, and output_size is {output_size}")


@also_called(input="x", dim="axis")
def _repeat_each(x: Any, repeats: Any, axis: int | None = None, *, output_size: int | None = None) -> Any:
    """`repeat` with a number for each place along the axis."""
    x, axis = axis_or_all("repeat", shaped(x, "repeat: x"), axis)
    counts, size = shaped(repeats, "repeat: repeats"), x.shape[axis]
    if counts.shape not in ((size,), (1,)):
        raise InferenceError(f"repeat: repeats have shape {show(counts.shape)} where {show((size,))} is needed")
    known = known_elements(counts)
    if known is None:
        if output_size is None:
            raise TypeError("repeat: repeats are traced, so output_size has to say what their sum is")
        ends = ops.cumsum(ops.broadcast_to(ops.cast(counts, dtype="i64"), shape=(size,)))
        places = ops.searchsorted(ends, np.arange(output_size), side="right")
        return ops.gather(x, ops.minimum(places, size - 1), axis=axis)
    if known.dtype.kind not in "iu" or (known < 0).any():
        raise InferenceError(f"repeat: repeats are {known} where integers of at least 0 are needed")
    places = np.repeat(np.arange(size), known)
    _check_total(len(places), output_size)
    return ops.gather(x, places, axis=axis)


@tensor_op
class RepeatOp(CompositeOp):
    """`x` with each element repeated `repeats` times along `axis`; without `axis`, of all elements in row-major order.

    A vector `repeats` has a number for each place along the axis. Where it is computed in a traced function,
    `output_size` has to say what its sum is: what is too much is left out, and the last element fills what lacks.

    PyTorch calls this `repeat_interleave`, and `tile` repeat.

    >>> tenon.repeat(np.array([[1, 2], [3, 4]]), 2)
    >>> tenon.repeat(np.array([[1, 2], [3, 4]]), 2, axis=1)
    >>> tenon.repeat(np.array([[1, 2], [3, 4]]), np.array([2, 1]), axis=0)
    """

    name = "tenon.repeat"
    x = operand_def(STORED_TENSOR)
    repeats = setting(int)
    axis = setting(int, default=None)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("repeat_interleave",)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"output_size": _of_that_size}

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        repeats = kwargs.get("repeats", args[1] if len(args) > 1 else 0)
        if isinstance(repeats, list | tuple) or getattr(repeats, "ndim", 0):
            message = f"{cls.name}: repeats are several numbers; write tenon.repeat(x, repeats, axis)"
            raise MeantOtherwise(message, lambda: _repeat_each(*args, **kwargs))
        return super().bind(args, kwargs)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["repeats"] < 0:
            raise InferenceError(f"repeats is {settings['repeats']} where a number of at least 0 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape, axis, repeats = shape_of(x), settings["axis"], settings["repeats"]
        if axis is None:
            count = -1 if shape is None or -1 in shape else prod(shape)
            return tensor_type((_scaled(count, repeats),), element_of(x))
        if shape is None:
            return tensor_type(None, element_of(x))
        axis = normalize_axis(axis, len(shape))
        return tensor_type(_replaced(shape, axis, _scaled(shape[axis], repeats)), element_of(x))

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any] | None:
        axis = self.settings["axis"]
        return None if axis is None else self.settings | {"axis": reordered_axes(axis, order)}

    @staticmethod
    def decompose(x: Value, *, repeats: int, axis: int | None) -> Value:
        if axis is None:
            x = ops.reshape(x, shape=(prod(x.shape),))
        along = normalize_axis(axis or 0, x.ndim)
        size = x.shape[along]
        apart = ops.broadcast_to(ops.expand_dims(x, axis=along + 1), shape=_replaced(x.shape, along, size, repeats))
        return ops.reshape(apart, shape=_replaced(x.shape, along, size * repeats))


@tensor_op
class RollOp(CompositeOp):
    """`x` moved by `shift` places along `axis`, what leaves at one end coming in at the other.

    With several axes there is a shift for each of them, or one for all; without `axis` it is all elements in row-major
    order that move.

    >>> tenon.roll(np.array([1, 2, 3, 4]), 1)
    >>> tenon.roll(np.array([[1, 2], [3, 4], [5, 6]]), (-1, 1), axis=(0, 1))
    """

    name = "tenon.roll"
    x = operand_def(STORED_TENSOR)
    shift = setting(tuple)
    axis = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        shift, axis = settings["shift"], settings["axis"]
        if len(shift) not in (1, 1 if axis is None else len(axis)):
            raise InferenceError(f"shift {shift} has {len(shift)} entries for axis {axis}")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None:
            for axis in settings["axis"] or ():
                normalize_axis(axis, len(shape))
        return x

    @staticmethod
    def decompose(x: Value, *, shift: tuple[int, ...], axis: tuple[int, ...] | None) -> Value:
        if 0 in x.shape:
            return x
        if axis is None:
            flat = ops.reshape(x, shape=(prod(x.shape),))
            return ops.reshape(_rolled(flat, shift[0], 0), shape=x.shape)
        for places, along in zip(shift * len(axis) if len(shift) == 1 else shift, axis, strict=True):
            x = _rolled(x, places, normalize_axis(along, x.ndim))
        return x


def _rolled(x: Value, shift: int, axis: int) -> Value:
    size = x.shape[axis]
    cut = -shift % size
    if cut == 0:
        return x
    zeros = (0,) * x.ndim
    front = ops.slice(x, starts=zeros, limits=_replaced(x.shape, axis, cut))
    back = ops.slice(x, starts=_replaced(zeros, axis, cut), limits=x.shape)
    return ops.concatenate([back, front], axis=axis)


class BlockOp(KeepsElement, CompositeOp):
    """Channels exchanged for squares of pixels, of images (..., channels, height, width)."""

    x = operand_def(STORED_TENSOR)
    block = setting(int)
    mode = setting(str, default="DCR", choices=("DCR", "CRD"))
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["block"] < 1:
            raise InferenceError(f"block is {settings['block']} where 1 or more is needed")


def _image(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, int, int]:
    """A shape as that of images: leading sizes, channels, height, width."""
    if len(shape) < 3:
        raise InferenceError(f"x has shape {show(shape)} where (..., channels, height, width) is needed")
    return shape[:-3], shape[-3], shape[-2], shape[-1]


def _divided(size: int, divisor: int, what: str) -> int:
    if size >= 0 and size % divisor:
        raise InferenceError(f"{what} is {size}, which is no multiple of {divisor}")
    return -1 if size < 0 else size // divisor


def _permuted(x: Value, shape: Sequence[int], order: Sequence[int], result: Sequence[int]) -> Value:
    """`x` with its last axes cut into `shape`, put into `order` and made `result`."""
    leading = x.shape[:-3]
    apart = ops.reshape(x, shape=(*leading, *shape))
    moved = ops.transpose(apart, permutation=(*range(len(leading)), *[len(leading) + i for i in order]))
    return ops.reshape(moved, shape=(*leading, *result))


@tensor_op
class DepthToSpaceOp(BlockOp):
    """`x` (..., c, h, w) with `block` times `block` channels made squares of pixels: (..., c / block², h block,
    w block).

    In `mode` DCR the channels are ordered by place in the square, then by channel of the result; in CRD the other way
    round, as PyTorch's `pixel_shuffle` has it (Shi et al., arXiv:1609.05158).

    >>> tenon.depth_to_space(np.array([[[1, 10]], [[2, 20]], [[3, 30]], [[4, 40]]]), 2)
    """

    name = "tenon.depth_to_space"

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        (leading, channels, height, width), block = _image(shape), settings["block"]
        depth = _divided(channels, block * block, "the number of channels")
        return (*leading, depth, _scaled(height, block), _scaled(width, block))

    @staticmethod
    def decompose(x: Value, *, block: int, mode: str) -> Value:
        channels, height, width = x.shape[-3:]
        depth = channels // (block * block)
        result = (depth, height * block, width * block)
        if mode == "DCR":
            return _permuted(x, (block, block, depth, height, width), (2, 3, 0, 4, 1), result)
        return _permuted(x, (depth, block, block, height, width), (0, 3, 1, 4, 2), result)


@tensor_op
class SpaceToDepthOp(BlockOp):
    """`x` (..., c, h, w) with squares of `block` times `block` pixels made channels: (..., c block², h / block, w /
    block). It undoes `depth_to_space` of the same `mode`.

    >>> tenon.space_to_depth(np.array([[[1, 2, 10, 20], [3, 4, 30, 40]]]), 2)[:, 0]
    """

    name = "tenon.space_to_depth"

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        (leading, channels, height, width), block = _image(shape), settings["block"]
        sizes = _divided(height, block, "the height"), _divided(width, block, "the width")
        return (*leading, _scaled(channels, block * block), *sizes)

    @staticmethod
    def decompose(x: Value, *, block: int, mode: str) -> Value:
        channels, height, width = x.shape[-3:]
        apart = (channels, height // block, block, width // block, block)
        result = (channels * block * block, height // block, width // block)
        return _permuted(x, apart, (2, 4, 0, 1, 3) if mode == "DCR" else (0, 2, 4, 1, 3), result)
