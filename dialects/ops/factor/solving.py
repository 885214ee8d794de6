"""Systems of linear equations, inverses, and the logarithms of determinants.

The gradients are those of M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.factor.matrix_op import MatrixOp, check_square, of_squares, transposed
from tenon.dialects.types.shapes import InferenceError, broadcast, refine, show
from tenon.dialects.types.types import FLOAT_TENSOR


class _SystemsOp(MatrixOp):
    """What solves systems with square matrices `a` (..., n, n) and right sides `b` (..., n, k)."""

    @staticmethod
    def shapes(a: Any, b: Any, **settings: Any) -> tuple[Sequence[int], ...]:
        check_square("a", a)
        try:
            rows = refine(a[:-1], b[:-1])
        except InferenceError:
            raise InferenceError(
                f"a has shape {show(a)} and b {show(b)} where (..., n, n) and (..., n, k) is needed"
            ) from None
        return ((*(rows or ()), b[-1]),)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (a, b), (a_has, _) = operands, batched
        if a_has:
            return super().batch(size, batched, *operands, **settings)
        # Examples that share `a` are more columns of `b`: one factorization for all.
        inner = tuple(range(1, b.ndim))
        beside = ops.transpose(b, permutation=(*inner[:-1], 0, inner[-1]))
        solved = cls.apply(a, ops.reshape(beside, shape=(*beside.shape[:-2], size * b.shape[-1])), **settings)
        apart = ops.reshape(solved, shape=beside.shape)
        return ops.transpose(apart, permutation=(b.ndim - 2, *range(b.ndim - 2), b.ndim - 1))


@tensor_op
class SolveMatricesOp(_SystemsOp):
    """The matrices x (..., n, k) for which a x is `b` (..., n, k), of square matrices `a` (..., n, n) in as many
    stacks.

    Front: `solve`.
    """

    name = "tenon.solve_matrices"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "solve"
    a = operand_def(FLOAT_TENSOR)
    b = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    LAPACK = staticmethod(lambda a, b: ("solve", (a[-1], b[-1])))

    @staticmethod
    def compute(a: Any, b: Any) -> Any:
        return np.linalg.solve(a, b)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, b: Value) -> tuple[Any, ...]:
        to_b = SolveMatricesOp.apply(transposed(a), g)
        return -ops.matmul(to_b, transposed(out)), to_b


@tensor_op
class SolveTrianglesOp(_SystemsOp):
    """The matrices x (..., n, k) for which a x is `b` (..., n, k), where of the square matrices `a` (..., n, n) in as
    many stacks only the lower or `upper` triangle counts, with ones on its diagonal if `unitriangular`.

    Front: `solve_triangular`.
    """

    name = "tenon.solve_triangles"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "solve_triangular"
    a = operand_def(FLOAT_TENSOR)
    b = operand_def(FLOAT_TENSOR)
    upper = setting(bool, default=False)
    unitriangular = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    LAPACK = staticmethod(
        lambda a, b, *, upper, unitriangular: (
            "solve_triangle",
            (a[-1], b[-1], int(upper), int(unitriangular)),
        )
    )

    @staticmethod
    def compute(a: Any, b: Any, *, upper: bool, unitriangular: bool) -> Any:
        if not unitriangular and not np.diagonal(a, axis1=-2, axis2=-1).all():
            raise np.linalg.LinAlgError("Singular matrix")
        wide = np.promote_types(a.dtype, np.float64)
        a, x = a.astype(wide), b.astype(wide)
        rows = range(a.shape[-1])
        for i in reversed(rows) if upper else rows:
            known = slice(i + 1, None) if upper else slice(i)
            x[..., i, :] -= np.matmul(a[..., i, None, known], x[..., known, :])[..., 0, :]
            if not unitriangular:
                x[..., i, :] /= a[..., i, i, None]
        return x.astype(b.dtype)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, b: Value, *, upper: bool, unitriangular: bool) -> tuple[Any, ...]:
        to_b = SolveTrianglesOp.apply(transposed(a), g, upper=not upper, unitriangular=unitriangular)
        to_a = -ops.matmul(to_b, transposed(out))
        diagonal = int(unitriangular)
        return (ops.triu(to_a, k=diagonal) if upper else ops.tril(to_a, k=-diagonal)), to_b


@tensor_op
class InvOp(MatrixOp):
    """The inverses of the square matrices `x` (..., n, n). Raises `LinAlgError` for one that is singular. To multiply
    by an inverse, `solve` is faster and more exact.

    >>> tenon.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    """

    name = "tenon.inv"
    ALIASES = ("inverse",)
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    shapes = of_squares(2)

    LAPACK = staticmethod(lambda x: ("inv", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        return np.linalg.inv(x)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        turned = transposed(out)
        return (-ops.matmul(ops.matmul(turned, g), turned),)


@tensor_op
class SlogdetOp(MatrixOp):
    """The signs (...,) of the determinants of the square matrices `x` (..., n, n), and the logarithms (...,) of their
    magnitudes, which do not overflow; 0 and -inf for a singular one.

    >>> tenon.slogdet(np.diag([-2.0, 3.0]))
    """

    name = "tenon.slogdet"
    x = operand_def(FLOAT_TENSOR)
    sign = result_def(FLOAT_TENSOR)
    logabsdet = result_def(FLOAT_TENSOR)

    shapes = of_squares(0, 0)

    LAPACK = staticmethod(lambda x: ("slogdet", (x[-1],)))

    @staticmethod
    def compute(x: Any) -> Any:
        return tuple(map(np.asarray, np.linalg.slogdet(x)))

    @staticmethod
    def vjp(g: tuple[Value, Value], out: tuple[Value, Value], x: Value) -> tuple[Any, ...]:
        turned = transposed(ops.inv(x))
        return (ops.expand_dims(g[1], axis=(-2, -1)) * turned,)


@tensor_function
@also_called(A="a", B="b")
def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    """The solution x of a x = b (of x a = b without `left`): of matrices `a` (..., n, n) and `b` (..., n, k), without
    `left` (..., k, n), whose stacks broadcast, or a vector `b` (n,). Raises `LinAlgError` for a singular `a`.

    >>> tenon.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    """
    a, b = shaped(a, "tenon.solve: a"), shaped(b, "tenon.solve: b")
    if left or b.ndim == 1:
        return _solved(SolveMatricesOp, "solve", a if left else transposed(a), b)
    return transposed(_solved(SolveMatricesOp, "solve", transposed(a), transposed(b)))


@tensor_function
@also_called(A="a", B="b", unit_diagonal="unitriangular")
def solve_triangular(
    a: Any,
    b: Any,
    *,
    upper: bool | None = None,
    lower: bool | None = None,
    left: bool = True,
    trans: int | str = 0,
    unitriangular: bool = False,
) -> Any:
    """The solution x of a x = b (of x a = b without `left`), where only one triangle of `a` (..., n, n) counts, with
    ones on its diagonal if `unitriangular` (SciPy's `unit_diagonal`). `b` is (..., n, k), without `left` (..., k, n),
    or a vector (n,).

    Which triangle counts is said by `upper` or `lower`: SciPy takes the upper one unless told otherwise, PyTorch asks,
    and so does this. With `trans` 1 or "T" the equation is that of `a` transposed.

    >>> tenon.solve_triangular(np.array([[2.0, 9.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    """
    a, b, upper = shaped(a), shaped(b), _is_upper("solve_triangular", upper, lower)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"solve_triangular: trans is {trans!r} where 0, 1, 2, 'N', 'T' or 'C' is needed")
    is_turned = (trans not in (0, "N")) == left
    if is_turned:
        a, upper = transposed(a), not upper
    settings = {"upper": upper, "unitriangular": unitriangular}
    if left or b.ndim == 1:
        return _solved(SolveTrianglesOp, "solve_triangular", a, b, **settings)
    return transposed(_solved(SolveTrianglesOp, "solve_triangular", a, transposed(b), **settings))


def _is_upper(function: str, upper: bool | None, lower: bool | None) -> bool:
    if upper is None and lower is None:
        raise TypeError(f"{function}: which triangle counts is not said; write upper=True or lower=True")
    if upper is not None and lower is not None and upper == lower:
        raise ValueError(f"{function}: upper is {upper} and lower is {lower}; one triangle counts")
    return bool(upper) if upper is not None else not lower


@tensor_function
@also_called(input="b", B="b", L="factor", input2="factor")
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """The solution x of a x = `b` (..., n, k) by what `cholesky` gives of `a`, the lower triangular `factor` (..., n,
    n), or the `upper` one.

    >>> tenon.cholesky_solve(np.array([[2.0], [4.0]]), np.diag([1.0, 2.0]))
    """
    b, factor = shaped(b), shaped(factor)
    first = solve_triangular(factor, b, upper=upper, trans=int(upper))
    return solve_triangular(factor, first, upper=upper, trans=int(not upper))


@tensor_function
@also_called(input="factor", L="factor")
def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    """The inverses of the matrices (..., n, n) of which `cholesky` gives the lower triangular `factor`, or the `upper`
    one.

    >>> tenon.cholesky_inverse(np.diag([1.0, 2.0]))
    """
    factor = shaped(factor)
    return cholesky_solve(ops.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


@tensor_function
@also_called(input="x", A="x")
def logdet(x: Any) -> Any:
    """The logarithms (...,) of the determinants of the square matrices `x` (..., n, n): NaN where one is negative, -inf
    where it is 0.

    >>> tenon.logdet(np.diag([2.0, 3.0]))
    """
    sign, logarithm = ops.slogdet(x)
    return ops.select(sign < 0, np.nan, logarithm)


def _solved(op: Any, name: str, a: Value, b: Value, **settings: Any) -> Any:
    """What `op` gives for stacks of matrices that broadcast, or a vector `b`."""
    if b.ndim == 1:
        return ops.squeeze(_solved(op, name, a, ops.expand_dims(b, axis=1), **settings), axis=-1)
    if min(a.ndim, b.ndim) < 2:
        raise ValueError(f"{name}: a has shape {a.shape} and b {b.shape} where (..., n, n) and (..., n, k) is needed")
    stacks = broadcast([("a", a.shape[:-2]), ("b", b.shape[:-2])]) or ()
    return op.apply(*[ops.broadcast_to(x, shape=(*stacks, *x.shape[-2:])) for x in (a, b)], **settings)
