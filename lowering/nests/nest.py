"""The loop nest of one statement, scalar or tiled as its schedule says.

Two shapes of nest exist:

- lanes write different elements (the vector loop is parallel or sequential, or there is none): the accumulators of a
  tile, `jam_count` x `unroll` vectors per output, are carried by the reduction loops and stored behind them;
- lanes are combined (the vector loop is a reduction): the accumulators start neutral, and become a scalar behind the
  loops.

What does not fill a tile is done in a smaller one; what does not fill a vector is masked, or scalar where the body
divides integers, which could trap in a masked lane.

A loop of which several iterations reach one element of an output (the gradient of a window) stays sequential,
outside of the reduction loops: load, combine, store. It may still be the vector loop if the outputs have unit
stride along it: with all other loops fixed, the lanes then reach different elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects import vector
from xdsl.dialects.arith import SelectOp
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.dialects.types.size import Size
from tenon.lowering.kernels.obstacles import lies_across
from tenon.lowering.kernels.selection import Selection
from tenon.lowering.kernels.statement import LoopKind, Statement, element_type
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps, vector_op
from tenon.lowering.nests.argument_reduction import SelectedLanes
from tenon.lowering.nests.body import ONE_LANE, BodyEmitter, Buffer, Lanes, Panel, Point, Reads
from tenon.lowering.nests.dot_tiles import DotTile
from tenon.lowering.nests.prefetch_tile import fetch_next_rows
from tenon.lowering.nests.row_blocks import emit_row_blocks
from tenon.lowering.schedules.steps import Schedule


@dataclass(frozen=True)
class _Tiles:
    """`steps` along a loop, each of `size` times `lanes` iterations; the last vector may have lanes of its own."""

    steps: Steps
    size: int = 1
    lanes: Lanes = ONE_LANE
    last: Lanes | None = None

    def lanes_of(self, column: int) -> Lanes:
        """The lanes of one of the `size` vectors."""
        return self.last if self.last is not None and column == self.size - 1 else self.lanes


@dataclass(frozen=True)
class _Range:
    """The iterations of `loop` that a nest runs one by one, or tile by tile."""

    loop: int
    steps: Steps
    parallel: bool


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
    loops = _StatementLoops(builder, statement, schedule, spans, buffers, panels)
    if loops.vector is not None and (selection := statement.selection(loops.vector)) is not None:
        loops.emit_selected_lanes(selection)
    elif loops.vector is not None and statement.kinds[loops.vector] is LoopKind.REDUCTION:
        loops.emit_combined_lanes()
    else:
        loops.emit_separate_lanes(loops.separate_tile)


def emit_initial_values(
    builder: LoopBuilder,
    statement: Statement,
    schedule: Schedule,
    spans: Sequence[Span],
    buffers: dict[SSAValue, Buffer],
) -> None:
    """Append loops that store what the outputs of `statement` hold before its reduction, in tiles as it has them."""
    loops = _StatementLoops(builder, statement, schedule, spans, buffers, None)
    loops.emit_separate_lanes(loops.initial_tile)


class _StatementLoops:
    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        schedule: Schedule | None,
        spans: Sequence[Span],
        buffers: dict[SSAValue, Buffer],
        panels: Mapping[int, Panel] | None,
    ) -> None:
        self.builder = builder
        self.statement = statement
        self.schedule = schedule or Schedule()
        self.spans = spans
        # The grid mapping recognises reductions by their one combining op, so only a schedule fuses products.
        self.body = BodyEmitter(builder, statement, buffers, fuse_products=schedule is not None, panels=panels)
        self.vector = self.schedule.vector
        self.jam = self.schedule.jam
        self.parallel = statement.loops(LoopKind.PARALLEL)
        self.sequential = statement.loops(LoopKind.SEQUENTIAL)
        self.reductions = statement.loops(LoopKind.REDUCTION)
        self.origin = Point(tuple(s.start for s in spans), tuple(s.local for s in spans))
        self.transposed = [
            a for a in statement.inputs if self.vector is not None and lies_across(a, self.vector, self.jam)
        ]
        self.dots: DotTile | None = None
        if self.schedule.dot is not None:
            self.dots = DotTile(builder, statement, self.schedule, self.body, panels or {})

    # Ranges and nests

    def vector_tiles(self) -> list[_Tiles]:
        """The vector loop as tiles of `unroll` vectors, the vectors behind them, and what does not fill a vector."""
        if self.vector is None:
            return [_Tiles(Steps(0, 1))]
        extent, width, unroll = self.spans[self.vector].extent, self.schedule.width, self.schedule.unroll
        if isinstance(extent, Size):
            return self.vector_tiles_of_size(extent)
        limits = self.spans[self.vector].limits
        full, left = divmod(extent, width * unroll)
        vectors, rest = divmod(left, width)
        lanes = Lanes(self.vector, width)
        tiles = [_Tiles(Steps(0, full, width * unroll, limits), unroll, lanes)]
        start = full * width * unroll
        tiles.append(_Tiles(Steps(start, min(vectors, 1), width * unroll, limits), vectors, lanes))
        start += vectors * width
        if self.statement.divides_integers():
            tiles.append(_Tiles(Steps(start, rest, limits=limits), 1, Lanes(self.vector)))
        else:
            # Transposed tiles are square, and groups are broadcast to whole vectors.
            count = width if self.transposed or self.dots else _lanes_for(rest)
            lanes = Lanes(self.vector, count, None if rest == count else rest)
            tiles.append(_Tiles(Steps(start, min(rest, 1), limits=limits), 1, lanes))
        return [tile for tile in tiles if tile.steps.count]

    def merged_vector_tiles(self) -> list[_Tiles]:
        """The same, where the vectors behind the tiles and what does not fill one make one tile if a reduction runs
        inside: then its loop runs once, and hides the latency of more accumulators."""
        tiles = self.vector_tiles()
        if not self.reductions or len(tiles) < 2 or tiles[-1].lanes.count == 1 or self.has_size(self.vector):
            return tiles
        *full, vectors, rest = tiles
        if vectors.size == self.schedule.unroll:
            return tiles
        return [*full, _Tiles(vectors.steps, vectors.size + 1, vectors.lanes, rest.lanes)]

    def has_size(self, loop: int | None) -> bool:
        """Whether only the launch tells how long `loop` is."""
        return loop is not None and isinstance(self.spans[loop].extent, Size)

    def vector_tiles_of_size(self, extent: Any) -> list[_Tiles]:
        """The same for an extent that is known at launch: any number of vectors, and of what does not fill one."""
        width, unroll = self.schedule.width, self.schedule.unroll
        lanes = Lanes(self.vector, width)
        tiles = [_Tiles(Steps(0, extent // (width * unroll), width * unroll), unroll, lanes)]
        if unroll > 1:
            start = extent // (width * unroll) * (width * unroll)
            tiles.append(_Tiles(Steps(start, extent % (width * unroll) // width, width), 1, lanes))
        start, rest = extent // width * width, extent % width
        if self.statement.divides_integers():
            tiles.append(_Tiles(Steps(start, rest), 1, Lanes(self.vector)))
        else:
            tiles.append(_Tiles(Steps(start, (rest + width - 1) // width, width), 1, Lanes(self.vector, width, rest)))
        return [tile for tile in tiles if tile.steps.count != 0]

    def jam_tiles(self) -> list[_Tiles]:
        """The jammed loop as tiles of `jam_count` iterations, and what is left of it."""
        if self.jam is None:
            return [_Tiles(Steps(0, 1))]
        count = self.schedule.jam_count
        span = self.spans[self.jam]
        full, left = divmod(span.extent, count)
        rest = (
            _Tiles(Steps(full * count, left))
            if isinstance(left, Size)
            else _Tiles(Steps(full * count, min(left, 1), limits=span.limits), left)
        )
        return [tile for tile in (_Tiles(Steps(0, full, count, span.limits), count), rest) if tile.steps.count != 0]

    def one_by_one(self, loops: Sequence[int], *, parallel: bool) -> list[_Range]:
        """All iterations of `loops`, except the tiled ones."""
        tiled = (self.vector, self.jam)
        return [_Range(loop, self.spans[loop].steps(), parallel) for loop in loops if loop not in tiled]

    def tiled(self, loop: int | None, tiles: _Tiles) -> list[_Range]:
        """The steps of `tiles` along `loop`, or nothing if there is no such loop."""
        if loop is None:
            return []
        return [_Range(loop, tiles.steps, self.statement.kinds[loop] is LoopKind.PARALLEL)]

    def run_apart(self, parts: Sequence[Callable[[], None]]) -> None:
        """The nests of different tiles, which write different elements unless a tiled loop is sequential."""
        tiled = [self.statement.kinds[loop] for loop in (self.vector, self.jam) if loop is not None]
        if LoopKind.SEQUENTIAL in tiled:
            for part in parts:
                part()
        else:
            self.builder.side_by_side(parts)

    def step_to(self, point: Point, loop: int, distance: Position) -> Point:
        """`point` with `loop` at `distance` from the start of its span."""
        span = self.spans[loop]
        return point.at(loop, span.start + distance, span.local + distance)

    def nest(self, ranges: Sequence[_Range], point: Point, leaf: Callable[[Point], None]) -> None:
        """Loops over `ranges`, the parallel ones first and together, around `leaf`."""
        parallel = [r for r in ranges if r.parallel]
        sequential = [r for r in ranges if not r.parallel]

        def sequentially(remaining: Sequence[_Range], at: Point) -> None:
            if not remaining:
                leaf(at)
                return
            first = remaining[0]

            def body(position: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
                sequentially(remaining[1:], self.step_to(at, first.loop, position))
                return ()

            self.builder.sequential(first.steps, (), body)

        def inside(positions: list[Position]) -> None:
            at = point
            for r, position in zip(parallel, positions, strict=True):
                at = self.step_to(at, r.loop, position)
            sequentially(sequential, at)

        if all(r.steps.count != 0 for r in sequential):
            self.builder.parallel([r.steps for r in parallel], inside)

    def reduce(
        self,
        loops: Sequence[int],
        point: Point,
        carried: list[SSAValue],
        leaf: Callable[[Point, list[SSAValue]], list[SSAValue]],
    ) -> list[SSAValue]:
        """Loops over all iterations of `loops` that carry values through `leaf`."""
        if not loops:
            return leaf(point, carried)

        def body(position: Position, values: list[SSAValue]) -> list[SSAValue]:
            return self.reduce(loops[1:], self.step_to(point, loops[0], position), values, leaf)

        return self.builder.sequential(self.spans[loops[0]].steps(), carried, body)

    # Lanes that write different elements

    def emit_separate_lanes(self, tile: Callable[[Point, _Tiles, _Tiles], None]) -> None:
        others = self.one_by_one(self.parallel, parallel=True)
        windows = self.one_by_one(self.sequential, parallel=False)
        pairs = [(along, across) for along in self.merged_vector_tiles() for across in self.jam_tiles()]

        def tile_nest(outer: Sequence[_Range], point: Point, along: _Tiles, across: _Tiles) -> None:
            ranges = [*outer, *windows, *self.tiled(self.vector, along), *self.tiled(self.jam, across)]
            self.nest(ranges, point, lambda at: tile(at, along, across))

        if self.reductions or len(pairs) == 1:
            # With work inside, each kind of tile is worth passes of its own over all parallel loops.
            self.run_apart([partial(tile_nest, others, self.origin, along, across) for along, across in pairs])
        else:

            def all_tiles(point: Point) -> None:
                for along, across in pairs:
                    tile_nest((), point, along, across)

            self.nest(others, self.origin, all_tiles)

    def tile_points(self, point: Point, along: _Tiles, across: _Tiles) -> list[tuple[Point, Lanes]]:
        """The vectors of a tile at `point`, row by row: where their first lane is, and their lanes."""
        return [
            (point.moved(self.jam, row).moved(self.vector, column * along.lanes.count), along.lanes_of(column))
            for row in range(across.size)
            for column in range(along.size)
        ]

    def separate_tile(self, point: Point, along: _Tiles, across: _Tiles) -> None:
        points = self.tile_points(point, along, across)
        outputs = len(self.statement.outputs)
        if not self.reductions:
            reads: Reads = {}
            self.load_transposed(point, along, across, reads)
            for at, lanes in points:
                initial = [
                    self.initial(output, at, lanes) if self.statement.reads_output(output) else None
                    for output in range(outputs)
                ]
                self.store(self.body.evaluate(at, initial, lanes, reads), at, lanes)
            return
        carried = [self.initial(output, at, lanes) for at, lanes in points for output in range(outputs)]
        if self.dots is not None:
            span = self.spans[self.dots.loop]
            totals = self.dots.totals(span, point, lambda at: self.tile_points(at, along, across), carried, self.reduce)
            for total, (at, lanes) in zip(totals, points, strict=True):
                self.store([total], at, lanes)
            return

        def step(inner: Point, values: list[SSAValue]) -> list[SSAValue]:
            known: Reads = {}
            for tap in range(1 if taps is None else self.spans[taps].extent):
                results: list[SSAValue] = []
                for number, (at, lanes) in enumerate(self.tile_points(inner.moved(taps, tap), along, across)):
                    accumulators = values[number * outputs : (number + 1) * outputs]
                    new = self.body.evaluate(at, accumulators, lanes, known)
                    results += [self.builder.broadcast(value, lanes.count) for value in new]
                values = results
            self.fetch_ahead(inner, along, across)
            if self.schedule.fetch_jam is not None and self.jam is not None and along.lanes.count > 1:
                fetch_next_rows(self.body, self.statement, self.schedule.fetch_jam, self.jam, across.size, inner)
            return values

        taps = self.schedule.taps
        totals = self.reduce([loop for loop in self.reductions if loop != taps], point, carried, step)
        for number, (at, lanes) in enumerate(points):
            self.store(totals[number * outputs : (number + 1) * outputs], at, lanes)

    def fetch_ahead(self, point: Point, along: _Tiles, across: _Tiles) -> None:
        """Fetch what the tile's vectors and rows at `point` will be `ahead` iterations later."""
        if self.schedule.ahead is None or along.lanes.count == 1:
            return
        later = point.moved(self.reductions[0], self.schedule.ahead)
        for access in self.statement.inputs:
            if self.reductions[0] not in access.loops():
                continue
            if self.jam not in access.loops():
                places = [later.moved(self.vector, column * along.lanes.count) for column in range(along.size)]
                self.body.prefetch(access, places, along.lanes)
            elif self.vector not in access.loops():
                self.body.prefetch(access, [later], Lanes(self.jam, across.size))

    def load_transposed(self, point: Point, along: _Tiles, across: _Tiles, reads: Reads) -> None:
        """Transpose the tiles of inputs that have their unit stride along the jammed loop."""
        lanes = along.lanes
        if lanes.count == 1:
            return
        rows = Lanes(self.jam, lanes.count, across.size if across.size < lanes.count else None)
        for access in self.transposed:
            for column in range(along.size):
                self.body.load_transposed(access, point.moved(self.vector, column * lanes.count), lanes, rows, reads)

    def initial_tile(self, point: Point, along: _Tiles, across: _Tiles) -> None:
        """What a tile starts from, to its place."""
        for at, lanes in self.tile_points(point, along, across):
            self.store([self.initial(output, at, lanes) for output in range(len(self.statement.outputs))], at, lanes)

    def initial(self, output: int, point: Point, lanes: Lanes) -> SSAValue:
        """What an output holds before the reduction: a fill's value, or its contents."""
        value = self.statement.initial[output]
        if value is None:
            value = self.body.load(self.statement.outputs[output], point, lanes, {})
        return self.builder.broadcast(value, lanes.count)

    def store(self, values: Sequence[SSAValue], point: Point, lanes: Lanes) -> None:
        for value, output in zip(values, self.statement.outputs, strict=True):
            self.body.store(value, output, point, lanes)

    # Lanes that select

    def emit_selected_lanes(self, selection: Selection) -> None:
        lanes = SelectedLanes(self.builder, self.statement, self.schedule, selection, self.body)

        def leaf(point: Point) -> None:
            initial = [self.initial(output, point, ONE_LANE) for output in range(len(self.statement.outputs))]
            self.store(lanes.emit(point, initial), point, ONE_LANE)

        ranges = [_Range(loop, Steps(0, self.spans[loop].extent), parallel=True) for loop in self.parallel]
        self.nest(ranges, self.origin, leaf)

    # Lanes that are combined

    def emit_combined_lanes(self) -> None:
        others = self.one_by_one(self.parallel, parallel=True)
        windows = self.one_by_one(self.sequential, parallel=False)
        tiles = self.jam_tiles()

        def tile_nest(outer: Sequence[_Range], point: Point, across: _Tiles) -> None:
            ranges = [*outer, *windows, *self.tiled(self.jam, across)]
            self.nest(ranges, point, lambda at: self.combined_tile(at, across.size))

        def all_tiles(point: Point) -> None:
            for across in tiles:
                tile_nest((), point, across)

        if len(tiles) > 1 and all(tile.steps.count == 1 for tile in tiles):
            self.nest(others, self.origin, all_tiles)  # so that both read what the other loops reach while it is near
        else:
            self.run_apart([partial(tile_nest, others, self.origin, across) for across in tiles])

    def combined_tile(self, point: Point, rows: int) -> None:
        """Accumulators are ordered by column of the tile, then row, then output."""
        monoids = [combining_monoid(self.statement.body, accumulator) for accumulator in self.statement.accumulators]
        assert all(monoids), "a schedule that combines lanes has been checked for this"
        group = rows * len(monoids)
        neutral = [self.neutral(monoid, output) for output, monoid in enumerate(monoids) if monoid is not None]
        tiles = self.vector_tiles()
        columns = max((tile.size for tile in tiles), default=1)
        outer = [loop for loop in self.reductions if loop != self.vector]

        def along_vector(inner: Point, values: list[SSAValue]) -> list[SSAValue]:
            for tile in tiles:
                used = tile.size * group
                values[:used] = self.combine_tiles(inner, tile, rows, values[:used])
            return values

        lanes = self.reduce(outer, point, neutral * rows * columns, along_vector)
        for row in range(rows):
            at = point.moved(self.jam, row)
            results: list[SSAValue] = []
            for output, monoid in enumerate(monoids):
                assert monoid is not None
                parts = lanes[row * len(monoids) + output :: group]
                results.append(self.combine(monoid, parts, self.initial(output, at, ONE_LANE)))
            self.store(results, at, ONE_LANE)

    def combine_tiles(self, point: Point, tile: _Tiles, rows: int, carried: list[SSAValue]) -> list[SSAValue]:
        """Accumulate all of `tile` into its accumulators."""
        assert self.vector is not None
        vector_loop, outputs, width = self.vector, len(self.statement.outputs), self.schedule.width
        active = tile.lanes.active if tile.lanes.count == width else None
        if tile.lanes.count < width:
            active = tile.lanes.active or tile.lanes.count
        lanes = Lanes(vector_loop, width, active)

        def body(position: Position, values: list[SSAValue]) -> list[SSAValue]:
            base = self.step_to(point, vector_loop, position)
            known: Reads = {}
            results: list[SSAValue] = []
            for number in range(tile.size * rows):
                column, row = divmod(number, rows)
                at = base.moved(self.jam, row).moved(vector_loop, column * width)
                before = values[number * outputs : (number + 1) * outputs]
                after = [self.builder.broadcast(v, width) for v in self.body.evaluate(at, before, lanes, known)]
                results += [self.masked(new, old, lanes) for new, old in zip(after, before, strict=True)]
            return results

        return self.builder.sequential(tile.steps, carried, body)

    def masked(self, new: SSAValue, old: SSAValue, lanes: Lanes) -> SSAValue:
        """`new` in active lanes, `old` elsewhere."""
        if lanes.active is None:
            return new
        mask = self.builder.mask(lanes.active, lanes.count)
        return self.builder.value(vector_op(SelectOp).create(operands=(mask, new, old), result_types=(new.type,)))

    def neutral(self, monoid: Monoid, output: int) -> SSAValue:
        """A vector that changes nothing when it is combined."""
        element = element_type(self.statement.outputs[output].buffer)
        # Not a dense constant: xDSL 0.74 reads the infinities in one as the number that their bits spell.
        scalar = self.builder.constant(monoid.identity(element), element)
        return self.builder.broadcast(scalar, self.schedule.width)

    def combine(self, monoid: Monoid, parts: Sequence[SSAValue], initial: SSAValue) -> SSAValue:
        """`initial` combined with every lane of `parts`."""

        def both(lhs: SSAValue, rhs: SSAValue) -> SSAValue:
            return self.builder.value(monoid.combine(lhs, rhs, reordered=True))

        parts = list(parts)
        while len(parts) > 1:
            pairs = [both(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + (parts[-1:] if len(parts) % 2 else [])
        total = parts[0]
        if isinstance(total.type, VectorType):
            total = self.builder.value(
                vector.ReductionOp.create(
                    operands=(total,),
                    result_types=(total.type.element_type,),
                    properties={"kind": CombiningKindAttr(CombiningKindFlag(monoid.kind)), **monoid.flags()},
                )
            )
        return both(initial, total)


def _lanes_for(iterations: int) -> int:
    """The least power of two that holds `iterations`."""
    return 1 << max(iterations - 1, 0).bit_length()
