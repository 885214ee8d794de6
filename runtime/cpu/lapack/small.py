"""What is computed of small matrices that lie side by side (`lanes`), a lane for each: the algorithms of LAPACK for
matrices that need no blocks, in its order of operations.

A call of LAPACK costs as much as hundreds of operations, and a matrix of 3 x 3 fills no vector. Each function takes
arrays of vectors, row by row, and sizes; operands may be changed. It gives 0 where all is well in all lanes: where it
is not, LAPACK computes the matrices one by one, and says what there is to say.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tenon.runtime.cpu.ir_types import F64, I64, vector
from tenon.runtime.cpu.ir_values import Local, Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.lapack.lanes import COUNT, REALS, any_of, function, minus_product

_LARGE, _SMALL = 2.0**500, 2.0**-500
"""Products of numbers between these neither overflow nor vanish."""
_SMALL_OF_COLUMN = 2.0**-450
"""Where a column has an element above this, one whose square vanishes does not count beside it."""


def solve(code: Module, a: Value, b: Value, x: Value, n: Value, k: Value) -> Operand:
    """Solutions `x` (n, k) of a x = b."""
    _copied(code, x, b, n * k)
    return _solved(code, a, x, n, k)


def invert(code: Module, a: Value, x: Value, n: Value) -> Operand:
    """Inverses `x`."""
    with code.each(n) as i, code.each(n) as j:
        x[i * n + j] = code.select(i == j, code.number(REALS, 1.0), 0.0)
    return _solved(code, a, x, n, n)


def solve_triangle(
    code: Module, a: Value, b: Value, x: Value, n: Value, k: Value, upper: Value, unit: Value
) -> Operand:
    """Solutions `x` (n, k) of a x = b, where a triangle of `a` counts."""
    is_singular = code.local(I64, 0)
    _copied(code, x, b, n * k)
    with code.each(n) as step:
        i = code.select(upper != 0, n - 1 - step, step)
        first, end = code.select(upper != 0, i + 1, 0), code.select(upper != 0, n, i)
        with code.if_(unit == 0), code.if_(any_of(a[i * (n + 1)] == 0.0)):
            is_singular.set(1)
        with code.each(k) as c:
            total = code.local(REALS, x[i * k + c])
            with code.each(end, first) as j:
                total.set(minus_product(total, a[i * n + j], x[j * k + c]))
            with code.if_(unit == 0):
                total.set(total / a[i * (n + 1)])
            x[i * k + c] = total
    return is_singular


def cholesky(code: Any, x: Value, result: Value, n: Value, upper: Value) -> Operand:
    """Triangles `result`, row by row."""
    is_refused = code.local(I64, 0)
    with code.each(n) as i, code.each(n) as j, code.if_(j <= i):
        doubled = x[i * n + j] + x[j * n + i]
        total = code.local(REALS, doubled.to(vector(COUNT, code.real)).to(REALS) * 0.5)
        with code.each(j) as inner:
            total.set(minus_product(total, x[i * n + inner], x[j * n + inner]))
        with code.if_(i == j):
            is_fine = total > 0.0
            with code.if_(any_of(~is_fine)):
                is_refused.set(1)
            total.set(function("sqrt", total))
        with code.else_():
            total.set(total / x[j * (n + 1)])
        # the lower triangle is there from here on, and the upper one is still what was given
        x[i * n + j] = total
    with code.each(n) as i, code.each(n) as j:
        zero = code.number(REALS, 0.0)
        with code.if_(upper == 0):
            result[i * n + j] = code.select(j <= i, x[i * n + j], zero)
        with code.else_():
            result[i * n + j] = code.select(i <= j, x[j * n + i], zero)
    return is_refused


def slogdet(code: Module, x: Value, sign: Value, magnitude: Value, n: Value) -> Operand:
    """The signs of determinants, and the logarithms of their magnitudes."""
    signs, total = code.local(REALS, 1.0), code.local(REALS, 0.0)
    product, is_refused = code.local(REALS, 1.0), code.local(I64, 0)
    logarithm = code.external("log", F64, F64)

    def take_in() -> None:
        """Add the logarithm of the product so far to the total."""
        logarithms: Value = code.number(REALS, 0.0)
        for lane in range(COUNT):
            element = code.made(F64, f"extractelement {REALS.text} {product.read()}, i64 {lane}")
            given = f"{REALS.text} {logarithms.read()}, double {logarithm(element).read()}"
            logarithms = code.made(REALS, f"insertelement {given}, i64 {lane}")
        total.set(total + logarithms)
        product.set(1.0)

    _eliminated(code, x, x, n, code.number(I64, 0), signs)
    with code.each(n) as i:
        pivot = x[i * (n + 1)]
        size = function("fabs", pivot)
        is_usual = ((size > _SMALL) & (size < _LARGE)) | (size == 0.0)
        with code.if_(any_of(~is_usual)):
            is_refused.set(1)
        signs.set(code.select(pivot < 0.0, signs * -1.0, code.select(pivot == 0.0, code.number(REALS, 0.0), signs)))
        product.set(product * size)
        with code.if_(any_of((product < _SMALL) | (product > _LARGE))):
            take_in()
    take_in()
    sign[0] = signs
    magnitude[0] = total
    return is_refused


def det(code: Module, x: Value, result: Value, n: Value) -> Operand:
    """The determinants."""
    signs = code.local(REALS, 1.0)
    _eliminated(code, x, x, n, code.number(I64, 0), signs)
    product, is_refused = _product(code, x, n, signs)
    result[0] = product
    return is_refused


def cofactors(code: Module, x: Value, result: Value, n: Value) -> Operand:
    """The determinants times the inverses transposed."""
    signs = code.local(REALS, 1.0)
    with code.each(n) as i, code.each(n) as j:
        result[i * n + j] = code.select(i == j, code.number(REALS, 1.0), 0.0)
    is_singular = _solved(code, x, result, n, n, signs)
    product, is_refused = _product(code, x, n, signs)
    with code.each(n) as i, code.each(n, i) as j:
        one, other = result[i * n + j] * product, result[j * n + i] * product
        result[i * n + j] = other
        result[j * n + i] = one
    return is_singular | is_refused


def _product(code: Module, x: Value, n: Value, signs: Value) -> tuple[Local, Local]:
    """The product of the diagonal and `signs`, and whether one of its parts is large or small without being 0."""
    product, is_refused = code.local(REALS, signs), code.local(I64, 0)
    with code.each(n) as i:
        product.set(product * x[i * (n + 1)])
        for number in (x[i * (n + 1)], product):
            size = function("fabs", number)
            is_usual = ((size > _SMALL) & (size < _LARGE)) | (size == 0.0)
            with code.if_(any_of(~is_usual)):
                is_refused.set(1)
    return product, is_refused


def qr(code: Module, x: Value, q: Value, r: Value, m: Value, n: Value, columns: Value) -> Operand:
    """Orthonormal columns `q` (m, columns) and triangles `r` (columns, n), by Householder's reflections."""
    is_refused = code.local(I64, 0)
    zero, one = code.number(REALS, 0.0), code.number(REALS, 1.0)
    k = code.select(m < n, m, n)
    with code.each(columns) as i, code.each(n) as j:
        r[i * n + j] = zero
    with code.each(k) as j:
        diagonal = _reflection(code, x, m, n, j, is_refused)
        with code.each(n, j + 1) as c:
            _reflect(code, x, x, m, n, n, j, c)
            r[j * n + c] = x[j * n + c]
        r[j * (n + 1)] = diagonal
    with code.each(m) as i, code.each(columns) as j:
        q[i * columns + j] = code.select(i == j, one, zero)
    with code.each(k) as step, code.each(columns, k - 1 - step) as c:
        _reflect(code, x, q, m, n, columns, k - 1 - step, c)
    return is_refused


