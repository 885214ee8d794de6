"""Nests whose lanes write different elements: the vector loop is parallel or sequential, or there is none.

The accumulators of a tile, `jam_count` x `unroll` vectors per output, are carried by the reduction loops and stored
behind them.

A loop of which several iterations reach one element of an output (the gradient of a window) stays sequential,
outside of the reduction loops: load, combine, store. It may still be the vector loop if the outputs have unit
stride along it: with all other loops fixed, the lanes then reach different elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from xdsl.ir import SSAValue

from tenon.lowering.kernels.footprint import in_pieces, next_row
from tenon.lowering.kernels.intermediates import reads_padding
from tenon.lowering.kernels.statement import Access
from tenon.lowering.nests.body import Lanes, Point, Reads
from tenon.lowering.nests.row_tiles import load_across, load_rows, store_across, store_rows
from tenon.lowering.nests.statement_loops import Range, StatementLoops, Tiles


class SeparateLanes(StatementLoops):
    """A statement whose lanes write different elements."""

    def emit(self) -> None:
        """Append all loops."""
        self._nests(self.separate_tile)

    def emit_initial(self) -> None:
        """Append loops that store what the outputs hold before the reduction, in tiles as it has them."""
        self._nests(self.initial_tile)

    def _nests(self, tile: Callable[[Point, Tiles, Tiles], None]) -> None:
        others = self.one_by_one(self.parallel, parallel=True)
        windows = self.one_by_one(self.sequential, parallel=False)
        columns = self.apart_from_padding(self.vector, self.merged_vector_tiles())
        rows = self.apart_from_padding(self.jam, self.jam_tiles())
        pairs = [(along, across) for along in columns for across in rows]

        def tile_nest(outer: Sequence[Range], point: Point, along: Tiles, across: Tiles) -> None:
            ranges = [*outer, *windows, *self.tiled(self.vector, along), *self.tiled(self.jam, across)]
            self.nest(ranges, point, lambda at: tile(at, along, across))

        if self.schedule.taps is not None or reads_padding(self.statement):
            self.nest(others, self.origin, lambda point: self._rows_of_tiles(windows, point, columns, rows, tile))
        elif self.reductions or len(pairs) == 1:
            # With work inside, each kind of tile is worth passes of its own over all parallel loops.
            self.run_apart([partial(tile_nest, others, self.origin, along, across) for along, across in pairs])
        else:

            def all_tiles(point: Point) -> None:
                for along, across in pairs:
                    tile_nest((), point, along, across)

            self.nest(others, self.origin, all_tiles)

    def _rows_of_tiles(
        self,
        windows: Sequence[Range],
        point: Point,
        columns: Sequence[Tiles],
        rows: Sequence[Tiles],
        tile: Callable[[Point, Tiles, Tiles], None],
    ) -> None:
        """All tiles of an image, along its rows: what windows share is near then, and so are its edges."""

        def row_nest(across: Tiles) -> None:
            def row(at: Point) -> None:
                self.run_apart([partial(column_nest, at, along, across) for along in columns])

            self.nest([*windows, *self.tiled(self.jam, across)], point, row)

        def column_nest(at: Point, along: Tiles, across: Tiles) -> None:
            self.nest(self.tiled(self.vector, along), at, lambda inner: tile(inner, along, across))

        self.run_apart([partial(row_nest, across) for across in rows])

    def tile_points(self, point: Point, along: Tiles, across: Tiles) -> list[tuple[Point, Lanes]]:
        """The vectors of a tile at `point`, row by row: where their first lane is, and their lanes."""
        return [
            (point.moved(self.jam, row).moved(self.vector, column * along.lanes.count), along.lanes_of(column))
            for row in range(across.size)
            for column in range(along.size)
        ]

    def separate_tile(self, point: Point, along: Tiles, across: Tiles) -> None:
        points = self.tile_points(point, along, across)
        outputs = len(self.statement.outputs)
        if not self.reductions:
            reads: Reads = {}
            self.load_transposed(point, along, across, reads)
            self.fetch_pieces([at for at, _ in points], along.lanes)
            results: list[list[SSAValue]] = []
            for at, lanes in points:
                initial = [
                    self.initial(output, at, lanes) if self.statement.reads_output(output) else None
                    for output in range(outputs)
                ]
                results.append(self.body.evaluate(at, initial, lanes, reads))
                self.store(results[-1], at, lanes)
            self.store_rows(results, point, along)
            return
        if self.matrices is not None:
            lanes = [along.lanes_of(column) for column in range(along.size)]
            columns = sum(one.count if one.active is None else one.active for one in lanes)
            self.matrices.emit(self.spans[self.matrices.grouped], point, across.size, columns, self.reduce)
            return
        carried = self.initial_values(point, along, across)
        if self.dots is not None:
            span = self.spans[self.dots.loop]
            totals = self.dots.totals(span, point, lambda at: self.tile_points(at, along, across), carried, self.reduce)
            self.store_tile(totals, point, along, across)
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
            if along.lanes.count > 1:
                self.fetch_next_rows(inner, across.size)
            return values

        taps = self.schedule.taps
        self.fetch_across(point, along, across)
        totals = self.reduce([loop for loop in self.reductions if loop != taps], point, carried, step)
        self.store_tile(totals, point, along, across)

    def fetch_ahead(self, point: Point, along: Tiles, across: Tiles) -> None:
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

    def fetch_next_rows(self, point: Point, rows: int) -> None:
        """Fetch the rows of the next tile that `fetch_jam` asks for: the share of the step of the reduction at `point`.

        The rows of a tile of so many `rows`, which are read element by element, follow each other in memory, and so do
        those of the next one. Each step fetches as much of these: step 5 of a tile with 8 rows elements 40 to 47. The
        processor by itself foresees little of it, since it waits for a few accesses to each row, and a row is short.
        """
        if self.schedule.fetch_jam is None or self.jam is None:
            return
        later = point.moved(self.jam, rows)
        for loop in self.reductions:
            later = later.at(loop, later.indices[loop].scaled(rows), later.local[loop].scaled(rows))
        self.body.prefetch(self.statement.inputs[self.schedule.fetch_jam], [later], Lanes(self.reductions[-1]))

    def fetch_across(self, point: Point, along: Tiles, across: Tiles) -> None:
        """Fetch the pieces of rows that the tile at `point` is going to write, each of which ends in another line: the
        processor foresees what is written one behind the other, not in as many places."""
        for output in self.statement.outputs:
            for _, at, lanes in self.columns_across(output, point.moved(self.jam, across.size - 1), along):
                for number in range(lanes.active or lanes.count):
                    place = at.moved(self.vector, number)
                    self.body.prefetch(output, [place], Lanes(self.jam, across.size), writes=True)

    def fetch_pieces(self, points: Sequence[Point], lanes: Lanes) -> None:
        """Fetch what is read in pieces by the vectors that are `ahead` rows behind those at `points`."""
        if self.schedule.ahead is None or self.vector is None or lanes.count == 1:
            return
        row = next_row(self.statement, self.vector)
        for access in in_pieces(self.statement, self.vector):
            self.body.prefetch(access, [point.moved(row, self.schedule.ahead) for point in points], lanes)

    def load_transposed(self, point: Point, along: Tiles, across: Tiles, reads: Reads) -> None:
        """Transpose the tiles of inputs that have their unit stride along the jammed loop."""
        lanes = along.lanes
        if lanes.count == 1:
            return
        rows = Lanes(self.jam, lanes.count, across.size if across.size < lanes.count else None)
        for access in self.transposed:
            for column in range(along.size):
                self.body.load_transposed(access, point.moved(self.vector, column * lanes.count), lanes, rows, reads)
        for access in self.statement.inputs:
            if access in self.in_rows:
                for column in range(along.size):
                    at = point.moved(self.vector, column * lanes.count)
                    load_rows(self.builder, self.body, access, at, lanes, Lanes(self.jam, across.size), reads)

    def store(self, values: Sequence[SSAValue], point: Point, lanes: Lanes) -> None:
        """Store what does not go to memory in whole rows, nor across the lanes."""
        for value, output in zip(values, self.statement.outputs, strict=True):
            if lanes.count == 1 or output not in (*self.in_rows, *self.across):
                self.body.store(value, output, point, lanes)

    def store_tile(self, totals: Sequence[SSAValue], point: Point, along: Tiles, across: Tiles) -> None:
        """Store what the vectors of a tile at `point` have added up, output by output for each of them."""
        outputs = self.statement.outputs
        for number, (at, lanes) in enumerate(self.tile_points(point, along, across)):
            self.store(totals[number * len(outputs) : (number + 1) * len(outputs)], at, lanes)
        for number, output in enumerate(outputs):
            for column, at, lanes in self.columns_across(output, point, along):
                rows = totals[column * len(outputs) + number :: along.size * len(outputs)]
                store_across(self.builder, self.body, rows, output, at, lanes, self.jam)

    def columns_across(self, output: Access, point: Point, along: Tiles) -> Iterator[tuple[int, Point, Lanes]]:
        """The vectors of a row of a tile at `point`, where what they write lies across them."""
        for column in range(along.size if output in self.across else 0):
            lanes = along.lanes_of(column)
            if lanes.count > 1:
                yield column, point.moved(self.vector, column * along.lanes.count), lanes

    def store_rows(self, results: Sequence[Sequence[SSAValue]], point: Point, along: Tiles) -> None:
        """Store the others, given what the vectors of a tile at `point` yield."""
        lanes = along.lanes
        for number, output in enumerate(self.statement.outputs):
            if lanes.count == 1 or output not in self.in_rows:
                continue
            for column in range(along.size):
                columns = [self.builder.broadcast(r[number], lanes.count) for r in results[column :: along.size]]
                at = point.moved(self.vector, column * lanes.count)
                store_rows(self.builder, self.body, columns, output, at, lanes)

    def initial_values(self, point: Point, along: Tiles, across: Tiles) -> list[SSAValue]:
        """What the vectors of a tile start from, output by output for each of them."""
        reads: Reads = {}
        for output, value in zip(self.statement.outputs, self.statement.initial, strict=True):
            for _, at, lanes in self.columns_across(output, point, along) if value is None else ():
                load_across(self.body, output, at, lanes, Lanes(self.jam, across.size), reads)
        return [
            self.initial(output, at, lanes, reads)
            for at, lanes in self.tile_points(point, along, across)
            for output in range(len(self.statement.outputs))
        ]

    def initial_tile(self, point: Point, along: Tiles, across: Tiles) -> None:
        """What a tile starts from, to its place."""
        self.store_tile(self.initial_values(point, along, across), point, along, across)
