"""Systems with triangles, solved by halves: nearly all of it is products of matrices.

BLAS solves them as well, and where there are many right sides it takes twice as long as such products do.
"""

from __future__ import annotations

from tenon.runtime.cpu.ir_types import I64
from tenon.runtime.cpu.ir_values import Function, Value
from tenon.runtime.cpu.lapack.stacks import Stacks

_FEW = 16
"""Up to how many unknowns are BLAS's to solve for."""


def substituting(code: Stacks) -> Function:
    """The function that puts the solutions (n, k) of a x = b in the place of `b`, of a triangle `a`, the lower or the
    `upper` one, with ones on its diagonal if `unit`; `a` lies row by row or `by_columns`."""
    matrices, settings = code.matrices, {"upper": I64, "unit": I64, "by_columns": I64}

    # BLAS reads by columns, a transposed, and so solves x^T a^T = b^T.
    def triangle(upper: Value, by_columns: Value) -> Value:
        return code.letter((upper != 0) ^ (by_columns != 0), "L", "U")

    # Of the triangle (count, count) that begins at `a`, the rows of which are those of one (n, n).
    @code.function(a=matrices, b=matrices, count=I64, n=I64, k=I64, **settings)
    def part(
        a: Value, b: Value, count: Value, n: Value, k: Value, upper: Value, unit: Value, by_columns: Value
    ) -> None:
        side, is_upper = code.letter(by_columns != 0, "T", "N"), upper != 0
        with code.if_(count <= _FEW):
            diagonal = code.letter(unit != 0, "U", "N")
            code.blas("trsm", "R", triangle(upper, by_columns), side, diagonal, k, count, 1.0, a, n, b, k)
            code.return_()
        half = (count // 2 + (_FEW - 1)) // _FEW * _FEW
        known, rest = code.select(is_upper, half, 0), code.select(is_upper, code.number(I64, 0), half)
        of_known = code.select(is_upper, count - half, half)
        solved, others = b.at(known * k), b.at(rest * k)
        part(a.at(known * (n + 1)), solved, of_known, n, k, upper, unit, by_columns)
        factors = a.at(code.select(by_columns != 0, known * n + rest, rest * n + known))
        code.blas("gemm", "N", side, k, count - of_known, of_known, -1.0, solved, k, factors, n, 1.0, others, k)
        part(a.at(rest * (n + 1)), others, count - of_known, n, k, upper, unit, by_columns)

    @code.function(a=matrices, b=matrices, n=I64, k=I64, **settings)
    def substituted(a: Value, b: Value, n: Value, k: Value, upper: Value, unit: Value, by_columns: Value) -> None:
        with code.if_(k == 1):
            letters = (
                triangle(upper, by_columns),
                code.letter(by_columns != 0, "N", "T"),
                code.letter(unit != 0, "U", "N"),
            )
            code.blas("trsv", *letters, n, a, n, b, 1)
        with code.else_():
            part(a, b, n, n, k, upper, unit, by_columns)

    return substituted
