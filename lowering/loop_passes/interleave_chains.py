"""`interleave-chains`: what several vectors go through is written in turns, an op of each at a time.

Before: the loop stage. After: the same, where in a loop that computes several vectors (or scalars) apart from each
other, and alike, their ops take turns:

    %a = vector.load %x[%i]                            %a = vector.load %x[%i]
    %b = math.fma %a, %p, %q                           %d = vector.load %x[%j]
    %c = math.fma %b, %a, %r                           %b = math.fma %a, %p, %q
    vector.store %c, %o[%i]                            %e = math.fma %d, %p, %q
    %d = vector.load %x[%j]                            %c = math.fma %b, %a, %r
    %e = math.fma %d, %p, %q                           %f = math.fma %e, %d, %r
    %f = math.fma %e, %d, %r                           vector.store %c, %o[%i]
    vector.store %f, %o[%j]                            vector.store %f, %o[%j]

A polynomial is a chain, each op of which waits for the one before. A processor looks for others to do meanwhile, but
only among the few dozen that wait at its multipliers (64 on Zen 4, of which an exponential takes 16): written one after
the other, chains fill that with their own ops.

A chain is what hangs together by values that the loop's body computes, indices left out. Those that are taken in turns
have the same ops, `LEAST` or more; as many go together as `registers` hold what they keep. A body that stores to a
buffer and loads from it is left as it is, and stores keep their order. Nor does a store overtake a load: two arguments
may be one buffer, whose elements are read before they are written.

A branch that reaches no memory, such as that to the rare numbers that a formula is not for, is an op of a chain. Where
those of several chains follow each other, one branch is around them:

    %p = scf.if %c { %a } else { %x }                  %p, %q = scf.if %c or %d {
    %q = scf.if %d { %b } else { %y }                    scf.if %c { %a } else { %x }
                                                         scf.if %d { %b } else { %y }
                                                       } else { %x, %y }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tenon.dialects.upstream.intrinsics import is_arithmetic
from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.passes.machine import GENERIC

LEAST = 8
"""Ops of a chain; shorter ones are over before the next begins."""

_LOADS = (memref.LoadOp, vector.LoadOp, vector.MaskedLoadOp)
_STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)


@dataclass(frozen=True)
class InterleaveChainsPass(FunctionPass):
    """Take chains in turns whose values fit into `registers` together, constants left out."""

    name = "interleave-chains"

    registers: int = GENERIC.registers

    def change(self, module: ModuleOp) -> Change:
        if self.registers < 1:
            raise ValueError(f"interleave-chains: registers is {self.registers}, expected at least 1")
        return self._interleave

    def _interleave(self, function: func.FuncOp) -> None:
        for loop in ops_of(function, scf.ForOp, scf.ParallelOp):
            _interleave(loop.body.block, self.registers)


Chain = tuple[Operation, ...]


def _interleave(block: Block, registers: int) -> None:
    *ops, last = block.ops
    if len(ops) < 2 * LEAST or not _may_move(ops):
        return
    indices = _indices(ops)
    order = list(indices)
    for _, group in groupby(_chains([op for op in ops if op not in indices]), key=_form):
        alike = list(group)
        together = max(1, registers // _most_values(alike[0])) if min(len(alike) - 1, len(alike[0]) // LEAST) else 1
        for start in range(0, len(alike), together):
            order += [op for turn in zip(*alike[start : start + together], strict=True) for op in turn]
    if order != ops and _stores(order) == _stores(ops) and not _overtakes(order, ops):
        for op in order:
            op.detach()
            block.insert_op_before(op, last)
        for branches in _turns_of_branches(order):
            _join(branches)


def _may_move(ops: Sequence[Operation]) -> bool:
    """Whether no op of a loop's body has to wait for another one but for its operands, or to store behind it."""
    loaded: set[SSAValue] = set()
    stored: set[SSAValue] = set()
    for op in ops:
        buffers = _buffers(op)
        if isinstance(op, _LOADS):
            loaded.update(buffers)
        elif isinstance(op, _STORES):
            stored.update(buffers)
        elif not isinstance(op, PrefetchOp) and not _is_free(op):
            return False
    return not loaded & stored


def _is_free(op: Operation) -> bool:
    """Whether an op reaches no memory. A branch may be such an op: that to the rare numbers that a formula is not for,
    where functions of the C library are called."""
    if not op.regions:
        return is_arithmetic(op) and not _buffers(op)
    return isinstance(op, scf.IfOp) and not any(_buffers(o) or not _may_be_in_branch(o) for o in op.walk())


def _may_be_in_branch(op: Operation) -> bool:
    return is_arithmetic(op) or op.name.startswith(("scf.", "func.call"))


def _operands(op: Operation) -> list[SSAValue]:
    """What an op and those in its regions use."""
    return [operand for inner in op.walk() for operand in inner.operands] if op.regions else list(op.operands)


