"""Least squares by singular values.

The gradient is that of G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate" (1973), right where the rank does not change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import MatrixOp, columns_times, smaller, transposed
from tenon.dialects.ops.factor.singular import tolerance
from tenon.dialects.types.shapes import InferenceError, refine, show
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class LeastSquaresOp(MatrixOp):
    """The matrices of least length x (..., n, k) for which the sums of squares of `a` x - `b` are least, of matrices
    `a` (..., m, n) and `b` (..., m, k) in as many stacks, and the singular values s (..., min(m, n)) of `a`, in
    descending order, which count as 0 as for `pinv`.

    Front: `linalg.lstsq`.
    """

    name = "tenon.least_squares"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "linalg.lstsq"
    a = operand_def(FLOAT_TENSOR)
    b = operand_def(FLOAT_TENSOR)
    rtol = setting(float, default=-1.0)
    result = result_def(FLOAT_TENSOR)
    s = result_def(FLOAT_TENSOR)

    @staticmethod
    def shapes(a: Any, b: Any, *, rtol: float) -> tuple[Sequence[int], ...]:
        try:
            rows = refine(a[:-1], b[:-1]) or ()
        except InferenceError:
            needed = "(..., m, n) and (..., m, k) is needed"
            raise InferenceError(f"a has shape {show(a)} and b {show(b)} where {needed}") from None
        return (*rows[:-1], a[-1], b[-1]), (*rows[:-1], smaller(*a[-2:]))

    # sizes are integers: the tolerance is passed by its bits
    LAPACK = staticmethod(
        lambda a, b, *, rtol: ("least_squares", (*a[-2:], b[-1], *struct.unpack("<q", struct.pack("<d", rtol))))
    )

    @staticmethod
    def compute(a: Any, b: Any, *, rtol: float) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        is_zero = s <= s.max(axis=-1, keepdims=True, initial=0) * tolerance(a.shape, s.dtype, rtol)
        inverse = np.where(is_zero, 0, 1 / np.where(is_zero, 1, s)).astype(s.dtype)
        return vh.mT @ (inverse[..., None] * (u.mT @ b)), s

    @staticmethod
    def vjp(g: tuple[Value, Value], out: tuple[Value, Value], a: Value, b: Value, *, rtol: float) -> tuple[Any, ...]:
        def solved(matrix: Value, right: Value) -> Value:
            return LeastSquaresOp.apply(matrix, right, rtol=rtol)[0]

        (to_x, to_s), (x, _), turned = g, out, transposed(a)
        # `SolveByVectors` makes all of them products with the vectors.
        u, _, vh = ops.svd(a, full_matrices=False)
        to_b = solved(turned, to_x)
        error = b - ops.matmul(a, x)
        # what of the cotangent no solution can have
        outside = to_x - solved(a, ops.matmul(a, to_x))
        to_a = ops.matmul(error, transposed(solved(a, to_b))) - ops.matmul(to_b, transposed(x))
        to_a = to_a + ops.matmul(solved(turned, x), transposed(outside))
        return to_a + ops.matmul(columns_times(u, to_s), vh), to_b
