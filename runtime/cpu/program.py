"""The object code of a program in this process, with what kernels call: the pool of threads, and memory for scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.runtime.cpu.compile import Target
from tenon.runtime.cpu.load import ENTRY, LoadedCode, load_objects
from tenon.runtime.cpu.scratch_memory import scratch_functions
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR
from tenon.runtime.cpu.threads import pool_address


def load_program(
    codes: Sequence[bytes],
    target: Target | None = None,
    *,
    exports: Sequence[str] = (ENTRY,),
    scratch: Mapping[str, int] | None = None,
) -> LoadedCode:
    """Link the object codes of a program into this process, as `load_objects` does.

    Its scratch comes from `scratch_memory`, or from the functions that `scratch` has by name.
    """
    symbols: dict[str, int] = {}
    if any(PARALLEL_FOR.encode() in code for code in codes):
        symbols[PARALLEL_FOR] = pool_address()
    if any(b"aligned_alloc" in code for code in codes):
        symbols.update(scratch or scratch_functions())
    return load_objects(codes, target, exports=exports, symbols=symbols)
