"""`pack(a0, registers)`, `pack(a0, shared, at=k0, inner=i, pad=4)`, `pack(a0, fragments)`: what is needed of an
argument is copied, all at once, to where it is used.

To registers, what a thread needs: an argument that is read is loaded before it is used, one that is written is stored
when all is there. Loads that do not wait for one another are under way together, and several statements share them.

To shared memory, what a block needs, inside of loop `at` if one is named: its threads share the copy, neighbours in
memory to neighbouring threads, so that the order in which they use it does not matter. The elements along axis `inner`
are neighbours there, and `pad` unused elements separate rows, so that columns are in different banks. Beyond extents
the copy is 0. Registers may then be loaded from it. With `swizzle=4` four runs of 16 bytes trade places, in another
order in each row, in place of unused elements; with `copy=async` threads go on while it is copied, which takes runs of
4 bytes at least. With `copy=boxes` a warp of its own, which does nothing else, has parts of the argument copied as
boxes, by no thread (TMA). With `panel=64` rows are cut after as many elements, and what comes next is behind all rows.
With `part=jo, first=6` what the first six iterations of loop `jo` need is copied; where registers are loaded, they are
for the others from memory.

To fragments, what a warp needs of shared memory for a product of matrices (`contract`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenon.dialects.upstream.nvgpu import COPIED_BYTES
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.steps.nest import Bind, Nest, NestAccess, Space, Tile
from tenon.lowering.steps.step import Step, number
from tenon.lowering.steps.tile_copies import RUN, SWIZZLES, box_obstacle, copy_width, tile_sizes

SHARED = "shared"
ASYNC, BOXES = "async", "boxes"
LEAST_ASYNC = min(COPIED_BYTES)
"""Bytes that one asynchronous copy moves, at least."""


@dataclass(frozen=True)
class Pack(Step):
    """Keep what is in use of `buffer` in `space`."""

    name = "pack"

    buffer: str
    space: str
    at: str = ""
    inner: str = ""
    pad: int = 0
    swizzle: int = 1
    copy: str = ""
    panel: int = 0
    part: str = ""
    first: int = 0

    def obstacle(self, nest: Nest) -> str | None:
        buffer = nest.buffers.get(self.buffer)
        if buffer is None:
            return f"there is no buffer {self.buffer}, only {', '.join(nest.buffers)}"
        if self.space not in (Space.REGISTERS.value, Space.FRAGMENTS.value, SHARED):
            return f"buffers are packed to {Space.REGISTERS.value}, {SHARED} or {Space.FRAGMENTS.value}"
        if nest.space(buffer) is not Space.GLOBAL:
            return f"buffer {self.buffer} is in {nest.space(buffer).value}"
        if self.space == SHARED:
            return self._tile_obstacle(nest)
        if replace(self, buffer="", space="") != Pack("", ""):
            return "at, inner, pad, swizzle, copy, panel, part and first are for shared memory"
        if self.space == Space.FRAGMENTS.value and buffer not in nest.tiles:
            return f"buffer {self.buffer} is not in shared memory"
        return None

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
        axes = accesses[0].leading
        led = [axis for axis in axes if axis is not None]
        if len(set(led)) != len(led):
            return f"buffer {self.buffer} is read along a diagonal"
        at = nest.loops.index(nest.loop(self.at)) if self.at else -1
        for axis in set(accesses[0].axes) - set(led):
            within = [loop for loop in nest.loops_of([axis]) if loop.bind is not Bind.GRID]
            if any(not loop.in_order or nest.loops.index(loop) > at for loop in within):
                return f"windows of buffer {self.buffer} move along {axis} inside of what is copied"
        if self.inner and self.inner not in axes:
            return f"{self.inner} is no axis of buffer {self.buffer}"
        return self._part_obstacle(nest, axes) or self._copy_obstacle(nest, accesses[0])

    def _part_obstacle(self, nest: Nest, axes: Sequence[str | None]) -> str | None:
        """What is against copying what is for the first iterations of a loop."""
        if not self.part:
            return "first is for a part" if self.first else None
        loop, first = nest.loop(self.part), number(self.first, "first")
        if self.at or self.panel or self.swizzle != 1 or self.copy == BOXES:
            return "a part is copied once, in rows as they are, by threads"
        if loop.axis not in axes or any(known.stride > loop.stride for known in nest.loops_of([loop.axis])):
            return f"loop {self.part} is not the outermost of an axis of buffer {self.buffer}"
        if not loop.in_order or loop in nest.shared_in_order():
            return f"loop {self.part} is bound or written out, or around all statements"
        return None if first < loop.extent else f"{first} iterations of loop {self.part} of {loop.extent} are no part"

    def _copy_obstacle(self, nest: Nest, access: NestAccess) -> str | None:
        """What is against the order in which elements lie in the tile, and against copying it so."""
        tile, size = self._tile(), element_bytes(element_type(access.access.buffer))
        if self.panel:
            row = tile_sizes(nest, access, replace(tile, panel=0))[-1]
            if self.pad or row % number(self.panel, "panel") or self.panel * size % RUN:
                return f"rows of {row} elements are no panels of {self.panel}, which are runs of {RUN} bytes"
        if self.swizzle != 1:
            if self.swizzle not in SWIZZLES:
                return f"{self.swizzle} runs trade places, expected one of {', '.join(map(str, SWIZZLES))}"
            row = tile_sizes(nest, access, tile)[-1] * size
            if self.pad or row % (RUN * self.swizzle):
                return f"rows of {row} bytes are no multiple of {self.swizzle} runs of {RUN}"
        if self.copy not in ("", ASYNC, BOXES):
            return f"copies are {ASYNC}, {BOXES} or nothing, not {self.copy}"
        if self.copy == BOXES:
            return box_obstacle(nest, access, tile)
        if self.copy == ASYNC:
            if tile.inner not in (None, access.leading[-1]):
                return f"an asynchronous copy leaves elements in their order, and neighbours are along {self.inner}"
            width = copy_width(nest, access, tile) * size
            if width < LEAST_ASYNC or self.pad * size % width:
                begins = f"rows of buffer {self.buffer} begin at multiples of {width} bytes"
                return f"{begins}, and asynchronous copies move {LEAST_ASYNC}"
        return None

    def _tile(self) -> Tile:
        ahead, boxes = self.copy in (ASYNC, BOXES), self.copy == BOXES
        how = self.pad, self.swizzle, ahead, self.panel, boxes, self.part, self.first
        return Tile(self.at or None, self.inner or None, *how)

    def apply(self, nest: Nest) -> None:
        buffer = nest.buffers[self.buffer]
        if self.space == SHARED:
            nest.tiles[buffer] = self._tile()
        else:
            nest.spaces[buffer] = Space(self.space)
