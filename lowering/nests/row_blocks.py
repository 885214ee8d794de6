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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isqrt

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import ADD_FLOATS, combining_monoid
from tenon.lowering.kernels.statement import LoopKind, Statement, adding, buffer_shape, element_type
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
    assert schedule.vector is not None
    assert schedule.rows is not None
    columns, strip = schedule.vector, schedule.strip or spans[schedule.vector].extent
    others = [loop for loop in statement.loops(LoopKind.PARALLEL) if loop not in (columns, schedule.jam)]
    full, left = divmod(spans[columns].extent, strip)
    group = _group(statement, schedule, spans, placed)
    partial = [] if group is None else [_apart(builder, output.buffer, placed) for output in statement.outputs]
    for steps, extent in ((Steps(0, full, strip), strip), (Steps(full * strip, min(left, 1)), left)):
        ranges = [*(Steps(0, spans[loop].extent) for loop in others), steps]

        def part(positions: list[Position], extent: int = extent) -> None:
            inside = list(spans)
            for loop, position in zip((*others, columns), positions, strict=True):
                inside[loop] = spans[loop].part(position, extent if loop == columns else 1)
            _emit_blocks(builder, statement, schedule, inside, emit, group or 0, partial)

        builder.parallel(ranges, part)
    for buffer in partial:
        assert buffer.memref is not None
        builder.add(memref.DeallocOp.create(operands=(buffer.memref,)))


def _group(statement: Statement, schedule: Schedule, spans: Sequence[Span], placed: Places) -> int | None:
    """How many blocks are added up apart from others; None where sums are short, or something else than sums."""
    rows, total = schedule.rows or 1, spans[row_loop(statement)].extent
    additions, per_block = (total // rows, 1) if rows >= _APART else (total, rows)
    monoids = [combining_monoid(statement.body, accumulator) for accumulator in statement.accumulators]
    is_whole = all(spans[loop].extent == statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL))
    places = [placed.get(output.buffer) for output in statement.outputs]
    is_alike = all(is_whole if p is None else p.memref is not None and p.row is None for p in places)
    is_plain = all(None not in output.plain_loops() for output in statement.outputs)
    if additions <= LONG_SUM or not (is_alike and is_plain):
        return None
    if any(monoid is not ADD_FLOATS for monoid in monoids):
        return None
    return max(isqrt(additions) // per_block, 2)


def _apart(builder: LoopBuilder, buffer: SSAValue, placed: Places) -> Buffer:
    """Memory for as many elements as `buffer` has where it is."""
    place = placed.get(buffer) or Buffer(buffer, tuple(range(len(buffer_shape(buffer)))))
    assert place.memref is not None
    return replace(place, memref=builder.value(_alike(place.memref)))


def _alike(buffer: SSAValue) -> memref.AllocOp:
    """Memory as large as `buffer`."""
    result = MemRefType(element_type(buffer), buffer_shape(buffer))
    properties = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])}
    return memref.AllocOp.create(result_types=(result,), properties=properties)


def _emit_blocks(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule,
    spans: Sequence[Span],
    emit: EmitStatement,
    group: int,
    partial: Sequence[Buffer],
) -> None:
    """The blocks of rows in order: the first begins with the initial values, the others with what is stored. Behind
    them come groups of blocks, if there are any, which are added up in `partial` first."""
    reduction, rows = row_loop(statement), schedule.rows or 1
    plain = replace(schedule, rows=None, strip=None)
    total = spans[reduction].extent
    first = total % rows or rows
    stored = replace(statement, initial=[None] * len(statement.outputs))
    buffers = [output.buffer for output in statement.outputs]
    apart = dict(zip(buffers, partial, strict=bool(partial)))

    def block(of: Statement, position: Position, extent: int, places: Places) -> None:
        inside: list[Span] = list(spans)
        inside[reduction] = spans[reduction].part(position, extent)
        emit(of, plain, inside, places)

    def following(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
        block(stored, position, rows, {})
        return ()

    def grouped(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
        block(replace(statement, initial=_nothing(builder, buffers)), position, rows, apart)

        def next_one(distance: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            block(stored, position + distance, rows, apart)
            return ()

        builder.sequential(Steps(rows, group - 1, rows), (), next_one)
        for output, place in zip(statement.outputs, partial, strict=True):
            other = _alike(output.buffer).memref  # in no block: its elements are in `place`
            total = adding(output.buffer, other)
            loops = [loop for loop in output.plain_loops() if loop is not None]
            last = len(loops) - 1
            wide = replace(plain, vector=last, jam=None, jam_count=1, ahead=None, fetch_jam=None, taps=None)
            emit(
                total,
                wide if loops[last] == schedule.vector else Schedule(),
                [spans[loop] for loop in loops],
                {other: place},
            )
            total.op.erase()
        return ()

    blocks = (total - first) // rows
    groups, single = divmod(blocks, group) if group else (0, blocks)
    block(statement, Position(), first, {})
    builder.sequential(Steps(first, single, rows), (), following)
    builder.sequential(Steps(first + single * rows, groups, group * rows), (), grouped)


def _nothing(builder: LoopBuilder, buffers: Sequence[SSAValue]) -> list[SSAValue | None]:
    """What changes no sum, for each of the `buffers`."""
    elements = map(element_type, buffers)
    return [builder.constant(ADD_FLOATS.identity(e), e) for e in elements]


def row_loop(statement: Statement) -> int:
    """The reduction loop whose iterations are blocked: the outermost one."""
    return statement.loops(LoopKind.REDUCTION)[0]
