"""Reading and writing at indices that are data. Negative indices count from the end."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.base import tensor_op
from tenon.dialects.families import CompositeOp, IndexingOp, ScatterOp
from tenon.dialects.inference import InferenceError, Shape, normalize_axis, refine, show
from tenon.dialects.settings import setting
from tenon.dialects.structured import Reader, as_index
from tenon.dialects.traits import NoGradient
from tenon.dialects.types import ANY_TENSOR, INTEGER_TENSOR, NUMERIC_TENSOR, element_of, f32, i64, shape_of, tensor_type
from tenon.dialects.value import Value, ops


@tensor_op
class IotaOp(IndexingOp):
    """The index along `axis` of every element of a tensor of `shape` and `dtype`: 0, 1, 2, ..."""

    name = "tenon.iota"
    traits = traits_def(Pure(), NoGradient())
    shape = setting(tuple)
    axis = setting(int, default=0)
    dtype = setting("dtype", default=i64)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = settings["shape"]
        if any(size < 0 for size in shape):
            raise InferenceError(f"shape is {shape} where sizes of at least 0 are needed")
        normalize_axis(settings["axis"], len(shape))
        return tensor_type(shape, settings["dtype"])

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        return index[settings["axis"]]


def _counted_from_front(position: Value, size: int) -> Value:
    """An index (of any integer type) as `index`, negative ones counted from the end of `size` elements."""
    place = as_index(position)
    return ops.select(place < 0, place + size, place)


def _gathered(shape: Shape, indices: Shape, axis: int) -> Shape:
    """The shape of the elements of a tensor of `shape` at `indices` along `axis`."""
    if shape is None or indices is None:
        return None
    axis = normalize_axis(axis, len(shape))
    if shape[axis] == 0 and prod(indices) > 0:
        raise InferenceError(f"x has shape {show(shape)}, so it has no elements along axis {axis} to take")
    return (*shape[:axis], *indices, *shape[axis + 1 :])


@tensor_op
class GatherOp(IndexingOp):
    """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...].

    `indices` (integers, of any shape) takes the place of the axis in the shape of the result. Negative indices count
    from the end, others outside of `x` are moved to the nearest element. NumPy's `take` flattens by default; here
    `axis` is 0.
    """

    name = "tenon.gather"
    x = operand_def(ANY_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    axis = setting(int, default=0)
    result = result_def(ANY_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    ALIASES: ClassVar[tuple[str, ...]] = ("take",)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = operands
        return tensor_type(_gathered(shape_of(x), shape_of(indices), settings["axis"]), element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, indices = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        behind = axis + indices.ndim
        place = _counted_from_front(indices.read(*index[axis:behind]), x.shape[axis])
        return x.read(*index[:axis], place, *index[behind:])

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, *, axis: int) -> tuple[Any, ...]:
        size = x.shape[axis]
        nearest = ops.clip(indices, low=_representable(-size, indices), high=_representable(size - 1, indices))
        return ops.scatter_add(ops.zeros_like(x), nearest, g, axis=axis), None


def _representable(bound: int, indices: Value) -> int:
    """`bound`, or the nearest integer that the dtype of `indices` holds."""
    limit = 1 << (8 * indices.dtype.itemsize - 1)
    return max(-limit, min(bound, limit - 1))


@tensor_op
class ScatterAddOp(ScatterOp):
    """`x` with `updates` added at `indices` along `axis`: result[..., indices[i], ...] += updates[..., i, ...].

    `updates` has the shape that `gather(x, indices, axis)` has. What has one index is added up, negative indices count
    from the end, and updates at other indices outside of `x` are left out.
    """

    name = "tenon.scatter_add"
    x = operand_def(NUMERIC_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    updates = operand_def(NUMERIC_TENSOR)
    axis = setting(int, default=0)
    result = result_def(NUMERIC_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "updates")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices, updates = operands
        shape, places = shape_of(x), shape_of(indices)
        if shape is not None and places is not None:
            axis = normalize_axis(settings["axis"], len(shape))
            needed = (*shape[:axis], *places, *shape[axis + 1 :])
            try:
                refine(needed, shape_of(updates))
            except InferenceError:
                raise InferenceError(
                    f"updates has shape {show(shape_of(updates))} where {show(needed)} is needed, "
                    f"by x of shape {show(shape)} and indices of shape {show(places)}"
                ) from None
        return x

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        x, indices, _ = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        behind = axis + indices.ndim
        place = _counted_from_front(indices.read(*index[axis:behind]), x.shape[axis])
        return (*index[:axis], place, *index[behind:])

    @staticmethod
    def combine(old: Value, new: Value) -> Value:
        return old + new

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, updates: Value, *, axis: int) -> tuple[Any, ...]:
        axis = normalize_axis(axis, x.ndim)
        size = x.shape[axis]
        if size == 0 or 0 in updates.shape:
            return g, None, ops.zeros_like(updates)
        wide = ops.cast(indices, dtype=i64)
        kept = ops.reshape((wide >= -size) & (wide < size), shape=(*indices.shape, *(1,) * (x.ndim - 1 - axis)))
        return g, None, ops.select(kept, ops.gather(g, indices, axis=axis), 0.0)


@tensor_op
class EmbeddingOp(CompositeOp):
    """The rows of `weight` (rows, ...) at `indices` (integers, of any shape).

    As in `gather`, negative indices count from the end, and those out of range give the nearest row.
    """

    name = "tenon.embedding"
    weight = operand_def(ANY_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    result = result_def(ANY_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def decompose(weight: Value, indices: Value) -> Value:
        return ops.gather(weight, indices, axis=0)


@tensor_op
class OneHotOp(CompositeOp):
    """1 at each of the `indices`, 0 elsewhere, along a new last axis of size `num_classes`; all 0 for indices outside
    of it.
    """

    name = "tenon.one_hot"
    traits = traits_def(Pure(), NoGradient())
    indices = operand_def(INTEGER_TENSOR)
    num_classes = setting(int)
    dtype = setting("dtype", default=f32)
    result = result_def(ANY_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        return tensor_type(None if shape is None else (*shape, settings["num_classes"]), settings["dtype"])

    @staticmethod
    def decompose(indices: Value, *, num_classes: int, dtype: Any) -> Value:
        places = ops.iota(shape=(num_classes,))
        return ops.cast(ops.expand_dims(indices, axis=-1) == places, dtype=dtype)


@tensor_op
class InvertPermutationOp(CompositeOp):
    """The permutation that undoes `x` (n,), which holds each of 0, ..., n - 1 once: result[x[i]] = i."""

    name = "tenon.invert_permutation"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) != 1:
            raise InferenceError(f"rank of x is {len(shape)} where 1 is needed")
        return x

    @staticmethod
    def decompose(x: Value) -> Value:
        # Each place is written once, so adding to zeros is writing.
        return ops.scatter_add(ops.zeros_like(x), x, ops.iota(shape=x.shape, dtype=x.element_type))
