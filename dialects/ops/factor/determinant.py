"""Determinants of square matrices, and their cofactors, which are the gradient."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.ops.factor.matrix_op import MatrixOp, columns_times, of_squares, transposed
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, show
from tenon.dialects.types.types import FLOAT_TENSOR

_UNROLLED = 4
"""Matrices up to this size are eliminated by ops, which become part of the kernels around them."""


@tensor_op
class DetOp(KeepsElement, CompositeOp):
    """The determinants (...,) of the square matrices `x` (..., n, n), by elimination with partial pivoting.

    The gradient is right for singular matrices as well: that of matrices of rank n - 1 is not 0, that of lower ones is.

    >>> tenon.det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    """

    name = "tenon.det"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        if len(shape) < 2 or (shape[-1] != shape[-2] and min(shape[-2:]) >= 0):
            raise InferenceError(f"x has shape {show(shape)} where (..., n, n) is needed")
        return shape[:-2]

    @staticmethod
    def decompose(x: Value) -> Value:
        *batch, n, _ = x.shape
        rest = in_compute_type(x)
        if n > _UNROLLED:
            return FactorDeterminantOp.apply(rest).astype(x.element_type)
        is_free = ops.full((*batch, n), True, dtype="i1")
        total = ops.full(batch, 1.0, dtype=rest.element_type)
        for _ in range(n):
            rest, is_free, total = _eliminated(rest, is_free, total)
        return total.astype(x.element_type)


def _eliminated(x: Value, is_free: Value, total: Value) -> tuple[Value, Value, Value]:
    """A step of elimination: matrices (..., n, n), which rows (..., n) had no pivot yet, and the product of pivots.

    The columns move to the left, so that the first one is always the next. The row of the pivot stays where it is
    instead of being exchanged with the first free one: the free rows before it are as many exchanges.
    """
    *batch, n, _ = x.shape
    zeros = (0,) * len(batch)
    column = ops.reshape(ops.slice(x, starts=(*zeros, 0, 0), limits=(*batch, n, 1)), shape=(*batch, n))
    place = ops.expand_dims(ops.argmax(ops.select(is_free, ops.abs(column), -1.0), axis=-1), axis=-1)
    rows = ops.cast(ops.iota(shape=(*(1,) * len(batch), n), axis=len(batch)), dtype=place.element_type)
    is_pivot = ops.equal(rows, place)
    pivot = ops.sum(ops.select(is_pivot, column, 0.0), axis=-1)
    before = ops.count_nonzero(ops.logical_and(is_free, rows < place), axis=-1)
    signed = ops.select(ops.equal(ops.remainder(before, 2), 0), pivot, ops.negative(pivot))
    row = ops.sum(ops.select(ops.expand_dims(is_pivot, axis=-1), x, 0.0), axis=-2, keepdims=True)
    is_free = ops.logical_and(is_free, ops.logical_not(is_pivot))
    # Where the pivot is 0, so is what is left of its column.
    divisor = ops.select(ops.equal(pivot, 0.0), 1.0, pivot)
    factors = ops.select(is_free, column / ops.expand_dims(divisor, axis=-1), 0.0)
    left = x - ops.expand_dims(factors, axis=-1) * row
    moved = ops.slice(left, starts=(*zeros, 0, 1), limits=(*batch, n, n))
    return ops.pad(moved, low=(*zeros, 0, 0), high=(*zeros, 0, 1)), is_free, total * signed


@tensor_op
class FactorDeterminantOp(MatrixOp):
    """The determinants (...,) of the square matrices `x` (..., n, n), as the products of their pivots.

    Front: `det`.
    """

    name = "tenon.factor_determinant"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "det"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    shapes = of_squares(0)

    LAPACK = staticmethod(lambda x: ("det", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        return np.asarray(np.linalg.det(x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        return (ops.expand_dims(g, axis=(-2, -1)) * CofactorsOp.apply(x),)


@tensor_op
class CofactorsOp(MatrixOp):
    """The cofactors (..., n, n) of the square matrices `x` (..., n, n): the derivative of the determinant with respect
    to each element, which is the determinant times the inverse transposed where there is one.

    Front: `det`.
    """

    name = "tenon.cofactors"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "det"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    shapes = of_squares(2)

    LAPACK = staticmethod(lambda x: ("cofactors", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        u, s, vh = np.linalg.svd(x)
        ones = np.ones_like(s[..., :1])
        before = np.cumprod(np.concatenate([ones, s[..., :-1]], axis=-1), axis=-1)
        behind = np.cumprod(np.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
        sign = np.linalg.det(u) * np.linalg.det(vh)
        return np.asarray((u * (before * behind * sign[..., None])[..., None, :]) @ vh)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        # Seen from singular vectors, a cofactor is the product of all singular values but one, and its derivatives are
        # those of all but two. Values that are rounding errors count as such, not as 0, so that they can be divided by.
        u, s, vh = ops.svd(x)
        limits = np.finfo(s.dtype)
        least = ops.maximum(ops.max(s, axis=-1, keepdims=True) * float(limits.eps), float(limits.tiny))
        logarithms = ops.log(ops.maximum(s, least))
        rest = ops.sum(logarithms, axis=-1, keepdims=True) - logarithms
        all_but_two = ops.exp(ops.expand_dims(rest, axis=-1) - ops.expand_dims(logarithms, axis=-2))
        all_but_two = all_but_two * (1.0 - ops.eye(x.shape[-1], dtype=x.element_type))
        sign = ops.slogdet(u)[0] * ops.slogdet(vh)[0]
        turned = ops.matmul(ops.matmul(vh, transposed(g)), u)
        diagonal = ops.diagonal(turned, axis1=-2, axis2=-1)
        of_diagonal = ops.matmul(all_but_two, ops.expand_dims(diagonal, axis=-1))[..., 0]
        inner = ops.matmul(u, all_but_two * turned)
        found = columns_times(u, of_diagonal) - inner
        return (ops.expand_dims(sign, axis=(-2, -1)) * ops.matmul(found, vh),)
