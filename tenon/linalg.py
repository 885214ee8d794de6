"""Linear algebra, by the names of the array API standard; matrices are the last two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenon
from tenon.arrays.factorizations import cond, eigh, lstsq, pinv, qr, slogdet, svd
from tenon.arrays.products import (
    cross,
    diagonal,
    matrix_norm,
    matrix_power,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from tenon.arrays.rearranging import matrix_transpose
from tenon.dialects.support.suggestion import attribute_hints

det, matmul = tenon.det, tenon.matmul
cholesky, inv, eigvalsh, svdvals = tenon.cholesky, tenon.inv, tenon.eigvalsh, tenon.svdvals
solve, solve_triangular, matrix_rank = tenon.solve, tenon.solve_triangular, tenon.matrix_rank
outer = tenon.outer

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__,
        {
            "norm": "write vector_norm(x, axis=..., ord=...), or matrix_norm(x, ord=...) of matrices",
            "multi_dot": "write tenon.einsum, which finds the order of products",
            "eig": "there are no complex dtypes; eigh has the eigenvalues of symmetric matrices",
            "eigvals": "there are no complex dtypes; eigvalsh has the eigenvalues of symmetric matrices",
        },
    )
