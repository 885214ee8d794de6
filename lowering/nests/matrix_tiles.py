"""What one step of a register tile does where instructions multiply matrices: tiles of the processor, in upstream's
dialect `amx` (see `dot_products`).

    for rows and columns of tiles:                  up to two by two, so that each that is loaded is used twice
      sums = zeros, or what is stored already
      for steps of `tile` groups along the reduction:
        rows = tile_load      from the input, or from a panel
        columns = tile_load   from a panel
        sums = tile_mul(rows, columns, sums)
      tile_store sums

At the edges tiles have fewer rows or columns; along the reduction panels have zeros (`group_panels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import copysign, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import SSAValue

from tenon.dialects.upstream.amx import TileLoadOp, TileMulFOp, TileMulIOp, TileStoreOp, TileType, TileZeroOp
from tenon.lowering.buffers.memref_facts import strides_of
from tenon.lowering.kernels.dot_products import ELEMENTS, Factor, dot_product
from tenon.lowering.kernels.statement import Access, LoopKind, Statement, buffer_shape
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps
from tenon.lowering.nests.body import BodyEmitter, Panel, Point
from tenon.lowering.schedules.schedule_attribute import Schedule

Leaf = Callable[[Point, list[SSAValue]], list[SSAValue]]
Reduce = Callable[[Sequence[int], Point, list[SSAValue], Leaf], list[SSAValue]]
Parts = Sequence[tuple[int, int]]
"""Where tiles begin along a loop, and how many iterations each has."""


class MatrixTile:
    """Multiplies matrices of `tile` groups along the loop `grouped`."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        schedule: Schedule,
        body: BodyEmitter,
        panels: Mapping[int, Panel],
    ) -> None:
        product = dot_product(statement, tiles=True)
        assert product is not None
        assert schedule.dot is not None
        assert schedule.tile is not None
        assert schedule.vector is not None
        assert schedule.jam is not None
        assert schedule.pack is not None
        self.builder = builder
        self.statement = statement
        self.body = body
        self.panels = panels
        self.grouped, self.depth, self.tile = schedule.dot, schedule.depth, schedule.tile
        self.vector, self.jam = schedule.vector, schedule.jam
        self.columns: Factor = product.factor(schedule.pack)
        self.rows: Factor = next(factor for factor in product.factors if factor is not self.columns)
        self.element, self.sums = ELEMENTS[product.name]

    def emit(self, span: Span, point: Point, rows: int, columns: int, reduce: Reduce) -> None:
        """The products of `rows` by `columns` at `point`, where the loop that groups are along has `span`."""
        across, along = self.parts(rows), self.parts(columns)
        output = self.statement.outputs[0]
        stride = self.builder.index_constant(_distance(self.body, output, point, self.jam))
        places = [
            (self.body.address(output, point.moved(self.jam, row).moved(self.vector, column)), height, width)
            for row, height in across
            for column, width in along
        ]
        sums = [
            self.start(TileType.of(height, width, self.sums), target, indices, stride)
            for (target, indices), height, width in places
        ]
        step = self.tile * self.depth

        def groups(at: Point, values: list[SSAValue]) -> list[SSAValue]:
            def body(position: Position, values: list[SSAValue]) -> list[SSAValue]:
                distance = position.scaled(step)
                inside = at.at(self.grouped, span.start + distance, span.local + distance)
                return self.add(inside, across, along, values)

            return self.builder.sequential(Steps(0, -(-span.extent // step)), values, body)

        others = [loop for loop in self.statement.loops(LoopKind.REDUCTION) if loop != self.grouped]
        totals = reduce(others, point, sums, groups)
        for total, ((target, indices), _, _) in zip(totals, places, strict=True):
            self.builder.add(TileStoreOp(target, indices, total, stride))

    def parts(self, count: int) -> Parts:
        """Tiles along a loop of `count` iterations."""
        return [(start, min(self.tile, count - start)) for start in range(0, count, self.tile)]

    def start(self, type_: TileType, target: SSAValue, indices: Sequence[SSAValue], stride: SSAValue) -> SSAValue:
        """Zeros, or what is stored already."""
        if starts_from_zero(self.statement):
            return self.builder.value(TileZeroOp(type_))
        return self.builder.value(TileLoadOp(target, indices, stride, type_))

    def add(self, point: Point, across: Parts, along: Parts, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """One step along the groups: `sums`, row by row of tiles, and the products at `point`."""
        factors = [self.load_columns(point.moved(self.vector, column), width) for column, width in along]
        values = iter(sums)
        totals: list[SSAValue] = []
        for row, height in across:
            left = self.load_rows(point.moved(self.jam, row), height)
            totals += [self.product(left, right, next(values)) for right in factors]
        return totals

    def product(self, left: SSAValue, right: SSAValue, total: SSAValue) -> SSAValue:
        if self.element == BFloat16Type():
            return self.builder.value(TileMulFOp(left, right, total))
        unsigned = (self.rows.extension is arith.ExtUIOp, self.columns.extension is arith.ExtUIOp)
        return self.builder.value(TileMulIOp.of(left, right, total, unsigned))

    def load_rows(self, point: Point, height: int) -> SSAValue:
        """A tile with a row for each iteration of `jam`."""
        panel = self.panels.get(self.rows.input)
        if panel is not None:
            stride = prod(buffer_shape(panel.memref)[1:])
            return self.load_panel(panel, point, stride, height, self.tile * self.depth)
        access = self.statement.inputs[self.rows.input]
        source, indices = self.body.address(access, point)
        stride = _distance(self.body, access, point, self.jam)
        return self.load(source, indices, stride, height, self.tile * self.depth)

    def load_columns(self, point: Point, width: int) -> SSAValue:
        """A tile with a row for each group, of all columns."""
        panel = self.panels[self.columns.input]
        dim = panel.loops.index(self.grouped)
        stride = prod(buffer_shape(panel.memref)[dim + 1 :])
        return self.load_panel(panel, point, stride, self.tile, width * self.depth)

    def load_panel(self, panel: Panel, point: Point, stride: int, height: int, width: int) -> SSAValue:
        indices = [*panel.place(self.builder, point), self.builder.index_constant(0)]
        return self.load(panel.memref, indices, stride, height, width)

    def load(self, source: SSAValue, indices: Sequence[SSAValue], stride: int, height: int, width: int) -> SSAValue:
        type_ = TileType.of(height, width, self.element)
        return self.builder.value(TileLoadOp(source, indices, self.builder.index_constant(stride), type_))


def starts_from_zero(statement: Statement) -> bool:
    """Whether the sums of a statement begin with nothing."""
    (value,) = statement.initial
    owner = None if value is None else value.owner
    if not isinstance(owner, arith.ConstantOp):
        return False
    number = owner.value
    if isinstance(number, FloatAttr):
        return number.value.data == 0 and copysign(1, number.value.data) > 0
    return isinstance(number, IntegerAttr) and number.value.data == 0


def _distance(body: BodyEmitter, access: Access, point: Point, loop: int) -> int:
    """How many elements lie between those at `point` and one further along `loop`, in the memref that has them."""
    source, here = body.place(access, point)
    _, there = body.place(access, point.moved(loop, 1))
    assert isinstance(source.type, MemRefType)
    steps = [after.constant - before.constant for before, after in zip(here, there, strict=True)]
    return sum(step * stride for step, stride in zip(steps, strides_of(source.type), strict=True) if step)