def _reflection(code: Module, x: Value, m: Value, n: Value, j: Value, is_refused: Local) -> Value:
    """Put v below and on the diagonal of column `j` for which I - v v^T turns that into one with zeros below the
    diagonal; what is then on it. Its sign changes, so that nothing cancels."""
    total, largest = code.local(REALS, 0.0), code.local(REALS, 0.0)
    alpha = x[j * (n + 1)]
    with code.each(m, j + 1) as i:
        element = x[i * n + j]
        total.set(total + element * element)
        largest.set(function("maximum", largest, function("fabs", element)))
    largest.set(function("maximum", largest, function("fabs", alpha)))
    is_usual = ((largest > _SMALL_OF_COLUMN) & (largest < _LARGE)) | (largest == 0.0)
    with code.if_(any_of(~is_usual)):
        is_refused.set(1)
    is_done = total == 0.0
    length = function("sqrt", total + alpha * alpha)
    beta = code.select(alpha < 0.0, length, length * -1.0)
    scale = function("sqrt", beta * (beta - alpha))
    factor = code.select(is_done, code.number(REALS, 0.0), code.number(REALS, 1.0) / scale)
    x[j * (n + 1)] = (alpha - beta) * factor
    with code.each(m, j + 1) as i:
        x[i * n + j] = x[i * n + j] * factor
    return code.select(is_done, alpha, beta)


