"""`split(i, 256) -> i0, i1`: a loop becomes two, the inner one of 256 iterations.

Where these do not divide the extent, the last iterations of the outer loop reach beyond it; they are left out when the
code is written, since each axis knows its extent. A loop inside of another one of its axis has to be divided: behind
its end are elements of the next iteration of that one, which would be done twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest, replaced
from tenon.lowering.steps.step import Step, number


@dataclass(frozen=True)
class Split(Step):
    """Split `loop` into an outer and an inner one of `size` iterations."""

    name = "split"

    loop: str
    size: int
    results: tuple[str, ...]

    def obstacle(self, nest: Nest) -> str | None:
        loop, size = nest.loop(self.loop), number(self.size, "the size")
        if len(self.results) != 2 or self.results[0] == self.results[1]:
            return "it makes two loops, -> outer, inner"
        if taken := {known.name for known in nest.loops if known is not loop} & set(self.results):
            return f"there is a loop {min(taken)} already"
        if not loop.in_order:
            return f"loop {self.loop} is bound or written out"
        around = [known for known in nest.loops_of([loop.axis]) if known.stride > loop.stride and known.extent > 1]
        if loop.extent % size and around:
            inside = f"inside of loop {min(around, key=lambda known: known.stride).name}"
            return f"loop {self.loop} has {loop.extent} iterations {inside}, which are no multiple of {size}"
        if loop.extent % size and nest.covered(loop.axis) * 2 >= 1 << 62:
            return f"loop {self.loop} has too many iterations"
        return None

    def apply(self, nest: Nest) -> None:
        loop = nest.loop(self.loop)
        outer = replaced(
            loop, name=self.results[0], extent=-(-loop.extent // self.size), stride=loop.stride * self.size
        )
        nest.change(self.loop, outer, replaced(loop, name=self.results[1], extent=self.size))
