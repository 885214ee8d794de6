"""The memory of launches: scratch memory, and the call of native code with all that it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenon.passes.machine import ALIGNMENT
from tenon.runtime.cpu.addresses import addresses

Array = np.ndarray[Any, Any]


class LaunchMemory:
    """Memory as NumPy has it. `guarded_memory` has one in which errors of native code show."""

    is_checked = False

    def scratch_functions(self) -> Mapping[str, int] | None:
        """The addresses of functions in the place of `aligned_alloc` and `free`, if they are not the usual ones."""
        return None

    def aligned(self, size: int, what: str) -> Array:
        """So many bytes, not filled, at a multiple of `ALIGNMENT`; errors call them `what`."""
        try:
            memory = np.empty(size + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):
            needed = f"the {what} takes {size} bytes at once"
            raise MemoryError(f"{needed}, which cannot be allocated; compiled.memory() says what is in them") from None
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + size]

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
        """Run native code on the addresses of these arrays in this order. It writes to `results` and `arena` alone."""
        pointers, _ = addresses((*inputs, *prepared, *results, *numbers, arena))
        entry(pointers)


PLAIN = LaunchMemory()
