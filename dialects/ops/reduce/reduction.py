"""Reductions along axes.

`axis` is one axis, a tuple of axes, or `None` for all of them; negative axes count from the end. With `keepdims` the
reduced axes stay, with size 1. f16 and bf16 are accumulated in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, prod
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import Meaning, MeantOtherwise, cast_first
from tenon.dialects.definition.promotion import cast_literal
from tenon.dialects.definition.scalar import scalar_constant, to_compute
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ArgReductionOp, OfTruthValues, ReductionOp
from tenon.dialects.families.linalg_builders import elementwise, static_shape
from tenon.dialects.families.monoid import of_nothing
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axes
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import (
    ANY_TENSOR,
    BOOL_TENSOR,
    NUMERIC_TENSOR,
    compute_type,
    element_of,
    i1,
    is_float,
)

Axes = tuple[int, ...] | None


def with_axes(reduced: Value, x: Value, axis: Axes, keepdims: bool) -> Value:
    """A reduction of `x` in a shape that broadcasts against `x`: the reduced axes put back with size 1."""
    if keepdims:
        return reduced
    axes = normalize_axes(axis, x.ndim)
    return ops.reshape(reduced, shape=tuple([1 if i in axes else size for i, size in enumerate(x.shape)]))


def reduced_count(x: Value, axis: Axes) -> Any:
    """How many elements of `x` meet in one element of its reduction along `axis`: a number, or an i64 of rank 0."""
    sizes = [x.shape[i] for i in normalize_axes(axis, x.ndim)]
    if any(size < 0 for size in sizes):
        raise InferenceError(f"the sizes of {x.type} along axis {axis} must be known")
    count: Any = prod(sizes)
    return ops.size(value=count) if isinstance(count, Size) else count


def in_compute_type(x: Value) -> Value:
    """`x` in the dtype that intermediate results are computed in: f32 for f16 and bf16."""
    return x.astype(compute_type(x.element_type))


@tensor_op
class SumOp(ReductionOp):
    """The sum of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap (NumPy widens them); truth
    values are counted as i64.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.sum(x)
    >>> tenon.sum(x, axis=0, keepdims=True)
    """

    name = "tenon.sum"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    x = operand_def(NUMERIC_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(NUMERIC_TENSOR)
    COMBINE = "add"

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: Axes, keepdims: bool) -> tuple[Any, ...]:
        return (ops.broadcast_to(with_axes(g, x, axis, keepdims), shape=x.shape),)


@tensor_op
class ProdOp(ReductionOp):
    """The product of `x` along `axis`; 1 of no elements. Integers keep their dtype and wrap (NumPy widens them).

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.prod(x, axis=1)
    >>> tenon.prod(np.array([16, 16], np.uint8))
    """

    name = "tenon.prod"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    x = operand_def(NUMERIC_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(NUMERIC_TENSOR)
    COMBINE = "multiply"

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: Axes, keepdims: bool) -> tuple[Any, ...]:
        """The products of all others: out / x, and where x is zero that of what is not, times that of other zeros.

        The latter is 1 where there are none, and another zero itself where there is one, which has a derivative.
        """
        is_zero = x == 0.0
        zeros = ops.sum(ops.cast(is_zero, dtype="i32"), axis=axis, keepdims=True)
        other = ops.sum(ops.select(is_zero, x, 0.0), axis=axis, keepdims=True) - x
        nonzero = ops.select(is_zero, 1.0, x)
        left_out = ops.prod(nonzero, axis=axis, keepdims=True) * ops.select(zeros == 1, 1.0, other)
        others = ops.select(is_zero, left_out, with_axes(out, x, axis, keepdims) / nonzero)
        return (with_axes(g, x, axis, keepdims) * ops.select(is_zero & (zeros > 2), 0.0, others),)


class ExtremumOp(ReductionOp, OfTruthValues):
    """A reduction to one of the elements, of which there must be any unless there is a `start` to compare them with."""

    AUTOCAST = None

    x = operand_def(NUMERIC_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    start = setting(float, default=None)
    result = result_def(NUMERIC_TENSOR)
    HAS_IDENTITY: ClassVar[bool] = False

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(args) > 1 and hasattr(args[1], "dtype") and not isinstance(args[1], np.integer):
            combine = str(cls.COMBINE)
            raise MeantOtherwise(
                f"{cls.name}: axis is a tensor; that of two, element by element, is tenon.{combine}(a, b)",
                lambda: getattr(ops, combine)(*args, **kwargs),
            )
        return super().bind(args, kwargs)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        start, element = settings["start"], element_of(operands[0])
        if start is not None and not (is_float(element) or isinf(start) or float(start).is_integer()):
            raise InferenceError(f"start is {start} where a whole number is needed, for {element}")
        return super().infer(*operands, **settings)

    @classmethod
    def reduced_shape(cls, shape: Shape, settings: dict[str, Any]) -> Shape:
        return (super() if settings["start"] is None else SumOp).reduced_shape(shape, settings)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        reduced = super().structured(operands)
        start = self.settings["start"]
        if start is None:
            return reduced
        shape, element = static_shape(reduced[0]), element_of(reduced[0].type)
        limited = cast_literal(start, element)

        def body(values: list[Value]) -> Sequence[Value]:
            return [self.scalar(to_compute(values[0]), scalar_constant(limited, compute_type(element)))]

        return elementwise([(reduced[0], AffineMap.identity(len(shape)))], shape, [element], body)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: Axes, keepdims: bool, start: float | None) -> tuple[Any, ...]:
        """To the elements that are extreme, in equal parts."""
        extreme = ops.cast(x == with_axes(out, x, axis, keepdims), dtype=compute_type(x.element_type))
        count = ops.sum(extreme, axis=axis, keepdims=True)
        if start is not None:
            count = ops.maximum(count, 1.0)
        return ((with_axes(g, x, axis, keepdims) * (extreme / count)).astype(x.element_type),)


@tensor_op
class MaxOp(ExtremumOp):
    """The largest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too.

    `axis` may not be empty, unless there is a `start`: then the result is the largest of it and the elements. -inf
    stands for the least number of an integer dtype.

    >>> tenon.max(np.array([[1.0, 5.0], [3.0, np.nan]]), axis=1)
    >>> tenon.max(np.zeros(0), start=-1.0)
    """

    name = "tenon.max"
    ALIASES: ClassVar[tuple[str, ...]] = ("amax",)
    COMBINE = "maximum"


@tensor_op
class MinOp(ExtremumOp):
    """The smallest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too.

    `axis` may not be empty, unless there is a `start`: then the result is the smallest of it and the elements. inf
    stands for the largest number of an integer dtype.

    >>> tenon.min(np.array([[1.0, 5.0], [3.0, np.nan]]), axis=1)
    >>> tenon.min(np.zeros(0), start=1.0)
    """

    name = "tenon.min"
    ALIASES: ClassVar[tuple[str, ...]] = ("amin",)
    COMBINE = "minimum"


class PlaceOp(ArgReductionOp):
    """Where an extreme element stands, of which there must be any.

    NaN compares to nothing: what is not below or equal is above, or the first NaN if the best is a number.
    """

    traits = traits_def(Pure(), NoGradient())
    x = operand_def(NUMERIC_TENSOR)
    axis = setting(int, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(NUMERIC_TENSOR)
    HAS_IDENTITY: ClassVar[bool] = False


@tensor_op
class ArgmaxOp(PlaceOp):
    """The index (i64) of the first largest element of `x` along `axis`, or of the first NaN.

    Without `axis` it is the index into the elements of `x` in row-major order.

    >>> tenon.argmax(np.array([[1, 5, 5], [3, 2, 0]]), axis=1)
    >>> tenon.argmax(np.array([1.0, np.nan, 5.0]))
    """

    name = "tenon.argmax"

    @staticmethod
    def initial(element: Attribute) -> float:
        return of_nothing("maximum", element)

    @staticmethod
    def better(x: Value, best: Value) -> Value:
        return ~(x <= best) & (best == best) if is_float(x.type) else x > best


@tensor_op
class ArgminOp(PlaceOp):
    """The index (i64) of the first smallest element of `x` along `axis`, or of the first NaN.

    Without `axis` it is the index into the elements of `x` in row-major order.

    >>> tenon.argmin(np.array([[1, 1, 5], [3, 2, 0]]), axis=1)
    >>> tenon.argmin(np.array([1.0, np.nan, 0.0]))
    """

    name = "tenon.argmin"

    @staticmethod
    def initial(element: Attribute) -> float:
        return of_nothing("minimum", element)

    @staticmethod
    def better(x: Value, best: Value) -> Value:
        return ~(x >= best) & (best == best) if is_float(x.type) else x < best


class QuantifierOp(ReductionOp):
    """A reduction of truths: what is not zero is true."""

    AUTOCAST = None

    x = operand_def(ANY_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(BOOL_TENSOR)
    traits = traits_def(Pure(), NoGradient())

    @classmethod
    def result_element(cls, element: Attribute) -> Attribute:
        return i1


@tensor_op
class AnyOp(QuantifierOp):
    """Whether any element of `x` along `axis` is true (not zero); NaN is. False of no elements.

    >>> tenon.any(np.array([[False, True], [False, False]]), axis=1)
    >>> tenon.any(np.zeros(0))
    """

    name = "tenon.any"
    COMBINE = "bitwise_or"


@tensor_op
class AllOp(QuantifierOp):
    """Whether all elements of `x` along `axis` are true (not zero); NaN is. True of no elements.

    >>> tenon.all(np.array([[True, True], [True, False]]), axis=1)
    >>> tenon.all(np.zeros(0))
    """

    name = "tenon.all"
    COMBINE = "bitwise_and"
