"""Statistics along axes: mean, variance, standard deviation, and the logarithm of a sum of exponentials.

`axis` and `keepdims` are as for reductions. f16 and bf16 are accumulated in f32.
"""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import AlongAxis
from tenon.dialects.ops.reduce.reduction import Axes, SumOp, in_compute_type, reduced_count, with_axes
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.types import (
    FLOAT_TENSOR,
    element_of,
    shape_of,
    tensor_type,
)


class StatisticOp(AlongAxis, CompositeOp):
    """A composite of reductions of one operand along `axis`."""

    AUTOCAST = "full"

    x = operand_def(FLOAT_TENSOR)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        return tensor_type(SumOp.reduced_shape(shape_of(x), settings), element_of(x))


@tensor_op
class MeanOp(StatisticOp):
    """The arithmetic mean of `x` along `axis`; NaN of no elements. Integers are taken as f32.

    >>> tenon.mean(np.array([[1.0, 2.0], [3.0, 6.0]]), axis=0)
    >>> tenon.mean(np.array([1, 2]))
    """

    name = "tenon.mean"

    @staticmethod
    def decompose(x: Value, *, axis: Axes, keepdims: bool) -> Value:
        total = ops.sum(in_compute_type(x), axis=axis, keepdims=keepdims)
        count = reduced_count(x, axis)
        return (total / (count if isinstance(count, Value) else float(count))).astype(x.element_type)


def _whole_correction(operands: list[Any], settings: dict[str, Any], value: float) -> None:
    """`correction`: `ddof`, which may be written as a float but is whole."""
    if "ddof" in settings:
        raise TypeError("argument 'ddof' is given twice, as 'correction' too")
    settings["ddof"] = int(value) if int(value) == value else value


def _unbiased(operands: list[Any], settings: dict[str, Any], value: bool) -> None:
    """`unbiased`: whether the divisor is count - 1."""
    if "ddof" in settings:
        raise TypeError("argument 'ddof' is given twice, as 'unbiased' too")
    settings["ddof"] = int(value)


class DeviationOp(StatisticOp):
    """What is said of the distances from the mean, with the divisor count - `ddof`."""

    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {
        "correction": _whole_correction,
        "unbiased": _unbiased,
    }
    axis = setting(tuple, default=None)
    ddof = setting(int, default=0)
    keepdims = setting(bool, default=False)


@tensor_op
class VarOp(DeviationOp):
    """The variance of `x` along `axis`: the mean square distance from the mean, with divisor count - `ddof`.

    Integers are taken as f32.

    >>> tenon.var(np.array([1.0, 2.0, 3.0, 4.0]))
    >>> tenon.var(np.array([1.0, 2.0, 3.0, 4.0]), ddof=1)
    """

    name = "tenon.var"

    @staticmethod
    def decompose(x: Value, *, axis: Axes, ddof: int, keepdims: bool) -> Value:
        deviation = in_compute_type(x) - ops.mean(in_compute_type(x), axis=axis, keepdims=True)
        total = ops.sum(deviation * deviation, axis=axis, keepdims=keepdims)
        return (total / _freedom(x, axis, ddof)).astype(x.element_type)


def _freedom(x: Value, axis: Axes, ddof: int) -> Any:
    """The divisor of a variance: how many elements meet, less `ddof`."""
    count = reduced_count(x, axis)
    return ops.maximum(count - ddof, 0) if isinstance(count, Value) else float(max(count - ddof, 0))


@tensor_op
class StdOp(DeviationOp):
    """The standard deviation of `x` along `axis`: the square root of its variance. Integers are taken as f32.

    Where it is 0, so is the gradient.

    >>> tenon.std(np.array([1.0, 2.0, 3.0, 4.0]))
    >>> tenon.std(np.array([1.0, 2.0, 3.0, 4.0]), ddof=1)
    """

    name = "tenon.std"

    @staticmethod
    def decompose(x: Value, *, axis: Axes, ddof: int, keepdims: bool) -> Value:
        return ops.sqrt(ops.var(x, axis=axis, ddof=ddof, keepdims=keepdims))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: Axes, ddof: int, keepdims: bool) -> tuple[Any, ...]:
        wide = in_compute_type(x)
        is_zero = out == 0.0
        slope = ops.select(is_zero, 0.0, g / ops.select(is_zero, 1.0, out))
        deviation = wide - ops.mean(wide, axis=axis, keepdims=True)
        part = with_axes(slope, x, axis, keepdims) * deviation / _freedom(x, axis, ddof)
        return (part.astype(x.element_type),)


@tensor_op
class LogsumexpOp(StatisticOp):
    """The logarithm of the sum of exp(`x`) along `axis`, without overflow.

    >>> tenon.logsumexp(np.array([1000.0, 1000.0]))
    >>> tenon.logsumexp(np.array([[0.0, 1.0], [2.0, -np.inf]]), axis=1)
    """

    name = "tenon.logsumexp"

    @staticmethod
    def decompose(x: Value, *, axis: Axes, keepdims: bool) -> Value:
        exponent = in_compute_type(x)
        largest = ops.max(exponent, axis=axis, keepdims=True, start=-inf)
        shift = ops.select(ops.isfinite(largest), largest, 0.0)  # inf - inf is NaN
        result = ops.log(ops.sum(ops.exp(exponent - shift), axis=axis, keepdims=True)) + shift
        if not keepdims:
            result = ops.squeeze(result, axis=normalize_axes(axis, x.ndim))
        return result.astype(x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, axis: Axes, keepdims: bool) -> tuple[Any, ...]:
        wide = in_compute_type(x)
        # What f16 and bf16 keep of the result is not enough to take a difference from.
        is_exact = wide.element_type == x.element_type
        total = with_axes(out, x, axis, keepdims) if is_exact else ops.logsumexp(wide, axis=axis, keepdims=True)
        shift = ops.select(ops.isfinite(total), total, 0.0)
        return ((with_axes(g, x, axis, keepdims) * ops.exp(wide - shift)).astype(x.element_type),)
