"""Reading and writing at indices by the names and arguments that PyTorch has for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index as as_integer
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import known_elements, shaped, vector_along
from tenon.dialects.definition.promotion import is_literal
from tenon.dialects.definition.registry import also_function, tensor_function
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import elements_of
from tenon.dialects.types.shapes import InferenceError, normalize_axis, refine, show

_REDUCTIONS = {None: "none", "add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_NEUTRAL: dict[str, float] = {"sum": 0, "mean": 0, "prod": 1}
_WIDE = {"f": np.dtype("f4"), "V": np.dtype("f4"), "i": np.dtype("i8"), "u": np.dtype("u8")}
"""What is added up for a mean, by kind of dtype, where elements are stored in less."""


def _updates(function: str, x: Any, index: Any, source: Any) -> Any:
    """The part of `source` that there are indices for; a number, or an array of rank 0, everywhere."""
    sizes = tuple(index.shape)
    if np.ndim(source) == 0:
        return _everywhere(source, sizes, x.dtype)
    source = shaped(source)
    if source.ndim != len(sizes) or any(have < want for have, want in zip(source.shape, sizes, strict=True)):
        raise ValueError(f"{function}: the source has shape {tuple(source.shape)}, and the index {sizes}")
    return source if tuple(source.shape) == sizes else source[tuple([slice(size) for size in sizes])]


def _everywhere(number: Any, sizes: tuple[int, ...], dtype: Any) -> Any:
    """A number, or what of rank 0 has a dtype, as a tensor of that shape and dtype."""
    if is_literal(number):
        return ops.full(sizes, number, dtype=dtype)
    return ops.broadcast_to(ops.cast(shaped(number), dtype=dtype), shape=sizes)


def place_vector(function: str, index: Any) -> Any:
    """The places `index`, of which one alone may have rank 0."""
    index = shaped(index)
    if index.ndim > 1:
        raise ValueError(f"{function}: index has rank {index.ndim} where a vector of integers is needed")
    return index if index.ndim else ops.reshape(index, shape=(1,))


@tensor_function
@also_called(dim="axis", input="x", src="source")
def scatter(x: Any, axis: int, index: Any, source: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """`x` with the elements of `source`, or a number, at the places `index` along `axis`, everything else equal:
    result[index[i, j], j] = source[i, j]; with `reduce` ("add", "multiply") they are added or multiplied.

    What is at one place is taken in order. `scatter_elements` is the same with other arguments.

    >>> tenon.scatter(np.zeros((2, 3)), 1, np.array([[2], [0]]), 1.0)
    """
    if (source is None) == (value is None):
        raise TypeError(f"scatter: {'neither' if source is None else 'both'} of source and value given; one is needed")
    if reduce not in (None, "add", "multiply"):
        raise ValueError(f"scatter: reduce is {reduce!r}, none of None, 'add' and 'multiply'")
    x, index = shaped(x), shaped(index)
    updates = _updates("scatter", x, index, value if source is None else source)
    return ops.scatter_elements(x, index, updates, axis=axis, reduction=_REDUCTIONS[reduce])


@tensor_function
@also_called(dim="axis", input="x", src="source")
@one_program_of_large
def scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """`x` reduced with the elements of `source` at the places `index` along `axis`, everything else equal, by `reduce`
    ("sum", "prod", "mean", "amax", "amin"); without `include_self`, what `x` has at these places does not count.

    What a mean adds up is as wide as f32 or i64: those of many f16 or i8 are right, too; of integers they are rounded
    down.

    >>> x, index = np.array([1.0, 2.0]), np.array([0, 0, 1])
    >>> tenon.scatter_reduce(x, 0, index, np.array([4.0, 7.0, 3.0]), "mean")
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ValueError(f"scatter_reduce: reduce is {reduce!r}, none of 'sum', 'prod', 'mean', 'amax' and 'amin'")
    x, index = shaped(x), shaped(index)
    updates = _updates("scatter_reduce", x, index, source)
    stored: np.dtype[Any] = x.dtype  # pyright: ignore[reportAssignmentType]  of a traced value it is known here
    if reduce == "mean" and stored.itemsize < _WIDE.get(stored.kind, stored).itemsize:
        x, updates = [ops.cast(v, dtype=_WIDE[stored.kind]) for v in (x, updates)]
    counts = None
    if reduce == "mean" or not include_self:
        ones = ops.full(tuple(index.shape), 1, dtype="i32")
        counts = ops.scatter_elements(ops.zeros_like(x, dtype="i32"), index, ones, axis=axis, reduction="add")
    if not include_self:
        # What is replaced by one of the updates first counts no less than that alone.
        first = ops.scatter_elements(x, index, updates, axis=axis)
        start = first if reduce in ("amax", "amin") else ops.full_like(x, _NEUTRAL[reduce])
        x = ops.select(ops.greater(counts, 0), start, x)
    reduction = "add" if reduce == "mean" else _REDUCTIONS[reduce]
    found = ops.scatter_elements(x, index, updates, axis=axis, reduction=reduction)
    if reduce != "mean":
        return found
    counted = ops.cast(ops.add(counts, 1) if include_self else ops.maximum(counts, 1), dtype=found.dtype)
    mean = ops.divide(found, counted) if found.dtype.kind in "fV" else ops.floor_divide(found, counted)
    return mean if mean.dtype == stored else ops.cast(mean, dtype=stored)


