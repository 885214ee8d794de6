"""Ops that rearrange elements: reshape, transpose, broadcast and relatives."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.dialects import tensor
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import Meaning, also_called, always_new
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import also_function, tensor_function
from tenon.dialects.definition.scalar import as_index
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import KeepsMemory, NoGradient
from tenon.dialects.definition.value import Value, emit, ops
from tenon.dialects.families import CompositeOp, IndexingOp, IndexMapOp, StructuredOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.batching import aligned
from tenon.dialects.families.linalg_builders import Reader, size_vector, static_shape
from tenon.dialects.types.shapes import (
    InferenceError,
    Shape,
    exchanged,
    flattened,
    normalize_axes,
    normalize_axis,
    show,
)
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import ANY_TENSOR, STORED_TENSOR, element_of, i64, shape_of, tensor_type

Index = tuple[AffineExpr, ...]


@tensor_op
class ReshapeOp(StructuredOp):
    """The elements of `x` in row-major order in a new `shape`, of which one size may be -1 and is then computed.

    >>> tenon.reshape(np.array([1, 2, 3, 4, 5, 6]), (2, -1))
    """

    name = "tenon.reshape"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"copy": always_new}
    traits = traits_def(Pure(), KeepsMemory())
    x = operand_def(STORED_TENSOR)
    shape = setting(tuple)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        return tensor_type(_reshaped(shape_of(x), settings["shape"]), element_of(x))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        shape = static_shape(self.results[0])
        if static_shape(x) == shape:
            return [x]
        op = tensor.ReshapeOp.create(operands=[x, size_vector(shape)], result_types=[self.results[0].type])
        return [emit(op).results[0]]

    vjp = staticmethod(lambda g, out, x, *, shape: ops.reshape(g, shape=x.shape))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        return ops.reshape(x, shape=(size, *_reshaped(x.shape[1:], settings["shape"])))


def _reshaped(source: Shape, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with -1 computed from the number of elements, where that is known."""
    if any(size < -1 for size in shape) or shape.count(-1) > 1:
        raise InferenceError(f"shape is {show_sizes(shape)} where sizes and at most one -1 are needed")
    if source is None or any(size < 0 for size in source):
        return shape
    count, known = prod(source), prod(size for size in shape if size >= 0)
    if -1 not in shape and count != known:
        raise InferenceError(f"x has {count} elements, and shape {show_sizes(shape)} has {known}")
    if -1 in shape and (known == 0 or count % known):
        raise InferenceError(f"the {count} elements of x do not fill a shape {show_sizes(shape)}")
    return tuple([count // known if size < 0 else size for size in shape])


def show_sizes(shape: tuple[int, ...]) -> str:
    """A shape as it was given, -1 included."""
    return str(tuple(shape))


@tensor_op
class SizeOp(IndexingOp):
    """The product of the sizes `value`, as an i64 of rank 0: what is known at launch only, as a tensor to compute with.

    Where a size takes the place of an operand (`x / x.shape[0]`) this op is understood.

    >>> tenon.size(value=(4, 3))
    """

    name = "tenon.size"
    value = setting(tuple)
    result = result_def(ANY_TENSOR)
    traits = traits_def(Pure(), NoGradient())

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return tensor_type((), i64)

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        return as_index(prod(settings["value"]))


@tensor_op
class TransposeOp(IndexMapOp):
    """`x` with its axes reordered: axis i of the result is axis `permutation[i]` of `x`, or reversed without it.

    Two integers, not in a tuple, are axes that change places, as in PyTorch.

    >>> tenon.transpose(np.array([[1, 2, 3], [4, 5, 6]]))
    >>> tenon.transpose(np.zeros((2, 3, 4)), (1, 2, 0)).shape
    """

    name = "tenon.transpose"
    x = operand_def(STORED_TENSOR)
    permutation = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("permute_dims",)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"axes": "permutation"}

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if "dim0" in kwargs and "dim1" in kwargs:
            kwargs = {**kwargs}
            args = (*args, kwargs.pop("dim0"), kwargs.pop("dim1"))
        if len(args) == 3:
            args = (args[0], exchanged(shaped(args[0]).ndim, *args[1:]))
        return super().bind(args, kwargs)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is None:
            permutation = settings["permutation"]
            return tensor_type(None if permutation is None else (-1,) * len(permutation), element_of(x))
        return tensor_type(tuple([shape[i] for i in cls.order(len(shape), settings["permutation"])]), element_of(x))

    @staticmethod
    def order(rank: int, permutation: tuple[int, ...] | None) -> tuple[int, ...]:
        """The axis of the operand for each axis of the result."""
        if permutation is None:
            return tuple(reversed(range(rank)))
        if len(permutation) != rank:
            raise InferenceError(f"permutation {permutation} has {len(permutation)} axes and x has {rank}")
        order = tuple([normalize_axis(axis, rank, "an entry of permutation") for axis in permutation])
        if len(set(order)) != rank:
            raise InferenceError(f"permutation {permutation} names an axis twice")
        return order

    @staticmethod
    def source(index: Index, shape: tuple[int, ...], /, **settings: Any) -> Index:
        order = TransposeOp.order(len(shape), settings["permutation"])
        return tuple([index[order.index(axis)] for axis in range(len(shape))])

    @staticmethod
    def vjp(  # pyright: ignore[reportIncompatibleMethodOverride]
        g: Value, out: Value, x: Value, *, permutation: tuple[int, ...] | None
    ) -> tuple[Any, ...]:
        order = TransposeOp.order(x.ndim, permutation)
        return (ops.transpose(g, permutation=tuple([order.index(axis) for axis in range(x.ndim)])),)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        order = cls.order(x.ndim - 1, settings["permutation"])
        return ops.transpose(x, permutation=(0, *[axis + 1 for axis in order]))


@tensor_op
class BroadcastToOp(IndexMapOp):
    """`x` repeated along its axes of size 1, and along new leading axes, up to `shape`; -1 keeps the size of `x`.

    >>> tenon.broadcast_to(np.array([1, 2, 3]), (2, 3))
    >>> tenon.broadcast_to(np.array([[1], [2]]), (-1, 3))
    """

    name = "tenon.broadcast_to"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"size": "shape"}
    x = operand_def(STORED_TENSOR)
    shape = setting(tuple)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("expand",)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape, source = settings["shape"], shape_of(x)
        if any(size < -1 for size in shape):
            raise InferenceError(f"shape is {show_sizes(shape)} where sizes, or -1, are needed")
        if source is None:
            return tensor_type(shape, element_of(x))
        new = len(shape) - len(source)
        if new < 0:
            raise InferenceError(f"x has rank {len(source)}, and shape {show_sizes(shape)} has {len(shape)}")
        if any(size < 0 for size in shape[:new]):
            raise InferenceError(
                f"shape is {show_sizes(shape)}, and -1 stands before the axes of x, of shape {show(source)}"
            )
        result = list(shape)
        for axis, size in enumerate(source, start=new):
            if shape[axis] < 0:
                result[axis] = size
            elif size not in (1, -1, shape[axis]):
                message = f"dimension {axis - new} of x is {size} and cannot be repeated to {shape[axis]}"
                raise InferenceError(message, (size, shape[axis]))
        return tensor_type(tuple(result), element_of(x))

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any]:
        shape = self.settings["shape"]
        return {"shape": tuple([shape[axis] for axis in order])}

    @staticmethod
    def source(index: Index, shape: tuple[int, ...], /, **settings: Any) -> Index:
        target = settings["shape"]
        new = len(index) - len(shape)
        return tuple(
            [
                AffineExpr.constant(0) if size == 1 and target[new + axis] not in (1, -1) else index[new + axis]
                for axis, size in enumerate(shape)
            ]
        )

    @staticmethod
    def vjp(  # pyright: ignore[reportIncompatibleMethodOverride]
        g: Value, out: Value, x: Value, *, shape: tuple[int, ...]
    ) -> tuple[Any, ...]:
        new = g.ndim - x.ndim
        repeated = [new + i for i, size in enumerate(x.shape) if size == 1 and g.shape[new + i] != 1]
        return (ops.reshape(ops.sum(g, axis=(*range(new), *repeated)), shape=x.shape),)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x,), shape = operands, settings["shape"]
        return ops.broadcast_to(aligned(x, True, len(shape)), shape=(size, *shape))


