"""The memory of entries: numbers, addresses of objects and of other words, 64 bits each; and guards in such words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.runtime.call.layout import GUARD, Load, Test


@dataclass(frozen=True, slots=True)
class Place:
    """A word of the same memory, whose address another word holds."""

    index: int


class Words:
    """Words that native code reads, in one piece of memory, and the objects that they point to."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._relative: list[int] = []
        self.kept: list[Any] = []

    def add(self, words: Sequence[int | Place]) -> Place:
        """Append words; the place of the first."""
        start = len(self._words)
        for position, word in enumerate(words, start):
            if isinstance(word, Place):
                self._relative.append(position)
            self._words.append(8 * word.index if isinstance(word, Place) else word)
        return Place(start)

    def keep(self, value: Any) -> int:
        """The address of an object, which stays where it is from now on."""
        self.kept.append(value)
        return id(value)

    def objects(self, values: Sequence[Any]) -> Place:
        """Append the addresses of objects."""
        return self.add([self.keep(value) for value in values])

    def finished(self) -> tuple[np.ndarray[Any, Any], int]:
        """The memory and its address."""
        memory = np.array([*self._words, 0], np.int64)
        address: int = memory.ctypes.data
        memory[self._relative] += address
        return memory, address


@dataclass(frozen=True)
class Leaf:
    """What is wanted of an argument, or of an extra, besides its dtype and shape: its class, whether it has a source in
    gradients, and whether it is changed."""

    kind: type | None = None
    source: int = 0
    is_changed: bool = False


@dataclass(frozen=True)
class Part:
    """The result of this number."""

    number: int


@dataclass(frozen=True, eq=False)
class Guard:
    """What is loaded from a container, and compared with what was there; see `layout` for both."""

    where: Load
    test: Test
    container: Any
    key: Any = None
    index: int = 0
    expected: Any = None


@dataclass(frozen=True)
class Traced:
    """A program that has more than arguments: what lies in the places of `extras` is given to it, too."""

    mode: int = 0
    """Where it holds: where calls are recorded (1), or where they are not (2); 0 for a program of arguments alone."""
    extras: Sequence[tuple[Guard, Any]] = ()
    """Where they lie, and an array or a number like each."""
    leaves: Sequence[Leaf] = ()
    plain: Sequence[int] = ()
    """Results that are no tensors."""
    result: Any = None
    """The tree of the result, with a `Part` for each array."""
    guards: Sequence[Guard] = ()
    """What must hold besides what was read."""


NOT_TRACED = Traced()


def guard_words(words: Words, guards: Sequence[Guard]) -> Place:
    """Append guards; the place of the first."""
    made: list[int | Place] = []
    for guard in guards:
        made += GUARD.words(
            {
                "where": guard.where,
                "test": guard.test,
                "container": words.keep(guard.container),
                "key": words.keep(guard.key),
                "index": guard.index,
                "expected": words.keep(guard.expected),
            }
        )
    return words.add(made)
