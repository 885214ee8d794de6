"""`pipeline(k0, 2)`: what the next iteration of a loop copies to shared memory is loaded while this one computes.

Each stage has its own place in shared memory, so that one barrier for each iteration is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Pipeline(Step):
    """Give `loop` a number of `stages`."""

    name = "pipeline"

    loop: str
    stages: int

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if self.stages != 2:
            return f"there are {self.stages} stages, expected 2"
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        if not any(tile.at == self.loop for tile in nest.tiles.values()):
            return f"nothing is packed at loop {self.loop}"
        return None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), stages=self.stages))
