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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.passes.machine import GENERIC

LEAST = 8
"""Ops of a chain; shorter ones are over before the next begins."""

_LOADS = (memref.LoadOp, vector.LoadOp, vector.MaskedLoadOp)
_STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)
_PURE = ("arith.", "math.", "scalar.", "vector.")


@dataclass(frozen=True)
class InterleaveChainsPass(FunctionPass):
    """Take chains in turns whose values fit into `registers` together, constants left out."""

    name = "interleave-chains"

    registers: int = GENERIC.registers // 2

    def change(self, module: ModuleOp) -> Change:
        if self.registers < 1:
            raise ValueError(f"interleave-chains: registers is {self.registers}, expected at least 1")
        return self._interleave

    def _interleave(self, function: func.FuncOp) -> None:
        for loop in function.walk():
            if isinstance(loop, scf.ForOp | scf.ParallelOp):
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
        elif not isinstance(op, PrefetchOp) and (buffers or op.regions or not op.name.startswith(_PURE)):
            return False
    return not loaded & stored


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
        for operand in op.operands:
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
    return tuple([(op.name, *(result.type for result in op.results)) for op in chain])


def _most_values(chain: Chain) -> int:
    """How many of the values that a chain computes are needed at once, at most."""
    last_use = {operand: number for number, op in enumerate(chain) for operand in op.operands}
    needed = most = 0
    ends = [0] * (len(chain) + 1)
    for number, op in enumerate(chain):
        needed -= ends[number]
        for result in op.results:
            needed += 1
            ends[last_use.get(result, len(chain))] += 1
        most = max(most, needed)
    return max(1, most)


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
