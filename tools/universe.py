"""The entry point through which stock `xdsl-opt` finds Tenon's dialects and passes.

Passes that xDSL has under the same name (`canonicalize`, `cse`, `dce`) are left out: a clash makes `xdsl-opt` fail.
"""

from __future__ import annotations

from xdsl.universe import Universe

from tenon.dialects.universe import debug_dialect, tenon_dialect, tiles_dialect
from tenon.lowering.pipeline import PASSES as LOWERING_PASSES
from tenon.passes.pipeline import PASSES as TENSOR_PASSES

_IN_XDSL = ("canonicalize", "cse", "dce")

TENON_UNIVERSE = Universe(
    all_dialects={
        "debug": debug_dialect,
        "tenon": tenon_dialect,
        "tiles": tiles_dialect,
    },
    all_passes={name: load for name, load in {**TENSOR_PASSES, **LOWERING_PASSES}.items() if name not in _IN_XDSL},
)
