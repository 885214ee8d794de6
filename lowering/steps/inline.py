"""`inline(t0)`: the elements of an intermediate are computed where they are read, each time, and kept nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, Space
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Inline(Step):
    """Compute the elements of `buffer` where they are read."""

    name = "inline"

    buffer: str

    def obstacle(self, nest: Nest) -> str | None:
        buffer = nest.buffers.get(self.buffer)
        if buffer is None or not self.buffer.startswith("t"):
            return f"there is no intermediate {self.buffer}"
        writers = nest.writers(buffer)
        if len(writers) != 1:
            return f"buffer {self.buffer} is written by {len(writers)} statements"
        writer = nest.statements[writers[0]]
        if writer.reduced:
            return f"buffer {self.buffer} is not computed element by element"
        if any(writer.statement.reads_output(n) for n, o in enumerate(writer.outputs) if o.buffer is buffer):
            return f"buffer {self.buffer} is read where it is written"
        return None

    def apply(self, nest: Nest) -> None:
        nest.spaces[nest.buffers[self.buffer]] = Space.INLINE
