"""A module without parameters as a function of its inputs and of its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tenon.dialects.support.suggestion import did_you_mean
from tenon.nn.functional.activations import in_place
from tenon.nn.module import Module

_FORMER = ("size_average", "reduce")
"""Arguments of PyTorch's whose meaning `reduction` has."""


@lru_cache(maxsize=1024)
def _made(cls: type[Module], settings: tuple[tuple[str, Any], ...]) -> Module:
    return cls(**dict(settings))


def _module(cls: type[Module], settings: dict[str, Any]) -> Module:
    """A module with these settings, one for all calls where they are no arrays."""
    key = tuple(settings.items())
    try:
        hash(key)
    except TypeError:
        return cls(**settings)
    return _made(cls, key)


def of_module(
    name: str, cls: type[Module], inputs: Sequence[str] = ("input",), order: Sequence[str] | None = None
) -> Callable[..., Any]:
    """The function `name(*inputs, *settings)` that a module of `cls` with these settings is. The settings are in the
    `order` that PyTorch's function has, which is that of its module unless it is said here."""
    count, known = len(inputs), [*inspect.signature(cls).parameters]
    names = (*inputs, *(known if order is None else order))

    def function(*args: Any, **settings: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name}: takes at most {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        for known_as, value in zip(names[count:], args[count:], strict=False):
            if known_as in settings:
                raise TypeError(f"{name}: argument {known_as!r} is given twice")
            settings[known_as] = value
        given = [*args[:count]]
        for known_as in inputs[len(given) :]:
            if known_as not in settings:
                raise TypeError(f"{name}: argument {known_as!r} is missing")
            given.append(settings.pop(known_as))
        replaces = settings.pop("inplace", False)
        for given_as in [*settings]:
            if given_as not in known:
                _leave_out(name, given_as, settings, known)
        result = _module(cls, settings)(*given)
        return in_place(given[0], result, name) if replaces else result

    function.__name__ = function.__qualname__ = name
    function.__module__ = "tenon.nn.functional"
    function.__doc__ = f"`nn.{cls.__name__}` as a function of {', '.join(inputs)}, and then of its settings."
    return function


def _leave_out(name: str, given: str, settings: dict[str, Any], known: Sequence[str]) -> None:
    """Take a setting away that means nothing; raises `TypeError` for one that would."""
    if given not in _FORMER:
        arguments = ", ".join(known) or "none"
        raise TypeError(f"{name}: there is no argument {given!r} (arguments: {arguments}){did_you_mean(given, known)}")
    if settings.pop(given) is not None:
        raise TypeError(f"{name}: {given} is a former argument; write reduction='mean', 'sum' or 'none'")