def _indices(ops: Sequence[Operation]) -> dict[Operation, None]:
    """The ops that compute with indices alone, which any chain may use: none of them comes from data."""
    body = dict.fromkeys(ops)
    found: dict[Operation, None] = {}
    for op in ops:
        is_index = bool(op.results) and all(isinstance(v.type, IndexType) for v in (*op.operands, *op.results))
        if is_index and not any(operand.owner in body and operand.owner not in found for operand in op.operands):
            found[op] = None
    return found


def _chains(ops: Iterable[Operation]) -> list[Chain]:
    """The ops that hang together, each in order, by their first ones."""
    linked: dict[Operation, Operation] = {}

    def first(op: Operation) -> Operation:
        while linked[op] is not op:
            linked[op] = op = linked[linked[op]]
        return op

    place: dict[Operation, int] = {}
    for op in ops:
        place[op] = len(place)
        linked[op] = op
        for operand in _operands(op):
            if operand.owner in linked:
                assert isinstance(operand.owner, Operation)
                one, other = sorted((first(op), first(operand.owner)), key=place.__getitem__)
                linked[other] = one
    chains: dict[Operation, list[Operation]] = {}
    for op in place:
        chains.setdefault(first(op), []).append(op)
    return [tuple(chain) for chain in chains.values()]


def _form(chain: Chain) -> tuple[object, ...]:
    """What is the same for chains that do the same."""
    return tuple([(op.name, *(result.type for result in op.results)) for one in chain for op in one.walk()])


def _most_values(chain: Chain) -> int:
    """How many of the values that a chain computes are needed at once, at most."""
    last_use = {operand: number for number, op in enumerate(chain) for operand in _operands(op)}
    needed = most = 0
    ends = [0] * (len(chain) + 1)
    for number, op in enumerate(chain):
        needed -= ends[number]
        for result in op.results:
            needed += 1
            ends[last_use.get(result, len(chain))] += 1
        most = max(most, needed)
    return max(1, most)


def _turns_of_branches(order: Iterable[Operation]) -> list[list[scf.IfOp]]:
    """Branches that follow each other, without use of each other's results and with nothing on the other side."""
    turns: list[list[scf.IfOp]] = [[]]
    for op in order:
        if not isinstance(op, scf.IfOp) or len(op.false_region.block.ops) != 1:
            turns.append([])
        elif any(operand.owner in turns[-1] for operand in _operands(op)):
            turns.append([op])
        else:
            turns[-1].append(op)
    return [branches for branches in turns if len(branches) > 1]


def _join(branches: Sequence[scf.IfOp]) -> None:
    """One branch around `branches` for the case that none is taken.

    With one after the other LLVM computes what is for the second behind the first, and chains are in turns no more.
    """
    first, block = branches[0], branches[0].parent
    assert block is not None
    condition = first.cond
    for branch in branches[1:]:
        either = arith.OrIOp(condition, branch.cond)
        block.insert_op_before(either, first)
        condition = either.result
    results = [result for branch in branches for result in branch.results]
    untaken = [value for branch in branches for value in _yielded(branch)]
    then, otherwise = Block([end := scf.YieldOp(*results)]), Block([scf.YieldOp(*untaken)])
    joined = scf.IfOp(condition, [result.type for result in results], Region(then), Region(otherwise))
    block.insert_op_before(joined, first)
    for result, replacement in zip(results, joined.results, strict=True):
        result.replace_uses_with_if(replacement, lambda use: use.operation is not end)
        replacement.name_hint = result.name_hint
    for branch in branches:
        branch.detach()
        then.insert_op_before(branch, end)


def _yielded(branch: scf.IfOp) -> Sequence[SSAValue]:
    """The results of a branch that is not taken, whose other side is empty."""
    last = branch.false_region.block.last_op
    return () if last is None else last.operands


def _stores(ops: Iterable[Operation]) -> dict[SSAValue, list[Operation]]:
    """The stores to each buffer, in order."""
    found: dict[SSAValue, list[Operation]] = {}
    for op in ops:
        if isinstance(op, _STORES):
            (buffer,) = _buffers(op)
            found.setdefault(buffer, []).append(op)
    return found


def _overtakes(order: Sequence[Operation], ops: Iterable[Operation]) -> bool:
    """Whether in `order` a store comes before a load that it comes after in `ops`."""
    place = {op: number for number, op in enumerate(order)}
    last_load = -1
    for op in ops:
        if isinstance(op, _LOADS):
            last_load = max(last_load, place[op])
        elif isinstance(op, _STORES) and place[op] < last_load:
            return True
    return False


def _buffers(op: Operation) -> list[SSAValue]:
    return [root_of(operand) for operand in op.operands if isinstance(operand.type, MemRefType)]
