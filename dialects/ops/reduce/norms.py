"""Norms of vectors along axes, and what they are for. Integers are taken as f32; f16 and bf16 are computed in f32."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsType
from tenon.dialects.ops.reduce.reduction import Axes, in_compute_type, with_axes
from tenon.dialects.ops.reduce.statistics import StatisticOp
from tenon.dialects.types.shapes import broadcast, normalize_axis
from tenon.dialects.types.types import FLOAT_TENSOR, NUMERIC_TENSOR, element_of, promote, shape_of, tensor_type


@tensor_op
class NormOp(StatisticOp):
    """The `p`-norm of `x` along `axis`: (sum |x|^p)^(1/p); the largest or smallest magnitude for `p` inf or -inf.

    For `p` 0 it is the number of elements that are not 0. Of no elements it is 0 (inf for `p` -inf). Where it is 0 the
    gradient is 0.

    >>> x = np.array([3.0, -4.0, 0.0])
    >>> [float(tenon.norm(x, p)) for p in (2.0, 1.0, np.inf, 0.0)]
    """

    name = "tenon.norm"
    x = operand_def(FLOAT_TENSOR)
    p = setting(float, default=2.0)
    axis = setting(tuple, default=None)
    keepdims = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value, *, p: float, axis: Axes, keepdims: bool) -> Value:
        values = in_compute_type(x)
        along: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
        if p == 2.0:
            result = ops.sqrt(ops.sum(values * values, **along))
        elif p == inf:
            result = ops.max(abs(values), start=0.0, **along)
        elif p == -inf:
            result = ops.min(abs(values), start=inf, **along)
        elif p == 0.0:
            result = ops.sum((values != 0.0).astype(values.element_type), **along)
        elif p == 1.0:
            result = ops.sum(abs(values), **along)
        else:
            result = ops.sum(abs(values) ** p, **along) ** (1.0 / p)
        return result.astype(x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, p: float, axis: Axes, keepdims: bool) -> tuple[Any, ...]:
        g, out = with_axes(g, x, axis, keepdims), with_axes(out, x, axis, keepdims)
        if p == 0.0:
            return (None,)
        if p in (inf, -inf):
            extreme = (abs(x) == out).astype(x.element_type)
            share = extreme / ops.maximum(ops.sum(extreme, axis=axis, keepdims=True), 1.0)
            return (g * share * ops.sign(x),)
        if p == 1.0:
            return (g * ops.sign(x),)
        is_zero = out == 0.0
        ratio = x / ops.select(is_zero, 1.0, out)
        if p == 2.0:
            return (ops.select(is_zero, 0.0, g * ratio),)
        # The slope is infinite at 0 for p < 1; as in PyTorch, nothing goes to an element that is 0.
        slope = ops.sign(x) * abs(ops.select(ratio == 0.0, 1.0, ratio)) ** (p - 1.0)
        return (ops.select(is_zero | (x == 0.0), 0.0, g * slope),)


@tensor_op
class LogSumOp(StatisticOp):
    """The logarithm of the sum of `x` along `axis`; -inf of no elements.

    >>> tenon.log_sum(np.array([[1.0, 3.0], [0.0, 0.0]]), axis=1)
    """

    name = "tenon.log_sum"

    @staticmethod
    def decompose(x: Value, *, axis: Axes, keepdims: bool) -> Value:
        return ops.log(ops.sum(in_compute_type(x), axis=axis, keepdims=keepdims)).astype(x.element_type)


@tensor_op
class SumSquareOp(StatisticOp):
    """The sum of the squares of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap.

    >>> tenon.sum_square(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    """

    name = "tenon.sum_square"
    x = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def decompose(x: Value, *, axis: Axes, keepdims: bool) -> Value:
        return ops.sum(ops.square(in_compute_type(x)), axis=axis, keepdims=keepdims).astype(x.element_type)


@tensor_op
class LpNormalizeOp(KeepsType, CompositeOp):
    """`x` over its `p`-norm along `axis`, or over `eps` where the norm is below that.

    >>> tenon.lp_normalize(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> tenon.lp_normalize(np.array([1.0, -3.0]), p=1.0)
    """

    name = "tenon.lp_normalize"
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    p = setting(float, default=2.0)
    axis = setting(int, default=-1)
    eps = setting(float, default=1e-12)
    result = result_def(FLOAT_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("normalize",)

    @staticmethod
    def decompose(x: Value, *, p: float, axis: int, eps: float) -> Value:
        values = in_compute_type(x)
        length = ops.norm(values, p=p, axis=axis, keepdims=True)
        return (values / ops.clip(length, low=eps)).astype(x.element_type)


@tensor_op
class CosineSimilarityOp(CompositeOp):
    """The cosine of the angle between `x` and `y`, which broadcast, along `axis`: x y / (|x| |y|).

    Each length is at least `eps`.

    >>> x, y = np.array([1.0, 0.0]), np.array([[3.0, 4.0], [-2.0, 0.0]])
    >>> tenon.cosine_similarity(x, y)
    """

    name = "tenon.cosine_similarity"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"x1": "x", "x2": "y"}
    AUTOCAST = "full"
    x = operand_def(FLOAT_TENSOR)
    y = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    eps = setting(float, default=1e-8)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = broadcast(zip(("x", "y"), map(shape_of, operands), strict=True))
        if shape is not None:
            axis = normalize_axis(settings["axis"], len(shape))
            shape = (*shape[:axis], *shape[axis + 1 :])
        return tensor_type(shape, promote(map(element_of, operands)))

    @staticmethod
    def decompose(x: Value, y: Value, *, axis: int, eps: float) -> Value:
        rank = max(x.ndim, y.ndim)
        axis = normalize_axis(axis, rank) - rank
        a, b = _expanded(in_compute_type(x), rank), _expanded(in_compute_type(y), rank)
        lengths = [ops.clip(ops.norm(v, axis=axis, keepdims=True), low=eps) for v in (a, b)]
        return ops.sum((a / lengths[0]) * (b / lengths[1]), axis=axis).astype(x.element_type)


def _expanded(x: Value, rank: int) -> Value:
    """`x` with leading dimensions of size 1 up to `rank`."""
    return ops.reshape(x, shape=(*(1,) * (rank - x.ndim), *x.shape))
