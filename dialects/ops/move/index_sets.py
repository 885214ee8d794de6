"""Sets of indices and of combinations: the places of triangles, all pairs, powers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as chosen_of
from itertools import combinations_with_replacement as chosen_again_of
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called, check_device
from tenon.dialects.definition.operands import known_elements, shaped
from tenon.dialects.definition.registry import as_asked, tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import check_count
from tenon.dialects.types.types import element_type, numpy_dtype


def _triangle(function: str, rows: int, columns: int, offset: int, dtype: Any, device: str | None) -> Any:
    check_device(function, device)
    check_count(function, "row", rows)
    check_count(function, "col", columns)
    places = np.stack((np.tril_indices if function == "tril_indices" else np.triu_indices)(rows, offset, columns))
    dtype = "i64" if dtype is None else dtype
    made = ops.asarray(places.astype(numpy_dtype(element_type(dtype))))
    return as_asked(function, made, device, False)


@tensor_function
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: object = "i64", device: str | None = None) -> Any:
    """The places (2, n) of a matrix (`row`, `col`) that are on the diagonal `offset` above the main one and below it,
    in row-major order: rows first, then columns.

    >>> tenon.tril_indices(2, 3)
    """
    return _triangle("tril_indices", row, col, offset, dtype, device)


@tensor_function
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: object = "i64", device: str | None = None) -> Any:
    """The places (2, n) of a matrix (`row`, `col`) that are on the diagonal `offset` above the main one and above it,
    in row-major order: rows first, then columns.

    >>> tenon.triu_indices(2, 3)
    """
    return _triangle("triu_indices", row, col, offset, dtype, device)


def _vector(function: str, x: Any) -> Any:
    x = shaped(x)
    if x.ndim != 1:
        raise ValueError(f"{function}: x has rank {x.ndim} where a vector is needed")
    return x


@tensor_function
def cartesian_prod(*tensors: Any) -> Any:
    """All rows (n, k) of which the i-th element is one of the i-th of k vectors, of which the last changes fastest; of
    one vector, that itself.

    >>> tenon.cartesian_prod(np.array([1, 2]), np.array([3, 4]))
    """
    given = [_vector("cartesian_prod", x) for x in tensors]
    if len(given) == 1:
        return given[0]
    if not given:
        raise TypeError("cartesian_prod: one vector or more is needed")
    return ops.stack([ops.reshape(x, shape=(-1,)) for x in ops.meshgrid(*given, indexing="ij")], axis=-1)


@tensor_function
@also_called(input="x")
def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices (n, `r`) of `r` elements of the vector `x`, each in their order there; with `with_replacement`, of
    which each may be chosen again.

    >>> tenon.combinations(np.array([1, 2, 3]))
    """
    x = _vector("combinations", x)
    check_count("combinations", "r", r)
    if r == 0:
        return x[:0]
    chosen = (chosen_again_of if with_replacement else chosen_of)(range(x.shape[0]), r)
    return ops.gather(x, np.array([*chosen], np.int64).reshape(-1, r), axis=0)


@tensor_function
@also_called(N="n")
def vander(x: Any, n: int | None = None, increasing: bool = False) -> Any:
    """The powers (m, `n`) of each element of the vector `x` (m,), from that of `n` - 1 down to that of 0, or up with
    `increasing`; `n` is m unless it is given.

    >>> tenon.vander(np.array([1, 2, 3]))
    """
    x = _vector("vander", x)
    count: int = x.shape[0] if n is None else n
    check_count("vander", "n", count)
    if count == 0:
        return ops.zeros((x.shape[0], 0), dtype=x.dtype)
    # Products in a row, as NumPy has them: integers wrap as theirs, and 0 to the power of 0 is 1.
    base = ops.broadcast_to(ops.expand_dims(x, axis=1), shape=(x.shape[0], count - 1))
    first = ops.ones((x.shape[0], 1), dtype=x.dtype)
    powers = ops.cumprod(ops.concatenate([first, base], axis=1), axis=1)
    return powers if increasing else ops.flip(powers, axis=1)


