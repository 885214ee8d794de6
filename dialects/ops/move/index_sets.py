"""Sets of indices and of combinations: the places of triangles, all pairs, powers."""

from __future__ import annotations

from itertools import combinations as choices
from itertools import combinations_with_replacement as choices_with_replacement
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called, check_device
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import as_asked, tensor_function
from tenon.dialects.definition.value import ops
from tenon.dialects.types.shapes import check_count
from tenon.dialects.types.types import element_type, numpy_dtype


def _triangle(function: str, rows: int, columns: int, offset: int, dtype: Any, device: str | None) -> Any:
    check_device(function, device)
    check_count(function, "row", rows)
    check_count(function, "col", columns)
    above = np.arange(columns) - np.arange(rows)[:, None] - offset
    places = np.stack(np.nonzero(above <= 0 if function == "tril_indices" else above >= 0))
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
    chosen = (choices_with_replacement if with_replacement else choices)(range(x.shape[0]), r)
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
