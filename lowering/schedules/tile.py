"""The register tile of one statement: which loop has the lanes, and how many vectors and rows are computed together.

A loop is as good a vector loop as the lanes it fills on average,

    extent / (ceil(extent / width) * stepped + horizontal)
    width = min(vector bits / widest element, extent down to a 2^k)

where `stepped` is more than 1 if elements a few apart are loaded, and `horizontal` what combining the lanes of a
reduction costs for each time the loop runs. A tile has as many vectors as keep the multipliers busy without leaving
registers: up to three quarters of these where loads can be shared by jamming a second parallel loop, or seven eighths
if two vectors are all there are (`register_tile` weighs what is left at the edges), else `VECTORS_IN_FLIGHT`.

Sums whose neighbours in memory are along another parallel loop may have that as the jammed one (`stored_across`): tiles
are transposed on their way to memory, which costs `ACROSS_COST` products for each of the log2(width) shuffles of a
vector of sums. It is done where the lanes that it fills are worth more than that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import prod

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.dot_products import TILE, dot_product
from tenon.lowering.kernels.footprint import batch_bytes, sharing_rows
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import is_scanned, lies_across, row_accesses, stored_across, vector_obstacle
from tenon.lowering.kernels.statement import LoopKind, Statement, Stride
from tenon.lowering.kernels.turn_rows import shuffles
from tenon.lowering.schedules.packing import column_operands, matrix_tiles, with_columns
from tenon.lowering.schedules.schedule_attribute import LARGEST_TILE, MOST_TAPS, Schedule
from tenon.passes.layout.contraction_axes import SINGLE
from tenon.passes.machine import Machine

VECTORS_IN_FLIGHT = 8
"""Independent accumulations that hide the latency of one."""
UNROLLED_STREAM = 2
"""Vectors per iteration of a loop that only streams."""
LARGEST_JAM = 8
"""Rows of a tile: more would share the loads of vectors hardly better."""
LARGEST_NARROW_JAM = 14
"""The same where `NARROW` vectors are all there are: each load of an element of a row serves these alone, so that more
rows share the loads of vectors."""
NARROW = 2
ENOUGH_ROWS = 7
"""Rows to jam, from which on it counts more that what they read lies side by side."""
STEPPED_COST = 0.5
"""What loading vectors and leaving out some of their elements costs, in iterations."""
SCAN_COST = 0.5
"""What it costs to combine the lanes of a vector with others, in iterations of a scan, which wait for each other."""
TRANSPOSED_COST = 0.1
"""What a shuffle costs, in iterations."""
ACROSS_COST = 2
"""Products in the time that a shuffle of a tile of sums takes, and what it waits for."""
COPIED_ROWS = 4
"""Rows of products in the time of a copy of the columns."""
SHUFFLE_COST = 0.25
"""The same where it chooses among the elements of two whole vectors, at any places."""
VECTOR_LOAD_COST = 5
"""Cycles for a vector that comes from the second level of the caches or beyond."""
NEARLY_EQUAL = 1.01
"""Times of tiles that the model cannot tell apart."""
STEP_COST = 2
"""Cycles of a step of the reduction beside its products."""
WINDOW_REST = 2
"""Registers beside those of accumulators and of the rows that windows overlap in."""
SEPARATE_ROWS = 4
"""Vectors along the vector loop in a tile that also jams."""


def decide_tile(
    statement: Statement,
    loops: Collection[int],
    machine: Machine,
    *,
    jam: bool = True,
    panels: bool = False,
    gathers: bool = False,
) -> tuple[Schedule | None, float]:
    """The best schedule that vectorizes and jams only `loops`, and what it costs: iterations per lane. With
    `panels`, inputs may be copied so that a loop can be vectorized, or taken in groups by dot products. With `gathers`,
    lanes may read at any places of their own."""
    work = float(prod(map(estimate, statement.extents)))
    packed = column_operands(statement, loops) if panels else {}
    if panels and (tiled := _decide_matrices(statement, loops, packed, machine)) is not None:
        return tiled, work / TILE**2
    lanes, chosen = 1.0, None
    for loop in loops:
        along = lanes_along(statement, loop, packed, machine, gathers=gathers)
        if along.obstacle is not None:
            continue
        if along.filled > lanes or (
            along.filled == lanes and chosen is not None and _prefers(statement, loop, chosen[0])
        ):
            lanes, chosen = along.filled, (loop, along.width)
    if chosen is None and not jam:
        return None, work
    copying = _cost_of_copy(statement, chosen[0], packed) if chosen is not None and chosen[0] in packed else 1.0
    turned, cost = _decide_across(statement, loops, machine) if jam else (None, work)
    if chosen is not None and -(-estimate(statement.extents[chosen[0]]) // chosen[1]) == 1:
        copying /= SINGLE
    if turned is not None and cost < work / lanes * copying:
        return (with_columns(statement, turned, None, machine) if panels else turned), cost
    rows, cost = _decide_whole_rows(statement, loops, machine) if jam else (None, work)
    if chosen is None:
        tile, other = decide_transposed(statement, loops, machine)
        return (rows, cost) if cost < other else (tile, other)
    if rows is not None and cost < work / lanes:
        return rows, cost
    loop, width = chosen
    jammed = _jam_loop(statement, loop, loops, machine) if jam else None
    schedule = _tile(statement, loop, width, jammed, machine.registers)
    return (with_columns(statement, schedule, packed.get(loop), machine) if panels else schedule), work / lanes


@dataclass(frozen=True)
class Lanes:
    """Vectors along a loop: how many lanes they have, how many of them are filled on average, and what is against
    them."""

    width: int
    filled: float
    obstacle: str | None


def lanes_along(
    statement: Statement, loop: int, packed: Mapping[int, int], machine: Machine, *, gathers: bool = False
) -> Lanes:
    """What there is to say for vectors along a loop, where inputs may be `packed` for it (`column_operands`)."""
    width = min(machine.vector_bits // compute_bits(statement, loop), _widest(statement, loop))
    if width < 2:
        return Lanes(width, 1.0, "a vector would have one lane")
    copied = (packed[loop],) if loop in packed else ()
    obstacle = vector_obstacle(statement, loop, packed=copied, gathers=gathers)
    return Lanes(width, _lanes_filled(statement, loop, width) if obstacle is None else 1.0, obstacle)


def _decide_across(statement: Statement, loops: Collection[int], machine: Machine) -> tuple[Schedule | None, float]:
    """The best schedule for sums that have unit stride along another loop than what is multiplied, and what it costs:
    tiles of them are transposed on the way to memory."""
    work = float(prod(map(estimate, statement.extents)))
    terms = prod(estimate(statement.extents[loop]) for loop in statement.loops(LoopKind.REDUCTION))
    lanes, chosen = 1.0, None
    for loop, across in permutations(loops, 2):
        if not stored_across(statement, loop, across) or vector_obstacle(statement, loop, across) is not None:
            continue
        if any(across in access.loops() for access in statement.inputs if loop in access.loops()):
            continue  # no vector would be multiplied for several rows
        width = min(machine.vector_bits // compute_bits(statement, loop), _widest(statement, loop))
        if width < 2:
            continue
        filled = _lanes_filled(statement, loop, width) / (1 + ACROSS_COST * (width.bit_length() - 1) / max(terms, 1))
        if filled > lanes:
            lanes, chosen = filled, _tile(statement, loop, width, across, machine.registers)
    return chosen, work / lanes


def _cost_of_copy(statement: Statement, loop: int, packed: Mapping[int, int]) -> float:
    """How much longer products take with a copy of the columns along `loop`."""
    return 1 + COPIED_ROWS / max(sharing_rows(statement, statement.inputs[packed[loop]], loop), 1)


def _decide_matrices(
    statement: Statement, loops: Collection[int], packed: Mapping[int, int], machine: Machine
) -> Schedule | None:
    """Tiles of matrices, for what the machine has such."""
    product = dot_product(statement)
    if product is None or product.name not in machine.tiles:
        return None
    for loop in loops:
        copied = (packed[loop],) if loop in packed else ()
        if (
            statement.kinds[loop] is not LoopKind.PARALLEL
            or vector_obstacle(statement, loop, packed=copied) is not None
        ):
            continue
        jam = _jam_loop(statement, loop, loops, machine)
        if jam is not None and (tiled := matrix_tiles(statement, loop, jam, machine)) is not None:
            return tiled
    return None


def decide_transposed(statement: Statement, loops: Collection[int], machine: Machine) -> tuple[Schedule | None, float]:
    """The best schedule for inputs that have unit stride along another loop than the outputs, and what it costs."""
    work = float(prod(map(estimate, statement.extents)))
    lanes, chosen = 1.0, None
    for loop, across in permutations(loops, 2):
        # As many vectors lie in registers together, beside what they become.
        largest = min(machine.vector_bits // compute_bits(statement), machine.registers // 2)
        width = min(largest, *(_power_of_two_in(estimate(statement.extents[known])) for known in (loop, across)))
        if width < 2 or statement.kinds[across] is not LoopKind.PARALLEL:
            continue
        if vector_obstacle(statement, loop, across) is not None:
            continue
        filled = _lanes_filled(statement, loop, width) * _lanes_filled(statement, across, width) / width
        filled /= 1 + TRANSPOSED_COST * (width.bit_length() - 1)
        if filled > lanes:
            line = max(machine.line_bits // (width * compute_bits(statement)), 1)
            unroll = min(line, estimate(statement.extents[loop]) // width)
            lanes, chosen = filled, Schedule(loop, width, unroll, across, width)
    return chosen, work / lanes


def _decide_whole_rows(statement: Statement, loops: Collection[int], machine: Machine) -> tuple[Schedule | None, float]:
    """The best schedule with a row for each lane, of rows that are read or written as a whole, and what it costs."""
    if LoopKind.REDUCTION in statement.kinds:
        return None, float(prod(map(estimate, statement.extents)))
    rows = [decide_rows(statement, loop, loops, machine) for loop in loops]
    held = [(schedule, cost) for schedule, cost in rows if schedule is not None and schedule.in_rows(statement)]
    return min(held, key=lambda decision: decision[1], default=(None, float(prod(map(estimate, statement.extents)))))


def decide_rows(
    statement: Statement, vector: int, loops: Collection[int], machine: Machine
) -> tuple[Schedule | None, float]:
    """The schedule with a row for each lane along `vector`, the elements of which are along one of `loops`, and what it
    costs."""
    work = float(prod(map(estimate, statement.extents)))
    width = min(machine.vector_bits // compute_bits(statement), _widest(statement, vector))
    for across in set(loops) & set(statement.loops(LoopKind.PARALLEL)) - {vector}:
        length = statement.extents[across]
        if width < 2 or isinstance(length, Size) or not 1 < length <= LARGEST_TILE:
            continue
        in_rows = row_accesses(statement, vector, across)
        if any(lies_across(access, vector, across) and access not in in_rows for access in statement.inputs):
            continue  # it takes as many iterations as lanes
        if vector_obstacle(statement, vector, across, whole_rows=True) is None:
            cost = work / width * (1 + SHUFFLE_COST * shuffles(length) * len(in_rows))
            return Schedule(vector, width, 1, across, length), cost
    return None, work


def _lanes_filled(statement: Statement, loop: int, width: int) -> float:
    extent = estimate(statement.extents[loop])
    full, left = divmod(extent, width)
    vectors = full + (1 if left else 0)
    if statement.divides_integers():
        if (left or isinstance(statement.extents[loop], Size)) and statement.kinds[loop] is LoopKind.REDUCTION:
            return 0.0
        vectors = full + left
    horizontal = 0.0
    if statement.kinds[loop] is LoopKind.REDUCTION:
        runs = prod(estimate(statement.extents[r]) for r in statement.loops(LoopKind.REDUCTION) if r != loop)
        horizontal = width.bit_length() / max(runs, 1)
    steps = sum(access.stride(loop) is Stride.STEPPED for access in statement.inputs)
    combined = SCAN_COST * (width.bit_length() - 1) if is_scanned(statement, loop) else 0.0
    return extent / (vectors * (1 + STEPPED_COST * steps + combined) + horizontal)


def _prefers(statement: Statement, loop: int, other: int) -> bool:
    """Between equals: parallel loops before others, then the inner one."""
    rank = {LoopKind.PARALLEL: 0, LoopKind.REDUCTION: 1, LoopKind.SEQUENTIAL: 2}
    return (rank[statement.kinds[loop]], -loop) < (rank[statement.kinds[other]], -other)


def _jam_loop(statement: Statement, vector: int, loops: Collection[int], machine: Machine) -> int | None:
    """The parallel loop whose iterations can share most loads: of vectors, then of anything, then, as lanes that are
    combined cannot be jammed along two loops, of what has to be fetched again otherwise, then of what windows overlap
    in, then the longest."""
    if LoopKind.REDUCTION not in statement.kinds:
        return None

    combined = statement.kinds[vector] is LoopKind.REDUCTION

    def shared_loads(loop: int) -> tuple[int, int, int]:
        shared = [access for access in statement.inputs if access.stride(loop) is Stride.INVARIANT]
        streamed = max([batch_bytes(statement, access) for access in shared], default=0) if combined else 0
        large = streamed if streamed > machine.l1 else 0
        return sum(access.stride(vector) is not Stride.INVARIANT for access in shared), len(shared), large

    candidates = [
        loop
        for loop in loops
        if loop != vector
        and statement.kinds[loop] is LoopKind.PARALLEL
        and estimate(statement.extents[loop]) > 1
        and (shared_loads(loop)[1] or _overlapping_taps(statement, vector, loop) is not None)
    ]

    def rank(loop: int) -> tuple[int, ...]:
        extent = estimate(statement.extents[loop])
        side_by_side = any(a.subscripts and loop in a.subscripts[-1].factors for a in statement.inputs)
        overlaps = not combined and _overlapping_taps(statement, vector, loop) is not None
        return *shared_loads(loop), overlaps, min(extent, ENOUGH_ROWS), side_by_side, extent

    return max(candidates, key=rank, default=None)


def _tile(statement: Statement, vector: int, width: int, jam: int | None, registers: int) -> Schedule:
    vectors = max(estimate(statement.extents[vector]) // width, 1)
    if LoopKind.REDUCTION in statement.kinds and statement.kinds[vector] is LoopKind.PARALLEL:
        vectors = -(-estimate(statement.extents[vector]) // width)
    outputs = 1 if statement.selection(vector) else len(statement.outputs)
    if LoopKind.REDUCTION not in statement.kinds:
        return Schedule(vector, width, min(vectors, UNROLLED_STREAM))
    combined = statement.kinds[vector] is LoopKind.REDUCTION
    if jam is None:
        largest = SEPARATE_ROWS if combined else VECTORS_IN_FLIGHT
        return Schedule(vector, width, _even(vectors, max(largest // outputs, 1)))
    rows = estimate(statement.extents[jam])
    taps = _overlapping_taps(statement, vector, jam)
    if taps is not None and not combined:
        room = (registers - WINDOW_REST - estimate(statement.extents[taps])) // (1 + outputs)
        return Schedule(vector, width, 1, jam, _even(rows, max(min(LARGEST_JAM, room), 1)), taps=taps)
    if combined:
        # Each row costs loads of its own, and a horizontal combination whatever the unrolling.
        count = _even(rows, max(VECTORS_IN_FLIGHT // outputs, 1))
        return Schedule(vector, width, _even(vectors, max(VECTORS_IN_FLIGHT // (count * outputs), 1)), jam, count)
    unroll, count = register_tile(vectors, rows, outputs, registers)
    return Schedule(vector, width, unroll, jam, count)


def register_tile(vectors: int, rows: int, outputs: int, registers: int) -> tuple[int, int]:
    """Vectors and rows of the tile that covers `vectors` by `rows` in the least time.

    A step of a tile takes one cycle per product, but no less than it takes to load its vectors from a cache that is not
    the nearest, and what the loop itself costs. What is left at the edges is done in smaller tiles.
    """

    def cost(width: int, height: int) -> float:
        return max(width * height * outputs, VECTOR_LOAD_COST * width) + STEP_COST if width and height else 0.0

    def total(tile: tuple[int, int]) -> float:
        across, along = divmod(vectors, tile[0]), divmod(rows, tile[1])
        widths, heights = ((across[0], tile[0]), (1, across[1])), ((along[0], tile[1]), (1, along[1]))
        return sum(m * n * cost(width, height) for m, width in widths for n, height in heights)

    most, share = (LARGEST_NARROW_JAM, 7) if vectors == NARROW else (LARGEST_JAM, 6)
    tiles = [
        (width, height)
        for width in range(1, min(SEPARATE_ROWS, vectors) + 1)
        for height in range(1, min(most, rows) + 1)
        if width * height * outputs <= registers * share // 8 and width * height * outputs + width + 1 <= registers
    ]
    times = {tile: total(tile) for tile in tiles}
    least = min(times.values(), default=0.0)
    # Between equals the widest: it reads the longest pieces of memory.
    return max((tile for tile, time in times.items() if time <= least * NEARLY_EQUAL), default=(1, 1))


def _overlapping_taps(statement: Statement, vector: int, jam: int) -> int | None:
    """The reduction loop along which windows of neighbouring iterations of `jam` overlap, if there is one."""
    reductions = statement.loops(LoopKind.REDUCTION)
    for access in statement.inputs:
        if access.stride(vector) is Stride.INVARIANT:
            continue
        for subscript in access.subscripts[:-1]:
            step = abs(subscript.factors.get(jam, 0))
            for loop in reductions:
                extent, gap = statement.extents[loop], abs(subscript.factors.get(loop, 0))
                if loop == vector or isinstance(extent, Size) or not 1 < extent <= MOST_TAPS or not step or not gap:
                    continue
                if step % gap == 0 and step // gap < extent:
                    return loop
    return None


def _even(total: int, largest: int) -> int:
    """The size of parts of at most `largest` that divide `total` as evenly as can be."""
    parts = -(-total // largest)
    return -(-total // parts)


def _widest(statement: Statement, loop: int) -> int:
    """Lanes that `loop` can fill, or all but some of a vector if each vector is used by a whole reduction."""
    extent = estimate(statement.extents[loop])
    full = _power_of_two_in(extent)
    is_summed = LoopKind.REDUCTION in statement.kinds and statement.kinds[loop] is LoopKind.PARALLEL
    return 2 * full if is_summed and full < extent and not statement.divides_integers() else full


def _power_of_two_in(number: int) -> int:
    """The largest power of two that is not above `number`; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number else 0
