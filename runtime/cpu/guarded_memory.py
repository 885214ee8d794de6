"""Memory in which errors of native code show, where it makes them: the mode `TENON_CHECK_MEMORY=1`.

All that native code reads or writes lies in buffers of their own: inputs and results as copies, which are made for one
launch, scratch memory, and the panels of kernels. A buffer ends, as far as its alignment allows, at a page that must
not be touched, and begins behind one; the bytes between are known and compared after each launch. Fresh memory holds
NaN of all float formats (-1 as an integer), inputs cannot be written to, and what is freed must not be touched either.

On Linux an access to such pages is noted, the page is made usable, and the program runs on; the launch then raises
`MemoryCheckError`. On other systems it ends the process, and on Linux where a handler of faults was installed later.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.support.forking import made_once
from tenon.passes.machine import ALIGNMENT
from tenon.runtime.cpu.addresses import addresses
from tenon.runtime.cpu.launch_memory import Array, LaunchMemory

_PAGE = mmap.PAGESIZE
_GUARD = 16 * _PAGE
_FRESH, _MARGIN = 0xFF, 0xFB
_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
_FIXED = 0x10
_FREED = 256
"""How many buffers that were freed are remembered."""


class MemoryCheckError(RuntimeError):
    """Native code touched memory that is not its own."""


class _Buffer:
    """Memory between pages that must not be touched."""

    def __init__(self, size: int, alignment: int, what: str) -> None:
        inner = -(-size // alignment) * alignment
        self.what = what
        self.size = size
        usable = -(-inner // _PAGE) * _PAGE
        self.length = usable + 2 * _GUARD
        self.start = _mapped(None, self.length)
        self.first, self.end = self.start + _GUARD, self.start + _GUARD + usable
        self.address = self.end - inner
        _protect(self.first, usable, _WRITE)
        ctypes.memset(self.first, _MARGIN, usable)
        self.fill()
        _buffers[self.start] = self
        weakref.finalize(self, _free, self.start, self.length, self.address, size, what).atexit = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self.size,), "data": (self.address, False)}

    def fill(self) -> None:
        """Make it look like fresh memory."""
        ctypes.memset(self.address, _FRESH, self.size)

    def close(self) -> None:
        """Let nobody write to it any more."""
        _protect(self.first, self.end - self.first, _READ)

    def damage(self) -> str | None:
        """What was written around it, if anything was."""
        behind = self.address + self.size
        before = ctypes.string_at(self.first, self.address - self.first)[::-1]
        after = ctypes.string_at(behind, self.end - behind)
        for where, nearest, margin in (("before its start", 1, before), ("behind its end", 0, after)):
            if rest := margin.lstrip(bytes([_MARGIN])):
                return f"{self.what}: written to {len(margin) - len(rest) + nearest} bytes {where}"
        return None


class _Freed(NamedTuple):
    """Where a buffer was."""

    start: int
    length: int
    address: int
    size: int
    what: str


_buffers: weakref.WeakValueDictionary[int, _Buffer] = weakref.WeakValueDictionary()
_freed: deque[_Freed] = deque()
_found: dict[str, str] = {}
"""What was noted since a launch last told: for each buffer and kind of error, where it was first."""


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


def _mapped(address: int | None, length: int) -> int:
    """Memory that must not be touched, in the place of what is at `address` if that is given."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0 if address is None else _FIXED)
    start = _library().mmap(address, length, _NONE, flags, -1, 0)
    if start in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"the system has no {length} bytes to check memory with (errno {ctypes.get_errno()})")
    return start


def _protect(start: int, length: int, access: int) -> None:
    if length and _library().mprotect(start, length, access):
        raise MemoryError(f"the system cannot protect {length} bytes (errno {ctypes.get_errno()})")


def _free(start: int, length: int, address: int, size: int, what: str) -> None:
    _mapped(start, length)
    _freed.append(_Freed(start, length, address, size, what))
    if len(_freed) > _FREED:
        oldest = _freed.popleft()
        _library().munmap(oldest.start, oldest.length)


def _told(address: int) -> tuple[str, str, bool] | None:
    """What an access to `address` is, where, and whether the page is still needed; `None` where it is not ours."""
    for buffer in list(_buffers.values()):
        if buffer.start <= address < buffer.start + buffer.length:
            if buffer.first <= address < buffer.end:
                return f"{buffer.what}: written to, though it is only read, ", _place(address, buffer), True
            return f"{buffer.what}: ", _place(address, buffer), False
    # a copy, since other threads free meanwhile
    for freed in list(_freed)[::-1]:
        if freed.start <= address < freed.start + freed.length:
            return f"{freed.what}: used after it was freed, ", _place(address, freed), False
    return None


