"""Samples of factorizations of matrices; `test_factorizations` holds them against what defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from sample import F16, F32, F64, Array, add, numbers


def dominant(seed: str, shape: tuple[int, ...], dtype: Any = F32) -> Array:
    """Symmetric positive definite matrices with eigenvalues that are far apart."""
    *_, n = shape
    x = numbers(seed, shape, F64, -0.3, 0.3)
    return np.asarray(x + x.swapaxes(-1, -2) + np.diag(np.arange(2.0, n + 2))).astype(dtype)


def symmetric(x: Array) -> Array:
    return (x + x.swapaxes(-1, -2)) / 2


def lower(x: Array) -> Array:
    return np.linalg.cholesky(symmetric(x))


def upper(x: Array) -> Array:
    return np.linalg.cholesky(symmetric(x), upper=True)


def eigenvalues(x: Array) -> Array:
    return np.linalg.eigvalsh(symmetric(x))


def eliminated(x: Array) -> tuple[Array, ...]:
    """By `scipy.linalg`, of one matrix after the other."""
    *stacks, m, n = x.shape
    if not x.size:
        return x, np.zeros((*stacks, min(m, n))), np.zeros((*stacks, m)) + np.arange(m)
    found: list[tuple[Array, ...]] = []
    for matrix in x.reshape(-1, m, n):
        both, pivots = scipy.linalg.lu_factor(matrix)
        order = list(range(m))
        for row, other in enumerate(pivots):
            order[row], order[other] = order[other], order[row]
        found.append((both, pivots + 1.0, np.array(order, float)))
    parts = zip(*found, strict=True)
    return tuple([np.stack(part).reshape(*stacks, *part[0].shape) for part in parts])


for _shape in ((3, 3), (2, 4, 4), (0, 0)):
    add("cholesky", [dominant("cholesky", _shape)], lower, differentiable=True)
    add("inv", [dominant("inv", _shape)], np.linalg.inv, differentiable=True)
    add("eigvalsh", [dominant("eigvalsh", _shape)], eigenvalues, differentiable=_shape[-1] > 0, atol=2e-5)
add("cholesky", [dominant("upper", (3, 3))], upper, upper=True, differentiable=True)
add("cholesky", [dominant("half", (3, 3), F16)], lower, rtol=4e-3)
add("slogdet", [-dominant("slogdet", (2, 3, 3))], lambda x: tuple(np.linalg.slogdet(x)), differentiable=True)
add("slogdet", [np.zeros((2, 2), F32)], lambda x: tuple(np.linalg.slogdet(x)), "singular")
for _shape in ((3, 3), (2, 4, 3), (2, 4)):
    _x = numbers("lu", _shape, F64)
    add("factor_lu", [_x], eliminated, differentiable=True)
for _shape in ((3, 3), (2, 4, 4)):
    _x = numbers("determinant", _shape, F64)
    add("factor_determinant", [_x], np.linalg.det, differentiable=True)
    add("cofactors", [_x], lambda x: np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT, differentiable=True)
for _shape in ((2, 4, 3), (3, 4)):
    _x, _right = numbers("squares", _shape, F64), numbers("right", (*_shape[:-1], 2), F64)
    add(
        "least_squares",
        [_x, _right],
        lambda a, b: (np.linalg.pinv(a) @ b, np.linalg.svd(a, compute_uv=False)),
        differentiable=True,
    )
for _n, _k in ((3, 2), (4, 1), (2, 0)):
    _operands = [dominant("solve", (2, _n, _n)), numbers("right", (2, _n, _k))]
    add("solve_matrices", _operands, np.linalg.solve, differentiable=True)
    add("solve_triangles", _operands, lambda a, b: np.linalg.solve(np.tril(a), b), differentiable=True)
add("eigh", [dominant("eigh", (2, 3, 3), F64)], lambda x: tuple(np.linalg.eigh(symmetric(x))), differentiable=True)
for _shape in ((4, 3), (2, 3, 3), (3, 4)):
    _x = numbers("tall", _shape, F64) + np.eye(*_shape[-2:]) * np.arange(2.0, 2 + _shape[-1])
    add("qr", [_x], lambda x: tuple(np.linalg.qr(x)), differentiable=True)
    add("svdvals", [_x.astype(F32)], lambda x: np.linalg.svd(x, compute_uv=False), differentiable=True, rtol=1e-5)
    add("pinv", [_x], np.linalg.pinv, differentiable=True)
    add(
        "svd",
        [_x],
        lambda x: tuple(np.linalg.svd(x, full_matrices=False)),
        full_matrices=False,
        differentiable=True,
        rtol=1e-9,
        atol=1e-9,
    )
add("svd", [_x], lambda x: tuple(np.linalg.svd(x)))
add("qr", [_x.T.copy()], lambda x: tuple(np.linalg.qr(x, mode="complete")), mode="complete")
