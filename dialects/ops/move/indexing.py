"""Reading at indices that are data, and relatives. Negative indices count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir.affine import AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import MeantOtherwise, called_by_element
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, IndexingOp
from tenon.dialects.families.batching import all_batched, moved_axis, shifted_axes
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.ops.move.index_places import (
    broadcast_apart_from,
    check_any,
    check_places,
    indexed_sizes,
    nearest_inside,
    part_place,
    parts_shape,
    place_inside,
    swapped,
)
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis
from tenon.dialects.types.types import (
    INTEGER_TENSOR,
    NUMERIC_TENSOR,
    STORED_TENSOR,
    element_of,
    f32,
    i64,
    is_bool,
    is_unsigned,
    shape_of,
    tensor_type,
)


@tensor_op
class IotaOp(IndexingOp):
    """The index along `axis` of every element of a tensor of `shape` and `dtype`: 0, 1, 2, ...

    >>> tenon.iota(shape=(2, 3), axis=1)
    """

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
        if is_bool(settings["dtype"]):
            raise InferenceError("dtype is i1, which does not hold numbers to count with")
        return tensor_type(shape, settings["dtype"])

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        return index[settings["axis"]]


def _gathered(shape: Shape, indices: Shape, axis: int) -> Shape:
    """The shape of the elements of a tensor of `shape` at `indices` along `axis`."""
    if shape is None or indices is None:
        return None
    axis = normalize_axis(axis, len(shape))
    check_any(shape, (axis,), indices)
    return (*shape[:axis], *indices, *shape[axis + 1 :])


@tensor_op
class GatherOp(IndexingOp):
    """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...].

    `indices` (integers, of any shape) takes the place of the axis in the shape of the result. Negative indices count
    from the end, others outside of `x` are moved to the nearest element. NumPy's `take` flattens by default; here
    `axis` is 0.

    >>> x = np.array([[1, 2], [3, 4], [5, 6]])
    >>> tenon.gather(x, np.array([1, 0, -1, 99]))
    >>> tenon.gather(x, np.array(1), axis=1)
    """

    name = "tenon.gather"
    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    axis = setting(int, default=0)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    ALIASES: ClassVar[tuple[str, ...]] = ("take",)

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if called_by_element(args, kwargs, "index"):
            raise MeantOtherwise(
                f"{cls.name}: gather(x, dim, index) is PyTorch's; write gather_elements(x, index, axis=dim)",
                lambda: ops.gather_elements(**dict(zip(("x", "axis", "indices"), args, strict=False)), **kwargs),
            )
        return super().bind(args, kwargs)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = operands
        return tensor_type(_gathered(shape_of(x), shape_of(indices), settings["axis"]), element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, indices = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        behind = axis + indices.ndim
        place = place_inside(indices.read(*index[axis:behind]), x.shape[axis])
        return x.read(*index[:axis], place, *index[behind:])

    def operand_places(self) -> tuple[AffineMap | None, ...]:
        axis = normalize_axis(self.settings["axis"], len(shape_of(self.x.type) or ()))
        loops = AffineMap.identity(len(shape_of(self.result.type) or ()))
        return None, AffineMap(loops.num_dims, 0, loops.results[axis:][: len(shape_of(self.indices.type) or ())])

    def reads_rows(self) -> bool:
        rank = len(shape_of(self.x.type) or ())
        return normalize_axis(self.settings["axis"], rank) < rank - 1

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, *, axis: int) -> tuple[Any, ...]:
        return ops.scatter_add(ops.zeros_like(x), nearest_inside(indices, x.shape[axis]), g, axis=axis), None

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x, indices), (x_has, indices_have) = operands, batched
        axis = normalize_axis(settings["axis"], x.ndim - x_has)
        if not indices_have:
            return ops.gather(x, indices, axis=axis + 1)
        if not x_has:
            return moved_axis(ops.gather(x, indices, axis=axis), axis, 0)
        if x.ndim == indices.ndim == 2:
            # Of vectors no parts have to be moved, and places that are neighbours are read side by side.
            return ops.gather_elements(x, indices, axis=1)
        # Each example has places of its own, and parts (...indices, ...before, ...behind) in them.
        parts = ops.gather_nd(moved_axis(x, axis + 1, 1), ops.expand_dims(indices, axis=-1), batch_dims=1)
        return ops.transpose(parts, permutation=swapped(indices.ndim - 1, axis, parts.ndim))


@tensor_op
class GatherElementsOp(IndexingOp):
    """The elements of `x` at `indices` along `axis`, everything else being equal: result[i, j] = x[indices[i, j], j].

    `indices` (integers, of the rank of `x`) has the shape of the result, and is nowhere larger than `x` but along
    `axis`. Negative indices count from the end, others outside of `x` are moved to the nearest element. What `gather`
    is in PyTorch; `take_along_axis` broadcasts, too.

    >>> x = np.array([[1, 2, 3], [4, 5, 6]])
    >>> tenon.gather_elements(x, np.array([[0, 1, -1]]))
    >>> tenon.gather_elements(x, np.array([[2, 0], [-1, 0]]), axis=1)
    """

    name = "tenon.gather_elements"
    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    axis = setting(int, default=0)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = operands
        shape, places, axis = shape_of(x), shape_of(indices), settings["axis"]
        check_places(shape, places, axis)
        if shape is not None and places is not None:
            check_any(shape, (normalize_axis(axis, len(shape)),), places)
        return tensor_type(places, element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, indices = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        place = place_inside(indices.read(*index), x.shape[axis])
        return x.read(*index[:axis], place, *index[axis + 1 :])

    def operand_places(self) -> tuple[AffineMap | None, ...]:
        return None, AffineMap.identity(len(shape_of(self.result.type) or ()))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, *, axis: int) -> tuple[Any, ...]:
        if 0 in g.shape:
            return ops.zeros_like(x), None
        places = nearest_inside(indices, x.shape[axis])
        return ops.scatter_elements(ops.zeros_like(x), places, g, axis=axis, reduction="add"), None

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, indices = all_batched(size, batched, operands)
        return ops.gather_elements(x, indices, axis=shifted_axes(settings["axis"], x.ndim - 1))


@tensor_op
class TakeAlongAxisOp(CompositeOp):
    """The elements of `x` at `indices` along `axis`, where the other axes of both broadcast, as in NumPy.

    >>> x = np.array([[30, 10, 20], [5, 6, 4]])
    >>> tenon.take_along_axis(x, tenon.argsort(x))
    >>> tenon.take_along_axis(x, np.array([[0]]))
    """

    name = "tenon.take_along_axis"
    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = operands
        shape, places = shape_of(x), shape_of(indices)
        if shape is None or places is None:
            return tensor_type(None, element_of(x))
        return tensor_type(broadcast_apart_from(settings["axis"], shape, places)[1], element_of(x))

    @staticmethod
    def decompose(x: Value, indices: Value, *, axis: int) -> Value:
        shape, places = broadcast_apart_from(axis, x.shape, indices.shape)
        return ops.gather_elements(ops.broadcast_to(x, shape=shape), ops.broadcast_to(indices, shape=places), axis=axis)


@tensor_op
class GatherNdOp(IndexingOp):
    """The parts of `x` at `indices`, whose last axis holds indices for the first axes of `x`: x[indices[i]] for each i.

    The first `batch_dims` axes of `x` and `indices` are one and the same. `x` (b..., s..., t...) and `indices`
    (b..., n..., d), where d is the number of axes s, give (b..., n..., t...). Negative indices count from the end,
    others outside of `x` are moved to the nearest element.

    >>> x = np.array([[1, 2], [3, 4], [5, 6]])
    >>> tenon.gather_nd(x, np.array([[0, 1], [-1, 0]]))
    >>> tenon.gather_nd(x, np.array([[1], [0]]))
    """

    name = "tenon.gather_nd"
    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    batch_dims = setting(int, default=0)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices = operands
        shape, places, batch_dims = shape_of(x), shape_of(indices), settings["batch_dims"]
        parts = parts_shape(shape, places, batch_dims)
        if parts is not None and shape is not None and places is not None:
            check_any(shape, range(batch_dims, batch_dims + places[-1]), places[:-1])
        return tensor_type(parts, element_of(x))

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, indices = operands
        return x.read(*part_place(index, x, indices, settings["batch_dims"]))

    def reads_rows(self) -> bool:
        shape, places = shape_of(self.x.type) or (), shape_of(self.indices.type) or (0,)
        return self.settings["batch_dims"] + places[-1] < len(shape)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, *, batch_dims: int) -> tuple[Any, ...]:
        if 0 in g.shape:
            return ops.zeros_like(x), None
        places = nearest_inside(indices, indexed_sizes(x, indices, batch_dims))
        return ops.scatter_nd(ops.zeros_like(x), places, g, reduction="add", batch_dims=batch_dims), None

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        if settings["batch_dims"] == 0 and not batched[0]:
            return ops.gather_nd(*operands)
        return ops.gather_nd(*all_batched(size, batched, operands), batch_dims=settings["batch_dims"] + 1)


@tensor_op
class EmbeddingOp(CompositeOp):
    """The rows of `weight` (rows, ...) at `indices` (integers, of any shape).

    As in `gather`, negative indices count from the end, and those out of range give the nearest row.

    >>> tenon.embedding(np.array([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]]), np.array([2, 0, 2]))
    """

    name = "tenon.embedding"
    weight = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def decompose(weight: Value, indices: Value) -> Value:
        return ops.gather(weight, indices, axis=0)


@tensor_op
class OneHotOp(CompositeOp):
    """`on_value` at each of the `indices`, `off_value` elsewhere, along a new axis of size `num_classes` at position
    `axis` of the result.

    Negative indices count from the end; at others outside of the axis all is `off_value`.

    >>> tenon.one_hot(np.array([1, 0, -1, 5]), num_classes=3)
    """

    name = "tenon.one_hot"
    traits = traits_def(Pure(), NoGradient())
    indices = operand_def(INTEGER_TENSOR)
    num_classes = setting(int)
    axis = setting(int, default=-1)
    dtype = setting("dtype", default=f32)
    on_value = setting(float, default=1.0)
    off_value = setting(float, default=0.0)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["num_classes"] < 0:
            raise InferenceError(f"num_classes is {settings['num_classes']} where a number of at least 0 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        if shape is None:
            return tensor_type(None, settings["dtype"])
        axis = normalize_axis(settings["axis"], len(shape) + 1)
        return tensor_type((*shape[:axis], settings["num_classes"], *shape[axis:]), settings["dtype"])

    @staticmethod
    def decompose(
        indices: Value, *, num_classes: int, axis: int, dtype: Any, on_value: float, off_value: float
    ) -> Value:
        axis = normalize_axis(axis, indices.ndim + 1)
        if is_unsigned(indices.element_type):
            # Beyond i64, too, an index is outside.
            indices = ops.minimum(indices, min(num_classes, int(np.iinfo(indices.dtype).max)))
        wide = ops.cast(indices, dtype=i64)
        wanted = ops.expand_dims(ops.select(wide < 0, wide + num_classes, wide), axis=axis)
        places = ops.iota(shape=tuple([num_classes if i == axis else 1 for i in range(wanted.ndim)]), axis=axis)
        return ops.select(wanted == places, ops.full((), on_value, dtype), ops.full((), off_value, dtype))


@tensor_op
class InvertPermutationOp(CompositeOp):
    """The permutation that undoes `x` (n,), which holds each of 0, ..., n - 1 once: result[x[i]] = i.

    >>> p = np.array([2, 0, 1])
    >>> tenon.invert_permutation(p)
    >>> np.array([10, 20, 30])[p][tenon.invert_permutation(p)]
    """

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
