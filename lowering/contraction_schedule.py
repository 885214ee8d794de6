"""The blocks and panels of a contraction: which operands of a sum of products are worth a copy.

The loops of a contraction are its columns (lanes; they index one operand, which is contiguous along them or is copied
so), its rows (jammed; they index the other), its reductions, and batches, which index both. A copy of an operand costs
what a few rows of products do, so it pays

- for the columns where they are not contiguous (A times B transposed): vectors of them can be had in no other way. It
  takes `LEAST_ROWS` rows to beat lanes along the reduction;
- for the columns where the operand outgrows `CACHE_BYTES` and `MANY_ROWS` rows share it: its rows lie on pages of their
  own, and where a power of two separates them they compete for the same lines of the cache;
- for the rows where the reduction does not run along memory (A transposed times B) and the operand outgrows
  `CACHE_BYTES`: each step would touch another page for a few elements. A block has as many rows as three eighths of the
  cache hold, since all columns are read once per block; columns that outgrow `FAR_BYTES` are copied too, and the
  reduction is cut so that `MANY_COPIED_ROWS` rows fit.

A panel of columns that outgrows half the cache is cut along the reduction.

With few rows a copy does not pay, and an operand that outgrows the cache is streamed. Down its rows a tile would touch
a page for a few lines at each step, so the reduction is cut, and the tiles of all columns run inside of a block: as
many rows at a time as the hardware prefetches streams for, if there are too few products to hide that memory is
read, else as many as keep partial sums from being stored too often.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tenon.dialects.size import Size
from tenon.lowering.combiners import combining_op
from tenon.lowering.kernel_statements import Access, LoopKind, Statement, Stride, element_type, vector_obstacle
from tenon.lowering.loop_schedule import Schedule

CACHE_BYTES = 1 << 20
"""What a core has to itself: the second level."""
FAR_BYTES = 4 * CACHE_BYTES
"""What is not read again and again without cost: a part of the last level."""
LEAST_ROWS = 8
MANY_ROWS = 128
MANY_COPIED_ROWS = 384
STREAMED_ROWS = 4
"""Rows up to which memory is the limit."""
FEW_ROWS = 16
"""Rows up to which partial sums stay near when the reduction is cut."""
STREAMS = 8
"""Rows of the other operand that are read side by side."""
STREAMED_BYTES = CACHE_BYTES
"""Of a block of the reduction, where products are the limit."""
LEAST_COLUMN_TILES = 4
"""Tiles along the columns that a copy of rows has to serve."""


def column_operands(statement: Statement, loop: int) -> list[int]:
    """The input to pack so that `loop` can be the lanes of a contraction; none where it need not or cannot be."""
    if statement.kinds[loop] is not LoopKind.PARALLEL or not may_have_panels(statement):
        return []
    strided = [n for n, access in enumerate(statement.inputs) if access.stride(loop) is Stride.OTHER]
    if len(strided) != 1 or vector_obstacle(statement, loop, packed=strided) is not None:
        return []
    return strided if _sharing_rows(statement, statement.inputs[strided[0]], loop) >= LEAST_ROWS else []


def may_have_panels(statement: Statement) -> bool:
    """Whether a statement sums into one output over loops of known extents, without windows in the output."""
    return (
        len(statement.outputs) == 1
        and LoopKind.REDUCTION in statement.kinds
        and LoopKind.SEQUENTIAL not in statement.kinds
        and not any(isinstance(extent, Size) for extent in statement.extents)
        and combining_op(statement.body, statement.accumulators[0]) is not None
    )


def with_panels(statement: Statement, schedule: Schedule) -> Schedule:
    """`schedule`, a register tile of lanes along a parallel loop, with the copies that pay."""
    vector, jam = schedule.vector, schedule.jam
    if vector is None or statement.kinds[vector] is LoopKind.REDUCTION or not may_have_panels(statement):
        return schedule
    streamed = _streamed(statement, schedule, vector)
    if jam is None or streamed is not None:
        return streamed or schedule
    columns = _only_operand(statement, vector, jam)
    rows = _only_operand(statement, jam, vector)
    tile = schedule.width * schedule.unroll
    if rows is not None and statement.extents[vector] >= LEAST_COLUMN_TILES * tile:
        access = statement.inputs[rows]
        along = any(access.stride(loop) is Stride.UNIT for loop in statement.loops(LoopKind.REDUCTION))
        if not along and _bytes(statement, access) > CACHE_BYTES:
            return _with_packed_rows(statement, schedule, jam, rows, columns)
    if schedule.pack is None and columns is not None:
        access = statement.inputs[columns]
        if _bytes(statement, access) > CACHE_BYTES and _sharing_rows(statement, access, vector) >= MANY_ROWS:
            schedule = replace(schedule, pack=columns)
    return with_cut_panel(statement, schedule)


def _streamed(statement: Statement, schedule: Schedule, vector: int) -> Schedule | None:
    """Blocks of the reduction for the operand of few rows, or None where it is not streamed."""
    columns = [access for access in statement.inputs if access.stride(vector) is not Stride.INVARIANT]
    reductions = statement.loops(LoopKind.REDUCTION)
    if schedule.jam is None or schedule.pack is not None or len(columns) != 1 or len(reductions) != 1:
        return None
    rows = _sharing_rows(statement, columns[0], vector)
    pitch = statement.extents[vector] * _element_bytes(columns[0])
    if rows > FEW_ROWS or _bytes(statement, columns[0]) <= CACHE_BYTES:
        return None
    if rows > STREAMED_ROWS:
        return replace(schedule, block=max(STREAMED_BYTES // pitch, STREAMS))
    return replace(schedule, block=STREAMS)


def with_cut_panel(statement: Statement, schedule: Schedule) -> Schedule:
    """`schedule` with blocks of the reduction, if a panel of columns would be too large without."""
    if schedule.pack is None or schedule.vector is None:
        return schedule
    panel = _panel_bytes(statement, schedule.pack, schedule.vector, schedule.width * schedule.unroll)
    return _cut_reduction(statement, schedule, panel, CACHE_BYTES // 2)


def _with_packed_rows(statement: Statement, schedule: Schedule, jam: int, rows: int, columns: int | None) -> Schedule:
    """Blocks of as many rows as fit."""
    count = schedule.jam_count
    schedule = replace(schedule, pack_jam=rows)
    if columns is not None and _bytes(statement, statement.inputs[columns]) > FAR_BYTES:
        block = MANY_COPIED_ROWS // count * count
        panel = _panel_bytes(statement, rows, jam, block)
        schedule = replace(schedule, pack=columns, jam_block=block)
        return _cut_reduction(statement, schedule, panel, CACHE_BYTES * 3 // 4)
    size = _panel_bytes(statement, rows, jam, count)
    tiles = max(CACHE_BYTES * 3 // 8 // max(size, 1), 1)
    return replace(schedule, jam_block=min(tiles, -(-statement.extents[jam] // count)) * count)


def _cut_reduction(statement: Statement, schedule: Schedule, panel: int, room: int) -> Schedule:
    """Blocks of the outermost reduction, so that a panel of `panel` bytes becomes one that fits into `room`."""
    parts = -(-panel // room)
    if parts <= 1:
        return schedule
    return replace(schedule, block=-(-statement.extents[statement.loops(LoopKind.REDUCTION)[0]] // parts))


def _only_operand(statement: Statement, loop: int, other: int) -> int | None:
    """The one input that `loop` indexes, if `other` does not."""
    found = [n for n, access in enumerate(statement.inputs) if access.stride(loop) is not Stride.INVARIANT]
    return found[0] if len(found) == 1 and other not in statement.inputs[found[0]].loops() else None


def _sharing_rows(statement: Statement, access: Access, vector: int) -> int:
    """How many iterations of other parallel loops use the same elements."""
    used = access.loops()
    return prod(
        statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL) if loop not in used and loop != vector
    )


def _panel_bytes(statement: Statement, number: int, loop: int, columns: int) -> int:
    access = statement.inputs[number]
    depth = prod(statement.extents[r] for r in statement.loops(LoopKind.REDUCTION) if r in access.loops())
    return depth * min(columns, statement.extents[loop]) * _element_bytes(access)


def _bytes(statement: Statement, access: Access) -> int:
    """What one batch reads of an input."""
    shared = {loop for loop in access.loops() if all(loop in other.loops() for other in statement.accesses)}
    return prod(statement.extents[loop] for loop in access.loops() - shared) * _element_bytes(access)


def _element_bytes(access: Access) -> int:
    return (getattr(element_type(access.buffer), "bitwidth", 64) + 7) // 8
