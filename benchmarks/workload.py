"""What is measured: a workload is inputs, who computes it, what is right, what it costs at least, and what is aimed at.

WORKLOADS.append(
    Workload(
        "matmul-512", "Products", lambda: (normal(512, 512), normal(512, 512)),
        {"tenon": peers.tenon(tenon.matmul), "numpy": peers.numpy(np.matmul)},
        exact=in_f64(np.matmul), operations=2 * 512**3, target=Target(limit=0.95, best=1.05),
    )
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.peers import Array, Preparation


@dataclass(frozen=True)
class Target:
    """What a row has to reach: a part of the limit, and how many times as long peers take.

    `best` is against the fastest of all peers, `peers` against those that it names.
    """

    limit: float | None = None
    limit_of_several: float | None = None
    """The part of the limit with more than one thread; as with one without it."""
    best: float | None = None
    best_into: float | None = None
    """As `best`, where the caller gives the memory of the result."""
    ulp: float | None = None
    """The largest error, for rows whose errors are in units in the last place."""
    peers: Mapping[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """As the table shows it."""
        parts = [] if self.limit is None else [f"{100 * self.limit:.0f} %"]
        parts += [] if self.limit_of_several is None else [f"{100 * self.limit_of_several:.0f} % with several threads"]
        parts += [] if self.best is None else [f"{self.best:g} × best"]
        parts += [f"{factor:g} × {peer}" for peer, factor in self.peers.items()]
        parts += [] if self.best_into is None else [f"{self.best_into:g} × with out="]
        parts += [] if self.ulp is None else [f"{self.ulp:g} ulp"]
        return ", ".join(parts)


def relative_error(result: Array, exact: Array) -> float:
    """The largest deviation over the largest number that is exact."""
    wide = result.astype(np.float64)
    if wide.shape != exact.shape:
        raise ValueError(f"the result has shape {wide.shape} where {exact.shape} is right")
    if not wide.size:
        return 0.0
    scale = float(np.abs(exact).max()) or 1.0
    return float(np.abs(wide - exact).max()) / scale


def ulp_error(result: Array, exact: Array) -> float:
    """The largest deviation in units in the last place of the result's dtype."""
    spacing = np.spacing(np.abs(exact).astype(result.dtype)).astype(np.float64)
    return float((np.abs(result.astype(np.float64) - exact) / spacing).max())


@dataclass(frozen=True)
class Workload:
    """See the module docstring.

    `operations` are arithmetic ones on operands of `kind`, a multiply-add being two; `reads` and `writes` are bytes,
    by default those of the inputs and of the results. A workload without limit has no fraction of it.
    """

    name: str
    section: str
    inputs: Callable[[], Sequence[Array]]
    contestants: Mapping[str, Preparation]
    exact: Callable[..., Any] | str
    """Of the inputs, in f64; or the name of a peer whose results count as right."""
    tolerance: float = 1e-5
    error: Callable[[Array, Array], float] = relative_error
    operations: float = 0.0
    kind: str = "f32"
    reads: float | None = None
    writes: float | None = None
    has_limit: bool = True
    target: Target = Target()
    threads: int | None = None
    """The only thread count that it is measured at; `None` is every one."""


def generator() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    """Standard normal numbers; two calls with one shape give the same ones."""
    return generator().standard_normal(shape, np.float32).astype(dtype)


def in_f64(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on floating-point inputs that are widened to f64."""

    def wide(*arrays: Array) -> Any:
        given = [a.astype(np.float64) if a.dtype.name in ("float32", "float16", "bfloat16") else a for a in arrays]
        return function(*given)

    return wide
