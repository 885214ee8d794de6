"""Classes whose instances lie in memory as those of CuPy's arrays and pointers do, on which native code relies."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tenon.runtime.call.callable_class import _BASETYPE, _HEAPTYPE, _TP_MEMBERS, _Member, _Slot, _Specification
from tenon.runtime.call.devices.layout import DEVICE_ARRAY, DEVICE_MEMORY, VECTOR
from tenon.runtime.cpu.ir_types import Struct

_INT, _OBJECT, _LONG_LONG, _SIZE = 1, 16, 17, 19  # kinds of members
_CPP: Any = ctypes.CDLL("libstdc++.so.6")
_NEW, _DELETE = _CPP["_Znwm"], _CPP["_ZdlPv"]
_NEW.restype, _NEW.argtypes, _DELETE.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
_KEPT: list[Any] = []


def _class(name: str, struct: Struct, kinds: dict[str, tuple[str, int]]) -> Any:
    """A class with members of these names and kinds for fields of a structure."""
    listed = [_Member(n.encode(), kind, struct.offsets[field], 0, None) for field, (n, kind) in kinds.items()]
    members = (_Member * (len(listed) + 1))(*listed, _Member())
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(members)), _Slot())
    text = f"cupy_layout.{name}".encode()
    specification = _Specification(text, struct.size, 0, _HEAPTYPE | _BASETYPE, slots)
    _KEPT.append((members, slots, text, specification))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", ctypes.pythonapi))
    return make(ctypes.addressof(specification))


Pointer = _class(
    "Pointer",
    DEVICE_MEMORY,
    {"address": ("ptr", _LONG_LONG), "ordinal": ("device_id", _INT), "owner": ("mem", _OBJECT)},
)
Array = _class(
    "Array",
    DEVICE_ARRAY,
    {
        "weak": ("__weaklistoffset__", _SIZE),
        "size": ("_size", _LONG_LONG),
        "c_contiguous": ("_c_flag", _INT),
        "f_contiguous": ("_f_flag", _INT),
        "dtype": ("dtype", _OBJECT),
        "data": ("data", _OBJECT),
        "base": ("base", _OBJECT),
    },
)


def numbers(array: Any, name: str) -> tuple[int, ...]:
    """What is in a vector of an array."""
    first, end, _ = _vector(array, name)
    return tuple((ctypes.c_int64 * ((end - first) // 8)).from_address(first)) if first else ()


def set_numbers(array: Any, name: str, given: Sequence[int]) -> None:
    """Put numbers into a vector of an array."""
    vector = _vector(array, name)
    if vector[0]:
        _DELETE(vector[0])
    memory = _NEW(8 * len(given)) if given else 0
    if given:
        (ctypes.c_int64 * len(given)).from_address(memory)[:] = given
    vector[:] = [memory, memory + 8 * len(given), memory + 8 * len(given)]


def _vector(array: Any, name: str) -> Any:
    return (ctypes.c_uint64 * len(VECTOR.fields)).from_address(id(array) + DEVICE_ARRAY.offsets[name])
