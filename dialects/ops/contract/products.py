"""Products of vectors and matrices by the names that PyTorch has for them, as compositions of ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenon.dialects.definition.autocast import beside_product
from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large, one_program_when_large
from tenon.dialects.definition.operands import floating, shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import InferenceError, broadcast, normalize_axis


def _of_rank(function: str, name: str, x: Any, rank: int) -> Any:
    x = shaped(x)
    if x.ndim != rank:
        raise ValueError(f"{function}: {name} has rank {x.ndim} where {rank} is needed")
    return x


def _product(function: str, rank: int, x: Any, y: Any, of_second: int | None = None) -> Any:
    first = _of_rank(function, "x", x, rank)
    return ops.matmul(first, _of_rank(function, "y", y, rank if of_second is None else of_second))


@tensor_function
@also_called(input="x", mat2="y")
def mm(x: Any, y: Any) -> Any:
    """The product (m, n) of the matrices `x` (m, k) and `y` (k, n); others than matrices are refused.

    >>> tenon.mm(np.array([[1, 2]]), np.array([[3], [4]]))
    """
    return _product("mm", 2, x, y)


@tensor_function
@also_called(input="x", mat2="y")
def bmm(x: Any, y: Any) -> Any:
    """The products (b, m, n) of the matrices of `x` (b, m, k) and `y` (b, k, n), one each.

    >>> tenon.bmm(np.ones((2, 1, 3)), np.ones((2, 3, 1))).shape
    """
    first, second = _of_rank("bmm", "x", x, 3), _of_rank("bmm", "y", y, 3)
    if first.shape[0] != second.shape[0]:
        raise ValueError(f"bmm: there are {first.shape[0]} matrices in x and {second.shape[0]} in y")
    return ops.matmul(first, second)


@tensor_function
@also_called(input="x", vec="y")
def mv(x: Any, y: Any) -> Any:
    """The product (m) of the matrix `x` (m, k) and the vector `y` (k).

    >>> tenon.mv(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    """
    return _product("mv", 2, x, y, 1)


@tensor_function
@also_called(input="x", other="y")
def dot(x: Any, y: Any) -> Any:
    """The sum of products of the vectors `x` and `y` (k). As in PyTorch, matrices are refused: that is `matmul`.

    >>> tenon.dot(np.array([1, 2]), np.array([3, 4]))
    """
    return _product("dot", 1, x, y)


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def inner(x: Any, y: Any) -> Any:
    """The sums of products along the last axes of `x` (m..., k) and `y` (n..., k), as (m..., n...).

    >>> tenon.inner(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    """
    x, y = shaped(x), shaped(y)
    if not x.ndim or not y.ndim:
        return ops.multiply(x, y)
    rows, columns = (ops.reshape(given, shape=(-1, given.shape[-1])) for given in (x, y))
    found = ops.matmul(rows, ops.transpose(columns))
    return ops.reshape(found, shape=(*x.shape[:-1], *y.shape[:-1]))


def _sum(x: Any, beta: float, product: Any, alpha: float) -> Any:
    x = beside_product(x, product)
    product = product if alpha == 1 else ops.multiply(product, alpha)
    return product if beta == 0 else ops.add(x if beta == 1 else ops.multiply(x, beta), product)


@tensor_function
@also_called(input="x")
@one_program_of_large
def addmm(x: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the product (m, n) of two matrices.

    >>> tenon.addmm(np.array([1, 2]), np.eye(2), np.ones((2, 2)))
    """
    return _sum(x, beta, mm(mat1, mat2), alpha)


@tensor_function
@also_called(input="x")
@one_program_of_large
def baddbmm(x: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the products (b, m, n) of matrices.

    >>> tenon.baddbmm(np.zeros(1), np.ones((2, 1, 3)), np.ones((2, 3, 1))).shape
    """
    return _sum(x, beta, bmm(batch1, batch2), alpha)


@tensor_function
@also_called(input="x")
@one_program_of_large
def addmv(x: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the product of a matrix and a vector.

    >>> tenon.addmv(np.array([1, 2]), np.eye(2), np.ones(2))
    """
    return _sum(x, beta, mv(mat, vec), alpha)


@tensor_function
@also_called(input="x")
@one_program_of_large
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`x` (..., k) by the transposed `weight` (n, k), plus `bias` (n): what `nn.Linear` computes.

    >>> tenon.linear(np.array([1.0, 2.0]), np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0.0, 5.0]))
    """
    weight = shaped(weight)
    found = ops.matmul(x, ops.transpose(weight) if weight.ndim == 2 else weight)
    return found if bias is None else ops.add(found, beside_product(bias, found))


@tensor_function
@also_called(input="x", other="y")
@one_program_when_large
def kron(x: Any, y: Any) -> Any:
    """The products of each element of `x` (m, n) with all of `y` (p, q), as blocks of (m * p, n * q). Tensors may have
    any rank: the smaller one has axes of size 1 in front.

    >>> tenon.kron(np.eye(2), np.array([[1, 2]]))
    >>> tenon.kron(np.array([1, 2]), np.array([3, 4]))
    """
    x, y = shaped(x), shaped(y)
    rank = max(x.ndim, y.ndim)
    (first, second) = ((1,) * (rank - part.ndim) + tuple(part.shape) for part in (x, y))
    blocks = ops.multiply(
        ops.reshape(x, shape=tuple([size for pair in zip(first, (1,) * rank, strict=True) for size in pair])),
        ops.reshape(y, shape=tuple([size for pair in zip((1,) * rank, second, strict=True) for size in pair])),
    )
    return ops.reshape(blocks, shape=tuple([m * n for m, n in zip(first, second, strict=True)]))


@tensor_function
@also_called(x1="x", x2="y")
@one_program_when_large
def cdist(x: Any, y: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """The distances (..., m, n) in the norm `p` of the rows of `x` (..., m, k) to those of `y` (..., n, k). Where one
    is 0 its gradient is 0. Differences are never taken from products, whatever `compute_mode` of PyTorch's says.

    >>> tenon.cdist(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    """
    x, y = floating(x), floating(y)
    if p < 0:
        raise ValueError(f"cdist: p is {p} where 0 or more is needed")
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-1]:
        shapes = f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}"
        raise ValueError(f"cdist: {shapes} where (..., m, k) and (..., n, k) is needed")
    try:
        broadcast([("x", x.shape[:-2]), ("y", y.shape[:-2])])
    except InferenceError:
        raise ValueError(
            f"cdist: x has shape {tuple(x.shape)} and y {tuple(y.shape)}, whose stacks do not broadcast"
        ) from None
    return ops.norm(ops.subtract(ops.expand_dims(x, axis=-2), ops.expand_dims(y, axis=-3)), p=p, axis=-1)


@tensor_function
@also_called(input="x")
@one_program_when_large
def pdist(x: Any, p: float = 2.0) -> Any:
    """The distances (n (n - 1) / 2,) in the norm `p` of the rows of `x` (n, k) to each other: of the first to all that
    follow, then of the second, and so on. Where one is 0 its gradient is 0.

    >>> tenon.pdist(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    """
    x = floating(_of_rank("pdist", "x", x, 2))
    if p < 0:
        raise ValueError(f"pdist: p is {p} where 0 or more is needed")
    first, second = np.triu_indices(x.shape[0], 1)
    return ops.norm(ops.subtract(ops.gather(x, first, axis=0), ops.gather(x, second, axis=0)), p=p, axis=-1)


@tensor_function
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`value` (..., s, v) weighted by the softmax of the products of `query` (..., l, e) and `key` (..., s, e), which
    are multiplied by `scale` (1/√e unless given): (..., l, v), as Vaswani et al. (2017) define it.

    `attn_mask` (..., l, s) says by truth values what counts, or is added to the products; `is_causal` has what follows
    not count. Where nothing counts for a query its row is 0, as in PyTorch, and nothing has a gradient from it. With
    `enable_gqa`, several heads of `query` share one of `key` and `value`. There is no dropout here: raises `ValueError`
    where `dropout_p` is not 0, and where there are both masks.

    >>> tenon.scaled_dot_product_attention(np.ones((1, 2, 4)), np.ones((1, 3, 4)), np.ones((1, 3, 2))).shape
    """
    if dropout_p:
        raise ValueError(
            f"scaled_dot_product_attention: dropout_p is {dropout_p}; apply nn.Dropout, whose state is a module's"
        )
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: attn_mask is given and is_causal is set; one of them is needed")
    query, key, value = map(shaped, (query, key, value))
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (ops.repeat(given, times, axis=-3) for given in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = ops.multiply(ops.matmul(query, ops.swapaxes(key, -1, -2)), factor)
    if is_causal:
        attn_mask = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
    if attn_mask is None:
        return ops.matmul(ops.softmax(scores, axis=-1), value)
    mask = shaped(attn_mask)
    is_truth = mask.dtype == bool
    scores = ops.select(mask, scores, -math.inf) if is_truth else ops.add(scores, mask)
    counts = mask if is_truth else ops.not_equal(mask, -math.inf)
    if isinstance(counts, np.ndarray) and counts.any(axis=-1).all():
        return ops.matmul(ops.softmax(scores, axis=-1), value)
    # Where nothing counts, weights are those of equal scores, so that there is no NaN for gradients to meet.
    counts = ops.any(counts, axis=-1, keepdims=True)
    weights = ops.softmax(ops.select(counts, scores, 0.0), axis=-1)
    return ops.select(counts, ops.matmul(weights, value), 0.0)


@tensor_function
@also_called(x1="x", x2="y", input="x", vec2="y")
def outer(x: Any, y: Any) -> Any:
    """The products (m, n) of each element of the vector `x` with each of the vector `y`.

    >>> tenon.outer(np.array([1, 2]), np.array([3, 4, 5]))
    """
    left, right = shaped(x), shaped(y)
    if left.ndim != 1 or right.ndim != 1:
        raise ValueError(f"outer: the ranks are {left.ndim} and {right.ndim} where vectors are needed")
    return ops.multiply(ops.expand_dims(left, axis=1), ops.expand_dims(right, axis=0))


@tensor_function
@also_called(x1="x", x2="y", input="x", other="y", dim="axis")
@one_program_of_large
def cross(x: Any, y: Any, *, axis: int = -1) -> Any:
    """The vectors at right angles to those of `x` and `y`, of three elements along `axis`; other axes broadcast.

    >>> tenon.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    """
    left, right = shaped(x), shaped(y)
    sizes = [given.shape[normalize_axis(axis, given.ndim, "cross: axis")] for given in (left, right)]
    if sizes != [3, 3]:
        raise ValueError(f"cross: axis {axis} has {sizes[0]} elements in x1 and {sizes[1]} in x2 where 3 are needed")
    if left.ndim != right.ndim and axis >= 0:  # counted from the front, which axes it is of differs
        found = cross(ops.movedim(left, axis, -1), ops.movedim(right, axis, -1))
        return ops.movedim(found, -1, axis)

    def turned(given: Any, by: int) -> Any:
        return ops.roll(given, shift=-by, axis=axis)

    return turned(left, 1) * turned(right, 2) - turned(left, 2) * turned(right, 1)


@tensor_function
@also_called(input="x")
@one_program_of_large
def addr(x: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the outer product of two vectors.

    >>> tenon.addr(np.zeros((2, 2)), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    """
    return _sum(x, beta, ops.outer(vec1, vec2), alpha)


@tensor_function
@also_called(input="x")
@one_program_of_large
def addbmm(x: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the sum of the products (b, m, n) of matrices.

    >>> tenon.addbmm(np.zeros(1), np.ones((2, 1, 3)), np.ones((2, 3, 1)))
    """
    return _sum(x, beta, ops.sum(bmm(batch1, batch2), axis=0), alpha)


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def vdot(x: Any, y: Any) -> Any:
    """The sum of the products of the elements of two tensors, in row-major order.

    >>> tenon.vdot(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    """
    return ops.dot(ops.reshape(shaped(x), shape=(-1,)), ops.reshape(shaped(y), shape=(-1,)))
