"""What is known of the pieces of a function: a tree of calls that came one after the other, and where pieces ended."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenon.dialects.definition.registry import generation
from tenon.dialects.support.forking import cached_property
from tenon.eager.recording import Stored
from tenon.eager.tape import Array
from tenon.traces.piece_programs import PieceProgram, Step

_MOST_STEPS = 4096
"""Calls in all pieces of a function that are known."""


@dataclass(eq=False)
class Place:
    """Where a piece has got to: its last call, and what calls came next."""

    step: Step | None = None
    before: Place | None = None
    laid: Sequence[Array] = ()
    """Arrays that lie as the results do."""
    wanted: Sequence[bool] = ()
    """Which results gradients go through."""
    is_tuple: bool = False
    following: dict[Hashable, Place] = field(default_factory=dict[Hashable, "Place"])
    ends: dict[Hashable, End] = field(default_factory=dict[Hashable, "End"])

    @property
    def steps(self) -> list[Step]:
        """All calls up to here."""
        found: list[Step] = []
        place: Place | None = self
        while place is not None and place.step is not None:
            found.append(place.step)
            place = place.before
        return found[::-1]

    @cached_property
    def largest(self) -> int:
        """The bytes of the largest result up to here."""
        return max([laid.nbytes for laid in self._all("laid")], default=0)

    @cached_property
    def all_wanted(self) -> list[bool]:
        """Through which of all results gradients go."""
        return self._all("wanted")

    @cached_property
    def shown(self) -> dict[int, tuple[int, list[Step]]]:
        """Views, with what they show, which is none, and the steps to them from there."""
        found: dict[int, tuple[int, list[Step]]] = {}
        for step in self.steps:
            if step.is_view:
                base = step.operands[0]
                root, before = found.get(base, (base, []))
                found[step.first] = root, [*before, step]
        return found

    def _all(self, name: str) -> list[Any]:
        found: list[Any] = []
        place: Place | None = self
        while place is not None:
            found = [*getattr(place, name), *found]
            place = place.before
        return found


@dataclass(eq=False)
class End:
    """A piece that was run: these calls, of which these results were asked for."""

    floats: tuple[float, ...]
    views: Sequence[tuple[int, int, Sequence[Step]]]
    """Results that show what others hold that are asked for, too, with these and how they look at them."""
    outputs: Sequence[int]
    wanted: Sequence[bool]
    """Through which of the outputs gradients go."""
    varying: frozenset[int] = frozenset()
    """The floats that were others before, which are inputs of programs that are compiled from here on."""
    program: PieceProgram | None = None
    """The last one; it says itself which floats are its inputs, as another thread may have begun it before."""
    is_refused: bool = False


_WORTH_IT = 1 << 18
"""Bytes of some result from which on it is faster to wait: with less in each, waiting takes longer than it saves."""
_CALLS_AT_ONCE = 15
"""Calls of a function of small tensors that are made at once, before it is looked whether they still are."""


class Pieces:
    """What is known of the pieces of one function."""

    def __init__(self) -> None:
        self.compiled = 0
        self.largest = 0
        """The bytes of the largest result of a call."""
        self._at_once = self._given = 0
        self._generation = generation()
        self._known = 0
        self._first = Place()

    def are_worth_it(self, arguments: Sequence[Any]) -> bool:
        """Whether calls are to wait in the next call of the function."""
        given = max([a._array.nbytes for a in arguments if isinstance(a, Stored)], default=0)
        if given != self._given:
            self._given, self._at_once = given, 0
        self._at_once -= 1
        return self._at_once < 0

    def end(self) -> None:
        """Note that a call of the function has ended in which calls waited."""
        self._at_once = 0 if self.largest >= _WORTH_IT else _CALLS_AT_ONCE
        self.largest = 0

    def first(self) -> Place:
        """Where pieces begin."""
        if self._known > _MOST_STEPS or self._generation != generation():
            self._generation, self._known, self._first = generation(), 0, Place()
        return self._first

    def follow(self, place: Place, key: Hashable, following: Place) -> Place:
        """Note what comes next."""
        self._known += 1
        place.following[key] = following
        return following


__all__ = ["End", "Pieces", "Place"]
