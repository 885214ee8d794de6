"""Running sums, products and extremes along an axis.

With `reverse` elements are combined from the end. With `exclusive` each result leaves out the element at its own place,
so that the first is the sum or product of nothing. f16 and bf16 are accumulated in f32.
"""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning, cast_first
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ArgCumulativeOp, CumulativeOp
from tenon.dialects.families.monoid import of_nothing
from tenon.dialects.types.types import FLOAT_TENSOR, INTEGER_TENSOR, NUMERIC_TENSOR, is_float


class RunningOp(CumulativeOp):
    """A reduction of the elements up to each place, or of those before it."""

    x = operand_def(NUMERIC_TENSOR)
    axis = setting(int, default=0)
    exclusive = setting(bool, default=False)
    reverse = setting(bool, default=False)
    result = result_def(NUMERIC_TENSOR)


@tensor_op
class CumsumOp(RunningOp):
    """The sums of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap; truth values
    are counted as i64. NumPy flattens by default; here `axis` is 0.

    >>> tenon.cumsum(np.array([1.0, 2.0, 3.0]))
    >>> tenon.cumsum(np.array([1.0, 2.0, 3.0]), exclusive=True)
    >>> tenon.cumsum(np.array([1.0, 2.0, 3.0]), reverse=True)
    """

    name = "tenon.cumsum"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    COMBINE = "add"

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int, exclusive: bool, reverse: bool) -> tuple[Any, ...]:
        return (ops.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),)


@tensor_op
class CumprodOp(RunningOp):
    """The products of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap. NumPy
    flattens by default; here `axis` is 0.

    >>> tenon.cumprod(np.array([2.0, 3.0, 4.0]))
    >>> tenon.cumprod(np.array([2.0, 3.0, 4.0]), exclusive=True)
    """

    name = "tenon.cumprod"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    COMBINE = "multiply"

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int, exclusive: bool, reverse: bool) -> tuple[Any, ...]:
        """The products that an element is part of, less it, times their cotangents, added up.

        Before the first zero the element is divided out, and the first zero is left out as if it were 1. Every product
        that an element behind it is part of is that zero times what would be without it, which has a derivative up to
        the second zero.
        """
        is_zero = x == 0.0
        zeros = ops.cumsum(ops.cast(is_zero, dtype="i32"), axis=axis, reverse=reverse)
        is_first, is_second = is_zero & (zeros == 1), is_zero & (zeros == 2)

        def summed(products: Value) -> Value:
            return ops.cumsum(g * products, axis=axis, exclusive=exclusive, reverse=not reverse)

        def without(is_left_out: Value) -> Value:
            left = ops.select(is_left_out, 1.0, x)
            return summed(ops.cumprod(left, axis=axis, exclusive=exclusive, reverse=reverse))

        nonzero = ops.select(is_zero, 1.0, x)
        without_first = without(is_first)
        first = ops.cumsum(ops.select(is_first, x, 0.0), axis=axis, reverse=reverse)
        behind = ops.select(is_second, without(is_first | is_second), without_first / nonzero)
        behind = ops.select(zeros > 2, 0.0, first * ops.select(is_zero & (zeros > 2), 0.0, behind))
        return (ops.select(zeros == 0, summed(out) / nonzero, ops.select(is_first, without_first, behind)),)


@tensor_op
class LogcumsumexpOp(RunningOp):
    """The logarithms of the sums of exp(`x`) up to each place along `axis`, without overflow.

    >>> tenon.logcumsumexp(np.array([0.0, 0.0, 1000.0]))
    """

    name = "tenon.logcumsumexp"
    ASSOCIATIVE = True
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    initial = staticmethod(lambda element: -inf)

    @staticmethod
    def scalar(accumulator: Value, x: Value) -> Value:
        larger = ops.maximum(accumulator, x)
        # Infinities of one sign have no difference.
        distance = ops.select(accumulator == x, 0.0, ops.abs(accumulator - x))
        return ops.select(larger == -inf, larger, larger + ops.log1p(ops.exp(-distance)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: int, exclusive: bool, reverse: bool) -> tuple[Any, ...]:
        """exp(x) times the sum of g exp(-out) over the results that an element is part of, in the logarithmic domain,
        the positive and the negative terms apart."""

        def part(weight: Value) -> Value:
            counts = (weight > 0.0) & (out != -inf)
            terms = ops.select(counts, ops.log(ops.select(counts, weight, 1.0)) - out, -inf)
            total = ops.logcumsumexp(terms, axis=axis, exclusive=exclusive, reverse=not reverse)
            return ops.select(x == -inf, 0.0, ops.exp(total + x))

        return (part(g) - part(-g),)


class CumulativeExtremumOp(ArgCumulativeOp):
    """The extreme elements so far, and their places."""

    ASSOCIATIVE = True
    x = operand_def(NUMERIC_TENSOR)
    axis = setting(int, default=0)
    reverse = setting(bool, default=False)
    values = result_def(NUMERIC_TENSOR)
    indices = result_def(INTEGER_TENSOR)

    @staticmethod
    def vjp(g: tuple[Value, Value], out: tuple[Value, Value], x: Value, *, axis: int, reverse: bool) -> tuple[Any, ...]:
        """To the elements at the places."""
        return (ops.scatter_elements(ops.zeros_like(x), out[1], g[0], axis=axis, reduction="add"),)


def _replaces(x: Value, best: Value, is_better: Value) -> Value:
    """Whether `x` is at least as good as `best`, or NaN, beyond which nothing is."""
    return (is_better & (best == best)) | (x != x) if is_float(x.type) else is_better


@tensor_op
class CummaxOp(CumulativeExtremumOp):
    """The largest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
    in PyTorch. NaN counts as larger than everything.

    >>> tenon.cummax(np.array([1.0, 3.0, 2.0, 3.0]))
    >>> tenon.cummax(np.array([1.0, np.nan, 2.0]))
    """

    name = "tenon.cummax"

    @staticmethod
    def initial(element: Attribute) -> float:
        return of_nothing("maximum", element)

    @staticmethod
    def better(x: Value, best: Value) -> Value:
        return _replaces(x, best, x >= best)


@tensor_op
class CumminOp(CumulativeExtremumOp):
    """The smallest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
    in PyTorch. NaN counts as smaller than everything.

    >>> tenon.cummin(np.array([3.0, 1.0, 2.0, 1.0]))
    >>> tenon.cummin(np.array([1.0, np.nan, 2.0]))
    """

    name = "tenon.cummin"

    @staticmethod
    def initial(element: Attribute) -> float:
        return of_nothing("minimum", element)

    @staticmethod
    def better(x: Value, best: Value) -> Value:
        return _replaces(x, best, x <= best)
