"""Linear algebra, by the names of the array API standard; matrices are the last two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenon
from tenon.arrays.products import (
    cross,
    diagonal,
    matrix_norm,
    matrix_power,
    outer,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from tenon.arrays.rearranging import matrix_transpose
from tenon.dialects.support.suggestion import attribute_hints

det, matmul = tenon.det, tenon.matmul

__all__ = [
    "cross",
    "det",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
