"""What kernels read across their rows: arguments that lie in memory along a loop that statements share.

    for each row i: m[i] = max x[:, i]        for 16 rows i, all j: t[i, j] = x[j, i]
                                         ->   for each of the rows: m[i] = max t[i, :]

A statement has no lanes along the elements of such a row, and where others have them, as they write rows or read them,
it has none at all: each element is a load of its own, from a line that is gone when the next row wants its neighbour.
`turn_rows` makes a copy, which strips of rows have in tiles that are transposed in registers; all else then has its
lanes along rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.intermediates import Strips, needs
from tenon.lowering.kernels.shared_loops import SharedLoop, has_windows, is_contraction, shared_loops
from tenon.lowering.kernels.statement import LARGEST_STEP, Access, Kernel, LoopKind, Statement, element_type, root_of
from tenon.lowering.kernels.turn_rows import Part
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.lowering.schedules.tile import decide_transposed
from tenon.passes.machine import Machine

LEAST_LENGTH = 8
"""Rows, and elements of a row, from which on tiles fill half of the widest vectors."""
LEAST_GAIN = 1.2
"""Of fewer iterations, that a copy has to bring."""

Decision = tuple[Schedule | None, float]


def rows_across(kernel: Kernel) -> dict[SSAValue, Part]:
    """The arguments that all statements that read them read across the rows that the kernel has in common, and the part
    of each that they read."""
    statements = kernel.statements
    if len(statements) != len(kernel.items) or any(s.body_loads() for s in statements):
        return {}
    if any(is_contraction(statement) or has_windows(statement) for statement in statements):
        return {}
    if all(kind is LoopKind.PARALLEL for statement in statements for kind in statement.kinds):
        return {}  # tiles of what is read are transposed where it is
    shared = shared_loops(kernel) if kernel.runs_together() else None
    others = {alloc.memref for alloc in kernel.intermediates}
    others |= {root_of(output.buffer) for statement in statements for output in statement.outputs}
    found: dict[SSAValue, tuple[SSAValue, Part | None]] = {}
    for number, statement in enumerate(statements):
        rows = statement.loops(LoopKind.PARALLEL) if shared is None else [loop[number] for loop in shared]
        for access in statement.inputs:
            root, read = root_of(access.buffer), (access.buffer, _part_across(statement, access, rows))
            if read[1] is None or found.setdefault(root, read) != read:
                others.add(root)
    return {buffer: part for root, (buffer, part) in found.items() if root not in others and part is not None}


def _part_across(statement: Statement, access: Access, rows: Sequence[int]) -> Part | None:
    """What an access reads of a buffer that has the `rows` of a statement side by side, or a few elements apart, and
    what follows within a row in another dimension; None if it does not."""
    if len(access.shape) < 2 or access.padding is not None or element_type(access.buffer) == i1:
        return None
    *outer, column, row = access.subscripts
    if len(column.factors) != 1 or len(row.factors) != 1:
        return None
    (across, step), (along, distance) = (*row.factors.items(), *column.factors.items())
    loops = [*access.plain_loops()[: len(outer)], along, across]
    if across not in rows or along in rows or len({*loops}) < len(loops) or not 1 <= step <= LARGEST_STEP:
        return None
    sizes = (statement.extents[along], statement.extents[across])
    if any(isinstance(size, Size) or size < LEAST_LENGTH for size in sizes):
        return None
    if any(
        loop is None or statement.extents[loop] != size for loop, size in zip(loops[:-2], access.shape, strict=False)
    ):
        return None
    return Part(sizes, (distance, step), (column.constant, row.constant))


def with_tiles_across(
    kernel: Kernel, shared: Sequence[SharedLoop], own: Sequence[Decision], machine: Machine
) -> list[Decision]:
    """`own`, where statements that have no lanes along their own loops get square tiles that are transposed in
    registers, if what they give stays near for a strip of them."""
    decisions = list(own)
    for loop in shared:
        for number, statement in enumerate(kernel.statements):
            schedule, cost = decisions[number]
            if schedule is not None or LoopKind.REDUCTION in statement.kinds:
                continue
            cut = {known[number] for known in shared if known is not loop}
            inside = [own for own in range(len(statement.extents)) if own not in cut]
            tile, least = decide_transposed(statement, inside, machine)
            if tile is not None and tile.jam == loop[number] and least < cost:
                strips = dict.fromkeys(shared, 1) | {loop: tile.jam_count}
                if _is_near(kernel, statement, strips, machine):
                    decisions[number] = tile, least
    return decisions


def _is_near(kernel: Kernel, statement: Statement, strips: Strips, machine: Machine) -> bool:
    """Whether half of the second cache holds what a statement gives in a strip."""
    given = {output.buffer for output in statement.outputs}
    chosen = [alloc for alloc in kernel.intermediates if alloc.memref in given]
    return sum(estimate(need.bytes) for need in needs(kernel, strips, chosen)) <= machine.l2 // 2
