"""Functions that make tensors of known contents: a `constant` inside of a trace, a NumPy array outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.base import to_value
from tenon.dialects.registry import tensor_function
from tenon.dialects.size import Size
from tenon.dialects.types import element_type, numpy_dtype
from tenon.dialects.value import Value, insertion_point, ops


@tensor_function
def full(shape: Sequence[int] | int, value: float, dtype: object = "f32") -> Any:
    """A tensor of `shape` and `dtype` whose elements are all `value`."""
    size = (shape,) if isinstance(shape, int | Size) else tuple(shape)
    number = np.asarray(value, numpy_dtype(element_type(dtype)))
    if insertion_point() is None:
        return np.full(size, number)
    if any(isinstance(extent, Size) for extent in size):
        return ops.broadcast_to(ops.constant(value=number), shape=size)
    return ops.constant(value=np.broadcast_to(number, size))


@tensor_function
def zeros(shape: Sequence[int] | int, dtype: object = "f32") -> Any:
    """A tensor of zeros."""
    return full(shape, 0, dtype)


@tensor_function
def ones(shape: Sequence[int] | int, dtype: object = "f32") -> Any:
    """A tensor of ones."""
    return full(shape, 1, dtype)


@tensor_function
def full_like(x: Any, value: float) -> Any:
    """A tensor of `x`'s shape and dtype whose elements are all `value`."""
    if isinstance(x, Value):
        return full(x.shape, value, x.element_type)
    array = np.asarray(x)
    return full(array.shape, value, array.dtype)


@tensor_function
def zeros_like(x: Any) -> Any:
    """Zeros of `x`'s shape and dtype."""
    return full_like(x, 0)


@tensor_function
def ones_like(x: Any) -> Any:
    """Ones of `x`'s shape and dtype."""
    return full_like(x, 1)


@tensor_function
def asarray(x: Any, dtype: object = None) -> Any:
    """`x` (traced, an array or nested numbers) as a tensor of `dtype`: by default its own, f32 for Python's floats."""
    element = None if dtype is None else element_type(dtype)
    if isinstance(x, Value):
        return to_value(x, element)
    if element is None and not hasattr(x, "dtype"):
        found = np.asarray(x).dtype
        element = element_type("f32" if found == np.float64 else found)
    array = np.asarray(x, None if element is None else numpy_dtype(element))
    return array if insertion_point() is None else to_value(array)
