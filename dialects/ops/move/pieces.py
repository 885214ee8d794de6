"""Parts and forms of tensors by the names that PyTorch has for them, as compositions of indexing, `reshape` and
`transpose`: of a `Tensor`, those that only look at it are views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.ops.move.places import place_vector
from tenon.dialects.support.plain_arrays import as_stored, copied, is_stored
from tenon.dialects.types.shapes import normalize_axis


def _integers(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Integers that are given one by one, or as one sequence."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else given


def _part(x: Any, axis: int, entry: Any) -> Any:
    """`x[..., entry, ...]` at an axis; of an array, a copy."""
    part = x[(*[slice(None)] * axis, entry)]
    return copied(as_stored(part)) if is_stored(x) else part


@tensor_function
@also_called(dim="axis", input="x")
def chunk(x: Any, chunks: int, axis: int = 0) -> tuple[Any, ...]:
    """`x` cut along `axis` into at most `chunks` parts of one size, of which the last may be smaller.

    >>> tenon.chunk(np.arange(5), 2)
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "chunk: axis")
    if chunks < 1:
        raise ValueError(f"chunk: chunks is {chunks} where 1 or more is needed")
    size = x.shape[axis]
    step = max(1, -(-size // chunks))
    return tuple([_part(x, axis, slice(at, min(at + step, size))) for at in range(0, max(size, 1), step)])


@tensor_function
@also_called(dim="axis", input="x")
def narrow(x: Any, axis: int, start: int, length: int) -> Any:
    """The `length` elements of `x` along `axis` from `start` on, which counts from the end where it is negative.

    >>> tenon.narrow(np.arange(5), 0, 1, 3)
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "narrow: axis")
    size = x.shape[axis]
    first = start + size if start < 0 else start
    if length < 0 or not 0 <= first <= size - length:
        raise IndexError(f"narrow: {length} elements from {start} on are not within the {size} of axis {axis}")
    return _part(x, axis, slice(first, first + length))


@tensor_function
@also_called(dim="axis", input="x")
def index_select(x: Any, axis: int, index: Any) -> Any:
    """The elements of `x` at the places `index`, a vector of integers, along `axis`.

    >>> tenon.index_select(np.array([[1, 2], [3, 4]]), 1, np.array([1, 1]))
    """
    return ops.gather(shaped(x), place_vector("index_select", index), axis=axis)


@tensor_function
@also_called(dim="axis", input="x")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    """`x` with the axes `source` at the places `destination`, and all others in their order.

    >>> tenon.movedim(np.zeros((2, 3, 4)), 0, -1).shape
    """
    x = shaped(x)
    taken, places = ((given,) if isinstance(given, int) else tuple(given) for given in (source, destination))
    moved = [normalize_axis(axis, x.ndim, "movedim: source") for axis in taken]
    to = [normalize_axis(axis, x.ndim, "movedim: destination") for axis in places]
    if len(moved) != len(to) or len({*moved}) != len(moved) or len({*to}) != len(to):
        raise ValueError(f"movedim: source is {source} and destination {destination}; both name axes, each once")
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for place, axis in sorted(zip(to, moved, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, permutation=tuple(order)) if is_stored(x) else x.permute(*order)


@tensor_function
def permute(x: Any, *axes: Any, dims: Any = None) -> Any:
    """`x` with its axes in the order `axes`, integers or one tuple of them, which may be named `dims`.

    >>> tenon.permute(np.zeros((2, 3, 4)), 2, 0, 1).shape
    """
    return ops.transpose(x, permutation=_integers(axes) if dims is None else tuple(dims))


@tensor_function
@also_called(input="x")
def t(x: Any) -> Any:
    """The matrix `x` transposed; vectors and numbers as they are.

    >>> tenon.t(np.array([[1, 2], [3, 4]]))
    """
    x = shaped(x)
    if x.ndim > 2:
        raise ValueError(f"t: x has rank {x.ndim} where at most 2 is needed; swapaxes(x, -1, -2) transposes matrices")
    return x.T if x.ndim == 2 else x


@tensor_function
def view(x: Any, *shape: Any) -> Any:
    """`x` in another shape, of which one size may be -1; the same as `reshape`.

    >>> tenon.view(np.arange(6), 2, -1)
    """
    return _reshaped(shaped(x), _integers(shape))


def _reshaped(x: Any, shape: tuple[Any, ...]) -> Any:
    return ops.reshape(x, shape=shape) if is_stored(x) else x.reshape(shape)


@tensor_function
@also_called(input="x")
def ravel(x: Any) -> Any:
    """`x` with all axes made one.

    >>> tenon.ravel(np.array([[1, 2], [3, 4]]))
    """
    return _reshaped(shaped(x), (-1,))


@tensor_function
def reshape_as(x: Any, other: Any) -> Any:
    """`x` in the shape of `other`.

    >>> tenon.reshape_as(np.arange(4), np.zeros((2, 2)))
    """
    return _reshaped(shaped(x), tuple(shaped(other).shape))


@tensor_function
def view_as(x: Any, other: Any) -> Any:
    """`x` in the shape of `other`.

    >>> tenon.view_as(np.arange(4), np.zeros((2, 2)))
    """
    return reshape_as(x, other)


@tensor_function
def expand_as(x: Any, other: Any) -> Any:
    """`x` broadcast to the shape of `other`.

    >>> tenon.expand_as(np.array([1, 2]), np.zeros((2, 2)))
    """
    x, shape = shaped(x), tuple(shaped(other).shape)
    return ops.broadcast_to(x, shape=shape) if is_stored(x) else x.broadcast_to(shape)


@tensor_function
@also_called(dim="axis", input="x")
def unflatten(x: Any, axis: int, sizes: Sequence[int]) -> Any:
    """`x` with one axis made several, of these sizes, of which one may be -1.

    >>> tenon.unflatten(np.zeros((4, 6)), 1, (2, -1)).shape
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "unflatten: axis")
    sizes = list(sizes)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] // max(prod([size for size in sizes if size != -1]), 1)
    return _reshaped(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@tensor_function
@also_called(input="x")
@one_program_of_large
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`x` with `value` where `mask`, which is broadcast, is true; the dtype stays.

    >>> tenon.masked_fill(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]), 0)
    """
    x = shaped(x)
    return ops.select(mask, value, x).astype(x.dtype)


@tensor_function
@also_called(input="x")
def masked_select(x: Any, mask: Any) -> Any:
    """The elements of `x` where `mask` is true, both broadcast, as a vector. Raises where it is traced: how many they
    are depends on values.

    >>> tenon.masked_select(np.array([1, 2, 3]), np.array([True, False, True]))
    """
    x, mask = shaped(x), shaped(mask)
    shape = np.broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    return ops.broadcast_to(x, shape=shape)[ops.broadcast_to(mask, shape=shape)]


def _at_least(x: Any, rank: int, where: str = "value") -> Any:
    x = shaped(x, where)
    return x if x.ndim >= rank else _reshaped(x, (*(1,) * (rank - x.ndim), *x.shape))


@tensor_function
def atleast_1d(x: Any) -> Any:
    """`x`, and a number as a vector of one element.

    >>> tenon.atleast_1d(3.0)
    """
    return _at_least(x, 1)


@tensor_function
def atleast_2d(x: Any) -> Any:
    """`x`, with axes of size 1 in front up to two.

    >>> tenon.atleast_2d(np.array([1, 2]))
    """
    return _at_least(x, 2)


def _each_at_least(function: str, tensors: Any, rank: int) -> list[Any]:
    if not hasattr(type(tensors), "__iter__"):
        given = "None" if tensors is None else f"a {type(tensors).__name__}"
        raise TypeError(f"{function}: tensors is {given} where several tensors are needed")
    return [_at_least(x, rank, f"{function}: tensors[{number}]") for number, x in enumerate(tensors)]


@tensor_function
def hstack(tensors: Sequence[Any]) -> Any:
    """Tensors beside each other: along their second axis, vectors along their only one.

    >>> tenon.hstack((np.array([1, 2]), np.array([3])))
    """
    given = _each_at_least("tenon.hstack", tensors, 1)
    return ops.concatenate(given, axis=0 if given and given[0].ndim == 1 else 1)


@tensor_function
def vstack(tensors: Sequence[Any]) -> Any:
    """Tensors below each other: along their first axis, vectors as rows.

    >>> tenon.vstack((np.array([1, 2]), np.array([3, 4])))
    """
    return ops.concatenate(_each_at_least("tenon.vstack", tensors, 2), axis=0)


@tensor_function
def dstack(tensors: Sequence[Any]) -> Any:
    """Tensors behind each other: along their third axis, which matrices get, and vectors as rows of these.

    >>> tenon.dstack((np.array([1, 2]), np.array([3, 4])))
    """
    flat = [ops.expand_dims(x, axis=-1) if x.ndim == 2 else x for x in _each_at_least("tenon.dstack", tensors, 2)]
    return ops.concatenate(flat, axis=2)


@tensor_function
def column_stack(tensors: Sequence[Any]) -> Any:
    """Tensors beside each other, along their second axis; vectors are columns.

    >>> tenon.column_stack((np.array([1, 2]), np.array([3, 4])))
    """
    given = _each_at_least("tenon.column_stack", tensors, 1)
    return ops.concatenate([ops.expand_dims(x, axis=1) if x.ndim == 1 else x for x in given], axis=1)


@tensor_function
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Each of the tensors, broadcast to the shape in which they meet.

    >>> [x.shape for x in tenon.broadcast_tensors(np.zeros(3), np.zeros((2, 1)))]
    """
    given = [shaped(x) for x in tensors]
    shape = np.broadcast_shapes(*[tuple(x.shape) for x in given])
    return tuple([ops.broadcast_to(x, shape=shape) for x in given])


