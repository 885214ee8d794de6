"""Who is inside of LLVM, or imports what compiles: nobody, while a process forks.

llvmlite lets one thread at a time into LLVM; what takes long, others do without its lock. A child of `os.fork` has one
thread: what the others held would stay held in it, llvmlite's lock or one within LLVM, and as soon as something of
theirs is freed it would wait for ever. So `os.fork` waits until all are out, and lets nobody in meanwhile. So
it is with modules that others import, most of them while they compile for the first time.
"""

from __future__ import annotations

import _imp  # what `import` itself locks; there is no other name for it
import ctypes
import importlib
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite.binding import ModulePassManager, ModuleRef, PassBuilder, TargetMachine

LINKING = threading.RLock()
"""Held by the thread that links programs."""

_gate = threading.Condition()
_inside: list[int] = []
_forking = 0
_held: list[Any] = []


@contextmanager
def beside_others() -> Generator[None]:
    """Run LLVM without llvmlite's lock, on what no other thread has. The block must not need that lock."""
    thread = threading.get_ident()
    with _gate:
        while _forking:
            _gate.wait()
        _inside.append(thread)
    try:
        yield
    finally:
        with _gate:
            _inside.remove(thread)
            _gate.notify_all()


def run_passes(manager: ModulePassManager, module: ModuleRef, builder: PassBuilder) -> None:
    """What `manager.run(module, builder)` does, beside others; the context of the module is this thread's alone."""
    with beside_others():
        _library().LLVMPY_RunNewModulePassManager(manager, module, builder)


def emitted(machine: TargetMachine, module: ModuleRef) -> bytes:
    """What `machine.emit_object(module)` gives, beside others; machine and context are this thread's alone."""
    library = _library()
    message = ctypes.c_char_p()
    with beside_others():
        buffer = library.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(message))
        if not buffer:
            raise RuntimeError((message.value or b"").decode())
        try:
            return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
        finally:
            library.LLVMPY_DisposeMemoryBuffer(buffer)


_UNLOCKED = (
    "RunNewModulePassManager",
    "TargetMachineEmitToMemory",
    "GetBufferStart",
    "GetBufferSize",
    "DisposeMemoryBuffer",
)


@cache
def _library() -> ctypes.CDLL:
    """llvmlite's library, functions of which are called without its lock."""
    from llvmlite.binding import ffi

    library = ctypes.CDLL(ffi.lib._name)  # pyright: ignore[reportPrivateUsage]
    for name in _UNLOCKED:
        known = getattr(ffi.lib, f"LLVMPY_{name}")
        function = getattr(library, f"LLVMPY_{name}")
        function.argtypes, function.restype = known.argtypes, known.restype
    return library


_IMPORTED = {*("tenon", "xdsl", "llvmlite", "numpy", "ml_dtypes"), *sys.stdlib_module_names}
"""Packages that Tenon imports. Those of users are not waited for: their import may be all that a program does."""


_PATIENCE = 10
"""How often a thread that has a lock of a module, and does not hold it, may go on and acquire it."""


def _importing() -> set[int | None]:
    """Threads that import what Tenon needs, but for this one; `None` stands for those that are about to."""
    references = importlib._bootstrap._module_locks  # pyright: ignore[reportAttributeAccessIssue]
    locks = [reference() for name, reference in list(references.items()) if name.partition(".")[0] in _IMPORTED]
    return {lock.owner for lock in locks if lock is not None} - {threading.get_ident()}


def _before() -> None:
    global _forking
    tries = 0
    _imp.acquire_lock()
    while (threads := _importing()) and (threads != {None} or tries < _PATIENCE):
        _imp.release_lock()
        time.sleep(0.001)
        tries += 1
        _imp.acquire_lock()
    _gate.acquire()
    _forking += 1
    while any(thread != threading.get_ident() for thread in _inside):
        _gate.wait()
    LINKING.acquire()
    if (ffi := sys.modules.get("llvmlite.binding.ffi")) is not None:
        lock = ffi.lib._lock
        lock.__enter__()
        _held.append(lock)


def _after_in_parent() -> None:
    global _forking
    while _held:
        _held.pop().__exit__(None, None, None)
    LINKING.release()
    _forking -= 1
    _gate.notify_all()
    _gate.release()
    _imp.release_lock()


def _after_in_child() -> None:
    global _forking, _gate
    _after_in_parent()
    # others may have been about to fork, or waited
    _forking = 0
    _gate = threading.Condition()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
