"""The equations of what is chosen by its place.

The loss of a class is the sum over all classes of what is chosen where a class is the label. Read at the label it is
one element in place of all.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.ops.elementwise.comparison import BitwiseAndOp, EqualOp, SelectOp
from tenon.dialects.ops.move.indexing import IotaOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.ops.reduce.reduction import SumOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.types import element_of, is_integer, is_static, numpy_dtype, shape_of
from tenon.passes.simplify.equation import by_class, defined_by, is_number, replace_by_block

FEWEST_CHOICES, FEWEST_IN_ROWS = 8, 32
"""To read and add up fewer neighbours, in vectors, takes no longer than to read one of them at a computed place; the
same where something is computed of each row, which is gone through anyway then."""
MOST_OPERATIONS = 8
"""Ops that are applied to the one element instead of all: each is written out once more."""


class SumOfChosen(RewritePattern):
    """sum(select(i == iota, x, 0)) -> select(0 <= i < size, x[i], 0), where x is in memory, or computed element by
    element of what is, and is added up along the iota's axis"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SumOp, rewriter: PatternRewriter, /) -> None:
        select = defined_by(op.x, SelectOp)
        if select is None or not is_static(op.x.type) or not is_number(select.y, 0):
            return
        choice = _Choice.of(select, op)
        if choice is None or not choice.pays(select.x):
            return
        block = Block()
        with inserting(InsertionPoint(block)):
            choice.sum_of(select.x, op)
        replace_by_block(op, rewriter, block)


class _Choice:
    """One place along `axis` of `shape`, told by `place` and only where the `others` hold, which all are the same along
    that axis."""

    def __init__(self, shape: tuple[int, ...], axis: int, place: SSAValue, others: list[SSAValue]) -> None:
        self.shape, self.axis, self.place, self.others = shape, axis, place, others
        self._left = MOST_OPERATIONS
        self._fewest = FEWEST_CHOICES

    @staticmethod
    def of(select: SelectOp, op: SumOp) -> _Choice | None:
        """The choice that a condition is, along one of the axes that are added up."""
        shape = shape_of(op.x.type) or ()
        conditions = _conditions(select.condition)
        for condition in conditions:
            equal = defined_by(condition, EqualOp)
            for iota, place in ((equal.x, equal.y), (equal.y, equal.x)) if equal else ():
                axis = _counted_axis(iota, shape)
                if axis is None or axis not in normalize_axes(op.settings["axis"], len(shape)):
                    continue
                if not is_integer(element_of(place.type)) or not _holds(element_of(place.type), shape[axis]):
                    continue
                choice = _Choice(shape, axis, place, [other for other in conditions if other is not condition])
                if all(choice._aligned(value)[axis] == 1 for value in (place, *choice.others)):
                    return choice
        return None

    def _aligned(self, value: SSAValue) -> tuple[int, ...]:
        """The sizes of `value` along the axes of the choice."""
        own = shape_of(value.type) or ()
        return (1,) * (len(self.shape) - len(own)) + own

    @property
    def _rest(self) -> tuple[int, ...]:
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    def _is_along(self, value: SSAValue) -> bool:
        """Whether `value` has one element for each choice."""
        return prod(self._aligned(value)) == self.shape[self.axis]

    def pays(self, value: SSAValue) -> bool:
        """Whether one element of `value` is had in less time than all of them."""
        return self._may_read(value) and self.shape[self.axis] >= self._fewest

    def _may_read(self, value: SSAValue) -> bool:
        """Whether an element of `value` is had without all others."""
        if not is_static(value.type):
            return False
        op = value.owner
        if self._aligned(value)[self.axis] == 1:
            if prod(self._aligned(value)) > 1 and not isinstance(op, Block):
                self._fewest = FEWEST_IN_ROWS
            return True
        if isinstance(op, ElementwiseOp) and len(op.results) == 1:
            self._left -= 1
            return self._left >= 0 and all(map(self._may_read, op.operands))
        while isinstance(op, ReshapeOp):
            op = op.x.owner
        return isinstance(op, Block) and (self._is_along(value) or self._aligned(value) == self.shape)

    def _read(self, value: SSAValue, known: dict[SSAValue, Value]) -> Value:
        """`value` at the place, of the sizes of the other axes or what broadcasts to them."""
        if value not in known:
            known[value] = self._element(value, known)
        return known[value]

    def _element(self, value: SSAValue, known: dict[SSAValue, Value]) -> Value:
        if self._aligned(value)[self.axis] == 1:
            return self._without_axis(value)
        op = value.owner
        if isinstance(op, ElementwiseOp):
            return type(op).apply(*[self._read(operand, known) for operand in op.operands], **op.settings)
        place = self._without_axis(self.place)
        if self._is_along(value):
            return ops.gather(ops.reshape(Value(value), shape=(self.shape[self.axis],)), place)
        each = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        places = ops.reshape(ops.broadcast_to(place, shape=self._rest), shape=each)
        found = ops.gather_elements(Value(value), places, axis=self.axis)
        return ops.reshape(found, shape=self._rest)

    def _without_axis(self, value: SSAValue) -> Value:
        aligned = self._aligned(value)
        return ops.reshape(Value(value), shape=aligned[: self.axis] + aligned[self.axis + 1 :])

    def sum_of(self, x: SSAValue, op: SumOp) -> Value:
        """What `op` adds up, of `x` at the place."""
        place = self._without_axis(self.place)
        chosen = (place >= 0) & (place < self.shape[self.axis])
        for other in self.others:
            chosen = chosen & self._without_axis(other)
        # A zero that is added to zeros is positive.
        found: Any = ops.broadcast_to(ops.select(chosen, self._read(x, {}) + 0, 0), shape=self._rest)
        axes = [axis for axis in normalize_axes(op.settings["axis"], len(self.shape)) if axis != self.axis]
        if axes:
            found = ops.sum(found, axis=tuple([axis - (axis > self.axis) for axis in axes]))
        return ops.reshape(found, shape=shape_of(op.result.type) or ())


def _conditions(value: SSAValue) -> list[SSAValue]:
    """All that has to hold for `value` to."""
    both = defined_by(value, BitwiseAndOp)
    return [value] if both is None else [*_conditions(both.x), *_conditions(both.y)]


def _holds(element: Attribute, size: int) -> bool:
    """Whether integers of a dtype can be `size`; else the counted places may begin again."""
    return size <= np.iinfo(numpy_dtype(element)).max


def _counted_axis(value: SSAValue, shape: tuple[int, ...]) -> int | None:
    """The axis of `shape` whose places `value` counts."""
    iota = defined_by(value, IotaOp)
    own = shape_of(value.type)
    if iota is None or own is None:
        return None
    counted = iota.settings["axis"] % len(own)
    axis = counted + len(shape) - len(own)
    return axis if own[counted] == shape[axis] == prod(own) else None


SELECTION_EQUATIONS = by_class([((SumOp,), SumOfChosen())])
