"""Statements along an axis that run piece by piece: what is known of the pieces so far is in registers (the step
`pieces`), and what was added up is made smaller when a piece has a larger element than those before (`online`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import e, inf, log2

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, UnitAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.lowering.grids.statement_code import StatementCode
from tenon.lowering.grids.thread_code import FLUSH, Registers
from tenon.lowering.grids.warpgroup_products import Turns, WarpgroupProducts
from tenon.lowering.kernels.masked_range import Visible, visible_limits
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.loop_ir.builder import INDEX, Limits, Position, Span
from tenon.lowering.steps.nest import THREADS, Loop, NestAccess, NestStatement, Pieces, VisibleAxes
from tenon.lowering.steps.products import factor_of

_EQUAL = 1  # the predicate oeq of arith.cmpf
_LARGEST_SCALE = 2.0**60
"""Of what elements are a multiple of: with larger ones, and their reciprocals, the multiple may be beyond f32's range
where the element is not, or the other way round."""


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
        groups = [known for known in map(self.products_of, pieces.sums) if isinstance(known, WarpgroupProducts)]
        together = [statement for statement in along if self._is_of_memory(statement, pieces)]

        def piece() -> None:
            self.held = dict(outside)
            if together:
                self._multiply(together, self.held)
            for statement in along:
                if statement not in together:
                    self._emit_along(statement, rows)
            if groups:
                groups[-1].wait(0)

        if pieces.visible is not None:
            self.copies.limits[loop.name] = self._limits(loop, pieces.visible)
        self._with_turns(lambda: self.copies.over([loop], piece))
        self.held = outside | rows.results()
        self._emit_each(behind)

    def _is_of_memory(self, statement: NestStatement, pieces: Pieces) -> bool:
        """Whether a statement is a product of warpgroups, of operands in memory: all of these begin together."""
        products = self.products_of(statement)
        is_first = isinstance(products, WarpgroupProducts) and products.is_of_memory
        return is_first and statement not in pieces.sums

    def _with_turns(self, body: Callable[[], None]) -> None:
        """`body`, in which several warpgroups begin products one after the other."""
        groups = [products for products in self.products if isinstance(products, WarpgroupProducts)]
        turns = Turns(self.code) if groups else None
        if turns is None or turns.count == 1:
            body()
            return
        for products in groups:
            products.turns = turns
        turns.open()
        body()
        turns.close()
        for products in groups:
            products.turns = None

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
        self._emit([statement])
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
        axis = self.nest.loop(pieces.loop).axis
        place = pieces.maximum.outputs[0].place
        exponentials = [s for s in self.nest.statements if axis in s.axes and any(_reads(a, place) for a in s.inputs)]
        return _Rows(self, pieces, pieces.maximum, _unscale(pieces.maximum, exponentials, place))

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
    _erase_unused(statement)


def _erase_unused(statement: NestStatement) -> None:
    """Erase what a body computes and does not use."""
    for op in reversed(list(statement.statement.body.ops)):
        if op.results and not op.regions and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _reads(access: NestAccess, place: tuple[object, ...]) -> bool:
    return access.access.is_used and access.place == place


def _unscale(maximum: NestStatement, exponentials: Sequence[NestStatement], place: tuple[object, ...]) -> float | None:
    """Where elements are a positive multiple of others, -inf or 0, and their exponentials approximations, find the
    largest of these others, and take exponentials by one multiplication and addition for each; the multiple.

        m = max x * c     e = exp(x * c - m)     ->     m = max x     e = exp2(x * d - m * d), d = c * log2 e

    What m * d loses by rounding, 2^-24 of it at most, is in all exponentials of a row, and in their sum. It has to be
    below the exponents of the type that exponentials are rounded to.
    """
    total = maximum.statement.body.last_op
    assert total is not None
    combined = total.operands[0].owner
    if not isinstance(combined, arith.MaximumfOp):
        return None
    (number,) = [n for n, value in enumerate(combined.operands) if value not in maximum.statement.accumulators]
    found = [_Exponential.of(statement, place) for statement in exponentials]
    scales = {_scale(combined.operands[number]), *[known.scale if known is not None else None for known in found]}
    scale = scales.pop()
    if scales or scale is None:
        return None
    combined.operands[number] = _unscaled(combined.operands[number])
    _erase_unused(maximum)
    for known in found:
        assert known is not None
        known.rewrite(scale)
    return scale


@dataclass(frozen=True)
class _Exponential:
    """The exponential `op` of the distance of an element, a multiple of another one, from the largest one."""

    statement: NestStatement
    op: math.ExpOp
    distance: arith.SubfOp
    scale: float

    @staticmethod
    def of(statement: NestStatement, place: tuple[object, ...]) -> _Exponential | None:
        """That of a statement, where it is one and may be approximated."""
        ops = [op for op in statement.statement.body.ops if isinstance(op, math.ExpOp)]
        arguments = zip(statement.statement.body.args, statement.inputs, strict=False)
        largest = [argument for argument, access in arguments if _reads(access, place)]
        for op in ops:
            distance = op.operand.owner
            if isinstance(distance, arith.SubfOp) and [distance.rhs] == largest and _is_approximate(op):
                scale = _scale(distance.lhs)
                return None if scale is None else _Exponential(statement, op, distance, scale)
        return None

    def rewrite(self, scale: float) -> None:
        """Have it be of elements that are not multiplied, and of the largest of these."""
        element, kind = _unscaled(self.distance.lhs), self.op.result.type
        assert isinstance(kind, AnyFloat)
        factor = arith.ConstantOp(FloatAttr(scale * log2(e), kind))
        shift = arith.MulfOp(self.distance.rhs, factor)
        negative = arith.NegfOp(shift)
        distance = math.FmaOp(element, factor, negative)
        power = _flushed_power(distance.result)
        block = self.statement.statement.body
        for op in (factor, shift, negative, distance, power):
            block.insert_op_before(op, self.op)
        self.op.result.replace_all_uses_with(power.result)
        _erase_unused(self.statement)


def _flushed_power(value: SSAValue) -> math.Exp2Op:
    """An approximated power of two, which is beside others of which the largest is 1: 0 where it is subnormal."""
    power = math.Exp2Op(value, fastmath=arith.FastMathFlagsAttr([arith.FastMathFlag.APPROX_FUNC]))
    power.attributes[FLUSH] = UnitAttr()
    return power


def _number(value: SSAValue) -> float | None:
    """The constant that a value is."""
    owner = value.owner
    if isinstance(owner, arith.ExtFOp):
        return _number(owner.input)
    constant = owner.value if isinstance(owner, arith.ConstantOp) else None
    return constant.value.data if isinstance(constant, FloatAttr) else None


def _scale(value: SSAValue) -> float | None:
    """The positive number that a value is a multiple of, if it is -inf or 0 wherever it is not one of that."""
    owner = value.owner
    if isinstance(owner, arith.MulfOp):
        (scale, *others) = [n for operand in owner.operands if (n := _number(operand)) is not None] or [None]
        return scale if scale is not None and not others and 1 / _LARGEST_SCALE < scale < _LARGEST_SCALE else None
    if isinstance(owner, arith.SelectOp):
        scales = {_scale(part) for part in (owner.lhs, owner.rhs) if _number(part) not in (-inf, 0.0)}
        return scales.pop() if len(scales) == 1 else None
    return None


def _unscaled(value: SSAValue) -> SSAValue:
    """What is multiplied, or -inf, of a value that `_scale` knows."""
    owner = value.owner
    if isinstance(owner, arith.MulfOp):
        return next(operand for operand in owner.operands if _number(operand) is None)
    if not isinstance(owner, arith.SelectOp) or owner.parent is None:
        return value  # -inf
    chosen = arith.SelectOp(owner.cond, _unscaled(owner.lhs), _unscaled(owner.rhs))
    owner.parent.insert_op_before(chosen, owner)
    return chosen.result


def _is_approximate(op: math.ExpOp) -> bool:
    return arith.FastMathFlag.APPROX_FUNC in op.fastmath.data


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

    def __init__(self, writer: StatementCode, pieces: Pieces, maximum: NestStatement, scale: float | None) -> None:
        """With a `scale`, elements are that times what the largest is found of."""
        self._maximum, self._scale = maximum.outputs[0], scale
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
        if self._scale is not None:
            self.code.over(self._largest.loops, self._multiply)
        return {self._maximum.place: self._largest, **self.sums}

    def _multiply(self) -> None:
        """Make of the largest number in a row the largest element."""
        code, at = self.code, self.code.register(self._largest)
        value = self._scaled(code.load(self._largest.memref, at), 1.0)
        code.store(value, self._largest.memref, at)

    def _scaled(self, value: SSAValue, unit: float) -> SSAValue:
        element = element_type(self._largest.memref)
        assert isinstance(element, AnyFloat)
        assert self._scale is not None
        factor = self.code.constant(FloatAttr(self._scale * unit, element), element)
        return self.code.value(arith.MulfOp(value, factor))

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
            factor = self._power(code.value(arith.SubfOp(before, shown)))
            for array, value in ((self._largest, now), (self.shown, shown), (self._factor, factor)):
                code.store(value, array.memref, at)

        code.over(self._largest.loops, row)

    def _power(self, distance: SSAValue) -> SSAValue:
        """The exponential of a distance of largest elements."""
        if self._scale is None:
            return self.code.value(math.ExpOp(distance))
        return self.code.value(_flushed_power(self._scaled(distance, log2(e))))

    def prepare(self, total: Registers) -> None:
        """Multiply a sum by what its rows are worth now."""
        self.code.over(total.loops, partial(self._shrink, total))

    def _shrink(self, total: Registers) -> None:
        code = self.code
        factor = code.load(self._factor.memref, code.register(self._factor))
        value = code.load(total.memref, code.register(total))
        code.store(code.value(arith.MulfOp(value, factor)), total.memref, code.register(total))
