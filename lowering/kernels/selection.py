"""Reductions that keep the best of the elements they meet, and where it was: the body of an argmax.

    %better = arith.cmpf ogt, %new, %best       (or by `olt`, or of integers; or what is below)
    %value  = arith.select %better, %new, %best
    %place  = arith.select %better, f(linalg.index), %where

Only what is strictly better replaces what was found, so the first of equals stays: that is what lets lanes look for
themselves, and the best of them be chosen by value and position. Where NaN is better than any number, `%better` is

    %no_better = arith.cmpf ole, %new, %best    (or by `oge`)
    %is_number = arith.cmpf oeq, %best, %best
    %better    = not %no_better and %is_number
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tenon.lowering.loop_ir.nests import constant_int

_STRICT_FLOAT = {2, 4}  # ogt, olt
_STRICT_INTEGER = {2, 4, 6, 8}  # slt, sgt, ult, ugt
_NOT_STRICT_FLOAT = {3, 5}  # oge, ole
_EQUAL = 1  # oeq


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
    """Whether `condition` is a strict comparison of the two, or one that also takes the first that is not a number."""
    match condition.owner:
        case arith.CmpfOp():
            return _compares(condition, new, best, _STRICT_FLOAT)
        case arith.CmpiOp(lhs=lhs, rhs=rhs) as op:
            return lhs is new and rhs is best and op.predicate.value.data in _STRICT_INTEGER
        case arith.AndIOp(lhs=lhs, rhs=rhs):
            no_better = _opposite(lhs)
            is_first = no_better is not None and _compares(no_better, new, best, _NOT_STRICT_FLOAT)
            return is_first and _compares(rhs, best, best, {_EQUAL})
        case _:
            return False


def _compares(value: SSAValue, lhs: SSAValue, rhs: SSAValue, predicates: Collection[int]) -> bool:
    op = value.owner
    return isinstance(op, arith.CmpfOp) and op.lhs is lhs and op.rhs is rhs and op.predicate.value.data in predicates


def _opposite(value: SSAValue) -> SSAValue | None:
    """The truth value whose opposite `value` is."""
    op = value.owner
    return op.lhs if isinstance(op, arith.XOrIOp) and constant_int(op.rhs) in (1, -1) else None
