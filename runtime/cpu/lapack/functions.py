"""The functions of stacks of matrices that compiled programs call: what `numpy.linalg` computes, in the dtype of the
matrices."""

from __future__ import annotations

from tenon.runtime.cpu.ir_types import F64, I8, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.lapack import small
from tenon.runtime.cpu.lapack.determinants import determinants
from tenon.runtime.cpu.lapack.stacks import ASKED, Stacks
from tenon.runtime.cpu.lapack.substitution import substituting


def lapack_functions(bits: int, integer_bits: int) -> Stacks:
    """All of them, for matrices of f32 or f64."""
    code = Stacks(bits, integer_bits)
    _solving(code)
    _cholesky(code)
    determinants(code)
    _elimination(code)
    _spectral(code)
    _singular(code)
    _least_squares(code)
    _orthogonal(code)
    return code


def _square(n: Value, **_: Value) -> tuple[Value]:
    """The elements of a square matrix."""
    return (n * n,)


def _solving(code: Stacks) -> None:
    copy = code.external("memcpy", PTR, PTR, PTR, I64)
    substituted = substituting(code)

    def eliminated(room: Value, a: Value, x: Value, n: Value, k: Value) -> Operand:
        """Put the solutions of a x = b in the place of b."""
        matrix, pivots = code.behind_integers(room, n), room.to(pointer(code.integer))
        code.turned(matrix, a, n, n)
        info = code.lapack("getrf", n, n, matrix, n, room)
        with code.each(n) as i:
            one, other = x.at(i * k), x.at((pivots[i].to(I64) - 1) * k)
            with code.if_((pivots[i].to(I64) - 1) != i), code.each(k) as j:
                kept, taken = one[j], other[j]
                one[j] = taken
                other[j] = kept
        with code.if_(info == 0):
            substituted(matrix, x, n, k, 0, 1, 1)
            substituted(matrix, x, n, k, 1, 0, 1)
        return info

    def solve(room: Value, a: Value, b: Value, x: Value, n: Value, k: Value) -> Operand:
        copy(x, b, n * k * code.real.size)
        return eliminated(room, a, x, n, k)

    def invert(room: Value, a: Value, x: Value, n: Value) -> Operand:
        with code.each(n) as i, code.each(n) as j:
            x[i * n + j] = code.select(i == j, code.number(code.real, 1.0), code.number(code.real, 0.0))
        return eliminated(room, a, x, n, n)

    def solve_triangle(
        room: Value, a: Value, b: Value, x: Value, n: Value, k: Value, upper: Value, unit: Value
    ) -> Operand:
        is_singular = code.local(I64, 0)
        with code.if_(unit == 0), code.each(n) as i, code.if_(a[i * (n + 1)] == 0.0):
            is_singular.set(1)
        copy(x, b, n * k * code.real.size)
        substituted(a, x, n, k, upper, unit, 0)
        return is_singular

    def systems(n: Value, k: Value, **_: Value) -> tuple[Value, Value]:
        return n * n, n * k

    def solutions(n: Value, k: Value, **_: Value) -> tuple[Value]:
        return (n * k,)

    def room_for_triangles(n: Value, **_: Value) -> Value:
        return n * (n + 1)

    code.stacked("solve", ("n", "k"), systems, solutions, room_for_triangles, solve, small.solve)
    code.stacked("inv", ("n",), _square, _square, room_for_triangles, invert, small.invert)
    sizes, lanes = ("n", "k", "upper", "unit"), small.solve_triangle
    code.stacked("solve_triangle", sizes, systems, solutions, lambda **_: 0, solve_triangle, lanes)


def _cholesky(code: Stacks) -> None:
    def factor(room: Value, x: Value, result: Value, n: Value, upper: Value) -> Operand:
        # Read by columns, the lower triangle is the upper one: nothing has to be transposed.
        code.symmetric(result, x, n)
        info = code.lapack("potrf", code.letter(upper != 0, "L", "U"), n, result, n)
        with code.each(n) as i:
            start, end = code.select(upper != 0, code.number(I64, 0), i + 1), code.select(upper != 0, i, n)
            with code.each(end, start) as j:
                result[i * n + j] = 0.0
        return info

    code.stacked("cholesky", ("n", "upper"), _square, _square, lambda **_: 0, factor, small.cholesky)


