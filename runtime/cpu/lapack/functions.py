"""The functions of stacks of matrices that compiled programs call: what `numpy.linalg` computes, in the same way."""

from __future__ import annotations

from math import inf

from tenon.runtime.cpu.ir_types import F64, I8, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.lapack import small
from tenon.runtime.cpu.lapack.stacks import ASKED, Stacks


def lapack_functions(bits: int, integer_bits: int) -> Stacks:
    """All of them, for matrices of f32 or f64."""
    code = Stacks(bits, integer_bits)
    _solving(code)
    _triangles(code)
    _cholesky(code)
    _determinants(code)
    _elimination(code)
    _spectral(code)
    _singular(code)
    _orthogonal(code)
    return code


def _square(n: Value, **_: Value) -> tuple[Value]:
    """The elements of a square matrix."""
    return (n * n,)


def _solving(code: Stacks) -> None:
    def solve(room: Value, a: Value, b: Value, x: Value, n: Value, k: Value) -> Operand:
        matrix, right = room.at(n), room.at(n * (n + 1))
        code.turned(matrix, a, n, n)
        code.turned(right, b, n, k)
        info = code.lapack("gesv", n, k, matrix, n, room, right, n)
        code.turned(x, right, k, n)
        return info

    def invert(room: Value, a: Value, x: Value, n: Value) -> Operand:
        matrix, right = room.at(n), room.at(n * (n + 1))
        code.turned(matrix, a, n, n)
        with code.each(n) as i, code.each(n) as j:
            right[i * n + j] = code.select(i == j, code.number(F64, 1.0), code.number(F64, 0.0))
        info = code.lapack("gesv", n, n, matrix, n, room, right, n)
        code.turned(x, right, n, n)
        return info

    code.stacked(
        *("solve", ("n", "k"), lambda n, k: (n * n, n * k), lambda n, k: (n * k,), lambda n, k: n * (n + k + 1)),
        solve,
        small.solve,
    )
    code.stacked("inv", ("n",), _square, _square, lambda n: n * (n * 2 + 1), invert, small.invert)


def _triangles(code: Stacks) -> None:
    copy = code.external("memcpy", PTR, PTR, PTR, I64)

    def solve(room: Value, a: Value, b: Value, x: Value, n: Value, k: Value, upper: Value, unit: Value) -> Operand:
        # Read by columns, x^T a^T = b^T: nothing has to be transposed.
        is_singular = code.local(I64, 0)
        with code.if_(unit == 0), code.each(n) as i, code.if_(a[i * (n + 1)] == 0.0):
            is_singular.set(1)
        copy(x, b, n * k * F64.size)
        triangle, diagonal = code.letter(upper != 0, "L", "U"), code.letter(unit != 0, "U", "N")
        code.blas("trsm", "R", triangle, "N", diagonal, k, n, 1.0, a, n, x, k)
        return is_singular

    code.stacked(
        "solve_triangle",
        ("n", "k", "upper", "unit"),
        lambda n, k, **_: (n * n, n * k),
        lambda n, k, **_: (n * k,),
        lambda **_: 0,
        solve,
        small.solve_triangle,
    )


def _cholesky(code: Stacks) -> None:
    def factor(room: Value, x: Value, result: Value, n: Value, upper: Value) -> Operand:
        code.symmetric(room, x, n)
        info = code.lapack("potrf", code.letter(upper != 0, "U", "L"), n, room, n)
        with code.each(n) as i, code.each(n) as j:
            is_inside = ((upper == 0) & (j <= i)) | ((upper != 0) & (i <= j))
            result[i * n + j] = code.select(is_inside, room[j * n + i], code.number(F64, 0.0))
        return info

    code.stacked("cholesky", ("n", "upper"), _square, _square, lambda n, upper: n * n, factor, small.cholesky)


def _determinants(code: Stacks) -> None:
    logarithm = code.external("log", F64, F64)

    def determinant(room: Value, x: Value, sign: Value, magnitude: Value, n: Value) -> Operand:
        matrix, pivots = room.at(n), room.to(pointer(code.integer))
        code.turned(matrix, x, n, n)
        info = code.lapack("getrf", n, n, matrix, n, room)
        is_negative, total = code.local(I64, 0), code.local(F64, 0.0)
        with code.each(n) as i:
            pivot = matrix[i * (n + 1)].to(F64)
            is_exchanged = (pivots[i].to(I64) != i + 1).to(I64)
            is_negative.set(is_negative ^ is_exchanged ^ (pivot < 0.0).to(I64))
            total.set(total + logarithm(code.select(pivot < 0.0, pivot * -1.0, pivot)))
        one = code.select(is_negative != 0, code.number(F64, -1.0), code.number(F64, 1.0))
        sign[0] = code.select(info != 0, code.number(F64, 0.0), one)
        magnitude[0] = code.select(info != 0, code.number(F64, -inf), total).to(F64)
        return 0

    code.stacked("slogdet", ("n",), _square, lambda n: (1, 1), lambda n: n * (n + 1), determinant, small.slogdet)


