"""Schedules that are worth a measurement beside the one that the cost model chooses: it, with one thing changed.

What changes is the register tile (vectors by jammed rows), the loop that is vectorized, the width of vectors, or the
length of a strip. `tenon tune` walks from the best one so far to the best of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tenon.dialects.size import estimate
from tenon.lowering.kernel_statements import LoopKind, Statement, compute_bits, vector_obstacle
from tenon.lowering.loop_schedule import Schedule, check_schedule

TILES = ((1, 8), (1, 12), (2, 6), (2, 8), (2, 12), (3, 6), (3, 8), (4, 4), (4, 5), (4, 6), (6, 4), (8, 2), (8, 3))
"""Vectors by rows of a tile with a jammed loop; all leave registers for operands where there are 32."""
UNROLLS = (1, 2, 4, 8)


def neighbours(statement: Statement, schedule: Schedule | None, vector_bits: int) -> list[Schedule]:
    """Schedules for a statement that differ from `schedule` in one respect and can be obeyed."""
    found: list[Schedule] = []
    for candidate in _changed(statement, schedule, vector_bits):
        if candidate == schedule or candidate in found:
            continue
        try:
            check_schedule(statement, candidate)
        except ValueError:
            continue
        found.append(candidate)
    return found


def _changed(statement: Statement, schedule: Schedule | None, vector_bits: int) -> Iterator[Schedule]:
    if schedule is not None:
        yield from _other_tiles(statement, schedule)
        if schedule.width > 2:
            yield replace(schedule, width=schedule.width // 2)
    for loop, extent in enumerate(statement.extents):
        width = min(vector_bits // compute_bits(statement), 1 << (max(estimate(extent), 1).bit_length() - 1))
        known = schedule is not None and schedule.vector == loop
        if known or width < 2 or vector_obstacle(statement, loop) is not None:
            continue
        yield Schedule(loop, width)
        for other in statement.loops(LoopKind.PARALLEL):
            if other != loop:
                yield Schedule(loop, width, 2, other, 4)


def _other_tiles(statement: Statement, schedule: Schedule) -> Iterator[Schedule]:
    if schedule.vector is None:
        return
    vectors = -(-estimate(statement.extents[schedule.vector]) // schedule.width)
    if schedule.jam is None:
        yield from [replace(schedule, unroll=unroll) for unroll in UNROLLS if unroll <= vectors]
        return
    rows = estimate(statement.extents[schedule.jam])
    for unroll, count in TILES:
        if unroll <= vectors and count <= rows:
            yield replace(schedule, unroll=unroll, jam_count=count)


def other_strips(strips: Sequence[int] | None) -> list[list[int]]:
    """Strips that are half or twice as long along one loop."""
    if strips is None:
        return []
    found: list[list[int]] = []
    for position, length in enumerate(strips):
        for other in (length // 2, 2 * length):
            if other >= 1:
                found.append([*strips[:position], other, *strips[position + 1 :]])
    return found
