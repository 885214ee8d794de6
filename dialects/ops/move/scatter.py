"""Writing at indices that are data, with a choice of what a place gets. Negative indices count from the end.

Updates are applied in the order of their index, and those outside of the tensor are left out. `reduction` says what an
update does to what is there: `none` replaces it, so that the last update of a place stays, `add` and `mul` go on
counting with it, `min` and `max` keep the smaller or the larger one (NaN if either is).

The gradient is that of the function computed: of several updates that replace one place only the last one gets a part;
equal extremes share it, the former element included, as in PyTorch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import MeantOtherwise, called_by_element
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, ScatterOp
from tenon.dialects.families.batching import all_batched, moved_axis, shifted_axes
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.ops.move.index_places import (
    broadcast_apart_from,
    check_places,
    check_updates,
    counted_from_front,
    indexed_sizes,
    is_inside,
    part_place,
    parts_shape,
    swapped,
)
from tenon.dialects.types.shapes import InferenceError, Shape, broadcast, normalize_axis, refine, show
from tenon.dialects.types.types import (
    INTEGER_TENSOR,
    NUMERIC_TENSOR,
    STORED_TENSOR,
    element_of,
    is_narrow,
    shape_of,
    tensor_type,
)

COMBINING = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}
REDUCTIONS = ("none", *COMBINING)


@tensor_op
class ScatterAddOp(ScatterOp):
    """`x` with `updates` added at `indices` along `axis`: result[..., indices[i], ...] += updates[..., i, ...].

    `updates` has the shape that `gather(x, indices, axis)` has. What has one index is added up, negative indices count
    from the end, and updates at other indices outside of `x` are left out.

    >>> tenon.scatter_add(np.zeros(4), np.array([1, 1, -1, 99]), np.array([1.0, 2.0, 4.0, 8.0]))
    """

    name = "tenon.scatter_add"
    x = operand_def(NUMERIC_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    updates = operand_def(NUMERIC_TENSOR)
    axis = setting(int, default=0)
    result = result_def(NUMERIC_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "updates")

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if called_by_element(args, kwargs, "index", "src"):
            raise MeantOtherwise(
                f"{cls.name}: scatter_add(x, dim, index, src) is PyTorch's; write scatter_elements(x, index, src, "
                "axis=dim, reduction='add')",
                lambda: ops.scatter(*args, **kwargs, reduce="add"),
            )
        return super().bind(args, kwargs)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices, updates = operands
        shape, places = shape_of(x), shape_of(indices)
        if shape is not None and places is not None:
            axis = normalize_axis(settings["axis"], len(shape))
            needed = (*shape[:axis], *places, *shape[axis + 1 :])
            check_updates(shape, places, needed, shape_of(updates))
        return x

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        x, indices, _ = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        behind = axis + indices.ndim
        place = counted_from_front(indices.read(*index[axis:behind]), x.shape[axis])
        return (*index[:axis], place, *index[behind:])

    @staticmethod
    def combine(old: Value, new: Value, **settings: Any) -> Value:
        return old + new

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, indices: Value, updates: Value, *, axis: int) -> tuple[Any, ...]:
        axis = normalize_axis(axis, x.ndim)
        size = x.shape[axis]
        if size == 0 or 0 in updates.shape:
            return g, None, ops.zeros_like(updates)
        kept = ops.reshape(is_inside(indices, size), shape=(*indices.shape, *(1,) * (x.ndim - 1 - axis)))
        return g, None, ops.select(kept, ops.gather(g, indices, axis=axis), 0.0)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, own_indices, updates = all_batched(size, batched, operands)
        axis = normalize_axis(settings["axis"], x.ndim - 1)
        if not batched[1]:
            return ops.scatter_add(x, operands[1], updates, axis=axis + 1)
        parts = ops.transpose(updates, permutation=swapped(axis, own_indices.ndim - 1, updates.ndim))
        places = ops.expand_dims(own_indices, axis=-1)
        sums = ops.scatter_nd(moved_axis(x, axis + 1, 1), places, parts, reduction="add", batch_dims=1)
        return moved_axis(sums, 1, axis + 1)


class UpdatesOp(ScatterOp):
    """`x` with `updates` at `indices`, where `GATHER` reads with the same settings."""

    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    updates = operand_def(STORED_TENSOR)
    reduction = setting(str, default="none", choices=REDUCTIONS)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "updates")
    GATHER: ClassVar[str]

    @staticmethod
    @abstractmethod
    def updates_shape(shape: Shape, places: Shape, **settings: Any) -> Shape:
        """The shape of the updates of a tensor of `shape` at indices of shape `places`."""

    @staticmethod
    @abstractmethod
    def kept(x: Value, indices: Value, **settings: Any) -> Value:
        """Which updates lie inside of `x`, in a shape that broadcasts against them."""

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, indices, updates = operands
        if settings["reduction"] != "none" and is_narrow(element_of(x)):
            raise InferenceError(
                f"reduction is {settings['reduction']!r}, and {element_of(x)} of x is a storage type: cast first "
                "(tenon.cast)"
            )
        shape, places = shape_of(x), shape_of(indices)
        needed = cls.updates_shape(shape, places, **settings)
        check_updates(shape, places, needed, shape_of(updates))
        return tensor_type(shape, element_of(x))

    @staticmethod
    def combine(old: Value, new: Value, **settings: Any) -> Value:
        combining = COMBINING.get(settings["reduction"])
        return new if combining is None else getattr(ops, combining)(old, new)

    @classmethod
    def replaces(cls, **settings: Any) -> bool:
        return settings["reduction"] == "none"

    @classmethod
    def vjp(
        cls, g: Value, out: Value, x: Value, indices: Value, updates: Value, *, reduction: str, **settings: Any
    ) -> tuple[Any, ...]:
        if 0 in x.shape or 0 in updates.shape:
            return g, None, ops.zeros_like(updates)
        places = _Places(cls, indices, settings)
        rule = {"none": _replaced, "add": _added, "mul": _multiplied}.get(reduction, _extreme)
        to_x, to_updates = rule(places, g, out, x, updates)
        return to_x, None, ops.select(cls.kept(x, indices, **settings), to_updates, 0.0)


class _Places:
    """Reading and writing where an op scatters to."""

    def __init__(self, op: type[UpdatesOp], indices: Value, settings: dict[str, Any]) -> None:
        self._op, self._indices, self._settings = op, indices, settings

    def read(self, x: Value) -> Value:
        return getattr(ops, self._op.GATHER)(x, self._indices, **self._settings)

    def write(self, x: Value, updates: Value, reduction: str) -> Value:
        return self._op.apply(x, self._indices, updates, reduction=reduction, **self._settings)


def _added(places: _Places, g: Value, out: Value, x: Value, updates: Value) -> tuple[Value, Value]:
    return g, places.read(g)


def _replaced(places: _Places, g: Value, out: Value, x: Value, updates: Value) -> tuple[Value, Value]:
    """To `x` where nothing was written; to an update where it was the last one."""
    number = ops.reshape(ops.iota(shape=(prod(updates.shape),)), shape=updates.shape)
    last = places.write(ops.full(x.shape, -1, "i64"), number, "none")
    return ops.select(last < 0, g, 0.0), ops.select(places.read(last) == number, places.read(g), 0.0)


def _multiplied(places: _Places, g: Value, out: Value, x: Value, updates: Value) -> tuple[Value, Value]:
    """To each factor the product of the others: the product of those that are not zero, where no other one is."""

    def apart(factors: Value) -> tuple[Value, Value, Value]:
        is_zero = factors == 0.0
        return is_zero, ops.cast(is_zero, dtype="i32"), ops.select(is_zero, 1.0, factors)

    (x_is_zero, x_zeros, x_nonzero), (is_zero, zero, nonzero) = apart(x), apart(updates)
    zeros = places.write(x_zeros, zero, "add")
    product = g * places.write(x_nonzero, nonzero, "mul")

    def part(is_zero: Value, nonzero: Value, zeros: Value, product: Value) -> Value:
        others = ops.select(is_zero, zeros == 1, zeros == 0)
        return ops.select(others, product / nonzero, 0.0)

    return part(x_is_zero, x_nonzero, zeros, product), part(is_zero, nonzero, places.read(zeros), places.read(product))


def _extreme(places: _Places, g: Value, out: Value, x: Value, updates: Value) -> tuple[Value, Value]:
    """To the elements and updates that are extreme, in equal parts."""
    x_is_extreme, is_extreme = x == out, updates == places.read(out)
    count = places.write(
        ops.cast(x_is_extreme, dtype=g.element_type), ops.cast(is_extreme, dtype=g.element_type), "add"
    )
    share = g / count
    return ops.select(x_is_extreme, share, 0.0), ops.select(is_extreme, places.read(share), 0.0)


@tensor_op
class ScatterElementsOp(UpdatesOp):
    """`x` with `updates` at `indices` along `axis`, everything else equal: result[indices[i, j], j] = updates[i, j].

    `indices` and `updates` have one shape, of the rank of `x`, and nowhere larger than it but along `axis`. `reduction`
    (none, add, mul, min, max) says what an update does to what is there. Updates are applied in order, and those
    outside of `x` are left out. What `scatter` and `scatter_reduce` are in PyTorch.

    >>> indices, updates = np.array([1, 1, -1]), np.array([2.0, 3.0, 4.0])
    >>> tenon.scatter_elements(np.ones(4), indices, updates)
    >>> tenon.scatter_elements(np.ones(4), indices, updates, reduction="mul")
    """

    name = "tenon.scatter_elements"
    axis = setting(int, default=0)
    GATHER: ClassVar[str] = "gather_elements"

    @staticmethod
    def updates_shape(shape: Shape, places: Shape, **settings: Any) -> Shape:
        check_places(shape, places, settings["axis"])
        return places

    @staticmethod
    def kept(x: Value, indices: Value, **settings: Any) -> Value:
        return is_inside(indices, x.shape[settings["axis"]])

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        x, indices, _ = operands
        axis = normalize_axis(settings["axis"], x.ndim)
        place = counted_from_front(indices.read(*index), x.shape[axis])
        return (*index[:axis], place, *index[axis + 1 :])

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, indices, updates = all_batched(size, batched, operands)
        moved: Any = {**settings, "axis": shifted_axes(settings["axis"], x.ndim - 1)}
        return cls.apply(x, indices, updates, **moved)


@tensor_op
class PutAlongAxisOp(CompositeOp):
    """`x` with `updates` at `indices` along `axis`, where `updates` and the other axes of `indices` broadcast, as in
    NumPy; `reduction` as in `scatter_elements`.

    >>> tenon.put_along_axis(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[0], [2]]), 9)
    """

    name = "tenon.put_along_axis"
    x = operand_def(STORED_TENSOR)
    indices = operand_def(INTEGER_TENSOR)
    updates = operand_def(STORED_TENSOR)
    axis = setting(int, default=-1)
    reduction = setting(str, default="none", choices=REDUCTIONS)
    result = result_def(STORED_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "updates")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        own, places, updates = map(shape_of, operands)
        if own is not None and places is not None:
            shape, places = broadcast_apart_from(settings["axis"], own, places)
            if any(0 <= size < wanted for size, wanted in zip(own, shape, strict=True)):
                raise InferenceError(
                    f"indices of shape {show(shape_of(operands[1]))} do not broadcast to x of shape {show(own)}"
                )
            try:
                refine(places, broadcast([("the indices", places), ("updates", updates)]))
            except InferenceError:
                raise InferenceError(
                    f"updates of shape {show(updates)} do not broadcast to the places, of shape {show(places)}"
                ) from None
        return operands[0]

    @staticmethod
    def decompose(x: Value, indices: Value, updates: Value, *, axis: int, reduction: str) -> Value:
        _, places = broadcast_apart_from(axis, x.shape, indices.shape)
        indices, updates = ops.broadcast_to(indices, shape=places), ops.broadcast_to(updates, shape=places)
        return ops.scatter_elements(x, indices, updates, axis=axis, reduction=reduction)


@tensor_op
class ScatterNdOp(UpdatesOp):
    """`x` with `updates` at `indices`, whose last axis holds indices for the first axes of `x`: result[indices[i]] =
    updates[i].

    `updates` has the shape that `gather_nd(x, indices, batch_dims)` has. `reduction` (none, add, mul, min, max) says
    what an update does to what is there. Updates are applied in order, and those outside of `x` are left out.

    >>> indices, updates = np.array([[0, 1], [-1, 0]]), np.array([8, 9])
    >>> tenon.scatter_nd(np.zeros((2, 2), np.int64), indices, updates)
    >>> tenon.scatter_nd(np.array([[1, 2], [3, 4]]), indices[:, :1], np.array([[10, 20], [30, 40]]))
    """

    name = "tenon.scatter_nd"
    batch_dims = setting(int, default=0)
    GATHER: ClassVar[str] = "gather_nd"

    @staticmethod
    def updates_shape(shape: Shape, places: Shape, **settings: Any) -> Shape:
        return parts_shape(shape, places, settings["batch_dims"])

    @staticmethod
    def kept(x: Value, indices: Value, **settings: Any) -> Value:
        batch_dims = settings["batch_dims"]
        inside = ops.all(is_inside(indices, indexed_sizes(x, indices, batch_dims)), axis=-1)
        behind = x.ndim - batch_dims - indices.shape[-1]
        return ops.reshape(inside, shape=(*inside.shape, *(1,) * behind))

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        x, indices, _ = operands
        return part_place(index, x, indices, settings["batch_dims"])

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        values = all_batched(size, batched, operands)
        return cls.apply(*values, **{**settings, "batch_dims": settings["batch_dims"] + 1})
