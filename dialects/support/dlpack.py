"""Arrays of other libraries, read where they are through DLPack (https://dmlc.github.io/dlpack/latest/).

NumPy reads every dtype of its own; those of ml_dtypes are read here from the tensor's description.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

_CPU = 1
# `DLDataTypeCode` and bits of an element.
_DTYPES: dict[tuple[int, int], Any] = {
    (4, 16): ml_dtypes.bfloat16,
    (10, 8): ml_dtypes.float8_e4m3fn,
    (11, 8): ml_dtypes.float8_e4m3fnuz,
    (12, 8): ml_dtypes.float8_e5m2,
    (13, 8): ml_dtypes.float8_e5m2fnuz,
    (14, 8): ml_dtypes.float8_e8m0fnu,
}


class _Tensor(ctypes.Structure):
    """`DLTensor`, with which the unversioned `DLManagedTensor` begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Memory:
    """Memory that a capsule keeps alive, in NumPy's array interface."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def from_dlpack(array: Any) -> np.ndarray[Any, Any]:
    """`array` as a NumPy array of the same memory. Raises `TypeError` for one that is not in the memory of the CPU, or
    cannot be handed over (a tensor of a library that records gradients, say)."""
    try:
        device, _ = array.__dlpack_device__()
    except (RuntimeError, ValueError) as error:
        raise TypeError(f"a {type(array).__name__} cannot be read: {error}") from None
    if int(device) != _CPU:
        raise TypeError(
            f"a {type(array).__name__} on another device than the CPU cannot be read here: copy it to the host, or "
            "have a function take it by jit(device='cuda')"
        )
    # torch keeps the sign of some tensors (the imaginary part of a conjugate) beside their memory, and does not tell.
    if getattr(type(array), "is_neg", None) is not None and array.is_neg():
        raise TypeError(f"a {type(array).__name__} with the negative bit cannot be read; pass x.resolve_neg()")
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as error:
        read = _of_ml_dtypes(array)
        if read is None:
            raise TypeError(f"a {type(array).__name__} cannot be read: {error}") from None
        return read


def _of_ml_dtypes(array: Any) -> np.ndarray[Any, Any] | None:
    try:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError, TypeError):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        return None
    size = tensor.bits // 8
    interface = {
        "version": 3,
        "typestr": f"<u{size}",
        "shape": tuple(tensor.shape[: tensor.ndim]),
        "strides": tuple([size * step for step in tensor.strides[: tensor.ndim]]) if tensor.strides else None,
        "data": ((tensor.data or 0) + tensor.byte_offset, False),
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype)
