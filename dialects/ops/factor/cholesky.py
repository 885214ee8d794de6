"""Cholesky's factors of positive definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import MatrixOp, of_squares, symmetric_part, transposed
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class CholeskyOp(MatrixOp):
    """The lower triangular matrices l with l l^T = `x`, of symmetric positive definite matrices (..., n, n); with
    `upper` the upper ones u with u^T u = x. Of others the symmetric part counts. Raises `LinAlgError` where
    there are none.

    The gradient is that of I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10.

    >>> tenon.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    """

    name = "tenon.cholesky"
    x = operand_def(FLOAT_TENSOR)
    upper = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    shapes = of_squares(2)

    LAPACK = staticmethod(lambda x, *, upper: ("cholesky", (x[-1], int(upper))))

    @staticmethod
    def compute(x: Any, *, upper: bool) -> Any:
        return np.linalg.cholesky(symmetric_part(x), upper=upper)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, upper: bool) -> tuple[Any, ...]:
        lower, to_lower = (transposed(out), transposed(g)) if upper else (out, g)
        turned = transposed(lower)
        inner = ops.tril(ops.matmul(turned, to_lower))
        inner = inner - ops.tril(ops.triu(inner)) * 0.5
        outer = ops.solve_triangular(turned, inner, upper=True)
        return (symmetric_part(transposed(ops.solve_triangular(turned, transposed(outer), upper=True))),)
