"""`rotate(jn)`: a loop along the columns of a product takes turns in the registers of the sums.

The product has all iterations of the loop at once. What follows runs them one after the other, as one piece of code: it
finds those of the first iteration, and after each the others move down by one. So long code for each element is written
out for one iteration alone, which the cache of instructions can hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Rotate(Step):
    """Let the iterations of `loop` take turns."""

    name = "rotate"

    loop: str

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        contracted = [s for s in nest.statements if s.reduced]
        others = [s for s in nest.statements if not s.reduced]
        if len(contracted) != 1 or len(others) != 1 or loop.axis not in contracted[0].outputs[0].axes:
            return "sums take turns for one statement that follows one product"
        if loop.axis not in others[0].axes:
            return f"what follows the product does not run along {loop.axis}"
        if any(known.rotated for known in nest.loops):
            return "one loop takes turns"
        return None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), rotated=True))
