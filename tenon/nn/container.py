"""Modules made of others, lists and dicts of modules and of parameters, and those that only reshape what they get."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import tenon
from tenon.eager.tensor import Parameter, Tensor
from tenon.nn.module import Array, Module, text_of


class _Named(Module):
    """What it holds are attributes, called as `names` says: in order, whatever becomes of it in a trace."""

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] = ()

    def _put(self, name: str, item: Any) -> None:
        item = self._checked(item)
        if name not in self.names:
            if not name or "." in name or hasattr(self, name):
                raise KeyError(f"{type(self).__name__}: an item cannot be called {name!r}; choose another name")
            self.names = (*self.names, name)
        setattr(self, name, item)

    def _checked(self, item: Any) -> Any:
        return item

    def _take(self, name: str) -> Any:
        item = getattr(self, name)
        self.names = tuple([known for known in self.names if known != name])
        delattr(self, name)
        return item

    def register_module(self, name: str, module: Any) -> None:
        """Add an item called `name`, or replace it."""
        self._put(name, module)

    add_module = register_module

    def _items(self) -> list[Any]:
        return [getattr(self, name) for name in self.names]

    def __len__(self) -> int:
        return len(self.names)

    def extra_repr(self) -> str:
        return ""


class _List(_Named):
    """Items called by their numbers."""

    def append(self, item: Any) -> Self:
        """Add an item at the end."""
        self._put(str(len(self)), item)
        return self

    def extend(self, items: Iterable[Any]) -> Self:
        """Add items at the end."""
        for item in items:
            self.append(item)
        return self

    def insert(self, index: int, item: Any) -> Self:
        """Add an item before the one at `index`."""
        items = self._items()
        items.insert(index, item)
        self._replace(items)
        return self

    def pop(self, index: int = -1) -> Any:
        """Take an item out, and give it."""
        items = self._items()
        item = items.pop(index)
        self._replace(items)
        return item

    def _replace(self, items: list[Any]) -> None:
        for name in self.names:
            self._take(name)
        self.extend(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self._items()[index]
        return type(self)(self._items()[index])  # pyright: ignore[reportCallIssue]

    def __setitem__(self, index: int, item: Any) -> None:
        self._put(self.names[index], item)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._replace(items)

    def __iadd__(self, items: Iterable[Any]) -> Self:
        return self.extend(items)


class Sequential(_List):
    """Modules and functions applied one after the other; parameters are called after their number (`0.weight`), or
    after names if a dict is given.
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            for name, layer in layers[0].items():  # pyright: ignore[reportUnknownVariableType]
                self._put(name, layer)
        else:
            self.extend(layers)

    def _checked(self, item: Any) -> Any:
        if not callable(item):
            raise TypeError(
                f"Sequential: layer {len(self)} is a {type(item).__name__}, which cannot be called; "
                "give the layers one by one"
            )
        return item

    @property
    def layers(self) -> list[Any]:
        """What is applied, in order."""
        return self._items()

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self._items()[index]
        return type(self)({name: getattr(self, name) for name in self.names[index]})

    def forward(self, x: Array) -> Array:
        for layer in self._items():
            x = layer(x)
        return x


def _module(owner: Module, item: Any) -> Any:
    if item is not None and not isinstance(item, Module):
        raise TypeError(f"{type(owner).__name__}: a {type(item).__name__} is no module")
    return item


class ModuleList(_List):
    """Modules in order, called by their numbers; it cannot be called itself."""

    def __repr__(self) -> str:
        """As of other modules, but that neighbours of the same text are shown once."""
        runs: list[tuple[int, list[int]]] = []
        texts = [repr(module) for module in self]
        for number, text in enumerate(texts):
            if runs and texts[runs[-1][0]] == text:
                runs[-1][1].append(number)
            else:
                runs.append((number, [number]))
        below = [
            f"({first}): {texts[first]}" if len(run) == 1 else f"({first}-{run[-1]}): {len(run)} x {texts[first]}"
            for first, run in runs
        ]
        return text_of(type(self).__name__, "", below)

    def __init__(self, modules: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _checked(self, item: Any) -> Any:
        return _module(self, item)


def _parameter(item: Any) -> Any:
    """What a list or a dict of parameters holds of what it is given: of a tensor, a parameter."""
    return Parameter(item) if isinstance(item, Tensor) and not isinstance(item, Parameter) else item


class ParameterList(_List):
    """Arrays in order, called by their numbers; of a tensor, a parameter with its elements."""

    def _checked(self, item: Any) -> Any:
        return _parameter(item)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(values)


class _Dict(_Named):
    """Items by name, in order."""

    def __init__(self, items: Any = None) -> None:
        super().__init__()
        self.update({} if items is None else items)

    def update(self, items: Any) -> None:
        """Add items, or replace those of the same names: a dict, or pairs."""
        for name, item in items.items() if hasattr(items, "items") else items:
            self._put(name, item)

    def __setitem__(self, name: str, item: Any) -> None:
        self._put(name, item)

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return getattr(self, name)

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def pop(self, name: str) -> Any:
        """Take an item out, and give it."""
        if name not in self.names:
            raise KeyError(name)
        return self._take(name)

    def clear(self) -> None:
        """Take all items out."""
        for name in self.names:
            self._take(name)

    def keys(self) -> list[str]:
        """The names, in order."""
        return [*self.names]

    def values(self) -> list[Any]:
        """The items, in order."""
        return self._items()

    def items(self) -> list[tuple[str, Any]]:
        """Names and items, in order."""
        return list(zip(self.names, self._items(), strict=True))


class ModuleDict(_Dict):
    """Modules by name, in order; it cannot be called itself."""

    def _checked(self, item: Any) -> Any:
        return _module(self, item)


class ParameterDict(_Dict):
    """Arrays by name, in order; of a tensor, a parameter with its elements."""

    def _checked(self, item: Any) -> Any:
        return _parameter(item)


class Identity(Module):
    """What it is given, unchanged; arguments are taken, and mean nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, x: Array) -> Array:
        return x


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` (both included) made one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Array) -> Array:
        shape = tuple(x.shape)
        first, last = (axis + len(shape) if axis < 0 else axis for axis in (self.start_dim, self.end_dim))
        if not 0 <= first <= last < len(shape):
            raise ValueError(f"Flatten: axes {self.start_dim} to {self.end_dim} do not name a range of shape {shape}")
        return tenon.reshape(x, shape=(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


class Unflatten(Module):
    """The axis `dim` made several, of sizes `unflattened_size`, of which one may be -1."""

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Array) -> Array:
        shape, axis = tuple(x.shape), self.dim + (len(x.shape) if self.dim < 0 else 0)
        if not 0 <= axis < len(shape):
            raise ValueError(f"Unflatten: x has shape {shape}, and no axis {self.dim}")
        return tenon.reshape(x, shape=(*shape[:axis], *self.unflattened_size, *shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


__all__ = [
    "Flatten",
    "Identity",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "Unflatten",
]
