"""Factorizations of matrices are what defines them, and their gradients are PyTorch's."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon
from tenon import linalg
from tenon.dialects.families import host
from tenon.runtime.cpu import program
from tenon.runtime.cpu.lapack import loaded
from tenon.runtime.cpu.lapack.functions import lapack_functions
from tenon.runtime.cpu.lapack.library import library
from tenon.runtime.cpu.native_code import load_native

RANDOM = generator("factorizations")
SQUARE = RANDOM.normal(size=(3, 4, 4)) + 4 * np.eye(4)
DEFINITE = SQUARE @ SQUARE.swapaxes(-1, -2) + np.diag(np.arange(4.0) * 9)
TALL, WIDE = RANDOM.normal(size=(2, 5, 3)), RANDOM.normal(size=(2, 3, 5))
RIGHT = RANDOM.normal(size=(4, 2))
STRICT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}


@pytest.mark.parametrize("x", [TALL, WIDE, SQUARE], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("full", [False, True])
def test_parts_multiply_to_the_matrix(x: Any, full: bool) -> None:
    k = min(x.shape[-2:])
    u, s, vh = tenon.jit(lambda x: linalg.svd(x, full_matrices=full))(x)
    np.testing.assert_allclose(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, **STRICT)
    q, r = tenon.jit(lambda x: linalg.qr(x, mode="complete" if full else "reduced"))(x)
    np.testing.assert_allclose(q @ r, x, **STRICT)
    for columns in (u, vh.swapaxes(-1, -2), q):
        eye = np.broadcast_to(np.eye(columns.shape[-1]), (*x.shape[:-2], *(columns.shape[-1],) * 2))
        np.testing.assert_allclose(columns.swapaxes(-1, -2) @ columns, eye, **STRICT)
    np.testing.assert_array_equal(np.tril(r, -1), np.zeros_like(r))


def test_definitions() -> None:
    lower, upper = linalg.cholesky(DEFINITE), linalg.cholesky(DEFINITE, upper=True)
    np.testing.assert_allclose(lower @ lower.swapaxes(-1, -2), DEFINITE, **STRICT)
    np.testing.assert_allclose(upper.swapaxes(-1, -2) @ upper, DEFINITE, **STRICT)
    values, vectors = linalg.eigh(DEFINITE)
    np.testing.assert_allclose(DEFINITE @ vectors, vectors * values[..., None, :], rtol=1e-8, atol=1e-7)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(SQUARE @ linalg.solve(SQUARE, RIGHT), np.broadcast_to(RIGHT, (3, 4, 2)), **STRICT)
    np.testing.assert_allclose(linalg.solve(SQUARE, RIGHT[:, 0]), linalg.solve(SQUARE, RIGHT)[..., 0], **STRICT)
    sign, logarithm = linalg.slogdet(-SQUARE)
    np.testing.assert_allclose(sign * np.exp(logarithm), tenon.det(-SQUARE), **STRICT)
    inverse = linalg.pinv(TALL)
    np.testing.assert_allclose(inverse @ TALL @ inverse, inverse, **STRICT)
    np.testing.assert_allclose(linalg.matrix_power(SQUARE, -2), np.linalg.matrix_power(SQUARE, -2), **STRICT)
    for order in (None, 1, -2, 2, np.inf, "fro"):
        np.testing.assert_allclose(linalg.cond(SQUARE, order), np.linalg.cond(SQUARE, order), rtol=1e-9)


@pytest.mark.parametrize("right", [RANDOM.normal(size=5), RANDOM.normal(size=(5, 2))], ids=["vector", "matrix"])
def test_least_squares(right: Any) -> None:
    function = tenon.jit(linalg.lstsq)
    assert str(function.trace(TALL[0], right).lower().module).count("lapack_") == 1
    found = function(TALL[0], right)
    wanted = np.linalg.lstsq(TALL[0], right)
    np.testing.assert_allclose(found.solution, wanted[0], **STRICT)
    np.testing.assert_allclose(np.ravel(found.residuals), wanted[1], **STRICT)
    assert found.rank == wanted[2]
    np.testing.assert_allclose(found.singular_values, wanted[3], **STRICT)
    with pytest.raises(ValueError, match=r"^lstsq: a has shape \(3, 5\) and b \(5"):
        linalg.lstsq(WIDE[0], right)


def test_gradients_of_least_squares_decompose_a_matrix_once() -> None:
    def loss(a: Any, b: Any) -> Any:
        return tenon.sum(linalg.lstsq(a, b).solution ** 2)

    text = str(tenon.jit(tenon.grad(loss, argnums=(0, 1))).trace(TALL[0], RIGHT[:1].repeat(5, 0)).lower().module)
    assert text.count("lapack_") == text.count("lapack_svd") == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_least_squares_count_small_singular_values_as_zero(dtype: str) -> None:
    a, b = WIDE[0].astype(dtype), RIGHT[:3].astype(dtype)
    np.testing.assert_allclose(linalg.lstsq(a, b, rtol=0.6)[0], np.linalg.pinv(a, rtol=0.6) @ b, rtol=1e-4)
    repeated = np.concatenate([a, a])
    wanted = np.linalg.pinv(repeated.astype(np.float64), rtol=1e-4) @ np.concatenate([b, b])
    np.testing.assert_allclose(linalg.lstsq(repeated, np.concatenate([b, b])).solution, wanted, rtol=1e-4)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_least_squares_of_what_is_no_number_end(number: float) -> None:
    a, b = TALL[0].copy(), RANDOM.normal(size=5)
    b[1] = number
    assert not np.isfinite(linalg.lstsq(a, b).solution).any()
    a[1, 1] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon.linalg.lstsq: svd did not converge"):
        linalg.lstsq(a, b)


@pytest.mark.parametrize(
    ("upper", "left", "unit"), [(False, True, False), (True, True, True), (True, False, False), (False, False, True)]
)
def test_triangles(upper: bool, left: bool, unit: bool) -> None:
    torch = pytest.importorskip("torch")
    right = np.broadcast_to(RIGHT if left else RIGHT.T, (3, *(RIGHT if left else RIGHT.T).shape))
    settings = {"upper": upper, "left": left, "unitriangular": unit}
    wanted = torch.linalg.solve_triangular(torch.tensor(SQUARE), torch.tensor(right.copy()), **settings).numpy()
    np.testing.assert_allclose(linalg.solve_triangular(SQUARE, right, **settings), wanted, **STRICT)


@pytest.mark.parametrize("unit", [False, True])
def test_a_vector_on_either_side_of_a_triangle(unit: bool) -> None:
    matrix, right = SQUARE[0], RIGHT[:, 0]
    triangle = np.tril(matrix, -1) + np.eye(4) if unit else np.tril(matrix)
    for left, wanted in ((True, triangle), (False, triangle.T)):
        found = linalg.solve_triangular(matrix, right, lower=True, left=left, unitriangular=unit)
        np.testing.assert_allclose(found, np.linalg.solve(wanted, right), **STRICT)


@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("settings", [{}, {"lower": True}, {"lower": True, "unit_diagonal": True}], ids=str)
def test_triangles_by_the_names_of_scipy(settings: dict[str, bool], trans: int | str) -> None:
    scipy_linalg = pytest.importorskip("scipy.linalg")
    named: dict[str, Any] = {"lower": False, **settings, "trans": trans}
    for right in (RIGHT, RIGHT[:, 0]):
        wanted = scipy_linalg.solve_triangular(SQUARE[0], right, **named)
        np.testing.assert_allclose(linalg.solve_triangular(SQUARE[0], right, **named), wanted, **STRICT)
        turned = linalg.solve_triangular(SQUARE[0].T, right.T, left=False, **{**named, "lower": not named["lower"]})
        np.testing.assert_allclose(turned, np.transpose(wanted), **STRICT)


def test_which_triangle_counts_has_to_be_said() -> None:
    with pytest.raises(TypeError, match=r"^solve_triangular: which triangle counts is not said; write upper=True or"):
        linalg.solve_triangular(SQUARE, SQUARE)
    with pytest.raises(ValueError, match=r"^solve_triangular: upper is True and lower is True; one triangle counts"):
        linalg.solve_triangular(SQUARE, SQUARE, upper=True, lower=True)
    with pytest.raises(ValueError, match=r"^solve_triangular: trans is 'X' where 0, 1, 2, 'N', 'T' or 'C' is needed"):
        linalg.solve_triangular(SQUARE, SQUARE, upper=True, trans="X")


def test_systems_from_the_right() -> None:
    torch = pytest.importorskip("torch")
    right = np.broadcast_to(RIGHT.T, (3, 2, 4)).copy()
    wanted = torch.linalg.solve(torch.tensor(SQUARE), torch.tensor(right), left=False).numpy()
    np.testing.assert_allclose(linalg.solve(SQUARE, right, left=False), wanted, **STRICT)
    vector = linalg.solve(SQUARE[0], RIGHT[:, 0], left=False)
    np.testing.assert_allclose(vector @ SQUARE[0], RIGHT[:, 0], **STRICT)


@pytest.mark.parametrize("upper", [False, True])
def test_systems_by_their_factor(upper: bool) -> None:
    factor = linalg.cholesky(DEFINITE, upper=upper)
    right = np.broadcast_to(RIGHT, (3, 4, 2))
    found = tenon.jit(lambda b, factor: tenon.cholesky_solve(b, factor, upper))(right, factor)
    np.testing.assert_allclose(found, np.linalg.solve(DEFINITE, right), **STRICT)
    np.testing.assert_allclose(tenon.cholesky_inverse(factor, upper), np.linalg.inv(DEFINITE), **STRICT)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "bfloat16", "float16", "float32", "float64"])
def test_ranks_of_matrices_of_any_dtype(dtype: str) -> None:
    x = np.array([[[1, 2], [2, 4]], [[1, 2], [3, 4]], [[0, 0], [0, 0]]]).astype(np.dtype(dtype))
    wanted = np.linalg.matrix_rank(x.astype(np.float64))
    np.testing.assert_array_equal(tenon.matrix_rank(x), wanted)
    np.testing.assert_array_equal(tenon.jit(tenon.matrix_rank)(x), wanted)
    assert linalg.lstsq(x[1], x[1][0]).rank == wanted[1]
    assert tenon.matrix_rank(x[0].tolist()) == wanted[0]
    assert tenon.matrix_rank(x[:0]).shape == (0,)


def symmetric(x: Any) -> Any:
    return (x + x.swapaxes(-1, -2)) / 2


def of_vectors(m: Any, x: Any) -> Any:
    values, vectors = m.linalg.eigh(symmetric(x))
    return values + vectors[..., 0, :] ** 2


def of_singular_vectors(m: Any, x: Any) -> Any:
    u, s, vh = m.linalg.svd(x, full_matrices=False)
    return u**2 @ (s[..., None] * vh**2)


# What is compared does not depend on the signs of vectors.
LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cholesky": (lambda m, x: m.linalg.cholesky(symmetric(x)), (DEFINITE,)),
    "eigh": (of_vectors, (DEFINITE,)),
    "eigvalsh": (lambda m, x: m.linalg.eigvalsh(symmetric(x)), (DEFINITE,)),
    "inv": (lambda m, x: m.linalg.inv(x), (SQUARE,)),
    "lstsq-tall": (lambda m, a, b: m.linalg.lstsq(a, b)[0], (TALL[0], RANDOM.normal(size=(5, 2)))),
    "lstsq-wide": (lambda m, a, b: m.linalg.lstsq(a, b)[0], (WIDE[0], RANDOM.normal(size=(3, 2)))),
    "pinv-tall": (lambda m, x: m.linalg.pinv(x), (TALL,)),
    "pinv-wide": (lambda m, x: m.linalg.pinv(x), (WIDE,)),
    "qr-tall": (lambda m, x: m.linalg.qr(x)[0] + m.linalg.qr(x)[1].sum(-1)[..., None, :], (TALL,)),
    "qr-wide": (lambda m, x: m.linalg.qr(x)[0] @ m.linalg.qr(x)[1] ** 2, (WIDE,)),
    "slogdet": (lambda m, x: m.linalg.slogdet(x)[1], (SQUARE,)),
    "solve": (lambda m, a, b: m.linalg.solve(a, b), (SQUARE, np.broadcast_to(RIGHT, (3, 4, 2)).copy())),
    "triangle": (
        lambda m, a, b: m.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
        (SQUARE / 8, np.broadcast_to(RIGHT, (3, 4, 2)).copy()),
    ),
    "triangle, transposed": (
        lambda m, a, b: (
            m.linalg.solve_triangular(a.mT, b, upper=False)
            if m is not tenon
            else m.linalg.solve_triangular(a, b, upper=True, trans="T")
        ),
        (SQUARE / 8, np.broadcast_to(RIGHT, (3, 4, 2)).copy()),
    ),
    "factor": (
        lambda m, x, b: m.cholesky_solve(b, m.linalg.cholesky(symmetric(x))),
        (DEFINITE, np.broadcast_to(RIGHT, (3, 4, 2)).copy()),
    ),
    "logdet": (lambda m, x: m.logdet(symmetric(x)), (DEFINITE,)),
    "svd-tall": (of_singular_vectors, (TALL,)),
    "svd-wide": (of_singular_vectors, (WIDE,)),
    "nuclear": (lambda m, x: m.linalg.matrix_norm(x, ord="nuc"), (TALL,)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, arrays = LOSSES[name]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    (function(torch, *tensors) ** 2).sum().backward()
    positions = tuple(range(len(arrays)))
    found = tenon.jit(tenon.grad(lambda *given: (function(tenon, *given) ** 2).sum(), positions))(*arrays)
    taped = [tenon.tensor(array, requires_grad=True) for array in arrays]
    (function(tenon, *taped) ** 2).sum().backward()
    for gradient, tensor, own in zip(found, tensors, taped, strict=True):
        scale = float(tensor.grad.abs().max())
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-8, atol=1e-9 * scale)
        np.testing.assert_allclose(own.grad.numpy(), gradient, rtol=1e-9, atol=1e-10 * scale)


def test_triangles_of_qr_are_not_factorized_for_its_gradient() -> None:
    slope = tenon.jit(tenon.grad(lambda x: linalg.qr(x).R.sum()))
    code = str(slope.trace(TALL[0]).lower().module)
    assert "lapack_solve_triangle_f64" in code
    assert "lapack_solve_f64" not in code


def test_examples_that_share_a_matrix_are_columns_of_one_system() -> None:
    right = RANDOM.normal(size=(6, 4, 2))
    batched = tenon.jit(tenon.vmap(tenon.solve, in_axes=(None, 0)))
    assert "tensor<4x12xf64>" in str(batched.trace(SQUARE[0], right).module)
    np.testing.assert_allclose(batched(SQUARE[0], right), np.linalg.solve(SQUARE[0], right), **STRICT)


def all_of_them(m: Any, square: Any, definite: Any, tall: Any, right: Any) -> list[Any]:
    parts = [*m.linalg.eigh(definite), *m.linalg.slogdet(-square), *m.linalg.qr(tall), m.linalg.eigvalsh(definite)]
    for full in (True, False):
        parts += m.linalg.svd(tall, full_matrices=full)
    upper = [m.linalg.cholesky(definite, upper=upper) for upper in (False, True)]
    inverses = [m.linalg.inv(square), m.linalg.solve(square, right)]
    return [*parts, *upper, *inverses, m.linalg.svd(tall, full_matrices=False)[1]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("has_lapack", [True, False])
def test_programs_compute_what_numpy_does_and_call_python_only_without_lapack(
    dtype: str, has_lapack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(program, "call_host", lambda *given: calls.append(given) or host.call_host(*given))
    if not has_lapack:
        monkeypatch.setattr(loaded, "_loaded", lambda bits: None)
    elif library(("dgesv",)) is None:
        pytest.skip("this NumPy has no LAPACK that is found by name")
    definite = (DEFINITE + DEFINITE.swapaxes(-1, -2)) / 2
    given = (SQUARE, definite, WIDE, np.broadcast_to(RIGHT, (3, 4, 2)))
    # of other shapes, for what is loaded already stays as it is
    arrays = [(x if has_lapack else x[:1]).astype(dtype) for x in given]
    found = tenon.jit(lambda *given: all_of_them(tenon, *given))(*arrays)
    for number, (result, wanted) in enumerate(zip(found, all_of_them(np, *arrays), strict=True)):
        if has_lapack:  # NumPy computes f32 in f64
            scale = 100 * np.finfo(dtype).eps * np.abs(wanted).max()
            np.testing.assert_allclose(result, wanted, rtol=0, atol=scale, err_msg=str(number))
            assert result.dtype == dtype
        else:
            np.testing.assert_array_equal(result, wanted, err_msg=str(number))
    assert bool(calls) != has_lapack


def test_where_a_matrix_of_a_stack_is_refused_python_says_so() -> None:
    stack = SQUARE.copy()
    stack[1] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.inv: singular matrix \(operands \(3, 4, 4\)\)"):
        tenon.jit(tenon.inv)(stack)
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.solve: singular matrix"):
        tenon.jit(tenon.solve)(stack, stack)
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.solve_triangular: singular matrix"):
        tenon.jit(lambda a, b: tenon.solve_triangular(a, b, lower=True))(stack, stack)
    np.testing.assert_array_equal(tenon.jit(linalg.slogdet)(stack)[1], np.linalg.slogdet(stack)[1])


def norms(x: Any) -> Any:
    return np.linalg.norm(np.asarray(x, np.float64), axis=(-2, -1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [9, 75])
def test_backward_errors_are_rounding_errors(n: int, dtype: Any) -> None:
    """Of matrices that fill no tiles and no blocks, in the dtype that they have."""
    x = RANDOM.normal(size=(2, n, n)).astype(dtype)
    b = RANDOM.normal(size=(2, n, n + 3)).astype(dtype)
    definite = ((x @ x.swapaxes(-1, -2)) + np.eye(n, dtype=dtype) * n).astype(dtype)
    triangles = [(np.tril(x) / n + np.eye(n)).astype(dtype), (np.triu(x) / n + np.eye(n)).astype(dtype)]

    def computed(x: Any, b: Any, definite: Any, lower: Any, upper: Any) -> Any:
        triangular = [(a, b, linalg.solve_triangular(a, b, upper=a is upper)) for a in (lower, upper)]
        columns = [(x, b[..., :k], linalg.solve(x, b[..., :k])) for k in (1, 2)]
        return {
            "solve": [(x, b, linalg.solve(x, b)), *columns, *triangular, (x, x @ tenon.inv(x), tenon.inv(x))],
            "product": [(x, *linalg.qr(x)), (definite, *[linalg.cholesky(definite, upper=u) for u in (False, True)])],
            "lu": linalg.lu(x),
            "eigh": linalg.eigh(definite),
            "svd": linalg.svd(x),
        }

    found = tenon.jit(computed)(x, b, definite, *triangles)
    limit = 30 * np.finfo(dtype).eps
    for a, right, solution in found["solve"]:
        assert solution.dtype == dtype
        error = norms(a.astype(np.float64) @ solution - right)
        assert (error <= limit * (norms(a) * norms(solution) + norms(right))).all()
    (order, lower, upper), (values, vectors), (u, s, vh) = found["lu"], found["eigh"], found["svd"]
    parts = [*found["product"], (x, order @ lower.astype(np.float64), upper)]
    parts += [(x, u * s[..., None, :].astype(np.float64), vh), (definite, vectors * values[..., None, :], vectors.mT)]
    for whole, left, right in parts:
        assert right.dtype == dtype
        assert (norms(left.astype(np.float64) @ right - whole) <= limit * norms(whole)).all()


def test_determinants_of_any_size_that_is_in_range() -> None:
    for diagonal in ([1e200, -1e200, 1e-200, 1e-200, 2.0], [1e-300] * 3 + [1e300] * 3):
        x = np.diag(diagonal)[::-1].copy()
        for stack in (x, np.tile(x, (9, 1, 1))):
            wanted = np.longdouble(np.prod(np.array(diagonal, np.longdouble))) * (-1) ** (len(diagonal) // 2)
            np.testing.assert_allclose(tenon.det(stack), float(wanted), rtol=1e-12)
    assert tenon.det(np.zeros((7, 7))) == 0
    assert np.isnan(tenon.det(np.full((7, 7), np.nan)))
    assert tenon.det(np.diag(np.full(6, 1e300))) == np.inf


@pytest.mark.parametrize("count", [1, 9], ids=["alone", "side by side"])
def test_slopes_of_determinants_of_singular_matrices(count: int) -> None:
    n = 6
    (u, v), weight = np.linalg.qr(RANDOM.normal(size=(2, n, n)))[0], RANDOM.normal(size=(n, n))
    slope = tenon.grad(lambda x: tenon.det(x).sum())
    found = tenon.jit(slope)
    for rank in (n, n - 1, n - 2, 0):
        s = np.where(np.arange(n) < rank, np.arange(2.0, n + 2), 0)
        others = np.array([np.prod(np.delete(s, i)) for i in range(n)])
        wanted = np.linalg.det(u) * np.linalg.det(v) * u @ np.diag(others) @ v.T
        stack = np.tile(u @ np.diag(s) @ v.T, (count, 1, 1))
        np.testing.assert_allclose(found(stack), np.tile(wanted, (count, 1, 1)), atol=1e-9)
    stack[:, range(n), range(n)] = s = np.array([1.0, 2.0, 0.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(found(stack)[0], np.diag(np.where(s == 0, 120.0, 0)), atol=1e-12)
    if count == 1:
        second = tenon.jit(tenon.grad(lambda x: (slope(x) * weight).sum()))
        for x in (stack, stack + RANDOM.normal(size=(1, n, n))):
            step = RANDOM.normal(size=x.shape) * 1e-5
            wanted = ((found(x + step) - found(x - step)) * weight).sum() / 2e-5
            np.testing.assert_allclose((second(x) * step * 1e5).sum(), wanted, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_slopes_of_determinants_of_small_singular_matrices(n: int) -> None:
    stack = RANDOM.normal(size=(4, n, n))
    stack[0, :, 0], stack[1], stack[2, -1] = 0, 0, stack[2, 0]
    wanted = np.empty_like(stack)
    for i, j in np.ndindex(n, n):
        rest = np.delete(np.delete(stack, i, 1), j, 2)
        wanted[:, i, j] = np.linalg.det(rest) * (-1) ** (i + j) if n > 1 else 1
    np.testing.assert_allclose(tenon.jit(tenon.grad(lambda x: tenon.det(x).sum()))(stack), wanted, atol=1e-12)
    np.testing.assert_allclose(tenon.jit(tenon.det)(stack), np.linalg.det(stack), atol=1e-12)


def test_determinants_of_small_matrices_in_range() -> None:
    x = np.diag([1e200, 1e-200, 1e200, 1e-200])[::-1].copy()
    np.testing.assert_allclose(tenon.det(x), 1, rtol=1e-12)
    assert tenon.det(np.full((3, 3), 1e200)) == 0
    assert np.isnan(tenon.det(np.full((2, 2), np.nan)))


def test_bad_input_is_named() -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.inv: singular matrix \(operands \(2, 2\)\)"):
        tenon.jit(tenon.inv)(np.ones((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match=r"^tenon\.cholesky: matrix is not positive definite"):
        tenon.cholesky(-np.eye(3))
    with pytest.raises(ValueError, match=r"tenon\.eigh: x has shape \(2, 3\) where \(\.\.\., n, n\) is needed"):
        tenon.eigh(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"^tenon\.solve: a has shape \(2, 2\) and b \(3, 1\)"):
        tenon.solve(np.eye(2), np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"mode is 'full' where one of reduced, complete is needed"):
        tenon.qr(np.eye(2), mode="full")
    for function in (lambda x: tenon.svd(x)[0].sum(), lambda x: tenon.qr(x, mode="complete")[0].sum()):
        with pytest.raises(ValueError, match=r"of x of shape \(5, 3\), the gradient needs"):
            tenon.grad(function)(TALL[0])


@pytest.mark.parametrize("upper", [False, True])
def test_triangles_are_substituted_with_and_without_lapack(upper: bool) -> None:
    """What elimination with exchanges of rows loses where solutions grow."""
    torch = pytest.importorskip("torch")
    a, b = RANDOM.normal(size=(60, 60)), RANDOM.normal(size=(60, 2))
    wanted = torch.linalg.solve_triangular(torch.tensor(a), torch.tensor(b), upper=upper).numpy()
    function = tenon.jit(lambda a, b: linalg.solve_triangular(a, b, upper=upper))
    np.testing.assert_allclose(function(a, b), wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max())
    with tenon.knobs.override(interpret=True):
        found = tenon.jit(lambda a, b: linalg.solve_triangular(a, b, upper=upper))(a, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max())


SMALL_ONES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "inv": (linalg.inv, np.linalg.inv),
    "solve": (lambda x: linalg.solve(x, x[..., :2]), lambda x: np.linalg.solve(x, x[..., :2])),
    "slogdet": (linalg.slogdet, np.linalg.slogdet),
    "cholesky": (
        lambda x: linalg.cholesky(x @ x.swapaxes(-1, -2), upper=True),
        lambda x: np.linalg.cholesky(x @ x.swapaxes(-1, -2), upper=True),
    ),
    "qr": (lambda x: linalg.qr(x[..., :-1], mode="complete"), lambda x: np.linalg.qr(x[..., :-1], mode="complete")),
    "lower": (
        lambda x: linalg.solve_triangular(x, x, lower=True),
        lambda x: np.linalg.solve(np.tril(x), x),
    ),
    "upper, unit": (
        lambda x: linalg.solve_triangular(x, x, upper=True, unitriangular=True),
        lambda x: np.linalg.solve(np.triu(x, 1) + np.eye(x.shape[-1]), x),
    ),
}


@pytest.mark.parametrize("name", SMALL_ONES)
def test_small_matrices_of_a_stack_are_what_defines_them(name: str) -> None:
    found, wanted = SMALL_ONES[name]
    for count, n in ((9, 2), (11, 3), (8, 7)):
        x = RANDOM.normal(size=(count, n, n))
        x[::2] += 3 * np.eye(n)  # some exchange rows, and some do not
        for dtype, scale in ((np.float64, 1e-9), (np.float32, 1e-4)):
            results, expected = found(x.astype(dtype)), wanted(x)
            for part, whole in zip(results, expected, strict=True):
                np.testing.assert_allclose(part, whole, rtol=scale, atol=scale * (1 + np.abs(whole).max()))


def test_signs_of_singular_matrices_of_a_stack_are_zero_without_a_sign() -> None:
    x = -np.ones((9, 3, 3))
    x[:, 0, 0] = 2
    x[::2] *= -1
    assert not np.signbit(tenon.jit(lambda x: linalg.slogdet(x)[0])(x)).any()


def test_columns_of_a_stack_whose_squares_vanish_are_reflected() -> None:
    x = np.tile(np.array([[2.0**-499], [2.0**-538]]), (8, 1, 1))
    found = tenon.jit(lambda x: linalg.qr(x)[0])(x)
    np.testing.assert_allclose(found, np.linalg.qr(x)[0], rtol=1e-9)


def test_small_matrices_of_a_stack_have_the_symmetric_part_of_f32() -> None:
    x = np.tile(np.array([[1, 1], [1 + 2.0**-23, 1 + 2.0**-20]], np.float32), (8, 1, 1))
    found = tenon.jit(linalg.cholesky)
    np.testing.assert_array_equal(found(x)[:1], found(x[:1]))


def test_small_matrices_of_a_stack_are_computed_without_lapack() -> None:
    module, calls = lapack_functions(64, 64), list[int]()
    called = ctypes.CFUNCTYPE(None)(lambda: calls.append(1))
    address = ctypes.cast(called, ctypes.c_void_p).value or 0
    module.text()
    code = load_native("lapack that is counted", module.text, module.exports, dict.fromkeys(module.needed, address))
    function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, *[ctypes.c_int64] * 3)(code.entry("tenon_cholesky"))
    for count, n, is_side_by_side in ((9, 3, True), (1, 3, False), (9, 40, False)):
        x = RANDOM.normal(size=(count, n, n))
        x = x @ x.mT + np.eye(n)
        found = np.empty_like(x)
        calls.clear()
        is_done = function((ctypes.c_void_p * 2)(x.ctypes.data, found.ctypes.data), count, n, 0)
        assert bool(calls) != is_side_by_side
        if is_side_by_side:
            assert is_done
            np.testing.assert_allclose(found, np.linalg.cholesky(x), **STRICT)
    x[:, :] = -np.ones((40, 40))
    calls.clear()
    function((ctypes.c_void_p * 2)(x.ctypes.data, found.ctypes.data), 9, 3, 0)
    assert calls  # one that is not definite is LAPACK's to refuse


@pytest.mark.parametrize("name", ["svd", "eigh", "qr"])
def test_a_workspace_that_there_is_no_memory_for_is_not_used(name: str) -> None:
    module, there = lapack_functions(32, 64), None
    if module.text():
        there = library(tuple(dict.fromkeys(module.needed)))
    if there is None or there.integer_bits != 64:
        pytest.skip("this NumPy has no LAPACK of 64-bit integers that is found by name")
    room = ctypes.CDLL(None).malloc
    room.argtypes, room.restype = [ctypes.c_size_t], ctypes.c_void_p
    calls: list[int] = []
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(
        lambda size: calls.append(size) or (None if len(calls) == failing else room(size))
    )
    addresses = {part: there.address(part) for part in module.needed}
    addresses["malloc"] = ctypes.cast(allocate, ctypes.c_void_p).value or 0
    code = load_native("lapack without memory", module.text, module.exports, addresses)
    matrix = np.diag(np.arange(1, 5, dtype=np.float32))
    made = [matrix, *[np.zeros((4, 4), np.float32) for _ in range(3)]]
    sizes = {"svd": (4, 4, 4, 4), "eigh": (4,), "qr": (4, 4, 4)}[name]
    function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, *[ctypes.c_int64] * (1 + len(sizes)))(
        code.entry(f"tenon_{name}")
    )

    def is_done() -> bool:
        calls.clear()
        return bool(function((ctypes.c_void_p * 4)(*[array.ctypes.data for array in made]), 1, *sizes))

    failing = 0
    assert is_done()
    for failing in range(1, len(calls) + 1):
        assert not is_done(), failing


@pytest.mark.parametrize("x", [SQUARE, TALL, WIDE, np.zeros((2, 2))], ids=["square", "tall", "wide", "singular"])
def test_triangles_by_elimination(x: Any) -> None:
    torch = pytest.importorskip("torch")
    wanted = torch.linalg.lu_factor_ex(torch.tensor(x))
    for interpret in (False, True):
        with tenon.knobs.override(interpret=interpret):
            found = linalg.lu_factor(x)
        np.testing.assert_allclose(found.LU, wanted.LU.numpy(), **STRICT)
        np.testing.assert_array_equal(found.pivots, wanted.pivots.numpy())
    order, lower, upper = tenon.jit(linalg.lu)(x)
    np.testing.assert_allclose(order @ lower @ upper, x, **STRICT)
    np.testing.assert_array_equal(np.triu(lower), np.eye(*lower.shape[-2:]) + np.zeros_like(lower))
    if x.any():
        weight = RANDOM.normal(size=x.shape)
        theirs = torch.tensor(x, requires_grad=True)
        (torch.linalg.lu_factor(theirs).LU * torch.tensor(weight)).sum().backward()
        slope = tenon.jit(tenon.grad(lambda x: (linalg.lu_factor(x).LU * weight).sum()))(x)
        np.testing.assert_allclose(slope, theirs.grad.numpy(), **STRICT)


def test_systems_by_triangles_of_before() -> None:
    torch = pytest.importorskip("torch")
    factors, theirs = linalg.lu_factor(SQUARE), torch.linalg.lu_factor(torch.tensor(SQUARE))
    for left in (True, False):
        for adjoint in (True, False):
            right = np.broadcast_to(RIGHT if left else RIGHT.T, (3, *(RIGHT if left else RIGHT.T).shape)).copy()
            settings = {"left": left, "adjoint": adjoint}
            wanted = torch.linalg.lu_solve(*theirs, torch.tensor(right), **settings).numpy()
            np.testing.assert_allclose(linalg.lu_solve(*factors, right[0], **settings), wanted, **STRICT)
    x, y = tenon.tensor(SQUARE, requires_grad=True), torch.tensor(SQUARE, requires_grad=True)
    linalg.lu_solve(linalg.lu_factor(x), RIGHT[:, 0]).sin().sum().backward()
    torch.linalg.solve(y, torch.tensor(RIGHT[:, 0])).sin().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), **STRICT)
    assert tenon.vmap(linalg.lu_factor)(SQUARE.astype(np.float16)).LU.dtype == np.float16
    for call, message in (
        (lambda: linalg.lu_factor(SQUARE, pivot=False), r"^lu_factor: pivot is False"),
        (
            lambda: linalg.lu_solve(SQUARE, np.array([1, 2]), RIGHT),
            r"^lu_solve: lu has shape \(3, 4, 4\) and pivots \(2",
        ),
        (lambda: linalg.lu_solve(*factors, RIGHT.T), r"^lu_solve: lu has shape \(3, 4, 4\) and b \(2, 4\)"),
        (lambda: linalg.matrix_exp(TALL), r"^matrix_exp: x has shape \(2, 5, 3\) where \(..., n, n\) is needed"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("scale", [0.1, 4.0])
def test_exponentials_of_matrices(scale: float) -> None:
    torch = pytest.importorskip("torch")
    given = (SQUARE - 4 * np.eye(4)) * scale
    weight = RANDOM.normal(size=given.shape)
    x = torch.tensor(given, requires_grad=True)
    wanted = torch.linalg.matrix_exp(x)
    (wanted * torch.tensor(weight)).sum().backward()
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 2e-5 * scale)):
        found = linalg.matrix_exp(given.astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted.detach().numpy(), atol=rtol * np.abs(wanted.detach().numpy()).max())
    slope = tenon.grad(lambda x: (linalg.matrix_exp(x) * weight).sum())(given)
    np.testing.assert_allclose(slope, x.grad.numpy(), rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    np.testing.assert_array_equal(linalg.matrix_exp(np.zeros((2, 0, 0))), np.zeros((2, 0, 0)))
    of_integers = linalg.matrix_exp(np.eye(2, dtype=np.int64))
    assert of_integers.dtype == np.float32
    np.testing.assert_allclose(of_integers, np.exp(1) * np.eye(2), rtol=1e-6)
