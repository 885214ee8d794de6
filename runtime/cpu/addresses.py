"""Where NumPy arrays lie in memory, for calls that take many of them.

Asking an array costs one to two microseconds. A few lines of native code read the same from NumPy's array structure,
whose layout is part of its stable binary interface, in nanoseconds. They are checked once per process against what
arrays say themselves; where the two disagree (another Python, say), arrays are asked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tenon.runtime.cpu.ir_types import I32, I64, PTR, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.python_objects import ARRAY

C_CONTIGUOUS, OWNS_DATA, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400
USABLE = C_CONTIGUOUS | ALIGNED

code = Module()


@code.function(I32, arrays=pointer(pointer(ARRAY)), count=I64, addresses=pointer(PTR))
def tenon_addresses_of(arrays: Value, count: Value, addresses: Value) -> Operand:
    """Where arrays lie, and the flags that all of them have."""
    flags = code.local(I32, -1)
    with code.each(count) as i:
        array = arrays[i]
        addresses[i] = array.data
        flags.set(flags & array.flags)
    return flags


Addresses = tuple[Any, int]


def addresses(arrays: Sequence[np.ndarray[Any, Any]]) -> Addresses:
    """The addresses of `arrays` as a C array of pointers, and the flags (`C_CONTIGUOUS`, `ALIGNED`) that all of them
    have.

    The C array keeps the arrays: as long as it is there, what it points to is.
    """
    return _reader()(arrays)


def _asked(arrays: Sequence[np.ndarray[Any, Any]]) -> Addresses:
    contiguous = all(array.flags.c_contiguous for array in arrays)
    aligned = all(array.flags.aligned for array in arrays)
    pointers: Any = _pointers(len(arrays))(*[array.ctypes.data for array in arrays])
    pointers.arrays = tuple(arrays)
    return pointers, C_CONTIGUOUS * contiguous | ALIGNED * aligned


@cache
def _reader() -> Callable[[Sequence[np.ndarray[Any, Any]]], Addresses]:
    from tenon.runtime.cpu.native_code import load_native

    loaded = load_native("addresses", code.text, code.exports)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    native = prototype(loaded.entry("tenon_addresses_of"))

    def read(arrays: Sequence[np.ndarray[Any, Any]], *, keep_alive: Any = loaded) -> Addresses:
        count = len(arrays)
        pointers = _pointers(count)()
        pointers.arrays = objects = _objects(count)(*arrays)
        return pointers, native(objects, count, pointers)

    return read if _agree(read) else _asked


@cache
def _objects(count: int) -> Any:
    return ctypes.py_object * count


@cache
def _pointers(count: int) -> Any:
    return ctypes.c_void_p * count


def _agree(read: Callable[[Sequence[np.ndarray[Any, Any]]], Addresses]) -> bool:
    """Whether `read` tells of arrays of every kind what they say themselves."""
    whole = np.arange(12.0).reshape(3, 4)
    odd = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64)
    for arrays in (
        [whole],
        [whole[1:]],
        [whole.T],
        [whole[:, ::2]],
        [np.zeros((), np.int8)],
        [odd],
        [whole, whole.T],
        [],
    ):
        pointers, flags = read(arrays)
        expected, expected_flags = _asked(arrays)
        if list(pointers) != list(expected) or flags & USABLE != expected_flags:
            return False
    return True
