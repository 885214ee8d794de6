"""The programs of a function: several for one kind of call, where what it reads besides its arguments has changed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from tenon.dialects.support.user_traceback import user_stacklevel
from tenon.runtime.knobs import knobs
from tenon.runtime.reads.guards import Guards

MANY = 8
"""Programs of one kind of call from which on a warning says what keeps changing."""
HEAVY = 10_000
"""Values compared at each call from which on a warning says so."""
MOST = 16
"""Programs of one kind of call that are kept: those that were used last."""


class Guarded(Protocol):
    """A program that holds as long as its guards do."""

    @property
    def guards(self) -> Guards | None: ...


T = TypeVar("T", bound=Guarded)


class Programs(Generic[T]):
    """Programs by kind of call, of which at most `most` are kept, if that is given: those that were used last.

    One thread at a time adds to them.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._by_kind: dict[Hashable, list[T]] = {}
        self._traced: dict[Hashable, int] = {}

    def get(self, kind: Hashable) -> T | None:
        """A program for calls of this kind that still holds."""
        for program in self._by_kind.get(kind, ()):
            guards = program.guards
            if guards is None or guards.hold():
                return program
        return None

    def add(self, name: str, kind: Hashable, program: T) -> T:
        """Keep a program of a function of this name, and give it back; a warning says where calls compare very much."""
        if (count := len(program.guards or ())) >= HEAVY:
            warnings.warn(
                f"each call of {name} compares {count} values that it reads from around it, which takes about "
                f"{count / 100_000:.1f} ms; pass what holds them as an argument, or make it smaller",
                stacklevel=user_stacklevel(),
            )
        kept = self._by_kind.pop(kind, [])
        self._by_kind[kind] = [program, *kept[: MOST - 1]]
        self._traced[kind] = self._traced.get(kind, 0) + 1
        while self._most is not None and len(self) > self._most and len(self._by_kind) > 1:
            oldest = next(iter(self._by_kind))
            self.forget(oldest)
        return program

    def forget(self, kind: Hashable) -> None:
        """Let go of the programs for calls of a kind."""
        self._by_kind.pop(kind, None)
        self._traced.pop(kind, None)

    def say_why(self, name: str, kind: Hashable) -> str | None:
        """What has changed since the last call of this kind was traced, if any was; a warning says what changes again
        and again."""
        known = self._by_kind.get(kind)
        guards = known[0].guards if known else None
        why = None if guards is None else guards.broken()
        if why is None:
            return None
        if knobs.log_compiles:
            print(f"tenon: tracing {name} again: {why} is another", file=sys.stderr)
        if self._traced[kind] == MANY:
            warnings.warn(
                f"{name} has been traced {MANY + 1} times, last since {why} changed; pass what changes as an argument, "
                "or make it a tensor",
                stacklevel=user_stacklevel(),
            )
        return why

    def values(self) -> list[T]:
        """All programs, in the order of their kinds."""
        return [program for programs in self._by_kind.values() for program in programs]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._by_kind)

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))
