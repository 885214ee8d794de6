"""Finding places: in sorted sequences, and of elements that are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import Meaning, MeantOtherwise, also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.scalar import index_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.families import CompositeOp, IndexingOp, ReductionOp
from tenon.dialects.families.batching import all_batched
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.ops.order.ordering import goes_before
from tenon.dialects.types.shapes import InferenceError, refine, show
from tenon.dialects.types.types import ANY_TENSOR, INTEGER_TENSOR, i64, shape_of, tensor_type


def _sort_first(operands: list[Any], settings: dict[str, Any], sorter: Any) -> None:
    """`sorter`: the indices that sort the sequence, as `argsort` gives them."""
    if sorter is not None:
        operands[0] = ops.gather(operands[0], sorter, axis=0)


def _from_the_right(operands: list[Any], settings: dict[str, Any], right: Any) -> None:
    """`right`: whether places are behind equal elements."""
    if right:
        settings["side"] = "right"


@tensor_op
class SearchsortedOp(IndexingOp):
    """The index (i64) in `x`, which is sorted along its last axis, where each of `values` keeps it sorted.

    `x` is one sequence (n,), or one for each row of `values`: (rows..., n) for (rows..., m). Of several such places it
    is the first (`side` left) or the last (right). NaN is larger than every number.

    >>> x, values = np.array([1, 3, 3, 5]), np.array([0, 3, 9])
    >>> tenon.searchsorted(x, values)
    >>> tenon.searchsorted(x, values, side="right")
    """

    name = "tenon.searchsorted"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {
        "sorter": _sort_first,
        "sorted_sequence": "x",
        "input": "values",
        "right": _from_the_right,
    }
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    values = operand_def(ANY_TENSOR)
    side = setting(str, default="left", choices=("left", "right"))
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape, values = (shape_of(operand) for operand in operands)
        if shape is not None and not shape:
            raise InferenceError("x has rank 0 where a sequence (n,) is needed")
        if shape is not None and len(shape) > 1 and values is not None:
            try:
                refine(shape[:-1], values[:-1])
            except InferenceError:
                raise InferenceError(
                    f"values has shape {show(values)} where rows as in x of shape {show(shape)} are needed"
                ) from None
        return tensor_type(values, i64)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, values = all_batched(size, batched, operands)
        if operands[0].ndim - batched[0] > 1:
            return cls.apply(x, values, **settings)
        if not batched[0]:
            return cls.apply(operands[0], values, **settings)
        # One sequence for each example is one for each row of values.
        rows = ops.reshape(values, shape=(size, prod(values.shape[1:])))
        return ops.reshape(cls.apply(x, rows, **settings), shape=values.shape)

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        x, values = operands
        size = x.shape[-1]
        if size == 0:
            return 0
        row = index[:-1] if x.ndim > 1 else ()
        value = values.read_inside(*index)

        # The place is one of low, ..., low + length. How lengths go on does not depend on what is found, so that all
        # values take the same steps, and nothing beyond the sequence is read. The steps are written out: in a loop,
        # LLVM makes a branch of each choice, and half of these are not foreseen.
        low, length = index_constant(0), size
        while length:
            rest = length // 2
            after = low + (length - rest)
            found = x.read_inside(*row, after - 1)
            before = (
                goes_before(found, value, descending=False)
                if settings["side"] == "left"
                else ops.logical_not(goes_before(value, found, descending=False))
            )
            low, length = ops.select(before, after, low), rest
        return low


@tensor_op
class CountNonzeroOp(CompositeOp):
    """How many elements (i64) of `x` along `axis` are not zero.

    >>> tenon.count_nonzero(np.array([[0, 1, 2], [0, 0, 3]]), axis=1)
    """

    name = "tenon.count_nonzero"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return tensor_type(ReductionOp.reduced_shape(shape_of(operands[0]), settings), i64)

    @staticmethod
    def decompose(x: Value, *, axis: tuple[int, ...] | None, keepdims: bool) -> Value:
        return ops.sum(ops.cast(_is_nonzero(x), dtype=i64), axis=axis, keepdims=keepdims)


def _is_nonzero(x: Value) -> Value:
    return x != ops.zeros((), x.element_type)


@tensor_op
class ArgwhereOp(CompositeOp):
    """The indices (`size`, rank of `x`; i64) of the elements of `x` that are not zero, in row-major order.

    A shape cannot depend on data: there are `size` rows. What is too much is left out, and rows that lack hold
    `fill_value`, one for all axes or one for each. Of arrays `size` may be left out, and is then how many these are.

    >>> tenon.argwhere(np.array([[0, 5], [6, 0]]), size=3, fill_value=-1)
    """

    name = "tenon.argwhere"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(ANY_TENSOR)
    size = setting(int)
    fill_value = setting(tuple, default=(0,))
    result = result_def(INTEGER_TENSOR)

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        operands, settings = super().bind(args, kwargs)
        if "size" not in settings and insertion_point() is None:
            raise MeantOtherwise(
                f"{cls.name}: size is missing",
                lambda: ops.argwhere(*operands, size=int(ops.count_nonzero(*operands)), **settings),
            )
        return operands, settings

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["size"] < 0:
            raise InferenceError(f"size is {settings['size']} where a number of at least 0 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        if shape is not None:
            cls.fills(len(shape), settings["fill_value"])
        return tensor_type((settings["size"], -1 if shape is None else len(shape)), i64)

    @staticmethod
    def fills(rank: int, fill_value: tuple[int, ...]) -> tuple[int, ...]:
        """A fill for each axis."""
        if len(fill_value) not in (1, rank):
            raise InferenceError(f"fill_value {fill_value} has {len(fill_value)} entries, and x has rank {rank}")
        return fill_value * rank if len(fill_value) == 1 else fill_value

    @staticmethod
    def decompose(x: Value, *, size: int, fill_value: tuple[int, ...]) -> Value:
        if size == 0 or x.ndim == 0:
            return ops.zeros((size, x.ndim), i64)
        fills = ops.constant(value=np.array(ArgwhereOp.fills(x.ndim, fill_value), np.int64))
        if 0 in x.shape:
            return ops.broadcast_to(fills, shape=(size, x.ndim))
        elements = prod(x.shape)
        counts = ops.reshape(_is_nonzero(x), shape=(elements,))
        count = ops.cumsum(ops.cast(counts, dtype=i64))
        number = ops.iota(shape=(size, 1))
        # The number of an element that is not zero is how many are before it; others are left out behind the end.
        row = ops.select(counts, count - 1, size)
        places = ops.scatter_add(ops.zeros((size,), i64), row, ops.cast(ops.iota(shape=(elements,)), dtype=i64))
        place = ops.expand_dims(places, axis=1)
        strides = np.array([prod(x.shape[axis + 1 :]) for axis in range(x.ndim)])
        indices = ops.remainder(ops.floor_divide(place, strides), np.array(x.shape))
        return ops.select(number < count[-1:], indices, fills)


@tensor_function
@also_called(input="x")
def nonzero(x: Any, size: int | None = None, fill_value: int | tuple[int, ...] = 0, *, as_tuple: bool = True) -> Any:
    """For each axis of `x` the indices (`size`,) of the elements that are not zero: the columns of `argwhere`, and
    without `as_tuple` that itself, a row (rank of `x`,) for each, which is what PyTorch gives unless it is asked.

    Of arrays `size` may be left out and is then how many these are; a traced function has to state it.

    >>> tenon.nonzero(np.array([[0, 5], [6, 0]]), size=3, fill_value=-1)
    >>> tenon.nonzero(np.array([[0, 5], [6, 0]]))
    >>> tenon.nonzero(np.array([[0, 5], [6, 0]]), as_tuple=False)
    """
    if size is None:
        if insertion_point() is not None:
            raise TypeError("nonzero: size is missing; in a traced function shapes cannot depend on values")
        if np.ndim(x) == 0 and as_tuple:
            raise InferenceError("nonzero: x has rank 0 where an axis or more is needed")
        ArgwhereOp.fills(np.ndim(x), tuple(np.atleast_1d(fill_value).tolist()))
        if type(x) is np.ndarray and x.dtype.kind in "biuf":
            return x.nonzero() if as_tuple else np.argwhere(x)  # a program is for one size
        size = int(ops.count_nonzero(x))
    rank = x.ndim if isinstance(x, Value) else np.ndim(x)
    places = ops.argwhere(x, size=size, fill_value=fill_value)
    if not as_tuple:
        return places
    return tuple([places[:, axis] for axis in range(rank)])


@tensor_function
@one_program_of_large
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """The values at `x` of the function that is `fp` (n,) at `xp` (n,), which rises, and straight in between.

    Before the first point it is `left`, and behind the last one `right`; without them what it is there. Integers are
    taken as floats: of 8 and 16 bits as f32, wider ones as f64.

    >>> tenon.interp(np.array([0.0, 1.5, 9.0]), np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 0.0]))
    """
    xp, fp = floating(xp), floating(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.shape == (0,):
        raise InferenceError(f"interp: xp of shape {xp.shape} and fp of {fp.shape} where two vectors (n,) are needed")
    x, last = floating(x), xp.shape[0] - 1
    behind = ops.clip(ops.searchsorted(xp, x, side="right"), low=min(1, last), high=last)
    before = ops.maximum(behind - 1, 0)
    (start, end), (low, high) = [(ops.gather(v, before), ops.gather(v, behind)) for v in (xp, fp)]
    width = end - start
    slope = (high - low) / ops.where(width == 0, 1.0, width)
    found = ops.where(x == end, high, low + slope * ops.where(width == 0, 0.0, x - start))
    found = ops.where(x < xp[0], fp[0] if left is None else left, found)
    return ops.where(x > xp[last], fp[last] if right is None else right, found)
