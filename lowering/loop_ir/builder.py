"""Builds loop IR directly: loops, and index arithmetic that is shared and sits in the outermost block that can hold
it.

Pure values (constants, index arithmetic, broadcasts, masks) go through `LoopBuilder.pure`: each is built once, at
the end of the innermost block that defines one of its operands. Loops under construction are not attached yet, so
that end lies before them: invariant code is born outside of its loops. Everything else is appended to the current
block.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from xdsl.dialects import arith, func, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    UnitAttr,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free

from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import SizeValues, size_arguments
from tenon.dialects.upstream.vector_arith import VectorArith
from tenon.passes.machine import GENERIC, Machine

INDEX = IndexType()

_VECTOR_OPS: dict[str, type[Operation]] = {op.name: op for op in VectorArith.operations}


BESIDE = "beside"
"""The attribute of a parallel loop that may run at the same time as the one in front of it: neither reads what the
other writes, and they write different elements. So may what follows such loops and is no loop; all its ops have it."""


def is_pure(op: Operation) -> bool:
    """Whether `op` does nothing but compute its results; xDSL does not say so of masks (patch 18)."""
    return isinstance(op, vector.CreateMaskOp) or is_side_effect_free(op)


def vector_op(op_type: type[Operation]) -> type[Operation]:
    """The class that stands for `op_type` on vectors."""
    return _VECTOR_OPS.get(op_type.name, op_type)


@cache
def vector_type(element: Attribute, lanes: int) -> VectorType[Attribute]:
    """The type of `lanes` elements."""
    return VectorType(element, [lanes])


@dataclass(frozen=True)
class Position:
    """An index: the sum of `value * factor` over `terms`, plus `constant`."""

    terms: tuple[tuple[SSAValue, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Position | int) -> Position:
        if isinstance(other, int | Size):
            return Position(self.terms, self.constant + other) if other != 0 else self
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        factors = dict(self.terms)
        for value, factor in other.terms:
            factors[value] = factors.get(value, 0) + factor
        return Position(tuple(factors.items()), self.constant + other.constant)

    def scaled(self, factor: int) -> Position:
        """This index times `factor`."""
        if factor == 1:
            return self
        if factor == 0:
            return Position()
        return Position(tuple((value, f * factor) for value, f in self.terms), self.constant * factor)

    def divided(self, divisor: int) -> Position:
        """This index divided by `divisor`, of which it is a multiple."""
        assert self.constant % divisor == 0
        assert all(factor % divisor == 0 for _, factor in self.terms)
        return Position(tuple((value, f // divisor) for value, f in self.terms), self.constant // divisor)


Limits = tuple[SSAValue, SSAValue]
"""Where a loop starts, and where it ends, as values of type `index`: multiples of its steps, or the loop's end."""


