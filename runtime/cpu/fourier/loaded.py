"""The transforms in this process: they are compiled once for a machine, and serve all programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tenon.dialects.families.host import NATIVE
from tenon.dialects.support.forking import made_once
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR
from tenon.runtime.cpu.threads import pool_address

_NAME = re.compile(NATIVE.encode() + rb"fourier_(dft[a-z_]*)_f(32|64)")


def transforms_of(codes: Sequence[bytes]) -> dict[str, int]:
    """The addresses of the transforms that object codes name, by their names; they are loaded when first asked for."""
    wanted = {(match[0].decode(), match[1].decode(), int(match[2])) for code in codes for match in _NAME.finditer(code)}
    return {name: _loaded(bits).entry(f"tenon_{function}") for name, function, bits in wanted}


@made_once
def _loaded(bits: int) -> LoadedCode:
    def text(triple: str) -> str:
        # Not imported where the disk cache has what it gives.
        from tenon.runtime.cpu.fourier.rows import Transforms

        return Transforms(bits).text(triple)

    return load_native(f"fourier {bits}", text, ("tenon_dft", "tenon_dft_columns"), {PARALLEL_FOR: pool_address()})
