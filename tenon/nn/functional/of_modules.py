"""A module without parameters as a function of its inputs and of its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tenon.nn.module import Module


@lru_cache(maxsize=1024)
def _made(cls: type[Module], args: tuple[Any, ...], settings: tuple[tuple[str, Any], ...]) -> Module:
    return cls(*args, **dict(settings))


def _module(cls: type[Module], args: tuple[Any, ...], settings: dict[str, Any]) -> Module:
    """A module with these settings, one for all calls where they are no arrays."""
    settings.pop("inplace", None)
    key = args, tuple(settings.items())
    try:
        hash(key)
    except TypeError:
        return cls(*args, **settings)
    return _made(cls, *key)


def of_module(name: str, cls: type[Module], inputs: Sequence[str] = ("input",)) -> Callable[..., Any]:
    """The function `name(*inputs, *settings)` that a module of `cls` with these settings is."""
    count = len(inputs)

    def function(*args: Any, **settings: Any) -> Any:
        given = [*args[:count]]
        for known in inputs[len(given) :]:
            if known not in settings:
                raise TypeError(f"{name}: argument {known!r} is missing")
            given.append(settings.pop(known))
        return _module(cls, args[count:], settings)(*given)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "tenon.nn.functional"
    function.__doc__ = f"`nn.{cls.__name__}` as a function of {', '.join(inputs)}, and then of its settings."
    return function
