"""Places where a function finds what it reads: items of containers, attributes of objects, variables of closures."""

from __future__ import annotations

import functools
import operator
from collections.abc import MutableMapping, MutableSequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any


@dataclass(frozen=True, eq=False)
class Place:
    """`container[key]`, an attribute `key` of an object, or what a cell holds; `name` is as errors say it."""

    container: Any
    key: Any
    name: str
    is_attribute: bool = False

    def is_at(self, container: Any, key: Any) -> bool:
        """Whether this is the place of that key in that very container."""
        return self.container is container and self.key == key

    def get(self) -> Any:
        if isinstance(self.container, CellType):
            return self.container.cell_contents
        return getattr(self.container, self.key) if self.is_attribute else self.container[self.key]

    def set(self, value: Any) -> None:
        if isinstance(self.container, CellType):
            self.container.cell_contents = value
        elif self.is_attribute:
            setter = type.__setattr__ if isinstance(self.container, type) else object.__setattr__
            setter(self.container, self.key, value)
        else:
            self.container[self.key] = value

    def expression(self, container: str, key: str) -> str:
        """Code that reads the place, for names that the container and the key have there."""
        if isinstance(self.container, CellType):
            return f"{container}.cell_contents"
        return f"getattr({container}, {key})" if self.is_attribute else f"{container}[{key}]"


@dataclass(frozen=True, eq=False)
class ItemPlace(Place):
    """What is at the end of a `path` of keys in a tuple, list or dict that is in a place, which gets another one when
    that is set."""

    path: tuple[int | str, ...] = ()

    def whole(self) -> Any:
        """What is in the place."""
        return super().get()

    def get(self) -> Any:
        return functools.reduce(operator.getitem, self.path, self.whole())

    def set(self, value: Any) -> None:
        super().set(_replaced(self.whole(), self.path, value))

    def expression(self, container: str, key: str) -> str:
        return super().expression(container, key) + "".join([f"[{step!r}]" for step in self.path])


def _replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a tree with another value at the end of a path."""
    if not path:
        return value
    items = dict(tree) if isinstance(tree, dict) else [*tree]
    items[path[0]] = _replaced(items[path[0]], path[1:], value)
    if isinstance(tree, tuple):
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    return items


def traced_numbers(value: Any) -> tuple[str, ...] | None:
    """The names of the numbers that a traced function takes as inputs, of the state of an object of Tenon's; `None` of
    others."""
    names = getattr(type(value), "__tenon_numbers__", None)
    return None if names is None else names(value)


def item_places(place: Place, value: Any) -> list[ItemPlace]:
    """The places of the items of what is in a place, if that is a tuple of floats; of anything else, none."""
    if type(value) is not tuple or any(type(item) is not float for item in value):
        return []
    names = [named(place.name, index) for index in range(len(value))]
    return [ItemPlace(place.container, place.key, name, place.is_attribute, (i,)) for i, name in enumerate(names)]


class Holder:
    """A container that the function may change, as it was before."""

    def __init__(self, container: Any, name: str) -> None:
        self.container = container
        self.name = name
        self.before = self._content()

    def _content(self) -> dict[Any, Any]:
        held = self.container
        if isinstance(held, CellType):
            try:
                return {None: held.cell_contents}
            except ValueError:
                return {}
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
        if isinstance(held, CellType):
            if self.before:
                held.cell_contents = self.before[None]
        elif isinstance(held, MutableMapping):
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


class Variable(Holder):
    """One global variable."""

    def __init__(self, container: dict[str, Any], name: str) -> None:
        self._key = name
        super().__init__(container, "")

    def _content(self) -> dict[Any, Any]:
        return {self._key: self.container[self._key]} if self._key in self.container else {}

    def restore(self) -> None:
        if not self.before:
            self.container.pop(self._key, None)
        self.container.update(self.before)


class Attribute(Holder):
    """One attribute of a class, or of an object that has it in a slot."""

    def __init__(self, container: Any, key: str, name: str) -> None:
        self._key = key
        super().__init__(container, name)

    def _content(self) -> dict[Any, Any]:
        found = getattr(self.container, self._key, MISSING)
        return {} if found is MISSING else {self._key: found}

    def restore(self) -> None:
        if self.changes() and self.before:
            self.place(self._key).set(self.before[self._key])
        elif self.changes():
            delattr(self.container, self._key)

    def place(self, key: Any) -> Place:
        return Place(self.container, key, named(self.name, key), is_attribute=True)


MISSING = object()
"""What is in a place that is not there."""


def made_of(function: FunctionType) -> tuple[Any, ...]:
    """What of a function may be replaced: its code, and the defaults of its parameters."""
    return function.__code__, function.__defaults__, function.__kwdefaults__


def named(name: str, key: Any) -> str:
    """How a part is called."""
    return name if key is None else f"{name}.{key}" if name else str(key)
