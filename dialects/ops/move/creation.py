"""Functions that make tensors of known contents: a `constant` inside of a trace, and outside a NumPy array, or a
`tenon.Tensor` where a device or a gradient is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called, check_device
from tenon.dialects.definition.operands import is_computed, shaped, to_value
from tenon.dialects.definition.registry import as_asked, placed, tensor_function
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.support.plain_arrays import host_array
from tenon.dialects.types.shapes import InferenceError, check_addressable, check_count, normalize_axis
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import element_type, is_known, numpy_dtype, tensor_type


@tensor_function
@also_called(fill_value="value", size="shape")
def full(
    shape: Sequence[int] | int,
    value: Any,
    dtype: object = "f32",
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of `shape` and `dtype` whose elements are all `value`, which may be named `fill_value`.

    >>> tenon.full((2, 3), 7, dtype="i32")
    """
    return filled("full", shape, value, dtype, device, requires_grad)


def filled(function: str, shape: Any, value: Any, dtype: object, device: str | None, requires_grad: bool) -> Any:
    """What `function` gives for such arguments."""
    check_device(function, device)
    return as_asked(function, _filled(function, shape, value, dtype), device, requires_grad)


def _filled(function: str, shape: Any, value: Any, dtype: object) -> Any:
    dtype = "f32" if dtype is None else dtype
    if isinstance(shape, Value) or (isinstance(shape, Sequence) and any(isinstance(size, Value) for size in shape)):
        raise TypeError(f"{function}: the shape is a traced value; name what decides it in static= of jit")
    size: tuple[Any, ...] = (shape,) if isinstance(shape, int | np.integer | Size) else tuple(shape)
    if isinstance(dtype, int | np.integer) and not isinstance(dtype, bool):
        raise TypeError(f"{function}: the dtype is {dtype}; sizes go into one tuple, such as {(*size, dtype)}")
    if value is None:
        raise TypeError(f"{function}: the value is None where a number is needed")
    if not all(isinstance(extent, Size) or hasattr(extent, "__index__") for extent in size):
        raise TypeError(f"{function}: the shape is {size} where integers are needed")
    number = None if is_computed(value) else np.asarray(value, numpy_dtype(element_type(dtype)))
    if any(not isinstance(extent, Size) and extent < 0 for extent in size):
        raise InferenceError(f"{function}: the shape is {size}, which has a negative size")
    if all(type(extent) is int for extent in size):
        try:
            check_addressable(tensor_type(size, element_type(dtype)))
        except InferenceError as error:
            raise InferenceError(f"{function}: {error}") from None
    if number is None:
        made = ops.broadcast_to(asarray(value, dtype), shape=size)
        return made if isinstance(made, Value) else made.clone()
    if insertion_point() is None:
        return np.full(size, number)
    if any(isinstance(extent, Size) for extent in size):
        return ops.broadcast_to(ops.constant(value=number), shape=size)
    return ops.constant(value=np.broadcast_to(number, size))


def sizes_and_dtype(function: str, given: tuple[Any, ...], dtype: object) -> tuple[Any, object]:
    """The shape and the dtype that are given by position: `(2, 3)`, `2, 3`, `(2, 3), "f64"`."""
    if not given:
        raise TypeError(f"{function}: the shape is missing")
    if len(given) == 2 and not isinstance(given[1], int | np.integer | Size | Value):
        return given
    return given[0] if len(given) == 1 else given, dtype


