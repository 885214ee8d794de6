"""Which reductions down the columns of long rows go a few rows at a time (`row_blocks`), and in what blocks.

The inputs that are contiguous along the vector loop are streamed: they outgrow the cache and are read once, or by so
few rows of products that a copy would not pay, or into so small a result that it stays near whatever is read. While a
block of rows is computed, one that follows is fetched to the second level of the caches: by itself the processor stops
at the end of each page, and begins anew with each block.

- Where memory is the limit, a block has as many rows as the processor fetches side by side, and a strip is as long as
  leaves the accumulators in the first level. What is near, in the last level, is read as fast without fetching ahead.
  Where strips are too few for threads, these share the rows (`split`): a strip is read the more slowly the shorter its
  pieces of rows are.
- Where products are the limit, a block has as many rows as keep partial sums from being stored too often, and a strip
  has few columns, so that there are some for each thread. Where several tiles read the same columns and these stay near
  them meanwhile, there are no blocks, and partial sums stay in registers.

Where other statements share loops with the reduction, such as those that add a bias to its sums, the strips of all are
as long as its own.

Rows of what is not reduced go on for a page or more, or one begins where the one before ends, and the processor
foresees them. Where they are pieces far from each other, such as the gates of a recurrent layer, which are slices of
one matrix, and together take more than stays near anyway, those a few rows on are fetched (`with_pieces_ahead`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.footprint import batch_bytes, elements_apart, in_pieces, next_row, sharing_rows
from tenon.lowering.kernels.intermediates import reads_padding
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import parts_obstacle
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.passes.machine import Machine

MANY_ROWS, FEWER_ROWS = 128, 96
"""Rows of products from which on a copy of an operand pays, and the same where panels of it are short."""
LEAST_COLUMN_TILES = 4
"""Tiles along the columns that a copy of rows has to serve."""
STREAMED_ROWS = 4
"""Rows of products up to which memory is the limit."""
STREAM_ROWS, STREAM_AHEAD = 8, 16
"""Rows of a block, and rows to fetch ahead, where memory is the limit: as many as processors follow side by side."""
PRODUCT_ROWS = 64
"""Rows of a block where products are the limit: storing partial sums once for so many costs little."""
SHARED_ROWS = 96
"""Rows of a block that several tiles share: each of them stores partial sums once per block."""
TILE_AHEAD = 32
"""Rows to fetch ahead within a tile that is not cut into blocks."""
SHARING_TILES = 4
"""Tiles that read the same columns, from which on these need no blocks if they stay near."""
SEPARATE_VECTORS = 4
"""Vectors of a tile without a jammed loop."""
FEW_STRIPS, FEW_PRODUCT_STRIPS = 8, 2
"""Strips from which on there are no parts of rows for threads to share: sums of parts that are several rows of products
are worth it where all of them would be on one thread."""
MOST_PARTS, LEAST_PARTS = 16, 4
PART_ROWS = 24
"""Rows of a part for each of its rows of sums: to combine those with others costs about as much as one that is read."""
MOST_PIECES_AHEAD = 16
"""Rows of pieces that are on their way: processors follow about as many."""


def in_row_blocks(statement: Statement, schedule: Schedule, machine: Machine, cut: Collection[int] = ()) -> Schedule:
    """`schedule` with blocks of rows where these pay, unless their loop is one of those that are `cut` anyway."""
    reductions = statement.loops(LoopKind.REDUCTION)
    if schedule.vector is None or schedule.blocked or len(reductions) != 1 or statement.loops(LoopKind.SEQUENTIAL):
        return schedule
    if schedule.taps is not None:
        return schedule  # windows that overlap share their rows in registers
    if reductions[0] in cut or reads_padding(statement):
        return schedule
    vector, depth, columns = schedule.vector, statement.extents[reductions[0]], statement.extents[schedule.vector]
    if statement.kinds[vector] is not LoopKind.PARALLEL or any(isinstance(e, Size) for e in (depth, columns)):
        return schedule
    row = columns * compute_bits(statement) // 8
    if schedule.jam is None:
        if columns <= schedule.width * schedule.unroll or depth * row <= machine.l2:
            return schedule  # a tile holds a whole row, or nothing has to be fetched
        tile = replace(schedule, unroll=min(SEPARATE_VECTORS, schedule.unroll))
        ahead = STREAM_AHEAD if depth * row > machine.far else None
        return _streamed(statement, tile, columns, row, ahead, machine)
    streamed = [access for access in statement.inputs if access.stride(vector) is not Stride.INVARIANT]
    if len(streamed) != 1 or any(isinstance(extent, Size) for extent in statement.extents):
        return schedule
    shared, size = sharing_rows(statement, streamed[0], vector), batch_bytes(statement, streamed[0])
    across = [access for access in statement.inputs if access.stride(schedule.jam) is Stride.UNIT]
    size = max([size, *(batch_bytes(statement, access) for access in across)])
    # Partial sums that stay near: an operand that the reduction goes across is not worth a copy then. Where its copy
    # serves many tiles, an eighth of the cache does not take too long to be read and written for each block.
    serves_many = columns >= LEAST_COLUMN_TILES * schedule.width * schedule.unroll
    sums = machine.l2 // 8 if serves_many else machine.l2 // 2
    least = least_copied_rows(statement, streamed[0], schedule, machine)
    if size <= machine.l2 or (shared >= least and not (across and shared * row <= sums)):
        return schedule
    if shared <= STREAMED_ROWS and size > machine.far:
        return _streamed(statement, schedule, columns, row, STREAM_AHEAD, machine)
    near = not across and is_near(statement, schedule, machine)
    if near and shared >= SHARING_TILES * schedule.jam_count:
        return replace(schedule, ahead=TILE_AHEAD)
    # The partial sums of eight rows take half of the nearest cache.
    strip = _strip(schedule, columns, row, machine.l1 // 16)
    rows = PRODUCT_ROWS if shared <= schedule.jam_count else SHARED_ROWS
    return _split(statement, replace(schedule, rows=rows, strip=strip, ahead=rows), row, machine, FEW_PRODUCT_STRIPS)


def is_near(statement: Statement, schedule: Schedule, machine: Machine) -> bool:
    """Whether what a tile reads of the columns stays near it. How fast more than that is depends on the pages that it
    lies on; and as the nearest cache tells places by where they are in a page, rows at a multiple of a quarter of one
    compete for a few of its sets."""
    if schedule.vector is None:
        return False
    depth = prod(estimate(statement.extents[loop]) for loop in statement.loops(LoopKind.REDUCTION))
    size = compute_bits(statement) // 8
    is_apart = estimate(statement.extents[schedule.vector]) * size % (machine.page // 4) != 0
    return is_apart and depth * schedule.width * schedule.unroll * size <= machine.l2 // 16


def least_copied_rows(statement: Statement, columns: Access, schedule: Schedule, machine: Machine) -> int:
    """Rows of products from which on a copy of `columns` pays: fewer where these take more than half of a core's cache,
    but what a tile copies stays near it."""
    comes_from_afar = batch_bytes(statement, columns) > machine.l2 // 2
    return FEWER_ROWS if comes_from_afar and is_near(statement, schedule, machine) else MANY_ROWS


def with_pieces_ahead(statement: Statement, schedule: Schedule, machine: Machine) -> Schedule:
    """`schedule`, where inputs that are read in short pieces far from each other are fetched half a page ahead."""
    vector = schedule.vector
    if vector is None or schedule.jam is not None or set(statement.kinds) != {LoopKind.PARALLEL}:
        return schedule
    row = next_row(statement, vector)
    if row is None or any(isinstance(extent, Size) for extent in statement.extents):
        return schedule
    # Where more rows share a page the processor foresees them.
    known = in_pieces(statement, vector)
    pieces = [a for a in known if elements_apart(a, row) * a.element_bytes >= machine.page // 2]
    bytes_read = sum(prod(statement.extents[loop] for loop in a.loops()) * a.element_bytes for a in pieces)
    longest = max([statement.extents[vector] * access.element_bytes for access in pieces], default=machine.page)
    if longest >= machine.page or bytes_read < machine.l2 // 8:
        return schedule
    return replace(schedule, ahead=min(max(machine.page // 2 // longest, 1), MOST_PIECES_AHEAD))


def _streamed(
    statement: Statement, schedule: Schedule, columns: int, row: int, ahead: int | None, machine: Machine
) -> Schedule:
    """Blocks of rows that are streamed; a quarter of the nearest cache holds a row of accumulators of a strip, half of
    it where there is one such row, and threads do not depend on strips."""
    blocks = replace(schedule, rows=STREAM_ROWS, ahead=ahead)
    long = replace(blocks, strip=_strip(schedule, columns, row, machine.l1 // 2))
    if schedule.jam is None and (parts := _split(statement, long, row, machine)).split is not None:
        return parts
    short = replace(blocks, strip=_strip(schedule, columns, row, machine.l1 // 4))
    return _split(statement, short, row, machine)


def _split(statement: Statement, schedule: Schedule, row: int, machine: Machine, few: int = FEW_STRIPS) -> Schedule:
    """`schedule`, whose strips are blocks of rows, with parts of the rows for threads to share if strips are few."""
    assert schedule.rows is not None
    extents = statement.extents
    depth, columns = extents[statement.loops(LoopKind.REDUCTION)[0]], extents[schedule.vector or 0]
    sums = prod(estimate(extents[loop]) for loop in statement.loops(LoopKind.PARALLEL)) // columns
    tall = extents[schedule.jam] if schedule.jam is not None else 1
    strips = max(sums // tall, 1) * -(-columns // (schedule.strip or columns))
    parts = min(MOST_PARTS // strips, depth // max(PART_ROWS * tall, machine.l2 // 16 // row))
    if strips >= few or parts < LEAST_PARTS or parts_obstacle(statement):
        return schedule
    return replace(schedule, split=-(-depth // (parts * schedule.rows)) * schedule.rows)


def _strip(schedule: Schedule, columns: int, row: int, largest: int) -> int:
    """Columns of strips of about `largest` bytes of a row of `row` bytes: equal ones, as threads take one each."""
    parts = -(-row // largest)
    if parts == 1:
        return columns
    return max(columns // (parts * schedule.width), 1) * schedule.width
