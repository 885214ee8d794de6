"""Copies of what a block of iterations reads of an input, in the order in which the register tiles read it.

A panel is a `memref.alloc` of shape `[reduction loops of the input][iterations of one loop, padded to whole vectors]`.
How it is filled depends on what is contiguous in the input:

- neighbours along the last loop of the panel: rows of vectors are copied;
- neighbours along a reduction loop: squares of `width` vectors are transposed in registers;
- neither: elements are copied one by one.

Lanes that pad the last vector hold anything: what is computed with them is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType, i32
from xdsl.ir import SSAValue

from tenon.lowering.kernel_statements import Access, LoopKind, Statement, Stride, element_type
from tenon.lowering.loop_builder import LoopBuilder, Position, Span, Steps
from tenon.lowering.row_schedule import CACHE_BYTES, batch_bytes
from tenon.lowering.statement_body import ONE_LANE, BodyEmitter, Buffer, Lanes, Panel, Point
from tenon.lowering.transposed_tiles import transposed

LARGEST_ROW = 8
"""Vectors of a row that are copied without a loop."""
ROWS_AHEAD = 16
"""Rows between what is copied and what is fetched from an input that outgrows the cache: its rows lie apart, which the
processor does not foresee across pages."""


class PanelLoops:
    """The loops that copy input `number` for `spans` to a panel that is contiguous along `loop`."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        number: int,
        loop: int,
        width: int,
        spans: Sequence[Span],
        buffers: Mapping[SSAValue, Buffer],
    ) -> None:
        self.builder = builder
        self.body = BodyEmitter(builder, statement, dict(buffers), fuse_products=False)
        self.statement = statement
        self.access: Access = statement.inputs[number]
        self.loop = loop
        self.width = width
        self.spans = spans
        self.origin = Point(tuple(s.start for s in spans), tuple(s.local for s in spans))
        used = self.access.loops()
        self.reductions = [r for r in statement.loops(LoopKind.REDUCTION) if r in used]
        self.columns = spans[loop].extent

    def emit(self) -> Panel:
        """Allocate the panel and fill it."""
        padded = -(-self.columns // self.width) * self.width
        shape = [*(self.spans[r].extent for r in self.reductions), padded]
        alloc = memref.AllocOp.create(
            result_types=(MemRefType(element_type(self.access.buffer), shape),),
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
        )
        loops = (*self.reductions, self.loop)
        self.panel = Panel(self.builder.value(alloc), loops, tuple(self.spans[loop].start for loop in loops))
        contiguous = next((r for r in self.reductions if self.access.stride(r) is Stride.UNIT), None)
        if self.access.stride(self.loop) is not Stride.OTHER:
            self.copy_rows()
        elif contiguous is not None and self.width > 1:
            self.copy_squares(contiguous)
        else:
            self.copy_elements()
        return self.panel

    def at(self, distances: Mapping[int, Position]) -> Point:
        """The point at `distances` from the start of the panel."""
        point = self.origin
        for loop, distance in distances.items():
            span = self.spans[loop]
            point = point.at(loop, span.start + distance, span.local + distance)
        return point

    def store(self, value: SSAValue, distances: Mapping[int, Position]) -> None:
        """Write an element, or a vector along the panel's last loop."""
        indices = [self.builder.index(distances[loop]) for loop in self.panel.loops]
        op = vector.StoreOp if isinstance(value.type, VectorType) else memref.StoreOp
        self.builder.add(op.create(operands=(value, self.panel.memref, *indices)))

    def over(self, loops: Sequence[int]) -> list[Steps]:
        """All iterations of `loops`."""
        return [Steps(0, self.spans[loop].extent) for loop in loops]

    def vectors(self) -> list[tuple[Steps, int]]:
        """The columns as vectors: where they start, and how many of their lanes there are."""
        full, rest = divmod(self.columns, self.width)
        parts = [(Steps(0, full, self.width), self.width), (Steps(full * self.width, min(rest, 1)), rest)]
        return [(steps, lanes) for steps, lanes in parts if steps.count]

    # Neighbours along the panel's last loop

    def copy_rows(self) -> None:
        parts = self.vectors()
        is_far = self.width > 1 and bool(self.reductions) and batch_bytes(self.statement, self.access) > CACHE_BYTES
        if self.columns <= LARGEST_ROW * self.width:
            parts = [(Steps(s.start + n * s.step, 1), lanes) for s, lanes in parts for n in range(s.count)]

        def row(positions: list[Position]) -> None:
            distances = dict(zip(self.reductions, positions, strict=True))
            if is_far:
                later = self.at(distances).moved(self.reductions[-1], ROWS_AHEAD)
                starts = [later.moved(self.loop, lane) for lane in range(0, self.columns, self.width)]
                self.body.prefetch(self.access, starts, Lanes(self.loop, self.width))
            for steps, lanes in parts:
                self.builder.parallel([steps], lambda at, n=lanes: self.copy_vector(distances, at[0], n))

        self.builder.parallel(self.over(self.reductions), row)

    def copy_vector(self, distances: Mapping[int, Position], start: Position, active: int) -> None:
        lanes = Lanes(self.loop, self.width, None if active == self.width else active)
        where = {**distances, self.loop: start}
        self.store(self.body.load(self.access, self.at(where), lanes, {}), where)

    # Neighbours along a reduction loop

    def copy_squares(self, contiguous: int) -> None:
        others = [r for r in self.reductions if r != contiguous]
        full, rest = divmod(self.spans[contiguous].extent, self.width)
        parts = [(Steps(0, full, self.width), self.width), (Steps(full * self.width, min(rest, 1)), rest)]
        for depth, rows in parts:
            for across, columns in self.vectors():

                def square(positions: list[Position], rows: int = rows, columns: int = columns) -> None:
                    *outer, column, row = positions
                    distances = dict(zip(others, outer, strict=True))
                    self.copy_square({**distances, self.loop: column, contiguous: row}, contiguous, columns, rows)

                self.builder.parallel([*self.over(others), across, depth], square)

    def copy_square(self, start: Mapping[int, Position], contiguous: int, columns: int, rows: int) -> None:
        """Vectors along `contiguous`, one per column, become vectors along the columns, one per row."""
        lanes = Lanes(contiguous, self.width, None if rows == self.width else rows)
        loaded = [
            self.body.load(self.access, self.at({**start, self.loop: start[self.loop] + column}), lanes, {})
            for column in range(columns)
        ]
        loaded += loaded[-1:] * (self.width - columns)
        for row, value in enumerate(transposed(self.builder, loaded)[:rows]):
            self.store(value, {**start, contiguous: start[contiguous] + row})

    # Neither

    def copy_elements(self) -> None:
        def element(positions: list[Position]) -> None:
            distances = dict(zip(self.panel.loops, positions, strict=True))
            self.store(self.body.load(self.access, self.at(distances), ONE_LANE, {}), distances)

        self.builder.parallel(self.over(self.panel.loops), element)
