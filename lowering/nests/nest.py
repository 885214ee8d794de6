"""The loop nest of one statement, scalar or tiled as its schedule says: lanes write different elements
(`separate_lanes`), or are combined into one (`combined_lanes`, `argument_reduction`), or with those before them
(`scanned_lanes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tenon.lowering.kernels.obstacles import is_scanned
from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.loop_ir.builder import LoopBuilder, Span
from tenon.lowering.nests.argument_reduction import emit_selected_lanes
from tenon.lowering.nests.body import Buffer, Panel
from tenon.lowering.nests.combined_lanes import CombinedLanes
from tenon.lowering.nests.row_blocks import emit_row_blocks
from tenon.lowering.nests.scanned_lanes import ScannedLanes
from tenon.lowering.nests.separate_lanes import SeparateLanes
from tenon.lowering.nests.statement_loops import StatementLoops
from tenon.lowering.schedules.schedule_attribute import Schedule


def emit_statement(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule | None,
    spans: Sequence[Span],
    buffers: dict[SSAValue, Buffer],
    panels: Mapping[int, Panel] | None = None,
) -> None:
    """Append the loops of `statement` over `spans`, one per loop, to the current block. Inputs that have one of the
    `panels` are read from there; blocks that the schedule asks for are `emit_blocks`'."""
    if schedule is not None and schedule.rows is not None:

        def emit_part(
            part: Statement, schedule: Schedule, spans: Sequence[Span], places: Mapping[SSAValue, Buffer]
        ) -> None:
            emit_statement(builder, part, schedule, spans, {**buffers, **places})

        emit_row_blocks(builder, statement, schedule, spans, emit_part, buffers)
        return
    vector = None if schedule is None else schedule.vector
    if schedule is not None and vector is not None and is_scanned(statement, vector):
        ScannedLanes(builder, statement, schedule, spans, buffers, panels).emit()
    elif vector is None or statement.kinds[vector] is not LoopKind.REDUCTION:
        SeparateLanes(builder, statement, schedule, spans, buffers, panels).emit()
    elif (selection := statement.selection(vector)) is None:
        CombinedLanes(builder, statement, schedule, spans, buffers, panels).emit()
    else:
        emit_selected_lanes(StatementLoops(builder, statement, schedule, spans, buffers, panels), selection)


def emit_initial_values(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule,
    spans: Sequence[Span],
    buffers: dict[SSAValue, Buffer],
) -> None:
    """Append loops that store what the outputs of `statement` hold before its reduction, in tiles as it has them."""
    SeparateLanes(builder, statement, schedule, spans, buffers, None).emit_initial()
