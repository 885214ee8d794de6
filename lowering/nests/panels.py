"""Copies of what a block of iterations reads of an input, in the order in which the register tiles read it.

A panel is a `memref.alloc` with a dimension for each reduction loop of the input and one for the iterations that share
it. Vectors of columns are read along these, so they come last; of rows one element is read at a time, step by step, so
the reduction comes last: a tile reads as many streams as it has rows, and no lines or pages beside them. The last
dimension is padded to whole vectors, and by a line where the rows of a panel would lie a multiple of a quarter of a
page apart: the nearest cache tells places by where they are in a page, and a square of them is written at once. How a
panel is filled depends on what is contiguous in the input:

- neighbours along the last loop of the panel: rows of vectors are copied;
- neighbours along another one: squares of `width` vectors are transposed in registers;
- neither: elements are copied one by one.

What the body widens, such as f16, is copied as what it is widened to (`widened_inputs`).

Lanes that pad the last vector hold anything: what is computed with them is not stored. Where only the launch tells how
much is left behind the last whole block, a panel has room for a block, and its other dimensions are padded to whole
vectors as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType, i32
from xdsl.ir import SSAValue

from tenon.dialects.types.size import Size, most
from tenon.lowering.kernels.footprint import batch_bytes
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, Stride
from tenon.lowering.kernels.widened_inputs import widened_input
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, Span, Steps, rest_steps
from tenon.lowering.nests.body import ONE_LANE, BodyEmitter, Buffer, Lanes, Panel, Point
from tenon.lowering.nests.transposed_tiles import transposed

LARGEST_ROW = 8
"""Vectors of a row that are copied without a loop."""
ROWS_AHEAD = 16
"""Rows between what is copied and what is fetched from an input that outgrows the cache: its rows lie apart, which the
processor does not foresee across pages."""


class PanelLoops:
    """The loops that copy input `number` for `spans` to a panel of the iterations of `loop`: rows, or columns."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        number: int,
        loop: int,
        width: int,
        spans: Sequence[Span],
        buffers: Mapping[SSAValue, Buffer],
        *,
        is_row: bool,
    ) -> None:
        self.builder = builder
        self.body = BodyEmitter(builder, statement, dict(buffers), fuse_products=False)
        self.statement = statement
        self.access: Access = statement.inputs[number]
        self.argument, self.widened = statement.body.args[number], widened_input(statement, number)
        self.width = width
        self.is_row = is_row
        self.spans = spans
        self.origin = Point(tuple(s.start for s in spans), tuple(s.local for s in spans))
        used = self.access.loops()
        reductions = [r for r in statement.loops(LoopKind.REDUCTION) if r in used]
        reductions.sort(key=lambda r: spans[r].extent != 1)  # the last dimension of a panel of rows is padded
        self.loops = (loop, *reductions) if is_row else (*reductions, loop)
        *self.outer, self.last = self.loops
        self.is_far = width > 1 and batch_bytes(statement, self.access) > builder.machine.l2

    def emit(self) -> Panel:
        """Allocate the panel and fill it."""
        padded = self.padded(self.room(self.last), self.widened.element_bytes)
        shape = [*map(self.room, self.outer), padded]
        alloc = memref.AllocOp.create(
            result_types=(MemRefType(self.widened.value.type, shape),),
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
        )
        origins = tuple(self.spans[loop].start for loop in self.loops)
        self.panel = Panel(self.builder.value(alloc), self.loops, origins, value=self.widened.value)
        contiguous = next((loop for loop in self.outer if self.access.stride(loop) is Stride.UNIT), None)
        if self.access.stride(self.last) is not Stride.OTHER:
            self.copy_rows()
        elif contiguous is not None and self.width > 1:
            self.copy_squares(contiguous)
        else:
            self.copy_elements()
        return self.panel

    def room(self, loop: int) -> int:
        """For how many iterations of `loop` there is room."""
        extent = self.spans[loop].extent
        return -(-int(most(extent)) // self.width) * self.width if isinstance(extent, Size) else extent

    def padded(self, count: int, size: int) -> int:
        """How many places of `size` bytes the last dimension has that holds `count`: whole vectors, and in a panel of
        rows not such a number that all rows compete for the same sets of a cache."""
        machine, places = self.builder.machine, -(-count // self.width) * self.width
        competes = self.is_row and places * size % (machine.page // 4) == 0
        return places + machine.line // size if competes else places

    def at(self, distances: Mapping[int, Position]) -> Point:
        """The point at `distances` from the start of the panel."""
        point = self.origin
        for loop, distance in distances.items():
            span = self.spans[loop]
            point = point.at(loop, span.start + distance, span.local + distance)
        return point

    def load(self, point: Point, lanes: Lanes) -> SSAValue:
        """What goes to the panel of the element, or elements, at `point`."""
        values: dict[SSAValue, SSAValue] = {self.argument: self.body.load(self.access, point, lanes, {})}
        if self.widened.op is not None:
            self.body.compute([self.widened.op], values, point, lanes, {})
        return values[self.widened.value]

    def store(self, value: SSAValue, distances: Mapping[int, Position]) -> None:
        """Write an element, or a vector along the panel's last loop."""
        indices = [self.builder.index(distances[loop]) for loop in self.panel.loops]
        op = vector.StoreOp if isinstance(value.type, VectorType) else memref.StoreOp
        self.builder.add(op.create(operands=(value, self.panel.memref, *indices)))

    def over(self, loops: Sequence[int]) -> list[Steps]:
        """All iterations of `loops`."""
        return [Steps(0, self.spans[loop].extent) for loop in loops]

    def vectors(self, loop: int) -> list[tuple[Steps, int]]:
        """The iterations of `loop` as vectors: where they start, and how many of their lanes there are."""
        full, rest = divmod(self.spans[loop].extent, self.width)
        parts = [(Steps(0, full, self.width), self.width), (rest_steps(full * self.width, rest, self.width), rest)]
        return [(steps, lanes) for steps, lanes in parts if steps.count != 0]

    # Neighbours along the panel's last loop

    def copy_rows(self) -> None:
        parts = self.vectors(self.last)
        extent = self.spans[self.last].extent
        is_short = not isinstance(extent, Size) and extent <= LARGEST_ROW * self.width
        if is_short:
            parts = [(Steps(s.start + n * s.step, 1), lanes) for s, lanes in parts for n in range(s.count)]

        def row(positions: list[Position]) -> None:
            distances = dict(zip(self.outer, positions, strict=True))
            if self.is_far and self.outer and is_short:
                later = self.at(distances).moved(self.outer[-1], ROWS_AHEAD)
                starts = [later.moved(self.last, lane) for lane in range(0, extent, self.width)]
                self.body.prefetch(self.access, starts, Lanes(self.last, self.width))
            for steps, lanes in parts:
                self.builder.parallel([steps], lambda at, n=lanes: self.copy_vector(distances, at[0], n))

        self.builder.parallel(self.over(self.outer), row)

    def copy_vector(self, distances: Mapping[int, Position], start: Position, active: int) -> None:
        lanes = Lanes(self.last, self.width, None if active == self.width else active)
        where = {**distances, self.last: start}
        self.store(self.load(self.at(where), lanes), where)

    # Neighbours along another loop

    def copy_squares(self, contiguous: int) -> None:
        others = [loop for loop in self.outer if loop != contiguous]
        for along, rows in self.vectors(contiguous):
            for across, columns in self.vectors(self.last):

                def square(positions: list[Position], rows: int = rows, columns: int = columns) -> None:
                    *outer, column, row = positions
                    distances = dict(zip(others, outer, strict=True))
                    self.copy_square({**distances, self.last: column, contiguous: row}, contiguous, columns, rows)

                self.builder.parallel([*self.over(others), across, along], square)

    def copy_square(self, start: Mapping[int, Position], contiguous: int, columns: int, rows: int) -> None:
        """Vectors along `contiguous`, one per column, become vectors along the columns, one per row."""
        lanes = Lanes(contiguous, self.width, None if rows == self.width else rows)
        points = [self.at({**start, self.last: start[self.last] + column}) for column in self.columns(columns)]
        for point in points if self.is_far else ():
            self.body.prefetch(self.access, [point.moved(self.last, self.width)], lanes)
        loaded = [self.load(point, lanes) for point in points]
        loaded += loaded[-1:] * (self.width - len(loaded))
        # Of rows that only the launch counts all are stored: there is room.
        for row, value in enumerate(transposed(self.builder, loaded)[: None if isinstance(rows, Size) else rows]):
            self.store(value, {**start, contiguous: start[contiguous] + row})

    def columns(self, count: int) -> list[Position]:
        """The first `count` columns of a square; where only the launch tells how many these are, the last one stands
        for those behind it."""
        if not isinstance(count, Size):
            return [Position((), column) for column in range(count)]
        last = self.builder.index_constant(count - 1)
        smaller = [
            self.builder.pure(arith.MinSIOp, (self.builder.index_constant(column), last), INDEX)
            for column in range(self.width)
        ]
        return [Position(((value, 1),)) for value in smaller]

    # Neither

    def copy_elements(self) -> None:
        def element(positions: list[Position]) -> None:
            distances = dict(zip(self.panel.loops, positions, strict=True))
            self.store(self.load(self.at(distances), ONE_LANE), distances)

        self.builder.parallel(self.over(self.panel.loops), element)
