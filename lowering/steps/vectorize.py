"""`unroll(i)`: the iterations of a loop are separate code, so that what they keep can be in registers.

`vectorize(i)`: they are, too, and copies to registers and from them move all iterations by one instruction, or by a few
where they are more bytes than one moves. Copies of buffers in which its iterations are no neighbours, or lie at places
that are no multiples of their bytes, are of single elements all the same."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tenon.lowering.buffers.alignments import known_alignment
from tenon.lowering.buffers.memref_facts import row_major_strides
from tenon.lowering.kernels.statement import buffer_shape
from tenon.lowering.steps.nest import Nest, NestAccess, replaced
from tenon.lowering.steps.step import Step

WIDTHS = (2, 4, 8, 16)


def allows_vectors(nest: Nest, access: NestAccess, axis: str, width: int) -> bool:
    """Whether `width` iterations of an axis are neighbours of an access, and begin at multiples of that."""
    if not access.factors:
        return False
    if known_alignment(access.buffer, nest.machine.access) % (width * access.access.element_bytes):
        return False
    *others, last = access.factors
    shape = buffer_shape(access.access.buffer)
    return (
        dict(last).get(axis) == 1
        and not any(known == axis for factors in others for known, _ in factors)
        and all(factor % width == 0 for known, factor in last if known != axis)
        and access.constants[-1] % width == 0
        and all(stride % width == 0 for stride in row_major_strides(shape)[:-1])
    )


def lanes_at_once(nest: Nest, access: NestAccess, width: int) -> int:
    """How many of `width` neighbours one instruction moves: none moves more bytes than the machine's widest access."""
    return min(width, max(1, nest.machine.access // access.access.element_bytes))


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
        if other := [known.name for known in nest.loops_of([loop.axis]) if known.vector]:
            return f"loop {other[0]} of axis {loop.axis} is a vector already"
        return None

    def apply(self, nest: Nest) -> None:
        nest.change(self.loop, replaced(nest.loop(self.loop), vector=True))
