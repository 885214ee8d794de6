"""Blocks around the register tiles of one statement, and the panels that they share.

    parallel over loops that a packed input depends on, blocks of `jam`, and, unless `pack_jam`, tiles of `vector`:
      for blocks of the outermost reduction loop:
        copy the block of input `pack_jam` to a panel
        for tiles of `vector`, if `pack_jam`:
          copy the tile of input `pack` to a panel
          the register tiles of `nest` over what is left

With `rest`, columns that do not fill a vector have a panel of their own, and for each few rows the register tiles are
followed by sums whose lanes are along a reduction.

Between blocks of a reduction the outputs hold partial sums, so the initial values are stored first. Blocks that do not
come out even have nests of their own, so that every bound is a constant.

Where instructions multiply matrices, a copy of columns takes longer than the products of many rows; it is made once:

    parallel over loops that the columns depend on:
      for parts of `pack_block` columns, in order:
        copy the part of input `pack` to a panel
        parallel over blocks of `vector_block` columns and `jam_block` rows:
          copy the block of input `pack_jam` to a panel
          the tiles of `nest` over what is left
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from tenon.lowering.kernels.dot_products import dot_product
from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps, rest_steps
from tenon.lowering.nests.body import Buffer, Panel
from tenon.lowering.nests.group_panels import GroupPanelLoops
from tenon.lowering.nests.matrix_tiles import starts_from_zero
from tenon.lowering.nests.nest import emit_initial_values, emit_statement
from tenon.lowering.nests.panels import PanelLoops
from tenon.lowering.schedules.schedule_attribute import Schedule


@dataclass(frozen=True)
class _Blocks:
    """`steps` along `loop`, each of `size` iterations."""

    loop: int
    steps: Steps
    size: int


def emit_blocks(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule | None,
    spans: Sequence[Span],
    buffers: dict[SSAValue, Buffer],
    panels: dict[int, Panel] | None = None,
) -> None:
    """Append the loops of `statement` over `spans`, one per loop, to the current block. `panels` that are there
    already hold the columns of all `spans`."""
    empty = any(spans[loop].extent == 0 for loop in statement.loops(LoopKind.REDUCTION))
    single = any((place := buffers.get(output.buffer)) and place.memref is None for output in statement.outputs)
    if schedule is not None and schedule.tile is not None and (empty or single):
        schedule = None
    if schedule is None or not schedule.blocked or empty:
        emit_statement(builder, statement, schedule, spans, buffers)
    else:
        if single:
            schedule = replace(schedule, block=None)  # a value in a register holds no partial sums
        loops = _BlockLoops(builder, statement, schedule, buffers)
        if schedule.tile is None:
            loops.emit(spans)
        elif panels:
            loops.emit_matrix_blocks(spans, panels)
        else:
            loops.emit_matrices(spans)


def packed_columns(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule,
    spans: Sequence[Span],
    buffers: dict[SSAValue, Buffer],
    use: Callable[[list[Span], dict[int, Panel]], None],
) -> None:
    """Append, for all parts of `pack_block` columns in order, a copy of the columns that tiles multiply, and what `use`
    appends given what a part spans and its panel. Of other loops that they depend on, `spans` has one iteration."""
    _BlockLoops(builder, statement, schedule, buffers).pack_parts(spans, use)


class _BlockLoops:
    def __init__(
        self, builder: LoopBuilder, statement: Statement, schedule: Schedule, buffers: dict[SSAValue, Buffer]
    ) -> None:
        self.builder = builder
        self.statement = statement
        self.schedule = schedule
        self.buffers = buffers
        self.reduction = statement.loops(LoopKind.REDUCTION)[0]

    def emit(self, spans: Sequence[Span]) -> None:
        schedule, statement = self.schedule, self.statement
        used = {loop for number in schedule.packed for loop in statement.inputs[number].loops()}
        outer = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop in used - {schedule.vector, schedule.jam}]
        around = [_Blocks(loop, Steps(0, spans[loop].extent), 1) for loop in outer]
        tiles = [[]] if schedule.pack_jam is not None else self.tiles(spans)
        blocks = [
            [*around, *rows, *columns] for rows in _blocks(spans, schedule.jam, schedule.jam_block) for columns in tiles
        ]
        # A block with a copy of its own can run beside others as a loop, be it of one iteration.
        is_loop = len(blocks) > 1 and schedule.pack is not None
        nest = partial(self.nest, is_loop=is_loop)
        self.builder.side_by_side([partial(nest, block, spans, self.reduce) for block in blocks])

    def tiles(self, spans: Sequence[Span]) -> list[list[_Blocks]]:
        """The vector loop in tiles, if anything is shared by those along another loop."""
        schedule = self.schedule
        if schedule.pack is None or schedule.vector is None:
            return [[]]
        extent, size = spans[schedule.vector].extent, schedule.width * schedule.unroll
        left = 0 if schedule.rest is None else extent % schedule.width
        if not left:
            return _blocks(spans, schedule.vector, size)
        # What does not fill a vector goes with the last tile, which reads the same rows.
        before = max((extent - left - 1) // size, 0)
        parts = ((Steps(0, before, size), size), (Steps(before * size, 1), extent - before * size))
        return [[_Blocks(schedule.vector, steps, count)] for steps, count in parts if steps.count]

    def nest(
        self,
        blocks: Sequence[_Blocks],
        spans: Sequence[Span],
        leaf: Callable[[list[Span]], None],
        *,
        is_loop: bool = False,
    ) -> None:
        """Parallel loops over `blocks` around `leaf`, which is given what one iteration spans."""

        def inside(positions: list[Position]) -> None:
            inner = list(spans)
            for block, position in zip(blocks, positions, strict=True):
                inner[block.loop] = spans[block.loop].part(position, block.size)
            leaf(inner)

        self.builder.parallel([block.steps for block in blocks], inside, is_loop=is_loop)

    def reduce(self, spans: list[Span]) -> None:
        """All blocks of the reduction, in order."""
        parts = [part for blocks in _blocks(spans, self.reduction, self.schedule.block) for part in blocks]
        if not parts or (len(parts) == 1 and parts[0].steps.is_single):
            self.pack_rows(self.statement, spans)
            return
        later = replace(self.statement, initial=[None] * len(self.statement.outputs))
        if any(value is not None for value in self.statement.initial):
            emit_initial_values(self.builder, self.statement, self.schedule, spans, self.buffers)
        for part in parts:

            def body(position: Position, _: list[SSAValue], size: int = part.size) -> Sequence[SSAValue]:
                inner = list(spans)
                inner[self.reduction] = spans[self.reduction].part(position, size)
                self.pack_rows(later, inner)
                return ()

            self.builder.sequential(part.steps, (), body)

    def pack_rows(self, statement: Statement, spans: list[Span]) -> None:
        schedule = self.schedule
        if schedule.pack_jam is None or schedule.jam is None:
            self.pack_columns(statement, spans, {})
            return
        panel = self.pack(statement, schedule.pack_jam, schedule.jam, spans)
        panels = {schedule.pack_jam: panel}

        def columns_inside(inner: list[Span]) -> None:
            self.pack_columns(statement, inner, panels)

        self.builder.side_by_side([partial(self.nest, columns, spans, columns_inside) for columns in self.tiles(spans)])
        self.release(panel)

    def pack_columns(self, statement: Statement, spans: list[Span], panels: dict[int, Panel]) -> None:
        number, loop = self.schedule.pack, self.schedule.vector
        if number is None or loop is None:
            emit_statement(self.builder, statement, self.schedule, spans, self.buffers, panels)
            return
        if self.schedule.rest is not None and spans[loop].extent % self.schedule.width:
            self.pack_with_rest(statement, spans, number)
            return
        panel = self.pack(statement, number, loop, spans)
        emit_statement(self.builder, statement, self.schedule, spans, self.buffers, {**panels, number: panel})
        self.release(panel)

    def pack_with_rest(self, statement: Statement, spans: list[Span], number: int) -> None:
        """The columns that fill vectors, and beside them, for the same few rows, those that do not: with lanes along
        the reduction `rest`."""
        schedule, loop = self.schedule, self.schedule.vector
        assert loop is not None
        left = spans[loop].extent % schedule.width
        full = spans[loop].extent - left
        combined = Schedule(schedule.rest, schedule.width, 1, schedule.jam, schedule.jam_count)
        parts: list[tuple[Schedule, Span, Panel]] = []
        for along, start, count in ((schedule, 0, full), (combined, full, left)):
            if count:
                columns = spans[loop].part(Position((), start), count)
                panel = self.pack(statement, number, loop, _with(spans, loop, columns), is_row=along is combined)
                parts.append((along, columns, panel))

        def rows(inner: list[Span]) -> None:
            for along, columns, panel in parts:
                emit_statement(
                    self.builder, statement, along, _with(inner, loop, columns), self.buffers, {number: panel}
                )

        blocks = _blocks(spans, schedule.jam, schedule.jam_count)
        self.builder.side_by_side([partial(self.nest, block, spans, rows) for block in blocks])
        for _, _, panel in parts:
            self.release(panel)

    def emit_matrices(self, spans: Sequence[Span]) -> None:
        """The nest of tiles, with a copy of the columns in front of all blocks."""
        statement, columns = self.statement, self.schedule.pack
        assert columns is not None
        used = statement.inputs[columns].loops() - {self.schedule.vector}
        outer = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop in used]
        around = [_Blocks(loop, Steps(0, spans[loop].extent), 1) for loop in outer]
        self.nest(around, spans, lambda inner: self.pack_parts(inner, self.emit_matrix_blocks))

    def pack_parts(self, spans: Sequence[Span], use: Callable[[list[Span], dict[int, Panel]], None]) -> None:
        """See `packed_columns`."""
        schedule, number, loop = self.schedule, self.schedule.pack, self.schedule.vector
        assert number is not None
        assert loop is not None
        for (part,) in _blocks(spans, loop, schedule.pack_block or spans[loop].extent):

            def body(position: Position, _: list[SSAValue], size: int = part.size) -> Sequence[SSAValue]:
                inner = list(spans)
                inner[loop] = spans[loop].part(position, size)
                panel = self.pack(self.statement, number, loop, inner)
                use(inner, {number: panel})
                self.release(panel)
                return ()

            self.builder.sequential(part.steps, (), body)

    def emit_matrix_blocks(self, spans: Sequence[Span], panels: dict[int, Panel]) -> None:
        """Blocks of rows and columns, whose columns are in `panels`."""
        schedule = self.schedule
        columns, rows = (
            _blocks(spans, loop, size)
            for loop, size in ((schedule.vector, schedule.vector_block), (schedule.jam, schedule.jam_block))
        )

        taken = set() if schedule.pack_jam is None else self.statement.inputs[schedule.pack_jam].loops()
        others = [loop for loop in self.statement.loops(LoopKind.PARALLEL) if loop in taken - {schedule.jam}]
        single = [_Blocks(loop, Steps(0, spans[loop].extent), 1) for loop in others]

        def block(inner: list[Span]) -> None:
            statement = self.statement
            if not starts_from_zero(statement) and statement.initial != [None]:
                emit_initial_values(self.builder, statement, schedule, inner, self.buffers)
                statement = replace(statement, initial=[None])
            own = dict(panels)
            if schedule.pack_jam is not None and schedule.jam is not None:
                own[schedule.pack_jam] = self.pack(statement, schedule.pack_jam, schedule.jam, inner)
            emit_statement(self.builder, statement, schedule, inner, self.buffers, own)
            for number in own.keys() - panels.keys():
                self.release(own[number])

        parts = [[*single, *along, *across] for along in columns for across in rows]
        self.builder.side_by_side([partial(self.nest, part, spans, block) for part in parts])

    def pack(
        self, statement: Statement, number: int, loop: int, spans: Sequence[Span], *, is_row: bool = False
    ) -> Panel:
        width, is_row = self.schedule.width, is_row or loop == self.schedule.jam
        if self.schedule.dot is None:
            return PanelLoops(self.builder, statement, number, loop, width, spans, self.buffers, is_row=is_row).emit()
        tile, loops = self.schedule.tile, (self.schedule.dot, loop)
        product = dot_product(statement, tiles=tile is not None)
        assert product is not None
        panel = GroupPanelLoops(
            self.builder, statement, product, number, loops, width, spans, self.buffers, is_row=is_row, tile=tile or 1
        )
        return panel.emit()

    def release(self, panel: Panel) -> None:
        for memory in (panel.memref, panel.corrections):
            if memory is not None:
                self.builder.add(memref.DeallocOp.create(operands=(memory,)))


def _with(spans: Sequence[Span], loop: int, own: Span) -> list[Span]:
    return [own if number == loop else span for number, span in enumerate(spans)]


def _blocks(spans: Sequence[Span], loop: int | None, size: int | None) -> list[list[_Blocks]]:
    """A loop in blocks of `size` and what is left of it, each to be a nest of its own; nothing without a size."""
    if loop is None or size is None:
        return [[]]
    full, left = divmod(spans[loop].extent, size)
    parts = [_Blocks(loop, Steps(0, full, size), size), _Blocks(loop, rest_steps(full * size, left, size), left)]
    return [[part] for part in parts if part.steps.count != 0]
