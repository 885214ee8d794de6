"""Reductions that keep the best of the elements they meet, and where it was: the body of an argmax.

    %better = arith.cmpf ogt, %new, %best       (or by `olt`, or of integers; or only %new is not a number)
    %value  = arith.select %better, %new, %best
    %place  = arith.select %better, f(linalg.index), %where

Only what is strictly better replaces what was found, so the first of equals stays: that is what lets lanes look for
themselves, and the best of them be chosen by value and position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

_STRICT_FLOAT = {2, 4}  # ogt, olt
_STRICT_INTEGER = {2, 4, 6, 8}  # slt, sgt, ult, ugt
_EQUAL, _UNEQUAL = 1, 13  # oeq, une


@dataclass(frozen=True)
class Selection:
    """`condition` says whether `new` is better than the accumulator of output `output`, whose value it then becomes.

    `places` are, for each other output, the values that it becomes: they depend on indices of loops only.
    """

    output: int
    new: SSAValue
    accumulator: BlockArgument
    condition: SSAValue
    places: dict[int, SSAValue]


def selection_of(body: Block, accumulators: Sequence[BlockArgument]) -> Selection | None:
    """The selection that a body is, or None."""
    assert body.last_op is not None
    selects = [value.owner for value in body.last_op.operands]
    found: Selection | None = None
    places: dict[int, SSAValue] = {}
    condition = selects[0].cond if selects and isinstance(selects[0], arith.SelectOp) else None
    for number, (select, accumulator) in enumerate(zip(selects, accumulators, strict=True)):
        if not isinstance(select, arith.SelectOp) or select.cond is not condition or select.rhs is not accumulator:
            return None
        if _is_better(select.cond, select.lhs, accumulator):
            found = Selection(number, select.lhs, accumulator, select.cond, places)
        else:
            places[number] = select.lhs
    if found is None or len(places) != len(selects) - 1 or not places:
        return None
    if any(isinstance(value, BlockArgument) for place in places.values() for value in _sources(place)):
        return None
    if any(argument in accumulators for argument in _sources(found.new)):
        return None
    return found


def slice_of(values: Sequence[SSAValue], known: Sequence[SSAValue] = ()) -> set[Operation]:
    """The ops that `values` depend on, those behind `known` left out."""
    ops: set[Operation] = set()
    pending = [value for value in values if value not in known]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in ops:
            ops.add(owner)
            pending += [operand for operand in owner.operands if operand not in known]
    return ops


def _sources(value: SSAValue) -> set[SSAValue]:
    """The block arguments that `value` depends on; `value` itself where an op has regions or reads memory."""
    sources: set[SSAValue] = {value} if isinstance(value, BlockArgument) else set()
    for op in slice_of([value]):
        sources.update(operand for operand in op.operands if isinstance(operand, BlockArgument))
        if not isinstance(op, linalg.ops.IndexOp) and (op.regions or not op.name.startswith(("arith.", "math."))):
            sources.update(op.results)
    return sources


def _is_better(condition: SSAValue, new: SSAValue, best: SSAValue) -> bool:
    """Whether `condition` is a strict comparison of the two, or says that only the new one is not a number."""
    match condition.owner:
        case arith.CmpfOp(lhs=lhs, rhs=rhs) as op:
            return lhs is new and rhs is best and op.predicate.value.data in _STRICT_FLOAT
        case arith.CmpiOp(lhs=lhs, rhs=rhs) as op:
            return lhs is new and rhs is best and op.predicate.value.data in _STRICT_INTEGER
        case arith.OrIOp(lhs=lhs, rhs=rhs):
            return _is_better(lhs, new, best) and _is_only_not_a_number(rhs, new, best)
        case _:
            return False


def _is_only_not_a_number(condition: SSAValue, new: SSAValue, best: SSAValue) -> bool:
    def compares(value: SSAValue, predicate: int, with_itself: SSAValue) -> bool:
        op = value.owner
        if not isinstance(op, arith.CmpfOp) or op.predicate.value.data != predicate:
            return False
        return op.lhs is with_itself and op.rhs is with_itself

    op = condition.owner
    return isinstance(op, arith.AndIOp) and compares(op.lhs, _UNEQUAL, new) and compares(op.rhs, _EQUAL, best)