def _place(address: int, buffer: _Buffer | _Freed) -> str:
    offset = address - buffer.address
    if offset < 0:
        return f"touched {-offset} bytes before its start"
    if offset >= buffer.size:
        return f"touched {offset - buffer.size} bytes behind its end"
    return f"touched at byte {offset}"


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_SIGINFO, _NODEFER = 4, 0x40000000
_ADDRESS_OF_FAULT = 16
"""Where `siginfo_t` has the address that was touched, on Linux."""


@cache
def _watch() -> Callable[..., None] | None:
    """Note accesses to pages that must not be touched from now on."""
    if not sys.platform.startswith("linux"):
        return None
    former = _Action()

    def noted(number: int, information: int, _: int | None) -> None:
        address = ctypes.c_size_t.from_address(information + _ADDRESS_OF_FAULT).value
        told = _told(address)
        if told is None:
            # not ours: what was there before is told when the access is tried again
            _library().sigaction(signal.SIGSEGV, ctypes.byref(former), None)
            return
        what, where, is_needed = told
        _found.setdefault(what, where)
        page = address & -_PAGE
        _protect(page, _PAGE, _WRITE)
        if not is_needed:
            ctypes.memset(page, _FRESH, _PAGE)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(noted)
    action = _Action(ctypes.cast(handler, ctypes.c_void_p).value, b"", _SIGINFO | _NODEFER, None)
    _library().sigaction(signal.SIGSEGV, ctypes.byref(action), ctypes.byref(former))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))
    return handler


# --- the scratch of kernels ---------------------------------------------------------------------------------------

_panels: dict[int, _Buffer] = {}


@made_once
def _panel_functions() -> Mapping[str, Any]:
    def allocate(alignment: int, size: int) -> int:
        buffer = _Buffer(size, max(alignment, 1), f"panels of {size} bytes")
        _panels[buffer.address] = buffer
        return buffer.address

    def free(address: int | None) -> None:
        buffer = _panels.pop(address or 0, None)
        if buffer is not None and (damage := buffer.damage()) is not None:
            _found[damage] = ""

    return {
        "aligned_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(allocate),
        "free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free),
    }


# --- launches -----------------------------------------------------------------------------------------------------


class GuardedMemory(LaunchMemory):
    """Memory in which errors of native code show."""

    is_checked = True

    def scratch_functions(self) -> Mapping[str, int]:
        _watch()
        return {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in _panel_functions().items()}

    def aligned(self, size: int, what: str) -> Array:
        _watch()
        return np.asarray(_Buffer(size, ALIGNMENT, what))

    def call(
        self,
        program: str,
        entry: Callable[[Any], None],
        inputs: Sequence[Array],
        prepared: Sequence[Array],
        results: Sequence[Array],
        numbers: Sequence[Array],
        arena: Array,
    ) -> None:
        """As of `LaunchMemory`; raises `MemoryCheckError` naming the program and the buffers."""
        _watch()
        written = {id(array): _copy(array, f"result {i}") for i, array in enumerate(results)}
        # a donated input is what a result is written to
        given = [written.get(id(array)) or _copy(array, f"input {i}") for i, array in enumerate(inputs)]
        held = [_copy(array, f"prepared value {i}") for i, array in enumerate(prepared)]
        sizes = [_copy(array, f"size {i}") for i, array in enumerate(numbers)]
        scratch = _buffer_of(arena) or _copy(arena, "arena")
        scratch.fill()
        donated = {id(array) for array in inputs}
        for array in results:
            if id(array) not in donated:
                written[id(array)].fill()
        for buffer in (*given, *held, *sizes):
            if buffer not in written.values():
                buffer.close()
        buffers = [*given, *held, *[written[id(array)] for array in results], *sizes, scratch]
        pointers, _ = addresses([np.asarray(buffer) for buffer in buffers])
        entry(pointers)
        for array in results:
            _bytes(array)[...] = np.asarray(written[id(array)])
        damages = [damage for buffer in dict.fromkeys(buffers) if (damage := buffer.damage()) is not None]
        noted = [what + _found.pop(what, "") for what in list(_found)]
        if damages or noted:
            raise MemoryCheckError(f"{program}: {'; '.join((*noted, *damages))}")


def _buffer_of(array: Any) -> _Buffer | None:
    """The buffer that an array shows, if it shows one."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, _Buffer) else None


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _copy(array: Array, what: str) -> _Buffer:
    buffer = _Buffer(array.nbytes, array.dtype.itemsize, f"{what}, {array.dtype}{list(array.shape)}")
    np.asarray(buffer)[...] = _bytes(array)
    return buffer


@made_once
def guarded() -> GuardedMemory:
    """The one of this process."""
    return GuardedMemory()
