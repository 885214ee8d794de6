"""`pieces(jo)`: all statements along an axis run inside of a loop, for one piece before the next one, and sums along
the axis go on from piece to piece, so that nothing is kept that has elements for all of it.

    s[i, j] = sum of q[i, k] * k[j, k]                  for each piece of j:
    o[i, m] = sum of f(s[i, j]) * v[j, m]     ->            s = sum of q[i, k] * k[j, k]
                                                            o = o + sum over the piece of f(s) * v[j, m]

`online(jo)`: the same, although each element is divided by the exponential of the largest one of its row: what was
added up before is made smaller when a larger one is found.

    m = max x[j]     e[j] = exp(x[j] - m)     s = sum of e[j] * v[j]     for each piece of j:
                                                                           n = max(m, piece of x)
                                                                    ->     s = s * exp(m - n) + sum over the piece
                                                                           m = n

This is the softmax of an attention (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018). In a
piece in which all elements of a row, and of those before, are -inf, exponentials are 0; a row of such elements has sums
of 0.

Statements that are not along the axis come behind. Pieces of which a band, such as a causal mask, leaves nothing that
is added to a sum of the block are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.families.monoid import combining_op
from tenon.lowering.kernels.masked_values import OF_ROW, Band, Masked, bands_of, masked_values, oriented
from tenon.lowering.kernels.statement import LoopKind
from tenon.lowering.steps.nest import Nest, NestAccess, NestStatement, Pieces, Space, VisibleAxes
from tenon.lowering.steps.step import Step

_SCALED = (arith.MulfOp, arith.TruncFOp, arith.ExtFOp)
"""What makes of a multiple of something a multiple of the result, but for rounding."""


@dataclass(frozen=True)
class PiecesStep(Step):
    """Run what is along the axis of `loop` inside of it."""

    name = "pieces"

    loop: str

    def obstacle(self, nest: Nest) -> str | None:
        obstacle = _loop_obstacle(nest, self.loop)
        if obstacle is not None:
            return obstacle
        axis = nest.loop(self.loop).axis
        sums = _reducing(nest, axis)
        return next(_order_obstacles(nest, axis, sums), None) if sums else f"nothing is added up along axis {axis}"

    def apply(self, nest: Nest) -> None:
        axis = nest.loop(self.loop).axis
        nest.pieces = Pieces(self.loop, _reducing(nest, axis), _seen(nest, axis))


@dataclass(frozen=True)
class OnlineStep(Step):
    """Go through rows once, along `loop`."""

    name = "online"

    loop: str

    def obstacle(self, nest: Nest) -> str | None:
        obstacle = _loop_obstacle(nest, self.loop)
        if obstacle is not None:
            return obstacle
        axis = nest.loop(self.loop).axis
        found = _found(nest, axis)
        return found if isinstance(found, str) else next(_obstacles(nest, axis, found), None)

    def apply(self, nest: Nest) -> None:
        axis = nest.loop(self.loop).axis
        found = _found(nest, axis)
        assert not isinstance(found, str)
        largest, sums = found
        nest.pieces = Pieces(self.loop, sums, _visible(nest, axis, largest), largest)


def _loop_obstacle(nest: Nest, name: str) -> str | None:
    """What is against running statements inside of a loop."""
    loop = nest.loop(name)
    if nest.pieces is not None:
        return f"statements run in pieces along loop {nest.pieces.loop} already"
    if not loop.in_order:
        return f"loop {name} is bound or written out"
    outer = [known for known in nest.loops_of([loop.axis]) if known.stride > loop.stride and known.extent > 1]
    return f"loop {outer[0].name} is around it" if outer else None


def _reducing(nest: Nest, axis: str) -> tuple[NestStatement, ...]:
    return tuple([s for s in nest.statements if axis in s.reduced])


_Found = tuple[NestStatement, tuple[NestStatement, ...]]


def _found(nest: Nest, axis: str) -> _Found | str:
    """The statement that finds the largest elements along an axis, and those that add up along it."""
    reducing = _reducing(nest, axis)
    largest = [s for s in reducing if isinstance(_combination(s), arith.MaximumfOp)]
    if len(largest) != 1:
        return f"{len(largest)} statements find the largest element along axis {axis}, expected one"
    return largest[0], tuple([s for s in reducing if s is not largest[0]])


def _combination(statement: NestStatement) -> Operation | None:
    """How a statement combines, if it has one result."""
    generic = statement.statement
    if len(statement.outputs) != 1 or LoopKind.SEQUENTIAL in generic.kinds:
        return None
    return combining_op(generic.body, generic.accumulators[0])


def _term(statement: NestStatement) -> SSAValue:
    """What a statement combines with what it has."""
    total = _combination(statement)
    assert total is not None
    (term,) = [operand for operand in total.operands if operand is not statement.statement.accumulators[0]]
    return term


def _order_obstacles(nest: Nest, axis: str, sums: Sequence[NestStatement]) -> Iterator[str]:
    """What is against having done all statements along an axis for one piece before the next, and others behind."""
    along = [s for s in nest.statements if axis in s.axes]
    first = nest.statements.index(along[0])
    read = {a.buffer for s in along for a in s.inputs if a.access.is_used}
    for statement in sums:
        if not isinstance(_combination(statement), arith.AddfOp):
            yield f"{_shown(nest, statement)} is no sum along axis {axis}"
        elif not is_zero(statement.statement.initial[0]):
            yield f"{_shown(nest, statement)} does not begin with 0"
        elif statement.outputs[0].buffer in read:
            yield f"{_shown(nest, statement)} is used along axis {axis} before all is added up"
    for statement in nest.statements[first:]:
        if statement not in along and any(output.buffer in read for output in statement.outputs):
            yield f"{_shown(nest, statement)} is between statements along axis {axis}"
    for statement in along:
        for output in statement.outputs:
            if nest.space(output.buffer) is not Space.REGISTERS or output.buffer not in nest.spaces:
                yield f"{nest.name_of(output.buffer)} is not kept in registers"
            elif statement in sums and output.buffer in nest.kernel.function.body.block.args:
                yield f"{nest.name_of(output.buffer)} is stored before it is known"


def _obstacles(nest: Nest, axis: str, found: _Found) -> Iterator[str]:
    largest, sums = found
    yield from _order_obstacles(nest, axis, sums)
    exponentials = {o.buffer for s in nest.statements if _is_exponential(s, largest) for o in s.outputs}
    for statement in (s for s in nest.statements if axis in s.axes):
        uses = any(a.buffer is largest.outputs[0].buffer and a.access.is_used for a in statement.inputs)
        if uses and not _is_exponential(statement, largest):
            yield f"{_shown(nest, statement)} uses the largest element, and is no exponential of a distance from it"
        used = [a.buffer for a in statement.inputs if a.buffer in exponentials and a.access.is_used]
        if used and statement not in sums:
            yield f"{_shown(nest, statement)} uses exponentials of distances, and does not add them up"
    for statement in sums:
        if not _adds_multiples(statement, exponentials):
            yield f"{_shown(nest, statement)} does not add up multiples of exponentials of distances"


def _seen(nest: Nest, axis: str) -> VisibleAxes | None:
    """The band outside of which nothing is added to sums along an axis."""
    along = [s for s in nest.statements if axis in s.axes]
    for statement in along:
        for band in _bands_along(statement, axis):
            own, turned = (_AxisBand.of(statement, known) for known in (band, oriented(band, band.column)))
            if _adds_nothing(nest, along, own) or (turned.leaves_some(nest) and _adds_nothing(nest, along, turned)):
                return VisibleAxes(own.row, *band.limits)
    return None


def _bands_along(statement: NestStatement, axis: str) -> Iterator[Band]:
    """The bands by which a statement selects, turned so that columns are along an axis."""
    column = statement.axes.index(axis)
    for band in bands_of(statement.statement.body):
        if column in (band.row, band.column):
            yield oriented(band, band.row if band.column == column else band.column)


@dataclass(frozen=True)
class _AxisBand:
    """A band of two axes."""

    row: str
    column: str
    band: Band

    @staticmethod
    def of(statement: NestStatement, band: Band) -> _AxisBand:
        """That of two loops of a statement."""
        return _AxisBand(statement.axes[band.row], statement.axes[band.column], band)

    def leaves_some(self, nest: Nest) -> bool:
        """Whether a place of each row is within the band."""
        rows, columns = nest.extents[self.row], nest.extents[self.column]
        return self.band.upper >= 0 and rows - 1 + self.band.lower <= columns - 1


def _adds_nothing(nest: Nest, along: Sequence[NestStatement], band: _AxisBand) -> bool:
    """Whether what sums add up is 0 outside of a band of axes, where what is the same in all columns is a number."""
    known: dict[SSAValue, Masked] = {}

    def value(access: NestAccess) -> Masked:
        if access.buffer in known:
            return known[access.buffer]
        is_row = band.column not in access.axes and not nest.writers(access.buffer)
        return OF_ROW if is_row else None

    for statement in along:
        if statement.reduced:
            adds = [known[a.buffer] == 0.0 for a in statement.inputs if a.buffer in known and a.access.is_used]
            if _sums_along(statement, band) and not any(adds):
                return False
            continue
        body, axes = statement.statement.body, statement.axes
        if not {band.row, band.column} <= set(axes):
            return False
        own = Band(axes.index(band.row), axes.index(band.column), band.band.lower, band.band.upper)
        arguments: dict[SSAValue, Masked] = {
            b: value(a) for b, a in zip(body.args, statement.inputs, strict=False) if a.access.is_used
        }
        values = masked_values(body, arguments, own)
        assert body.last_op is not None
        for output, result in zip(statement.outputs, body.last_op.operands, strict=True):
            known[output.buffer] = values.get(result)
    return True


def _sums_along(statement: NestStatement, band: _AxisBand) -> bool:
    return bool({band.row, band.column} & set(statement.reduced))


def visible_along(nest: Nest, axis: str) -> VisibleAxes | None:
    """The band outside of which nothing that is gone through in pieces along an axis counts."""
    found = _found(nest, axis)
    return _seen(nest, axis) if isinstance(found, str) else _visible(nest, axis, found[0])


def _visible(nest: Nest, axis: str, largest: NestStatement) -> VisibleAxes | None:
    """The band outside of which elements are -inf, and their exponentials 0."""
    generic = largest.statement
    element = _term(largest)
    for band in _bands_along(largest, axis):
        row = largest.axes[band.row]
        if masked_values(generic.body, {}, band).get(element) != -inf:
            continue
        if all(_vanishes(s, largest, row, axis, band) for s in nest.statements if _is_exponential(s, largest)):
            return VisibleAxes(row, *band.limits)
    return None


def _vanishes(statement: NestStatement, largest: NestStatement, row: str, column: str, band: Band) -> bool:
    """Whether the exponentials of a statement are 0 outside of a band of axes."""
    own = Band(statement.axes.index(row), statement.axes.index(column), band.lower, band.upper)
    body, place = statement.statement.body, largest.outputs[0].place
    numbers: dict[SSAValue, Masked] = {
        b: OF_ROW for b, a in zip(body.args, statement.inputs, strict=False) if a.place == place
    }
    assert body.last_op is not None
    return masked_values(body, numbers, own).get(body.last_op.operands[0]) == 0.0


def _shown(nest: Nest, statement: NestStatement) -> str:
    return f"the statement of {nest.name_of(statement.outputs[0].buffer)}"


def _is_exponential(statement: NestStatement, largest: NestStatement) -> bool:
    """Whether a statement gives exponentials of the distances of elements from the largest ones."""
    generic, inputs = statement.statement, statement.inputs
    end = generic.body.last_op
    if statement.reduced or end is None or len(end.operands) != 1 or not isinstance(end.operands[0].owner, math.ExpOp):
        return False
    distance = end.operands[0].owner.operands[0].owner
    if not isinstance(distance, arith.SubfOp):
        return False
    place = largest.outputs[0].place
    arguments = [b for b, a in zip(generic.body.args, inputs, strict=False) if a.access.is_used and a.place == place]
    return len(arguments) == 1 and distance.operands[1] is arguments[0] and len(list(arguments[0].uses)) == 1


def _adds_multiples(statement: NestStatement, exponentials: set[SSAValue]) -> bool:
    """Whether each term of a sum is one of `exponentials`, rounded or multiplied by something else."""
    generic = statement.statement
    arguments = [b for b, a in zip(generic.body.args, statement.inputs, strict=False) if a.buffer in exponentials]
    return len(arguments) == 1 and _multiplicity(_term(statement), arguments[0]) == 1


def _multiplicity(value: SSAValue, argument: SSAValue) -> int:
    """How often a value has `argument` as a factor; 0 where it does not depend on it, and many where in another way."""
    if isinstance(value, BlockArgument) or not isinstance(value.owner, Operation):
        return int(value is argument)
    counts = [_multiplicity(operand, argument) for operand in value.owner.operands]
    return sum(counts) if isinstance(value.owner, _SCALED) or not any(counts) else 2


def is_zero(value: SSAValue | None) -> bool:
    """Whether a value is the number 0."""
    owner = value.owner if value is not None else None
    return isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) and owner.value.value.data == 0
