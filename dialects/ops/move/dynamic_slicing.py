"""Slices whose sizes are known and whose place is data, and what is written to slices.

A start that is data counts from the front, or from the end if it is negative, and is then moved so that the slice lies
inside, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import IndexingOp, ScatterOp
from tenon.dialects.families.batching import all_batched
from tenon.dialects.families.linalg_builders import Reader, clamp, static_shape
from tenon.dialects.ops.move.index_places import counted_from_front
from tenon.dialects.ops.move.slicing import SliceOp
from tenon.dialects.types.shapes import InferenceError, Shape, refine, show
from tenon.dialects.types.types import INTEGER_TENSOR, STORED_TENSOR, element_of, shape_of, tensor_type


def _check_fit(shape: Shape, sizes: Shape, starts: Shape, what: str) -> None:
    """Raise unless a slice of `sizes` fits into a tensor of `shape`, with a start for each axis."""
    if starts is not None and len(starts) != 1:
        raise InferenceError(f"starts has shape {show(starts)} where (rank of x,) is needed")
    for rank in (len(known) for known in (shape, sizes) if known is not None):
        if starts is not None and starts[0] not in (-1, rank):
            raise InferenceError(f"starts has {starts[0]} entries where {rank} are needed")
    if shape is None or sizes is None:
        return
    if len(shape) != len(sizes):
        raise InferenceError(f"rank is {len(shape)} in x and {len(sizes)} in {what}")
    for axis, (whole, size) in enumerate(zip(shape, sizes, strict=True)):
        if 0 <= whole < size:
            raise InferenceError(f"dimension {axis} is {whole} in x and {size} in {what}, which may not be larger")


def _first(starts: Reader, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Value]:
    """Where the slice starts along each axis."""
    read = [counted_from_front(starts.read(axis), size) for axis, size in enumerate(shape)]
    return [clamp(start, whole - size + 1) for start, whole, size in zip(read, shape, sizes, strict=True)]


@tensor_op
class DynamicSliceOp(IndexingOp):
    """The slice of `x`, of the given `sizes`, that begins at `starts` (rank,).

    Negative starts count from the end; a slice that would leave `x` is moved inside.

    >>> x = np.array([0, 1, 2, 3, 4])
    >>> tenon.dynamic_slice(x, np.array([1]), sizes=(3,))
    >>> tenon.dynamic_slice(x, np.array([4]), sizes=(3,))
    """

    name = "tenon.dynamic_slice"
    x = operand_def(STORED_TENSOR)
    starts = operand_def(INTEGER_TENSOR)
    sizes = setting(tuple)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def check(**settings: Any) -> None:
        if any(size < 0 for size in settings["sizes"]):
            raise InferenceError(f"sizes is {settings['sizes']} where sizes of at least 0 are needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, starts = operands
        _check_fit(shape_of(x), settings["sizes"], shape_of(starts), "sizes")
        return tensor_type(settings["sizes"], element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, starts = operands
        first = _first(starts, x.shape, settings["sizes"])
        return x.read_inside(*[start + i for start, i in zip(first, index, strict=True)])

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, starts: Value, *, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        return ops.dynamic_update_slice(ops.zeros_like(x), g, starts), None

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, starts = operands
        if batched[1]:
            return NotImplemented
        return ops.dynamic_slice(x, _behind_examples(starts), sizes=(size, *settings["sizes"]))


class _ReplacingOp(ScatterOp):
    """`x` with `update` in the place of a slice."""

    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "update")
    UPDATES: ClassVar[str] = "update"
    STAYS_INSIDE: ClassVar[bool] = True
    HAS_DISTINCT_TARGETS: ClassVar[bool] = True

    @staticmethod
    def combine(old: Value, new: Value, **settings: Any) -> Value:
        return new

    @classmethod
    def replaces(cls, **settings: Any) -> bool:
        return True


@tensor_op
class DynamicUpdateSliceOp(_ReplacingOp):
    """`x` with `update` in the place of the slice that begins at `starts` (rank,) and has its shape.

    Negative starts count from the end; a slice that would leave `x` is moved inside.

    >>> tenon.dynamic_update_slice(np.array([0, 1, 2, 3, 4]), np.array([10, 20]), np.array([-3]))
    """

    name = "tenon.dynamic_update_slice"
    x = operand_def(STORED_TENSOR)
    update = operand_def(STORED_TENSOR)
    starts = operand_def(INTEGER_TENSOR)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, update, starts = operands
        _check_fit(shape_of(x), shape_of(update), shape_of(starts), "update")
        return x

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        x, update, starts = operands
        return tuple([start + i for start, i in zip(_first(starts, x.shape, update.shape), index, strict=True)])

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, update: Value, starts: Value) -> tuple[Any, ...]:
        outside = ops.dynamic_update_slice(g, ops.zeros_like(update), starts)
        return outside, ops.dynamic_slice(g, starts, sizes=update.shape), None

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        if batched[2]:
            return NotImplemented
        x, update = all_batched(size, batched[:2], operands[:2])
        return ops.dynamic_update_slice(x, update, _behind_examples(operands[2]))


@tensor_op
class SliceScatterOp(_ReplacingOp):
    """`x` with `update` in the place of the elements that `slice` reads with the same settings.

    >>> x = np.array([0, 1, 2, 3, 4, 5])
    >>> tenon.slice_scatter(x, np.array([10, 20]), starts=(1,), limits=(4,), strides=(2,))
    """

    name = "tenon.slice_scatter"
    x = operand_def(STORED_TENSOR)
    update = operand_def(STORED_TENSOR)
    starts = setting(tuple)
    limits = setting(tuple)
    strides = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        SliceOp.check(**settings)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, update = operands
        part, given = shape_of(SliceOp.infer(x, **settings)), shape_of(update)
        try:
            refine(part, given)
        except InferenceError:
            raise InferenceError(
                f"update has shape {show(given)} where {show(part)}, that of the slice, is needed"
            ) from None
        return x

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        SliceOp.require_inside(static_shape(operands[0]), static_shape(operands[1]), self.settings)
        return super().structured(operands)

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        strides = settings["strides"] or (1,) * len(index)
        stepped = [i if stride == 1 else i * stride for i, stride in zip(index, strides, strict=True)]
        return tuple([i + start if start != 0 else i for i, start in zip(stepped, settings["starts"], strict=True)])

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, update: Value, **settings: Any) -> tuple[Any, ...]:
        return ops.slice_scatter(g, ops.zeros_like(update), **settings), ops.slice(g, **settings)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, update = all_batched(size, batched, operands)
        strides = settings["strides"]
        return ops.slice_scatter(
            x,
            update,
            starts=(0, *settings["starts"]),
            limits=(size, *settings["limits"]),
            strides=None if strides is None else (1, *strides),
        )


def _behind_examples(starts: Value) -> Value:
    """Where slices of all examples start."""
    return ops.concatenate([ops.zeros((1,), starts.element_type), starts])
