"""Object code of a large module by several threads: its final functions in parts of equal length, and the rest.

How a module is divided depends on its text alone, so that object code is the same at any number of threads. A thread
has an LLVM context and a target machine of its own, as LLVM asks for. llvmlite lets one thread at a time into LLVM;
where code is generated, which takes most of the time, this module calls LLVM without its lock.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

from tenon.runtime.device_cpu import Target, optimized, target_machine
from tenon.runtime.llvm_parts import divide, split

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine

LINES_OF_A_PART = 2000
"""About a tenth of a second of code generation."""


def compile_objects(llvm_ir: str, target: Target, threads: int, lines: int = LINES_OF_A_PART) -> list[bytes]:
    """Object codes of the IR that are to be linked together, made by up to `threads` threads.

    Raises `ValueError` with LLVM's message for text that it refuses.
    """
    rest, final = split(llvm_ir)
    parts = divide(final, lines)
    if rest and len(parts) == 1:
        return [_compiled(llvm_ir, target)]
    return _mapped([text for text in (rest, *parts) if text], target, threads)


def _mapped(texts: Sequence[str], target: Target, threads: int) -> list[bytes]:
    """The object codes of `texts`, by this thread and others. Executors of Python refuse work once the main thread has
    ended, though other threads and exit handlers still run.
    """
    pending = deque(enumerate(texts))
    found: dict[int, bytes | Exception] = {}

    def work() -> None:
        with suppress(IndexError):
            while True:
                number, text = pending.popleft()
                try:
                    found[number] = _compiled(text, target)
                except Exception as error:
                    found[number] = error

    helpers = [Thread(target=work, name="tenon-compile") for _ in range(min(threads, len(texts)) - 1)]
    started: list[Thread] = []
    try:
        # Where no thread can be started, this one does the work.
        with suppress(RuntimeError):
            for helper in helpers:
                helper.start()
                started.append(helper)
        work()
    finally:
        # After Ctrl-C no more is begun.
        pending.clear()
        for helper in started:
            helper.join()
    codes: list[bytes] = []
    for _, code in sorted(found.items()):
        if isinstance(code, Exception):
            raise code
        codes.append(code)
    return codes


def _compiled(text: str, target: Target) -> bytes:
    from llvmlite import binding

    machine = target_machine(target)
    return _emit(machine, optimized(text, target, machine, context=binding.create_context()))


def _emit(machine: TargetMachine, module: ModuleRef) -> bytes:
    """What `machine.emit_object(module)` gives."""
    library = _library()
    message = ctypes.c_char_p()
    buffer = library.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(message))
    if not buffer:
        raise RuntimeError((message.value or b"").decode())
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def _library() -> ctypes.CDLL:
    """llvmlite's library, functions of which are called without its lock."""
    from llvmlite.binding import ffi

    library = ctypes.CDLL(ffi.lib._name)  # pyright: ignore[reportPrivateUsage]
    for name in ("TargetMachineEmitToMemory", "GetBufferStart", "GetBufferSize", "DisposeMemoryBuffer"):
        known = getattr(ffi.lib, f"LLVMPY_{name}")
        function = getattr(library, f"LLVMPY_{name}")
        function.argtypes, function.restype = known.argtypes, known.restype
    return library
