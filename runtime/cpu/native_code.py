"""The runtime's own native code: it is written and compiled once for a machine, and kept in the disk cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tenon.runtime.cpu.compile import compile_native, host_target
from tenon.runtime.cpu.ir_types import I1, I32, I64, PTR
from tenon.runtime.cpu.ir_values import Function, Operand, Value
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.load import LoadedCode, load_objects
from tenon.runtime.store import cache as disk

_ADVICE = 14  # MADV_HUGEPAGE


def lock_of(code: Module) -> tuple[Function, Function]:
    """A lock: one function takes it unless somebody has it, and says whether it did; the other gives it back."""
    lock = code.variable("lock", I32)

    @code.function(I1)
    def locked() -> Operand:
        _, is_taken = lock.exchange(0, 1, "acquire monotonic")
        return is_taken

    @code.function()
    def unlock() -> None:
        lock.store(0, "release")

    return locked, unlock


def ask_for_huge_pages(code: Module, memory: Value, length: Value) -> None:
    """Write what lets memory lie in huge pages, where the system can be asked."""
    if "linux" in code.triple:
        code.external("madvise", I32, PTR, I64, I32)(memory, length, _ADVICE)


def load_native(
    name: str,
    write: Callable[[str], str],
    exports: Sequence[str],
    symbols: Mapping[str, int] = MappingProxyType({}),
) -> LoadedCode:
    """Native code in this process, with the names in `exports` to be looked up. It stays until the process ends, since
    programs and other threads may be in it whatever becomes of what is given here.

    `write` gives its LLVM IR for a target (`Module.text`). It is called where the disk cache has nothing under `name`:
    the text must follow from the name, the target, the sources and the size of objects in Python. `symbols` has the
    addresses of what is called and is not in the process. Raises `ValueError` for text that LLVM refuses and
    `RuntimeError` for symbols that are missing.
    """
    target = host_target()

    def loaded(files: Mapping[str, bytes]) -> LoadedCode:
        code = load_objects([files["object"]], target, exports=exports, symbols=symbols)
        # Threads run on beyond the end of the interpreter, when it clears its modules.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
        return code

    key = disk.key(name, f"{target.triple} {target.cpu} {target.features} {object.__basicsize__}")
    return disk.made(key, lambda: {"object": compile_native(write(target.triple), target)}, loaded)
