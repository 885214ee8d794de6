"""`pipeline(k0, 2)`: what the next iteration of a loop copies to shared memory is loaded while this one computes; with
`pipeline(k0, 4)`, what the next three copy.

Loops of the same sum around a loop whose copies are asynchronous are one loop with it: the first pieces of one of their
iterations are copied during the last ones of the one before. Each stage has its own place in shared memory, so that one
barrier for each iteration is enough. Copies by way of registers, which a thread waits for, have two stages.

Where a warp of its own copies boxes (`pack(a0, shared, at=k0, copy=boxes)`), that can go on from tile to tile. With
`last(132)` there are so many blocks, as many as run at the same time, and each does one tile after the other (they are
persistent): what follows a sum overlaps with copies for the next one.

With `registers(40, 232)` the warp that copies is one of four, whose threads keep 40 registers each and leave the rest
to those that compute, which have 232. A multiprocessor has a quarter of its registers for every fourth warp, so that
with one more than two times four of them none could have more than 168.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import THREADS, Nest, replaced
from tenon.lowering.steps.step import Step, number

MOST = 8
"""Stages."""
LEAST_REGISTERS, MOST_REGISTERS, UNIT = 24, 256, 8
"""Of a thread: what it may keep or be given, and of what that is a multiple."""


@dataclass(frozen=True)
class Pipeline(Step):
    """Give `loop` a number of `stages`."""

    name = "pipeline"

    loop: str
    stages: int

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if loop.stages > 1:
            return f"loop {self.loop} has {loop.stages} stages already"
        if number(self.stages, "stages") not in range(2, MOST + 1):
            return f"there are {self.stages} stages, expected 2 to {MOST}"
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        tiles = {buffer: tile for buffer, tile in nest.tiles.items() if tile.at == self.loop}
        if not tiles:
            return f"nothing is packed at loop {self.loop}"
        slow = [nest.name_of(buffer) for buffer, tile in tiles.items() if not tile.asynchronous]
        if slow and (self.stages > 2 or len(slow) < len(tiles)):
            return f"{slow[0]} is not copied asynchronously: 2 stages, of copies that are all so"
        return None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), stages=self.stages))


@dataclass(frozen=True)
class Last(Step):
    """Have `blocks` blocks."""

    name = "last"

    blocks: int

    def obstacle(self, nest: Nest) -> str | None:
        number(self.blocks, "blocks")
        return "blocks last already" if nest.lasting else None

    def apply(self, nest: Nest) -> None:
        nest.lasting = self.blocks


@dataclass(frozen=True)
class Registers(Step):
    """Have threads that copy keep `copying` registers, and those that compute have `computing`."""

    name = "registers"

    copying: int
    computing: int

    def obstacle(self, nest: Nest) -> str | None:
        for count in (self.copying, self.computing):
            if number(count, "registers") % UNIT or not LEAST_REGISTERS <= count <= MOST_REGISTERS:
                return f"{count} registers are no multiple of {UNIT} from {LEAST_REGISTERS} to {MOST_REGISTERS}"
        if nest.registers is not None:
            return "threads that copy and that compute have {} and {} registers already".format(*nest.registers)
        return registers_obstacle(nest, self.copying, self.computing)

    def apply(self, nest: Nest) -> None:
        nest.registers = (self.copying, self.computing)


def registers_obstacle(nest: Nest, copying: int, computing: int) -> str | None:
    """Why threads that copy cannot keep `copying` registers, and those that compute have `computing`: all are of those
    that a block begins with, and who waits for more waits for ever."""
    threads = nest.count(*THREADS)
    first, _ = left_to_computing(nest, threads, copying)
    if not copying <= first <= computing:
        return f"each thread has {first} registers at first, which is not from {copying} to {computing}"
    total, given = nest.machine.warpgroup * copying + threads * computing, first * (nest.machine.warpgroup + threads)
    return f"{total} registers are more than the {given} that a block begins with" if total > given else None


def left_to_computing(nest: Nest, computing: int, copying: int) -> tuple[int, int]:
    """Registers of each thread where so many compute and four warps copy: at first, and of those that compute once each
    of the others keeps `copying`."""
    machine = nest.machine
    first = machine.registers // (computing + nest.machine.warpgroup)
    later = (machine.registers - nest.machine.warpgroup * copying) // computing
    at_first, then = (min(count // UNIT * UNIT, MOST_REGISTERS - UNIT) for count in (first, later))
    return at_first, then
