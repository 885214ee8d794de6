"""What code asks for: names of variables, attributes and modules, as its instructions say."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any


def slots_of(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots: Any = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__"):
                yield f"_{base.__name__.lstrip('_')}{slot}" if slot[:2] == "__" and slot[-2:] != "__" else slot


_KINDS = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"), "global"),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"), "attribute"),
    "IMPORT_NAME": "module",
}


@functools.lru_cache(maxsize=1024)
def asked_of(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """The names that code asks for, each with what it is the name of: a global variable, an attribute or a module."""
    found: dict[tuple[str, str], None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in _KINDS:
            found[instruction.argval, _KINDS[instruction.opname]] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= dict.fromkeys(asked_of(constant))
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def asked_of_self(code: types.CodeType) -> frozenset[str]:
    """The attributes of its object that a method asks for, itself or in functions inside of it."""
    return frozenset(_asked_of_variable(code, code.co_varnames[0])) if code.co_varnames else frozenset()


def _asked_of_variable(code: types.CodeType, name: str) -> set[str]:
    found: set[str] = set()
    loaded = None
    for instruction in dis.get_instructions(code):
        if loaded is not None and loaded == name and _KINDS.get(instruction.opname) == "attribute":
            found.add(instruction.argval)
        is_load = instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF"))
        loaded = instruction.argval if is_load else None  # some load two variables
        loaded = loaded[-1] if isinstance(loaded, tuple) else loaded
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and name in constant.co_freevars:
            found |= _asked_of_variable(constant, name)
    return found


@functools.lru_cache(maxsize=1024)
def texts_of(code: types.CodeType) -> frozenset[str]:
    """The texts in code."""
    found = {constant for constant in code.co_consts if isinstance(constant, str)}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= texts_of(constant)
    return frozenset(found)
