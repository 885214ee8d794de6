"""Least squares by singular values and vectors.

The gradient is that of G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate" (1973), right where the rank does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.batching import all_batched
from tenon.dialects.ops.factor.matrix_op import transposed
from tenon.dialects.ops.factor.singular import in_wide_type, inverses
from tenon.dialects.types.shapes import InferenceError, refine, show
from tenon.dialects.types.types import FLOAT_TENSOR, element_of, shape_of, tensor_type


@tensor_op
class LeastSquaresOp(CompositeOp):
    """The matrices of least length x (..., n, k) for which the sums of squares of `a` x - `b` are least, of matrices
    `a` (..., m, n) and `b` (..., m, k); with `adjoint`, of `a` transposed. Singular values count as 0 as for `pinv`.

    Front: `linalg.lstsq`.
    """

    name = "tenon.least_squares"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "linalg.lstsq"
    a = operand_def(FLOAT_TENSOR)
    b = operand_def(FLOAT_TENSOR)
    rtol = setting(float, default=-1.0)
    adjoint = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, a: Any, b: Any, *, rtol: float, adjoint: bool) -> Any:
        of_a, of_b = shape_of(a), shape_of(b)
        if of_a is None or of_b is None:
            return tensor_type(None, element_of(b))
        try:
            rows = refine((*of_a[:-2], *(of_a[-1:] if adjoint else of_a[-2:-1])), of_b[:-1])
        except InferenceError:
            rows = None
        if not rows or len(of_a) < 2:
            needed = "(..., m, n) and (..., n, k)" if adjoint else "(..., m, n) and (..., m, k)"
            raise InferenceError(f"a has shape {show(of_a)} and b {show(of_b)} where {needed} is needed")
        return tensor_type((*rows[:-1], of_a[-2 if adjoint else -1], of_b[-1]), element_of(b))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*all_batched(size, batched, operands), **settings)

    @staticmethod
    def decompose(a: Value, b: Value, *, rtol: float, adjoint: bool) -> Value:
        u, s, vh = ops.svd(in_wide_type(a), full_matrices=False)
        left, right = (u, vh) if adjoint else (transposed(vh), transposed(u))
        weights = ops.expand_dims(inverses(s, a.shape, rtol), axis=-1)
        return ops.cast(ops.matmul(left, weights * ops.matmul(right, in_wide_type(b))), dtype=b.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, b: Value, *, rtol: float, adjoint: bool) -> tuple[Any, ...]:
        def solved(right: Value, is_turned: bool) -> Value:
            return LeastSquaresOp.apply(a, right, rtol=rtol, adjoint=adjoint != is_turned)

        matrix = transposed(a) if adjoint else a
        to_b = solved(g, is_turned=True)
        error = b - ops.matmul(matrix, out)
        # what of the cotangent no solution can have
        outside = g - solved(ops.matmul(matrix, g), is_turned=False)
        to_a = ops.matmul(error, transposed(solved(to_b, is_turned=False))) - ops.matmul(to_b, transposed(out))
        to_a = to_a + ops.matmul(solved(out, is_turned=True), transposed(outside))
        return transposed(to_a) if adjoint else to_a, to_b
