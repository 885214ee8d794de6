"""What one step of a register tile does where lanes take groups of a reduction loop at once (see `dot_products`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from tenon.dialects.upstream.vector_ops import VectorContractOp
from tenon.lowering.kernels.dot_products import ELEMENTS, DotProduct, dot_product
from tenon.lowering.kernels.statement import LoopKind, Statement, element_type
from tenon.lowering.loop_ir.builder import LoopBuilder, Position, Span, Steps, vector_op, vector_type
from tenon.lowering.nests.body import BodyEmitter, Lanes, Panel, Point, Reads
from tenon.lowering.schedules.schedule_attribute import Schedule

Step = Callable[[Point, list[SSAValue]], list[SSAValue]]
Reduce = Callable[[Sequence[int], Point, list[SSAValue], Step], list[SSAValue]]
"""Runs all iterations of some loops from a point on, carrying values through a step."""


class DotTile:
    """Adds the products of groups; `loop` is the one that groups are along, `depth` their length."""

    def __init__(
        self,
        builder: LoopBuilder,
        statement: Statement,
        schedule: Schedule,
        body: BodyEmitter,
        panels: Mapping[int, Panel],
    ) -> None:
        found = dot_product(statement)
        assert found is not None
        assert schedule.dot is not None
        self.builder = builder
        self.statement = statement
        self.body = body
        self.panels = panels
        self.product: DotProduct = found
        self.loop, self.depth = schedule.dot, schedule.depth

    def totals(
        self,
        span: Span,
        point: Point,
        tile: Callable[[Point], list[tuple[Point, Lanes]]],
        carried: Sequence[SSAValue],
        reduce: Reduce,
    ) -> list[SSAValue]:
        """What the vectors of a `tile` at `point`, which start from `carried`, are in the end: `reduce` runs the other
        reductions around the one that groups are along, which has `span`."""
        full, rest = divmod(span.extent, self.depth)

        def step(at: Point, distance: Position, values: Sequence[SSAValue], taken: int) -> list[SSAValue]:
            reads: Reads = {}
            places = tile(at.at(self.loop, span.start + distance, span.local + distance))
            return [
                self.add(place, value, lanes, taken, reads)
                for (place, lanes), value in zip(places, values, strict=True)
            ]

        def groups(at: Point, values: list[SSAValue]) -> list[SSAValue]:
            def body(position: Position, values: list[SSAValue]) -> list[SSAValue]:
                return step(at, position.scaled(self.depth), values, self.depth)

            values = self.builder.sequential(Steps(0, full), values, body)
            return step(at, Position((), full * self.depth), values, rest) if rest else values

        others = [loop for loop in self.statement.loops(LoopKind.REDUCTION) if loop != self.loop]
        first = [self.corrected(value, at, lanes) for (at, lanes), value in zip(tile(point), carried, strict=True)]
        return reduce(others, point, first, groups)

    def add(self, point: Point, total: SSAValue, lanes: Lanes, taken: int, reads: Reads) -> SSAValue:
        """`total` and, lane by lane, the products of the group at `point`, of which the first `taken` elements are."""
        extended: list[SSAValue] = []
        for factor in self.product.factors:
            panel = self.panels.get(factor.input)
            extension = factor.flipped if panel is not None and panel.flipped else factor.extension
            group = self.group(factor.input, point, lanes, taken, reads)
            extended.append(self.extended(extension, group, lanes, reads))
        return self.builder.value(VectorContractOp(extended[0], extended[1], total))

    def group(self, number: int, point: Point, lanes: Lanes, taken: int, reads: Reads) -> SSAValue:
        """The group of an input at `point`, or the groups of all lanes."""
        panel = self.panels.get(number)
        if panel is None:
            group = Lanes(self.loop, self.depth, None if taken == self.depth else taken)
            return self.body.load(self.statement.inputs[number], point, group, reads)
        indices = (*panel.place(self.builder, point), self.builder.index_constant(0))
        shape = [lanes.count, self.depth] if panel.loops[-1] == lanes.loop else [self.depth]
        known = reads.get((panel.memref, indices))
        if known is None:
            loaded = VectorType(element_type(panel.memref), shape)
            op = vector.LoadOp.create(operands=(panel.memref, *indices), result_types=(loaded,))
            known = reads[panel.memref, indices] = self.builder.value(op)
        return known

    def extended(self, extension: type[Operation], group: SSAValue, lanes: Lanes, reads: Reads) -> SSAValue:
        """The groups of all lanes, extended; one group is that of each."""
        known = reads.get((extension, group))
        if known is not None:
            return known
        kind = group.type
        assert isinstance(kind, VectorType)
        shape = [lanes.count, self.depth]
        groups = group
        if kind.get_num_dims() == 1:
            wide = VectorType(kind.element_type, shape)
            groups = self.builder.value(vector.BroadcastOp.create(operands=(group,), result_types=(wide,)))
        wide = VectorType(ELEMENTS[self.product.name][1], shape)
        known = self.builder.value(vector_op(extension).create(operands=(groups,), result_types=(wide,)))
        reads[extension, group] = known
        return known

    def corrected(self, total: SSAValue, point: Point, lanes: Lanes) -> SSAValue:
        """What an accumulator starts from, without what flipped elements add to it."""
        for panel in self.panels.values():
            if panel.corrections is not None:
                index = panel.place(self.builder, point)[-1]
                wide = vector_type(element_type(panel.corrections), lanes.count)
                op = vector.LoadOp.create(operands=(panel.corrections, index), result_types=(wide,))
                added = self.builder.value(op)
                total = self.builder.value(arith.AddiOp(total, added))
        return total
