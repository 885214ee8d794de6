"""Columns of a product that do not fill a vector: the 49 places of an image of 7 x 7 are three vectors and one column.

They are multiplied with lanes along the reduction in place of the columns (`rest`), where that takes less time: each
element of a column then costs a lane of a product, not a vector, and each sum what it takes to combine its lanes. Both
operands lie side by side along the reduction, that of the columns in a panel. It is done for a few rows at a time,
behind the vectors of the same rows, so that these are read once."""

from __future__ import annotations

from dataclasses import replace

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.kernels.footprint import sharing_rows
from tenon.lowering.kernels.obstacles import vector_obstacle
from tenon.lowering.kernels.statement import LoopKind, Statement, Stride
from tenon.lowering.schedules.packing import may_have_panels, only_operand
from tenon.lowering.schedules.rows import MANY_ROWS
from tenon.lowering.schedules.schedule_attribute import Schedule, last_reduction
from tenon.lowering.schedules.tile import register_tile
from tenon.passes.machine import Machine

COMBINED_COST = 16
"""Vectors of products in the time that combining the lanes of one sum takes."""
LEAST_GAIN = 1.05
"""How many times as long vectors with empty lanes have to take: another pass over the rows is not free."""


def with_rest(statement: Statement, schedule: Schedule, machine: Machine) -> Schedule:
    """`schedule`, a register tile whose columns are in a panel or may be, with lanes along the reduction for columns
    that do not fill a vector, where these are few."""
    vector, jam, width = schedule.vector, schedule.jam, schedule.width
    if vector is None or jam is None or statement.kinds[vector] is LoopKind.REDUCTION or width == 1:
        return schedule
    others = (schedule.pack_jam, schedule.jam_block, schedule.rows, schedule.taps, schedule.dot)
    if not may_have_panels(statement) or any(part is not None for part in others):
        return schedule
    columns, rows = only_operand(statement, vector, jam), only_operand(statement, jam, vector)
    if columns is None or rows is None or schedule.pack not in (None, columns):
        return schedule
    if sharing_rows(statement, statement.inputs[columns], vector) < MANY_ROWS:
        return schedule
    if statement.divides_integers():
        return schedule
    summed = last_reduction(statement, columns)
    if summed is None or statement.inputs[rows].stride(summed) is not Stride.UNIT:
        return schedule
    if not _pays(statement.extents[vector], width, statement.extents[summed]):
        return schedule
    if vector_obstacle(statement, summed, packed=(columns,)) is not None:
        return schedule
    unroll, count = register_tile(
        statement.extents[vector] // width, estimate(statement.extents[jam]), len(statement.outputs), machine.registers
    )
    return replace(schedule, unroll=unroll, jam_count=count, pack=columns, rest=summed)


def _pays(columns: int, width: int, terms: int) -> bool:
    if isinstance(columns, Size) or isinstance(terms, Size):
        return False
    full, left = divmod(columns, width)
    combined = left * (terms / width + COMBINED_COST) / terms
    return full > 0 and left > 0 and full + 1 >= LEAST_GAIN * (full + combined)
