"""`schedule`: decide how each `linalg.generic` of a kernel becomes vectors and register tiles.

Before: the buffered stage. After: the same, with fewer loops where operands are contiguous over several
(`collapse_loops`), with fills and copies as generics where they are not just initial values, and with an attribute
`schedule` (see `steps`) on each generic that is worth vectors. Text edited by hand keeps its decisions: an
op that has the attribute already is left alone. With `record`, what a tuning record says of kernels of the same
structure on `processor` counts instead of the rule (see `tuning_record`). Of a kernel for few rows (`few-rows`) sizes
are taken for what its attribute says, and no record counts.

Kernels of many short rows get columns in place of these first (`short_rows`), and what lies across rows is copied to
where it lies along them (`rows_across`).
Statements that share loops with a contraction run in strips (`strips`). Others that share loops look at their own loops
first; where vectors along a shared loop are better for the kernel as a whole, all take that one, or those that are
computed once per row do (`row_values`). A statement alone has
a register tile (`tile`), and around it what pays: blocks of rows (`rows`), panels (`packing`), and lanes
along the reduction for columns that fill no vector (`rest`). What is read in pieces is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import prod
from pathlib import Path

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tenon.dialects.types.size import Size, estimate, estimates
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.collapse_loops import collapse_loops
from tenon.lowering.kernels.dot_products import ELEMENTS, dot_product
from tenon.lowering.kernels.intermediates import (
    intermediate_bytes,
    intermediates_fit,
    read_without_padding,
    without_padding,
)
from tenon.lowering.kernels.shared_loops import SharedLoop, has_windows, is_accumulated, is_contraction, shared_loops
from tenon.lowering.kernels.statement import Kernel, Statement, read_kernel
from tenon.lowering.kernels.turn_rows import copy_across, turn_rows
from tenon.lowering.schedules.few_rows import numbers_of
from tenon.lowering.schedules.packing import with_near_windows, with_next_rows, with_panels
from tenon.lowering.schedules.rest import with_rest
from tenon.lowering.schedules.row_values import decide_row_values
from tenon.lowering.schedules.rows import in_row_blocks, with_pieces_ahead
from tenon.lowering.schedules.rows_across import LEAST_GAIN, rows_across, with_tiles_across
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.short_rows import short_rows
from tenon.lowering.schedules.strips import decide_strips, write_strips
from tenon.lowering.schedules.sum_blocks import decide_block, write_block
from tenon.lowering.schedules.tile import SEPARATE_ROWS, decide_rows, decide_tile
from tenon.lowering.tuning_record import Decision, TuningRecord, kernel_key
from tenon.passes.machine import Machine


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
        for fact, names in (("dots", machine.dots), ("tiles", machine.tiles)):
            if unknown := sorted(set(names) - set(ELEMENTS)):
                raise ValueError(f"schedule: {fact} names {', '.join(unknown)}, none of {', '.join(ELEMENTS)}")
        record = TuningRecord.read(Path(self.record)) if self.record else TuningRecord()
        tuned = record.of(self.processor) or {}

        def schedule(function: func.FuncOp) -> None:
            numbers = numbers_of(function)
            try:
                with estimates(numbers):
                    schedule_kernel(function, machine, {} if numbers else tuned, collapse=self.collapse)
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
    # A pinned schedule names loops by number.
    is_prepared = collapse and not pinned
    kernel = prepare_kernel(function, machine) if is_prepared else read_without_padding(function)
    if machine.vector_bits == 0:
        return
    decision = decision_for(kernel, machine, tuned) if tuned and not pinned else None
    schedules, strips = decide(kernel, machine) if decision is None else measured(decision, kernel)
    if strips is not None and not pinned:
        write_strips(function, strips)
    if not pinned and (shared := shared_loops(kernel)):
        block = decide_block(kernel.statements, shared)
        if block is not None:
            write_block(function, block)
    for statement, schedule in zip(kernel.statements, schedules, strict=True):
        if schedule is not None and "schedule" not in statement.op.attributes:
            statement.op.attributes["schedule"] = schedule.attribute()


def decision_for(kernel: Kernel, machine: Machine, tuned: Mapping[str, Decision]) -> Decision | None:
    """What a record says of a kernel, if the machine has the tiles that it asks for."""
    decision = tuned.get(kernel_key(kernel.function))
    if decision is None:
        return None
    schedules, _ = measured(decision, kernel)
    return decision if all(map(_may_use_tiles, kernel.statements, schedules, repeat(machine))) else None


def measured(decision: Decision, kernel: Kernel) -> tuple[list[Schedule | None], list[int] | None]:
    """What `decide` gives, as a tuning record says. Raises `ValueError` where the decision is not for such a kernel."""
    if len(decision.schedules) != len(kernel.statements):
        raise ValueError(
            f"tuning record: {len(decision.schedules)} schedules for a kernel of {len(kernel.statements)} generics"
        )
    try:
        schedules = [None if entries is None else Schedule(**entries) for entries in decision.schedules]
    except TypeError as error:
        raise ValueError(f"tuning record: {decision.kernel}: {error}") from None
    return schedules, None if decision.strips is None else list(decision.strips)


def _may_use_tiles(statement: Statement, schedule: Schedule | None, machine: Machine) -> bool:
    """Whether the machine has the tiles of a schedule that was found on one of the same name."""
    product = dot_product(statement) if schedule is not None and schedule.tile is not None else None
    return product is None or product.name in machine.tiles


def prepare_kernel(function: func.FuncOp, machine: Machine) -> Kernel:
    """Give a kernel the loops that decisions are for: fewer where they collapse, and columns in place of short rows
    where these are slower and each statement can have lanes along rows then. What the kernel is now."""
    before = collapse_loops(function) or read_kernel(function)
    kernel = without_padding(before)
    if machine.vector_bits == 0 or kernel is not before:
        return kernel
    values: dict[SSAValue, SSAValue] = {}
    if buffers := short_rows(kernel, machine):
        clone = function.clone(values)
        turn_rows(read_kernel(clone), [values[buffer] for buffer in buffers])
        trial = read_without_padding(clone)
        shared = shared_loops(trial)
        if any(map(is_contraction, trial.statements)):
            strips = decide_strips(trial, shared, machine)
            suits = strips is not None and None not in strips[0]
        else:
            suits = any(not isinstance(_decide_along(trial, shared, loop, machine), str) for loop in shared)
    elif parts := rows_across(kernel):
        clone = function.clone(values)
        copy_across(read_kernel(clone), {values[buffer]: part for buffer, part in parts.items()})
        trial = read_without_padding(clone)
        suits = _best_way(trial, machine).cost * LEAST_GAIN < _best_way(kernel, machine).cost
    else:
        return kernel
    if not suits:
        return kernel
    function.detach_region(function.body)
    function.add_region(trial.function.detach_region(trial.function.body))
    return replace(trial, function=function)


def decide(kernel: Kernel, machine: Machine) -> tuple[list[Schedule | None], list[int] | None]:
    """A schedule for each statement, or None where scalars are as good; and the lengths of strips, where they are more
    than what the schedules say."""
    way = _best_way(kernel, machine)
    pairs = zip(kernel.statements, way.schedules, strict=True)
    schedules = [schedule and with_pieces_ahead(statement, schedule, machine) for statement, schedule in pairs]
    return schedules, way.strips


@dataclass(frozen=True)
class Way:
    """A way for all statements of a kernel to run: what `decide` gives, but for what single rows fetch ahead, and what
    that costs, in iterations of vectors. Strips for products are not compared with others: they cost nothing."""

    schedules: list[Schedule | None]
    strips: list[int] | None
    cost: float

    @staticmethod
    def of(decisions: Sequence[tuple[Schedule | None, float]]) -> Way:
        """Of a schedule for each statement, with what it costs."""
        return Way([schedule for schedule, _ in decisions], None, sum(cost for _, cost in decisions))


def _best_way(kernel: Kernel, machine: Machine) -> Way:
    return best_of(ways(kernel, machine))[1]


def best_of(found: Mapping[str, Way | str]) -> tuple[str, Way]:
    """The first of those ways that cost least, with its name."""
    return min(((name, way) for name, way in found.items() if isinstance(way, Way)), key=lambda pair: pair[1].cost)


def ways(kernel: Kernel, machine: Machine) -> dict[str, Way | str]:
    """The ways that there are by name, or what is against them."""
    shared, statements = shared_loops(kernel), kernel.statements
    if not shared:
        return {"each statement alone": Way.of([_decide_alone(statement, machine) for statement in statements])}
    decision = decide_strips(kernel, shared, machine)
    if decision is not None:
        return {"strips": Way(*decision, 0.0)}
    own = with_tiles_across(kernel, shared, _decide_beside(statements, shared, machine), machine)
    found: dict[str, Way | str] = {
        "strips": "no contraction has a tile along loops that all statements share",
        "own loops": Way.of(own),
    }
    if (whole := _decide_whole_sums(kernel, shared, machine)) is not None:
        found["whole sums"] = whole
    for loop in shared:
        along = _decide_along(kernel, shared, loop, machine)
        found[f"shared loop {loop[0]}"] = along if isinstance(along, str) else Way.of(along)
    if best_of(found)[0] == "own loops":
        schedules = [schedule for schedule, _ in own]
        if (mixed := decide_row_values(kernel, shared, schedules, machine)) is not None:
            found = {"row values": Way(mixed, None, Way.of(own).cost), **found}
    return found


def _decide_whole_sums(kernel: Kernel, shared: Sequence[SharedLoop], machine: Machine) -> Way | None:
    """Each statement with vectors along any loop but those that are parallel in all of them, in strips as long as what
    a contraction adds up over, where what one leaves for the next stays near."""
    statements = kernel.statements
    if not any(is_contraction(statement) or has_windows(statement) for statement in statements):
        return None
    lengths = [statements[0].extents[loop[0]] if is_accumulated(statements, loop) else 1 for loop in shared]
    if all(length == 1 for length in lengths) or any(isinstance(length, Size) for length in lengths):
        return None
    # What these iterations pass on, as numbers of 4 bytes, takes an eighth of a core's cache.
    if prod(lengths) > machine.l2 // 32:
        return None
    if intermediate_bytes(kernel, dict(zip(shared, lengths, strict=True))) > machine.l2 // 4:
        return None
    parallel = [loop for loop, length in zip(shared, lengths, strict=True) if length == 1]
    return replace(Way.of(_decide_beside(statements, parallel, machine)), strips=lengths)


def _decide_beside(
    statements: Sequence[Statement], shared: Sequence[SharedLoop], machine: Machine
) -> list[tuple[Schedule | None, float]]:
    """A tile for each statement, with vectors along any of its loops but these, and what it costs."""
    used = [{loop[number] for loop in shared} for number in range(len(statements))]
    return [
        decide_tile(statement, [loop for loop in range(len(statement.extents)) if loop not in own], machine)
        for statement, own in zip(statements, used, strict=True)
    ]


def _decide_alone(statement: Statement, machine: Machine) -> tuple[Schedule | None, float]:
    """A register tile, and what pays around it (blocks of rows, panels, rows that are fetched ahead); what it costs."""
    tile, cost = decide_tile(statement, range(len(statement.extents)), machine, panels=True)
    if tile is None:
        return None, cost
    blocked = with_panels(statement, in_row_blocks(statement, tile, machine), machine)
    blocked = with_near_windows(statement, blocked, machine)
    return with_next_rows(statement, with_rest(statement, blocked, machine), machine), cost


def _decide_along(
    kernel: Kernel, shared: Sequence[SharedLoop], chosen: SharedLoop, machine: Machine
) -> list[tuple[Schedule | None, float]] | str:
    """All statements vectorized along a shared loop, in strips whose intermediates fit, or what is against that."""
    decisions: list[tuple[Schedule | None, float]] = []
    for number, (statement, loop) in enumerate(zip(kernel.statements, chosen, strict=True)):
        tile, cost = decide_tile(statement, [loop], machine, jam=False, gathers=True)
        cut = {known[number] for known in shared}
        if tile is None:
            decisions.append(decide_rows(statement, loop, set(range(len(statement.extents))) - cut, machine))
        else:
            decisions.append((in_row_blocks(statement, tile, machine, cut), cost))
    schedules = [schedule for schedule, _ in decisions if schedule is not None]
    if len(schedules) != len(decisions):
        numbers = [number for number, (schedule, _) in enumerate(decisions) if schedule is None]
        return f"no lanes along it for statement {', '.join(map(str, numbers))}"
    width = max(schedule.width for schedule in schedules)
    streamed = max(schedule.strip or 0 for schedule in schedules)
    for extent in (*[streamed][: streamed > 0], *[width * vectors for vectors in (SEPARATE_ROWS, 2, 1)]):
        if width < extent > estimate(kernel.statements[0].extents[chosen[0]]):
            continue
        if intermediates_fit(kernel, {known: extent if known == chosen else 1 for known in shared}):
            unroll = min(extent // width, SEPARATE_ROWS)
            return [
                (_in_strip(schedule, extent, unroll), cost)
                for schedule, (_, cost) in zip(schedules, decisions, strict=True)
            ]
    return "what one statement leaves for the next in a strip does not stay near"


def _in_strip(schedule: Schedule, extent: int, unroll: int) -> Schedule:
    """`schedule` in a strip of `extent` iterations, in tiles of `unroll` vectors unless it has its own."""
    has_own = schedule.jam is not None or schedule.strip == extent
    return schedule if has_own else Schedule(schedule.vector, schedule.width, unroll)
