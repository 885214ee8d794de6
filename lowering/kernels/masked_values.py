"""What a body computes at places that a mask leaves out: the evaluation that `skip-masked` decides by.

A band is a condition on two loops, `lower <= column - row <= upper`; outside of it a place is masked. There

    select(band, x, c)   is c
    c - r                is c, for an infinite c and a number r of the whole row
    0 * x, 0 / x         is 0: what is masked is taken to be finite, where no select says what it is
    f(c)                 is computed

and `x + c`, for a c of -inf, is not known: it is NaN where x is NaN or inf, and nothing but the sum hides x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import numpy as np
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue


@dataclass(frozen=True)
class Band:
    """Two loops, and how far the second may be ahead of the first."""

    row: int
    column: int
    lower: float = -inf
    upper: float = inf

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """How far the second is ahead at least, and how far it is not any more; `None` where that has no limit."""
        return (
            None if isinf(self.lower) else int(self.lower),
            None if isinf(self.upper) else int(self.upper) + 1,
        )

    def contains(self, other: Band) -> bool:
        """Whether the places of `other` are among these."""
        return (self.row, self.column) == (other.row, other.column) and (
            self.lower <= other.lower and other.upper <= self.upper
        )


@dataclass(frozen=True)
class OfRow:
    """A number that is the same in all columns."""


OF_ROW = OfRow()

Masked = float | OfRow | None
"""What a value is where it is masked: a number, one of the row, or not known."""


def band_of(condition: SSAValue) -> Band | None:
    """The band that is where `condition`, a value of a body, is true."""
    match condition.owner:
        case arith.CmpiOp() as op if op.predicate.value.data in _SIGNED:
            return _compared(op)
        case arith.AndIOp() as op:
            x, y = band_of(op.lhs), band_of(op.rhs)
            if x is None or y is None or (x.row, x.column) != (y.row, y.column):
                return None
            return Band(x.row, x.column, max(x.lower, y.lower), min(x.upper, y.upper))
        case _:
            return None


_SIGNED = {2: "slt", 3: "sle", 4: "sgt", 5: "sge"}


def bands_of(body: Block) -> Iterator[Band]:
    """The bands by which a body selects."""
    for op in body.ops:
        if isinstance(op, arith.SelectOp) and (band := band_of(op.cond)) is not None:
            yield band


def _compared(op: arith.CmpiOp) -> Band | None:
    lhs, rhs = _sum_of_indices(op.lhs), _sum_of_indices(op.rhs)
    if lhs is None or rhs is None:
        return None
    factors = {loop: lhs[0].get(loop, 0) - rhs[0].get(loop, 0) for loop in lhs[0] | rhs[0]}
    factors = {loop: factor for loop, factor in factors.items() if factor}
    if sorted(factors.values()) != [-1, 1]:
        return None
    column, row = sorted(factors, key=lambda loop: -factors[loop])
    bound = rhs[1] - lhs[1]  # of column - row
    match _SIGNED[op.predicate.value.data]:
        case "slt":
            return Band(row, column, upper=bound - 1)
        case "sle":
            return Band(row, column, upper=bound)
        case "sgt":
            return Band(row, column, lower=bound + 1)
        case _:
            return Band(row, column, lower=bound)


def oriented(band: Band, row: int) -> Band:
    """The same band with `row`, one of its loops, as its row."""
    return band if band.row == row else Band(band.column, band.row, -band.upper, -band.lower)


def _sum_of_indices(value: SSAValue) -> tuple[dict[int, int], int] | None:
    """How often each loop counts in `value`, and a constant, if it is a sum of these."""
    match value.owner:
        case linalg.ops.IndexOp() as op:
            return {op.dim.value.data: 1}, 0
        case arith.IndexCastOp() as op:
            return _sum_of_indices(op.input)
        case arith.ConstantOp(value=IntegerAttr() as number):
            return {}, number.value.data
        case arith.AddiOp() | arith.SubiOp() as op:
            lhs, rhs = _sum_of_indices(op.lhs), _sum_of_indices(op.rhs)
            if lhs is None or rhs is None:
                return None
            sign = 1 if isinstance(op, arith.AddiOp) else -1
            factors = {loop: lhs[0].get(loop, 0) + sign * rhs[0].get(loop, 0) for loop in lhs[0] | rhs[0]}
            return factors, lhs[1] + sign * rhs[1]
        case _:
            return None


def masked_values(body: Block, arguments: Mapping[SSAValue, Masked], band: Band) -> dict[SSAValue, Masked]:
    """What the values of `body` are outside of `band`, where the block arguments are as `arguments` says."""
    known = dict(arguments)
    for op in body.ops:
        if len(op.results) == 1:
            known[op.results[0]] = _masked_value(op, known, band)
    return known


def _masked_value(op: Operation, known: Mapping[SSAValue, Masked], band: Band) -> Masked:
    if isinstance(op, arith.ConstantOp):
        return op.value.value.data if isinstance(op.value, FloatAttr | IntegerAttr) else None
    if isinstance(op, linalg.ops.IndexOp):
        return OF_ROW if op.dim.value.data != band.column else None
    if op.regions or not op.operands:
        return None
    values = [known.get(operand) for operand in op.operands]
    if isinstance(op, arith.SelectOp):
        condition = band_of(op.cond)
        if condition is not None and band.contains(oriented(condition, band.row)):
            return values[2]
        return values[1] if values[1] == values[2] else None
    if all(value is OF_ROW for value in values):
        return OF_ROW
    if not isinstance(op.results[0].type, AnyFloat):
        return None
    numbers = [value for value in values if isinstance(value, float)]
    function = _FUNCTIONS.get(type(op))
    if len(numbers) == len(values) and function is not None:
        with np.errstate(all="ignore"):
            return float(function(*[np.float64(number) for number in numbers]))
    if isinstance(op, arith.TruncFOp) and values[0] in (0.0, inf, -inf):
        return values[0]
    if len(values) == 2 and numbers:
        return _of_one_number(op, values[0], values[1])
    return None


def _of_one_number(op: Operation, x: Masked, y: Masked) -> Masked:
    """The result of an op of two operands of which one is a number."""
    match op:
        case arith.MulfOp() if 0.0 in (x, y):
            return 0.0
        case arith.DivfOp() if x == 0.0:
            return 0.0
        case arith.AddfOp() if x is OF_ROW and isinstance(y, float) and isinf(y):
            return y
        case arith.AddfOp() | arith.SubfOp() if y is OF_ROW and isinstance(x, float) and isinf(x):
            return x
        case _:
            return None


_FUNCTIONS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.NegfOp: np.negative,
    arith.ExtFOp: np.positive,
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
}
"""Of the ops that a masked row goes through."""
