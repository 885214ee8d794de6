"""`vectorize(i)`: copies to registers and from them move all iterations of a loop by one instruction.

The loop is written out as by `unroll`. Copies of buffers in which its iterations are no neighbours, or lie at places
that are no multiples of their bytes, are of single elements all the same."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step

WIDTHS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Vectorize(Step):
    """Make `loop` the lanes of vectors."""

    name = "vectorize"

    loop: str

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        if loop.extent not in WIDTHS:
            return f"loop {self.loop} has {loop.extent} iterations, none of {', '.join(map(str, WIDTHS))}"
        if loop.stride != 1:
            return f"iterations of loop {self.loop} are {loop.stride} apart"
        if other := [known.name for known in nest.loops if known.vector]:
            return f"loop {other[0]} is a vector already"
        return None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), vector=True))