def _reflect(code: Module, v: Value, x: Value, m: Value, stride: Value, width: Value, j: Value, c: Value) -> None:
    """Reflect column `c` of `x` (m, width) by the column `j` of `v` (m, stride), from row `j` on."""
    product = code.local(REALS, 0.0)
    with code.each(m, j) as i:
        product.set(product + v[i * stride + j] * x[i * width + c])
    with code.each(m, j) as i:
        x[i * width + c] = minus_product(x[i * width + c], v[i * stride + j], product)


def _copied(code: Module, target: Value, source: Value, count: Value) -> None:
    with code.each(count) as i:
        target[i] = source[i]


def _solved(code: Module, a: Value, x: Value, n: Value, k: Value, signs: Local | None = None) -> Value:
    """Put the solutions of a x = b in the place of b; whether there are none. `signs` change with each exchange of
    rows."""
    is_singular = _eliminated(code, a, x, n, k, signs)
    with code.each(n) as step:
        i = n - 1 - step
        with code.each(k) as c:
            total = code.local(REALS, x[i * k + c])
            with code.each(n, i + 1) as j:
                total.set(minus_product(total, a[i * n + j], x[j * k + c]))
            x[i * k + c] = total / a[i * (n + 1)]
    return is_singular


def _eliminated(code: Module, a: Value, b: Value, n: Value, k: Value, signs: Local | None = None) -> Value:
    """Eliminate what is below the diagonal of `a` (n, n) with partial pivoting, and do the same to `b` (n, k); whether
    a pivot is 0. `signs` change with each exchange of rows.

    A row is exchanged with the one on the diagonal wherever its element is larger than all before: that brings the same
    pivots as to look for the largest first.
    """
    is_singular = code.local(I64, 0)

    def exchange(where: Value, rows: Value, width: Value, start: Operand, i: Value, j: Value) -> None:
        with code.each(width, start) as c:
            one, other = rows[i * width + c], rows[j * width + c]
            rows[i * width + c] = code.select(where, other, one)
            rows[j * width + c] = code.select(where, one, other)

    with code.each(n) as i:
        with code.each(n, i + 1) as j:
            is_larger = function("fabs", a[j * n + i]) > function("fabs", a[i * n + i])
            with code.if_(any_of(is_larger)):
                exchange(is_larger, a, n, i, i, j)
                exchange(is_larger, b, k, 0, i, j)
                if signs is not None:
                    signs.set(code.select(is_larger, signs * -1.0, signs))
        pivot = a[i * (n + 1)]
        is_zero = pivot == 0.0
        with code.if_(any_of(is_zero)):
            is_singular.set(1)
        # where the pivot is 0, so is what is below it
        divisor = code.select(is_zero, code.number(REALS, inf), pivot)
        with code.each(n, i + 1) as j:
            factor = a[j * n + i] / divisor
            with code.each(n, i + 1) as c:
                a[j * n + c] = minus_product(a[j * n + c], factor, a[i * n + c])
            with code.each(k) as c:
                b[j * k + c] = minus_product(b[j * k + c], factor, b[i * k + c])
    return is_singular
