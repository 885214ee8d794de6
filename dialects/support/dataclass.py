"""`dataclasses.dataclass` as a decorator that takes a quarter of the time; what it makes of a class is the same.

Before Python 3.13 the standard library compiles each method of each class from a text of its own: for what a first
program needs of Tenon that takes 50 ms, as long as all passes on it. Here `__init__` is compiled with the class, what
compares when it is first called; all else does by the names of the fields what it does there. Classes with `__slots__`
are left to the standard library, and what that has besides, such as fields for keywords alone, is not for this one.
"""

from __future__ import annotations

import dataclasses
from inspect import get_annotations
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Factory:
    """The default of arguments whose field has a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


_UNSET = _Factory()


def _initialization(kind: type, fields: tuple[dataclasses.Field[Any], ...], is_frozen: bool) -> Any:
    names: dict[str, Any] = {"__name__": kind.__module__, "_unset": _UNSET, "_set": object.__setattr__}
    parameters, lines = list[str](), list[str]()
    for field in fields:
        name = value = field.name
        is_made = field.default_factory is not dataclasses.MISSING
        if is_made:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _unset else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            continue
        if field.init:
            has_default = field.default is not dataclasses.MISSING
            names[f"_default_{name}"] = field.default
            default = "=_unset" if is_made else f"=_default_{name}" if has_default else ""
            parameters.append(f"{name}{default}")
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(['self', *parameters])}):\n {body}", names)
    made = names["__init__"]
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made


def _comparisons(kind: Any, fields: tuple[dataclasses.Field[Any], ...], is_frozen: bool) -> dict[str, Any]:
    compared = [field.name for field in fields if field.compare]
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    left, right = (f"({''.join([f'{place}.{name}, ' for name in compared])})" for place in ("self", "other"))
    equal = f"{left} == {right} if other.__class__ is self.__class__ else NotImplemented"
    key = f"({''.join([f'self.{name}, ' for name in hashed])})"
    return {
        "__eq__": _compiled_when_called(kind, "__eq__", f"lambda self, other: {equal}"),
        "__hash__": _compiled_when_called(kind, "__hash__", f"lambda self: hash({key})") if is_frozen else None,
    }


def _compiled_when_called(kind: Any, name: str, text: str) -> Any:
    """A method that is compiled when it is called first; most are never called."""

    def method(*operands: Any) -> Any:
        made = eval(text, {"__name__": kind.__module__})
        made.__name__, made.__qualname__ = name, method.__qualname__
        setattr(kind, name, made)
        return made(*operands)

    method.__name__ = name
    return method


def _representation(fields: tuple[dataclasses.Field[Any], ...]) -> dict[str, Any]:
    names = [field.name for field in fields if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({shown})"

    return {"__repr__": __repr__}


def _freezing(kind: type, fields: tuple[dataclasses.Field[Any], ...]) -> dict[str, Any]:
    names = frozenset([field.name for field in fields])

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


_FIELDS = "__dataclass_fields__"


def _sample(is_frozen: bool) -> Any:
    return dataclasses.dataclass(init=False, repr=False, eq=False, frozen=is_frozen)(type("sample", (), {}))


_PARAMETERS = {is_frozen: vars(_sample(is_frozen))["__dataclass_params__"] for is_frozen in (False, True)}
"""What a class says of how it was defined, which those of the standard library ask that inherit from it."""


def _take_fields(kind: Any) -> None:
    """Give a class its fields, those that it inherits as well. The standard library tells what its own are of a class
    that has nothing else: of one that inherits from one that is frozen it would compile methods."""
    annotations = get_annotations(kind)
    own = {name: given for name, given in vars(kind).items() if name in annotations}
    plain: Any = type(kind.__name__, (), {**own, "__annotations__": annotations, "__doc__": "fields"})
    plain.__module__ = kind.__module__
    dataclasses.dataclass(init=False, repr=False, eq=False)(plain)
    for name in own:
        if name in vars(plain):
            setattr(kind, name, vars(plain)[name])
        else:
            delattr(kind, name)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(kind.__mro__[1:]):
        fields |= vars(base).get(_FIELDS, {})
    setattr(kind, _FIELDS, fields | vars(plain)[_FIELDS])


def _defined(kind: Any, is_frozen: bool, has_eq: bool) -> Any:
    written = frozenset([name for name, given in vars(kind).items() if given is not None])
    _take_fields(kind)
    kind.__dataclass_params__ = _PARAMETERS[is_frozen]
    fields = dataclasses.fields(kind)
    kind.__match_args__ = tuple([field.name for field in fields if field.init])
    methods = {"__init__": _initialization(kind, fields, is_frozen), **_representation(fields)}
    if has_eq:
        methods |= _comparisons(kind, fields, is_frozen)
    if is_frozen:
        methods |= _freezing(kind, fields)
    for name, method in methods.items():
        if name not in written:
            if method is not None:
                method.__qualname__ = f"{kind.__qualname__}.{name}"
            setattr(kind, name, method)
    return kind


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind=None, /, *, frozen=False, eq=True, slots=False):
        """What `dataclasses.dataclass` makes of a class; see the module."""
        if slots:
            return dataclasses.dataclass(kind, frozen=frozen, eq=eq, slots=True)
        if kind is None:
            return lambda kind: _defined(kind, frozen, eq)
        return _defined(kind, frozen, eq)
