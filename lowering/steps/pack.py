"""`pack(a0, registers)`, `pack(a0, shared, at=k0, inner=i, pad=4)`: what is needed of an argument is copied, all at
once, to where it is used.

To registers, what a thread needs: an argument that is read is loaded before it is used, one that is written is stored
when all is there. Loads that do not wait for one another are under way together, and several statements share them.

To shared memory, what a block needs, inside of loop `at` if one is named: its threads share the copy, neighbours in
memory to neighbouring threads, so that the order in which they use it does not matter. The elements along axis `inner`
are neighbours there, and `pad` unused elements separate rows, so that columns are in different banks. Beyond extents
the copy is 0. Registers may then be loaded from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, Space, Tile
from tenon.lowering.steps.step import Step, number

SHARED = "shared"


@dataclass(frozen=True)
class Pack(Step):
    """Keep what is in use of `buffer` in `space`."""

    name = "pack"

    buffer: str
    space: str
    at: str = ""
    inner: str = ""
    pad: int = 0

    def obstacle(self, nest: Nest) -> str | None:
        buffer = nest.buffers.get(self.buffer)
        if buffer is None:
            return f"there is no buffer {self.buffer}, only {', '.join(nest.buffers)}"
        if self.space not in (Space.REGISTERS.value, SHARED):
            return f"buffers are packed to {Space.REGISTERS.value} or {SHARED}"
        if nest.space(buffer) is not Space.GLOBAL:
            return f"buffer {self.buffer} is in {nest.space(buffer).value}"
        if self.space == SHARED:
            return self._tile_obstacle(nest)
        return "at, inner and pad are for shared memory" if self.at or self.inner or self.pad else None

    def _tile_obstacle(self, nest: Nest) -> str | None:
        buffer = nest.buffers[self.buffer]
        if buffer in nest.tiles:
            return f"buffer {self.buffer} is in shared memory"
        if nest.writers(buffer):
            return f"buffer {self.buffer} is written"
        if self.at and not nest.loop(self.at).in_order:
            return f"loop {self.at} is bound or written out"
        number(self.pad, "pad", least=0)
        accesses = [a for s in nest.statements for a in s.inputs if a.buffer is buffer and a.access.is_used]
        if len({access.place for access in accesses}) != 1:
            return f"buffer {self.buffer} is read at {len({a.place for a in accesses})} places"
        axes = accesses[0].plain_axes()
        for axis, factors in zip(axes, accesses[0].factors, strict=True):
            if axis is None and factors:
                return f"an index of buffer {self.buffer} is no axis"
        if len(set(accesses[0].axes)) != len([axis for axis in axes if axis is not None]):
            return f"buffer {self.buffer} is read along a diagonal"
        if self.inner and self.inner not in axes:
            return f"{self.inner} is no axis of buffer {self.buffer}"
        return None

    def apply(self, nest: Nest) -> None:
        buffer = nest.buffers[self.buffer]
        if self.space == SHARED:
            nest.tiles[buffer] = Tile(self.at or None, self.inner or None, self.pad)
        else:
            nest.spaces[buffer] = Space(self.space)
