"""Arrays that calls of programs on a GPU are given, as CuPy arrays: what is on a GPU already is not copied."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import ml_dtypes
import numpy as np

from tenon.dialects.definition.registry import install_placement
from tenon.dialects.support.donation import refuse_donated
from tenon.dialects.support.plain_arrays import elements_of, install_view, is_on_gpu, on_host
from tenon.passes.machine import GPU
from tenon.runtime.arguments.arguments import as_array, stored_type
from tenon.runtime.cuda.device import ArgumentError, DeviceBuffer
from tenon.runtime.cuda.device_cuda import architecture, cupy_module
from tenon.runtime.cuda.names import checked_device, kind_of, ordinal_of
from tenon.runtime.knobs import knobs

# Kinds of devices, as DLPack numbers them: memory of a GPU, and memory that it shares with the host.
_ON_GPU = (2, 13)


def taken(leaf: Any) -> Any:
    """A CuPy array that shares the memory of a leaf that is on a GPU, whichever library's; other leaves as they are."""
    if type(leaf) is np.ndarray:
        return leaf
    if is_on_gpu(leaf):
        return leaf if isinstance(leaf, cupy_module().ndarray) else _view(leaf)
    if hasattr(leaf, "__dlpack_device__"):
        kind, number = leaf.__dlpack_device__()
        if int(kind) in _ON_GPU:
            cupy = cupy_module()
            with cupy.cuda.Device(int(number)):
                return cupy.from_dlpack(leaf)
    return leaf


def on_gpu(leaf: Any, where: str) -> Any:
    """An array of any library that is on a GPU, as a CuPy array of a dtype that Tenon stores; raises `TypeError`, which
    begins with `where`, for another dtype."""
    array = taken(leaf)
    refuse_donated(array, where)
    stored_type(array, where)
    return array


def as_data(leaf: Any, where: str) -> Any:
    """A number, or an array or what holds one, as an array of CuPy, where it is on a GPU, or of NumPy; see `on_gpu` and
    `as_array`."""
    held = elements_of(leaf)
    return on_gpu(held, where) if is_on_gpu(held) else as_array(leaf, where)


_VIEWS: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""CuPy's arrays that share the memory of those of other libraries, and keep these, by the identity of these."""


def _view(given: Any) -> Any:
    """CuPy's array of the memory of another library's: the same as before, if there is one and it is that memory."""
    cupy = cupy_module()
    try:
        view = _of_its_dtype(cupy.asarray(given), given)
    except RuntimeError as error:  # PyTorch's, of arrays whose gradient is recorded
        raise TypeError(f"a {type(given).__name__} cannot be read: {error}") from None
    known = _VIEWS.setdefault(id(given), view)
    if known is view or _layout(known) == _layout(view):
        return known
    _VIEWS[id(given)] = view
    return view


def _layout(array: Any) -> tuple[Any, ...]:
    return array.data.ptr, array.dtype, array.shape, array.strides


install_view(taken)


def _of_its_dtype(array: Any, given: Any) -> Any:
    """CuPy's array with the dtype that its library calls it by: the interface of arrays has bytes for bfloat16 and for
    narrower floats."""
    if array.dtype.kind != "V":
        return array
    named = getattr(ml_dtypes, str(getattr(given, "dtype", None)).rpartition(".")[2], None)
    return array if named is None or np.dtype(named).itemsize != array.dtype.itemsize else array.view(named)


def place_of(array: Any) -> str:
    """The device that an array of NumPy or CuPy is on."""
    return f"cuda:{array.device.id}" if is_on_gpu(array) else "cpu"


def place_among(values: Iterable[Any]) -> str | None:
    """The GPU that one of some values is on; `None` if none is on one."""
    return next((place_of(value) for value in values if is_on_gpu(value)), None)


def brought(array: Any, device: str) -> Any:
    """An array of NumPy or CuPy on a device that is named, itself if it is there: NumPy's are on the CPU, CuPy's on a
    GPU."""
    if kind_of(checked_device(device)) == "cpu":
        return on_host(taken(array))
    ordinal = ordinal_of(device)
    architecture(ordinal)  # raises where there is no such GPU
    if is_on_gpu(array) and ordinal in (None, int(array.device.id)):
        return array
    cupy = cupy_module()
    if not is_on_gpu(array):
        with cupy.cuda.Device(ordinal):
            return uploaded(array)
    # Streams of two devices are in no order.
    with array.device:
        cupy.cuda.get_current_stream().synchronize()
    with cupy.cuda.Device(ordinal):
        made = array.copy()
        cupy.cuda.get_current_stream().synchronize()
    return made


def beside(array: Any, like: Any) -> Any:
    """An array of NumPy or CuPy, on the device of another one."""
    return brought(array, place_of(like)) if is_on_gpu(array) or is_on_gpu(like) else array