@tensor_function
@also_called(dims="shape")
def unravel_index(indices: Any, shape: Sequence[int] | int) -> tuple[Any, ...]:
    """For each axis of a tensor of that shape where the elements with those numbers, in row-major order, are. Raises
    `IndexError` for numbers that it has not, unless they are not known.

    >>> tenon.unravel_index(np.array([1, 5]), (2, 3))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    indices = _integers("unravel_index", indices)
    _check_inside("unravel_index", indices, prod(sizes), f"a tensor of shape {sizes}")
    rest, found = indices, list[Any]()
    for size in sizes[::-1]:
        found.append(ops.remainder(rest, size) if size else rest)
        rest = ops.floor_divide(rest, max(size, 1))
    return tuple(found[::-1])


@tensor_function
@also_called(dims="shape")
def ravel_multi_index(multi_index: Sequence[Any], shape: Sequence[int]) -> Any:
    """The numbers, in row-major order, of the elements at those places of each axis of a tensor of that shape, arrays
    that broadcast. Raises `IndexError` for places that it has not, unless they are not known.

    >>> tenon.ravel_multi_index((np.array([0, 1]), np.array([1, 2])), (2, 3))
    """
    if len(multi_index) != len(shape) or not len(shape):
        raise ValueError(f"ravel_multi_index: there are {len(multi_index)} arrays of places for {len(shape)} axes")
    found: Any = None
    for axis, (given, size) in enumerate(zip(multi_index, shape, strict=True)):
        places = _integers("ravel_multi_index", given)
        _check_inside("ravel_multi_index", places, size, f"axis {axis} of size {size}")
        found = places if found is None else ops.add(ops.multiply(found, size), places)
    return found


def _integers(function: str, given: Any) -> Any:
    given = shaped(given)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{function}: places are {given.dtype} where integers are needed")
    return ops.cast(given, dtype="i64")


def _check_inside(function: str, given: Any, size: int, what: str) -> None:
    known = known_elements(given)
    if known is not None and (outside := known[(known < 0) | (known >= size)]).size:
        raise IndexError(f"{function}: {outside.flat[0]} is out of bounds for {what}")


@tensor_function
@also_called(a="x")
def flatnonzero(x: Any, size: int | None = None, fill_value: int = 0) -> Any:
    """The numbers, in row-major order, of the elements of `x` that are not zero. Of arrays `size` may be left out, and
    is then how many these are; a traced function has to state it.

    >>> tenon.flatnonzero(np.array([[0, 5], [6, 0]]))
    """
    return ops.nonzero(ops.reshape(shaped(x), shape=(-1,)), size, fill_value)[0]


@tensor_function
@also_called(arr="x")
def extract(condition: Any, x: Any) -> Any:
    """The elements of `x`, in row-major order, where `condition`, of as many elements, is true. It must be known while
    tracing, since the size of the result depends on it.

    >>> tenon.extract(np.array([[True, False], [False, True]]), np.array([[1, 2], [3, 4]]))
    """
    return ops.compress(ops.reshape(condition, shape=(-1,)), x)


@tensor_function
@also_called(a="x")
def choose(x: Any, choices: Sequence[Any]) -> Any:
    """Of `choices`, which broadcast with `x`, at each place that whose number the integer there is. Those that are not
    there are moved to the nearest one.

    >>> tenon.choose(np.array([1, 0, 1]), (np.array([1, 2, 3]), np.array([10, 20, 30])))
    """
    x = _integers("choose", x)
    given = [shaped(choice) for choice in choices]
    shape = np.broadcast_shapes(tuple(x.shape), *[tuple(choice.shape) for choice in given])
    stacked = ops.stack([ops.broadcast_to(choice, shape=shape) for choice in given], axis=0)
    places = ops.clip(ops.broadcast_to(x, shape=shape), low=0, high=len(given) - 1)
    return ops.squeeze(ops.take_along_axis(stacked, ops.expand_dims(places, axis=0), axis=0), axis=0)
