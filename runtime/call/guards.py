"""Checks of what a program read when it was traced, in words that native code reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenon.runtime.call.entry_words import Place, Words
from tenon.runtime.call.layout import GUARD, Load, Test


@dataclass(frozen=True, eq=False)
class Guard:
    """What is loaded from a container, and compared with what was there; see `layout` for both."""

    where: Load
    test: Test
    container: Any
    key: Any = None
    index: int = 0
    expected: Any = None


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
