"""What a kernel computes once per row: in lanes across rows, while the rows themselves have lanes along their elements.

A product with a vector, or any other reduction of rows, gives a number per row, of which the kernel may take functions
(a logistic loss, the logarithm of a softmax). Inside of the loop over rows these run one at a time, each instruction
behind the one before: an exponential takes as long as a row of hundreds of elements. In strips of a few vectors of rows
the reductions run row by row, or several rows at once where these share an operand, and then the functions, a row in
each lane.

What several statements read of a strip has to be in the nearest cache when the next one comes to it. That, and whether
what is saved shows beside what the rows cost, decides: where rows are read once more behind the functions, they come
from farther away than one that was just read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.intermediates import intermediates_fit
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.shared_loops import SharedLoop, is_accumulated
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.short_rows import columns_cost, rows_cost
from tenon.lowering.schedules.tile import SEPARATE_ROWS, decide_tile
from tenon.passes.machine import Machine

LEAST_SHARE, LEAST_SHARE_AGAIN = 0.1, 0.2
"""Of a kernel's instructions, which lanes across rows have to save; the same where rows are read again."""


def decide_row_values(
    kernel: Kernel, shared: Sequence[SharedLoop], own: Sequence[Schedule | None], machine: Machine
) -> list[Schedule | None] | None:
    """Schedules of strips along one shared loop, in which statements that have no lanes of their `own` take a row each;
    None where it is better to finish one row after another."""
    found = (_along(kernel, shared, own, loop, machine) for loop in reversed(shared))
    return next((schedules for schedules in found if schedules is not None), None)


def _along(
    kernel: Kernel, shared: Sequence[SharedLoop], own: Sequence[Schedule | None], rows: SharedLoop, machine: Machine
) -> list[Schedule | None] | None:
    statements = kernel.statements
    jammed = _jammed_rows(statements, shared, own, rows, machine)
    found = across_rows(statements, shared, own, rows, machine, least=0.0 if jammed else LEAST_SHARE)
    width = max([schedule.width for schedule in found.values()], default=0)
    found |= jammed if width else {}
    for vectors in (SEPARATE_ROWS, 2, 1) if width else ():
        length = width * vectors
        strips = {loop: length if loop == rows else 1 for loop in shared}
        fits = length <= statements[0].extents[rows[0]] and intermediates_fit(kernel, strips)
        if fits and _are_near(statements, shared, strips, machine):
            tiles = {n: s if s.jam is not None else replace(s, unroll=length // s.width) for n, s in found.items()}
            return [tiles.get(number, schedule) for number, schedule in enumerate(own)]
    return None


def _jammed_rows(
    statements: Sequence[Statement],
    shared: Sequence[SharedLoop],
    own: Sequence[Schedule | None],
    rows: SharedLoop,
    machine: Machine,
) -> dict[int, Schedule]:
    """Schedules of several rows at once for the statements that add up along rows and read an operand again for each,
    as a product with a vector does: it is loaded once for all of them."""
    found: dict[int, Schedule] = {}
    for number, (statement, schedule) in enumerate(zip(statements, own, strict=True)):
        again = [access for access in statement.inputs if access.loops() and rows[number] not in access.loops()]
        if schedule is None or schedule.jam is not None or schedule.vector is None or not again:
            continue
        if statement.kinds[schedule.vector] is not LoopKind.REDUCTION or not _are_followed(
            statement, schedule, machine
        ):
            continue
        cut = {loop[number] for loop in shared if loop != rows}
        inside = [loop for loop in range(len(statement.extents)) if loop not in cut]
        tile, _ = decide_tile(statement, inside, machine)
        if tile is not None and (tile.vector, tile.jam) == (schedule.vector, rows[number]):
            found[number] = tile
    return found


def _are_followed(statement: Statement, schedule: Schedule, machine: Machine) -> bool:
    """Whether rows can as well be read side by side: they are near, or long; of short ones that come from afar the
    processor foresees the next if that follows in memory."""
    size = compute_bits(statement) // 8
    row = estimate(statement.extents[schedule.vector or 0]) * size
    return row >= machine.page // 4 or prod(map(estimate, statement.extents)) * size <= machine.l2 // 2


def across_rows(
    statements: Sequence[Statement],
    shared: Sequence[SharedLoop],
    own: Sequence[Schedule | None],
    rows: SharedLoop,
    machine: Machine,
    least: float = LEAST_SHARE,
) -> dict[int, Schedule]:
    """Schedules with a row in each lane for the statements that have none of their `own`; empty where that saves less
    than this share."""
    count = statements[0].extents[rows[0]]
    if isinstance(count, Size) or is_accumulated(statements, rows):
        return {}
    found: dict[int, Schedule] = {}
    saved = total = 0.0
    for number, (statement, schedule) in enumerate(zip(statements, own, strict=True)):
        in_rows = rows_cost(statement, (count,), machine, alone=False)
        total += in_rows
        if schedule is None:
            cut = {loop[number] for loop in shared if loop != rows}
            inside = [loop for loop in range(len(statement.extents)) if loop not in cut]
            tile, _ = decide_tile(statement, inside, machine)
            if tile is not None and tile.vector == rows[number]:
                found[number] = tile
                saved += in_rows - columns_cost(statement, machine)
    share = LEAST_SHARE_AGAIN if _reads_rows_again(statements, rows, found) else least
    return found if saved >= share * total else {}


def _reads_rows_again(statements: Sequence[Statement], rows: SharedLoop, across: Collection[int]) -> bool:
    """Whether statements on both sides of one of those `across` rows use the elements of the same rows."""
    found: dict[object, int] = {}
    for number, statement in enumerate(statements):
        side = sum(other < number for other in across)
        for access in statement.accesses:
            if access.loops() > {rows[number]} and found.setdefault(access.buffer, side) != side:
                return True
    return False


def _are_near(
    statements: Sequence[Statement], shared: Sequence[SharedLoop], strips: dict[SharedLoop, int], machine: Machine
) -> bool:
    """Whether half of the nearest cache holds what more than one statement uses in a strip."""
    sizes: dict[object, int] = {}
    uses: dict[object, set[int]] = {}
    for number, statement in enumerate(statements):
        lengths = {loop[number]: strips[loop] for loop in shared}
        for access in statement.accesses:
            extents = [lengths.get(loop, estimate(statement.extents[loop])) for loop in access.loops()]
            uses.setdefault(access.buffer, set()).add(number)
            sizes[access.buffer] = max(sizes.get(access.buffer, 0), prod(extents) * access.element_bytes)
    return sum(size for buffer, size in sizes.items() if len(uses[buffer]) > 1) <= machine.l1 // 2