def stacked_on_gpu(arrays: Sequence[Any]) -> Any:
    """Arrays of one shape, all on one GPU, along a new first axis."""
    with arrays[0].device:
        return cupy_module().stack(arrays)


def placed(array: Any, device: str | None, like: Any) -> Any:
    """An array of the host on a device that is named, or, where none is, on the one that `like` is on."""
    held = elements_of(like)
    if device is None and not is_on_gpu(held):
        return array
    return brought(array, place_of(held) if device is None else device)


install_placement(placed)


def device_of(arrays: Sequence[Any], wanted: int | None) -> int | None:
    """The number of the GPU that a call runs on: the one that is `wanted`, or the one that arrays are on; `None` if all
    are on the host. Raises `ArgumentError` for an array on another one."""
    first = -1
    for position, array in enumerate(arrays):
        if not is_on_gpu(array):
            continue
        number = int(array.device.id)
        if wanted is None:
            wanted, first = number, position
        elif number != wanted:
            other = "this function runs on" if first < 0 else "another argument is on"
            raise ArgumentError(position, f"is on cuda:{number}, and {other} cuda:{wanted}; copy it there before")
    return wanted


def contiguous(array: Any) -> Any:
    """A CuPy array in row-major order without gaps. CuPy's own function makes a rank of 0 one of 1."""
    return array if array.flags.c_contiguous else cupy_module().ascontiguousarray(array)


def uploaded(array: Any) -> Any:
    """An array of the host as one of CuPy on the current device, bit by bit."""
    held = np.asarray(array)
    # CuPy fills an array of rank 0 with the number, and of -0 it makes 0.
    return cupy_module().asarray(held if held.ndim else held.reshape(1)).reshape(held.shape)


def received(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], position: int, name: str) -> DeviceBuffer:
    """An argument as a buffer on the current device; a copy if it is on the host, not row-major, or begins where
    threads could not load vectors. The owner is the CuPy array."""
    found = array if is_on_gpu(array) else uploaded(array)
    if found.shape != shape:
        raise ArgumentError(position, f"has shape {list(found.shape)}, and the program takes {list(shape)}")
    if found.dtype != dtype:
        raise ArgumentError(position, f"is of dtype {found.dtype}, and the program takes {dtype}")
    made = contiguous(found)
    if made.size and made.data.ptr % GPU.access:
        made = made.copy()
    if made is not found and knobs.debug >= 2:
        why = f"has strides {found.strides}" if not found.flags.c_contiguous else "is not aligned"
        print(f"tenon: {name}: array {position}, {dtype}{list(shape)}, {why} and is copied", file=sys.stderr)
    return DeviceBuffer(made.data.ptr, shape, dtype, made)


def check_dtypes(name: str, *groups: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Raise `TypeError` for arguments or results of a dtype of which CuPy has no arrays."""
    cupy = cupy_module()
    for what, group in zip(("argument", "result"), groups, strict=True):
        for position, (_, dtype) in enumerate(group):
            if dtype.isbuiltin == 1:
                continue
            try:
                cupy.ndarray((0,), dtype)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{name}: {what} {position} is of dtype {dtype}, of which CuPy has no arrays; "
                    "cast it inside of the function"
                ) from None


def delivered(buffer: DeviceBuffer) -> Any:
    """A result as a CuPy array that owns the buffer's memory."""
    return cupy_module().ndarray(buffer.shape, buffer.dtype, memptr=buffer.owner)


def check_output(where: str, leaf: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `TypeError` or `ValueError` for what a result cannot be written to."""
    if not isinstance(leaf, cupy_module().ndarray):
        raise TypeError(f"{where} is of type {type(leaf).__name__} where a CuPy array is needed")
    refuse_donated(leaf, where)
    if leaf.dtype != dtype:
        raise TypeError(f"{where} is of dtype {leaf.dtype} where the result is of dtype {dtype}")
    if tuple(leaf.shape) != shape:
        raise ValueError(f"{where} has shape {list(leaf.shape)} where the result has shape {list(shape)}")
    if not leaf.flags.c_contiguous:
        raise ValueError(f"{where} has strides {leaf.strides}, but must be contiguous in row-major order")
    if leaf.size and leaf.data.ptr % GPU.access:
        raise ValueError(f"{where} begins at an address that is no multiple of {GPU.access} bytes")


def span(array: Any) -> tuple[int, int]:
    """The address of an array of a call, and how many bytes from there on it may reach; the host's are others."""
    if not is_on_gpu(array):
        return 0, 0
    low = high = 0
    for extent, stride in zip(array.shape, array.strides, strict=True):
        low, high = (low + stride * (extent - 1), high) if stride < 0 else (low, high + stride * (extent - 1))
    return array.data.ptr + low, (high - low + array.itemsize) if array.size else 0
