"""Which reductions down the columns of long rows go a few rows at a time (`row_blocks`), and in what blocks.

The inputs that are contiguous along the vector loop are streamed: they outgrow the cache and are read once, or by so
few rows of products that a copy would not pay, or into so small a result that it stays near whatever is read. While a
block of rows is computed, one that follows is fetched to the second level of the caches: by itself the processor stops
at the end of each page, and begins anew with each block.

- Where memory is the limit, a block has as many rows as the processor fetches side by side, and a strip is as long as
  leaves the accumulators in the first level and some strips for threads. What is near, in the last level, is read as
  fast without fetching ahead.
- Where products are the limit, a block has as many rows as keep partial sums from being stored too often, and a strip
  has few columns, so that there are some for each thread. Where several tiles read the same columns and these stay near
  them meanwhile, there are no blocks, and partial sums stay in registers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tenon.dialects.types.size import Size
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride, element_type
from tenon.lowering.schedules.steps import Schedule

CACHE_BYTES = 1 << 20
"""What a core has to itself: the second level."""
FAR_BYTES = 4 * CACHE_BYTES
"""What is not read again and again without cost: a part of the last level."""
MANY_ROWS = 128
"""Rows of products from which on a copy of an operand pays."""
STREAMED_ROWS = 4
"""Rows of products up to which memory is the limit."""
SUMS_BYTES = CACHE_BYTES // 2
"""Of partial sums up to which an operand that the reduction goes across is not worth a copy, whatever shares it."""
STREAM_ROWS, STREAM_AHEAD, STREAM_STRIP = 8, 16, 8192
PRODUCT_ROWS, PRODUCT_STRIP = 64, 2048
"""Rows of a block, rows to fetch ahead, and bytes of a row in a strip: where memory is the limit, and where products
are."""
SHARED_ROWS = 96
"""Rows of a block that several tiles share: each of them stores partial sums once per block."""
TILE_AHEAD = 32
"""Rows to fetch ahead within a tile that is not cut into blocks."""
SHARING_TILES = 4
"""Tiles that read the same columns, from which on these need no blocks if they stay near."""
NEAR_BYTES = CACHE_BYTES // 16
"""Of such columns: how fast more than that is depends on the pages that they lie on."""
ALIASED_BYTES = 1024
"""Rows at a multiple of this distance compete for a few sets of the nearest cache."""
SEPARATE_VECTORS = 4
"""Vectors of a tile without a jammed loop."""


def in_row_blocks(statement: Statement, schedule: Schedule) -> Schedule:
    """`schedule` with blocks of rows where these pay."""
    reductions = statement.loops(LoopKind.REDUCTION)
    if schedule.vector is None or schedule.blocked or len(reductions) != 1 or statement.loops(LoopKind.SEQUENTIAL):
        return schedule
    vector, depth, columns = schedule.vector, statement.extents[reductions[0]], statement.extents[schedule.vector]
    if statement.kinds[vector] is not LoopKind.PARALLEL or any(isinstance(e, Size) for e in (depth, columns)):
        return schedule
    row = columns * compute_bits(statement) // 8
    if schedule.jam is None:
        if columns <= schedule.width * schedule.unroll or depth * row <= CACHE_BYTES:
            return schedule  # a tile holds a whole row, or nothing has to be fetched
        tile = replace(schedule, unroll=min(SEPARATE_VECTORS, schedule.unroll))
        return _streamed(tile, columns, row, STREAM_AHEAD if depth * row > FAR_BYTES else None)
    streamed = [access for access in statement.inputs if access.stride(vector) is not Stride.INVARIANT]
    if len(streamed) != 1 or any(isinstance(extent, Size) for extent in statement.extents):
        return schedule
    shared, size = sharing_rows(statement, streamed[0], vector), batch_bytes(statement, streamed[0])
    across = [access for access in statement.inputs if access.stride(schedule.jam) is Stride.UNIT]
    size = max([size, *(batch_bytes(statement, access) for access in across)])
    if size <= CACHE_BYTES or (shared >= MANY_ROWS and not (across and shared * row <= SUMS_BYTES)):
        return schedule
    if shared <= STREAMED_ROWS and size > FAR_BYTES:
        return _streamed(schedule, columns, row, STREAM_AHEAD)
    panel = depth * schedule.width * schedule.unroll * row // columns
    is_near = not across and panel <= NEAR_BYTES and row % ALIASED_BYTES != 0
    if is_near and shared >= SHARING_TILES * schedule.jam_count:
        return replace(schedule, ahead=TILE_AHEAD)
    strip = _strip(schedule, columns, row, PRODUCT_STRIP)
    rows = PRODUCT_ROWS if shared <= schedule.jam_count else SHARED_ROWS
    return replace(schedule, rows=rows, strip=strip, ahead=rows)


def _streamed(schedule: Schedule, columns: int, row: int, ahead: int | None) -> Schedule:
    return replace(schedule, rows=STREAM_ROWS, strip=_strip(schedule, columns, row, STREAM_STRIP), ahead=ahead)


def _strip(schedule: Schedule, columns: int, row: int, largest: int) -> int:
    """Columns of strips of about `largest` bytes of a row of `row` bytes: equal ones, as threads take one each."""
    parts = -(-row // largest)
    if parts == 1:
        return columns
    return max(columns // (parts * schedule.width), 1) * schedule.width


def sharing_rows(statement: Statement, access: Access, vector: int) -> int:
    """How many iterations of other parallel loops use the same elements."""
    used = access.loops()
    return prod(
        statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL) if loop not in used and loop != vector
    )


def batch_bytes(statement: Statement, access: Access) -> int:
    """What one batch reads of an input."""
    shared = {loop for loop in access.loops() if all(loop in other.loops() for other in statement.accesses)}
    return prod(statement.extents[loop] for loop in access.loops() - shared) * element_bytes(access)


def element_bytes(access: Access) -> int:
    """Bytes of an element in memory."""
    return (getattr(element_type(access.buffer), "bitwidth", 64) + 7) // 8
