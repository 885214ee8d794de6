"""What a function may read besides its arguments: found in its code, its closure, and what these lead to.

Code is read, not run: names of globals, variables of closures, attributes that are asked for. What they lead to (other
functions, modules, optimizers, objects of users, containers) is walked through. What a function does not name, it is
taken not to read; of attributes of plain objects, numbers and texts count only if some function asks for their name.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import dis
import enum
import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from tenon.eager.changes import sharing
from tenon.eager.recording import Stored
from tenon.nn.module import Module
from tenon.runtime.evaluate import ArrayFunction
from tenon.runtime.jit import JitFunction
from tenon.traces.places import Holder, Place, named

_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "tenon", "xdsl", "torch", "jax", "ml_dtypes", "llvmlite"}
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum, slice, range)
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_DYNAMIC = frozenset(("getattr", "vars", "__dict__", "attrgetter", "hasattr"))
_CALLED = frozenset(("forward", "__call__"))


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES - {"__main__"}


class Reads:
    """What was found: where the guards are, tensors, data in places, and containers that may be changed."""

    def __init__(self) -> None:
        self.identities: list[tuple[Place, Any]] = []
        """Places, and the objects that were there."""
        self._constants: list[tuple[Place, Any, str | None]] = []
        self.arrays: list[tuple[Place, np.ndarray[Any, Any]]] = []
        """Arrays of NumPy whose elements count as they were."""
        self.lengths: list[tuple[Any, int]] = []
        self.collections: list[Any] = []
        """Sets and bytes that may change: what is in them counts as it was."""
        self.tensors: dict[int, tuple[Any, str]] = {}
        """Tensors and what they are called, by identity."""
        self.data: list[tuple[Place, Any, bool]] = []
        """Places whose arrays and numbers are inputs: buffers of modules, and, as values, the state of optimizers."""
        self.holders: dict[int, Holder] = {}
        self._variables: dict[tuple[int, str], Holder] = {}
        self.modules: list[Module] = []
        self.generators: list[np.random.Generator] = []
        self.objects: dict[int, Any] = {}
        self._names: set[str] = set()
        self._classes: list[type] = []
        self._codes: set[Any] = set()
        self._namespaces: list[tuple[types.ModuleType, str]] = []

    @property
    def constants(self) -> list[tuple[Place, Any]]:
        """Places, and the numbers and texts that were there."""
        is_dynamic = not self._names.isdisjoint(_DYNAMIC)
        return [(p, v) for p, v, name in self._constants if is_dynamic or name is None or name in self._names]

    @property
    def held(self) -> list[Holder]:
        """All containers and variables."""
        return [*self.holders.values(), *self._variables.values()]

    def add_function(self, function: Any) -> None:
        """Find what `function` reads, and what it is bound to."""
        self._visit(function, None, getattr(function, "__name__", type(function).__name__))
        self._settle()

    def add_argument(self, value: Any, name: str) -> None:
        """Find what can be reached from an argument that is no array."""
        self._visit(value, None, name)
        self._settle()

    def _settle(self) -> None:
        """Read the methods of classes met, which functions that are found ask for."""
        before = -1
        while before != len(self._names) + len(self._codes):
            before = len(self._names) + len(self._codes)
            for module, name in [*self._namespaces]:
                self._look_into(module, name)
            for kind in [*self._classes]:
                for name, member in [*vars(kind).items()]:
                    if name in self._names or name in _CALLED or (name[:2] == "__" and name != "__init__"):
                        self._visit_member(kind, name, member)

    def _visit_member(self, kind: type, name: str, member: Any) -> None:
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if isinstance(function, types.FunctionType):
            self._read_code(function)
        elif name[:2] != "__" and not callable(member) and not hasattr(member, "__get__"):
            self._visit(member, Place(kind, name, f"{kind.__name__}.{name}", is_attribute=True), name, attribute=name)

    def _visit(
        self, value: Any, place: Place | None, name: str, *, data: Any = None, attribute: str | None = None
    ) -> None:
        """Note what is in a place; `data` is the names of numbers that are inputs, in the state of Tenon's objects."""
        kind = type(value)
        is_data = (
            kind is np.ndarray
            or isinstance(value, np.generic)
            or (kind is float and place and place.key in (data or ()))
        )
        if data is not None and place is not None and is_data:
            self.data.append((place, value, bool(data)))
        elif isinstance(value, _CONSTANTS):
            if place is not None:
                self._constants.append((place, value, attribute))
        elif isinstance(value, np.ndarray):
            if place is not None:
                self.arrays.append((place, value))
        else:
            if place is not None:
                self.identities.append((place, value))
            if isinstance(value, Stored) and data == ():
                self.tensors[id(value)] = (value, name)  # what a module calls its parameters is what others know
            if id(value) not in self.objects:
                self.objects[id(value)] = value
                self._enter(value, name, data)

    def _enter(self, value: Any, name: str, data: Any) -> None:
        match value:
            case Stored():
                self._add_tensor(value, name)
            case types.FunctionType():
                self._read_code(value)
            case types.MethodType():
                self._visit(value.__func__, None, name)
                self._visit(value.__self__, None, "")
            case functools.partial():
                for number, part in enumerate((value.func, *value.args, *value.keywords.values())):
                    self._visit(part, None, named(name, number))
            case JitFunction():
                self._visit(value.function, None, name)
            case np.random.Generator():
                self.generators.append(value)
            case ArrayFunction() | types.BuiltinFunctionType() | np.ufunc():
                pass
            case type():
                self._add_class(value)
                for base in value.__mro__:  # which may be called
                    if isinstance(begin := vars(base).get("__init__"), types.FunctionType):
                        self._read_code(begin)
            case types.ModuleType():
                self._add_module(value, name)
            case dict() | list() | deque() | types.CellType():
                self._add_container(value, name, data)
            case bytearray():
                self.collections.append(value)
            case tuple() | set() | frozenset():
                if isinstance(value, set):
                    self.collections.append(value)
                for number, part in enumerate(value):
                    self._visit(part, _item(value, number, name), named(name, number))
            case _:
                self._add_object(value, name)

    def _add_tensor(self, tensor: Any, name: str) -> None:
        self.tensors.setdefault(id(tensor), (tensor, name))
        for held in (*(() if tensor._view is None else (tensor._view.base,)), *sharing(tensor)):
            if id(held) not in self.objects:
                self._visit(held, None, f"{name}.base")

    def _add_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if base not in self._classes and not _is_library(base.__module__):
                self._classes.append(base)

    def _add_module(self, module: types.ModuleType, name: str) -> None:
        if not _is_library(module.__name__):
            self._namespaces.append((module, name))

    def _look_into(self, module: types.ModuleType, name: str) -> None:
        found = vars(module)
        for key in sorted(self._names & found.keys()):
            self._add_variable(found, key, named(name, key))

    def _add_variable(self, variables: dict[str, Any], key: str, name: str) -> None:
        if (id(variables), key) not in self._variables:
            self._variables[id(variables), key] = _Variable(variables, key)
            self._visit(variables[key], Place(variables, key, name), name)

    def _add_container(self, value: Any, name: str, data: Any) -> None:
        holder = self.holders[id(value)] = Holder(value, name)
        if not isinstance(value, types.CellType):
            self.lengths.append((value, len(value)))
        for key, item in holder.before.items():
            self._visit(item, holder.place(key), named(name, key), data=data)

    def _add_object(self, value: Any, name: str) -> None:
        kind = type(value)
        self._add_class(kind)
        data = getattr(kind, "TRACED_NUMBERS", () if isinstance(value, Module) else None)
        if isinstance(value, Module):
            self.modules.append(value)
        elif _is_library(kind.__module__) and not kind.__module__.startswith("tenon.") and kind not in _NAMESPACES:
            return
        for slot in _slots(kind):
            if hasattr(value, slot):
                place = Place(value, slot, named(name, slot), is_attribute=True)
                self._visit(getattr(value, slot), place, named(name, slot), data=data)
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            return
        holder = self.holders[id(attributes)] = Holder(attributes, name)
        self.lengths.append((attributes, len(attributes)))
        buffers = value.buffer_names if isinstance(value, Module) else ()
        for key, item in holder.before.items():
            if key in buffers and isinstance(item, Stored) and item._source is None:
                self.data.append((holder.place(key), item, False))
            else:
                plain = None if data is not None else key
                self._visit(item, holder.place(key), named(name, key), data=data, attribute=plain)

    def _read_code(self, function: types.FunctionType) -> None:
        if function.__code__ in self._codes and not function.__closure__:
            return
        if _is_library(function.__module__):
            return
        self._codes.add(function.__code__)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if id(cell) not in self.objects:
                self.objects[id(cell)] = cell
                holder = self.holders[id(cell)] = Holder(cell, variable)
                if holder.before:
                    self._visit(holder.before[None], holder.place(None), variable)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(default, None, function.__name__)
        found = function.__globals__
        asked = [*_asked(function.__code__)]
        self._names |= {name for name, _ in asked}
        for name in dict.fromkeys(name for name, kind in asked if kind == "global" and name in found):
            self._add_variable(found, name, name)
        parents = [*accumulate((found.get("__package__") or "").split("."), "{}.{}".format)]
        for name in [name for name, kind in asked if kind == "module"]:
            # From which of the packages that this module is in a name is meant, its dots say, which are not kept here.
            for full in (name, *[f"{parent}.{name}".rstrip(".") for parent in parents]):
                if full in sys.modules:
                    self._add_module(sys.modules[full], name)


class _Variable(Holder):
    """One global variable."""

    def __init__(self, container: dict[str, Any], name: str) -> None:
        self._key = name
        super().__init__(container, "")

    def _content(self) -> dict[Any, Any]:
        return {self._key: self.container[self._key]} if self._key in self.container else {}

    def restore(self) -> None:
        self.container.update(self.before)


def _item(value: Any, number: int, name: str) -> Place | None:
    return Place(value, number, named(name, number)) if isinstance(value, tuple) else None


def _slots(kind: type) -> Iterator[str]:
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
def _asked(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """The names that code asks for, each with what it is the name of: a global variable, an attribute or a module."""
    found: dict[tuple[str, str], None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in _KINDS:
            found[instruction.argval, _KINDS[instruction.opname]] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= dict.fromkeys(_asked(constant))
    return tuple(found)


def reads_of(function: Callable[..., Any], arguments: list[tuple[Any, str]]) -> Reads:
    """What `function` may read, and what can be reached from those of its arguments that are no arrays."""
    reads = Reads()
    for value, name in arguments:
        reads.add_argument(value, name)
    reads.add_function(function)
    return reads
