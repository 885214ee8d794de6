"""Dataclasses that are quick to define are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import Any, ClassVar

import pytest

from tenon.dialects.support import dataclass as quick

DECORATORS = {"quick": quick.dataclass, "standard": dataclasses.dataclass}


def _classes(name: str) -> list[Any]:
    dataclass: Any = DECORATORS[name]

    @dataclass
    class Plain:
        a: int
        b: list[int] = field(default_factory=list)
        kinds: ClassVar[int] = 3

    @dataclass(frozen=True)
    class Frozen:
        a: int
        b: str = field(default="b", repr=False)
        c: float = field(default=2.0, compare=False)
        d: int = field(default=0, hash=False)

    @dataclass(frozen=True)
    class Derived(Frozen):
        b: str = "derived"
        e: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            object.__setattr__(self, "c", 7.0)

    @dataclass(frozen=True)
    class Wrote:
        a: int = field(init=False, default=5)

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "written"

    @dataclass(eq=False)
    class Alone:
        itself: Any = None

    @dataclass(frozen=True)
    class Empty:
        """Nothing."""

    return [Plain, Frozen, Derived, Wrote, Alone, Empty]


def _said(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def _about(kind: type, *arguments: Any) -> list[Any]:
    """What can be seen of a class and of what it makes of arguments."""
    made, again = (_said(lambda: kind(*arguments)) for _ in range(2))
    if isinstance(made, tuple):
        return [made]
    other, shown = object(), repr(made).replace(kind.__qualname__, "")
    fields = [(f.name, f.type, f.default, f.init, f.compare) for f in dataclasses.fields(kind)]
    hashed = _said(lambda: hash(made) == hash(again)) if kind.__hash__ is not object.__hash__ else None
    return [
        *(fields, kind.__match_args__, kind.__hash__ is None, shown, hashed, sorted(vars(made))),  # pyright: ignore
        *(made == again, made != again, made == other, made == made, vars(copy.deepcopy(made)) == vars(made)),
        _said(lambda: setattr(made, "a", 1)),
        _said(lambda: setattr(made, "another", 1)),
        _said(lambda: delattr(made, "a")),
        _said(lambda: repr(dataclasses.replace(made)).replace(kind.__qualname__, "")),  # pyright: ignore
        [(p.name, str(p.default), p.annotation) for p in inspect.signature(kind).parameters.values()],
    ]


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("arguments", [(), (1,), (1, "x"), (1, "x", 3.0, 4, (5,)), (1, 2, 3, 4, 5, 6)], ids=len)
def test_they_are_like_those_of_the_standard_library(place: int, arguments: tuple[Any, ...]) -> None:
    ours, theirs = (_about(_classes(name)[place], *arguments) for name in ("quick", "standard"))
    assert [str(x).replace("quick", "") for x in ours] == [str(x).replace("standard", "") for x in theirs]


def test_classes_of_both_inherit_from_each_other() -> None:
    (_, base, *_), (_, standard, *_) = _classes("quick"), _classes("standard")
    theirs: Any = dataclasses.make_dataclass("Theirs", [("e", int, 3)], bases=(base,), frozen=True)
    ours: Any = quick.dataclass(frozen=True)(type("Ours", (standard,), {"__annotations__": {"e": int}, "e": 3}))
    for made in (theirs(1), ours(1)):
        assert (made.a, made.b, made.c, made.e) == (1, "b", 2.0, 3)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.e = 4
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Plain", (base,), {}))


@quick.dataclass(frozen=True)
class _Held:
    content: Any


def test_they_are_pickled_and_shown_though_they_hold_themselves() -> None:
    assert pickle.loads(pickle.dumps(_Held((1, "x")))) == _Held((1, "x"))
    held: list[Any] = []
    held.append(_Held(held))
    assert repr(held) == "[_Held(content=[...])]"


def test_a_method_is_compiled_for_a_class_only() -> None:
    """What the standard library compiles for each class, it compiles once at most."""
    assert vars(_Held)["__setattr__"].__code__ is vars(_classes("quick")[1])["__setattr__"].__code__
