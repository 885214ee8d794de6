"""Singular values and vectors, and what follows from them: pseudoinverses and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.batching import all_batched
from tenon.dialects.ops.factor.matrix_op import (
    MatrixOp,
    columns_times,
    reciprocal_differences,
    smaller,
    transposed,
)
from tenon.dialects.types.shapes import InferenceError, Shape, show
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class SvdOp(MatrixOp):
    """Matrices u (..., m, m) and vh (..., n, n) with orthonormal columns and rows, and singular values s (..., k) in
    descending order, k the smaller of m and n, with u diag(s) vh = `x` (..., m, n). Without `full_matrices` u has k
    columns and vh k rows.

    The gradient needs `full_matrices=False` where m and n differ; that of vectors whose singular values are equal is
    not defined, and counts as 0: J. Townsend, "Differentiating the singular value decomposition" (2016).

    >>> tenon.svd(np.array([[3.0, 0.0], [0.0, 4.0]]))[1]
    """

    name = "tenon.svd"
    x = operand_def(FLOAT_TENSOR)
    full_matrices = setting(bool, default=True)
    u = result_def(FLOAT_TENSOR)
    s = result_def(FLOAT_TENSOR)
    vh = result_def(FLOAT_TENSOR)

    @staticmethod
    def shapes(x: Any, *, full_matrices: bool) -> tuple[Sequence[int], ...]:
        *batch, m, n = x
        k = smaller(m, n)
        left, right = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
        return (*batch, *left), (*batch, k), (*batch, *right)

    LAPACK = staticmethod(
        lambda x, *, full_matrices: ("svd", (*x[-2:], *(x[-2:] if full_matrices else (min(x[-2:]),) * 2)))
    )

    @staticmethod
    def compute(x: Any, *, full_matrices: bool) -> Any:
        return tuple(np.linalg.svd(x, full_matrices=full_matrices))

    @staticmethod
    def vjp(
        g: tuple[Value, Value, Value], out: tuple[Value, Value, Value], x: Value, *, full_matrices: bool
    ) -> tuple[Any, ...]:
        if full_matrices and x.shape[-1] != x.shape[-2]:
            raise ValueError(f"tenon.svd: of x of shape {x.shape}, the gradient needs full_matrices=False")
        (to_u, to_s, to_vh), (u, s, vh) = g, out
        inverse = ops.select(s == 0, 0.0, 1.0 / ops.select(s == 0, 1.0, s))
        difference = reciprocal_differences(s * s)

        def turning(vectors: Value, to_vectors: Value) -> Value:
            product = ops.matmul(transposed(vectors), to_vectors)
            return difference * (product - transposed(product))

        def outside(vectors: Value, to_vectors: Value) -> Value:
            """What of the gradient is at right angles to all vectors."""
            inside = ops.matmul(vectors, ops.matmul(transposed(vectors), to_vectors))
            return columns_times(to_vectors - inside, inverse)

        v, to_v = transposed(vh), transposed(to_vh)
        rows = ops.expand_dims(s, axis=-1)
        inner = columns_times(turning(u, to_u), s) + rows * turning(v, to_v)
        left = ops.matmul(u, inner) + columns_times(u, to_s) + outside(u, to_u)
        return (ops.matmul(left, vh) + ops.matmul(u, transposed(outside(v, to_v))),)


@tensor_op
class SvdvalsOp(MatrixOp):
    """The singular values (..., k) of the matrices `x` (..., m, n), in descending order, k the smaller of m and n.

    >>> tenon.svdvals(np.array([[3.0, 0.0], [0.0, 4.0]]))
    """

    name = "tenon.svdvals"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def shapes(x: Any) -> tuple[Sequence[int], ...]:
        *batch, m, n = x
        return ((*batch, smaller(m, n)),)

    LAPACK = staticmethod(lambda x: ("svdvals", x[-2:]))

    @staticmethod
    def compute(x: Any) -> Any:
        return np.linalg.svd(x, compute_uv=False)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        u, _, vh = ops.svd(x, full_matrices=False)
        return (ops.matmul(columns_times(u, g), vh),)


@tensor_op
class PinvOp(KeepsElement, CompositeOp):
    """The pseudoinverses (..., n, m) of the matrices `x` (..., m, n). Singular values of at most `rtol` times the
    largest count as 0; `rtol` is the larger of m and n times the machine epsilon where it is negative, as it is by
    default.

    The gradient is that of G. Golub and V. Pereyra (1973), right where the rank does not change.

    >>> tenon.pinv(np.array([[2.0], [0.0]]))
    """

    name = "tenon.pinv"
    x = operand_def(FLOAT_TENSOR)
    rtol = setting(float, default=-1.0)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        if len(shape) < 2:
            raise InferenceError(f"x has shape {show(shape)} where (..., m, n) is needed")
        *batch, m, n = shape
        return (*batch, n, m)

    @staticmethod
    def decompose(x: Value, *, rtol: float) -> Value:
        u, s, vh = ops.svd(in_wide_type(x), full_matrices=False)
        product = ops.matmul(columns_times(transposed(vh), inverses(s, x.shape, rtol)), transposed(u))
        return ops.cast(product, dtype=x.element_type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, rtol: float) -> tuple[Any, ...]:
        turned, back = transposed(out), transposed(g)
        first = ops.matmul(ops.matmul(turned, g), turned)
        second = ops.matmul(ops.matmul(back, out), turned)
        third = ops.matmul(turned, ops.matmul(out, back))
        second = second - ops.matmul(x, ops.matmul(out, second))
        third = third - ops.matmul(ops.matmul(third, out), x)
        return (second + third - first,)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*all_batched(size, batched, operands), **settings)


def in_wide_type(x: Any) -> Any:
    """`x` in f32 if its elements have fewer bits, the dtype that its matrices are computed in."""
    return ops.cast(x, dtype="f32") if x.dtype.itemsize < 4 else x


def inverses(s: Any, shape: tuple[int, ...], rtol: float) -> Any:
    """One over the singular values `s` of matrices of that shape, 0 for those that count as 0."""
    is_zero = s <= smallest(s, shape, rtol)
    return ops.select(is_zero, 0.0, 1.0 / ops.select(is_zero, 1.0, s))


def smallest(s: Any, shape: tuple[int, ...], rtol: float) -> Any:
    """The value (..., 1) up to which singular values `s` (..., k) of matrices of that shape count as 0: `rtol` times
    the largest, or the larger side times the machine epsilon if it is negative."""
    return ops.max(s, axis=-1, keepdims=True, start=0) * tolerance(shape, s.dtype, rtol)


def tolerance(shape: tuple[int, ...], dtype: Any, rtol: float) -> float:
    """`rtol`, or if it is negative the larger side of matrices of that shape times the machine epsilon."""
    return float(max(shape[-2:]) * np.finfo(dtype).eps) if rtol < 0 else rtol


@tensor_function
def matrix_rank(x: Any, *, rtol: float | None = None) -> Any:
    """How many singular values of the matrices `x` (..., m, n) are larger than `rtol` times the largest, as i64 (...,);
    `rtol` is the larger of m and n times the machine epsilon by default, which is that of f32 for integers and for
    floats of 16 bits: these are computed in f32.

    >>> tenon.matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0]]))
    """
    x = shaped(x)
    s = ops.svdvals(in_wide_type(x))
    return ops.count_nonzero(s > smallest(s, x.shape, -1.0 if rtol is None else rtol), axis=-1)
