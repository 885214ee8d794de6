"""What a function writes to places that it also finds things in: counts, lists that it appends to, tensors that it
replaces.

What is there is something else at each call, so it is no guard. Of tensors and arrays it is an input; numbers and lists
have stand-ins while the function is traced, which note what is done to them and cannot be read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tenon.runtime.reads.places import Place

INSTEAD = "make it a tensor, do that outside, or run it in pieces with tenon.trace(f, symbolic=False)"


class TraceError(TypeError):
    """A function does what a program cannot do again at each call; the message says what to write instead."""


class ChangeError(TraceError):
    """A function changes what is in a place in such a way; `place` is `None` for one in its arguments."""

    def __init__(self, said: str, rest: str, place: Place | None) -> None:
        super().__init__(said + rest)
        self._said, self._rest, self.place = said, rest, place

    def at(self, line: str) -> ChangeError:
        """The same with the line, behind what it says is changed."""
        return ChangeError(self._said + line, self._rest, self.place)


class DrawError(TraceError):
    """While a function is traced, numbers are drawn from generators of NumPy's or Python's, by whichever thread."""


Key = tuple[Any, ...]


def key_of(place: Place) -> Key:
    """What tells a place from others."""
    return id(place.container), place.key, *place.path


@dataclass
class Written:
    """Places that a function writes to, and lists that it appends to, as far as that is known."""

    places: dict[Key, Any] = field(default_factory=dict[Key, Any])
    """Containers, by their identity and the key that gets another tensor, number, or tree of these; and the path to a
    number in such a tree."""
    lists: dict[int, Any] = field(default_factory=dict[int, Any])
    """Lists and queues that grow."""
    draws: bool = False
    """Whether the function draws without a key, so that the state of that is an input."""
    shared: set[Key] = field(default_factory=set[Key])
    """Those of the places where something lies that the function has from elsewhere, too: these are guarded."""

    def has(self, place: Place) -> bool:
        """Whether a place gets something else at each call."""
        key = key_of(place)
        return key in self.places and key not in self.shared

    def add(self, place: Place) -> bool:
        """Note a place that gets something else; whether that is new."""
        key = key_of(place)
        is_new = key not in self.places
        self.places[key] = place.container
        return is_new


class WrittenAgain(Exception):
    """More is written to than was known when a trace began, which has to be made again."""


class _Unread:
    """What stands for something of a class that is not read."""

    __slots__ = ("_kind",)
    _kind: type

    @property
    def __class__(self) -> Any:
        return self._kind

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError(f"what stands for an object of {self._kind.__name__} stays one")

    def __getattr__(self, name: str) -> NoReturn:
        if name[:1] == "_":
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError


class Counted(_Unread):
    """A number in a place, with what was done to it: that is done at each call, to what is there then."""

    __slots__ = ("_steps", "place")

    def __init__(self, place: Place, kind: type, steps: tuple[Any, ...] = ()) -> None:
        self.place = place
        self._kind = kind
        self._steps = steps

    def replayed(self, number: Any) -> Any:
        """The number after what was done."""
        for step, other, is_first in self._steps:
            number = step(number, other) if is_first else step(other, number)
        return number

    def _then(self, step: Callable[[Any, Any], Any], other: Any, is_first: bool) -> Counted:
        if type(other) not in (int, float, bool):
            self._refuse()
        result = type(step(self._kind(1), other))
        return Counted(self.place, result, (*self._steps, (step, other, is_first)))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(f"the number in {self.place.name} is changed at each call, and is read here; {INSTEAD}")


class Growing(_Unread):
    """In the place of a list, or a queue, that a function appends to: what it appends."""

    __slots__ = ("_name", "items", "target")

    def __init__(self, target: Any, name: str) -> None:
        self._kind = type(target)
        self.target = target
        self.items: list[Any] = []
        self._name = name

    def append(self, item: Any) -> None:
        self.items.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        self.items.extend(items)

    def __iadd__(self, items: Iterable[Any]) -> Any:
        self.items.extend(items)
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(f"{self._name} is appended to at each call, and is read or changed otherwise here; {INSTEAD}")


def _arithmetic(name: str, step: Callable[[Any, Any], Any]) -> None:
    setattr(Counted, f"__{name}__", lambda self, other: self._then(step, other, True))
    setattr(Counted, f"__r{name}__", lambda self, other: self._then(step, other, False))


for _name, _step in [
    *[("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("truediv", operator.truediv)],
    *[("floordiv", operator.floordiv), ("pow", operator.pow)],
]:
    _arithmetic(_name, _step)
_READS = [
    *["bool", "eq", "ne", "lt", "le", "gt", "ge", "hash", "str", "repr", "format", "reduce_ex", "tenon_value", "array"],
    *["len", "iter", "reversed", "contains", "getitem", "setitem", "delitem", "copy", "deepcopy"],
]
for _name in _READS:
    for _kind in (Counted, Growing):
        setattr(_kind, f"__{_name}__", _kind._refuse)  # pyright: ignore[reportPrivateUsage]
_OF_BITS = ["and", "or", "xor", "lshift", "rshift"]
for _name in (
    *["mod", "rmod", "divmod", "rdivmod", "index", "int", "float", "complex", "neg", "pos", "abs", "invert"],
    *["round", "trunc", "floor", "ceil", *_OF_BITS, *[f"r{name}" for name in _OF_BITS]],
):
    setattr(Counted, f"__{_name}__", Counted._refuse)  # pyright: ignore[reportPrivateUsage]
for _name in ("add", "mul"):
    setattr(Growing, f"__{_name}__", Growing._refuse)  # pyright: ignore[reportPrivateUsage]

__all__ = ["INSTEAD", "ChangeError", "Counted", "Growing", "TraceError", "Written", "WrittenAgain", "key_of"]
