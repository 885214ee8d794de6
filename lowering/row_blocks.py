"""Reductions down the columns of long rows, a few rows at a time.

With the reduction innermost, each register tile reads a short piece of every row: the pieces lie a row apart, and the
processor neither fetches ahead nor finds their pages. A schedule with `rows` turns the nest around:

    for each strip of columns                  `strip` iterations of the vector loop; accumulators stay in the L1 cache
      for each block of rows                   `rows` iterations of the reduction
        for each register tile of the strip
          load accumulators; for each row of the block: combine; store accumulators

so that `rows` rows are read in order. With a jammed loop, all its iterations share a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tenon.lowering.kernel_statements import LoopKind, Statement
from tenon.lowering.loop_builder import LoopBuilder, Position, Span, Steps
from tenon.lowering.loop_schedule import Schedule

EmitStatement = Callable[[Statement, Schedule, Sequence[Span]], None]


def emit_row_blocks(
    builder: LoopBuilder, statement: Statement, schedule: Schedule, spans: Sequence[Span], emit: EmitStatement
) -> None:
    """Append the nest of a schedule with `rows`; `emit` appends that of a part without."""
    assert schedule.vector is not None
    assert schedule.rows is not None
    columns, strip = schedule.vector, schedule.strip or spans[schedule.vector].extent
    others = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop not in (columns, schedule.jam)]
    full, left = divmod(spans[columns].extent, strip)
    for steps, extent in ((Steps(0, full, strip), strip), (Steps(full * strip, min(left, 1)), left)):
        ranges = [*(Steps(0, spans[loop].extent) for loop in others), steps]

        def part(positions: list[Position], extent: int = extent) -> None:
            inside = list(spans)
            for loop, position in zip((*others, columns), positions, strict=True):
                inside[loop] = spans[loop].part(position, extent if loop == columns else 1)
            _emit_blocks(builder, statement, schedule, inside, emit)

        builder.parallel(ranges, part)


def _emit_blocks(
    builder: LoopBuilder, statement: Statement, schedule: Schedule, spans: Sequence[Span], emit: EmitStatement
) -> None:
    """The blocks of rows in order: the first begins with the initial values, the others with what is stored."""
    reduction, rows = row_loop(statement), schedule.rows or 1
    plain = replace(schedule, rows=None, strip=None)
    total = spans[reduction].extent
    first = total % rows or rows
    stored = replace(statement, initial=[None] * len(statement.outputs))

    def block(of: Statement, position: Position, extent: int) -> None:
        inside: list[Span] = list(spans)
        inside[reduction] = spans[reduction].part(position, extent)
        emit(of, plain, inside)

    def following(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
        block(stored, position, rows)
        return ()

    block(statement, Position(), first)
    builder.sequential(Steps(first, (total - first) // rows, rows), (), following)


def row_loop(statement: Statement) -> int:
    """The reduction loop whose iterations are blocked: the outermost one."""
    return statement.loops(LoopKind.REDUCTION)[0]
