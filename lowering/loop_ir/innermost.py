"""The innermost loops of a function, which of them are small, and how often they run: what decides what LLVM does."""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.ir import Operation

from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.loop_ir.nests import Domain

LOOPS = (scf.ForOp, scf.ParallelOp, scf.WhileOp)

_SMALL = 24
"""Operations of a loop up to which one that is saved counts."""


def innermost_loops(function: func.FuncOp) -> list[Operation]:
    """The loops of `function` that no other loop is in."""
    innermost: dict[Operation, None] = {}
    for op in ops_of(function, *LOOPS):
        innermost[op] = None
        parent = op.parent_op()
        while parent is not None:
            innermost.pop(parent, None)
            parent = parent.parent_op()
    return list(innermost)


def is_small(loop: Operation) -> bool:
    """Whether a loop has so few operations that one more or less counts."""
    return len(all_ops(loop)) - len(ops_of(loop, arith.ConstantOp)) <= _SMALL


def last_trips(loop: Operation) -> int | None:
    """How often the body of a loop runs in a row, along its last dimension; None where bounds are not constant."""
    return _trips(loop, slice(-1, None))


def all_trips(loop: Operation) -> int | None:
    """How often the body of a loop runs, along all of its dimensions; None where bounds are not constant."""
    return _trips(loop, slice(None))


def _trips(loop: Operation, dimensions: slice) -> int | None:
    if isinstance(loop, scf.ForOp):
        domain = Domain.of([loop.lb], [loop.ub], [loop.step])
    elif isinstance(loop, scf.ParallelOp):
        domain = Domain.of(loop.lowerBound[dimensions], loop.upperBound[dimensions], loop.step[dimensions])
    else:
        return None
    return None if domain is None else domain.size
