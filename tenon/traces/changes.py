"""What a function has put into the places that it has things from, once it was traced."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import array
import gc
import sys
from collections.abc import Container, Iterator, MutableSequence, Sequence
from copy import copy
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.user_place import Place as Line
from tenon.eager.recording import Stored
from tenon.runtime.reads.guards import content_of, is_fixed, same_array
from tenon.runtime.reads.libraries import is_library
from tenon.runtime.reads.places import MISSING, Holder, Place
from tenon.traces.reads import NUMBERS, TensorReads, items_of
from tenon.traces.stand_ins import INSTEAD, ChangeError, Counted, Growing, Key, TraceError, WrittenAgain, key_of


class Standing:
    """What stands in places while a function is traced, and what was put there."""

    def __init__(self, name: str, reads: TensorReads) -> None:
        self._name = name
        self._reads = reads
        self._standing: dict[Key, tuple[Any, Any]] = {}
        """What stands in a place, and a copy of it, as trees may be changed."""
        self._of_states: list[tuple[Place, Any]] = []
        """Places in the state of optimizers, of which there are new containers, and what these have."""
        self.grown: list[Growing] = []
        """What stands for lists that are appended to."""
        self.refilled: list[tuple[Any, set[Any]]] = []
        """Sets, which are guarded as they were, and what is in them in the end."""
        self.arrays = {id(held): held if is_fixed(held) else held.copy() for _, held in reads.arrays}
        """Arrays of NumPy that the function reads, by identity, with their elements as they were."""
        self._collections = [(held, copy(content_of(held))) for held in reads.collections]

    def begin(self, inputs: list[Place]) -> None:
        """Put stand-ins of numbers and lists into their places; those of inputs are in theirs."""
        reads = self._reads
        for place, value in reads.counted:
            place.set(Counted(place, type(value)))
        of_lists: dict[int, Growing] = {}
        for place, held in reads.grown:
            place.set(of_lists.setdefault(id(held), Growing(held, place.name)))
        self.grown = [*of_lists.values()]
        for place in [*inputs, *[place for place, _ in (*reads.counted, *reads.grown)]]:
            whole = place.whole()
            self._standing[key_of(place)[:2]] = whole, _copied(whole)

    def changes(self) -> list[tuple[Place, Any]]:
        """The places that have other values now, and these. Raises `TraceError` for what a program cannot do again, and
        `WrittenAgain` where it can, now that it is known."""
        for held, _, name in self._changed():
            if not isinstance(held, set) or has_traced([*held]):
                said = f"{self._name} changes what is in {name}"
                raise TraceError(f"{said}, which a program cannot do at each call; {INSTEAD}")
            self.refilled.append((held, {*held}))
        found: list[tuple[Place, Any]] = []
        is_known = True
        for holder in self._reads.held:
            for key, old, new in holder.changes():
                place = holder.place(key)
                standing, before = self._standing_in(place)
                if new is not standing or new is MISSING:
                    is_known &= self._compare(place, old, new, found)
                elif not _is_one(new, before):
                    raise TraceError(f"{self._name} changes what is in {place.name}, and replaces it; do one of both")
        if not is_known:
            raise WrittenAgain
        # What a new container has is there in the end, whatever was put into the one before it meanwhile.
        final = {key_of(place) for place, _ in self._of_states}
        return [*[(place, new) for place, new in found if key_of(place) not in final], *self._of_states]

    def restore(self) -> None:
        """Give what the function reads back what it held."""
        for holder in self._reads.held:
            holder.restore()
        for held, before, _ in self._changed():
            refill(held, before)

    def _changed(self) -> Iterator[tuple[Any, Any, str]]:
        """Arrays, sets and bytes with other elements than before, these, and what they are called."""
        for place, held in self._reads.arrays:
            if not same_array(held, before := self.arrays[id(held)]):
                yield held, before, "an array" if place is None else place.name
        for held, before in self._collections:
            if content_of(held) != before:
                yield held, before, f"a {type(held).__name__}"

    def _standing_in(self, place: Place) -> tuple[Any, Any]:
        """What stands in a place, and a copy of it."""
        return self._standing.get(key_of(place), (MISSING, None))

    def _compare(self, place: Place, old: Any, new: Any, found: list[tuple[Place, Any]]) -> bool:
        """Note what is in a place now; whether that it gets something else was known."""
        written = self._reads.written
        # What was one of a few values is guarded, so that it can be set again.
        is_one_of_few = old is None or old is MISSING or isinstance(old, bool | str)
        inner = self._reads.states.get(id(old))
        if inner is not None and type(old) is type(new) and [*items_of(new)] == [*inner.before]:
            # the state of an optimizer, whose containers stay while what is in them is another
            is_known = True
            for key, value in items_of(new).items():
                if value is not inner.before[key] and value is not self._standing_in(inner.place(key))[0]:
                    is_known &= self._compare(inner.place(key), inner.before[key], value, self._of_states)
            return is_known
        if old is MISSING and isinstance(place.container, MutableSequence):
            if id(place.container) not in written.lists:
                written.lists[id(place.container)] = place.container
                return False
        elif isinstance(new, Counted) or (type(old) in NUMBERS and type(new) in NUMBERS):
            if isinstance(new, Counted) or not _is_same(old, new):
                found.append((place, new))
                return not written.add(place)
            return True
        elif new is not MISSING and (is_one_of_few or has_traced(new)):
            found.append((place, new))
            is_known = is_one_of_few or isinstance(old, NUMBERS) or not written.add(place)
            return is_known & self._compare_numbers(place, old, new)
        elif _is_same(old, new):
            return True
        raise ChangeError(
            f"{self._name} changes {place.name} from {_said(old)} to {_said(new)}",
            f", which a program cannot do at each call; {INSTEAD}",
            place,
        )

    def _compare_numbers(self, place: Place, old: Any, new: Any) -> bool:
        """Note the numbers in a tree that gets another one."""
        if type(old) in NUMBERS and place.path and not _is_same(old, new):
            return not self._reads.written.add(place)
        olds, news = items_of(old), items_of(new)
        is_known = True
        for key in olds.keys() & news:
            is_known &= self._compare_numbers(place.item(key), olds[key], news[key])
        return is_known


class LineOf:
    """While a block runs, finds the line of the user's after which something else is in a place, or in containers."""

    def __init__(self, place: Place | None, holders: Sequence[Holder]) -> None:
        self._watched, self._holders = place, holders
        self._first = self._now()
        self._last: Line = None
        self.line: Line = None

    def __enter__(self) -> LineOf:
        self._outer = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._outer)

    def _now(self) -> Any:
        return None if self._watched is None else self._watched.found()

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        return None if is_library(frame.f_globals.get("__name__")) else self._ran

    def _ran(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.line is None and (self._now() is not self._first or any(h.changes() for h in self._holders)):
            self.line = self._last
        if event == "line":
            self._last = frame.f_code, frame.f_lasti
        return self._ran


def refill(held: Any, before: Any) -> None:
    """Give an array, a set or bytes the elements that these had."""
    match held:
        case set():
            held.clear()
            held.update(before)
        case array.array():
            del held[:]
            held.frombytes(before)
        case memoryview():
            held.cast("B")[:] = before
        case _:
            held[... if isinstance(held, np.ndarray) else slice(None)] = before


def _copied(tree: Any) -> Any:
    """A copy of a tree, without what it was made of; leaves are the same."""
    items = items_of(tree)
    return {key: _copied(item) for key, item in items.items()} if items else tree


def _is_one(tree: Any, copy: Any) -> bool:
    """Whether a tree has the very leaves that it had when it was copied."""
    items = items_of(tree)
    if not items:
        return tree is copy
    return type(copy) is dict and items.keys() == copy.keys() and all(_is_one(items[key], copy[key]) for key in items)


def has_traced(tree: Any) -> bool:
    """Whether there are traced values, or stand-ins, at or below `tree`."""
    return any(map(is_stand_in, _leaves(tree)))


def hides_traced(value: Any, known: Container[int]) -> bool:
    """Whether an object that is no tree refers to traced values, or stand-ins, other than through `known` objects."""
    pending, seen = [value], set[int]()
    while pending:
        held = pending.pop()
        if id(held) in known or id(held) in seen or isinstance(held, type | ModuleType | CodeType):
            continue
        if is_stand_in(held):
            return True
        seen.add(id(held))
        if isinstance(held, FunctionType):  # whose globals are not its own
            pending += [held.__closure__, held.__defaults__, held.__kwdefaults__]
        elif not isinstance(held, Stored | np.ndarray):
            pending += gc.get_referents(held)
    return False


def is_stand_in(value: Any) -> bool:
    """Whether it is a traced value, or stands for something in a trace."""
    return (
        isinstance(value, Value)
        or type(value) in (Counted, Growing)
        or (isinstance(value, Stored) and value._is_traced)
    )


def _leaves(tree: Any) -> Iterator[Any]:
    if issubclass(type(tree), dict | list | tuple):
        for item in items_of(tree).values():
            yield from _leaves(item)
    else:
        yield tree
        attributes = getattr(tree, "__dict__", None)
        if isinstance(attributes, dict) and not isinstance(tree, type) and not callable(tree):
            yield from attributes.values()


def _is_same(old: Any, new: Any) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return [*old] == [*new] and all(_is_same(old[key], new[key]) for key in old)
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    if isinstance(old, np.ndarray):
        return old.dtype == new.dtype and np.array_equal(old, new)
    return old is new or (not isinstance(old, Stored) and bool(old == new))


def _said(value: Any) -> str:
    return "nothing" if value is MISSING else f"{value!r:.60}"


__all__ = ["LineOf", "Standing", "has_traced", "hides_traced", "is_stand_in", "refill"]
