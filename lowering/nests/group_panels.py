"""Panels of groups: what lanes take that add up several iterations of a reduction loop at once (see `dot_products`).

A panel has one more dimension than others (see `panels`), of `depth` elements, and the reduction loop that groups are
along is counted in groups; in panels of rows it is the last loop. How a panel is filled depends on what is contiguous
in the input:

- neighbours along the grouped loop: a vector holds the groups of one iteration. Rows take it as it is; for columns
  squares of `width` such vectors are transposed in registers, a group as one number;
- neighbours along the panel's iterations: `depth` vectors are interleaved. Columns take that as it is; for rows squares
  of `width` such vectors are transposed;
- neither: elements are copied one by one.

What the last group lacks is 0. Lanes that pad the last vector hold anything. For tiles, groups that the last tile lacks
are 0, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from tenon.dialects.upstream.vector_ops import VectorContractOp
from tenon.lowering.kernels.dot_products import ELEMENTS, GROUP_BITS, DotProduct, has_groups
from tenon.lowering.kernels.statement import Statement, Stride, element_type
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps, vector_op, vector_type
from tenon.lowering.nests.body import ONE_LANE, Buffer, Lanes, Panel
from tenon.lowering.nests.panels import PanelLoops
from tenon.lowering.nests.transposed_tiles import shuffle, transposed

SIGN = -128
"""An i8 of which only the highest bit is set."""


class GroupPanelLoops(PanelLoops):
    """The loops that copy input `number` for `spans` to a panel. `loops` are the one that groups are along, and the
    one that groups lie side by side along; an operand `is_row` if its groups are broadcast.
    """

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        product: DotProduct,
        number: int,
        loops: tuple[int, int],
        width: int,
        spans: Sequence[Span],
        buffers: Mapping[SSAValue, Buffer],
        *,
        is_row: bool,
        tile: int = 1,
    ) -> None:
        """With a `tile`, there is a multiple of so many groups."""
        self.grouped, self.loop = loops
        super().__init__(builder, statement, number, self.loop, width, spans, buffers, is_row=is_row)
        self.others = [loop for loop in self.loops if loop not in loops]
        if is_row:
            self.loops = (self.loop, *self.others, self.grouped)
            *self.outer, self.last = self.loops
        self.product = product
        self.depth = product.depth
        self.factor = product.factor(number)
        self.flipped = product.flips and is_row
        self.corrects = product.flips and not is_row
        self.element: Attribute = element_type(self.access.buffer)
        self.filled = -(-spans[self.grouped].extent // self.depth)
        self.groups = -(-self.filled // tile) * tile

    def emit(self) -> Panel:
        """Allocate the panel and fill it."""
        padded = self.padded(self.count(self.last), self.depth * self.access.element_bytes)
        extents = [self.count(loop) for loop in self.outer]
        whole = self.builder.value(_alloc(self.element, [*extents, padded, self.depth]))
        # Vectors of groups are stored as vectors of elements.
        count = len(extents)
        sides = [*([n] for n in range(count)), [count, count + 1]]
        collapsed = memref.CollapseShapeOp.create(
            operands=(whole,),
            result_types=(MemRefType(self.element, [*extents, padded * self.depth]),),
            properties={"reassociation": ArrayAttr([ArrayAttr([IntegerAttr(n, i64) for n in side]) for side in sides])},
        )
        self.flat = self.builder.value(collapsed)
        origins = tuple(self.spans[loop].start for loop in self.loops)
        groups = (self.grouped, self.depth)
        self.panel = Panel(whole, self.loops, origins, groups, self.flipped)
        if has_groups(self.access, self.grouped):
            if self.is_row:
                self.copy_group_rows()
            else:
                self.copy_group_squares()
        elif self.access.stride(self.loop) is not Stride.OTHER:
            if self.is_row:
                self.copy_interleaved_squares()
            else:
                self.copy_interleaved()
        else:
            self.copy_single_elements()
        self.clear_groups()
        if self.corrects:
            return Panel(whole, self.loops, origins, groups, self.flipped, self.corrections(padded))
        return self.panel

    def count(self, loop: int) -> int:
        """The places of `loop` in the panel, before it is padded."""
        return self.groups if loop == self.grouped else self.spans[loop].extent

    def group_parts(self, size: int) -> list[tuple[Steps, int]]:
        """The grouped loop in parts of `size` elements: where they start, in groups, and how long they are."""
        full, rest = divmod(self.spans[self.grouped].extent, size)
        step = size // self.depth
        parts = [(Steps(0, full, step), size), (Steps(full * step, min(rest, 1)), rest)]
        return [(steps, elements) for steps, elements in parts if steps.count]

    def store_groups(self, value: SSAValue, distances: Mapping[int, Position]) -> None:
        """Write vectors of groups; the grouped loop's distance is counted in groups."""
        value = self.flip(value)
        indices = [self.builder.index(distances[loop]) for loop in self.outer]
        column = self.builder.index(distances[self.last].scaled(self.depth))
        self.builder.add(vector.StoreOp.create(operands=(value, self.flat, *indices, column)))

    def clear_groups(self) -> None:
        """Zeros in the groups that are beyond the last one."""
        if self.groups == self.filled:
            return
        size = self.depth * (1 if self.is_row else self.width)
        zeros = self.constant(0, vector_type(self.element, size))
        columns = self.spans[self.loop].extent
        along = Steps(0, columns) if self.is_row else Steps(0, -(-columns // self.width), self.width)

        def clear(positions: list[Position]) -> None:
            *outer, group, column = positions
            self.store_groups(
                zeros, {**dict(zip(self.others, outer, strict=True)), self.grouped: group, self.loop: column}
            )

        missing = Steps(self.filled, self.groups - self.filled)
        self.builder.parallel([*self.over(self.others), missing, along], clear)

    def flip(self, value: SSAValue) -> SSAValue:
        """`value` with the highest bit of each element flipped, if the panel is to have it so."""
        if not self.flipped:
            return value
        return self.builder.value(arith.XOrIOp(value, self.constant(SIGN, value.type)))

    def constant(self, number: int, of: Any) -> SSAValue:
        """`number` as an element, or in all places of a vector."""
        if isinstance(of, VectorType):
            dense: Any = of
            return self.builder.constant(DenseIntOrFPElementsAttr.from_list(dense, [number]), of)
        attribute = IntegerAttr(number, of) if isinstance(of, IntegerType) else FloatAttr(float(number), of)
        return self.builder.constant(attribute, of)

    # Neighbours along the grouped loop

    def copy_group_rows(self) -> None:
        loops = [self.loop, *self.others]
        for along, elements in self.group_parts(self.width * self.depth):

            def row(positions: list[Position], elements: int = elements) -> None:
                *outer, group = positions
                distances = dict(zip(loops, outer, strict=True))
                self.store_groups(self.loaded_groups(distances, group, elements), {**distances, self.grouped: group})

            self.builder.parallel([*self.over(loops), along], row)

    def loaded_groups(self, distances: Mapping[int, Position], group: Position, elements: int) -> SSAValue:
        """A vector of the groups from `group` on, of which there are `elements` elements."""
        size = self.width * self.depth
        lanes = Lanes(self.grouped, size, None if elements == size else elements)
        at = self.at({**distances, self.grouped: group.scaled(self.depth)})
        return self.body.load(self.access, at, lanes, {})

    def copy_group_squares(self) -> None:
        for along, elements in self.group_parts(self.width * self.depth):
            for across, columns in self.vectors(self.loop):

                def square(positions: list[Position], elements: int = elements, columns: int = columns) -> None:
                    *outer, column, group = positions
                    distances = {**dict(zip(self.others, outer, strict=True)), self.loop: column}
                    self.copy_group_square(distances, group, columns, elements)

                self.builder.parallel([*self.over(self.others), across, along], square)

    def copy_group_square(
        self, distances: Mapping[int, Position], group: Position, columns: int, elements: int
    ) -> None:
        """Vectors of the groups of one column each become vectors of one group of each column."""
        rows = [
            self.loaded_groups({**distances, self.loop: distances[self.loop] + column}, group, elements)
            for column in range(columns)
        ]
        for number, groups in enumerate(self.across(rows)[: -(-elements // self.depth)]):
            self.store_groups(groups, {**distances, self.grouped: group + number})

    def across(self, rows: Sequence[SSAValue]) -> list[SSAValue]:
        """The vectors of groups across `rows`, of which there are up to `width`."""
        numbers = vector_type(IntegerType(GROUP_BITS), self.width)
        groups = vector_type(self.element, self.width * self.depth)
        square = [self.builder.value(vector.BitcastOp.create(operands=(r,), result_types=(numbers,))) for r in rows]
        square += square[-1:] * (self.width - len(square))
        return [
            self.builder.value(vector.BitcastOp.create(operands=(value,), result_types=(groups,)))
            for value in transposed(self.builder, square)
        ]

    # Neighbours along the panel's iterations

    def copy_interleaved(self) -> None:
        for along, elements in self.group_parts(self.depth):
            for across, columns in self.vectors(self.loop):

                def groups(positions: list[Position], elements: int = elements, columns: int = columns) -> None:
                    *outer, group, column = positions
                    distances = {**dict(zip(self.others, outer, strict=True)), self.loop: column}
                    self.copy_groups(distances, group, columns, elements)

                self.builder.parallel([*self.over(self.others), along, across], groups)

    def copy_groups(self, distances: Mapping[int, Position], group: Position, columns: int, elements: int) -> None:
        value = self.interleaved_groups(distances, group, columns, elements)
        self.store_groups(value, {**distances, self.grouped: group})

    def copy_interleaved_squares(self) -> None:
        for along, elements in self.group_parts(self.width * self.depth):
            for across, rows in self.vectors(self.loop):

                def square(positions: list[Position], elements: int = elements, rows: int = rows) -> None:
                    *outer, row, group = positions
                    distances = {**dict(zip(self.others, outer, strict=True)), self.loop: row}
                    self.copy_interleaved_square(distances, group, rows, elements)

                self.builder.parallel([*self.over(self.others), across, along], square)

    def copy_interleaved_square(
        self, distances: Mapping[int, Position], group: Position, rows: int, elements: int
    ) -> None:
        """Vectors of one group of each row become vectors of the groups of one row each."""
        starts = range(0, elements, self.depth)
        values = [
            self.interleaved_groups(distances, group + start // self.depth, rows, min(self.depth, elements - start))
            for start in starts
        ]
        values += [self.constant(0, values[0].type)] * (self.width - len(values))
        for number, groups in enumerate(self.across(values)[:rows]):
            self.store_groups(groups, {**distances, self.loop: distances[self.loop] + number, self.grouped: group})

    def interleaved_groups(
        self, distances: Mapping[int, Position], group: Position, columns: int, elements: int
    ) -> SSAValue:
        """A vector of one group, of which there are `elements`, of each of `columns` iterations of the panel."""
        lanes = Lanes(self.loop, self.width, None if columns == self.width else columns)
        rows = [self.constant(0, vector_type(self.element, self.width))] * self.depth
        for number in range(elements):
            at = self.at({**distances, self.grouped: group.scaled(self.depth) + number})
            rows[number] = self.body.load(self.access, at, lanes, {})
        return self.interleaved(rows)

    def interleaved(self, rows: Sequence[SSAValue]) -> SSAValue:
        """The first elements of all `rows`, as many as a power of two, then the second ones, and so on."""
        if len(rows) == 1:
            return rows[0]
        first, second = self.interleaved(rows[::2]), self.interleaved(rows[1::2])
        assert isinstance(first.type, VectorType)
        (count,) = first.type.get_shape()
        return shuffle(self.builder, first, second, [n for lane in range(count) for n in (lane, lane + count)])

    # Neither

    def copy_single_elements(self) -> None:
        for along, elements in self.group_parts(self.depth):

            def group(positions: list[Position], elements: int = elements) -> None:
                *outer, column, group = positions
                distances = {**dict(zip(self.others, outer, strict=True)), self.loop: column}
                for place in range(self.depth):
                    value = self.constant(0, self.element)
                    if place < elements:
                        at = self.at({**distances, self.grouped: group.scaled(self.depth) + place})
                        value = self.body.load(self.access, at, ONE_LANE, {})
                    where = {**distances, self.grouped: group}
                    indices = [self.builder.index(where[loop]) for loop in self.panel.loops]
                    last = self.builder.index_constant(place)
                    self.builder.add(
                        memref.StoreOp.create(operands=(self.flip(value), self.panel.memref, *indices, last))
                    )

            self.builder.parallel([*self.over(self.others), Steps(0, self.spans[self.loop].extent), along], group)

    # What flipped factors add

    def corrections(self, padded: int) -> SSAValue:
        """For each column what the flipped elements of the other operand add to its sums, with the opposite sign."""
        wide = vector_type(i32, self.width)
        corrections = self.builder.value(_alloc(i32, [padded]))
        other = self.factor.flipped
        # A signed x that is taken as x + 128 adds 128 y too much, an unsigned one taken as x - 128 too little.
        scale = SIGN if self.factor.extension is arith.ExtSIOp else -SIGN
        shape = [self.width, self.depth]
        narrow, extended = VectorType(self.element, shape), VectorType(ELEMENTS[self.product.name][1], shape)
        ones = self.constant(1, narrow)

        def column(positions: list[Position]) -> None:
            def add(remaining: Sequence[int], at: list[SSAValue], totals: list[SSAValue]) -> Sequence[SSAValue]:
                if not remaining:
                    place = (*at, self.builder.index(positions[0]), self.builder.index_constant(0))
                    load = vector.LoadOp.create(operands=(self.panel.memref, *place), result_types=(narrow,))
                    extension = vector_op(self.factor.extension)
                    groups = extension.create(operands=(self.builder.value(load),), result_types=(extended,))
                    factors = vector_op(other).create(operands=(ones,), result_types=(extended,))
                    pair = self.builder.value(groups), self.builder.value(factors)
                    return [self.builder.value(VectorContractOp(*pair, totals[0]))]

                def body(position: Position, totals: list[SSAValue]) -> Sequence[SSAValue]:
                    return add(remaining[1:], [*at, self.builder.index(position)], totals)

                return self.builder.sequential(Steps(0, self.count(remaining[0])), totals, body)

            (total,) = add(self.outer, [], [self.constant(0, wide)])
            scaled = self.builder.value(arith.MuliOp(total, self.constant(scale, wide)))
            index = self.builder.index(positions[0])
            self.builder.add(vector.StoreOp.create(operands=(scaled, corrections, index)))

        self.builder.parallel([Steps(0, padded // self.width, self.width)], column)
        return corrections


def _alloc(element: Attribute, shape: Sequence[int]) -> memref.AllocOp:
    return memref.AllocOp.create(
        result_types=(MemRefType(element, shape),),
        properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])},
    )
