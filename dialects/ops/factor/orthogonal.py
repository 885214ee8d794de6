"""Orthogonal factors of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import MatrixOp, smaller, transposed
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import FLOAT_TENSOR

MODES = ("reduced", "complete")


@tensor_op
class QrOp(MatrixOp):
    """Matrices q (..., m, k) with orthonormal columns and upper triangular ones r (..., k, n) with q r = `x` (..., m,
    n); k is the smaller of m and n in the mode "reduced", and m in the mode "complete".

    The gradient is that of full rank, in the mode "complete" where m is at most n: H. Liao, J. Liu, L. Wang and T.
    Xiang, "Differentiable programming tensor networks" (2019).

    >>> [part.shape for part in tenon.qr(np.ones((3, 2)))]
    """

    name = "tenon.qr"
    x = operand_def(FLOAT_TENSOR)
    mode = setting(str, default="reduced")
    q = result_def(FLOAT_TENSOR)
    r = result_def(FLOAT_TENSOR)

    @staticmethod
    def shapes(x: Any, *, mode: str) -> tuple[Sequence[int], ...]:
        if mode not in MODES:
            raise InferenceError(f"mode is {mode!r} where one of {', '.join(MODES)} is needed")
        *batch, m, n = x
        k = m if mode == "complete" else smaller(m, n)
        return (*batch, m, k), (*batch, k, n)

    LAPACK = staticmethod(lambda x, *, mode: ("qr", (*x[-2:], x[-2] if mode == "complete" else min(x[-2:]))))

    @staticmethod
    def compute(x: Any, *, mode: str) -> Any:
        return tuple(np.linalg.qr(x, mode=mode))  # pyright: ignore

    @staticmethod
    def vjp(g: tuple[Value, Value], out: tuple[Value, Value], x: Value, *, mode: str) -> tuple[Any, ...]:
        (to_q, to_r), (q, r) = g, out
        m, n = x.shape[-2:]
        if mode == "complete" and m > n:
            raise ValueError(f'tenon.qr: of x of shape {x.shape}, the gradient needs mode="reduced"')
        if m >= n:
            return (_gradient(to_q, to_r, q, r),)
        # The first m columns are factorized, the others are q^T times them.
        rest, to_rest = x[..., m:], to_r[..., m:]
        to_q = to_q + ops.matmul(rest, transposed(to_rest))
        return (ops.concatenate([_gradient(to_q, to_r[..., :m], q, r[..., :m]), ops.matmul(q, to_rest)], axis=-1),)


def _gradient(to_q: Value, to_r: Value, q: Value, r: Value) -> Value:
    """The gradient of matrices of at least as many rows as columns."""
    inner = ops.matmul(r, transposed(to_r)) - ops.matmul(transposed(to_q), q)
    mirrored = ops.tril(inner) + transposed(ops.tril(inner, k=-1))
    outer = to_q + ops.matmul(q, mirrored)
    return transposed(ops.solve_triangular(r, transposed(outer), upper=True))
