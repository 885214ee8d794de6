"""Triangular factors of matrices by elimination with exchanged rows.

The gradient is that of PyTorch's `lu`: of the square part by the rule of products with triangles, of further rows or
columns by what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import MatrixOp, smaller, transposed
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class FactorLuOp(MatrixOp):
    """The triangles of which the product is `x` (..., m, n) with its rows in another order, in one matrix `lu` (..., m,
    n): the upper one, and below it the lower one, whose diagonal is ones. `pivots` (..., k), for k the smaller of m and
    n, are the rows that each row was exchanged with, counted from 1, and `permutation` (..., m) the order, both as
    floats.

    Front: `linalg.lu_factor`.
    """

    name = "tenon.factor_lu"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "linalg.lu_factor"
    x = operand_def(FLOAT_TENSOR)
    lu = result_def(FLOAT_TENSOR)
    pivots = result_def(FLOAT_TENSOR)
    permutation = result_def(FLOAT_TENSOR)

    @staticmethod
    def shapes(x: Any) -> tuple[Sequence[int], ...]:
        *batch, m, n = x
        return x, (*batch, smaller(m, n)), (*batch, m)

    LAPACK = staticmethod(lambda x: ("lu", x[-2:]))

    @staticmethod
    def compute(x: Any) -> Any:
        *batch, m, n = x.shape
        lu = x.astype(np.float64)
        pivots = np.zeros((*batch, min(m, n)))
        permutation = np.broadcast_to(np.arange(m, dtype=np.float64), (*batch, m)).copy()
        for j in range(min(m, n)):
            place = np.argmax(np.abs(lu[..., j:, j]), axis=-1, keepdims=True) + j
            pivots[..., j] = place[..., 0] + 1
            for rows in (lu, permutation[..., None]):
                index = np.broadcast_to(place[..., None], (*batch, 1, rows.shape[-1]))
                taken = np.take_along_axis(rows, index, axis=-2)
                np.put_along_axis(rows, index, rows[..., j : j + 1, :], axis=-2)
                rows[..., j : j + 1, :] = taken
            pivot = lu[..., j, j, None]
            lu[..., j + 1 :, j] /= np.where(pivot == 0, 1.0, pivot)
            lu[..., j + 1 :, j + 1 :] -= lu[..., j + 1 :, j, None] * lu[..., j, None, j + 1 :]
        return tuple([part.astype(x.dtype) for part in (lu, pivots, permutation)])

    @staticmethod
    def vjp(g: tuple[Value, ...], out: tuple[Value, ...], x: Value) -> tuple[Any, ...]:
        lu, _, permutation = out
        m, n = x.shape[-2:]
        k = min(m, n)
        to_lower, to_upper = ops.tril(g[0], k=-1)[..., :k], ops.triu(g[0])[..., :k, :]
        lower = ops.tril(lu[..., :k, :k], k=-1) + ops.eye(k, dtype=lu.element_type)
        upper = ops.triu(lu[..., :k, :k])
        below = ops.matmul(transposed(lower), to_lower[..., :k, :])
        above = ops.matmul(to_upper[..., :k], transposed(upper))
        if n > k:
            below = below - ops.matmul(to_upper[..., k:], transposed(ops.triu(lu)[..., k:]))
        if m > k:
            above = above - ops.matmul(transposed(lu[..., k:, :]), to_lower[..., k:, :])

        def through_upper(rows: Value) -> Value:
            return ops.solve_triangular(upper, rows, upper=True, left=False, trans=1)

        def through_lower(columns: Value) -> Value:
            return ops.solve_triangular(lower, columns, lower=True, trans=1, unitriangular=True)

        found = through_lower(through_upper(ops.tril(below, k=-1) + ops.triu(above)))
        if n > k:
            found = ops.concatenate([found, through_lower(to_upper[..., k:])], axis=-1)
        if m > k:
            found = ops.concatenate([found, through_upper(to_lower[..., k:, :])], axis=-2)
        places = ops.expand_dims(ops.argsort(permutation, axis=-1), axis=-1)
        return (ops.take_along_axis(found, ops.broadcast_to(places, shape=found.shape), axis=-2),)
