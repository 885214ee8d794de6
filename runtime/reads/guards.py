"""Whether what a program was traced from is still there: checks that are written out as code, since every call makes
them.
"""

from __future__ import annotations

import ctypes
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import CellType
from typing import Any

import numpy as np

from tenon.dialects.support.plain_arrays import copied, is_on_gpu, on_gpu_viewed
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.layout import Load, Test
from tenon.runtime.reads.places import GONE, MISSING, Place, made_of
from tenon.runtime.reads.reads import Reads


class Names:
    """Objects that code refers to, each under a name."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def of(self, value: Any) -> str:
        """The name of an object."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"x{len(self._known)}"
            self.objects[name] = value
        return name

    def read(self, place: Place) -> str:
        """Code that reads a place."""
        key = repr(place.key) if isinstance(place.key, str | int) else self.of(place.key)
        return place.expression(self.of(place.container), key)

    def function(self, expression: str, parameters: str = "") -> Callable[..., Any]:
        """A function of an expression."""
        made: Callable[..., Any] = eval(f"lambda {parameters}: {expression}", self.objects)
        return made


class Guards:
    """What must hold for a program to be run: each check as code of Python, and for native code, where it has it."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, str]] = []
        self._names = Names()
        self._others: list[str] = []
        self.native: list[Guard] = []
        """All checks, once `finish` was called; those that native code does not have are one function of Python."""

    def __len__(self) -> int:
        return len(self._checks)

    def add(self, name: str, check: str, guard: Guard | None) -> None:
        """Have a check pass, which errors call by what it checks."""
        self._checks.append((name, check))
        if guard is None:
            self._others.append(check)
        else:
            self.native.append(guard)

    def add_reads(self, reads: Reads, kept: Mapping[int, np.ndarray[Any, Any]]) -> None:
        """Have what a function may read the same as it is now; arrays as they are in `kept`, by identity."""
        of, read = self._names.of, self._names.read
        for place, value in reads.identities:
            if not isinstance(place.container, tuple):  # which has the same items as long as it is there
                self.add(place.name, f"{read(place)} is {of(value)}", guard_at(place, Test.identity, value))
        for place, value in reads.constants:
            if not isinstance(place.container, tuple):
                check = f"({read(place)} is {of(value)} or {of(same)}({read(place)}, {of(value)}))"
                self.add(place.name, check, guard_at(place, Test.same, value))
        for collection in reads.collections:
            self.add("what is held", f"{of(content_of)}({of(collection)}) == {of(copy(content_of(collection)))}", None)
        for container, length in reads.lengths:
            guard = Guard(Load.constant, _LENGTHS.get(type(container), Test.length), container, index=length)
            self.add("the number of items", f"len({of(container)}) == {length}", guard)
        for held, keys in reads.keys:
            guard = Guard(Load.constant, Test.keys, held, expected=keys) if type(held) is dict else None
            self.add("the keys of a dict", f"tuple({of(held)}) == {of(keys)}", guard)
        for function, parts in reads.functions:
            guard = None if _FIELD is None else Guard(Load.constant, Test.parts, function, index=_FIELD, expected=parts)
            name = f"the code or the defaults of {function.__name__}"
            self.add(name, f"{of(is_made_of)}({of(function)}, {of(parts)})", guard)
        for place in reads.absent:
            self.add(place.name, f"{of(place)}.found() is {of(MISSING)}", guard_at(place, Test.absent, None))
        for place, array in reads.arrays:
            self.add_array(place, array, kept[id(array)])

    def add_array(self, place: Place | None, array: Any, kept: np.ndarray[Any, Any]) -> None:
        """Have an array with the elements that it has in `kept`; one that nobody writes to counts as one that stays as
        it is."""
        of = self._names.of
        found, name = (of(array), "an array") if place is None else (self._names.read(place), place.name)
        if is_fixed(array):
            check = f"{found} is {of(array)} and not {of(array)}.flags.writeable"
            self.add(name, check, guard_at(place, Test.fixed, array, array))
            return
        guard = guard_at(place, Test.bits, kept, array, index=kept.itemsize)
        self.add(name, f"{of(same_array)}({found}, {of(kept)})", guard if array.flags.c_contiguous else None)

    def add_read_on_gpu(self, reads: Reads, inputs: Sequence[Any]) -> None:
        """Have the arrays on a GPU that a function may read with the elements that they have now, but for those that
        are `inputs` of the program. Where an input is none of these, nor a view of one, it was computed while the
        function was traced, from any of them."""
        of = self._names.of
        found = [(place, array, on_gpu_viewed(detached(array))) for place, array in reads.on_gpu.values()]
        seen = {id(view) for _, _, view in found}
        known = [a for a in inputs if is_on_gpu(a)]
        is_plain = all(id(array) in seen or id(getattr(array, "base", None)) in seen for array in known)
        own = {id(array) for array in known} if is_plain else set[int]()
        for place, array, view in found:
            read, name = (of(array), "an array") if place is None else (self._names.read(place), place.name)
            if id(view) not in own:
                self.add(name, f"{of(same_on_gpu)}({read}, {of(copied(view))})", None)
            elif view is not array:
                self.add(name, f"{of(on_gpu_viewed)}({read}) is {of(view)}", None)

    def finish(self) -> None:
        """Make one function of all checks."""
        self._check = self._names.function(" and ".join([check for _, check in self._checks]) or "True")
        if self._others:
            others = self._names.function(" and ".join(self._others))
            self.native.append(Guard(Load.constant, Test.true, others))

    def hold(self) -> bool:
        """Whether everything is as it was."""
        try:
            return bool(self._check())
        except GONE:
            return False

    def broken(self) -> str | None:
        """What is not as it was, if anything."""
        for name, check in self._checks:
            try:
                if not self._names.function(check)():
                    return name
            except GONE:
                return name
        return None


def content_of(collection: Any) -> Any:
    """What is compared of a collection: of all but sets the bytes, as a NaN is what it was, and -0.0 is not 0.0; `None`
    for a view of memory that was released."""
    if isinstance(collection, set):
        return collection
    try:
        return bytes(collection)
    except ValueError:
        return None


_LENGTHS = {dict: Test.dict_length, list: Test.list_length}


def is_made_of(function: types.FunctionType, parts: tuple[Any, ...]) -> bool:
    """Whether a function has that very code, and those defaults."""
    return all(map(operator.is_, made_of(function), parts))


def _probe(given: Any = (1,), *, other: Any = (2,)) -> Any:
    return given, other


def _field_of_parts() -> int | None:
    """At which byte of a function the first of its parts is, as it is found in memory, if the others are behind it."""
    words = (ctypes.c_size_t * (types.FunctionType.__basicsize__ // 8)).from_address(id(_probe))
    expected = [*map(id, made_of(_probe))]
    found = [at for at in range(len(words) - 2) if [*words[at : at + 3]] == expected]
    return 8 * found[0] if len(found) == 1 else None


_FIELD = _field_of_parts()


def guard_at(place: Place | None, test: Test, expected: Any, itself: Any = None, *, index: int = 0) -> Guard | None:
    """A check of what is in a place, or of an object itself; `None` where native code does not find it."""
    if place is None:
        return Guard(Load.constant, test, itself, index=index, expected=expected)
    if place.path:
        return None
    container = place.container
    if isinstance(container, CellType):
        return Guard(Load.cell, test, container, index=index, expected=expected)
    if place.is_attribute:
        return Guard(Load.attribute, test, container, place.key, index, expected)
    if type(container) is dict:
        return Guard(Load.key, test, container, place.key, index, expected)
    if type(container) is list and test in (Test.identity, Test.same):
        return Guard(Load.item, test, container, index=place.key, expected=expected)
    return Guard(Load.mapping, test, container, place.key, index, expected)


def is_fixed(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array counts as one that nobody writes to: it is read-only, and its memory its own or of bytes."""
    if type(array) is not np.ndarray or array.flags.writeable:
        return False
    base: Any = array.base
    while type(base) is np.ndarray and base.base is not None:
        base = base.base
    return base is None or type(base) is bytes


