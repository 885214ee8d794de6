"""`reorder(j, i)`: loops change places, the first one named to the outermost of the places that they have."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.step import Step


@dataclass(frozen=True)
class Reorder(Step):
    """Put the loops `names` into this order."""

    name = "reorder"

    names: tuple[str, ...]

    def obstacle(self, nest: Nest) -> str | None:
        for name in self.names:
            nest.loop(name)
        return "a loop is named twice" if len(set(self.names)) != len(self.names) else None

    def apply(self, nest: Nest) -> None:
        places = sorted(nest.loops.index(nest.loop(name)) for name in self.names)
        for place, loop in zip(places, [nest.loop(name) for name in self.names], strict=True):
            nest.loops[place] = loop
