"""Numbers that are known while compiling or at launch: integers, `index` values, and sums, products and quotients.

Arithmetic folds what it can and builds nothing, so that a decision can look at a number first; `Numbers` writes the ops
for those that the program has to compute. All numbers are at least 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.lowering.loop_ir.nests import constant_int

INDEX = IndexType()


@dataclass(frozen=True)
class Term:
    """An operation of `arith` on two numbers."""

    op_type: type[Operation]
    left: Number
    right: Number


Number = int | SSAValue | Term


def total(left: Number, right: Number) -> Number:
    """The sum."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if left == 0:
        return right
    return left if right == 0 else Term(arith.AddiOp, left, right)


def product(left: Number, right: Number) -> Number:
    """The product."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 0 or right == 0:
        return 0
    if left == 1:
        return right
    return left if right == 1 else Term(arith.MuliOp, left, right)


def quotient(left: Number, right: Number) -> Number:
    """The quotient, rounded down, by a number that is not 0."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return left if right == 1 else Term(arith.DivUIOp, left, right)


def remainder(left: Number, right: Number) -> Number:
    """What the quotient leaves."""
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    return 0 if right == 1 else Term(arith.RemUIOp, left, right)


def quotient_up(left: Number, right: Number) -> Number:
    """The quotient, rounded up, by a number that is not 0."""
    if isinstance(left, int) and isinstance(right, int):
        return -(-left // right)
    return left if right == 1 else Term(arith.CeilDivUIOp, left, right)


def smaller(left: Number, right: Number) -> Number:
    """The minimum."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return Term(arith.MinSIOp, left, right)


def larger(left: Number, right: Number) -> Number:
    """The maximum."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return Term(arith.MaxSIOp, left, right)


def trips(lower: Number, upper: Number, step: Number) -> Number:
    """How often a loop runs."""
    if lower == 0:
        return quotient_up(larger(upper, 0), step)
    if isinstance(lower, int) and isinstance(upper, int):
        return quotient_up(max(0, upper - lower), step)
    return quotient_up(larger(Term(arith.SubiOp, upper, lower), 0), step)


def known(value: SSAValue) -> Number:
    """The constant that `value` is, or itself."""
    number = constant_int(value)
    return value if number is None else number


class Numbers:
    """Writes numbers as ops in front of `op`, each once."""

    def __init__(self, op: Operation) -> None:
        self._builder = Builder(InsertPoint.before(op))
        self._known: dict[int | Term, SSAValue] = {}

    def value(self, number: Number) -> SSAValue:
        """The `index` that `number` is."""
        if isinstance(number, SSAValue):
            return number
        known = self._known.get(number)
        if known is None:
            if isinstance(number, int):
                op = arith.ConstantOp(IntegerAttr(number, INDEX))
            else:
                operands = (self.value(number.left), self.value(number.right))
                op = number.op_type.create(operands=operands, result_types=(INDEX,))
            known = self._known[number] = self._builder.insert(op).results[0]
        return known
