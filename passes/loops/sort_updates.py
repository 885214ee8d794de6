"""Updates at computed places as work for many threads of a GPU, which are the same bits in each call.

Before: the tensor stage, decomposed. After: a scatter of many updates, or of f16 and bf16, whose order matters is done
by ops that know it. Updates are taken as rows, from the first index on which places do not depend:

- what is combined by a monoid and rounds, or may be NaN (floats), is sorted by place and combined run by run:
  `%p, %n = sort(places)`, `runs.combine %x, starts(%p), %n, %updates, ...`; of many rows only those with updates, which
  `runs.write` then puts into `%x`;
- where the last update of a place replaces the element, its number is looked for as the largest of the place, which is
  the same in any order, `%last = scatter max(-1, places, iota)`; updates with this number are put into `%x`;
- sums of one whole number, to another one, that floats hold exactly (counts) are those of integers.

Integers, whose updates may come in any order, stay as they are, but for those of less than 32 bits, of which the
hardware updates none: they become such. With `deterministic=false` sums of f32 and f64 stay, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.families import ScatterOp
from tenon.dialects.families.monoid import MONOIDS, Monoid
from tenon.dialects.ops.order.run_totals import WriteRowsOp, combined_in_place, combined_in_runs
from tenon.dialects.types.types import (
    bit_width,
    compute_type,
    element_of,
    f32,
    f64,
    i32,
    i64,
    is_float,
    is_narrow,
    is_static,
    numpy_dtype,
)
from tenon.passes.simplify.decompose import decompose
from tenon.passes.simplify.fold import splat

FEWEST = 2048
"""Updates that meet in one part of a result, from which on to sort them costs less than that each warp looks at all of
their places."""
_MOST = (1 << 31) - 1
"""Places and numbers of updates are i32."""
_ROWS_PER_UPDATE = 8
"""With more rows of a result most stay as they are, and only those with updates are written."""
_MOST_NUMBERS = 1024
"""Rows of a result for each update, beyond which to look for the last update of each row costs more than it saves."""
_COMBINATIONS = {"add": "add", "mul": "multiply", "maximumf": "maximum", "minimumf": "minimum"}
"""Ops by the kinds of monoids."""


@dataclass(frozen=True)
class SortUpdatesPass(ModulePass):
    """Do updates at computed places by many threads."""

    name = "sort-updates"

    deterministic: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scatters = [scatter for scatter in op.walk() if isinstance(scatter, ScatterOp)]
        for scatter in scatters:
            _rewrite(scatter, self.deterministic)
        if scatters:
            decompose(op, serial_rows=False)


def _rewrite(op: ScatterOp, deterministic: bool) -> None:
    block = op.parent
    if block is None or op.HAS_DISTINCT_TARGETS or not all(is_static(v.type) for v in (*op.operands, *op.results)):
        return
    before = op.prev_op
    with inserting(InsertionPoint(block, op)):
        result = _Updates.of(op).rewritten(deterministic)
    current = block.first_op if before is None else before.next_op
    while current is not op:
        assert current is not None
        for new in current.walk():
            new.location = op.location
        current = current.next_op
    if result is not None:
        op.results[0].replace_all_uses_with(result.ssa)
        Rewriter.erase_op(op)


@dataclass(frozen=True)
class _Updates:
    """The updates of `op`, by its operands."""

    op: ScatterOp
    operands: tuple[Value, ...]
    x: Value
    updates: Value

    @staticmethod
    def of(op: ScatterOp) -> _Updates:
        operands = tuple([Value(operand) for operand in op.operands])
        names = [operand.name for operand in op.SIGNATURE.operands]
        return _Updates(op, operands, operands[0], operands[names.index(op.UPDATES)])

    @property
    def element(self) -> Attribute:
        return element_of(self.op.results[0].type)

    def rewritten(self, deterministic: bool) -> Value | None:
        """The result by other ops, or None where the op is to stay."""
        if 0 in (*self.x.shape, *self.updates.shape) or is_narrow(self.element):
            return None
        if self.op.replaces(**self.op.settings):
            return self._replaced()
        monoid = self._monoid()
        if monoid is None:
            return None
        if not is_float(self.element):
            return self._as(i32) if self._is_short() else None
        if (counted := self._as_integers(monoid)) is not None:
            return counted
        is_any_order = not deterministic and monoid.op_type is AddfOp and self.element in (f32, f64)
        return None if is_any_order else self._combined(monoid)

    def _replaced(self) -> Value | None:
        """`x` with the last update of each place, if there are enough of them."""
        rows = _Rows.of(self)
        if rows is None or rows.meeting < FEWEST or rows.count > _MOST_NUMBERS * rows.number:
            return None
        return rows.replaced()

    def _combined(self, monoid: Monoid) -> Value | None:
        """`x` combined with updates of floats, if there are enough of them."""
        if (combine := _COMBINATIONS.get(monoid.kind)) is None:
            return None
        rows = _Rows.of(self)
        # One block does what is computed in another type than it is stored in, if it stays.
        least = FEWEST if compute_type(self.element) == self.element else 0
        if rows is None or rows.meeting < least:
            return None
        return rows.combined(combine)

    def _monoid(self) -> Monoid | None:
        """By what an update changes its element, of less than 32 bits in i32."""
        element = i32 if self._is_short() else compute_type(self.element)
        block = Block(arg_types=[element, element])
        with inserting(InsertionPoint(block, scalar=True)):
            after = self.op.combine(*map(Value, block.args), **self.op.settings)
        (*before, last) = block.ops if block.ops else (None,)
        if before or last is None or after.ssa.owner is not last or set(last.operands) != set(block.args):
            return None
        return MONOIDS.get(last.name)

    def _is_short(self) -> bool:
        return not is_float(self.element) and bit_width(self.element) < bit_width(i32)

    def _as(self, element: Attribute) -> Value:
        """The same of another type."""
        changed = {self.x.ssa, self.updates.ssa}
        operands = [ops.cast(v, dtype=element) if v.ssa in changed else v for v in self.operands]
        return ops.cast(type(self.op).apply(*operands, **self.op.settings), dtype=self.element)

    def _as_integers(self, monoid: Monoid) -> Value | None:
        """Sums of one number to another one, if both and all sums are whole numbers that the type has."""
        start, added = splat(self.x.ssa), splat(self.updates.ssa)
        if monoid.op_type is not AddfOp or start is None or added is None:
            return None
        numbers = [float(start), float(added)]
        if not all(map(np.isfinite, numbers)) or any(n != round(n) or str(n) == "-0.0" for n in numbers):
            return None
        largest = abs(numbers[0]) + abs(numbers[1]) * prod(self.updates.shape)
        if largest > min(2 ** (np.finfo(numpy_dtype(compute_type(self.element))).nmant + 1), _MOST):
            return None
        return self._as(i32)


@dataclass(frozen=True)
class _Rows:
    """Rows of updates, each for one of the rows of `x`: the last `rank` axes of both are those of a row."""

    of_updates: _Updates
    rank: int
    places: Value
    """The numbers of rows of `x` (number,; i32), or how many there are where an update is left out."""
    meeting: int
    """How many updates may meet: those of one index of all axes that are axes of the result as they are."""

    @staticmethod
    def of(updates: _Updates) -> _Rows | None:
        op, shape, extents = updates.op, updates.x.shape, updates.updates.shape
        loops = [ops.iota(shape=_along(i, extents), axis=i, dtype=i64) for i in range(len(extents))]
        readers: list[Any] = [_Whole(v, loops) for v in updates.operands]
        try:
            target = op.target(tuple(loops), *readers, **op.settings)
        except _UnknownPlace:
            return None
        own = {
            axis: next((i for i, loop in enumerate(loops) if place is loop), None) for axis, place in enumerate(target)
        }
        rank, computed = 0, [target[axis] for axis, loop in own.items() if loop is None]
        for back in range(1, min(len(shape), len(extents)) + 1):
            loop = len(extents) - back
            alone = all(place.shape[loop] == 1 for place in computed)
            if own[len(shape) - back] != loop or shape[-back] != extents[-back] or not alone:
                break
            rank = back
        outer, leading = shape[: len(shape) - rank], extents[: len(extents) - rank]
        count, number = prod(outer), prod(leading)
        if max(count, number) >= _MOST:
            return None
        meeting = number // prod(
            [extents[loop] for axis, loop in own.items() if loop is not None and axis < len(outer)]
        )
        place, inside = ops.zeros((1,) * len(extents), i64), ops.full((1,) * len(extents), True, np.bool_)
        for index, size in zip(target, outer, strict=False):
            place = place * size + index
            inside = ops.logical_and(inside, ops.logical_and(index >= 0, index < size))
        flat = ops.broadcast_to(ops.select(inside, place, count), shape=(*leading, *(1,) * rank))
        return _Rows(updates, rank, ops.reshape(ops.cast(flat, dtype=i32), shape=(number,)), meeting)

    @property
    def number(self) -> int:
        """Of updates."""
        return self.places.shape[0]

    @property
    def count(self) -> int:
        """Of rows of `x`."""
        return prod(self.of_updates.x.shape) // self.columns

    @property
    def columns(self) -> int:
        return prod(self.of_updates.x.shape[self.of_updates.x.ndim - self.rank :])

    @property
    def are_many(self) -> bool:
        """Whether most rows stay as they are."""
        return self.count > _ROWS_PER_UPDATE * self.number

    def as_rows(self, value: Value) -> Value:
        return ops.reshape(value, shape=(prod(value.shape) // self.columns, self.columns))

    def combined(self, combine: str) -> Value:
        x = self.of_updates.x
        updates = ops.cast(self.as_rows(self.of_updates.updates), dtype=x.element_type)
        if self.are_many:
            result = combined_in_place(self.as_rows(x), self.places, updates, combine)
            return ops.reshape(result, shape=x.shape)
        number = splat(x.ssa)
        start = self.as_rows(x) if number is None else ops.full((1, 1), number, x.dtype)
        return ops.reshape(combined_in_runs(start, self.count, self.places, updates, combine), shape=x.shape)

    def replaced(self) -> Value:
        """`x` with the last update of each place in its own."""
        x = self.of_updates.x
        updates = ops.cast(self.as_rows(self.of_updates.updates), dtype=x.element_type)
        none, numbers = ops.full((self.count,), -1, i32), ops.iota(shape=(self.number,), dtype=i32)
        last = ops.scatter_elements(none, self.places, numbers, reduction="max")
        is_last = ops.gather(last, self.places, axis=0) == numbers
        own = ops.select(is_last, self.places, self.count)
        return ops.reshape(WriteRowsOp.apply(self.as_rows(x), own, updates), shape=x.shape)


class _UnknownPlace(Exception):
    """A target is computed from something else than elements at indices of loops."""


class _Whole:
    """An operand of a scatter for a function of scalars that is run on whole tensors: their axes are the `loops`."""

    def __init__(self, source: Value, loops: Sequence[Value]) -> None:
        self.source, self.loops = source, loops
        self.shape, self.ndim, self.element_type = source.shape, source.ndim, source.element_type

    def read(self, *indices: Value | int) -> Value:
        """The elements at indices that are loops, in their order, or known."""
        numbers = [next((i for i, loop in enumerate(self.loops) if loop is index), None) for index in indices]
        along = [number for number in numbers if number is not None]
        known = [index for index, number in zip(indices, numbers, strict=True) if number is None]
        shape = [1] * len(self.loops)
        starts, limits = [0] * self.ndim, list(self.shape)
        for axis, (index, number) in enumerate(zip(indices, numbers, strict=True)):
            if number is not None:
                shape[number] = self.loops[number].shape[number]
                limits[axis] = shape[number]
            elif isinstance(index, int):
                starts[axis], limits[axis] = index, index + 1
        fits = all(limit <= size for limit, size in zip(limits, self.shape, strict=True))
        if along != sorted(set(along)) or not all(isinstance(index, int) for index in known) or not fits:
            raise _UnknownPlace
        part = ops.slice(self.source, starts=tuple(starts), limits=tuple(limits))
        return ops.reshape(part, shape=tuple(shape))

    read_inside = read


def _along(axis: int, extents: Sequence[int]) -> tuple[int, ...]:
    return tuple([extent if i == axis else 1 for i, extent in enumerate(extents)])
