"""Determinants and what goes with them, of the triangles of matrices."""

from __future__ import annotations

from math import inf

from tenon.runtime.cpu.ir_types import F64, I64, pointer
from tenon.runtime.cpu.ir_values import Local, Operand, Value
from tenon.runtime.cpu.lapack import small
from tenon.runtime.cpu.lapack.stacks import Stacks

_STEP = 2.0**512
"""Products of pivots are kept near 1 by powers of this number."""


def determinants(code: Stacks) -> None:
    """Define `slogdet`, `det` and `cofactors`."""
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

    def determinant(room: Value, x: Value, result: Value, n: Value) -> Operand:
        matrix = code.behind_integers(room, n)
        code.turned(matrix, x, n, n)
        code.lapack("getrf", n, n, matrix, n, room)
        result[0] = _scaled(code, *_product(code, room, matrix, n)).to(code.real)
        return 0

    def cofactors(room: Value, x: Value, result: Value, n: Value) -> Operand:
        largest = code.local(F64, 2.0**-100)
        code.turned(result, x, n, n)
        code.lapack("getrf", n, n, result, n, room)
        with code.each(n) as i:
            size = _size(code, result[i * (n + 1)].to(F64))
            largest.set(code.select(size > largest, size, largest))
        # A pivot of 0 could as well be a rounding error, with which there is an inverse.
        with code.each(n) as i, code.if_(result[i * (n + 1)] == 0.0):
            result[i * (n + 1)] = (largest * (2.0**-52 if code.real is F64 else 2.0**-23)).to(code.real)
        total, exponent = _product(code, room, result, n)
        info = code.lapack_with_room("getri", n, result, n, room)
        with code.each(n * n) as i:
            result[i] = _scaled(code, result[i].to(F64) * total, exponent).to(code.real)
        return info

    def square(n: Value) -> tuple[Value]:
        return (n * n,)

    def room_for_triangles(n: Value) -> Value:
        return n * (n + 1)

    code.stacked("slogdet", ("n",), square, lambda n: (1, 1), room_for_triangles, with_logarithm, small.slogdet)
    code.stacked("det", ("n",), square, lambda n: (1,), room_for_triangles, determinant, small.det)
    code.stacked("cofactors", ("n",), square, square, lambda n: n, cofactors, small.cofactors)


def _product(code: Stacks, room: Value, matrix: Value, n: Value) -> tuple[Local, Local]:
    """The determinant of what `getrf` gives, with pivots at the beginning of `room`: a number that is neither large nor
    small, and the exponent of the power of `_STEP` that it is to be multiplied by. What is between neither overflows
    nor vanishes."""
    pivots, total, exponent = room.to(pointer(code.integer)), code.local(F64, 1.0), code.local(I64, 0)
    with code.each(n) as i:
        pivot = code.local(F64, matrix[i * (n + 1)].to(F64))
        _bring_near_one(code, pivot, exponent)
        _bring_near_one(code, pivot, exponent)
        total.set(total * code.select(pivots[i].to(I64) == i + 1, pivot, pivot * -1.0))
        _bring_near_one(code, total, exponent)
    return total, exponent


def _bring_near_one(code: Stacks, number: Local, exponent: Local) -> None:
    """Multiply a number that is far from 1 by a power of `_STEP`, which `exponent` takes in."""
    size = _size(code, number)
    with code.if_(size > _STEP**0.5):
        number.set(number * (1 / _STEP))
        exponent.set(exponent + 1)
    with code.if_((size < _STEP**-0.5) & (size > 0.0)):
        number.set(number * _STEP)
        exponent.set(exponent - 1)


def _scaled(code: Stacks, number: Value, exponent: Value) -> Local:
    """A number times a power of `_STEP`."""
    found = code.local(F64, number)
    with code.each(exponent * 1):
        found.set(found * _STEP)
    with code.each(exponent * -1):
        found.set(found * (1 / _STEP))
    return found


def _size(code: Stacks, number: Value) -> Value:
    return code.external("llvm.fabs.f64", F64, F64)(number)
