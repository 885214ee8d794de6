"""The kinds of `memref.atomic_rmw`, which are numbers here: the members of MLIR's AtomicRMWKind, in their order."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation

ATOMIC_KINDS: tuple[type[Operation] | None, ...] = (
    arith.AddfOp,
    arith.AddiOp,
    None,
    arith.MaximumfOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinimumfOp,
    arith.MinSIOp,
    arith.MinUIOp,
    arith.MulfOp,
    arith.MuliOp,
    arith.OrIOp,
    arith.AndIOp,
    arith.MaxnumfOp,
    arith.MinnumfOp,
    arith.XOrIOp,
)
"""By what an element is combined with a value; None assigns."""
