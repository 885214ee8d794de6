"""Compute large values again where they are needed later, instead of keeping them.

Before: the tensor stage, decomposed. After: the same values; some ops are there twice.

An attention reduces its scores, which are many more than queries, keys and values, as soon as it has made them, and
its gradient needs them again. To keep them takes memory that grows with the square of the number of tokens. Scores
are a sum over few elements, and `fuse` computes each strip of them where it is used; so the gradient gets its own:

    %s = tenon.contract [%q, %k]         %s = tenon.contract [%q, %k]
    %p = tenon.exp %s                    %p = tenon.exp %s
    %o = tenon.matmul %p, %v             %o = tenon.matmul %p, %v
    ... %o ... %g                  ->    ... %o ... %g
                                         %t = tenon.contract [%q, %k] {recomputed}
                                         %r = tenon.exp %t {recomputed}
    %d = tenon.multiply %p, %g           %d = tenon.multiply %r, %g

The rule: a contraction whose result has at least `LEAST_GROWTH` times the elements of each operand, each a sum of at
most `MOST_TERMS` products, starts a *family*, which elementwise ops of the same shape join whose other operands are
that much smaller, or in memory anyway. Uses of a family that depend on a contraction of one of its members are late;
what they use is computed again before the first of them. What reduces a row, such as the maxima and sums of a softmax,
is small and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tenon.dialects.definition.traits import KnownValue, states
from tenon.dialects.families import ContractionOp, ElementwiseOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.checkpoint import RECOMPUTED
from tenon.dialects.types.size import estimate
from tenon.passes.iteration import iteration_of, shape
from tenon.passes.simplify.dce import functions_by_name

LEAST_GROWTH = 4
MOST_TERMS = 128


class RecomputePass(ModulePass):
    """Compute large values again where they are needed later."""

    name = "recompute"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_by_name(op).values():
            blocks = [block for inner in function.walk() for region in inner.regions for block in region.blocks]
            for block in blocks:
                for operation in tuple(block.ops):
                    if isinstance(operation, ContractionOp) and _starts_family(operation):
                        _recompute(operation)


def _starts_family(op: ContractionOp) -> bool:
    iteration = iteration_of(op)
    if iteration is None or None in iteration.operands:
        return False
    terms = estimate(iteration.space.terms())
    return terms <= MOST_TERMS and all(_is_small(op, operand, op.results[0]) for operand in op.operands)


def _is_small(op: Operation, value: SSAValue, result: SSAValue) -> bool:
    return LEAST_GROWTH * estimate(prod(shape(op, value.type))) <= estimate(prod(shape(op, result.type)))


def _recompute(start: ContractionOp) -> None:
    """Give late uses of the family of `start` a family of their own."""
    block = start.parent
    assert block is not None
    family = _family(start, block)
    exits = [use.operation for op in family for use in op.results[0].uses if isinstance(use.operation, ContractionOp)]
    later = _dependents(block, exits)
    early = dict.fromkeys([op for op in family if op not in later])
    given = [op.results[0] for op in early]
    users = {block.find_ancestor_op_in_block(use.operation) for value in given for use in value.uses}
    late = [op for op in block.ops if op in later and op in users]
    if not late:
        return
    _repeat_before(late, list(early))


def _family(start: ContractionOp, block: Block) -> list[Operation]:
    """`start` and the elementwise ops behind it that cost little beyond it, in order."""
    family: dict[Operation, None] = {start: None}
    (result,) = start.results
    for op in block.ops:
        if not isinstance(op, ElementwiseOp) or len(op.results) != 1 or op.results[0].type != result.type:
            continue
        own = [operand.owner in family for operand in op.operands]
        rest = [operand for operand, is_own in zip(op.operands, own, strict=True) if not is_own]
        if any(own) and all(_is_kept_anyway(operand) or _is_small(op, operand, result) for operand in rest):
            family[op] = None
    return list(family)


def _is_kept_anyway(value: SSAValue) -> bool:
    return isinstance(value.owner, Block) or states(value.owner, KnownValue)


def _dependents(block: Block, origins: Iterable[Operation]) -> set[Operation]:
    """What needs a result of `origins`; one of them may need another."""
    found: set[Operation] = set()
    pending = list(origins)
    while pending:
        uses = [use for result in pending.pop().results for use in result.uses]
        for user in [block.find_ancestor_op_in_block(use.operation) for use in uses]:
            if user is not None and user not in found:
                found.add(user)
                pending.append(user)
    return found


def _repeat_before(late: Sequence[Operation], family: Sequence[Operation]) -> None:
    """Clones of what `late` needs of `family`, which `late` uses from now on; both are in the order of the block.

    Each clone is put before the first op that needs it. What else the op is computed from is defined there, as it was
    for the op itself; before all of `late` it need not be.
    """
    block = late[0].parent
    assert block is not None
    first: dict[Operation, Operation] = {}
    for user in late:
        pending = [user]
        while pending:
            needed = [operand.owner for operand in used_values(pending.pop())]
            fresh = [op for op in family if op in needed and op not in first]
            first |= dict.fromkeys(fresh, user)
            pending += fresh
    mapper: dict[SSAValue, SSAValue] = {}
    for op in family:
        if op in first:
            clone = op.clone(mapper)
            clone.attributes[RECOMPUTED] = UnitAttr()
            block.insert_op_before(clone, first[op])
    for op in late:
        for inner in op.walk():
            inner.operands = [mapper.get(operand, operand) for operand in inner.operands]
