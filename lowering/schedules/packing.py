"""The blocks and panels of a contraction: which operands of a sum of products are worth a copy.

The loops of a contraction are its columns (lanes; they index one operand, which is contiguous along them or is copied
so), its rows (jammed; they index the other), its reductions, and batches, which index both. A copy of an operand costs
what a few rows of products do, so it pays

- for the columns where they are not contiguous (A times B transposed): vectors of them can be had in no other way. It
  takes `LEAST_ROWS` rows to beat lanes along the reduction;
- for the columns where the operand outgrows a core's cache and `MANY_ROWS` rows share it, or somewhat fewer where what
  a tile copies stays near it (`least_copied_rows`): its rows lie on pages of their own, and where a power of two
  separates them they compete for the same lines of the cache. So does one that outgrows the nearest cache: vectors that
  lie across two lines, as those of arrays from elsewhere may, take two loads, and products as fast as loads wait for
  them. Where products take two halves of a vector each, they do not: then it is an operand that takes more than half of
  the core's cache, and `SHARING_ROWS` rows to be worth a copy. Columns that lie as a panel would (`pack-invariants`)
  need none;
- for the rows where the reduction does not run along memory (A transposed times B) and the operand outgrows
  that cache: each step would touch another page for a few elements. Columns that outgrow the cache as well are
  copied too, once per block of rows, and a block has as many rows as `far` holds: tiles read them in streams, as
  they would A. Columns that do not are read as they are, and a block has as many rows as leave them their place: as
  three eighths of the cache hold.

A panel of columns that outgrows half the cache is cut along the reduction; one that outgrows a quarter of it where rows
are copied too, as blocks have the more rows then, and columns are copied for fewer of them.

Windows that a tile reads where they are, element by element, come from as many places as they have channels; those that
outgrow the nearest cache are read for a few channels at a time, half as much as it holds, by all tiles in turn.

Rows that are read where they are, and that do not stay near, are fetched a tile ahead.

Without a copy, tiles go down the rows, whose operand is streamed past the same columns. Where the result is the larger
one they go along its rows, a block of one tile at a time, so that it is written in the order of memory.

Rows that are widened, such as f16, are copied as what they are widened to, and so are columns from `WIDENING_ROWS` rows
on: a tile would widen each of its rows at each step.

Where the target has dot products of what is multiplied (`dot_products`), lanes take groups of the reduction: twice or
four times the products per step are worth the copy of the columns that this takes from `LEAST_ROWS` rows on. Rows are
copied only where their groups are not in memory as they are taken. Where it has tiles of matrices, these go before
(`matrices`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from tenon.dialects.families.monoid import combining_op
from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.dot_products import dot_product, groups_obstacle, has_groups
from tenon.lowering.kernels.footprint import batch_bytes, sharing_rows
from tenon.lowering.kernels.intermediates import reads_padding
from tenon.lowering.kernels.obstacles import next_rows_obstacle
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride
from tenon.lowering.kernels.widened_inputs import widened_input
from tenon.lowering.schedules.matrices import decide_matrices
from tenon.lowering.schedules.rows import LEAST_COLUMN_TILES, least_copied_rows
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.passes.machine import VECTOR_BITS, Machine

LEAST_ROWS = 8
SHARING_ROWS = 512
"""Rows that share columns, from which on a copy pays that does no more than put them side by side."""
LEAST_TERMS = 256
"""Products for each sum of a block, below which storing partial sums costs more than what is near is worth."""
WIDENING_ROWS = 32
"""Rows from which on columns are copied that are widened."""


def column_operands(statement: Statement, loops: Collection[int]) -> dict[int, int]:
    """By loop, the input to pack so that it can be the lanes of a contraction, if nothing else is in the way; without
    those that need none, and those for which a copy does not pay."""
    found: dict[int, int] = {}
    for loop in loops if may_have_panels(statement) else ():
        strided = [n for n, access in enumerate(statement.inputs) if access.stride(loop) is Stride.OTHER]
        if len(strided) != 1 or statement.kinds[loop] is not LoopKind.PARALLEL:
            continue
        if sharing_rows(statement, statement.inputs[strided[0]], loop) >= LEAST_ROWS:
            found[loop] = strided[0]
    return found


def may_have_panels(statement: Statement) -> bool:
    """Whether a statement sums into one output, without windows in the output, and reads no padding. Of its reductions
    the outermost alone, which can be cut into blocks, may have an extent that only the launch tells."""
    return (
        len(statement.outputs) == 1
        and not reads_padding(statement)
        and LoopKind.REDUCTION in statement.kinds
        and LoopKind.SEQUENTIAL not in statement.kinds
        and not any(isinstance(statement.extents[loop], Size) for loop in statement.loops(LoopKind.REDUCTION)[1:])
        and combining_op(statement.body, statement.accumulators[0]) is not None
    )


def _knows(statement: Statement, loops: Collection[int]) -> bool:
    """Whether the extents of `loops` are numbers."""
    return not any(isinstance(statement.extents[loop], Size) for loop in loops)


def with_panels(statement: Statement, schedule: Schedule, machine: Machine, *, hurries: bool = True) -> Schedule:
    """`schedule`, a register tile of lanes along a parallel loop, with the copies that pay. Unless it `hurries`, other
    statements of the kernel wait for memory anyway, or what is copied once is copied for every strip."""
    vector, jam = schedule.vector, schedule.jam
    if vector is None or statement.kinds[vector] is LoopKind.REDUCTION or not may_have_panels(statement):
        return schedule
    if jam is None or any(part is not None for part in (schedule.rows, schedule.taps, schedule.dot)):
        return schedule
    waits = hurries and not machine.halves
    columns = only_operand(statement, vector, jam)
    rows = only_operand(statement, jam, vector)
    tile = schedule.width * schedule.unroll
    if rows is not None and widens_rows(statement, schedule):
        if columns is not None and sharing_rows(statement, statement.inputs[columns], vector) >= WIDENING_ROWS:
            schedule = _with_cut_panel(statement, replace(schedule, pack=columns), machine.l2 // 2)
        return _with_packed_rows(statement, schedule, jam, rows, machine.l2 * 3 // 8)
    if rows is not None and estimate(statement.extents[vector]) >= LEAST_COLUMN_TILES * tile:
        access = statement.inputs[rows]
        along = any(access.stride(loop) is Stride.UNIT for loop in statement.loops(LoopKind.REDUCTION))
        near = machine.l1 if waits else machine.l2
        if not along and batch_bytes(statement, access) > near:
            if columns is None or batch_bytes(statement, statement.inputs[columns]) <= near:
                return _with_packed_rows(statement, schedule, jam, rows, machine.l2 * 3 // 8)
            schedule = _with_cut_panel(statement, replace(schedule, pack=columns), machine.l2 // 4)
            return _with_packed_rows(statement, schedule, jam, rows, machine.far)
    if schedule.pack is None and columns is not None:
        kept = machine.l2 // 16 if waits else machine.l2 // 2
        if _writes_more_than_it_reads(statement, columns, kept, machine):
            return replace(schedule, jam_block=schedule.jam_count)
        access = statement.inputs[columns]
        size = batch_bytes(statement, access)
        least = SHARING_ROWS
        if waits or size > machine.l2:
            least = least_copied_rows(statement, access, schedule, machine)
        near = machine.l1 if waits else machine.l2 // 2
        is_panel = _is_panel(statement, access, vector, schedule.width, tile)
        if size > near and not is_panel and sharing_rows(statement, access, vector) >= least:
            schedule = replace(schedule, pack=columns)
    return _with_cut_panel(statement, schedule, machine.l2 // 2)


def widens_rows(statement: Statement, schedule: Schedule) -> bool:
    """Whether rows are widened, which takes half as long as the products of each tile of columns unless a copy is."""
    if schedule.vector is None or schedule.jam is None:
        return False
    rows = only_operand(statement, schedule.jam, schedule.vector)
    if rows is None or widened_input(statement, rows).op is None:
        return False
    return estimate(statement.extents[schedule.vector]) >= schedule.width * schedule.unroll


def with_columns(statement: Statement, schedule: Schedule, columns: int | None, machine: Machine) -> Schedule:
    """`schedule`, a register tile, with the input `columns` in panels, or with dot products where these pay."""
    if columns is not None:
        schedule = _with_cut_panel(statement, replace(schedule, pack=columns), machine.l2 // 2)
    return _with_dots(statement, schedule, machine)


def matrix_tiles(statement: Statement, vector: int, jam: int, machine: Machine) -> Schedule | None:
    """The schedule that multiplies tiles of rows along `jam` and of columns along `vector`, where the machine has them
    and they pay."""
    columns, rows = only_operand(statement, vector, jam), only_operand(statement, jam, vector)
    if columns is None or rows is None or not may_have_panels(statement):
        return None
    if not _knows(statement, (*statement.loops(LoopKind.REDUCTION), vector)):
        return None
    tiled = decide_matrices(statement, (vector, columns), (jam, rows), machine)
    return None if tiled is None or (tiled.pack_jam is not None and not _knows(statement, (jam,))) else tiled


def _with_dots(statement: Statement, schedule: Schedule, machine: Machine) -> Schedule:
    """`schedule`, a register tile, with groups and their copies, if that pays and the machine has dots of them."""
    vector, jam, product = schedule.vector, schedule.jam, dot_product(statement)
    if product is None or product.name not in machine.dots:
        return schedule
    if not may_have_panels(statement) or not _knows(statement, range(len(statement.extents))):
        return schedule
    if vector is None or jam is None:
        return schedule
    if statement.kinds[vector] is LoopKind.REDUCTION or schedule.width < VECTOR_BITS[0] // 32:
        return schedule
    columns, rows = only_operand(statement, vector, jam), only_operand(statement, jam, vector)
    if columns is None or rows is None or sharing_rows(statement, statement.inputs[columns], vector) < LEAST_ROWS:
        return schedule
    access = statement.inputs[rows]
    loop = max(
        statement.loops(LoopKind.REDUCTION), key=lambda loop: (has_groups(access, loop), statement.extents[loop])
    )
    if statement.extents[loop] < product.depth:
        return schedule
    grouped = replace(schedule, pack=columns, dot=loop, depth=product.depth)
    grouped = _with_cut_panel(statement, grouped, machine.l2 // 2)
    if product.flips or not has_groups(access, loop):
        grouped = _with_packed_rows(statement, grouped, jam, rows, machine.far)
    return schedule if groups_obstacle(statement, loop, product.depth, vector, grouped.packed) else grouped


def with_next_rows(statement: Statement, schedule: Schedule, machine: Machine) -> Schedule:
    """`schedule`, where the rows of the next register tile are fetched while one is computed if they come from afar."""
    if not _reads_rows_in_place(statement, schedule):
        return schedule
    for number, access in enumerate(statement.inputs):
        if next_rows_obstacle(statement, number, schedule.jam, schedule.vector) is None:
            # Less than an eighth of the cache stays near whatever else is read.
            far = batch_bytes(statement, access) >= machine.l2 // 8
            return replace(schedule, fetch_jam=number) if far else schedule
    return schedule


def with_near_windows(statement: Statement, schedule: Schedule, machine: Machine) -> Schedule:
    """`schedule`, a register tile without copies of rows, with blocks of a reduction over windows whose rows of a tile
    outgrow the nearest cache."""
    vector, jam = schedule.vector, schedule.jam
    if vector is None or jam is None or not _reads_rows_in_place(statement, schedule):
        return schedule
    if (rows := only_operand(statement, jam, vector)) is None:
        return schedule
    access, (first, *inner) = statement.inputs[rows], statement.loops(LoopKind.REDUCTION)
    if first not in access.loops() or all(len(subscript.factors) == 1 for subscript in access.subscripts):
        return schedule
    counts = {**{loop: estimate(statement.extents[loop]) for loop in (first, *inner)}, jam: schedule.jam_count}
    lengths = [sum(n * (counts.get(loop, 1) - 1) for loop, n in s.factors.items()) + 1 for s in access.subscripts]
    size = prod(lengths) * access.element_bytes
    cut = _cut_reduction(statement, schedule, size, machine.l1 // 2) if size > machine.l1 else schedule
    terms = (cut.block or 0) * prod(statement.extents[loop] for loop in inner)
    return cut if terms >= LEAST_TERMS else schedule


def _reads_rows_in_place(statement: Statement, schedule: Schedule) -> bool:
    """Whether a register tile of lanes along a parallel loop reads its rows where they are, all of them at once."""
    if schedule.vector is None or statement.kinds[schedule.vector] is LoopKind.REDUCTION:
        return False
    others = (schedule.pack_jam, schedule.block, schedule.rows, schedule.taps, schedule.dot)
    return may_have_panels(statement) and all(other is None for other in others)


def _with_cut_panel(statement: Statement, schedule: Schedule, room: int) -> Schedule:
    """`schedule` with blocks of the reduction, if a panel of columns would not fit into `room` without."""
    if schedule.pack is None or schedule.vector is None:
        return schedule
    panel = _panel_bytes(statement, schedule.pack, schedule.vector, schedule.width * schedule.unroll)
    return _cut_reduction(statement, schedule, panel, room)


def _with_packed_rows(statement: Statement, schedule: Schedule, jam: int, rows: int, room: int) -> Schedule:
    """Even blocks of as many rows as `room` holds."""
    first = statement.extents[statement.loops(LoopKind.REDUCTION)[0]]
    if schedule.block is None and isinstance(first, Size):
        schedule = replace(schedule, block=estimate(first))
    count, extent = schedule.jam_count, estimate(statement.extents[jam])
    size = _panel_bytes(statement, rows, jam, count)
    if schedule.block is not None:
        size = size * schedule.block // estimate(first)
    fitting = -(-room // max(size, 1)) * count
    blocks = max(-(-extent // fitting), 1)
    return replace(schedule, pack_jam=rows, jam_block=max(-(-extent // (blocks * count)), 1) * count)


def _is_panel(statement: Statement, access: Access, vector: int, width: int, tile: int) -> bool:
    """Whether the columns of a tile are one piece of memory already, of whole vectors, in the order in which it reads
    them."""
    *others, last = access.plain_loops()
    summed = statement.loops(LoopKind.REDUCTION)
    length = access.shape[-1]
    if isinstance(length, Size):
        return False
    is_whole = last == vector and length == statement.extents[vector] and length <= tile and length % width == 0
    return is_whole and others[len(others) - len(summed) :] == summed


def _writes_more_than_it_reads(statement: Statement, columns: int, kept: int, machine: Machine) -> bool:
    """Whether the one matrix that is written outgrows the cache in which the columns stay, of `kept` bytes at most."""
    matrix = [loop for loop in statement.loops(LoopKind.PARALLEL) if statement.extents[loop] != 1]
    written, read = (batch_bytes(statement, access) for access in (statement.outputs[0], statement.inputs[columns]))
    return len(matrix) == 2 and written > machine.l2 and read <= kept


def _cut_reduction(statement: Statement, schedule: Schedule, panel: int, room: int) -> Schedule:
    """Blocks of the outermost reduction, so that a panel of `panel` bytes becomes one that fits into `room`. There are
    blocks as well where only the launch tells its length, so that room for one is room for all."""
    parts = -(-panel // room)
    (first, *_) = statement.loops(LoopKind.REDUCTION)
    if parts <= 1 and not isinstance(statement.extents[first], Size):
        return schedule
    block, depth = -(-estimate(statement.extents[first]) // parts), schedule.depth if first == schedule.dot else 1
    return replace(schedule, block=-(-block // depth) * depth)


def only_operand(statement: Statement, loop: int, other: int) -> int | None:
    """The one input that `loop` indexes, if `other` does not."""
    found = [n for n, access in enumerate(statement.inputs) if access.stride(loop) is not Stride.INVARIANT]
    return found[0] if len(found) == 1 and other not in statement.inputs[found[0]].loops() else None


def _panel_bytes(statement: Statement, number: int, loop: int, columns: int) -> int:
    access = statement.inputs[number]
    depth = prod(estimate(statement.extents[r]) for r in statement.loops(LoopKind.REDUCTION) if r in access.loops())
    return depth * min(columns, estimate(statement.extents[loop])) * widened_input(statement, number).element_bytes
