"""`unroll(i)`: the iterations of a loop are separate code, so that what they keep can be in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Unroll(Step):
    """Write out `loop`."""

    name = "unroll"

    loop: str

    def obstacle(self, nest: Nest) -> str | None:
        loop = nest.loop(self.loop)
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        total = loop.extent * prod(known.extent for known in nest.loops_of([loop.axis]) if known.written_out)
        most = nest.machine.thread_registers
        return f"{total} iterations would be written out, of {most}" if total > most else None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), unrolled=True))
