"""Memory of large results, kept when they are gone and used for those that come next.

The system hands out large memory page by page, at the first access to each, which takes longer than to write a page;
and arrays of NumPy's own begin 16 bytes behind a page. Here large results begin at a huge page, and their memory goes
into a bounded pool when the last array that shows it is gone. NumPy lets an array's memory come from, and go to,
functions of our own (NEP 49): such arrays are like all others, and own their memory.

The functions are native code, since arrays may outlive everything in Python. They may be called from any thread: one
that finds the pool in use takes or returns memory of the system.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.support.forking import made_once
from tenon.passes.machine import HUGE_PAGE
from tenon.runtime.cpu.ir_types import I1, I8, I64, PTR, U64, VOID, Struct
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.native_code import ask_for_huge_pages, load_native, lock_of
from tenon.runtime.cpu.python_objects import address_of_function
from tenon.runtime.knobs import knobs

LEAST = 1 << 20
"""Bytes from which on a result's memory comes from here."""
_SLOTS = 64

code = Module()
locked, unlock = lock_of(code)
_SLOT = Struct(memory=PTR, length=U64)
slots = code.variable("slots", _SLOT, count=_SLOTS)
following = code.variable("following", U64)
held = code.variable("tenon_pool_held", U64)
limit = code.variable("tenon_pool_limit", U64)
_aligned_alloc = code.external("aligned_alloc", PTR, U64, U64)
_realloc = code.external("realloc", PTR, PTR, U64)
_free = code.external("free", VOID, PTR)
_fill = code.external("llvm.memset.p0.i64", VOID, PTR, I8, I64, I1)


def _rounded(size: Value) -> Value:
    return (size + (HUGE_PAGE - 1)) & -HUGE_PAGE


@code.function(PTR, context=PTR, size=U64)
def tenon_allocate(context: Value, size: Value) -> Operand:
    length = _rounded(size)
    with code.if_(locked()):
        with code.each(_SLOTS) as i:
            slot = slots[i]
            with code.if_(slot.length == length):
                kept = slot.memory
                slot.put(length=0)
                held.store(held.load() - length)
                unlock()
                code.return_(kept)
        unlock()
    made = _aligned_alloc(HUGE_PAGE, length)
    with code.if_(made.is_not_null):
        ask_for_huge_pages(code, made, length)
    return made


@code.function(PTR, context=PTR, count=U64, size=U64)
def tenon_allocate_zeros(context: Value, count: Value, size: Value) -> Operand:
    made = tenon_allocate(context, count * size)
    with code.if_(made.is_not_null):
        _fill(made, 0, count * size, False)
    return made


@code.function(PTR, context=PTR, memory=PTR, size=U64)
def tenon_reallocate(context: Value, memory: Value, size: Value) -> Operand:
    return _realloc(memory, _rounded(size))


@code.function(VOID, context=PTR, memory=PTR, size=U64)
def tenon_free(context: Value, memory: Value, size: Value) -> None:
    length = _rounded(size)
    is_usable = memory.is_not_null & ((memory.to(U64) & 63) == 0)
    with code.if_(is_usable & (length <= limit.load())), code.if_(locked()):
        keep(memory, length)
        unlock()
        code.return_()
    _free(memory)


@code.function(VOID, memory=PTR, length=U64)
def keep(memory: Value, length: Value) -> None:
    """Put memory into the pool, instead of what has been there longest if need be."""
    with code.loop():
        i = following.load()
        following.store((i + 1) % _SLOTS)
        slot = slots[i]
        with code.if_(slot.length != 0):
            _free(slot.memory)
            held.store(held.load() - slot.length)
            slot.put(length=0)
        total = held.load() + length
        code.break_if(total <= limit.load())
    slot.put(memory=memory, length=length)
    held.store(total)


@code.function()
def tenon_pool_forked() -> None:
    """In a child process: what a thread was changing is given up."""
    with code.if_(~locked()):
        _fill(slots, 0, _SLOT.size * _SLOTS, False)
        held.store(0)
    unlock()


class _Allocator(ctypes.Structure):
    """NumPy's `PyDataMemAllocator`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


class _Pool:
    """The pool in native code, and the capsule that tells NumPy of it."""

    def __init__(self) -> None:
        loaded = load_native("result memory", code.text, code.exports)
        self._limit = ctypes.c_int64.from_address(loaded.entry("tenon_pool_limit"))
        self._held = ctypes.c_int64.from_address(loaded.entry("tenon_pool_held"))
        functions = (tenon_allocate, tenon_allocate_zeros, tenon_reallocate, tenon_free)
        handler = _Handler(b"tenon", 1, _Allocator(None, *[loaded.entry(function.name) for function in functions]))
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._name = ctypes.create_string_buffer(b"mem_handler")
        make_capsule = make(("PyCapsule_New", ctypes.pythonapi))
        self.capsule = make_capsule(ctypes.addressof(handler), ctypes.cast(self._name, ctypes.c_char_p), None)
        set_handler = address_of_function("PyDataMem_SetHandler")
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(set_handler)
        self._limit.value = knobs.result_pool_mb << 20
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(loaded.entry(tenon_pool_forked.name)))
        for immortal in (handler, self._name, self.capsule):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
        """A new array whose memory comes from the pool, or will go there."""
        before = self._set(self.capsule)
        try:
            return np.empty(shape, dtype)
        finally:
            self._set(before)

    @contextmanager
    def limited_to(self, size: int) -> Generator[None]:
        """Hold at most `size` bytes from the next array on that goes, until the block ends."""
        before, self._limit.value = self._limit.value, size
        try:
            yield
        finally:
            self._limit.value = before

    @property
    def held(self) -> int:
        """Bytes that wait to be used."""
        return self._held.value


def empty(shape: Sequence[int], dtype: np.dtype[Any], what: str = "a result") -> np.ndarray[Any, Any]:
    """A new array for a result, or what else errors say it is, not filled."""
    known = pool() if is_large(shape, dtype) else None
    try:
        return np.empty(shape, dtype) if known is None else known.empty(shape, dtype)
    except MemoryError:
        needed = f"{what} of shape {tuple(shape)} and dtype {dtype} takes {prod(shape) * dtype.itemsize} bytes"
        raise MemoryError(f"{needed}, which cannot be allocated") from None


def is_large(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether the memory of a result of this shape comes from the pool, where there is one."""
    return prod(shape) * dtype.itemsize >= LEAST and pool() is not None


@made_once
def pool() -> _Pool | None:
    """The pool of this process; `None` where it does not work, or is not to be."""
    if not knobs.result_pool_mb:
        return None
    try:
        made = _Pool()
        array = made.empty((LEAST,), np.uint8)
        array.fill(0)
        works = array.flags.owndata and array.ctypes.data % 64 == 0
        del array
        return made if works and made.held else None
    except (AttributeError, ImportError, KeyError, OSError, RuntimeError, ValueError):
        return None
