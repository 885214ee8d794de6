"""`bind(i, grid)`: the iterations of a loop run at the same time, on the blocks of the grid, the threads of a block,
its warps, or the lanes of a warp.

Several loops may be bound alike: their iterations are numbered together, the last loop fastest. A reduction along a
bound loop is combined across threads: along `lane` by shuffles, along `warp` and `block` in shared memory.

With `order=descending` blocks have the iterations from the last one down: where these take longest, they are begun
first, and none is left alone at the end.

With `like=j`, the loop has the threads that loop `j` has, for statements that are not along the axis of that one: each
thread has elements of both. A statement along both axes, or one that reduces the axis of the loop, has to be a
contraction, whose instruction exchanges them.

`resident(2)`: a multiprocessor is to hold two blocks at a time, so that the assembler gives a thread no more registers
than that leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.kernels.statement import LoopKind
from tenon.lowering.steps.nest import THREADS, Bind, Nest, replaced
from tenon.lowering.steps.scan_loops import scanned_by
from tenon.lowering.steps.step import Step, number

DESCENDING = "descending"


@dataclass(frozen=True)
class BindLoop(Step):
    """Bind `loop` to what runs it."""

    name = "bind"

    loop: str
    to: str
    like: str = ""
    order: str = ""

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if self.to not in [bind.value for bind in Bind]:
            return f"loops are bound to {', '.join(bind.value for bind in Bind)}"
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        bind = Bind(self.to)
        if self.order and (self.order != DESCENDING or bind is not Bind.GRID):
            return f"blocks of a grid have the order {DESCENDING} or none"
        if self.like:
            return self._like_obstacle(nest, bind)
        if bind in THREADS and (threads := nest.count(*THREADS) * loop.extent) > nest.machine.largest_block:
            return f"a block would have {threads} threads of {nest.machine.largest_block}"
        if bind is Bind.GRID and nest.count(Bind.GRID) * loop.extent >= 1 << 31:
            return "a grid has less than 2147483648 blocks"
        for statement in nest.statements:
            if loop.axis not in statement.reduced:
                continue
            kind = statement.statement.kinds[statement.axes.index(loop.axis)]
            if kind is LoopKind.SEQUENTIAL and scanned_by(statement) is None:
                return f"iterations along axis {loop.axis} depend on one another"
            if bind is Bind.GRID:
                return f"axis {loop.axis} is reduced, and blocks of a grid combine nothing"
        return None

    def _like_obstacle(self, nest: Nest, bind: Bind) -> str | None:
        loop, other = nest.loop(self.loop), nest.loop(self.like)
        if bind is not Bind.LANE or other.bind is not bind or other.like:
            return f"loop {self.like} is not bound to lanes of its own"
        if loop.extent != other.extent:
            return f"loops {self.loop} and {self.like} have {loop.extent} and {other.extent} iterations"
        return f"axis {loop.axis} has both loops" if loop.axis == other.axis else None

    def apply(self, nest: Nest) -> None:
        nest.change(
            self.loop, replaced(nest.loop(self.loop), bind=Bind(self.to), like=self.like, descending=bool(self.order))
        )


@dataclass(frozen=True)
class Resident(Step):
    """Have registers for `blocks` of a multiprocessor."""

    name = "resident"

    blocks: int

    def obstacle(self, nest: Nest) -> str | None:
        number(self.blocks, "blocks")
        if nest.resident:
            return f"a multiprocessor is to hold {nest.resident} blocks already"
        return resident_obstacle(nest, self.blocks)

    def apply(self, nest: Nest) -> None:
        nest.resident = self.blocks


def resident_obstacle(nest: Nest, blocks: int) -> str | None:
    """Why a multiprocessor cannot hold so many blocks."""
    threads = nest.count(*THREADS) + nest.copiers
    if blocks > nest.machine.blocks or blocks * threads > nest.machine.threads:
        return f"a multiprocessor holds {nest.machine.blocks} blocks and {nest.machine.threads} threads at most"
    return None
