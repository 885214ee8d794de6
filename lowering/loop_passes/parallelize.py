"""`parallelize`: cut parallel loops into chunks that threads take.

Before: the loop stage. After: the same, where each `scf.parallel` that is worth it is cut into tiles; the loop over the
tiles has the attribute `threads`, and each of its iterations is a chunk of work for one thread.

    scf.parallel (%i) = (0) to (4096) step (1) { body }

    scf.parallel (%c) = (0) to (4096) step (64) {
      scf.parallel (%i) = (%c) to (%c + 64) step (1) { body }
    } {threads}

Where tiles do not divide the loop, the last one ends at the loop's end. The cut depends on the program and on sizes
known at launch, never on the number of threads.

By the cost model (`parallel_work`) a loop worth less than twice `grain` nanoseconds stays as it is, so that the launch
(one to two microseconds) does not show. Of others a chunk is worth `grain` at least, or a quarter of it where there
would be fewer than `EVEN` chunks; handing one out takes some 50 ns. There are at most `chunks` of them, many more than
threads, so that threads that start late or are slow take fewer.

Neighbours that may run at the same time (the attribute `beside`: the tiles of a statement, and what is left of it at
the edges) are launched as one, so that no thread waits between them (`cut_loops`).

A loop is cut along its outermost dimension, and along the next ones only where that has too few iterations: so a chunk
is as contiguous as can be. Where all its dimensions are short (less than `FEW` chunks in all) and parallel loops inside
do most of the work and are worth being cut themselves, they are; where they read a copy that is made in front of them,
each thread makes the copies that it reads, if that takes little of the time (`cut_copies`). Otherwise parallel loops
inside others stay serial. A reduction that no parallel loop is around is cut as well, into partial results that are
combined in the order of the chunks (`split_reductions`), and so is a loop of updates of a small result
(`split_updates`). A parallel loop with results is left as it is; so is one that has `threads` already, or a loop inside
that has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block

from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.loop_ir.launch_numbers import Number, larger, product, quotient, quotient_up, smaller
from tenon.lowering.loop_passes.cut_copies import Copies
from tenon.lowering.loop_passes.cut_loops import THREADS, cut, cut_together, neighbours
from tenon.lowering.loop_passes.parallel_work import Loop, loop_trips, loop_work
from tenon.lowering.loop_passes.split_reductions import reduction_kinds, split_reduction
from tenon.lowering.loop_passes.split_updates import split_updates, updates_of

FEW = 8
"""Chunks that are too few to keep threads equally busy, if there is another way."""

EVEN = 16
"""Chunks that keep threads equally busy."""


@dataclass(frozen=True)
class ParallelizePass(FunctionPass):
    """Cut parallel loops of kernels into at most `chunks` chunks of at least `grain` nanoseconds."""

    name = "parallelize"

    grain: int = 10_000
    chunks: int = 64

    def change(self, module: ModuleOp) -> Change:
        if self.grain < 1 or self.chunks < 2:
            raise ValueError(f"parallelize: grain is {self.grain}, chunks is {self.chunks}, expected at least 1 and 2")
        return self._parallelize_function

    def _parallelize_function(self, function: func.FuncOp) -> None:
        self._parallelize_all(
            loop
            for loop in _outermost(function.body.blocks)
            if not any(THREADS in inner.attributes for inner in all_ops(loop))
        )

    def _parallelize_all(self, loops: Iterable[Loop]) -> None:
        for group in neighbours(list(loops)):
            if not self._parallelize_together(group):
                for loop in group:
                    self._parallelize(loop)

    def _parallelize_together(self, loops: Sequence[Loop]) -> bool:
        """Whether neighbours, all of whose sizes are known, are launched as one."""
        parallel = [loop for loop in loops if isinstance(loop, scf.ParallelOp)]
        if not 1 < len(parallel) == len(loops):
            return False
        works = [work for loop in loops if isinstance(work := loop_work(loop), int)]
        if len(works) < len(loops):
            return False
        all_work = sum(works)
        if all_work < 2 * self._worth:
            return False
        wanted = self._wanted(all_work)
        shares = [larger(1, quotient(product(wanted, work), all_work)) for work in works]
        inside = [self._is_better_inside(loop, work) for loop, work in zip(parallel, works, strict=True)]
        copies = [
            Copies.of(loop) if _is_short(loop, share) else None for loop, share in zip(parallel, shares, strict=True)
        ]
        counts = [share if one is None else one.most_chunks(share) for one, share in zip(copies, shares, strict=True)]
        is_lost = any(is_inside and one is None for one, is_inside in zip(copies, inside, strict=True))
        if is_lost or (any(inside) and not _are_enough(counts)):
            return False
        tiles: list[Sequence[Number]] = []
        for at, (one, count) in enumerate(zip(copies, counts, strict=True)):
            if one is not None and isinstance(count, int):
                parallel[at] = one.cut(count)
            tiles.append(_tile(parallel[at], count))
        cut_together(parallel, tiles)
        return True

    def _parallelize(self, loop: Loop) -> None:
        work = loop_work(loop)
        if isinstance(work, int) and work < 2 * self._worth:
            return
        if isinstance(loop, scf.ForOp):
            self._split(loop, self._wanted(work))
        elif loop_trips(loop) == [1] or (isinstance(work, int) and self._is_better_inside(loop, work)):
            self._parallelize_inside(loop, self._wanted(work))
        else:
            cut(loop, _tile(loop, self._wanted(work)))

    def _parallelize_inside(self, loop: scf.ParallelOp, wanted: Number) -> None:
        copies = Copies.of(loop) if isinstance(wanted, int) else None
        if copies is not None and _are_enough([count := copies.most_chunks(wanted)]):
            copies.cut(count).attributes[THREADS] = UnitAttr()
        else:
            self._parallelize_all(_outermost([loop.body.block]))

    @property
    def _worth(self) -> int:
        """`grain` in the unit of the cost model."""
        return 100 * self.grain

    def _wanted(self, work: Number) -> Number:
        """How many chunks to make of `work`."""
        chunks = quotient(work, self._worth)
        if isinstance(work, int) and isinstance(chunks, int):
            chunks = max(chunks, min(4 * work // self._worth, EVEN))
        return larger(1, smaller(chunks, self.chunks))

    def _split(self, loop: scf.ForOp, chunks: Number) -> None:
        if (updates := updates_of(loop)) is not None:
            count = smaller(chunks, updates.most_chunks)
            if isinstance(count, int) and count > 1:
                split_updates(updates, -(-updates.trips // count)).attributes[THREADS] = UnitAttr()
            return
        kinds = reduction_kinds(loop)
        (length,) = _tile(loop, chunks)
        count = quotient_up(loop_trips(loop)[0], length)
        if kinds is not None and count != 1:
            chunked = split_reduction(loop, kinds, length, count, count if isinstance(count, int) else self.chunks)
            chunked.attributes[THREADS] = UnitAttr()

    def _is_better_inside(self, loop: scf.ParallelOp, work: int) -> bool:
        """Whether the iterations are few, and the loops inside are worth being cut and do most of the work."""
        counts = [count for count in loop_trips(loop) if isinstance(count, int)]
        iterations = prod(counts)
        if len(counts) < len(loop.step) or iterations >= FEW:
            return False
        parts = [part for one in _outermost([loop.body.block]) if isinstance(part := loop_work(one), int)]
        return 10 * iterations * sum(part for part in parts if part >= 2 * self._worth) >= 9 * work


def _outermost(blocks: Iterable[Block]) -> Iterator[Loop]:
    """The loops that are parallel, reductions or updates, and in no other one within `blocks`."""
    for block in blocks:
        for op in block.ops:
            if isinstance(op, scf.ParallelOp):
                if not op.results:
                    yield op
            elif isinstance(op, scf.ForOp) and (reduction_kinds(op) is not None or updates_of(op) is not None):
                yield op
            else:
                for region in op.regions:
                    yield from _outermost(region.blocks)


def _are_enough(counts: Iterable[Number]) -> bool:
    """Whether so many chunks keep threads busy."""
    return sum(count for count in counts if isinstance(count, int)) >= FEW


def _is_short(loop: scf.ParallelOp, chunks: Number) -> bool:
    """Whether `loop` has fewer iterations than there should be chunks of it."""
    counts = [count for count in loop_trips(loop) if isinstance(count, int)]
    return isinstance(chunks, int) and len(counts) == len(loop.step) and prod(counts) < chunks


def _tile(loop: Loop, chunks: Number) -> list[Number]:
    """How many iterations of each dimension a chunk has, where about `chunks` are wanted and no more."""
    lengths: list[Number] = []
    for count in loop_trips(loop):
        count = larger(1, count)
        length = quotient_up(count, chunks)
        lengths.append(length)
        chunks = larger(1, quotient(chunks, quotient_up(count, length)))
    return lengths