def _elimination(code: Stacks) -> None:
    def factor(room: Value, x: Value, lu: Value, rows: Value, order: Value, m: Value, n: Value) -> Operand:
        k = code.select(m < n, m, n)
        matrix, pivots = room.at(k), room.to(pointer(code.integer))
        code.turned(matrix, x, m, n)
        code.lapack("getrf", m, n, matrix, m, room)  # which goes on where a pivot is 0
        code.turned(lu, matrix, n, m)
        with code.each(m) as i:
            order[i] = i.to(F64)
        with code.each(k) as i:
            place = pivots[i].to(I64)
            rows[i] = place.to(F64)
            kept, taken = order[i].to(F64), order[place - 1].to(F64)
            order[place - 1] = kept
            order[i] = taken
        return 0

    code.stacked(
        "lu",
        ("m", "n"),
        lambda m, n: (m * n,),
        lambda m, n: (m * n, code.select(m < n, m, n), m),
        lambda m, n: m * n + code.select(m < n, m, n),
        factor,
    )


def _spectral(code: Stacks) -> None:
    def values_of(x: Value, values: Value, vectors: Value, n: Value, job: str) -> Value:
        code.symmetric(vectors, x, n)
        wanted, whole = code.array(F64), code.array(I64)
        code.lapack("syevd", job, "L", n, vectors, n, values, wanted, ASKED, whole, ASKED)
        # LAPACK may write as few bits as its integers have
        reals, integers = code.integer_of(wanted.load()), whole.to(pointer(code.integer)).load().to(I64)
        return code.with_room(
            [reals, integers],
            lambda work, more: code.lapack("syevd", job, "L", n, vectors, n, values, work, reals, more, integers),
        )

    def decompose(room: Value, x: Value, values: Value, vectors: Value, n: Value) -> Operand:
        info = values_of(x, values, room, n, "V")
        code.turned(vectors, room, n, n)
        return info

    def values_alone(room: Value, x: Value, values: Value, n: Value) -> Operand:
        return values_of(x, values, room, n, "N")

    code.stacked("eigh", ("n",), _square, lambda n: (n, n * n), lambda n: n * n, decompose)
    code.stacked("eigvalsh", ("n",), _square, lambda n: (n,), lambda n: n * n, values_alone)


def _singular(code: Stacks) -> None:
    def values_of(
        room: Value, job: Value, m: Value, n: Value, values: Value, u: Value, vh: Value, rows: Value
    ) -> Value:
        """The decomposition of `room`, with so many `rows` of `vh`."""
        return code.with_room(
            [code.select(m < n, m, n) * 8],
            lambda places: code.lapack_with_room("gesdd", job, m, n, room, m, values, u, m, vh, rows, behind=(places,)),
        )

    def decompose(
        room: Value, x: Value, u: Value, s: Value, vh: Value, m: Value, n: Value, columns: Value, rows: Value
    ) -> Operand:
        left, right = room.at(m * n), room.at(m * (n + columns))
        code.turned(room, x, m, n)
        k = code.select(m < n, m, n)
        job = code.letter((columns == k) & (rows == k), "S", "A")
        info = values_of(room, job, m, n, s, left, right, rows)
        code.turned(u, left, columns, m)
        code.turned(vh, right, n, rows)
        return info

    def values_alone(room: Value, x: Value, s: Value, m: Value, n: Value) -> Operand:
        code.turned(room, x, m, n)
        return values_of(room, code.number(I8, ord("N")), m, n, s, room, room, n)

    code.stacked(
        "svd",
        ("m", "n", "columns", "rows"),
        lambda m, n, **_: (m * n,),
        lambda m, n, columns, rows: (m * columns, code.select(m < n, m, n), rows * n),
        lambda m, n, columns, rows: m * (n + columns) + rows * n,
        decompose,
    )
    code.stacked(
        *("svdvals", ("m", "n"), lambda m, n: (m * n,), lambda m, n: (code.select(m < n, m, n),)),
        lambda m, n: m * n,
        values_alone,
    )


def _orthogonal(code: Stacks) -> None:
    def decompose(room: Value, x: Value, q: Value, r: Value, m: Value, n: Value, columns: Value) -> Operand:
        k = code.select(m < n, m, n)
        factors, left = room.at(k), room.at(k + m * n)
        code.turned(factors, x, m, n)
        info = code.lapack_with_room("geqrf", m, n, factors, m, room)
        with code.each(columns) as i, code.each(n) as j:
            r[i * n + j] = code.select(i <= j, factors[j * m + i], code.number(F64, 0.0))
        with code.each(m) as i, code.each(k) as j:
            left[j * m + i] = factors[j * m + i]
        further = code.lapack_with_room("orgqr", m, columns, k, left, m, room)
        code.turned(q, left, columns, m)
        return info | further

    code.stacked(
        "qr",
        ("m", "n", "columns"),
        lambda m, n, columns: (m * n,),
        lambda m, n, columns: (m * columns, columns * n),
        lambda m, n, columns: n * (m + 1) + m * columns,
        decompose,
        small.qr,
    )
