"""The standard's factorizations of matrices, whose parts have names, and what NumPy has besides."""

from __future__ import annotations

from typing import Any, NamedTuple

from tenon.arrays.products import matrix_norm
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import ops


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


def lstsq(a: Any, b: Any, /, *, rtol: float | None = None) -> LstsqResult:
    """The x (n, k) of least length for which the sum of squares of `a` x - `b` is least, of a matrix `a` (m, n) and `b`
    (m, k) or (m,); singular values of at most `rtol` times the largest count as 0.

    NumPy leaves the residuals out where `a` has not full rank; here they are what they are.
    """
    left, right = shaped(a), shaped(b)
    if left.ndim != 2 or right.ndim not in (1, 2) or left.shape[0] != right.shape[0]:
        shapes = f"a has shape {left.shape} and b {right.shape}"
        raise ValueError(f"lstsq: {shapes} where (m, n) and (m, k) or (m,) is needed")
    solution = ops.matmul(pinv(left, rtol=rtol), right)
    residuals = ops.sum(ops.square(ops.matmul(left, solution) - right), axis=0)
    return LstsqResult(solution, residuals, ops.matrix_rank(left, rtol=rtol), ops.svdvals(left))
