"""Linear algebra, by the names of the array API standard; matrices are the last two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.linalg import LinAlgError

import tenon
from tenon.arrays.factorizations import cond, eigh, lstsq, lu, lu_factor, lu_solve, pinv, qr, slogdet, svd
from tenon.arrays.products import (
    diagonal,
    matrix_exp,
    matrix_norm,
    matrix_power,
    norm,
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
outer, cross, multi_dot = tenon.outer, tenon.cross, tenon.multi_dot

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
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
            "eig": "there are no complex dtypes; eigh has the eigenvalues of symmetric matrices",
            "eigvals": "there are no complex dtypes; eigvalsh has the eigenvalues of symmetric matrices",
        },
    )
