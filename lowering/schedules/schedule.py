"""`schedule`: decide how each `linalg.generic` of a kernel becomes vectors and register tiles.

Before: the buffered stage. After: the same, with fewer loops where operands are contiguous over several
(`collapse_loops`), with fills and copies as generics where they are not just initial values, and with an attribute
`schedule` (see `loop_schedule`) on each generic that is worth vectors. Text edited by hand keeps its decisions: an
op that has the attribute already is left alone. With `record`, what a tuning record says of kernels of the same
structure on `processor` counts instead of the rule (see `tuning_record`).

The rule: a loop is as good a vector loop as the lanes it fills on average,

    extent / (ceil(extent / width) * stepped + horizontal)
    width = min(vector bits / widest element, extent down to a 2^k)

where `stepped` is more than 1 if elements a few apart are loaded, and `horizontal` what combining the lanes of a
reduction costs for each time the loop runs. Statements that
share outer loops look at their own loops first; where vectors along a shared loop are better for the kernel as a
whole, all take that one. A tile has as many vectors as keep the multipliers busy without leaving registers: up to three
quarters of these where loads can be shared by jamming a second parallel loop (`_register_tile` weighs what is left at
the edges), else `VECTORS_IN_FLIGHT`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from pathlib import Path

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.dot_products import ELEMENTS
from tenon.lowering.kernels.intermediates import intermediates_fit
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import vector_obstacle
from tenon.lowering.kernels.shared_loops import SharedLoop, is_contraction, shared_loops
from tenon.lowering.kernels.statement import (
    Kernel,
    LoopKind,
    Statement,
    Stride,
    read_kernel,
)
from tenon.lowering.schedules.contraction import column_operands, with_cut_panel, with_dots, with_next_rows, with_panels
from tenon.lowering.schedules.rows import batch_bytes, in_row_blocks
from tenon.lowering.schedules.steps import MOST_TAPS, Schedule
from tenon.lowering.schedules.strips import decide_strips, write_strips
from tenon.lowering.schedules.sum_blocks import decide_block, write_block
from tenon.lowering.schedules.tuning_record import Decision, TuningRecord, kernel_key
from tenon.passes.machine import Machine

VECTORS_IN_FLIGHT = 8
"""Independent accumulations that hide the latency of one."""
UNROLLED_STREAM = 2
"""Vectors per iteration of a loop that only streams."""
LARGEST_JAM = 8
"""Rows of a tile: more would share the loads of vectors hardly better."""
STEPPED_COST = 0.5
"""What loading vectors and leaving out some of their elements costs, in iterations."""
TRANSPOSED_COST = 0.1
"""What a shuffle costs, in iterations."""
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


@dataclass(frozen=True)
class SchedulePass(FunctionPass):
    """Write a schedule on every generic that is worth vectors of the `machine` (text, see `Machine`). `vector_bits`,
    with 0 for no vectors, and `dots`, of groups of bf16 and i8, stand for what it says of them."""

    name = "schedule"

    vector_bits: int | None = None
    collapse: bool = True
    dots: tuple[str, ...] | None = None
    record: str = ""
    processor: str = ""
    machine: str = ""

    def change(self, module: ModuleOp) -> Change:
        machine = self._machine()
        if unknown := sorted(set(machine.dots) - set(ELEMENTS)):
            raise ValueError(f"schedule: dots names {', '.join(unknown)}, none of {', '.join(ELEMENTS)}")
        record = TuningRecord.read(Path(self.record)) if self.record else TuningRecord()
        tuned = record.processors.get(self.processor, {})

        def schedule(function: func.FuncOp) -> None:
            try:
                schedule_kernel(function, machine, tuned, collapse=self.collapse)
            except ValueError as error:
                raise ValueError(f"kernel @{function.sym_name.data}: {error}") from error

        return schedule

    def _machine(self) -> Machine:
        machine = Machine.of_option(self.name, self.machine)
        if self.vector_bits is not None:
            Machine.of_option(self.name, f"vector-bits={self.vector_bits}")
            machine = machine.with_vectors(self.vector_bits)
        return machine if self.dots is None else replace(machine, dots=self.dots)


def schedule_kernel(
    function: func.FuncOp,
    machine: Machine,
    tuned: Mapping[str, Decision] | None = None,
    *,
    collapse: bool = True,
) -> None:
    """Decide for one kernel, as `tuned` says where it has its key."""
    pinned = any("schedule" in op.attributes for op in function.body.block.ops)
    if collapse and not pinned:
        collapse_loops(function)  # a pinned schedule names loops by number
    if machine.vector_bits == 0:
        return
    kernel = read_kernel(function)
    decision = tuned.get(kernel_key(function)) if tuned and not pinned else None
    schedules, strips = decide(kernel, machine) if decision is None else decision.of(kernel)
    if strips is not None and not pinned:
        write_strips(function, strips)
    if not pinned and kernel.runs_together() and (shared := shared_loops(kernel.statements)):
        block = decide_block(kernel.statements, shared)
        if block is not None:
            write_block(function, block)
    for statement, schedule in zip(kernel.statements, schedules, strict=True):
        if schedule is not None and "schedule" not in statement.op.attributes:
            statement.op.attributes["schedule"] = schedule.attribute()


def decide(kernel: Kernel, machine: Machine) -> tuple[list[Schedule | None], list[int] | None]:
    """A schedule for each statement, or None where scalars are as good; and the lengths of strips, where they are more
    than what the schedules say."""
    statements = kernel.statements
    shared = shared_loops(statements) if kernel.runs_together() else []
    if not shared:
        tiles = [_decide(s, range(len(s.extents)), machine, panels=True)[0] for s in statements]
        return [
            tile and _with_blocks(statement, tile, machine) for statement, tile in zip(statements, tiles, strict=True)
        ], None
    if any(map(is_contraction, statements)):
        decision = decide_strips(kernel, shared, lambda s, loops: _decide(s, loops, machine, panels=True), machine)
        if decision is not None:
            return decision
    own = [
        _decide(statement, [loop for loop in range(len(statement.extents)) if loop not in used], machine)
        for statement, used in ((s, {known[number] for known in shared}) for number, s in enumerate(statements))
    ]
    best = own
    for loop in shared:
        strips = _decide_strips(kernel, shared, loop, machine)
        if strips is not None and sum(cost for _, cost in strips) < sum(cost for _, cost in best):
            best = strips
    return [schedule for schedule, _ in best], None


def _with_blocks(statement: Statement, tile: Schedule, machine: Machine) -> Schedule:
    """A register tile with what pays around it: blocks of rows, panels, and rows that are fetched ahead."""
    return with_next_rows(statement, with_panels(statement, in_row_blocks(statement, tile, machine), machine), machine)


def _decide_strips(
    kernel: Kernel, shared: Sequence[SharedLoop], chosen: SharedLoop, machine: Machine
) -> list[tuple[Schedule | None, float]] | None:
    """All statements vectorized along a shared loop, in strips whose intermediates fit; None if that cannot be."""
    decisions = [
        _decide(statement, [loop], machine, jam=False)
        for statement, loop in zip(kernel.statements, chosen, strict=True)
    ]
    schedules = [schedule for schedule, _ in decisions if schedule is not None]
    if len(schedules) != len(decisions):
        return None
    width = max(schedule.width for schedule in schedules)
    for vectors in (SEPARATE_ROWS, 2, 1):
        extent = width * vectors
        if extent > estimate(kernel.statements[0].extents[chosen[0]]) and vectors > 1:
            continue
        if intermediates_fit(kernel, {known: extent if known == chosen else 1 for known in shared}):
            return [
                (Schedule(s.vector, s.width, extent // s.width), cost)
                for s, (_, cost) in zip(schedules, decisions, strict=True)
            ]
    return None


def _decide(
    statement: Statement,
    loops: Collection[int],
    machine: Machine,
    *,
    jam: bool = True,
    panels: bool = False,
) -> tuple[Schedule | None, float]:
    """The best schedule that vectorizes and jams only `loops`, and what it costs: iterations per lane. With
    `panels`, inputs may be copied so that a loop can be vectorized, or taken in groups by dot products."""
    work = float(prod(map(estimate, statement.extents)))
    lanes, chosen, packed = 1.0, None, {}
    for loop in loops:
        width = min(machine.vector_bits // compute_bits(statement, loop), _widest(statement, loop))
        packed[loop] = column_operands(statement, loop) if panels else []
        if width < 2 or vector_obstacle(statement, loop, packed=packed[loop]) is not None:
            continue
        filled = _lanes_filled(statement, loop, width)
        if filled > lanes or (filled == lanes and chosen is not None and _prefers(statement, loop, chosen[0])):
            lanes, chosen = filled, (loop, width)
    if chosen is None:
        return _decide_transposed(statement, loops, machine) if jam else (None, work)
    loop, width = chosen
    jammed = _jam_loop(statement, loop, loops, machine) if jam else None
    schedule = _tile(statement, loop, width, jammed, machine.registers)
    if packed[loop]:
        schedule = with_cut_panel(statement, replace(schedule, pack=packed[loop][0]), machine)
    return (with_dots(statement, schedule, machine) if panels else schedule), work / lanes


def _decide_transposed(statement: Statement, loops: Collection[int], machine: Machine) -> tuple[Schedule | None, float]:
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
    return extent / (vectors * (1 + STEPPED_COST * steps) + horizontal)


def _prefers(statement: Statement, loop: int, other: int) -> bool:
    """Between equals: parallel loops before others, then the inner one."""
    rank = {LoopKind.PARALLEL: 0, LoopKind.REDUCTION: 1, LoopKind.SEQUENTIAL: 2}
    return (rank[statement.kinds[loop]], -loop) < (rank[statement.kinds[other]], -other)


def _jam_loop(statement: Statement, vector: int, loops: Collection[int], machine: Machine) -> int | None:
    """The parallel loop whose iterations can share most loads: of vectors, then of anything, then, as lanes that are
    combined cannot be jammed along two loops, of what has to be fetched again otherwise, then the longest."""
    if LoopKind.REDUCTION not in statement.kinds:
        return None

    combined = statement.kinds[vector] is LoopKind.REDUCTION

    def shared_loads(loop: int) -> tuple[int, int, int]:
        shared = [access for access in statement.inputs if access.stride(loop) is Stride.INVARIANT]
        streamed = max([estimate(batch_bytes(statement, access)) for access in shared], default=0) if combined else 0
        large = streamed if streamed > machine.l1 else 0
        return sum(access.stride(vector) is not Stride.INVARIANT for access in shared), len(shared), large

    candidates = [
        loop
        for loop in loops
        if loop != vector
        and statement.kinds[loop] is LoopKind.PARALLEL
        and estimate(statement.extents[loop]) > 1
        and (shared_loads(loop)[1] or overlapping_taps(statement, vector, loop) is not None)
    ]
    return max(candidates, key=lambda loop: (*shared_loads(loop), estimate(statement.extents[loop])), default=None)


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
    taps = overlapping_taps(statement, vector, jam)
    if taps is not None and not combined:
        room = (registers - WINDOW_REST - estimate(statement.extents[taps])) // (1 + outputs)
        return Schedule(vector, width, 1, jam, _even(rows, max(min(LARGEST_JAM, room), 1)), taps=taps)
    if combined:
        # Each row costs loads of its own, and a horizontal combination whatever the unrolling.
        count = _even(rows, max(VECTORS_IN_FLIGHT // outputs, 1))
        return Schedule(vector, width, _even(vectors, max(VECTORS_IN_FLIGHT // (count * outputs), 1)), jam, count)
    unroll, count = _register_tile(vectors, rows, outputs, registers)
    return Schedule(vector, width, unroll, jam, count)


def _register_tile(vectors: int, rows: int, outputs: int, registers: int) -> tuple[int, int]:
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

    tiles = [
        (width, height)
        for width in range(1, min(SEPARATE_ROWS, vectors) + 1)
        for height in range(1, min(LARGEST_JAM, rows) + 1)
        if width * height * outputs <= registers * 3 // 4 and width * height * outputs + width + 1 <= registers
    ]
    times = {tile: total(tile) for tile in tiles}
    least = min(times.values(), default=0.0)
    # Between equals the widest: it reads the longest pieces of memory.
    return max((tile for tile, time in times.items() if time <= least * NEARLY_EQUAL), default=(1, 1))


def overlapping_taps(statement: Statement, vector: int, jam: int) -> int | None:
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