@tensor_function
@also_called(dim="axis", input="x")
def index_copy(x: Any, axis: int, index: Any, source: Any) -> Any:
    """`x` with the parts of `source` at the places `index`, a vector of integers, along `axis`.

    >>> tenon.index_copy(np.zeros(3), 0, np.array([2, 0]), np.array([1.0, 2.0]))
    """
    x, index, source = shaped(x), place_vector("index_copy", index), shaped(source)
    axis = normalize_axis(axis, x.ndim, "index_copy: axis")
    if source.ndim == 0 and x.ndim == 1:
        source = ops.reshape(source, shape=(1,))
    try:
        refine(tuple([index.shape[0] if i == axis else size for i, size in enumerate(x.shape)]), tuple(source.shape))
    except InferenceError:
        shapes = f"x has shape {show(x.shape)}, index {show(index.shape)} and source {show(source.shape)}"
        raise ValueError(f"index_copy: {shapes}, which do not fit along axis {axis}") from None
    if axis == 0:  # rows as a whole
        return ops.scatter_nd(x, ops.expand_dims(index, axis=1), source)
    places = vector_along(index, axis, x.ndim)
    return ops.scatter_elements(x, ops.broadcast_to(places, shape=tuple(source.shape)), source, axis=axis)


@tensor_function
@also_called(dim="axis", input="x")
@one_program_of_large
def index_fill(x: Any, axis: int, index: Any, value: float) -> Any:
    """`x` with a number at the places `index`, a vector of integers, along `axis`.

    >>> tenon.index_fill(np.zeros((2, 3)), 1, np.array([2, 0]), 7)
    """
    x, index = shaped(x), place_vector("index_fill", index)
    axis = normalize_axis(axis, x.ndim, "index_fill: axis")
    if (rank := np.ndim(value)) != 0:
        raise ValueError(f"index_fill: value has rank {rank} where a number is needed")
    sizes = tuple([index.shape[0] if i == axis else size for i, size in enumerate(x.shape)])
    return index_copy(x, axis, index, _everywhere(value, sizes, x.dtype))


@tensor_function
@also_called(dim="axis", input="x", indices="index")
@one_program_of_large
def take_along_dim(x: Any, index: Any, axis: int | None = None) -> Any:
    """The elements of `x` at the places `index` along `axis`, where all other axes broadcast; without `axis`, of all
    elements in a row.

    >>> x = np.array([[3, 1, 2], [6, 5, 4]])
    >>> tenon.take_along_dim(x, tenon.argsort(x, axis=1), 1)
    """
    x, index = shaped(x), shaped(index)
    if axis is None:
        return ops.take_along_axis(ops.reshape(x, shape=(-1,)), ops.reshape(index, shape=(-1,)), axis=0)
    return ops.take_along_axis(x, index, axis=axis)


def _cuts(given: Any, size: int) -> Sequence[int]:
    """Before which places an axis of `size` is cut, of what `tensor_split` is given."""
    if isinstance(given, Value):
        raise TypeError("tensor_split: the places are traced values; shapes cannot depend on values")
    try:
        if np.ndim(given):
            return [as_integer(place) for place in given]
        parts = as_integer(given)
    except TypeError:
        raise TypeError(
            f"tensor_split: indices_or_sections is {given!r} where an integer or a sequence of them is needed"
        ) from None
    if parts < 1:
        raise ValueError(f"tensor_split: there are {parts} parts where 1 or more is needed")
    each, more = divmod(size, parts)
    return [number * each + min(number, more) for number in range(1, parts)]


