"""`parallelize`: cut parallel loops into chunks that threads take.

Before: the loop stage. After: the same, where each `scf.parallel` that is worth it is cut into tiles; the loop over the
tiles has the attribute `threads`, and each of its iterations is a chunk of work for one thread.

    scf.parallel (%i) = (0) to (4096) step (1) { body }

    scf.parallel (%c) = (0) to (4096) step (64) {
      scf.parallel (%i) = (%c) to (%c + 64) step (1) { body }
    } {threads}

Where tiles do not divide the loop, the last one ends at the loop's end. The cut depends on the program and on sizes
known at launch, never on the number of threads.

By the cost model (`parallel_work`) a chunk is worth `grain` nanoseconds at least, so that handing it out (some 50 ns,
and one to two microseconds for the launch) does not show; a loop worth less than two such chunks stays as it is. There
are at most `chunks` of them, many more than threads, so that threads that start late or are slow take fewer.

A loop is cut along its outermost dimension, and along the next ones only where that has too few iterations: so a chunk
is as contiguous as can be. Where all its dimensions are short (less than `FEW` chunks in all) and parallel loops inside
do most of the work and are worth being cut themselves, they are. Otherwise parallel loops inside others stay serial.
A reduction that no parallel loop is around is cut as well, into partial results that are combined in the order of the
chunks (`split_reductions`). A parallel loop with results is left as it is; so is one that has `threads` already, or a
loop inside that has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.launch_numbers import (
    INDEX,
    Number,
    Numbers,
    known,
    larger,
    product,
    quotient,
    quotient_up,
    smaller,
    total,
)
from tenon.lowering.parallel_work import Loop, loop_trips, loop_work
from tenon.lowering.split_reductions import reduction_kinds, split_reduction

THREADS = "threads"
"""The attribute of a parallel loop each of whose iterations is a chunk for one thread."""

FEW = 8
"""Chunks that are too few to keep threads equally busy, if there is another way."""


@dataclass(frozen=True)
class ParallelizePass(FunctionPass):
    """Cut parallel loops of kernels into at most `chunks` chunks of at least `grain` nanoseconds."""

    name = "parallelize"

    grain: int = 10_000
    chunks: int = 64

    def change(self, module: ModuleOp) -> Change:
        if self.grain < 1 or self.chunks < 2:
            raise ValueError(f"parallelize: grain is {self.grain}, chunks is {self.chunks}, expected at least 1 and 2")
        return self._parallelize_loops

    def _parallelize_loops(self, function: func.FuncOp) -> None:
        for loop in list(_outermost(function.body.blocks)):
            if not any(THREADS in inner.attributes for inner in loop.walk()):
                self._parallelize(loop)

    def _parallelize(self, loop: Loop) -> None:
        chunks = quotient(loop_work(loop), 100 * self.grain)
        if isinstance(chunks, int) and chunks < 2:
            return
        if isinstance(loop, scf.ForOp):
            self._split(loop, larger(1, smaller(chunks, self.chunks)))
            return
        inner = list(_outermost([loop.body.block]))
        if isinstance(chunks, int) and self._is_better_inside(loop, inner, chunks):
            for one in inner:
                self._parallelize(one)
            return
        _cut(loop, _tile(loop, larger(1, smaller(chunks, self.chunks))))

    def _split(self, loop: scf.ForOp, chunks: Number) -> None:
        kinds = reduction_kinds(loop)
        (length,) = _tile(loop, chunks)
        count = quotient_up(loop_trips(loop)[0], length)
        if kinds is not None and count != 1:
            chunked = split_reduction(loop, kinds, length, count, count if isinstance(count, int) else self.chunks)
            chunked.attributes[THREADS] = UnitAttr()

    def _is_better_inside(self, loop: scf.ParallelOp, inner: Sequence[Loop], chunks: int) -> bool:
        """Whether the iterations are few, and the loops inside are worth being cut and do most of the work."""
        counts = [count for count in loop_trips(loop) if isinstance(count, int)]
        iterations = prod(counts)
        if len(counts) < len(loop.step) or iterations >= FEW:
            return False
        parts = [part for one in inner if isinstance(part := quotient(loop_work(one), 100 * self.grain), int)]
        return 10 * iterations * sum(part for part in parts if part >= 2) >= 9 * chunks


def _outermost(blocks: Iterable[Block]) -> Iterator[Loop]:
    """The parallel and reduction loops that are in no other one within `blocks`."""
    for block in blocks:
        for op in block.ops:
            if isinstance(op, scf.ParallelOp):
                if not op.results:
                    yield op
            elif isinstance(op, scf.ForOp) and reduction_kinds(op) is not None:
                yield op
            else:
                for region in op.regions:
                    yield from _outermost(region.blocks)


def _tile(loop: Loop, chunks: Number) -> list[Number]:
    """How many iterations of each dimension a chunk has, where about `chunks` are wanted and no more."""
    lengths: list[Number] = []
    for count in loop_trips(loop):
        count = larger(1, count)
        length = quotient_up(count, chunks)
        lengths.append(length)
        chunks = larger(1, quotient(chunks, quotient_up(count, length)))
    return lengths


def _cut(loop: scf.ParallelOp, lengths: Sequence[Number]) -> None:
    """Tile `loop` by `lengths`, with the attribute `threads` on the loop over the tiles."""
    counts = loop_trips(loop)
    cut = [d for d, (count, length) in enumerate(zip(counts, lengths, strict=True)) if length != count]
    if not cut:
        return
    numbers = Numbers(loop)
    steps = [numbers.value(product(lengths[d], known(loop.step[d]))) for d in cut]
    block = Block(arg_types=[INDEX] * len(cut))
    tiles = scf.ParallelOp(
        [loop.lowerBound[d] for d in cut],
        [loop.upperBound[d] for d in cut],
        steps,
        Region(block),
    )
    tiles.attributes[THREADS] = UnitAttr()
    Rewriter.insert_op(tiles, InsertPoint.before(loop))
    loop.detach()
    block.add_ops([loop, scf.ReduceOp.create()])
    inside = Numbers(loop)
    rank = len(counts)
    for start, d, step in zip(block.args, cut, steps, strict=True):
        end = total(start, step)
        if not _divides(lengths[d], counts[d]):
            end = smaller(end, loop.upperBound[d])
        loop.operands[d] = start
        loop.operands[rank + d] = inside.value(end)


def _divides(length: Number, count: Number) -> bool:
    return isinstance(length, int) and isinstance(count, int) and count % length == 0
