"""The sorters in this process: each is compiled once for a machine, and serves all programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.dialects.support.forking import made_once
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cpu.sorting.names import SORTED_BITS, sorter_name
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR
from tenon.runtime.cpu.threads import pool_address


def sorters_of(codes: Sequence[bytes]) -> dict[str, int]:
    """The addresses of the sorters that object codes name, by their names; they are loaded when first asked for."""
    names = {bits: sorter_name(bits) for bits in SORTED_BITS}
    wanted = [bits for bits, name in names.items() if any(name.encode() in code for code in codes)]
    return {names[bits]: _loaded(bits).entry(names[bits]) for bits in wanted}


def sorter_sources(text: str) -> dict[str, Callable[[str], str]]:
    """What gives the LLVM IR of the sorters that the LLVM IR `text` names, for a target, by their names."""
    from tenon.runtime.cpu.sorting.keys import key_sorter

    return {sorter_name(bits): key_sorter(bits).text for bits in SORTED_BITS if sorter_name(bits) in text}


@made_once
def _loaded(bits: int) -> LoadedCode:
    def text(triple: str) -> str:
        # Not imported where the disk cache has what it gives.
        from tenon.runtime.cpu.sorting.keys import key_sorter

        return key_sorter(bits).text(triple)

    name = sorter_name(bits)
    return load_native(name, text, (name,), {PARALLEL_FOR: pool_address()})
