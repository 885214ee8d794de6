"""`pipeline(k0, 2)`: what the next iteration of a loop copies to shared memory is loaded while this one computes; with
`pipeline(k0, 4)`, what the next three copy.

Loops of the same sum around a loop whose copies are asynchronous are one loop with it: the first pieces of one of their
iterations are copied during the last ones of the one before. Each stage has its own place in shared memory, so that one
barrier for each iteration is enough. Copies by way of registers, which a thread waits for, have two stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step, number

MOST = 8
"""Stages."""


@dataclass(frozen=True)
class Pipeline(Step):
    """Give `loop` a number of `stages`."""

    name = "pipeline"

    loop: str
    stages: int

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
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