@dataclass(frozen=True)
class Steps:
    """The iterations of a loop: `count` of them from `start`, `step` apart; of these only the ones within `limits`, if
    there are some, which the program computes."""

    start: int
    count: int
    step: int = 1
    limits: Limits | None = None

    @property
    def is_single(self) -> bool:
        """Whether there is just one iteration, so that no loop is needed."""
        return self.count == 1 and self.limits is None

    def apart(self, inner: range, reach: int) -> list[Steps]:
        """Those that stay within `inner` with `reach` iterations each, and those in front and behind, one after the
        other."""
        low = min(-(-max(inner.start - self.start, 0) // self.step), self.count)
        high = max(min((inner.stop - reach - self.start) // self.step + 1, self.count), low)
        parts = (range(low), range(low, high), range(high, self.count))
        return [replace(self, start=self.start + p.start * self.step, count=len(p)) for p in parts if p]


def rest_steps(start: int, left: int, size: int) -> Steps:
    """The one step for the `left` iterations from `start` on that do not fill one of `size`, or none where there are
    none left, which may be known at launch only."""
    return Steps(start, -(-left // size), size) if isinstance(left, Size) else Steps(start, min(left, 1))


@dataclass(frozen=True)
class Span:
    """The iterations of a loop that a nest runs: `extent` from `start`, which is `local` in shrunken buffers. With
    `limits`, which count from `start`, only those within them are needed."""

    start: Position
    local: Position
    extent: int
    limits: Limits | None = None

    @staticmethod
    def whole(extent: int) -> Span:
        """All iterations of a loop."""
        return Span(Position(), Position(), extent)

    def steps(self) -> Steps:
        """Its iterations one by one."""
        return Steps(0, self.extent, limits=self.limits)

    def part(self, distance: Position, extent: int) -> Span:
        """`extent` of the iterations, `distance` from the first."""
        return Span(self.start + distance, self.local + distance, extent)


class LoopBuilder:
    """Appends loop IR for a `machine` to `entry`, a block that other code may have begun to fill."""

    def __init__(self, entry: Block, machine: Machine = GENERIC) -> None:
        self.machine = machine
        self._blocks = [entry]
        self._levels = {entry: 0}
        self._pure: list[dict[object, SSAValue]] = [{}]
        self._ranges: dict[SSAValue, tuple[int, int]] = {}
        self._last_constant: Operation | None = None
        function = entry.parent_op()
        arguments = size_arguments(function) if isinstance(function, func.FuncOp) else {}
        self._sizes = SizeValues(arguments, self.add_constant)

    @property
    def function(self) -> Operation | None:
        """The function that is being filled, if it is one."""
        return self._blocks[0].parent_op()

    @property
    def block(self) -> Block:
        """The block that is being filled."""
        return self._blocks[-1]

    def add(self, op: Operation) -> Operation:
        """Append `op` to the current block."""
        self._blocks[-1].add_op(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        """Append `op` and return its only result."""
        self._blocks[-1].add_op(op)
        return op.results[0]

    def pure(
        self,
        op_type: type[Operation],
        operands: tuple[SSAValue, ...],
        result_type: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """The value of a pure op, built once per scope and outside of the loops that do not change it."""
        level = max(map(self._level, operands), default=0)
        key = (op_type, operands, result_type, tuple(properties.items()) if properties else None)
        known = self._pure[level].get(key)
        if known is None:
            op = op_type.create(operands=operands, result_types=(result_type,), properties=properties or {})
            self._blocks[level].add_op(op)
            known = self._pure[level][key] = op.results[0]
        return known

    def _level(self, value: SSAValue) -> int:
        owner = value.owner
        return self._levels[owner if isinstance(owner, Block) else owner.parent]  # pyright: ignore[reportArgumentType]

    def constant(self, attribute: Attribute, value_type: Attribute) -> SSAValue:
        """A constant, at the start of the entry block."""
        key = (arith.ConstantOp, attribute, value_type)
        known = self._pure[0].get(key)
        if known is None:
            op = arith.ConstantOp.create(result_types=(value_type,), properties={"value": attribute})
            self.add_constant(op)
            known = self._pure[0][key] = op.results[0]
        return known

    def add_constant(self, op: Operation) -> None:
        """Put `op`, which depends on arguments and constants alone, to the start of the entry block."""
        entry = self._blocks[0]
        if self._last_constant is not None:
            entry.insert_op_after(op, self._last_constant)
        elif entry.first_op is not None:
            entry.insert_op_before(op, entry.first_op)
        else:
            entry.add_op(op)
        self._last_constant = op

    def index_constant(self, number: int) -> SSAValue:
        """The constant `number` of type `index`, or the value of a size that is known at launch."""
        known = self._pure[0].get(number)
        if known is None and isinstance(number, Size):
            return self._sizes.value(number)
        if known is None:
            known = self._pure[0][number] = self.constant(IntegerAttr(number, INDEX), INDEX)
        return known

    def index(self, position: Position) -> SSAValue:
        """The value of `position`."""
        total: SSAValue | None = None
        for value, factor in position.terms:
            if factor == 0:
                continue
            term = value
            if factor != 1:
                term = self.pure(arith.MuliOp, (value, self.index_constant(factor)), INDEX)
            total = term if total is None else self.pure(arith.AddiOp, (total, term), INDEX)
        if total is None:
            return self.index_constant(position.constant)
        if position.constant != 0:
            return self.pure(arith.AddiOp, (total, self.index_constant(position.constant)), INDEX)
        return total

    def counted(self, position: Position, lanes: int, element: Attribute = INDEX) -> SSAValue:
        """The numbers from `position` on in `lanes` lanes, as elements of that type; the first alone in one lane."""
        first = self.index(position)
        if element != INDEX:
            first = self.pure(arith.IndexCastOp, (first,), element)
        if lanes == 1:
            return first
        wide: VectorType[Any] = vector_type(element, lanes)
        steps = self.constant(DenseIntOrFPElementsAttr.from_list(wide, list(range(lanes))), wide)
        return self.pure(arith.AddiOp, (self.broadcast(first, lanes), steps), wide)

    def range_of(self, position: Position) -> tuple[int, int] | None:
        """The least and the largest value that `position` may have, if the loops tell."""
        least = most = position.constant
        for value, factor in position.terms:
            known = self._ranges.get(value)
            if known is None:
                return None
            ends = sorted(end * factor for end in known)
            least, most = least + ends[0], most + ends[1]
        return None if isinstance(position.constant, Size) else (least, most)

    def _note_range(self, value: SSAValue, steps: Steps) -> None:
        last = steps.start + (steps.count - 1) * steps.step
        if not isinstance(steps.start, Size) and not isinstance(last, Size):
            self._ranges[value] = steps.start, last

    def broadcast(self, value: SSAValue, lanes: int) -> SSAValue:
        """`value` in each of `lanes` lanes; a vector, or one lane, is returned as it is."""
        if lanes == 1 or isinstance(value.type, VectorType):
            return value
        return self.pure(vector.BroadcastOp, (value,), vector_type(value.type, lanes))

    def mask(self, active: int, lanes: int) -> SSAValue:
        """A mask of `lanes` lanes with the first `active` set."""
        return self.pure(vector.CreateMaskOp, (self.index_constant(active),), vector_type(i1, lanes))

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """What is appended goes to `block`, whose op is not there yet."""
        self._levels[block] = len(self._blocks)
        self._blocks.append(block)
        self._pure.append({})
        yield
        self._blocks.pop()
        self._pure.pop()

    def parallel(
        self, steps: Sequence[Steps], body: Callable[[list[Position]], None], *, is_loop: bool = False
    ) -> None:
        """An `scf.parallel` over all `steps`; loops of one iteration leave no trace, one of none leaves nothing. With
        `is_loop` there is a loop even if all are of one iteration."""
        if any(s.count == 0 for s in steps):
            return
        repeated = [s for s in steps if not s.is_single]
        if is_loop and not repeated:
            repeated = [Steps(0, 1)]
        block = Block(arg_types=[INDEX] * len(repeated)) if repeated else None
        arguments = iter(block.args if block else ())
        positions = [Position((), s.start) if s.is_single else Position(((next(arguments), 1),)) for s in steps]
        if block is None:
            body(positions)
            return
        for argument, s in zip(block.args, repeated, strict=True):
            self._note_range(argument, s)
        with self.inside(block):
            body(positions)
            self.add(scf.ReduceOp.create())
        bounds = [value for values in zip(*map(self._bounds, repeated), strict=True) for value in values]
        segments = DenseArrayBase.from_list(i32, [len(repeated)] * 3 + [0])
        self.add(
            scf.ParallelOp.create(
                operands=bounds, properties={"operandSegmentSizes": segments}, regions=[Region(block)]
            )
        )

    def side_by_side(self, parts: Iterable[Callable[[], None]]) -> None:
        """Append what each of `parts` does, none of which needs another one; loops of theirs that follow one another,
        and what follows these without parallel loops, get the attribute `beside`."""
        follows = False
        for part in parts:
            before = self.block.last_op
            part()
            op = self.block.first_op if before is None else before.next_op
            effects: list[Operation] = []
            while op is not None:
                if not is_pure(op):
                    effects.append(op)
                op = op.next_op
            is_loop = len(effects) == 1 and isinstance(effects[0], scf.ParallelOp)
            if follows and (is_loop or not any(isinstance(effect, scf.ParallelOp) for effect in effects)):
                for effect in effects:
                    effect.attributes[BESIDE] = UnitAttr()
            follows = is_loop or (follows and not effects)

    def sequential(
        self,
        steps: Steps,
        carried: Sequence[SSAValue],
        body: Callable[[Position, list[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """An `scf.for` that carries values; one iteration is written out, none gives `carried`."""
        if steps.count == 0:
            return list(carried)
        if steps.is_single:
            return list(body(Position((), steps.start), list(carried)))
        types = [value.type for value in carried]
        block = Block(arg_types=[INDEX, *types])
        self._note_range(block.args[0], steps)
        with self.inside(block):
            results = body(Position(((block.args[0], 1),)), list(block.args[1:]))
            self.add(scf.YieldOp.create(operands=results))
        loop = scf.ForOp.create(operands=[*self._bounds(steps), *carried], result_types=types, regions=[Region(block)])
        self.add(loop)
        return list(loop.results)

    def conditional(
        self, condition: SSAValue, body: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """An `scf.if` without results."""
        blocks: list[Block] = []
        for part in (body, *([otherwise] if otherwise is not None else [])):
            block = Block()
            with self.inside(block):
                part()
                self.add(scf.YieldOp())
            blocks.append(block)
        regions = [Region(block) for block in blocks]
        self.add(scf.IfOp(condition, [], regions[0], regions[1] if otherwise is not None else None))

    def _bounds(self, steps: Steps) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Where a loop starts and ends, and its step."""
        number = self.index_constant
        start, end = number(steps.start), number(steps.start + steps.count * steps.step)
        if steps.limits is not None:
            lower, upper = steps.limits
            start = lower if steps.start == 0 else self.pure(arith.MaxSIOp, (start, lower), INDEX)
            end = self.pure(arith.MinSIOp, (upper, end), INDEX)
        return start, end, number(steps.step)
