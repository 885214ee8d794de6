"""`pack(a0, registers)`: what a thread needs of a buffer is copied, all at once, to where it is used.

An argument that is read is loaded before it is used, one that is written is stored when all that a thread writes of it
is there: loads that do not wait for one another are under way together, and several statements share them."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, Space
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Pack(Step):
    """Keep what is in use of `buffer` in `space`."""

    name = "pack"

    buffer: str
    space: str

    def obstacle(self, nest: Nest) -> str | None:
        if self.buffer not in nest.buffers:
            return f"there is no buffer {self.buffer}, only {', '.join(nest.buffers)}"
        if self.space != Space.REGISTERS.value:
            return f"buffers are packed to {Space.REGISTERS.value}"
        if nest.space(nest.buffers[self.buffer]) is not Space.GLOBAL:
            return f"buffer {self.buffer} is in {nest.space(nest.buffers[self.buffer]).value}"
        return None

    def apply(self, nest: Nest) -> None:
        nest.spaces[nest.buffers[self.buffer]] = Space(self.space)
