"""The standard's factorizations of matrices, whose parts have names, and what NumPy has besides."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tenon.arrays.products import matrix_norm
from tenon.control_flow import scan
from tenon.dialects.definition.one_program import one_program
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops
from tenon.dialects.ops.factor.least_squares import LeastSquaresOp
from tenon.dialects.ops.factor.lu import FactorLuOp
from tenon.dialects.ops.factor.singular import in_wide_type, smallest
from tenon.dialects.types.shapes import broadcast
from tenon.dialects.types.types import element_type, f32, f64, is_float


class EighResult(NamedTuple):
    """Eigenvalues (..., n) in ascending order, and eigenvectors (..., n, n) as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Orthonormal columns, singular values in descending order, and orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


class LUResult(NamedTuple):
    """An order of rows as a matrix of ones and zeros, a lower triangle with ones on its diagonal, and an upper one."""

    P: Any
    L: Any
    U: Any


class LUFactorResult(NamedTuple):
    """Both triangles in one matrix, and the rows that each row was exchanged with, counted from 1."""

    LU: Any
    pivots: Any


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


class LstsqResult(NamedTuple):
    """The best solution (n, k), its sums of squared errors (k,), the rank of the matrix and its singular values."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of the symmetric matrices `x` (..., n, n): `tenon.eigh`."""
    return EighResult(*ops.eigh(x))


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """The matrices `x` (..., m, n) as orthonormal columns times an upper triangle: `tenon.qr`."""
    return QRResult(*ops.qr(x, mode=mode))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition of the matrices `x` (..., m, n): `tenon.svd`."""
    return SVDResult(*ops.svd(x, full_matrices=full_matrices))


def lu_factor(x: Any, /, *, pivot: bool = True) -> LUFactorResult:
    """The matrices `x` (..., m, n) as a product of triangles, for `lu_solve`: the upper one and, below it, the lower
    one, whose diagonal is ones, and the rows (..., k) that each row was exchanged with in turn, counted from 1, as
    PyTorch has it."""
    lu, pivots, _ = _factored("lu_factor", x, pivot)
    return LUFactorResult(lu, pivots)


def lu(x: Any, /, *, pivot: bool = True) -> LUResult:
    """Matrices P, L and U whose product is `x` (..., m, n): an order of rows, a lower triangle (..., m, k) with ones on
    its diagonal, and an upper one (..., k, n); k is the smaller of m and n."""
    both, _, permutation = _factored("lu", x, pivot)
    m, n = both.shape[-2:]
    k = min(m, n)
    rows = ops.reshape(ops.iota(shape=(m,)), shape=(m, 1))
    order = ops.cast(ops.expand_dims(permutation, axis=-2) == rows, dtype=both.dtype)
    lower = ops.tril(both, k=-1)[..., :k] + ops.eye(m, k, dtype=both.dtype)
    return LUResult(order, lower, ops.triu(both)[..., :k, :])


def _factored(name: str, x: Any, pivot: bool) -> tuple[Any, Any, Any]:
    """Both triangles in one matrix, pivots and the order of rows."""
    if not pivot:
        raise ValueError(f"{name}: pivot is {pivot!r}, and rows are always exchanged, without which digits are lost")
    given = shaped(x, f"tenon.linalg.{name}: x")
    if given.ndim < 2:
        raise ValueError(f"{name}: x has shape {tuple(given.shape)} where (..., m, n) is needed")
    dtype = given.dtype
    is_wide = element_type(dtype) in (f32, f64)
    # in narrower ones, pivots would be rounded
    found, pivots, permutation = FactorLuOp.apply(given if is_wide else ops.cast(given, dtype="f32"))
    found = ops.cast(found, dtype=dtype) if is_float(element_type(dtype)) and not is_wide else found
    return found, ops.cast(pivots, dtype="i32"), ops.cast(permutation, dtype="i32")


def lu_solve(lu: Any, pivots: Any, b: Any = None, /, *, left: bool = True, adjoint: bool = False) -> Any:
    """The solution x of a x = `b` (x a = b without `left`), of what `lu_factor` gives of a (..., n, n), for `b` (...,
    n, k), without `left` (..., k, n), or a vector (n,); with `adjoint`, for a transposed. SciPy's `lu_solve((lu,
    pivots), b)` does as well."""
    if isinstance(lu, tuple):
        (lu, pivots), b = lu, pivots if b is None else b  # pyright: ignore[reportUnknownVariableType]
    lu, right, pivots = shaped(lu), shaped(b), shaped(pivots)
    if lu.ndim < 2 or lu.shape[-1] != lu.shape[-2] or pivots.shape != lu.shape[:-1]:
        raise ValueError(
            f"lu_solve: lu has shape {lu.shape} and pivots {pivots.shape} where (..., n, n) and (..., n) is needed"
        )
    if right.ndim == 1:
        return ops.squeeze(lu_solve(lu, pivots, ops.expand_dims(right, axis=1), adjoint=adjoint != (not left)), axis=-1)
    if not left:
        turned = lu_solve(lu, pivots, ops.swapaxes(right, -1, -2), adjoint=not adjoint)
        return ops.swapaxes(turned, -1, -2)
    if right.shape[-2] != lu.shape[-1]:
        raise ValueError(
            f"lu_solve: lu has shape {lu.shape} and b {right.shape} where (..., n, n) and (..., n, k) is needed"
        )
    order = _order_of(pivots)
    if not adjoint:
        first = ops.solve_triangular(lu, _rows(right, order), lower=True, unitriangular=True)
        return ops.solve_triangular(lu, first, upper=True)
    first = ops.solve_triangular(lu, right, upper=True, trans=1)
    found = ops.solve_triangular(lu, first, lower=True, unitriangular=True, trans=1)
    return _rows(found, ops.argsort(order, axis=-1))


def _rows(x: Any, order: Any) -> Any:
    """The rows of matrices in another order, of stacks that broadcast."""
    stacks = broadcast([("b", x.shape[:-2]), ("lu", order.shape[:-1])]) or ()
    places = ops.broadcast_to(ops.expand_dims(order, axis=-1), shape=(*stacks, *x.shape[-2:]))
    return ops.take_along_axis(ops.broadcast_to(x, shape=places.shape), places, axis=-2)


def _order_of(pivots: Any) -> Any:
    """The order of rows (..., n) that exchanging each with that of its pivot (..., n) makes."""
    n = pivots.shape[-1]
    places = np.arange(n, dtype=np.int32)

    def exchanged(order: Any, given: Any) -> Any:
        own, other = (ops.expand_dims(place, axis=-1) for place in given)
        is_own, is_other = own == places, other == places
        at_own, at_other = (ops.sum(ops.select(here, order, 0), axis=-1, keepdims=True) for here in (is_own, is_other))
        return ops.select(is_own, at_other, ops.select(is_other, at_own, order)), None

    first = ops.broadcast_to(places, shape=pivots.shape) + ops.zeros_like(ops.cast(pivots, dtype="i32"))
    others = ops.cast(ops.movedim(pivots, -1, 0), dtype="i32") - 1
    own = ops.broadcast_to(ops.reshape(places, shape=(n, *(1,) * (pivots.ndim - 1))), shape=others.shape)
    return scan(exchanged, first, (own, others))[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """Signs and logarithms of the determinants of the matrices `x` (..., n, n): `tenon.slogdet`."""
    return SlogdetResult(*ops.slogdet(x))


def pinv(x: Any, /, *, rtol: float | None = None) -> Any:
    """The pseudoinverses (..., n, m) of the matrices `x` (..., m, n): `tenon.pinv`."""
    return ops.pinv(x, rtol=-1.0 if rtol is None else float(rtol))


def cond(x: Any, /, p: float | str | None = None) -> Any:
    """The condition numbers (...,) of the matrices `x`: their norm of order `p` times that of their inverses, without
    `p` the largest over the smallest singular value."""
    values = shaped(x)
    if p is None or p in (2, -2):
        singular = ops.svdvals(values)
        most, least = ops.max(singular, axis=-1), ops.min(singular, axis=-1)
        return least / most if p == -2 else most / least
    return matrix_norm(values, ord=p) * matrix_norm(ops.inv(values), ord=p)


@one_program("rtol")
def lstsq(a: Any, b: Any, /, *, rtol: float | None = None) -> LstsqResult:
    """The x (n, k) of least length for which the sum of squares of `a` x - `b` is least, of a matrix `a` (m, n) and `b`
    (m, k) or (m,); singular values of at most `rtol` times the largest count as 0.

    NumPy leaves the residuals out where `a` has not full rank; here they are what they are.
    """
    left, right = shaped(a), shaped(b)
    if left.ndim != 2 or right.ndim not in (1, 2) or left.shape[0] != right.shape[0]:
        shapes = f"a has shape {left.shape} and b {right.shape}"
        raise ValueError(f"lstsq: {shapes} where (m, n) and (m, k) or (m,) is needed")
    tolerance = -1.0 if rtol is None else float(rtol)
    wide, columns = in_wide_type(left), in_wide_type(right if right.ndim == 2 else ops.expand_dims(right, axis=1))
    solution, s = LeastSquaresOp.apply(wide, columns, rtol=tolerance)
    residuals = ops.sum(ops.square(ops.matmul(wide, solution) - columns), axis=0)
    rank = ops.count_nonzero(s > smallest(s, left.shape, tolerance), axis=-1)
    if right.ndim == 1:
        solution, residuals = ops.squeeze(solution, axis=1), ops.squeeze(residuals, axis=0)
    if left.dtype == right.dtype and is_float(element_type(left.dtype)):
        solution, residuals, s = [ops.cast(x, dtype=left.dtype) for x in (solution, residuals, s)]
    return LstsqResult(solution, residuals, rank, s)
