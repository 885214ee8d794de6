"""Places where a function finds what it reads: items of containers, attributes of objects, variables of closures."""

from __future__ import annotations

import functools
import operator
from collections.abc import MutableMapping, MutableSequence
from dataclasses import dataclass, replace
from types import CellType, FunctionType
from typing import Any

from tenon.runtime.arguments.tree import like_sequence

GONE = (KeyError, IndexError, AttributeError, ValueError, TypeError)
"""What is raised where a place is not there any more."""
MISSING = object()
"""What is in a place that is not there."""


@dataclass(frozen=True, eq=False)
class Place:
    """`container[key]`, an attribute `key` of an object, or what a cell holds; `name` is as errors say it.

    With a `path` of keys, what is at its end in the tuple, list or dict that is there; another one is put there when
    that is set.
    """

    container: Any
    key: Any
    name: str
    is_attribute: bool = False
    path: tuple[Any, ...] = ()

    def is_at(self, container: Any, key: Any) -> bool:
        """Whether this is the place of that key in that very container."""
        return self.container is container and self.key == key

    def item(self, key: Any) -> Place:
        """The place of an item of what is here."""
        return replace(self, name=named(self.name, key), path=(*self.path, key))

    def get(self) -> Any:
        return functools.reduce(operator.getitem, self.path, self.whole())

    def found(self) -> Any:
        """What is here; `MISSING` for nothing."""
        try:
            return self.get()
        except GONE:
            return MISSING

    def whole(self) -> Any:
        """What the path begins in."""
        if isinstance(self.container, CellType):
            return self.container.cell_contents
        return getattr(self.container, self.key) if self.is_attribute else self.container[self.key]

    def set(self, value: Any) -> None:
        if self.path:
            value = _replaced(self.whole(), self.path, value)
        if isinstance(self.container, CellType):
            self.container.cell_contents = value
        elif self.is_attribute:
            setter = type.__setattr__ if isinstance(self.container, type) else object.__setattr__
            setter(self.container, self.key, value)
        else:
            self.container[self.key] = value

    def clear(self) -> None:
        """Have nothing be here."""
        if isinstance(self.container, CellType):
            del self.container.cell_contents
        elif self.is_attribute:
            delattr(self.container, self.key)
        else:
            del self.container[self.key]

    def expression(self, container: str, key: str) -> str:
        """Code that reads the place, for names that the container and the key have there."""
        path = "".join([f"[{step!r}]" for step in self.path])
        if isinstance(self.container, CellType):
            return f"{container}.cell_contents{path}"
        return f"getattr({container}, {key}){path}" if self.is_attribute else f"{container}[{key}]{path}"


def _replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a tree with another value at the end of a path."""
    if not path:
        return value
    items = dict(tree) if isinstance(tree, dict) else [*tree]
    items[path[0]] = _replaced(items[path[0]], path[1:], value)
    return items if isinstance(items, dict) else like_sequence(type(tree), items)


def traced_numbers(value: Any) -> tuple[str, ...] | None:
    """The names of the numbers that a traced function takes as inputs, of the state of an object of Tenon's; `None` of
    others."""
    names = getattr(type(value), "__tenon_numbers__", None)
    return None if names is None else names(value)


def item_places(place: Place, value: Any) -> list[Place]:
    """The places of the items of what is in a place, if that is a tuple of floats; of anything else, none."""
    if type(value) is not tuple or any(type(item) is not float for item in value):
        return []
    return [place.item(index) for index in range(len(value))]


class Holder:
    """A container that the function may change, as it was before."""

    def __init__(self, container: Any, name: str) -> None:
        self.container = container
        self.name = name
        self.before = self._content()

    def _content(self) -> dict[Any, Any]:
        held = self.container
        return dict(held) if isinstance(held, MutableMapping) else dict(enumerate(held))

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """The keys whose values are others now, with what was there and what is; `MISSING` for nothing."""
        now = self._content()
        keys = [*self.before, *[key for key in now if key not in self.before]]
        found = [(key, self.before.get(key, MISSING), now.get(key, MISSING)) for key in keys]
        return [(key, old, new) for key, old, new in found if old is not new]

    def restore(self) -> None:
        """Give the container back what it held."""
        held: Any = self.container
        if isinstance(held, MutableMapping):
            for key in [key for key in held if key not in self.before]:
                del held[key]
            for key, value in self.before.items():
                if key not in held or held[key] is not value:
                    held[key] = value
        elif isinstance(held, MutableSequence):
            held.clear()
            held.extend(self.before.values())

    def place(self, key: Any) -> Place:
        """The place of one of its values."""
        return Place(self.container, key, named(self.name, key))


class OnePlace(Holder):
    """One place: a global variable, the variable of a closure, an attribute of a class or one in a slot."""

    def __init__(self, place: Place) -> None:
        self._place = place
        super().__init__(place.container, place.name)

    def _content(self) -> dict[Any, Any]:
        found = self._place.found()
        return {} if found is MISSING else {self._place.key: found}

    def restore(self) -> None:
        for _, old, _ in self.changes():
            if old is MISSING:
                self._place.clear()
            else:
                self._place.set(old)

    def place(self, key: Any) -> Place:
        return self._place


def made_of(function: FunctionType) -> tuple[Any, ...]:
    """What of a function may be replaced: its code, and the defaults of its parameters."""
    return function.__code__, function.__defaults__, function.__kwdefaults__


def named(name: str, key: Any) -> str:
    """How a part is called."""
    return name if key is None else f"{name}.{key}" if name else str(key)
