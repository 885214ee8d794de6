"""How the loops of a nest go along the axis of a scan, and which of them can be told apart there."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tenon.lowering.kernels.scans import Scan, scan_of
from tenon.lowering.steps.nest import Bind, Loop, Nest, NestStatement


def scanned_by(statement: NestStatement) -> Scan | None:
    """The scan that a statement is, if it goes along one axis."""
    return scan_of(statement.statement) if len(statement.reduced) == 1 else None


@dataclass(frozen=True)
class ScanLoops:
    """The loops of an axis, from the longest strides to the shortest: those in order, which are not here, then `parts`,
    which are written out, then those that run `across` threads, then what is written out `within` a thread."""

    axis: str
    parts: tuple[Loop, ...]
    warps: Loop | None
    lanes: Loop | None
    within: tuple[Loop, ...]
    lane_stride: int
    """How far apart lanes are that are neighbours along the axis."""

    @property
    def across(self) -> bool:
        """Whether several threads share the axis."""
        return self.warps is not None or self.lanes is not None

    @staticmethod
    def of(nest: Nest, axis: str) -> ScanLoops | str:
        """The loops of an axis, or why there is no code for a scan along them."""
        single = tuple(loop for loop in nest.loops_of([axis]) if loop.extent == 1 and loop.written_out)
        loops = [loop for loop in nest.loops_of([axis]) if loop.extent > 1]
        loops.sort(key=lambda loop: -loop.stride)
        bound = [loop for loop in loops if loop.bind is not None]
        least = bound[-1].stride if bound else 0
        groups = [_group(loop, least) for loop in loops]
        if groups != sorted(groups):
            names = ", ".join(loop.name for loop in loops)
            return f"a scan along axis {axis} has its loops in the order {names}, which is not that of its elements"
        within = tuple(loop for loop, group in zip(loops, groups, strict=True) if group == _WITHIN)
        counts = [groups.count(group) for group in (_WARPS, _LANES)]
        if max(counts) > 1 or (bound and len(within) > 1):
            return f"a scan along axis {axis} has several loops for one kind of threads"
        kinds = dict(zip(groups, loops, strict=True))
        parts = single + tuple(loop for loop, group in zip(loops, groups, strict=True) if group == _PARTS)
        lanes = kinds.get(_LANES)
        inner = nest.bound(Bind.LANE)
        stride = prod(loop.extent for loop in inner[inner.index(lanes) + 1 :]) if lanes is not None else 1
        return ScanLoops(axis, parts, kinds.get(_WARPS), lanes, within, stride)


_IN_ORDER, _PARTS, _WARPS, _LANES, _WITHIN = range(5)


def _group(loop: Loop, least_bound: int) -> int:
    if loop.bind is not None:
        return _LANES if loop.bind is Bind.LANE else _WARPS
    if loop.written_out:
        return _PARTS if loop.stride > least_bound else _WITHIN
    return _IN_ORDER
