"""Determinants and what goes with them, of the triangles of matrices."""

from __future__ import annotations

from math import inf

from tenon.runtime.cpu.ir_types import F64, I64, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.lapack import small
from tenon.runtime.cpu.lapack.stacks import Stacks


def determinants(code: Stacks) -> None:
    """Define `slogdet`."""
    logarithm = code.external("log", F64, F64)

    def with_logarithm(room: Value, x: Value, sign: Value, magnitude: Value, n: Value) -> Operand:
        matrix, pivots = code.behind_integers(room, n), room.to(pointer(code.integer))
        code.turned(matrix, x, n, n)
        info = code.lapack("getrf", n, n, matrix, n, room)
        is_negative, total = code.local(I64, 0), code.local(F64, 0.0)
        with code.each(n) as i:
            pivot = matrix[i * (n + 1)].to(F64)
            is_exchanged = (pivots[i].to(I64) != i + 1).to(I64)
            is_negative.set(is_negative ^ is_exchanged ^ (pivot < 0.0).to(I64))
            total.set(total + logarithm(_size(code, pivot)))
        one = code.select(is_negative != 0, code.number(code.real, -1.0), code.number(code.real, 1.0))
        sign[0] = code.select(info != 0, code.number(code.real, 0.0), one)
        magnitude[0] = code.select(info != 0, code.number(F64, -inf), total).to(code.real)
        return 0

    def square(n: Value) -> tuple[Value]:
        return (n * n,)

    def room_for_triangles(n: Value) -> Value:
        return n * (n + 1)

    code.stacked("slogdet", ("n",), square, lambda n: (1, 1), room_for_triangles, with_logarithm, small.slogdet)


def _size(code: Stacks, number: Value) -> Value:
    return code.external("llvm.fabs.f64", F64, F64)(number)
