"""Python and NumPy as native code sees them: how objects and arrays lie in memory, and where functions lie."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

from tenon.runtime.cpu.ir_types import I8, I32, I64, PTR, Struct, pointer

# How often the object is referred to, in one word or more, by the version of Python.
_REFERENCES = Struct(**{f"word_{number}": I64 for number in range(object.__basicsize__ // 8 - 1)})

CLASS = Struct(
    references=_REFERENCES,
    type=PTR,
    size=I64,
    title=PTR,
    basic_size=I64,
    item_size=I64,
    deallocate=PTR,
    place_of_call=I64,
)
"""`PyTypeObject` up to `tp_vectorcall_offset`: where instances have their vector call."""

OBJECT = Struct(references=_REFERENCES, type=pointer(CLASS))
"""`PyObject`."""


def slotted(*names: str) -> Struct:
    """Instances of a class with these `__slots__` (in order of the alphabet, as Python places them) and no others."""
    return Struct(references=_REFERENCES, type=pointer(CLASS), **dict.fromkeys(names, pointer(OBJECT)))


ARRAY = Struct(
    references=_REFERENCES,
    type=pointer(CLASS),
    data=pointer(I8),
    rank=I32,
    shape=pointer(I64),
    strides=pointer(I64),
    base=PTR,
    dtype=pointer(OBJECT),
    flags=I32,
)
"""`PyArrayObject`, whose layout is part of NumPy's stable binary interface."""

SCALAR = Struct(references=_REFERENCES, type=pointer(CLASS), number=I8)
"""One of NumPy's numbers (`PyInt32ScalarObject` and its like): its bytes follow the head of the object."""

_PLACES_IN_NUMPY = {
    "PyArray_CopyInto": 50,
    "PyArray_NewFromDescr": 94,
    "PyArray_Empty": 184,
    "PyDataMem_SetHandler": 304,
}
"""Places in NumPy's table of functions, whose order is part of its stable binary interface."""


def address_of_function(name: str) -> int:
    """Where a function of Python's or NumPy's C interface lies."""
    if name in _PLACES_IN_NUMPY:
        return _numpy_functions()[_PLACES_IN_NUMPY[name]]
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def _numpy_functions() -> Any:
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    return ctypes.cast(read(capsule, None), ctypes.POINTER(ctypes.c_size_t))
