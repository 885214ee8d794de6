"""Reductions down the columns of long rows, a few rows at a time.

With the reduction innermost, each register tile reads a short piece of every row: the pieces lie a row apart, and the
processor neither fetches ahead nor finds their pages. A schedule with `rows` turns the nest around:

    for each strip of columns                  `strip` iterations of the vector loop; accumulators stay in the L1 cache
      for each block of rows                   `rows` iterations of the reduction
        for each register tile of the strip
          load accumulators; for each row of the block: combine; store accumulators

so that `rows` rows are read in order. With a jammed loop, all its iterations share a block.

Long sums of floats are added up in groups of blocks, each in accumulators of its own that begin with nothing, so that
errors stay small (see `block_sums`).

With `split`, threads share the rows: parts of `split` iterations of the reduction have accumulators of their own, each,
which are combined in the order of the parts, so that the result does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isqrt

from xdsl.dialects import linalg, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.families.linalg_builders import generic_op
from tenon.dialects.families.monoid import ADD_FLOATS, Monoid, combining_monoid
from tenon.lowering.kernels.statement import (
    Access,
    LoopKind,
    Statement,
    adding,
    buffer_shape,
    element_type,
    read_statement,
)
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps
from tenon.lowering.nests.body import Buffer
from tenon.lowering.schedules.schedule_attribute import Schedule

Places = Mapping[SSAValue, Buffer]
EmitStatement = Callable[[Statement, Schedule, Sequence[Span], Places], None]

LONG_SUM = 1024
"""Additions to one accumulator from which on they are done in groups."""
_APART = 64
"""Rows of a block from which on their sum begins with nothing (`block_sums`), and is one addition."""


def emit_row_blocks(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule,
    spans: Sequence[Span],
    emit: EmitStatement,
    placed: Places,
) -> None:
    """Append the nest of a schedule with `rows`; `emit` appends that of a part without, with some buffers in the
    place of others. Those that are `placed` have one already."""
    _RowBlocks(builder, statement, schedule, spans, emit, placed).emit()


class _RowBlocks:
    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        schedule: Schedule,
        spans: Sequence[Span],
        emit: EmitStatement,
        placed: Places,
    ) -> None:
        assert schedule.vector is not None
        assert schedule.rows is not None
        self.builder, self.statement, self.spans, self.placed = builder, statement, spans, placed
        self.emit_statement = emit
        self.split = schedule.split
        self.columns, self.rows = schedule.vector, schedule.rows
        self.reduction = row_loop(statement)
        self.rest = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop not in (self.columns, schedule.jam)]
        self.plain = replace(schedule, rows=None, strip=None, split=None)
        self.stored = replace(statement, initial=[None] * len(statement.outputs))
        """The statement where it goes on from what is stored."""
        columns = spans[self.columns].extent
        strip = schedule.strip or columns
        full, left = divmod(columns, strip)
        self.strips = [(Steps(0, full, strip), strip), (Steps(full * strip, min(left, 1)), left)]
        """Where strips begin, and how many columns they have."""

    def emit(self) -> None:
        """The strips, each of all rows; or parts of the rows, each in strips."""
        if self.split is not None and self.has_parts():
            self.emit_parts(self.split)
            return
        group = self.group() if self.is_alike() else None
        apart = [] if group is None else [self.apart(output.buffer) for output in self.statement.outputs]
        for steps, extent in self.strips:

            def strip(positions: list[Position], extent: int = extent) -> None:
                spans = self.strip(positions, extent)
                if group is None:
                    self.emit_rows(self.statement, spans, {})
                else:
                    self.emit_groups(self.statement, spans, group, apart, {})

            self.builder.parallel([*self.steps_of_rest(), steps], strip)
        for buffer in apart:
            self.release(buffer)

    def steps_of_rest(self) -> list[Steps]:
        """The parallel loops around strips."""
        return [Steps(0, self.spans[loop].extent) for loop in self.rest]

    def strip(self, positions: Sequence[Position], extent: int) -> list[Span]:
        """What a strip of so many columns spans."""
        inside = list(self.spans)
        for loop, position in zip((*self.rest, self.columns), positions, strict=True):
            inside[loop] = self.spans[loop].part(position, extent if loop == self.columns else 1)
        return inside

    def emit_rows(self, statement: Statement, spans: Sequence[Span], places: Places) -> None:
        """The blocks of rows in order: the first begins with the initial values, the others with what is stored."""
        first = self.first_rows(spans)
        self.emit_block(statement, spans, Position(), first, places)
        blocks = (spans[self.reduction].extent - first) // self.rows
        self.emit_blocks(spans, Steps(first, blocks, self.rows), Position(), places)

    def first_rows(self, spans: Sequence[Span]) -> int:
        """How many rows the first block has, so that the others come out even."""
        return spans[self.reduction].extent % self.rows or self.rows

    def emit_blocks(self, spans: Sequence[Span], steps: Steps, origin: Position, places: Places) -> None:
        """Blocks that begin with what is stored."""

        def block(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            self.emit_block(self.stored, spans, origin + position, self.rows, places)
            return ()

        self.builder.sequential(steps, (), block)

    def emit_block(
        self, statement: Statement, spans: Sequence[Span], position: Position, rows: int, places: Places
    ) -> None:
        """The register tiles of some rows."""
        inside: list[Span] = list(spans)
        inside[self.reduction] = spans[self.reduction].part(position, rows)
        self.emit_statement(statement, self.plain, inside, places)

    # Groups of blocks

    def group(self) -> int | None:
        """How many blocks are added up apart from others; None where sums are short, or something else than sums."""
        total = self.spans[self.reduction].extent
        count, per_block = (total // self.rows, 1) if self.rows >= _APART else (total, self.rows)
        if count <= LONG_SUM or any(monoid is not ADD_FLOATS for monoid in self.monoids()):
            return None
        return max(isqrt(count) // per_block, 2)

    def is_alike(self) -> bool:
        """Whether memory as large as outputs are has their sums."""
        is_whole = all(
            self.spans[loop].extent == self.statement.extents[loop] for loop in self.statement.loops(LoopKind.PARALLEL)
        )
        places = [self.placed.get(output.buffer) for output in self.statement.outputs]
        is_alike = all(is_whole if p is None else p.memref is not None and p.row is None for p in places)
        return is_alike and self.is_plain()

    def is_plain(self) -> bool:
        """Whether each index of the outputs is that of a loop."""
        return all(None not in output.plain_loops() for output in self.statement.outputs)

    def monoids(self) -> list[Monoid | None]:
        """By what the outputs are combined."""
        return [combining_monoid(self.statement.body, a) for a in self.statement.accumulators]

    def apart(self, buffer: SSAValue) -> Buffer:
        """Memory for as many elements as `buffer` has where it is."""
        place = self.placed.get(buffer) or Buffer(buffer, tuple(range(len(buffer_shape(buffer)))))
        assert place.memref is not None
        return replace(place, memref=self.builder.value(_alike(place.memref)))

    def release(self, buffer: Buffer) -> None:
        """Give memory back."""
        assert buffer.memref is not None
        self.builder.add(memref.DeallocOp.create(operands=(buffer.memref,)))

    def emit_groups(
        self, statement: Statement, spans: Sequence[Span], group: int, apart: Sequence[Buffer], places: Places
    ) -> None:
        """The first blocks as in `emit_rows`, and groups of the others, which are added up `apart` first."""
        outputs = self.statement.outputs
        others = dict(zip([output.buffer for output in outputs], apart, strict=True))
        first = self.first_rows(spans)
        groups, single = divmod((spans[self.reduction].extent - first) // self.rows, group)

        def grouped(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            self.emit_block(self.from_nothing(), spans, position, self.rows, others)
            self.emit_blocks(spans, Steps(self.rows, group - 1, self.rows), position, others)
            for output, place in zip(outputs, apart, strict=True):
                other = _alike(output.buffer).memref  # in no block: its elements are in `place`
                self.emit_total(adding(output.buffer, other), output, (), spans, {**places, other: place})
            return ()

        self.emit_block(statement, spans, Position(), first, places)
        self.emit_blocks(spans, Steps(first, single, self.rows), Position(), places)
        steps = Steps(first + single * self.rows, groups, group * self.rows)
        self.builder.sequential(steps, (), grouped)

    def from_nothing(self) -> Statement:
        """The statement where it begins with what changes nothing."""
        initial: list[SSAValue | None] = []
        for output, monoid in zip(self.statement.outputs, self.monoids(), strict=True):
            assert monoid is not None
            element = element_type(output.buffer)
            initial.append(self.builder.constant(monoid.identity(element), element))
        return replace(self.statement, initial=initial)

    def emit_total(
        self, total: Statement, output: Access, before: Sequence[Span], spans: Sequence[Span], places: Places
    ) -> None:
        """What combines an output with sums that are apart, over the loops `before` and those of the output."""
        loops = [loop for loop in output.plain_loops() if loop is not None]
        last = len(before) + len(loops) - 1
        wide = replace(self.plain, vector=last, jam=None, jam_count=1, ahead=None, fetch_jam=None, taps=None)
        schedule = wide if loops[-1:] == [self.columns] else Schedule()
        self.emit_statement(total, schedule, [*before, *[spans[loop] for loop in loops]], places)
        total.op.erase()

    # Parts of the rows

    def has_parts(self) -> bool:
        """Whether outputs are in memory, of which strips begin where that does."""
        places = [self.placed.get(output.buffer) for output in self.statement.outputs]
        is_in_memory = all(place is None or place.memref is not None for place in places)
        starts = [self.spans[loop].local for loop in self.statement.loops(LoopKind.PARALLEL)]
        return is_in_memory and all(start == Position() for start in starts)

    def emit_parts(self, split: int) -> None:
        """Parts of the rows side by side, and what combines their sums."""
        full, left = divmod(self.spans[self.reduction].extent, split)
        numbers = [(Steps(0, full), split), (Steps(full, min(left, 1)), left)]
        count = full + min(left, 1)
        outputs = self.statement.outputs
        sums = [self.room(output, count) for output in outputs]
        start, group = self.from_nothing(), self.group()

        def emit(parts: Steps, rows: int, columns: Steps, extent: int) -> None:
            def part(positions: list[Position]) -> None:
                number, *others = positions
                spans = self.strip(others, extent)
                spans[self.reduction] = self.spans[self.reduction].part(number.scaled(split), rows)
                places = {o.buffer: replace(s, row=number) for o, s in zip(outputs, sums, strict=True)}
                if group is None or group * self.rows >= rows:
                    self.emit_rows(start, spans, places)
                    return
                apart = [self.room(output) for output in outputs]
                self.emit_groups(start, spans, group, apart, places)
                for buffer in apart:
                    self.release(buffer)

            self.builder.parallel([parts, *self.steps_of_rest(), columns], part)

        self.builder.side_by_side([partial(emit, *n, *columns) for n in numbers for columns in self.strips])
        for output, monoid, initial, place in zip(outputs, self.monoids(), self.statement.initial, sums, strict=True):
            assert monoid is not None
            shape = [count, *buffer_shape(output.buffer)]
            other = _memory(MemRefType(element_type(output.buffer), shape)).memref  # in no block, either
            total = combining_rows(output.buffer, other, monoid, initial)
            whole = replace(place, dims=tuple(range(len(shape))))
            self.emit_total(total, output, [Span.whole(count)], self.spans, {other: whole})
            self.release(place)

    def room(self, output: Access, *before: int) -> Buffer:
        """Memory for what an output has here, as often as there are iterations `before`."""
        loops = [loop for loop in output.plain_loops() if loop is not None]
        shape = [*before, *[self.spans[loop].extent for loop in loops]]
        made = self.builder.value(_memory(MemRefType(element_type(output.buffer), shape)))
        return Buffer(made, tuple(range(len(loops))), shrunken=True)


def _alike(buffer: SSAValue) -> memref.AllocOp:
    """Memory as large as `buffer`."""
    return _memory(MemRefType(element_type(buffer), buffer_shape(buffer)))


def _memory(type_: MemRefType) -> memref.AllocOp:
    properties = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])}
    return memref.AllocOp.create(result_types=(type_,), properties=properties)


def combining_rows(output: SSAValue, rows: SSAValue, monoid: Monoid, initial: SSAValue | None) -> Statement:
    """A statement, in no block, that combines `rows` of the shape of `output`, in their order, with what is there, or
    with an `initial` value."""
    rank, element = len(buffer_shape(rows)), element_type(output)
    body = Block(arg_types=[element, element])
    combined = monoid.combine(body.args[1], body.args[0])
    body.add_ops([combined, linalg.ops.YieldOp(combined.results[0])])
    kept = AffineMap(rank, 0, tuple(AffineExpr.dimension(dim) for dim in range(1, rank)))
    reductions = [dim == 0 for dim in range(rank)]
    total = read_statement(generic_op([(rows, AffineMap.identity(rank))], [(output, kept)], reductions, body))
    total.initial = [initial]
    return total


def row_loop(statement: Statement) -> int:
    """The reduction loop whose iterations are blocked: the outermost one."""
    return statement.loops(LoopKind.REDUCTION)[0]
