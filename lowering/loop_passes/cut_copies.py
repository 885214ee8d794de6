"""Cutting a loop of few iterations, each of which copies something that the loops inside of it read.

    scf.parallel (%j) = (0) to (192) step (48) {
      %panel = memref.alloc(); copy of columns to %panel
      scf.parallel (%i) = (0) to (200) step (8) { reads %panel }
    }

    scf.parallel (%j, %part) = (0, 0) to (192, 2) step (48, 1) {
      %panel = memref.alloc() {kept}
      scf.index_switch %j {kept} default { copy of columns to %panel }
      scf.parallel (%i) = (%part * 104) to (min(%part * 104 + 104, 200)) step (8) { reads %panel }
    }

Each thread makes the copies that it reads: a core reads what another one has just written several times slower than
what lies in its own cache, and the threads would wait for whoever writes it. It makes one once for all parts that it
runs one after another (`KEPT`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, UnitAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.builder import BESIDE, is_pure
from tenon.lowering.loop_ir.launch_numbers import INDEX, Number, Numbers, known, product, smaller, total
from tenon.lowering.loop_passes.cut_loops import KEPT
from tenon.lowering.loop_passes.parallel_work import loop_trips, loop_work

SHARE = 4
"""How many times as long as its copies a part takes at least. The first part that a thread runs makes them, and so does
one that it takes over from another thread; most find them made."""

_READS = (memref.LoadOp, vector.LoadOp, vector.MaskedLoadOp, PrefetchOp)
_WRITES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)
_CONTROL = (scf.ParallelOp, scf.ForOp, scf.ReduceOp, scf.YieldOp, memref.AllocOp)


@dataclass(frozen=True)
class Copies:
    """A parallel loop that copies something in each iteration, and the parallel loops inside that use it."""

    loop: scf.ParallelOp
    copies: Sequence[Operation]
    """What makes them, with the allocations."""
    uses: Sequence[scf.ParallelOp]
    rest: Sequence[Operation]
    """What follows the uses."""
    iterations: int
    """Of the loop."""
    most_parts: int
    """Into how many the uses may be cut, so that copies are a small share of each."""

    @staticmethod
    def of(loop: scf.ParallelOp) -> Copies | None:
        """`loop`, if its body first writes memory of its own alone, and all else may run in any order."""
        *ops, _ = loop.body.block.ops
        own = {op.results[0] for op in ops if isinstance(op, memref.AllocOp)}
        first = next((at for at, op in enumerate(ops) if not _writes_only(op, own)), len(ops))
        before, after = ops[:first], [op for op in ops[first:] if not _ends_one_of(op, ops[:first])]
        uses = [op for op in after if isinstance(op, scf.ParallelOp) and not op.results]
        copying, using = _work([op for op in before if isinstance(op, scf.ParallelOp)]), _work(uses)
        if not copying or not using or any(not isinstance(loop_trips(use)[0], int) for use in uses):
            return None
        effects = [op for op in after if not is_pure(op)]
        if effects[0] is not uses[0] or not all(BESIDE in op.attributes for op in effects[1:]):
            return None
        copies = [op for op in before if not is_pure(op) or isinstance(op, memref.AllocOp)]
        if any(op.results and not isinstance(op, memref.AllocOp) for op in copies):
            return None
        read, written = _buffers(before, own), _buffers(after, set(), _READS)
        if (read | own) & written or not all(isinstance(one.owner, Block | memref.AllocOp) for one in read | written):
            return None
        iterations = prod(count for count in loop_trips(loop) if isinstance(count, int))
        rest = after[after.index(uses[-1]) + 1 :]
        return Copies(loop, copies, uses, rest, iterations, max(using // (SHARE * copying), 1))

    def most_chunks(self, wanted: Number) -> int:
        """The number of chunks next to `wanted` that the loop can be cut into."""
        assert isinstance(wanted, int)
        return self.iterations * min(-(-wanted // self.iterations), self.most_parts)

    def cut(self, chunks: int) -> scf.ParallelOp:
        """Let `loop` run over parts of the uses as well; the loop that does, each of whose iterations is a chunk."""
        loop, parts = self.loop, chunks // self.iterations
        numbers = Numbers(loop)
        zero, one, count = (numbers.value(number) for number in (0, 1, parts))
        region = loop.detach_region(loop.body)
        self._keep(region.block.args, loop.upperBound)
        part = region.block.insert_arg(INDEX, len(region.block.args))
        whole = scf.ParallelOp([*loop.lowerBound, zero], [*loop.upperBound, count], [*loop.step, one], region)
        Rewriter.insert_op(whole, InsertPoint.before(loop))
        loop.detach()
        loop.erase()
        for use in self.uses:
            _narrow(use, part, parts)
        if any(not is_pure(op) for op in self.rest):
            self._leave_rest_to_last(part, parts)
        return whole

    def _keep(self, indices: Sequence[SSAValue], ends: Sequence[SSAValue]) -> None:
        """Let what copies run once for all chunks of the same `indices` that a thread runs one after another."""
        number: Number = 0
        for index, end in zip(indices, ends, strict=True):
            number = total(product(number, known(end)), index)
        switch = scf.IndexSwitchOp(
            Numbers(self.uses[0]).value(number),
            DenseArrayBase.from_list(i64, []),
            Region(Block([end := scf.YieldOp()])),
            [],
            [],
            {KEPT: UnitAttr()},
        )
        Rewriter.insert_op(switch, InsertPoint.before(self.uses[0]))
        for op in self.copies:
            if isinstance(op, memref.AllocOp):
                op.attributes[KEPT] = UnitAttr()
            else:
                op.detach()
                Rewriter.insert_op(op, InsertPoint.before(end))

    def _leave_rest_to_last(self, part: BlockArgument, parts: int) -> None:
        last = Numbers(self.rest[0]).value(parts - 1)
        body = Block([end := scf.YieldOp()])
        is_last = arith.CmpiOp(part, last, "eq")
        Rewriter.insert_op([is_last, scf.IfOp(is_last, [], Region(body))], InsertPoint.before(self.rest[0]))
        for op in self.rest:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(end))


def _work(loops: Sequence[scf.ParallelOp]) -> int:
    """What `loops` cost together, or 0 where that is not known."""
    works = [loop_work(loop) for loop in loops]
    known_works = [work for work in works if isinstance(work, int)]
    return sum(known_works) if len(known_works) == len(works) else 0


def _narrow(use: scf.ParallelOp, part: BlockArgument, parts: int) -> None:
    """Let the first dimension of `use` run over one of its parts."""
    count = loop_trips(use)[0]
    assert isinstance(count, int)
    numbers = Numbers(use)
    length = numbers.value(product(-(-count // parts), known(use.step[0])))
    start = total(known(use.lowerBound[0]), product(part, length))
    end = smaller(total(start, length), use.upperBound[0])
    use.operands[len(use.lowerBound)] = numbers.value(end)
    use.operands[0] = numbers.value(start)


def _writes_only(op: Operation, own: Container[SSAValue]) -> bool:
    """Whether `op` changes nothing but memory of `own`."""
    return all(
        is_pure(one) or isinstance(one, (*_READS, *_CONTROL)) or (isinstance(one, _WRITES) and not _buffers([one], own))
        for one in all_ops(op)
    )


def _ends_one_of(op: Operation, ops: Sequence[Operation]) -> bool:
    return isinstance(op, memref.DeallocOp) and op.memref.owner in ops


def _buffers(
    ops: Iterable[Operation], but: Container[SSAValue], but_by: tuple[type[Operation], ...] = ()
) -> set[SSAValue]:
    """The buffers that `ops` touch, other than those of `but` and those that only ops of types `but_by` do."""
    return {
        root
        for op in ops
        for one in all_ops(op)
        if not isinstance(one, but_by)
        for value in one.operands
        if isinstance(value.type, MemRefType) and (root := root_of(value)) not in but
    }
