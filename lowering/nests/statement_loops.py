"""The loops of one statement cut into tiles, and nests of them.

What does not fill a tile is done in a smaller one; what does not fill a vector is masked, or scalar where the body
divides integers, which could trap in a masked lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import func
from xdsl.ir import SSAValue

from tenon.dialects.types.size import Size
from tenon.lowering.kernels.intermediates import unpadded
from tenon.lowering.kernels.obstacles import lies_across, stored_across
from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps
from tenon.lowering.nests.body import ONE_LANE, BodyEmitter, Buffer, Lanes, Panel, Point, Reads
from tenon.lowering.nests.dot_tiles import DotTile
from tenon.lowering.nests.matrix_tiles import MatrixTile
from tenon.lowering.schedules.few_rows import numbers_of
from tenon.lowering.schedules.schedule_attribute import Schedule


@dataclass(frozen=True)
class Tiles:
    """`steps` along a loop, each of `size` times `lanes` iterations; the last vector may have lanes of its own."""

    steps: Steps
    size: int = 1
    lanes: Lanes = ONE_LANE
    last: Lanes | None = None

    def lanes_of(self, column: int) -> Lanes:
        """The lanes of one of the `size` vectors."""
        return self.last if self.last is not None and column == self.size - 1 else self.lanes


@dataclass(frozen=True)
class Range:
    """The iterations of `loop` that a nest runs one by one, or tile by tile."""

    loop: int
    steps: Steps
    parallel: bool


class StatementLoops:
    """What the nests of a statement have in common: its tiles, loops around them, and what outputs hold."""

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
        self.in_rows = self.schedule.in_rows(statement)
        self.transposed = [
            a
            for a in statement.inputs
            if self.vector is not None and lies_across(a, self.vector, self.jam) and a not in self.in_rows
        ]
        self.across = [] if self.vector is None else stored_across(statement, self.vector, self.jam)
        self.dots: DotTile | None = None
        self.matrices: MatrixTile | None = None
        if self.schedule.tile is not None:
            self.matrices = MatrixTile(builder, statement, self.schedule, self.body, panels or {})
        elif self.schedule.dot is not None:
            self.dots = DotTile(builder, statement, self.schedule, self.body, panels or {})

    def vector_tiles(self) -> list[Tiles]:
        """The vector loop as tiles of `unroll` vectors, the vectors behind them, and what does not fill a vector."""
        if self.vector is None:
            return [Tiles(Steps(0, 1))]
        extent, width, unroll = self.spans[self.vector].extent, self.schedule.width, self.schedule.unroll
        if isinstance(extent, Size):
            return self.vector_tiles_of_size(extent)
        limits = self.spans[self.vector].limits
        full, left = divmod(extent, width * unroll)
        vectors, rest = divmod(left, width)
        lanes = Lanes(self.vector, width)
        tiles = [Tiles(Steps(0, full, width * unroll, limits), unroll, lanes)]
        start = full * width * unroll
        tiles.append(Tiles(Steps(start, min(vectors, 1), width * unroll, limits), vectors, lanes))
        start += vectors * width
        if self.statement.divides_integers():
            tiles.append(Tiles(Steps(start, rest, limits=limits), 1, Lanes(self.vector)))
        else:
            # Transposed tiles and rows take whole vectors, and groups are broadcast to them.
            count = width if self.transposed or self.in_rows or self.schedule.dot is not None else _lanes_for(rest)
            lanes = Lanes(self.vector, count, None if rest == count else rest)
            tiles.append(Tiles(Steps(start, min(rest, 1), limits=limits), 1, lanes))
        return [tile for tile in tiles if tile.steps.count]

    def merged_vector_tiles(self) -> list[Tiles]:
        """The same, where the vectors behind the tiles and what does not fill one make one tile if a reduction runs
        inside: then its loop runs once, and hides the latency of more accumulators."""
        tiles = self.vector_tiles()
        if not self.reductions or len(tiles) < 2 or tiles[-1].lanes.count == 1 or self.has_size(self.vector):
            return tiles
        *full, vectors, rest = tiles
        if vectors.size == self.schedule.unroll:
            return tiles
        return [*full, Tiles(vectors.steps, vectors.size + 1, vectors.lanes, rest.lanes)]

    def has_size(self, loop: int | None) -> bool:
        """Whether only the launch tells how long `loop` is."""
        return loop is not None and isinstance(self.spans[loop].extent, Size)

    def vector_tiles_of_size(self, extent: Any) -> list[Tiles]:
        """The same for an extent that is known at launch: any number of vectors, and of what does not fill one."""
        width, unroll = self.schedule.width, self.schedule.unroll
        lanes = Lanes(self.vector, width)
        tiles = [Tiles(Steps(0, extent // (width * unroll), width * unroll), unroll, lanes)]
        if unroll > 1:
            start = extent // (width * unroll) * (width * unroll)
            tiles.append(Tiles(Steps(start, extent % (width * unroll) // width, width), 1, lanes))
        start, rest = extent // width * width, extent % width
        if self.statement.divides_integers():
            tiles.append(Tiles(Steps(start, rest), 1, Lanes(self.vector)))
        else:
            tiles.append(Tiles(Steps(start, (rest + width - 1) // width, width), 1, Lanes(self.vector, width, rest)))
        return [tile for tile in tiles if tile.steps.count != 0]

    def jam_tiles(self) -> list[Tiles]:
        """The jammed loop as tiles of `jam_count` iterations, and what is left of it: a smaller tile, or, where the
        launch tells how much that is, one of half as many, one of a quarter, and so on. For few rows there is one for
        each number of them, of which one runs: what these share is read once then."""
        if self.jam is None:
            return [Tiles(Steps(0, 1))]
        count = self.schedule.jam_count
        span, function = self.spans[self.jam], self.builder.function
        start, left, tiles = 0, span.extent, list[Tiles]()
        while isinstance(left, Size) and count:
            full, left = divmod(left, count)
            tiles.append(Tiles(Steps(start, full, count), count))
            start += full * count
            if isinstance(function, func.FuncOp) and numbers_of(function):
                for rows in range(count - 1, 0, -1):
                    is_left = (left + count - rows) // count - (left + count - rows - 1) // count
                    tiles.append(Tiles(Steps(start, is_left, rows), rows))
                break
            count //= 2
        if not isinstance(span.extent, Size):
            full, left = divmod(left, count)
            tiles.append(Tiles(Steps(0, full, count, span.limits), count))
            tiles.append(Tiles(Steps(full * count, min(left, 1), limits=span.limits), left))
        return [tile for tile in tiles if tile.steps.count != 0]

    def apart_from_padding(self, loop: int | None, tiles: Sequence[Tiles]) -> list[Tiles]:
        """`tiles` along `loop`, those that read no padding apart from those in front of them and behind them. A strip
        is one or the other as a whole."""
        if loop is None or self.has_size(loop) or self.spans[loop] != Span.whole(self.statement.extents[loop]):
            return list(tiles)
        inner = unpadded(self.statement, loop)
        if inner == range(self.statement.extents[loop]):
            return list(tiles)
        cut: list[Tiles] = []
        for tile in tiles:
            lanes = [tile.lanes_of(column) for column in range(tile.size)]
            reach = sum(lane.count if lane.active is None else lane.active for lane in lanes)
            cut += [replace(tile, steps=part) for part in tile.steps.apart(inner, reach)]
        return cut

    def one_by_one(self, loops: Sequence[int], *, parallel: bool) -> list[Range]:
        """All iterations of `loops`, except the tiled ones."""
        tiled = (self.vector, self.jam)
        return [Range(loop, self.spans[loop].steps(), parallel) for loop in loops if loop not in tiled]

    def tiled(self, loop: int | None, tiles: Tiles) -> list[Range]:
        """The steps of `tiles` along `loop`, or nothing if there is no such loop."""
        if loop is None:
            return []
        return [Range(loop, tiles.steps, self.statement.kinds[loop] is LoopKind.PARALLEL)]

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

    def nest(self, ranges: Sequence[Range], point: Point, leaf: Callable[[Point], None]) -> None:
        """Loops over `ranges`, the parallel ones first and together, around `leaf`."""
        parallel = [r for r in ranges if r.parallel]
        sequential = [r for r in ranges if not r.parallel]

        def sequentially(remaining: Sequence[Range], at: Point) -> None:
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

        for steps in self.reduction_steps(loops[0]):
            carried = self.builder.sequential(steps, carried, body)
        return carried

    def reduction_steps(self, loop: int) -> list[Steps]:
        """All iterations of a reduction loop, in parts that follow each other."""
        return [self.spans[loop].steps()]

    def initial(self, output: int, point: Point, lanes: Lanes, reads: Reads | None = None) -> SSAValue:
        """What an output holds before the reduction: a fill's value, or its contents; those that lie across the lanes
        are in `reads`."""
        value = self.statement.initial[output]
        if value is None:
            value = self.body.load(self.statement.outputs[output], point, lanes, {} if reads is None else reads)
        return self.builder.broadcast(value, lanes.count)

    def store(self, values: Sequence[SSAValue], point: Point, lanes: Lanes) -> None:
        for value, output in zip(values, self.statement.outputs, strict=True):
            self.body.store(value, output, point, lanes)


def _lanes_for(iterations: int) -> int:
    """The least power of two that holds `iterations`."""
    return 1 << max(iterations - 1, 0).bit_length()
