"""Nests whose lanes are combined: the vector loop is a reduction.

The accumulators start neutral, and become a scalar behind the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import vector
from xdsl.dialects.arith import SelectOp
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import Monoid, combining_monoid
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import Position, Steps, vector_op
from tenon.lowering.nests.body import ONE_LANE, Lanes, Point, Reads
from tenon.lowering.nests.statement_loops import Range, StatementLoops, Tiles


class CombinedLanes(StatementLoops):
    """A statement whose lanes are combined."""

    def emit(self) -> None:
        """Append all loops."""
        others = self.one_by_one(self.parallel, parallel=True)
        windows = self.one_by_one(self.sequential, parallel=False)
        tiles = self.jam_tiles()

        def tile_nest(outer: Sequence[Range], point: Point, across: Tiles) -> None:
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
        tiles = self.apart_from_padding(self.vector, self.vector_tiles())
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

    def reduction_steps(self, loop: int) -> list[Steps]:
        return [tile.steps for tile in self.apart_from_padding(loop, [Tiles(self.spans[loop].steps())])]

    def combine_tiles(self, point: Point, tile: Tiles, rows: int, carried: list[SSAValue]) -> list[SSAValue]:
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
