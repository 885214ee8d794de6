"""The standard's sets. How many elements differ is known of arrays alone: shapes cannot depend on traced values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import plain_array
from tenon.eager.parts import runs_of, unique_parts


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


def _array(name: str, x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, Value):
        raise TypeError(f"{name}: x is traced, and the shape of the result depends on its values")
    return plain_array(x.detach() if hasattr(type(x), "__tenon_op__") else x, f"{name}: x")


def unique_all(x: Any, /) -> UniqueAll:
    """The elements of the array `x` in order and each once (NaN as often as it is there), the index of the first of
    each, for every element where it is among them, and how often each is there."""
    array = _array("unique_all", x)
    found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return UniqueAll(found[0], found[1], found[2].reshape(array.shape), found[3])


def unique_counts(x: Any, /) -> UniqueCounts:
    """The elements of the array `x` in order and each once, and how often each is there."""
    return UniqueCounts(*np.unique(_array("unique_counts", x), return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The elements of the array `x` in order and each once, and for every element where it is among them."""
    array = _array("unique_inverse", x)
    values, inverse = np.unique(array, return_inverse=True, equal_nan=False)
    return UniqueInverse(values, inverse.reshape(array.shape))


def unique_values(x: Any, /) -> Any:
    """The elements of the array `x` in order and each once; NaN as often as it is there."""
    return np.unique(_array("unique_values", x), equal_nan=False)


@also_called(input="x")
def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    axis: int | None = None,
) -> Any:
    """The elements of the array or tensor `x` in order and each once; or, along `dim`, its parts.

    A tuple, where more is wanted: for every element where it is among them (`return_inverse`), and how often each is
    there (`return_counts`). NaN is there once; parts along `dim` that have it differ from each other.

    Raises `ValueError` for a `dim` that `x` has not.
    """
    axis = dim if axis is None else axis
    if hasattr(type(x), "__tenon_op__") and not isinstance(x, Value):
        return x.unique(sorted, return_inverse, return_counts, axis)
    return unique_parts(_array("unique", x), return_inverse, return_counts, axis)


@also_called(input="x")
def unique_consecutive(
    x: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    axis: int | None = None,
) -> Any:
    """The elements of the array or tensor `x`, in the order of memory, without those that are equal to the one before;
    or, along `dim`, its parts.

    A tuple, where more is wanted: for every element which one is left of it (`return_inverse`), and of how many each is
    left (`return_counts`). Raises `ValueError` for a `dim` that `x` has not.
    """
    axis = dim if axis is None else axis
    if hasattr(type(x), "__tenon_op__") and not isinstance(x, Value):
        return x.unique_consecutive(return_inverse, return_counts, axis)
    return runs_of(_array("unique_consecutive", x), return_inverse, return_counts, axis)


@one_program_of_large
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of `x1` is one of `x2`, or with `invert` none of it. NaN is none of anything."""
    elements = shaped(x1)
    others = ops.sort(ops.reshape(x2, shape=(-1,)))
    if not others.shape[0]:
        return ops.full(elements.shape, invert, "i1")
    # A comparison takes operands to one dtype, which the search then stays in.
    place = ops.minimum(ops.searchsorted(others, elements), others.shape[0] - 1)
    found = ops.equal(ops.gather(others, place, axis=0), elements)
    return ops.logical_not(found) if invert else found


@also_called(ar1="x1", ar2="x2")
def union1d(x1: Any, x2: Any) -> Any:
    """The elements of both arrays, in order and each once."""
    return np.union1d(_array("union1d", x1), _array("union1d", x2))


@also_called(ar1="x1", ar2="x2")
def intersect1d(x1: Any, x2: Any) -> Any:
    """The elements that both arrays have, in order and each once."""
    return np.intersect1d(_array("intersect1d", x1), _array("intersect1d", x2))


@also_called(ar1="x1", ar2="x2")
def setdiff1d(x1: Any, x2: Any) -> Any:
    """The elements of the array `x1` that `x2` has not, in order and each once."""
    return np.setdiff1d(_array("setdiff1d", x1), _array("setdiff1d", x2))


@also_called(ar1="x1", ar2="x2")
def setxor1d(x1: Any, x2: Any) -> Any:
    """The elements that one of both arrays has and the other has not, in order and each once."""
    return np.setxor1d(_array("setxor1d", x1), _array("setxor1d", x2))