@tensor_function
@also_called(dim="axis", input="x")
def tensor_split(x: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Any, ...]:
    """`x` cut along `axis` before each of the places of a sequence, or into a number of parts, of which the first ones
    are larger by one where they cannot be equal.

    >>> tenon.tensor_split(np.arange(5), 2)
    >>> tenon.tensor_split(np.arange(5), (1, 3))
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "tensor_split: axis")
    size = x.shape[axis]
    cuts = _cuts(indices_or_sections, size)
    ranges = [slice(low, high).indices(size) for low, high in pairwise([None, *cuts, None])]
    return tuple([ops.narrow(x, axis, low, max(0, high - low)) for low, high, _ in ranges])


also_function(tensor_split, "array_split")


@tensor_function
@also_called(input="x")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """`x` with the first elements of `source`, one after the other, where `mask`, which is broadcast, is true. Raises
    `ValueError` where they are too few, unless the mask is not known.

    >>> tenon.masked_scatter(np.array([1, 2, 3]), np.array([True, False, True]), np.array([7, 8]))
    """
    x, mask, source = shaped(x), shaped(mask), shaped(source)
    if source.dtype != x.dtype:
        raise TypeError(f"masked_scatter: source is {source.dtype} and x {x.dtype}; both have one dtype")
    mask = ops.broadcast_to(mask, shape=tuple(x.shape))
    elements = ops.reshape(source, shape=(-1,))
    known = elements_of(mask)
    if isinstance(known, np.ndarray) and (count := int(np.count_nonzero(known))) > elements.shape[0]:
        raise ValueError(f"masked_scatter: source has {elements.shape[0]} elements where {count} are needed")
    if not elements.shape[0]:
        return x
    which = ops.cumsum(ops.cast(ops.reshape(mask, shape=(-1,)), dtype="i64"), axis=0)
    taken = ops.gather(elements, ops.maximum(ops.subtract(which, 1), 0), axis=0)
    return ops.select(mask, ops.reshape(taken, shape=tuple(x.shape)), x)


@tensor_function
@also_called(input="x")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`x` after x[indices] = values, which broadcast, or with `accumulate` after these are added there. The indices are
    arrays of integers, which broadcast against each other, or of truth values, for the first axes of `x`.

    Of values at one place the last one stays, as in NumPy, and it alone gets the gradient; PyTorch leaves open what is
    there, and gives the gradient to all of them. With `accumulate` all count in both. A traced array of truth values is
    the only one, and each of its true places gets the same values. Raises `IndexError` for a known place outside of `x`
    (others are left out), and `TypeError` for values of another dtype.

    >>> tenon.index_put(np.zeros((2, 3)), (np.array([0, 1]), np.array([2, 0])), np.array([5.0, 7.0]))
    >>> tenon.index_put(np.zeros(3), (np.array([1, 1]),), 2.0, accumulate=True)
    """
    x = shaped(x)
    if not isinstance(indices, list | tuple):
        raise TypeError(f"index_put: indices is a {type(indices).__name__} where a tuple of arrays is needed")
    if not is_literal(values):
        values = shaped(values)
        if values.dtype != x.dtype:
            raise TypeError(f"index_put: values are {values.dtype} and x is {x.dtype}; both have one dtype")
    given = [shaped(index, "tenon.index_put: an index") for index in indices]
    if len(given) == 1 and given[0].dtype == np.bool_ and known_elements(given[0]) is None:
        return _put_where(x, given[0], values, accumulate)
    arrays = [array for index in given for array in _places_of_axes(x, index)]
    if not arrays or len(arrays) > x.ndim:
        raise IndexError(f"index_put: there are {len(arrays)} indices where x has {x.ndim} axes")
    common = np.broadcast_shapes(*[tuple(array.shape) for array in arrays])
    for axis, array in enumerate(arrays):
        known, size = known_elements(array), x.shape[axis]
        if known is not None and (outside := known[(known < -size) | (known >= size)]).size:
            raise IndexError(f"index_put: index {outside.flat[0]} is out of bounds for axis {axis} of size {size}")
    places = ops.stack([ops.broadcast_to(ops.cast(array, dtype="i64"), shape=common) for array in arrays], axis=-1)
    updates = _spread("index_put", values, (*common, *x.shape[len(arrays) :]), x.dtype)
    return ops.scatter_nd(x, places, updates, reduction="add" if accumulate else "none")


