"""Strips: how many iterations of each loop that the statements of a kernel share run together.

A contraction is fast in register tiles, and faster where tiles share what they load; a kernel that holds one together
with other statements therefore cuts the loops that all of them share into strips: ranges of several tiles. Each strip
runs all statements, and what flows between them stays in a cache.

A strip is as wide as the vectors of a tile, or as what is streamed at a time (`rows`), and along the other loop of the
tile as long as `MOST_ROWS` and what a quarter of the cache holds of intermediates allow. Rows that a band masks have
strips as long as a tile of columns is wide, or a half or a quarter of that: where they end whole tiles of columns do,
so that fewer are computed that no row sees. Where other statements stream operands that outgrow the cache (the moments
of an optimizer), a strip is as wide as can be, up to `MOST_COLUMNS`, so that these are read in long pieces. So are
strips of windows that overlap, a tile's rows of an image at a time, and those that are added up over with lanes along
them.

Statements that have no lanes within a strip, as they compute a number per row or columns of it, have a row in each
(`row_values`).

The attribute `strips` of the kernel, `array<i64: ...>`, has the length along each shared loop, in the order of the
indices of the first statement's output, but loops that a statement adds up over come last. Without it, a strip is as
long as the longest tile of a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, i64

from tenon.dialects.types.size import estimate
from tenon.lowering.kernels.intermediates import intermediate_bytes
from tenon.lowering.kernels.masked_columns import columns_of, masks
from tenon.lowering.kernels.shared_loops import SharedLoop, has_windows, is_accumulated, is_contraction
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement
from tenon.lowering.schedules.packing import widens_rows, with_next_rows, with_panels
from tenon.lowering.schedules.rest import with_rest
from tenon.lowering.schedules.row_values import across_rows
from tenon.lowering.schedules.rows import in_row_blocks
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.tile import decide_tile
from tenon.passes.machine import Machine

MOST_COLUMNS = 4096
"""Of a strip: pieces of memory that are as long are read as fast as longer ones."""
MOST_ROWS = 96
"""Iterations of the jammed loop in a strip; more would not reuse the other operand noticeably better."""
STREAMED_PRODUCTS = 16
"""Products for each byte that other statements stream, below which these wait for memory: a core does 3 to 6 in the
time in which it reads one."""
MOST_SHARING_ROWS = 4 * MOST_ROWS
"""The same where the other operand is copied for each strip."""


def decide_strips(
    kernel: Kernel, shared: Sequence[SharedLoop], machine: Machine
) -> tuple[list[Schedule | None], list[int]] | None:
    """Schedules for all statements and the lengths of strips; None where no contraction has a tile along the loops."""
    statements = kernel.statements
    streamed = _streamed_bytes(kernel, shared) if len(shared) == 2 else 0
    streams = streamed > machine.l2
    chosen = [
        _contraction_tile(statement, [loop[number] for loop in shared], machine, streamed if streams else 0)
        if is_contraction(statement) or has_windows(statement)
        else None
        for number, statement in enumerate(statements)
    ]
    lengths = [
        _whole_tiles([tile_along(s, own) for s, own in zip(chosen, loop, strict=True)], chosen) for loop in shared
    ]
    for position, loop in enumerate(shared):
        if any(s is not None and s.rest is not None and s.vector == own for s, own in zip(chosen, loop, strict=True)):
            # What does not fill a vector goes with the others, for the sake of the rows that both read.
            lengths[position] = estimate(statements[0].extents[loop[0]])
    if all(length == 1 for length in lengths):
        return None
    vectors = [
        loop for loop in shared if any(s is not None and s.vector == own for s, own in zip(chosen, loop, strict=True))
    ]
    for number, statement in enumerate(statements):
        if chosen[number] is None:
            used = {loop[number] for loop in shared if loop not in vectors}
            own = [loop for loop in range(len(statement.extents)) if loop not in used]
            chosen[number], _ = decide_tile(statement, own, machine, panels=True)
    for position, loop in enumerate(shared):
        if loop not in vectors and lengths[position] > 1:
            for number, tile in across_rows(statements, shared, chosen, loop, machine).items():
                chosen[number] = tile
                lengths[position] = lcm(lengths[position], tile.width)
    room = machine.l2 // 4  # for intermediates: the rest holds operands
    for position, loop in enumerate(shared):
        if (block := _block_along(chosen, loop, vectors)) is not None and loop in vectors:
            lengths[position] = _longest(kernel, shared, lengths, position, room, block)
    has_copies = any(s is not None and s.pack is not None for s in chosen)
    if streams and len(vectors) == 1 and not has_copies:
        room //= 2
        position = shared.index(vectors[0])
        lengths[position] = _longest(kernel, shared, lengths, position, room, MOST_COLUMNS)
    for position, loop in enumerate(shared):
        if lengths[position] > 1 and loop not in vectors:
            pairs = zip(chosen, loop, strict=True)
            copies = any(s is not None and s.pack is not None and s.jam == own for s, own in pairs)
            most = _block_along(chosen, loop, vectors) or (MOST_SHARING_ROWS if copies else MOST_ROWS)
            lengths[position] = _longest(kernel, shared, lengths, position, room, most)
        elif loop in vectors and any(s is not None and s.taps is not None for s in chosen):
            # Rows of an image as a whole, if they stay near: only their ends are at an edge.
            lengths[position] = _longest(kernel, shared, lengths, position, machine.l1 // 2, MOST_COLUMNS)
    for position in _combined_along(statements, chosen, shared):
        lengths[position] = _longest_sum(kernel, shared, lengths, position, machine)
    _end_where_tiles_do(kernel, shared, chosen, lengths, vectors)
    return chosen, lengths


def _end_where_tiles_do(
    kernel: Kernel,
    shared: Sequence[SharedLoop],
    chosen: Sequence[Schedule | None],
    lengths: list[int],
    vectors: Sequence[SharedLoop],
) -> None:
    """Shorten strips of rows that a band masks to a tile of columns, or a part of one."""
    for rows, number, band in masks(kernel.statements, shared):
        columns = columns_of(kernel, rows, number, band.column) or {}
        tile = max([tile_along(chosen[position], loop) for position, loop in columns.items()], default=1)
        position = shared.index(rows)
        if rows not in vectors and tile > 1:
            lengths[position] = _part_of_tile(lengths[position], tile)


def _combined_along(
    statements: Sequence[Statement], schedules: Sequence[Schedule | None], shared: Sequence[SharedLoop]
) -> list[int]:
    """The positions of the shared loops, innermost first, that a statement adds up over with lanes along one of them:
    these are combined, and added to what is in memory, once for each strip."""
    found: set[int] = set()
    for number, (statement, schedule) in enumerate(zip(statements, schedules, strict=True)):
        added = [
            position for position, loop in enumerate(shared) if statement.kinds[loop[number]] is LoopKind.REDUCTION
        ]
        if schedule is not None and any(shared[position][number] == schedule.vector for position in added):
            found.update(added)
    return sorted(found, reverse=True)


def _contraction_tile(statement: Statement, cut: Sequence[int], machine: Machine, streamed: int) -> Schedule | None:
    """The tile of a contraction in strips along the loops `cut`, beside others that stream so many bytes."""
    tile, _ = decide_tile(statement, range(len(statement.extents)), machine, panels=True)
    tile = tile and in_row_blocks(statement, tile, machine, cut)
    waits = prod(map(estimate, statement.extents)) < STREAMED_PRODUCTS * streamed
    hurries = tile is not None and tile.vector in cut and not waits
    tile = tile and _with_copied_columns(statement, tile, machine, hurries=hurries)
    tile = tile and with_rest(statement, tile, machine)
    return tile and with_next_rows(statement, tile, machine)


def _block_along(schedules: Sequence[Schedule | None], loop: SharedLoop, vectors: Sequence[SharedLoop]) -> int | None:
    """The longest block of matrices along a shared loop, where a statement multiplies such and its columns are along
    one of `vectors`."""
    found: list[int | None] = []
    for number, (schedule, own) in enumerate(zip(schedules, loop, strict=True)):
        if schedule is not None and schedule.tile is not None and schedule.vector in [v[number] for v in vectors]:
            found += [schedule.vector_block] * (schedule.vector == own) + [schedule.jam_block] * (schedule.jam == own)
    return max(filter(None, found), default=None)


def _with_copied_columns(statement: Statement, schedule: Schedule, machine: Machine, *, hurries: bool) -> Schedule:
    """`schedule` with a copy of the columns, where it would have one alone and that is all it would have; and of
    rows that are widened."""
    copied = with_panels(statement, schedule, machine, hurries=hurries)
    allowed = replace(schedule, pack=copied.pack, block=copied.block)
    if widens_rows(statement, schedule):
        allowed = replace(allowed, pack_jam=copied.pack_jam, jam_block=copied.jam_block)
    return copied if copied == allowed else schedule


def _whole_tiles(tiles: Sequence[int], schedules: Sequence[Schedule | None]) -> int:
    """A length that all `tiles` divide; the longest one where rows are streamed, in strips that need not come out
    even."""
    return max(tiles) if any(s is not None and s.rows is not None for s in schedules) else lcm(*tiles)


def _part_of_tile(length: int, tile: int) -> int:
    """The largest of a tile, its half and its quarter up to `length`; `length` if none is."""
    return next((part for part in (tile, tile // 2, tile // 4) if part <= length), length)


def _streamed_bytes(kernel: Kernel, shared: Sequence[SharedLoop]) -> int:
    """What statements other than contractions read, element by element, that is not made in the kernel."""
    made = {alloc.memref for alloc in kernel.intermediates}
    read = {
        access.buffer: prod(map(estimate, access.shape)) * access.element_bytes
        for number, statement in enumerate(kernel.statements)
        if not is_contraction(statement)
        for access in statement.inputs
        if access.buffer not in made and {loop[number] for loop in shared} <= access.loops()
    }
    return sum(read.values())


def _longest(
    kernel: Kernel, shared: Sequence[SharedLoop], lengths: Sequence[int], position: int, room: int, limit: int
) -> int:
    """The largest multiple of a length, up to `limit`, that strips of equal length can have with intermediates of up to
    `room` bytes."""
    unit, extent = lengths[position], estimate(kernel.statements[0].extents[shared[position][0]])

    def fits(length: int) -> bool:
        tried = [*lengths[:position], length, *lengths[position + 1 :]]
        return intermediate_bytes(kernel, dict(zip(shared, tried, strict=True))) <= room

    most = next(filter(fits, reversed(range(unit, limit + 1, unit))), unit)
    parts = -(-extent // most)
    return min(-(-extent // (parts * unit)) * unit, most) if parts else unit


def _longest_sum(
    kernel: Kernel, shared: Sequence[SharedLoop], lengths: Sequence[int], position: int, machine: Machine
) -> int:
    """The same where what the iterations of a strip pass on, as numbers of 4 bytes, takes a quarter of the nearest
    cache."""
    limit = machine.l1 // 16 // prod([*lengths[:position], *lengths[position + 1 :]])
    return _longest(kernel, shared, lengths, position, machine.l2 // 4, max(limit, lengths[position]))


def tile_along(schedule: Schedule | None, loop: int) -> int:
    """How many iterations of `loop` a tile of `schedule` takes."""
    if schedule is None:
        return 1
    if loop == schedule.vector:
        return schedule.strip or schedule.width * schedule.unroll
    return schedule.jam_count if loop == schedule.jam else 1


@dataclass(frozen=True)
class Ahead:
    """Columns that `statements` multiply in tiles of matrices, copied before the strips that share them: in parts of
    `part` along the shared loop `columns`, once for each iteration of those `around`, on which they depend as well."""

    statements: tuple[int, ...]
    columns: int
    part: int
    around: tuple[int, ...]


def copied_ahead(
    statements: Sequence[Statement],
    schedules: Sequence[Schedule | None],
    shared: Sequence[SharedLoop],
    lengths: Sequence[int],
) -> Ahead | None:
    """What is copied before strips of `lengths`, if anything is."""
    found: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for number, (statement, schedule) in enumerate(zip(statements, schedules, strict=True)):
        own = [loop[number] for loop in shared]
        if schedule is None or schedule.tile is None or schedule.pack is None:
            continue
        if schedule.vector not in own or schedule.jam not in own:
            continue
        columns, used = own.index(schedule.vector), statement.inputs[schedule.pack].loops()
        around = tuple([p for p, loop in enumerate(own) if loop in used and p != columns])
        length = lengths[columns]
        part = max((schedule.pack_block or statement.extents[schedule.vector]) // length, 1) * length
        if all(lengths[position] == 1 for position in around):
            found.setdefault((columns, part, around), []).append(number)
    if len(found) != 1 or any(is_accumulated(statements, loop) for loop in shared):
        return None
    ((columns, part, around), numbers), *_ = found.items()
    return Ahead(tuple(numbers), columns, part, around)


def write_strips(function: func.FuncOp, lengths: Sequence[int]) -> None:
    """Set the attribute `strips`."""
    function.attributes["strips"] = DenseArrayBase.from_list(i64, list(lengths))


def read_strips(function: func.FuncOp, shared: Sequence[SharedLoop], schedules: Sequence[Schedule | None]) -> list[int]:
    """The length of a strip along each shared loop. Raises `ValueError` where the attribute does not fit the loops."""
    attribute = function.attributes.get("strips")
    if attribute is None:
        return [max(map(tile_along, schedules, loop)) for loop in shared]
    if not isinstance(attribute, DenseArrayBase):
        raise ValueError(f"strips: {attribute} is not an array of integers")
    lengths = [int(length) for length in attribute.get_values()]
    if len(lengths) != len(shared) or any(length < 1 for length in lengths):
        raise ValueError(f"strips: {lengths} is not one positive length for each of the {len(shared)} shared loops")
    return lengths
