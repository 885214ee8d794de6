"""Object code to code in this process, its entry to a function that is called."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from tenon.runtime.cpu.compile import Target, host_target, new_machine
from tenon.runtime.cpu.llvm_lock import LINKING

if TYPE_CHECKING:
    from llvmlite.binding import LLJIT, ResourceTracker

# The entry that `emit_llvm` defines; not imported from there, because code from the cache needs no emitter.
ENTRY = "main"

_code_numbers = itertools.count()

_PROGRAMS_OF_A_LINKER = 64
"""To make a linker takes as long as to link four programs."""


class LoadedCode:
    """Object code in this process; it is unloaded when this object goes."""

    def __init__(self, linker: LLJIT, tracker: ResourceTracker) -> None:
        self._tracker = tracker
        self._linker = linker

    def entry(self, name: str = ENTRY) -> int:
        """The address of an external function; raises `KeyError` for a name that the code does not export."""
        return self._tracker[name]


class _Linkers:
    """LLVM's linkers for a target, one after the other. Each keeps some 9 KB of every program that it linked until it
    goes itself, which is when it has linked its share and all of these programs are unloaded."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._newest: LLJIT | None = None
        self._linked = 0

    def next(self) -> LLJIT:
        """The linker for one more program; one thread at a time may ask."""
        from llvmlite import binding

        if self._newest is None or self._linked == _PROGRAMS_OF_A_LINKER:
            self._newest = binding.create_lljit_compiler(new_machine(self._target, 2), use_jit_link=True)
            self._linked = 0
        self._linked += 1
        return self._newest


@cache
def _linkers(target: Target) -> _Linkers:
    from llvmlite import binding

    if not hasattr(ctypes.CDLL(None), "expf"):
        from ctypes.util import find_library

        if library := find_library("m"):
            binding.load_library_permanently(library)
    return _Linkers(target)


def load_objects(
    codes: Sequence[bytes],
    target: Target | None = None,
    *,
    exports: Sequence[str] = (ENTRY,),
    symbols: Mapping[str, int] = MappingProxyType({}),
) -> LoadedCode:
    """Link object codes, which may use each other, into this process, with the names in `exports` to be looked up.

    Symbols that the code does not define are taken from the process, but for those that `symbols` has the addresses of.
    Raises `RuntimeError` with LLVM's message if a symbol is missing or the code is damaged.
    """
    from llvmlite import binding

    linkers = _linkers(target or host_target())
    builder = binding.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder.add_object_img(code)
    for name in exports:
        builder.export_symbol(name)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    with LINKING:
        linker = linkers.next()
        try:
            tracker = builder.link(linker, f"tenon.{next(_code_numbers)}")
        except RuntimeError as error:
            # LLVM itself writes the names of missing symbols to stderr
            raise RuntimeError(f"tenon: object code cannot be linked: {error}") from None
    return LoadedCode(linker, tracker)


_entry_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def entry_point(address: int) -> Callable[[ctypes.Array[ctypes.c_void_p]], None]:
    """The entry at `address` as a function of a C array of buffer addresses, in order of the arguments of `main`.

    The GIL is released meanwhile. The code and the buffers must stay alive; nothing about them is checked.
    """
    return _entry_type(address)