def _places_of_axes(x: Any, index: Any) -> list[Any]:
    """The places that an index of integers has along one axis, or one of truth values along its axes."""
    if index.dtype != np.bool_:
        if index.dtype.kind not in "iu":
            raise TypeError(f"index_put: an index is {index.dtype} where integers or truth values are needed")
        return [index]
    known = known_elements(index)
    if known is None:
        raise TypeError("index_put: traced truth values are beside other indices; how many are true is not known")
    return [ops.asarray(places) for places in np.nonzero(known)]


def _put_where(x: Any, mask: Any, values: Any, accumulate: bool) -> Any:
    """`x` with `values` where a traced mask of its first axes is true."""
    if tuple(x.shape[: mask.ndim]) != tuple(mask.shape):
        raise IndexError(f"index_put: a mask of shape {show(mask.shape)}, and x of {show(x.shape)}")
    rest = tuple(x.shape[mask.ndim :])
    updates = _spread("index_put", values, rest, x.dtype)
    chosen = ops.reshape(mask, shape=(*mask.shape, *(1,) * len(rest)))
    return ops.select(chosen, ops.add(x, updates) if accumulate else updates, x)


def _spread(function: str, values: Any, sizes: tuple[int, ...], dtype: Any) -> Any:
    """A number, or an array that broadcasts to a shape, as one of that shape."""
    if is_literal(values):
        return _everywhere(values, sizes, dtype)
    try:
        return ops.broadcast_to(values, shape=sizes)
    except (InferenceError, ValueError):
        shapes = f"{show(values.shape)}, which does not broadcast to {show(sizes)}"
        raise ValueError(f"{function}: values have shape {shapes}, that of the places") from None


@tensor_function
@also_called(dim="axis", input="x", src="source")
def select_scatter(x: Any, source: Any, axis: int, index: int) -> Any:
    """`x` with `source` in the place of its part x[..., index, ...] at an axis.

    >>> tenon.select_scatter(np.zeros((2, 3)), np.array([1.0, 2.0]), 1, -1)
    """
    x = shaped(x)
    axis = normalize_axis(axis, x.ndim, "select_scatter: axis")
    size = x.shape[axis]
    if not -size <= index < size:
        raise IndexError(f"select_scatter: index {index} is out of bounds for axis {axis} of size {size}")
    source = _replacement("select_scatter", x, source, (*x.shape[:axis], *x.shape[axis + 1 :]))
    return index_copy(x, axis, np.array([index % size]), ops.expand_dims(source, axis=axis))


@tensor_function
@also_called(dim1="axis1", dim2="axis2", input="x", src="source")
def diagonal_scatter(x: Any, source: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """`x` with `source` in the place of what `diagonal` gives of it.

    >>> tenon.diagonal_scatter(np.zeros((2, 3)), np.array([1.0, 2.0]), 1)
    """
    x = shaped(x)
    first, second = (
        normalize_axis(axis, x.ndim, f"diagonal_scatter: {n}") for axis, n in ((axis1, "axis1"), (axis2, "axis2"))
    )
    place = tuple(ops.diagonal(x, offset=offset, axis1=first, axis2=second).shape)
    source = _replacement("diagonal_scatter", x, source, place)
    along = np.arange(place[-1])
    leading = ops.movedim(x, (first, second), (0, 1))
    put = index_put(leading, (along + max(-offset, 0), along + max(offset, 0)), ops.movedim(source, -1, 0))
    return ops.movedim(put, (0, 1), (first, second))


def _replacement(function: str, x: Any, source: Any, shape: tuple[int, ...]) -> Any:
    """What takes the place of a part of `x` of that shape."""
    source = shaped(source)
    if tuple(source.shape) != shape:
        raise ValueError(f"{function}: source has shape {show(source.shape)}, and the part of x {show(shape)}")
    return ops.cast(source, dtype=x.dtype)


@tensor_function
@also_called(a="x")
def fill_diagonal(x: Any, val: Any) -> Any:
    """`x` with a number, or elements one after the other, where the indices along all axes are equal.

    >>> tenon.fill_diagonal(np.zeros((2, 3)), 5)
    """
    x = shaped(x)
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal: x has rank {x.ndim} where 2 or more is needed")
    val = val if is_literal(val) else ops.cast(shaped(val), dtype=x.dtype)
    return index_put(x, (np.arange(min(x.shape)),) * x.ndim, val)