def _elimination(code: Stacks) -> None:
    def factor(room: Value, x: Value, lu: Value, rows: Value, order: Value, m: Value, n: Value) -> Operand:
        k = code.select(m < n, m, n)
        matrix, pivots = code.behind_integers(room, k), room.to(pointer(code.integer))
        code.turned(matrix, x, m, n)
        code.lapack("getrf", m, n, matrix, m, room)  # which goes on where a pivot is 0
        code.turned(lu, matrix, n, m)
        with code.each(m) as i:
            order[i] = i.to(code.real)
        with code.each(k) as i:
            place = pivots[i].to(I64)
            rows[i] = place.to(code.real)
            kept, taken = order[i], order[place - 1]
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
        wanted, whole = code.array(code.real), code.array(I64)
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


def _least_squares(code: Stacks) -> None:
    def solve(
        room: Value, a: Value, b: Value, x: Value, s: Value, m: Value, n: Value, k: Value, rtol: Value
    ) -> Operand:
        # LAPACK may search forever for singular values that are no numbers, and scales by the largest number of b.
        is_refused = code.local(I64, 0)
        for numbers, count in ((a, m * n), (b, m * k)):
            with code.each(count) as i, code.if_(numbers[i] - numbers[i] != 0.0):
                is_refused.set(1)
        info = code.local(I64, 1)
        with code.if_(is_refused == 0):
            info.set(solved(room, a, b, x, s, m, n, k, rtol))
        return info

    def solved(
        room: Value, a: Value, b: Value, x: Value, s: Value, m: Value, n: Value, k: Value, rtol: Value
    ) -> Operand:
        larger = code.select(m > n, m, n)
        columns = room.at(m * n)
        code.turned(room, a, m, n)
        with code.each(m) as i, code.each(k) as j:
            columns[j * larger + i] = b[i * k + j]
        rank, wanted, whole = code.array(I64), code.array(code.real), code.array(I64)
        given = ("gelsd", m, n, k, room, m, columns, larger, s, tolerance(rtol, larger), rank)
        code.lapack(*given, wanted, ASKED, whole)
        reals, integers = code.integer_of(wanted.load()), whole.to(pointer(code.integer)).load().to(I64)
        info = code.with_room([reals, integers], lambda work, more: code.lapack(*given, work, reals, more))
        with code.each(n) as i, code.each(k) as j:
            x[i * k + j] = columns[j * larger + i]
        return info

    def tolerance(rtol: Value, larger: Value) -> Value:
        """The address of the tolerance with these bits, or if it is negative of that for matrices so large."""
        given, least = rtol.bits(F64), larger.to(F64) * (2.0**-52 if code.real is F64 else 2.0**-23)
        chosen = code.select(given < 0.0, least, given)
        return code.local(code.real, chosen.to(code.real)).address

    code.stacked(
        "least_squares",
        ("m", "n", "k", "rtol"),
        lambda m, n, k, **_: (m * n, m * k),
        lambda m, n, k, **_: (n * k, code.select(m < n, m, n)),
        lambda m, n, k, **_: m * n + code.select(m > n, m, n) * k,
        solve,
    )


def _orthogonal(code: Stacks) -> None:
    def decompose(room: Value, x: Value, q: Value, r: Value, m: Value, n: Value, columns: Value) -> Operand:
        k = code.select(m < n, m, n)
        factors = room.at(k)
        code.turned(factors, x, m, n)
        info = code.lapack_with_room("geqrf", m, n, factors, m, room)
        code.turned(r, factors, n, columns, m)
        with code.each(columns) as i, code.each(code.select(i < n, i, n)) as j:
            r[i * n + j] = 0.0
        further = code.lapack_with_room("orgqr", m, columns, k, factors, m, room)
        code.turned(q, factors, columns, m)
        return info | further

    code.stacked(
        "qr",
        ("m", "n", "columns"),
        lambda m, n, columns: (m * n,),
        lambda m, n, columns: (m * columns, columns * n),
        lambda m, n, columns: n + m * code.select(n < columns, columns, n),
        decompose,
        small.qr,
    )