@tensor_function
@also_called(input="x")
@one_program_of_large
def rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """`x` turned `k` times by a right angle, from the first of the axes `dims` to the second.

    >>> tenon.rot90(np.array([[1, 2], [3, 4]]))
    """
    x = shaped(x)
    first, second = (normalize_axis(axis, x.ndim, "rot90: dims") for axis in dims)
    if first == second:
        raise ValueError(f"rot90: dims is {tuple(dims)} where two axes are needed")
    k %= 4
    if k == 2:
        return ops.flip(x, axis=(first, second))
    if k == 1:
        return ops.swapaxes(ops.flip(x, axis=second), first, second)
    return ops.flip(ops.swapaxes(x, first, second), axis=second) if k else x


@tensor_function
@also_called(dim="axis", input="x")
def index_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    """`x` with the parts of `source` added at the places `index`, a vector of integers, along `axis`.

    >>> tenon.index_add(np.zeros(3), 0, np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]))
    """
    return ops.scatter_add(x, place_vector("index_add", index), source, axis=axis)


@tensor_function
@also_called(input="x")
def fliplr(x: Any) -> Any:
    """`x` with its columns in reverse order.

    >>> tenon.fliplr(np.array([[1, 2], [3, 4]]))
    """
    return ops.flip(x, axis=1)


