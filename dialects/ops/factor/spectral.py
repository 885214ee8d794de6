"""Eigenvalues and eigenvectors of symmetric matrices.

The gradients are those of M. Giles, "Collected matrix derivative results" (2008), section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import (
    MatrixOp,
    columns_times,
    of_squares,
    reciprocal_differences,
    symmetric_part,
    transposed,
)
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class EighOp(MatrixOp):
    """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order, and as columns (..., n,
    n) eigenvectors of length 1. Of other matrices the symmetric part counts.

    The gradient of vectors whose eigenvalues are equal is not defined, and counts as 0.

    >>> tenon.eigh(np.array([[3.0, 0.0], [0.0, 1.0]]))
    """

    name = "tenon.eigh"
    x = operand_def(FLOAT_TENSOR)
    values = result_def(FLOAT_TENSOR)
    vectors = result_def(FLOAT_TENSOR)

    shapes = of_squares(1, 2)

    LAPACK = staticmethod(lambda x: ("eigh", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        return tuple(np.linalg.eigh(symmetric_part(x)))

    @staticmethod
    def vjp(g: tuple[Value, Value], out: tuple[Value, Value], x: Value) -> tuple[Any, ...]:
        (to_values, to_vectors), (values, vectors) = g, out
        turned = transposed(vectors)
        turning = ops.matmul(turned, to_vectors) * reciprocal_differences(values)
        inner = ops.matmul(vectors, turning) + columns_times(vectors, to_values)
        return (symmetric_part(ops.matmul(inner, turned)),)


@tensor_op
class EigvalshOp(MatrixOp):
    """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order. Of others the symmetric
    part counts.

    >>> tenon.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    """

    name = "tenon.eigvalsh"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    shapes = of_squares(1)

    LAPACK = staticmethod(lambda x: ("eigvalsh", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        return np.linalg.eigvalsh(symmetric_part(x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        _, vectors = ops.eigh(x)
        return (ops.matmul(columns_times(vectors, g), transposed(vectors)),)
