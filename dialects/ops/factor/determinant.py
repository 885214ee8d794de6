"""Determinants of square matrices, and their cofactors, which are the gradient."""

from __future__ import annotations

from collections.abc import Sequence
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

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*operands)

    @staticmethod
    def decompose(x: Value) -> Value:
        *batch, n, _ = x.shape
        rest = in_compute_type(x)
        if n > _UNROLLED:
            return FactorDeterminantOp.apply(rest).astype(x.element_type)
        rows = [[rest[..., i, j] for j in range(n)] for i in range(n)]
        total: Any = ops.full(batch, 1.0, dtype=rest.element_type)
        for column in range(n):
            total = total * _eliminate(rows, column)
        return total.astype(x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        # By cofactors, since a pivot of 0 says nothing of the elements that are below it.
        wide = in_compute_type(x)
        cofactors = _minors(wide) if 0 < x.shape[-1] <= _UNROLLED else CofactorsOp.apply(wide)
        return ((ops.expand_dims(g, axis=(-2, -1)) * cofactors).astype(x.element_type),)


def _minors(x: Value) -> Value:
    """The cofactors of small matrices as sums of products."""
    n = x.shape[-1]
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Any] = {((), ()): ops.full_like(x[..., 0, 0], 1.0)}

    def determinant(rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
        if (rows, columns) not in known:
            top, *others = rows
            parts = [
                x[..., top, column] * determinant(tuple(others), (*columns[:j], *columns[j + 1 :]))
                for j, column in enumerate(columns)
            ]
            known[rows, columns] = sum(parts[2::2], parts[0]) - sum(parts[3::2], parts[1]) if parts[1:] else parts[0]
        return known[rows, columns]

    def without(index: int) -> tuple[int, ...]:
        return tuple([i for i in range(n) if i != index])

    cofactors = [[determinant(without(i), without(j)) * (-1.0) ** (i + j) for j in range(n)] for i in range(n)]
    return ops.stack([ops.stack(row, axis=-1) for row in cofactors], axis=-2)


def _eliminate(rows: list[list[Value]], column: int) -> Value:
    """A step of elimination on matrices whose elements (...,) are values of their own: the pivot, with the sign of the
    exchanges of rows that bring it into its place. In place of `rows` are those that are left, with it on top."""
    pivot_row, is_even = rows[column], None
    for i in range(column + 1, len(rows)):
        other = rows[i]
        is_larger = ops.abs(other[column]) > ops.abs(pivot_row[column])
        pairs = [*zip(pivot_row, other, strict=True)][column:]
        rows[i] = [*other[:column], *[ops.select(is_larger, a, b) for a, b in pairs]]
        pivot_row = [*pivot_row[:column], *[ops.select(is_larger, b, a) for a, b in pairs]]
        is_even = ops.logical_not(is_larger) if is_even is None else ops.not_equal(is_even, is_larger)
    pivot = pivot_row[column]
    # Where the pivot is 0, so is what is left of its column.
    divisor = ops.select(ops.equal(pivot, 0.0), 1.0, pivot)
    for i in range(column + 1, len(rows)):
        factor = rows[i][column] / divisor
        rows[i] = [a - factor * b if j > column else a for j, (a, b) in enumerate(zip(rows[i], pivot_row, strict=True))]
    return pivot if is_even is None else ops.select(is_even, pivot, ops.negative(pivot))


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