@tensor_function
@also_called(input="x")
def flipud(x: Any) -> Any:
    """`x` with its rows in reverse order.

    >>> tenon.flipud(np.array([[1, 2], [3, 4]]))
    """
    return ops.flip(x, axis=0)


@tensor_function
@also_called(dim="axis", input="x")
@one_program_of_large
def diff(x: Any, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along `axis`, `n` times; `prepend` and `append` are put before and behind `x`.

    >>> tenon.diff(np.array([1, 4, 9, 16]), n=2)
    """
    if n < 0:
        raise ValueError(f"diff: n is {n} where a number of at least 0 is needed")
    if n == 0:
        return x
    parts = [part for part in (prepend, x, append) if part is not None]
    joined = ops.concatenate(parts, axis=axis) if len(parts) > 1 else shaped(x)
    axis = normalize_axis(axis, joined.ndim, "diff: axis")
    for _ in range(min(n, joined.shape[axis])):
        differ = ops.not_equal if joined.dtype == np.bool_ else ops.subtract
        joined = differ(_part(joined, axis, slice(1, None)), _part(joined, axis, slice(None, -1)))
    return joined


@tensor_function
@one_program_of_large
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of one that is 0 elsewhere; vectors are rows, and numbers matrices of one element.

    >>> tenon.block_diag(np.array([[1, 2]]), np.array([[3], [4]]))
    """
    given = [_at_least(x, 2) for x in tensors]
    if not given or any(x.ndim != 2 for x in given):
        ranks = ", ".join([str(x.ndim) for x in given]) or "none"
        raise ValueError(f"block_diag: the ranks are {ranks} where one matrix or more is needed")
    columns, rows, before = sum([x.shape[1] for x in given]), list[Any](), 0
    for x in given:
        after = columns - before - x.shape[1]
        rows.append(ops.pad(x, low=(0, before), high=(0, after)))
        before += x.shape[1]
    return ops.concatenate(rows, axis=0)
