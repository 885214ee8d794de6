"""Whether what a program was traced from is still there: checks that are written out as code, since every call makes
them.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from tenon.eager.recording import Stored
from tenon.traces.places import Place
from tenon.traces.reads import Reads

_GONE = (KeyError, IndexError, AttributeError, ValueError, TypeError)


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
    """What must hold for a program to be run."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, str]] = []
        self._names = Names()

    def add_reads(self, reads: Reads, captured: Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        """Have what a function may read the same as it is now."""
        of, read = self._names.of, self._names.read
        for place, value in reads.identities:
            self._checks.append((place.name, f"{read(place)} is {of(value)}"))
        for place, value in reads.constants:
            self._checks.append(
                (place.name, f"({read(place)} is {of(value)} or {of(same)}({read(place)}, {of(value)}))")
            )
        for collection in reads.collections:
            self._checks.append(("what is held", f"{of(collection)} == {of(copy(collection))}"))
        for container, length in reads.lengths:
            self._checks.append(("the number of items", f"len({of(container)}) == {length}"))
        for place, array in reads.arrays:
            kept = array.copy()
            self._checks.append((place.name, f"{of(same_array)}({read(place)}, {of(kept)})"))
        for array, kept in captured:
            self._checks.append(("an array", f"{of(same_array)}({of(array)}, {of(kept)})"))

    def add_tensor(self, tensor: Any, name: str) -> None:
        """Have a tensor of the type that it has, and of the same part in gradients."""
        t, array = self._names.of(tensor), tensor._array
        shape, dtype = self._names.of(array.shape), self._names.of(array.dtype)
        kind = "is" if tensor._source is None else "is not"
        self._checks.append(
            (name, f"{t}._array.shape == {shape} and {t}._array.dtype == {dtype} and {t}._source {kind} None")
        )

    def add_data(self, place: Place, value: Any) -> None:
        """Have an array or a number of the same type in a place."""
        if type(value) is float:
            self._checks.append((place.name, f"type({self._names.read(place)}) is float"))
            return
        array = value._array if isinstance(value, Stored) else value
        of = self._names.of
        self._checks.append(
            (place.name, f"{of(fits)}({self._names.read(place)}, {of(array.shape)}, {of(array.dtype)})")
        )

    def add_gradient(self, tensor: Any, gradient: Any, name: str) -> None:
        """Have a gradient, or none."""
        t, of = self._names.of(tensor), self._names.of
        if gradient is None:
            self._checks.append((name, f"{t}._grad is None"))
        else:
            self._checks.append((name, f"{of(fits)}({t}._grad, {of(gradient.shape)}, {of(gradient.dtype)})"))

    def finish(self) -> None:
        """Make one function of all checks."""
        self._check = self._names.function(" and ".join([check for _, check in self._checks]) or "True")

    def hold(self) -> bool:
        """Whether everything is as it was."""
        try:
            return bool(self._check())
        except _GONE:
            return False

    def broken(self) -> str:
        """What is not as it was."""
        for name, check in self._checks:
            try:
                if not self._names.function(check)():
                    return name
            except _GONE:
                return name
        return "nothing"


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


def fits(value: Any, shape: Any, dtype: Any) -> bool:
    """Whether a value is an array, or a tensor of no gradient, of this type."""
    array = value._array if isinstance(value, Stored) else value
    return (
        isinstance(array, np.ndarray | np.generic)
        and array.shape == shape
        and array.dtype == dtype
        and (array is value or value._source is None)
    )