@tensor_function
@also_called(size="shape")
def zeros(
    *sizes: Any, shape: Any = None, dtype: object = "f32", device: str | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of zeros, of a shape (sizes or one tuple of them, behind which a dtype may be).

    >>> tenon.zeros((2, 3))
    """
    size, dtype = sizes_and_dtype("zeros", sizes if shape is None else (shape, *sizes), dtype)
    return filled("zeros", size, 0, dtype, device, requires_grad)


@tensor_function
@also_called(size="shape")
def ones(
    *sizes: Any, shape: Any = None, dtype: object = "f32", device: str | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of ones, of a shape (sizes or one tuple of them, behind which a dtype may be).

    >>> tenon.ones((2, 3), dtype="i1")
    """
    size, dtype = sizes_and_dtype("ones", sizes if shape is None else (shape, *sizes), dtype)
    return filled("ones", size, 1, dtype, device, requires_grad)


@tensor_function
@also_called(fill_value="value", input="x")
def full_like(
    x: Any, value: float, *, dtype: object = None, device: str | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of `x`'s shape and dtype, or of another `dtype`, whose elements are all `value`.

    >>> tenon.full_like(np.array([[1, 2], [3, 4]]), 9)
    """
    check_device("full_like", device)
    return as_asked("full_like", _filled_like(x, value, dtype, device), device, requires_grad)


def _filled_like(x: Any, value: float, dtype: object, device: str | None) -> Any:
    if isinstance(x, Value):
        element = x.element_type if dtype is None else element_type(dtype)
        if not is_known(x.type):
            return ops.select(False, ops.cast(x, dtype=element), full((), value, element))
        return full(x.shape, value, element)
    array = x if hasattr(x, "dtype") else np.asarray(x)
    made = full(tuple(array.shape), value, array.dtype if dtype is None else dtype)
    if is_computed(value):
        return made
    made = made if isinstance(made, Value) else placed(made, device, x)
    face = getattr(type(x), "__tenon_new__", None)
    # Where a function of values is traced, tensors are read from around it, and what is made there is none.
    is_value = isinstance(made, Value) and not getattr(x, "_is_traced", False)
    return made if face is None or is_value else face(made)


@tensor_function
@also_called(input="x")
def zeros_like(x: Any, *, dtype: object = None, device: str | None = None, requires_grad: bool = False) -> Any:
    """Zeros of `x`'s shape and dtype, or of another `dtype`.

    >>> tenon.zeros_like(np.array([[1, 2], [3, 4]]))
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@tensor_function
@also_called(input="x")
def ones_like(x: Any, *, dtype: object = None, device: str | None = None, requires_grad: bool = False) -> Any:
    """Ones of `x`'s shape and dtype, or of another `dtype`.

    >>> tenon.ones_like(np.array([1.5, 2.5]))
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@tensor_function
def asarray(x: Any, dtype: object = None, *, device: str | None = None, copy: bool | None = None) -> Any:
    """`x` (traced, an array or nested numbers) as a tensor of `dtype`: by default its own, f32 for Python's floats.

    With `copy` it is one of its own, and without it (False) it is `x`'s memory, or an error; by default, as it comes.

    >>> tenon.asarray([[1, 2], [3, 4]], dtype="f32")
    """
    check_device("asarray", device)
    return as_asked("asarray", _as_array(x, dtype, copy), device, requires_grad=False)


def _as_array(x: Any, dtype: object, copy: bool | None) -> Any:
    element = None if dtype is None else element_type(dtype)
    if isinstance(x, Value):
        return to_value(x, element)
    if hasattr(type(x), "__tenon_op__"):
        if insertion_point() is not None and not getattr(x, "_is_traced", False):
            return to_value(x, element)  # from around a function of values
        return x if element in (None, element_type(x.dtype)) and not copy else ops.cast(x, dtype=element or x.dtype)
    if element is None and not hasattr(x, "dtype"):
        found = np.asarray(x).dtype
        element = element_type("f32" if found == np.float64 else found)
    array = np.array(x, None if element is None else numpy_dtype(element), copy=copy)
    return array if insertion_point() is None else to_value(array)


@tensor_function
def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: object = "f32",
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """A matrix (`n`, `m`) of zeros, square unless `m` is given, with ones on diagonal `k`.

    >>> tenon.eye(2, 3, k=1)
    """
    check_device("eye", device)
    check_count("eye", "n", n)
    if m is not None:
        check_count("eye", "m", m)
    dtype = "f32" if dtype is None else dtype
    if insertion_point() is None:
        return as_asked("eye", np.eye(n, m, k, numpy_dtype(element_type(dtype))), device, requires_grad)
    columns = n if m is None else m
    row, column = ops.iota(shape=(n, 1)), ops.iota(shape=(1, columns), axis=1)
    return as_asked("eye", ops.cast(column - row == k, dtype=dtype), device, requires_grad)


@tensor_function
@also_called(end="stop")
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: object = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """The numbers from `start` to before `stop` in steps of `step`; with one number, from 0 to before it.

    By default i64 if all are integers, else f32.

    >>> tenon.arange(4)
    >>> tenon.arange(1, 2, 0.25)
    """
    check_device("arange", device)
    if step == 0:
        raise ValueError("arange: step is 0")
    given = (0, start, step) if stop is None else (start, stop, step)
    if not np.isfinite([*map(float, given)]).all():
        raise ValueError(f"arange: start, stop and step are {given}, which are not all finite")
    element = dtype or ("i64" if all(isinstance(number, int | np.integer) for number in given) else "f32")
    made = _known(np.arange(*given).astype(numpy_dtype(element_type(element)), copy=False))
    return as_asked("arange", made, device, requires_grad)


@tensor_function
@also_called(end="stop", steps="num")
def linspace(
    start: float,
    stop: float,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: object = "f32",
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, the last one left out unless `endpoint`.

    >>> tenon.linspace(0.0, 1.0, 5)
    >>> tenon.linspace(0.0, 1.0, 5, endpoint=False)
    """
    check_device("linspace", device)
    check_count("linspace", "num", num)
    dtype = "f32" if dtype is None else dtype
    if is_computed(start) or is_computed(stop):
        parts = np.arange(num) / max(num - endpoint, 1)
        made = ops.cast(start * (1 - parts) + stop * parts, dtype=dtype)
    else:
        exact = np.linspace(start, stop, num, endpoint=endpoint)
        made = _known(exact.astype(numpy_dtype(element_type(dtype)), copy=False))
    return as_asked("linspace", made, device, requires_grad)


@tensor_function
@also_called(end="stop", steps="num")
def logspace(
    start: float,
    stop: float,
    num: int = 50,
    base: float = 10.0,
    *,
    endpoint: bool = True,
    dtype: object = "f32",
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """`base` to the power of `num` numbers at equal distances from `start` to `stop`.

    >>> tenon.logspace(0.0, 2.0, 3)
    """
    check_device("logspace", device)
    dtype = "f32" if dtype is None else dtype
    if is_computed(start) or is_computed(stop) or is_computed(base):
        made = ops.power(base, linspace(start, stop, num, endpoint=endpoint, dtype=dtype))
    else:
        check_count("logspace", "num", num)
        exact = np.logspace(start, stop, num, endpoint=endpoint, base=base)
        made = _known(exact.astype(numpy_dtype(element_type(dtype)), copy=False))
    return as_asked("logspace", made, device, requires_grad)


def _known(array: np.ndarray[Any, Any]) -> Any:
    """`array` itself, or in a trace a constant."""
    return array if insertion_point() is None else to_value(array)


@tensor_function
def meshgrid(*xs: Any, indexing: str = "xy") -> Any:
    """Each of the vectors `xs` along an axis of its own, repeated along those of the others.

    As in NumPy, `indexing` xy gives the first vector axis 1 and the second axis 0; with ij axes are in order.

    >>> tenon.meshgrid(np.array([1, 2, 3]), np.array([10, 20]))
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r} where 'xy' or 'ij' is needed")
    vectors = [shaped(x, f"tenon.meshgrid: argument {number}") for number, x in enumerate(xs)]
    if any(x.ndim > 1 for x in vectors):
        raise ValueError(f"meshgrid: shapes are {[x.shape for x in vectors]} where vectors are needed")
    sizes = [x.shape[0] if x.ndim else 1 for x in vectors]
    axes = list(range(len(vectors)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    shape = tuple([sizes[axes.index(axis)] for axis in range(len(sizes))])
    grids: list[Any] = []
    for x, size, axis in zip(vectors, sizes, axes, strict=True):
        alone = tuple([size if i == axis else 1 for i in range(len(sizes))])
        grids.append(ops.broadcast_to(ops.reshape(x, shape=alone), shape=shape))
    return tuple(grids)


@tensor_function
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """The elements of `x` along `axis` for which `condition` (n,) is true; without `axis`, of all in row-major order.

    The condition must be known while tracing, since the size of the result depends on it. Raises `TypeError` for a
    traced one, and `ValueError` for one that is true where `x` has no elements.

    >>> tenon.compress(np.array([True, False, True]), np.array([[1, 2, 3], [4, 5, 6]]), axis=1)
    """
    if isinstance(condition, Value):
        raise TypeError(
            "compress: the condition is traced, so the size of the result is not known; "
            "use tenon.nonzero(condition, size=...) with tenon.gather, or tenon.select"
        )
    chosen = host_array(condition)
    if chosen.ndim != 1:
        raise ValueError(f"compress: the condition has shape {chosen.shape} where one of rank 1 is needed")
    tensor = shaped(x)
    if axis is None:
        tensor, axis = ops.reshape(tensor, shape=(prod(tensor.shape),)), 0
    size, places = tensor.shape[normalize_axis(axis, tensor.ndim)], np.flatnonzero(chosen)
    if places.size and places[-1] >= size:
        raise ValueError(f"compress: condition {places[-1]} is true, and x has {size} elements along axis {axis}")
    return ops.gather(tensor, places, axis=axis)


@tensor_function
def geomspace(
    start: float,
    stop: float,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: object = "f32",
    device: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """`num` numbers from `start` to `stop`, known ones of one sign, each the same multiple of the one before.

    >>> tenon.geomspace(1.0, 1000.0, 4)
    """
    check_device("geomspace", device)
    check_count("geomspace", "num", num)
    dtype = "f32" if dtype is None else dtype
    exact = np.geomspace(start, stop, num, endpoint=endpoint)
    made = _known(exact.astype(numpy_dtype(element_type(dtype)), copy=False))
    return as_asked("geomspace", made, device, requires_grad)
