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
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from tenon.passes.machine import HUGE_PAGE
from tenon.runtime.cpu.native_code import LOCK, load_native
from tenon.runtime.knobs import knobs

LEAST = 1 << 20
"""Bytes from which on a result's memory comes from here."""
_SLOTS = 64
_ADVICE = 14  # MADV_HUGEPAGE
_EXPORTS = (
    *("tenon_allocate", "tenon_allocate_zeros", "tenon_reallocate", "tenon_free"),
    *("tenon_pool_limit", "tenon_pool_held", "tenon_pool_forked"),
)

_SOURCE = f"""
%slot = type {{ ptr, i64 }}
@slots = internal global [{_SLOTS} x %slot] zeroinitializer
@next = internal global i64 0
@tenon_pool_held = global i64 0
@tenon_pool_limit = global i64 0
declare ptr @aligned_alloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
{"declare i32 @madvise(ptr, i64, i32)" if sys.platform == "linux" else ""}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @rounded(i64 %size) {{
  %more = add i64 %size, {HUGE_PAGE - 1}
  %result = and i64 %more, -{HUGE_PAGE}
  ret i64 %result
}}
{LOCK}
define ptr @tenon_allocate(ptr %context, i64 %size) {{
entry:
  %rounded = call i64 @rounded(i64 %size)
  %taken = call i1 @locked()
  br i1 %taken, label %search, label %new
search:
  %i = phi i64 [ 0, %entry ], [ %following, %other ]
  %slot = getelementptr %slot, ptr @slots, i64 %i
  %length.place = getelementptr %slot, ptr %slot, i64 0, i32 1
  %length = load i64, ptr %length.place
  %fits = icmp eq i64 %length, %rounded
  br i1 %fits, label %found, label %other
other:
  %following = add i64 %i, 1
  %is.end = icmp eq i64 %following, {_SLOTS}
  br i1 %is.end, label %none, label %search
found:
  %kept = load ptr, ptr %slot
  store i64 0, ptr %length.place
  %held = load i64, ptr @tenon_pool_held
  %left = sub i64 %held, %rounded
  store i64 %left, ptr @tenon_pool_held
  call void @unlock()
  ret ptr %kept
none:
  call void @unlock()
  br label %new
new:
  %made = call ptr @aligned_alloc(i64 {HUGE_PAGE}, i64 %rounded)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %advise
advise:
  {f"%ignored = call i32 @madvise(ptr %made, i64 %rounded, i32 {_ADVICE})" if sys.platform == "linux" else ""}
  br label %done
done:
  ret ptr %made
}}

define ptr @tenon_allocate_zeros(ptr %context, i64 %count, i64 %size) {{
entry:
  %bytes = mul i64 %count, %size
  %made = call ptr @tenon_allocate(ptr %context, i64 %bytes)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %made, i8 0, i64 %bytes, i1 false)
  br label %done
done:
  ret ptr %made
}}

define ptr @tenon_reallocate(ptr %context, ptr %old, i64 %size) {{
  %rounded = call i64 @rounded(i64 %size)
  %made = call ptr @realloc(ptr %old, i64 %rounded)
  ret ptr %made
}}

; Into the pool, instead of what has been there longest if need be.
define void @tenon_free(ptr %context, ptr %memory, i64 %size) {{
entry:
  %rounded = call i64 @rounded(i64 %size)
  %limit = load i64, ptr @tenon_pool_limit
  %is.small = icmp ule i64 %rounded, %limit
  %number = ptrtoint ptr %memory to i64
  %odd = and i64 %number, 63
  %is.aligned = icmp eq i64 %odd, 0
  %is.there = icmp ne ptr %memory, null
  %is.usable = and i1 %is.aligned, %is.there
  %is.kept = and i1 %is.small, %is.usable
  br i1 %is.kept, label %try, label %return
try:
  %taken = call i1 @locked()
  br i1 %taken, label %room, label %return
return:
  call void @free(ptr %memory)
  ret void
room:
  %i = load i64, ptr @next
  %next.i = add i64 %i, 1
  %wrapped = urem i64 %next.i, {_SLOTS}
  store i64 %wrapped, ptr @next
  %slot = getelementptr %slot, ptr @slots, i64 %i
  %length.place = getelementptr %slot, ptr %slot, i64 0, i32 1
  %length = load i64, ptr %length.place
  %is.empty = icmp eq i64 %length, 0
  br i1 %is.empty, label %enough, label %evict
evict:
  %oldest = load ptr, ptr %slot
  call void @free(ptr %oldest)
  store i64 0, ptr %length.place
  %held.before = load i64, ptr @tenon_pool_held
  %held.after = sub i64 %held.before, %length
  store i64 %held.after, ptr @tenon_pool_held
  br label %enough
enough:
  %held = load i64, ptr @tenon_pool_held
  %sum = add i64 %held, %rounded
  %fits = icmp ule i64 %sum, %limit
  br i1 %fits, label %put, label %room
put:
  store ptr %memory, ptr %slot
  store i64 %rounded, ptr %length.place
  store i64 %sum, ptr @tenon_pool_held
  call void @unlock()
  ret void
}}

; In a child process: what a thread was changing is given up.
define void @tenon_pool_forked() {{
entry:
  %taken = call i1 @locked()
  br i1 %taken, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr @slots, i8 0, i64 {16 * _SLOTS}, i1 false)
  store i64 0, ptr @tenon_pool_held
  br label %done
done:
  call void @unlock()
  ret void
}}
"""


class _Allocator(ctypes.Structure):
    """NumPy's `PyDataMemAllocator`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


class _Pool:
    """The pool in native code, and the capsule that tells NumPy of it."""

    def __init__(self) -> None:
        code = load_native("result memory", lambda _: _SOURCE, _EXPORTS)
        addresses = [code.entry(name) for name in _EXPORTS]
        self._limit = ctypes.c_int64.from_address(addresses[4])
        self._held = ctypes.c_int64.from_address(addresses[5])
        handler = _Handler(b"tenon", 1, _Allocator(None, *addresses[:4]))
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._name = ctypes.create_string_buffer(b"mem_handler")
        make_capsule = make(("PyCapsule_New", ctypes.pythonapi))
        self.capsule = make_capsule(ctypes.addressof(handler), ctypes.cast(self._name, ctypes.c_char_p), None)
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_functions()[304])
        self._limit.value = knobs.result_pool_mb << 20
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(addresses[6]))
        for immortal in (code, handler, self._name, self.capsule):
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


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A new array for a result, not filled."""
    known = pool() if is_large(shape, dtype) else None
    try:
        return np.empty(shape, dtype) if known is None else known.empty(shape, dtype)
    except MemoryError:
        needed = f"a result of shape {tuple(shape)} and dtype {dtype} takes {prod(shape) * dtype.itemsize} bytes"
        raise MemoryError(f"{needed}, which cannot be allocated") from None


def is_large(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether the memory of a result of this shape comes from the pool, where there is one."""
    return prod(shape) * dtype.itemsize >= LEAST and pool() is not None


@cache
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


def numpy_functions() -> Any:
    """NumPy's table of functions for native code, whose order is part of its stable interface."""
    core = import_module("numpy._core._multiarray_umath")
    read: Callable[..., Any] = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(read(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_size_t))
