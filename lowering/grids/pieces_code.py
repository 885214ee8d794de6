"""Statements along an axis that run piece by piece: what is known of the pieces so far is in registers (the step
`pieces`), and what was added up is made smaller when a piece has a larger element than those before (`online`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.lowering.grids.statement_code import StatementCode
from tenon.lowering.grids.thread_code import Registers
from tenon.lowering.kernels.masked_range import Visible, visible_limits
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import INDEX, Limits, Position, Span
from tenon.lowering.steps.nest import THREADS, Loop, NestStatement, Pieces, VisibleAxes
from tenon.lowering.steps.products import factor_of

_EQUAL = 1  # the predicate oeq of arith.cmpf


class PiecesCode(StatementCode):
    """Writes statements of which those along an axis run piece by piece."""

    def _emit_statements(self) -> None:
        pieces = self.nest.pieces
        assert pieces is not None
        loop = self.nest.loop(pieces.loop)
        along = [statement for statement in self.nest.statements if loop.axis in statement.axes]
        for statement in along:
            self._approximate(statement)
            if self.products_of(statement) is None:
                _keep_precision(statement)
        first = self.nest.statements.index(along[0])
        before, others = self.nest.statements[:first], self.nest.statements[first:]
        behind = [statement for statement in others if loop.axis not in statement.axes]
        self._emit_each(before)
        rows = self._rows(pieces, behind)
        outside = self.held

        def piece() -> None:
            self.held = dict(outside)
            for statement in along:
                self._emit_along(statement, rows)

        if pieces.visible is not None:
            self.copies.limits[loop.name] = self._limits(loop, pieces.visible)
        self.copies.over([loop], piece)
        self.held = outside | rows.results()
        self._emit_each(behind)

    def _rows(self, pieces: Pieces, behind: Sequence[NestStatement]) -> Sums:
        """What registers have of the pieces so far; `behind` are the statements that follow the last one."""
        return Sums(self, pieces)

    def _emit_along(self, statement: NestStatement, rows: Sums) -> None:
        """What one piece has of a statement."""
        if statement in rows.pieces.sums:
            self._add_up(statement, rows)
        else:
            self._emit_each([statement])

    def _approximate(self, statement: NestStatement) -> None:
        """Allow an approximation of exponentials that a product rounds to elements of 2 bytes, whose error is many
        times that of the approximation."""
        places = {output.place for output in statement.outputs}
        operands = [known for known in self.nest.contractions if known.left.place in places]
        if any(isinstance(factor_of(known.statement, known.left).owner, arith.TruncFOp) for known in operands):
            _allow(statement, math.ExpOp, arith.FastMathFlag.APPROX_FUNC)

    def _limits(self, loop: Loop, visible: VisibleAxes) -> Limits:
        """The first piece of which a row of the block sees something, and the end of these."""
        code, nest = self.code, self.nest
        start, extent = Position(), 1
        for known in nest.loops_of([visible.row]):
            if known.name in code.positions and known.bind not in THREADS:
                start += code.positions[known.name].scaled(known.stride)
            else:
                extent += (known.extent - 1) * known.stride
        rows, seen = Span(start, start, extent), Visible(1, 0, visible.lower, visible.upper)
        elements = visible_limits(code.builder, seen, rows, nest.extents[loop.axis], loop.stride)
        builder, size = code.builder, code.builder.index_constant(loop.stride)
        lower, upper = elements[0], builder.index(Position(((elements[1], 1),), loop.stride - 1))
        return builder.pure(arith.DivUIOp, (lower, size), INDEX), builder.pure(arith.DivUIOp, (upper, size), INDEX)

    def _add_up(self, statement: NestStatement, rows: Sums) -> None:
        """Add what a piece has to a sum."""
        total, output = rows.sums[statement.outputs[0].place], statement.outputs[0]
        products = self.products_of(statement)
        code = self.code
        if products is not None:
            rows.prepare(total)
            products.add(total)
            return
        self._emit(statement)
        part = self.held[output.place]
        rows.prepare(total)

        def add() -> None:
            before, more = (code.load(array.memref, code.register(array)) for array in (total, part))
            code.store(code.value(arith.AddfOp(before, more)), total.memref, code.register(total))

        code.over(total.loops, add)


class OnlineCode(PiecesCode):
    """Writes statements of which those along an axis run piece by piece, beside the largest element of those so far."""

    def _rows(self, pieces: Pieces, behind: Sequence[NestStatement]) -> Sums:
        assert pieces.maximum is not None
        if not self._is_read(pieces.maximum, behind):
            # What is NaN has exponentials that are: the largest of the others is enough.
            _allow(pieces.maximum, arith.MaximumfOp, arith.FastMathFlag.NO_NANS)
        return _Rows(self, pieces, pieces.maximum)

    def _is_read(self, statement: NestStatement, others: Sequence[NestStatement]) -> bool:
        """Whether some of the `others` reads the result of a statement."""
        buffers = [access.buffer for other in others for access in other.inputs if access.access.is_used]
        return statement.outputs[0].buffer in buffers

    def _emit_along(self, statement: NestStatement, rows: Sums) -> None:
        super()._emit_along(statement, rows)
        if statement is rows.pieces.maximum:
            assert isinstance(rows, _Rows)
            rows.meet(self.held[statement.outputs[0].place])
            self.held[statement.outputs[0].place] = rows.shown


def _allow(statement: NestStatement, kind: type[Operation], flag: arith.FastMathFlag) -> None:
    """Set a flag of the operations of a kind in a body."""
    for op in statement.statement.body.ops:
        if isinstance(op, kind):
            op.properties["fastmath"] = arith.FastMathFlagsAttr([flag])


def _keep_precision(statement: NestStatement) -> None:
    """Do not round numbers to elements of 2 bytes that are extended again in the same body: sums of products, which no
    memory has between them and what is computed of them, stay as they were added up."""
    ops = list(statement.statement.body.ops)
    for op in ops:
        rounding = op.operands[0].owner if isinstance(op, arith.ExtFOp) else None
        if isinstance(rounding, arith.TruncFOp) and rounding.input.type == op.results[0].type:
            op.results[0].replace_all_uses_with(rounding.input)
    for op in reversed(ops):
        if isinstance(op, arith.ExtFOp | arith.TruncFOp) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


class Sums:
    """What registers have of the pieces so far: `sums` by place."""

    def __init__(self, writer: StatementCode, pieces: Pieces) -> None:
        self.code, self.pieces = writer.code, pieces
        self.sums: dict[tuple[object, ...], Registers] = {}
        for statement in pieces.sums:
            (output,) = statement.outputs
            array = writer.accumulators(statement, output)
            self.fill(array, self.code.zero(element_type(output.access.buffer)))
            self.sums[output.place] = array

    def fill(self, array: Registers, value: SSAValue) -> None:
        """Give all registers of an array a value."""
        self.code.over(array.loops, lambda: self.code.store(value, array.memref, self.code.register(array)))

    def results(self) -> dict[tuple[object, ...], Registers]:
        """What registers hold behind the last piece, by place."""
        return dict(self.sums)

    def prepare(self, total: Registers) -> None:
        """Make a sum what a piece is added to."""


class _Rows(Sums):
    """The same beside the largest elements."""

    def __init__(self, writer: StatementCode, pieces: Pieces, maximum: NestStatement) -> None:
        self._maximum = maximum.outputs[0]
        code = writer.code
        element = element_type(self._maximum.access.buffer)
        assert isinstance(element, AnyFloat)
        loops = code.nest.loops_of(self._maximum.axes)
        self._largest, self.shown, self._factor = [code.registers(element, loops) for _ in range(3)]
        """The largest elements; what is subtracted in their place, a number; what sums are multiplied by."""
        self._none = code.constant(FloatAttr(float("-inf"), element), element)
        self.code = code
        initial = maximum.statement.initial[0]
        self.fill(self._largest, self._none if initial is None else initial)
        super().__init__(writer, pieces)

    def results(self) -> dict[tuple[object, ...], Registers]:
        return {self._maximum.place: self._largest, **self.sums}

    def meet(self, piece: Registers) -> None:
        """Go on to a piece whose largest elements are known."""
        code, kind = self.code, element_type(self._largest.memref)

        def row() -> None:
            at = code.register(self._largest)
            before = code.load(self._largest.memref, at)
            now = code.value(arith.MaximumfOp(before, code.load(piece.memref, code.register(piece))))
            predicate: dict[str, Attribute] = {"predicate": IntegerAttr(_EQUAL, i64)}
            is_none = code.builder.pure(arith.CmpfOp, (now, self._none), i1, predicate)
            shown = code.value(arith.SelectOp(is_none, code.zero(kind), now))
            factor = code.value(math.ExpOp(code.value(arith.SubfOp(before, shown))))
            for array, value in ((self._largest, now), (self.shown, shown), (self._factor, factor)):
                code.store(value, array.memref, at)

        code.over(self._largest.loops, row)

    def prepare(self, total: Registers) -> None:
        """Multiply a sum by what its rows are worth now."""
        self.code.over(total.loops, partial(self._shrink, total))

    def _shrink(self, total: Registers) -> None:
        code = self.code
        factor = code.load(self._factor.memref, code.register(self._factor))
        value = code.load(total.memref, code.register(total))
        code.store(code.value(arith.MulfOp(value, factor)), total.memref, code.register(total))