def same(now: Any, before: Any) -> bool:
    """Whether two numbers or texts do the same in a program."""
    if type(now) is not type(before):
        return False
    if isinstance(now, float):
        return now.hex() == before.hex()
    if isinstance(now, np.generic):
        return now.tobytes() == before.tobytes()
    return bool(now == before)


_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Integers that compare as the bits of elements do: a NaN is what it was, and -0.0 is not 0.0."""


def same_array(now: Any, before: np.ndarray[Any, Any]) -> bool:
    """Whether an array of NumPy has the elements that it had, bit by bit."""
    if not isinstance(now, np.ndarray) or now.dtype != before.dtype or now.shape != before.shape:
        return False
    bits = _BITS.get(now.itemsize)
    if now.nbytes < 1 << 12 or bits is None or now.dtype.hasobject:
        return now.tobytes() == before.tobytes()
    return bool(np.array_equal(now.view(bits), before.view(bits)))


def detached(array: Any) -> Any:
    """An array of which one may ask where it is: of one of PyTorch's whose gradient is recorded, what it holds."""
    return array.detach() if getattr(array, "requires_grad", False) is True else array


def same_on_gpu(now: Any, before: Any) -> bool:
    """Whether an array on a GPU has the elements that it had, bit by bit; waits for the GPU."""
    if not is_on_gpu(now):
        return False
    now = on_gpu_viewed(detached(now))
    if now.dtype != before.dtype or now.shape != before.shape:
        return False
    bits = _BITS.get(now.itemsize)
    if bits is None or now.device.id != before.device.id:
        return same_array(now.get(), before.get())
    with now.device:
        return bool((now.view(bits) == before.view(bits)).all())
