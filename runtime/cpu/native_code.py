"""The runtime's own native code: it is written and compiled once for a machine, and kept in the disk cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.runtime.cpu.compile import compile_object, host_target
from tenon.runtime.cpu.load import LoadedCode, load_object
from tenon.runtime.store import cache as disk

LOCK = """
@lock = internal global i32 0
define internal i1 @locked() {
  %pair = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  ret i1 %taken
}
define internal void @unlock() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}
"""
"""The lock of a module: `@locked` takes it unless somebody has it, and says whether it did."""


def load_native(name: str, write: Callable[[str], str], exports: Sequence[str]) -> LoadedCode:
    """Native code in this process, with the names in `exports` to be looked up.

    `write` gives its LLVM IR for a target (`Module.text`). It is called where the disk cache has nothing under `name`:
    the text must follow from the name, the target, the sources and the size of objects in Python. Raises `ValueError`
    for text that LLVM refuses and `RuntimeError` for symbols that are missing.
    """
    target = host_target()
    key = disk.key(name, f"{target.triple} {target.cpu} {target.features} {object.__basicsize__}")
    # it waits in line with the first call of a new installation, and more passes do not make it faster
    return disk.made(
        key,
        lambda: {"object": compile_object(write(target.triple), target, optimization=1)},
        lambda files: load_object(files["object"], target, exports=exports),
    )
