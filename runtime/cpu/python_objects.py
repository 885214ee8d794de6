"""How objects of CPython and arrays of NumPy lie in memory, as far as native code reads them."""

from __future__ import annotations

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