@tensor_op
class ExpandDimsOp(KeepsElement, CompositeOp):
    """`x` with a new axis of size 1 at each position `axis` of the result.

    >>> tenon.expand_dims(np.array([1, 2, 3]), -1)
    >>> tenon.expand_dims(np.zeros((2, 3)), (0, 2)).shape
    """

    name = "tenon.expand_dims"
    x = operand_def(STORED_TENSOR)
    axis = setting(tuple)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("unsqueeze",)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        rank = len(shape) + len(settings["axis"])
        axes = normalize_axes(settings["axis"], rank)
        sizes = iter(shape)
        return tuple([1 if i in axes else next(sizes) for i in range(rank)])

    @staticmethod
    def decompose(x: Value, *, axis: tuple[int, ...]) -> Value:
        return ops.reshape(x, shape=ExpandDimsOp.infer_shape(x.shape, axis=axis))


@tensor_op
class SqueezeOp(KeepsElement, CompositeOp):
    """`x` without its axes `axis`, which must have size 1; without `axis`, without all axes of size 1.

    >>> tenon.squeeze(np.array([[[1], [2]]]))
    >>> tenon.squeeze(np.zeros((1, 2, 1)), 0).shape
    """

    name = "tenon.squeeze"
    x = operand_def(STORED_TENSOR)
    axis = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        axis = settings["axis"]
        if axis is None and -1 in shape:
            return None
        if axis is None:
            if open_sizes := [size for size in shape if isinstance(size, Size)]:
                raise UndecidedSizeError(
                    f"whether the size {open_sizes[0]} is 1 is not known before launch; name the axes"
                )
            return tuple([size for size in shape if size != 1])
        axes = normalize_axes(axis, len(shape))
        for i in axes:
            if shape[i] not in (1, -1):
                raise InferenceError(f"dimension {i} of x is {shape[i]} where 1 is needed to drop it")
        return tuple([size for i, size in enumerate(shape) if i not in axes])

    @staticmethod
    def decompose(x: Value, *, axis: tuple[int, ...] | None) -> Value:
        shape = SqueezeOp.infer_shape(x.shape, axis=axis)
        if shape is None:
            raise InferenceError(f"which dimensions of {x.type} are 1 must be known")
        return ops.reshape(x, shape=shape)


@tensor_function
@also_called(input="x", dim0="axis1", dim1="axis2")
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """`x` with its axes `axis1` and `axis2` exchanged.

    >>> tenon.swapaxes(np.zeros((2, 3, 4)), 0, -1).shape
    """
    return ops.transpose(x, permutation=exchanged(shaped(x).ndim, axis1, axis2))


also_function(swapaxes, "swapdims")


@tensor_function
@also_called(input="x")
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """`x` with its axes from `start_dim` to `end_dim`, both included, made one.

    >>> tenon.flatten(np.zeros((2, 3, 4)), 1).shape
    """
    return ops.reshape(x, shape=flattened(tuple(shaped(x).shape), start_dim, end_dim))
