"""The functions in this process: they are compiled once for a machine, and serve all programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tenon.dialects.families.host import NATIVE
from tenon.dialects.support.forking import made_once
from tenon.runtime.cpu.ir_types import I1
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.native_code import load_native

_NAME = re.compile(NATIVE.encode() + rb"lapack_([a-z_]+)_f(32|64)")


def lapack_of(codes: Sequence[bytes]) -> dict[str, int]:
    """The addresses of the functions that object codes name, by their names; they are loaded when first asked for."""
    wanted = {(match[0].decode(), match[1].decode(), int(match[2])) for code in codes for match in _NAME.finditer(code)}
    return {name: _address(function, bits) for name, function, bits in wanted}


def _address(function: str, bits: int) -> int:
    code = _loaded(bits)
    return _refusing().entry("tenon_refuse") if code is None else code.entry(f"tenon_{function}")


@made_once
def _loaded(bits: int) -> LoadedCode | None:
    """All functions for floats of so many bits; `None` where there is no LAPACK that programs can call."""
    # Few programs call it, and every program asks.
    from tenon.runtime.cpu.lapack.functions import lapack_functions
    from tenon.runtime.cpu.lapack.library import library

    for integer_bits in (64, 32):
        module = lapack_functions(bits, integer_bits)
        module.text()
        found = library(tuple(dict.fromkeys(module.needed)))
        if found is not None and found.integer_bits == integer_bits:
            symbols = {name: found.address(name) for name in module.needed}
            return load_native(f"lapack {bits} {integer_bits}", module.text, module.exports, symbols)
    return None


@made_once
def _refusing() -> LoadedCode:
    """What refuses all matrices, so that Python computes them."""
    code = Module()

    @code.function(I1)
    def tenon_refuse() -> int:
        return 0

    return load_native("lapack refusing", code.text, code.exports)
