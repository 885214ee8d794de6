"""Schedules that are worth a measurement beside the one that the cost model chooses: it, with one thing changed.

What changes is the register tile (vectors by jammed rows), the loop that is vectorized, the width of vectors, what is
copied to panels, the blocks around them, or the length of a strip. `tenon tune` walks from the best one so far to the
best of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tenon.dialects.types.size import estimate
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import vector_obstacle
from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.schedules.packing import may_have_panels
from tenon.lowering.schedules.schedule_attribute import Schedule, check_schedule
from tenon.passes.machine import Machine

TILES = ((1, 8), (1, 12), (2, 6), (2, 8), (2, 12), (3, 6), (3, 8), (4, 4), (4, 5), (4, 6), (6, 4), (8, 2), (8, 3))
"""Vectors by rows of a tile with a jammed loop."""
UNROLLS = (1, 2, 4, 8)
ROW_BLOCKS = (8, 16, 32)
"""Tiles of a block of jammed rows."""
REDUCTION_BLOCKS = (128, 256, 512)
ROWS = (8, 16, 64, 128)
"""Of a block of rows that are streamed."""


def neighbours(statement: Statement, schedule: Schedule | None, machine: Machine) -> list[Schedule]:
    """Schedules for a statement that differ from `schedule` in one respect and can be obeyed."""
    found: list[Schedule] = []
    for candidate in _changed(statement, schedule, machine):
        if candidate == schedule or candidate in found:
            continue
        try:
            check_schedule(statement, candidate)
        except ValueError:
            continue
        found.append(candidate)
    return found


def _changed(statement: Statement, schedule: Schedule | None, machine: Machine) -> Iterator[Schedule]:
    if schedule is not None:
        yield from _other_tiles(statement, schedule, machine)
        yield from _other_blocks(statement, schedule)
        yield from _other_rows(schedule)
        if schedule.width > 2:
            yield replace(schedule, width=schedule.width // 2)
    for loop, extent in enumerate(statement.extents):
        width = min(machine.vector_bits // compute_bits(statement), 1 << (max(estimate(extent), 1).bit_length() - 1))
        known = schedule is not None and schedule.vector == loop
        if known or width < 2 or vector_obstacle(statement, loop) is not None:
            continue
        yield Schedule(loop, width)
        for other in statement.loops(LoopKind.PARALLEL):
            if other != loop:
                yield Schedule(loop, width, 2, other, 4)


def _other_tiles(statement: Statement, schedule: Schedule, machine: Machine) -> Iterator[Schedule]:
    if schedule.vector is None:
        return
    vectors = -(-estimate(statement.extents[schedule.vector]) // schedule.width)
    if schedule.jam is None:
        yield from [replace(schedule, unroll=unroll) for unroll in UNROLLS if unroll <= vectors]
        return
    rows = estimate(statement.extents[schedule.jam])
    for unroll, count in TILES:
        # What is left of the registers holds operands.
        if unroll <= vectors and count <= rows and unroll * count <= machine.registers * 3 // 4:
            block = None if schedule.jam_block is None else max(schedule.jam_block // count, 1) * count
            yield replace(schedule, unroll=unroll, jam_count=count, jam_block=block)


def _other_blocks(statement: Statement, schedule: Schedule) -> Iterator[Schedule]:
    """Other copies and blocks of a contraction."""
    if schedule.vector is None or schedule.jam is None or not may_have_panels(statement):
        return
    for number in (None, *range(len(statement.inputs))):
        yield replace(schedule, pack=number)
        for tiles in ROW_BLOCKS if number is not None else ():
            yield replace(schedule, pack_jam=number, jam_block=tiles * schedule.jam_count)
    yield replace(schedule, pack_jam=None, jam_block=None)
    yield replace(schedule, fetch_jam=None)
    (first, *_) = statement.loops(LoopKind.REDUCTION)
    for length in (None, *REDUCTION_BLOCKS):
        if length is None or length < estimate(statement.extents[first]):
            yield replace(schedule, block=length)


def _other_rows(schedule: Schedule) -> Iterator[Schedule]:
    """Other blocks of rows, and none."""
    if schedule.rows is None:
        return
    yield replace(schedule, rows=None, strip=None, split=None, ahead=None)
    yield replace(schedule, ahead=None)
    yield replace(schedule, split=None)
    if schedule.split is not None:
        yield replace(schedule, split=2 * schedule.split)
        yield replace(schedule, split=max(schedule.split // 2, 1))
    for rows in ROWS:
        yield replace(schedule, rows=rows, ahead=rows)
        yield replace(schedule, rows=rows, ahead=2 * rows)
    if schedule.strip is not None:
        yield replace(schedule, strip=2 * schedule.strip)
        yield replace(schedule, strip=max(schedule.strip // 2, schedule.width * schedule.unroll))


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
