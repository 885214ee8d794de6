"""What a function may read besides its arguments: found in its code, its closure, and what these lead to.

Code is read, not run: names of globals, variables of closures, attributes that are asked for. What they lead to (other
functions, modules, optimizers, objects of users, containers) is walked through. What a function does not name, it is
taken not to read; of attributes of plain objects, numbers and texts count only if some function asks for their name.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import array
import copyreg
import enum
import functools
import inspect
import sys
import types
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np

from tenon.dialects.support.plain_arrays import is_on_gpu, is_stored
from tenon.runtime.arguments.tree import Structure, is_node
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.reads.code import asked_of, asked_of_self, slots_of, texts_of
from tenon.runtime.reads.libraries import is_inner_class, is_library, is_library_class, is_own_class
from tenon.runtime.reads.places import Holder, OnePlace, Place, item_places, made_of, named, traced_numbers

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum, slice, range)
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_DEEPEST = 40
"""How many objects may hold one another before what they hold is looked into later, as Python's stack is finite."""
_DYNAMIC = frozenset(("getattr", "vars", "__dict__", "attrgetter", "hasattr"))
_CALLED = frozenset(("forward", "__call__"))


class Reads:
    """What was found: where the guards are, data in places, and containers that may be changed."""

    has_inputs = False
    """Whether the state of Tenon's own objects, such as buffers of modules, is given to the program at each call."""

    def __init__(self) -> None:
        self.identities: list[tuple[Place, Any]] = []
        """Places, and the objects that were there."""
        self.constants: list[tuple[Place, Any]] = []
        """Places, and the numbers and texts that were there."""
        self.arrays: list[tuple[Place | None, np.ndarray[Any, Any]]] = []
        """Arrays of NumPy whose elements count as they were, in places or in what cannot be another."""
        self.on_gpu: dict[int, tuple[Place | None, Any]] = {}
        """Arrays on a GPU, by identity, each in a place."""
        self.lengths: list[tuple[Any, int]] = []
        self.keys: list[tuple[dict[Any, Any], tuple[Any, ...]]] = []
        """Dicts, and their keys in order."""
        self.functions: list[tuple[types.FunctionType, tuple[Any, ...]]] = []
        """Functions, and what each is made of."""
        self.absent: list[Place] = []
        """Variables that had no value."""
        self.collections: list[Any] = []
        """Sets, and bytes and numbers that may change: what is in them counts as it was."""
        self.data: list[tuple[Place, Any, bool]] = []
        """Places whose arrays and numbers are inputs: buffers of modules, and, as values, the state of optimizers."""
        self.holders: dict[Any, Holder] = {}
        """What may be changed, as it was: by identity of containers, and, for attributes, of objects and by name."""
        self._variables: dict[tuple[int, str], Holder] = {}
        self.generators: list[np.random.Generator] = []
        self.objects: dict[int, Any] = {}
        self._names: set[str] = set()
        self._classes: list[type] = []
        self._members: set[tuple[int, str]] = set()
        self._namespaces: list[tuple[types.ModuleType, str]] = []
        self._bare: list[types.FunctionType] = []
        """Functions without attributes."""
        self._depth = 0
        self._deep: list[tuple[Any, str, Any]] = []
        """What was found too deep to be looked into at once."""
        self._unasked: list[tuple[Holder | None, Any, str, str]] = []
        """Attributes of plain objects for whose names no function has asked yet: where they are, the objects, names of
        the attributes and of the objects."""

    @property
    def held(self) -> list[Holder]:
        """All containers and variables."""
        return [*self.holders.values(), *self._variables.values()]

    def add_function(self, function: Any) -> None:
        """Find what `function` reads, what it is bound to, and what it asks of all that was added before."""
        self._visit(function, None, getattr(function, "__name__", type(function).__name__))
        self._settle()

    def add_argument(self, value: Any, name: str) -> None:
        """Find what can be reached from an argument that is no array."""
        self._visit(value, None, name)

    def add_structure(self, structure: Structure) -> None:
        """Find what methods of the nodes of an argument read, and what they hold that is no array."""
        if structure.kind is not None:
            self._add_class(structure.kind)
        held: Any = structure.static
        for value in held.values() if isinstance(held, dict) else () if held is None else (held,):
            self._visit(value, None, "")
        for child in structure.children:
            self.add_structure(child)

    def _settle(self) -> None:
        """Read the methods of classes met, and the attributes of objects, which functions that are found ask for."""
        before = -1
        while before != len(self._names) + len(self.objects):
            before = len(self._names) + len(self.objects)
            is_dynamic = not self._names.isdisjoint(_DYNAMIC)
            for module, name in [*self._namespaces]:
                self._look_into(module, name, is_whole=is_dynamic)
            for kind in [*self._classes]:
                for base in kind.__mro__:
                    if not is_library_class(base):
                        for name, member in [*vars(base).items()]:
                            self._look_at(kind, base, name, member)
            unasked, self._unasked = self._unasked, []
            for holder, value, key, name in unasked:
                if is_dynamic or key in self._names or key in self._asked_by_own(type(value)):
                    self._read_attribute(holder, value, key, name)
                else:
                    self._unasked.append((holder, value, key, name))
            if is_dynamic:
                self.lengths += [(vars(function), 0) for function in self._bare]
                self._bare.clear()

    def _asked_by_own(self, kind: type) -> set[str]:
        """What methods of a class of Tenon's own ask their object for, where something asks for these methods."""
        found, before = set[str](), -1
        members = [item for base in kind.__mro__ if is_own_class(base) for item in vars(base).items()]
        while before != len(found):
            before, asked = len(found), self._names | _CALLED | found
            for name, member in members:
                function = inspect.unwrap(getattr(member, "fget", member))
                if name in asked and isinstance(function, types.FunctionType):
                    found |= asked_of_self(function.__code__)
        return found

    def _look_at(self, kind: type, base: type, name: str, member: Any) -> None:
        """Read a member that objects of a class have from one of its bases, if it is asked for."""
        is_special = name[:2] == "__" and name[-2:] == "__"
        is_asked = name in self._names or name in _CALLED or (is_special and name != "__init__")
        if not is_asked or (id(kind), name) in self._members:
            return
        self._members.add((id(kind), name))
        text = f"{kind.__name__}.{name}"
        function = next(
            (f for part in ("__func__", "fget", "func") if (f := getattr(member, part, None)) is not None), member
        )
        if isinstance(function, types.FunctionType):
            if isinstance(member, types.FunctionType | staticmethod | property):
                self.identities.append((Place(kind, name, text, is_attribute=True), getattr(kind, name)))
            else:
                self.identities.append((Place(vars(base), name, text), member))
            self._read_code(function)
        elif not is_special and (
            callable(member) or (hasattr(member, "__get__") and not is_library_class(type(member)))
        ):
            self._visit(member, Place(vars(base), name, text), name)
        elif not is_special and not hasattr(member, "__get__"):
            place = Place(base, name, named(base.__name__, name), is_attribute=True)
            self.holders[id(base), name] = OnePlace(place)
            self._visit(member, place, name)

    def _visit(self, value: Any, place: Place | None, name: str, *, data: Any = None) -> None:
        """Note what is in a place; `data` is the names of numbers that are inputs, in the state of Tenon's objects."""
        kind = type(value)
        is_number = kind is float and place is not None and place.key in (data or ())
        is_data = is_number or isinstance(value, np.generic) or is_stored(value)
        if data is not None and place is not None and is_data:
            self.data.append((place, value, bool(data)))
        elif data and place is not None and place.key in data and (items := item_places(place, value)):
            self.data += [(item, item.get(), True) for item in items]
        elif isinstance(value, _CONSTANTS):
            if place is not None:
                self.constants.append((place, value))
        elif isinstance(value, np.ndarray):
            self.arrays.append((place, value))
        elif is_on_gpu(value):
            self.on_gpu.setdefault(id(value), (place, value))
            if place is not None:
                self.identities.append((place, value))
        else:
            if place is not None and not (isinstance(value, types.ModuleType) and is_library(value.__name__)):
                self.identities.append((place, value))
            if id(value) not in self.objects:
                self.objects[id(value)] = value
                if place is not None and not is_library_class(kind):  # arguments are not to be kept
                    self.identities.append((Place(value, "__class__", name, is_attribute=True), value.__class__))
                if self._depth >= _DEEPEST:
                    self._deep.append((value, name, data))
                    return
                self._depth += 1
                self._enter(value, name, data)
                self._depth -= 1
                while not self._depth and self._deep:
                    self._depth += 1
                    self._enter(*self._deep.pop(0))
                    self._depth -= 1

    def _enter(self, value: Any, name: str, data: Any) -> None:
        is_collection = isinstance(value, dict | list | tuple | set | frozenset | deque)
        if is_collection and not is_library_class(type(value)):
            self._add_object(value, name)  # besides its items, what the user's class says
        match value:
            case types.FunctionType():
                self._read_code(value)
                self._read_attributes_of(value)
            case types.MethodType():
                self._visit(value.__func__, None, name)
                self._visit(value.__self__, None, "")
            case functools.partial():
                for number, part in enumerate((value.func, *value.args)):
                    self._visit(part, None, named(name, number))
                self._visit(value.keywords, None, name)
            case NativeCalls():
                self._visit(getattr(value, "__wrapped__", None), None, name)
            case np.random.Generator():
                self.generators.append(value)
            case types.BuiltinFunctionType() | np.ufunc():
                pass
            case type():
                self._add_class(value)
                self._add_class(type(value))
                for base in value.__mro__:  # which may be called
                    if isinstance(begin := vars(base).get("__init__"), types.FunctionType):
                        self._read_code(begin)
            case types.ModuleType():
                self._add_module(value, name)
            case dict() | list() | deque() | types.CellType():
                self._add_container(value, name, data)
            case bytearray() | array.array() | memoryview():
                self.collections.append(value)
            case tuple() | set() | frozenset():
                if isinstance(value, set):
                    self.collections.append(value)
                for number, part in enumerate(value):
                    self._visit(part, _item(value, number, name), named(name, number))
            case _ if (elements := getattr(type(value), "__tenon_elements__", None)) is not None:  # counts as an array
                self._visit(getattr(value, elements), Place(value, elements, name, is_attribute=True), name)
            case _ if hasattr(type(value), "__tenon_value__"):  # a traced value, or what stands for one
                pass
            case _:
                self._add_object(value, name)

    def _add_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if base not in self._classes and not is_library_class(base):
                self._classes.append(base)
                # what the first copy of an instance would add to the class
                with suppress(Exception):  # of a metaclass
                    copyreg._slotnames(base)  # pyright: ignore[reportAttributeAccessIssue]
                self.lengths.append((vars(base), len(vars(base))))

    def _add_module(self, module: types.ModuleType, name: str) -> None:
        if not is_library(module.__name__):
            self._namespaces.append((module, name))

    def _look_into(self, module: types.ModuleType, name: str, *, is_whole: bool) -> None:
        found = vars(module)
        for key in sorted(found.keys() if is_whole else (self._names | {"__getattr__"}) & found.keys()):
            if key in self._names or key[:2] != "__" or key == "__getattr__":
                self._add_variable(found, key, named(name, key))

    def _add_variable(self, variables: dict[str, Any], key: str, name: str) -> None:
        if (id(variables), key) not in self._variables:
            self._variables[id(variables), key] = OnePlace(Place(variables, key, key))
            if key in variables:
                self._visit(variables[key], Place(variables, key, name), name)
            else:
                self.absent.append(Place(variables, key, name))

    def _add_container(self, value: Any, name: str, data: Any) -> None:
        is_cell = isinstance(value, types.CellType)
        holder = self.holders[id(value)] = OnePlace(Place(value, None, name)) if is_cell else Holder(value, name)
        if isinstance(value, dict):
            self.keys.append((value, tuple(value)))
        elif not is_cell:
            self.lengths.append((value, len(value)))
        for key, item in holder.before.items():
            self._visit(item, holder.place(key), named(name, key), data=data)

    def _add_object(self, value: Any, name: str) -> None:
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and "__wrapped__" in attributes:
            self._visit(attributes["__wrapped__"], None, name)
        self._add_class(kind)
        if is_inner_class(kind) or (is_library_class(kind) and kind not in _NAMESPACES and not is_own_class(kind)):
            return
        is_own = is_own_class(kind)
        # all of it is read, by whatever takes it apart, or is its state
        is_whole = is_node(kind) or (is_own and self.has_inputs)
        data = traced_numbers(value) if self.has_inputs else None
        for slot in slots_of(kind):
            place = Place(value, slot, named(name, slot), is_attribute=True)
            if not hasattr(value, slot):
                self.holders[id(value), slot] = OnePlace(place)
            elif is_whole:
                self._visit(getattr(value, slot), place, place.name, data=data)
            else:
                self._unasked.append((None, value, slot, name))
        if not isinstance(attributes, dict):
            return
        holder = self.holders[id(attributes)] = Holder(attributes, name)
        self.lengths.append((attributes, len(attributes)))
        for key, item in holder.before.items():
            if not is_whole:
                self._unasked.append((holder, value, key, name))
            elif not self._is_input(value, holder.place(key), item, data):
                self._visit(item, holder.place(key), named(name, key), data=data)

    def _is_input(self, owner: Any, place: Place, value: Any, data: Any) -> bool:
        """Whether what an object has in a place is given to the program at each call, and noted as such."""
        return False

    def _read_attribute(self, holder: Holder | None, owner: Any, key: str, name: str) -> None:
        """Note an attribute of a plain object; without a holder, it lies in a slot."""
        if holder is not None:
            self._visit(holder.before[key], holder.place(key), named(name, key))
        else:
            place = Place(owner, key, named(name, key), is_attribute=True)
            self.holders[id(owner), key] = OnePlace(place)
            self._visit(getattr(owner, key), place, place.name)

    def _read_code(self, function: types.FunctionType) -> None:
        if (id(function), "") in self._members:
            return
        self._members.add((id(function), ""))
        self.objects[id(function)] = function
        found = function.__globals__
        if is_library(found.get("__name__")):
            # what it does with what it was made for, as `grad` and decorators do
            for cell in function.__closure__ or ():
                with suppress(ValueError):
                    if callable(cell.cell_contents):
                        self._visit(cell.cell_contents, None, function.__name__)
            return
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if id(cell) not in self.objects:
                self.objects[id(cell)] = cell
                self._add_container(cell, variable, None)
                if not self.holders[id(cell)].before:
                    self.absent.append(Place(cell, None, variable))
        self._read_defaults(function)
        asked = [*asked_of(function.__code__)]
        self._names |= {name for name, _ in asked}
        variables = [name for name, kind in asked if kind == "global"]
        if "globals" in variables:
            variables += sorted(texts_of(function.__code__))
        for name in dict.fromkeys(variables):
            self._add_variable(found, name, name)
        parents = [*accumulate((found.get("__package__") or "").split("."), "{}.{}".format)]
        for name in [name for name, kind in asked if kind == "module"]:
            # From which of the packages that this module is in a name is meant, its dots say, which are not kept here.
            for full in (name, *[f"{parent}.{name}".rstrip(".") for parent in parents]):
                if full in sys.modules:
                    self._add_module(sys.modules[full], name)

    def _read_defaults(self, function: types.FunctionType) -> None:
        """Read the defaults of parameters, which may be replaced as attributes of the function, as its code may."""
        self.functions.append((function, made_of(function)))
        for default in function.__defaults__ or ():
            self._visit(default, None, function.__name__)
        for key, default in (function.__kwdefaults__ or {}).items():
            place = Place(function.__kwdefaults__, key, f"the default {key} of {function.__name__}")
            self._visit(default, place, function.__name__)

    def _read_attributes_of(self, function: types.FunctionType) -> None:
        """Note the attributes of a function of the user's."""
        attributes = vars(function)
        if is_library(function.__module__) or id(attributes) in self.holders:
            return
        holder = self.holders[id(attributes)] = Holder(attributes, function.__name__)
        if not attributes:
            self._bare.append(function)
            return
        self.lengths.append((attributes, len(attributes)))
        self._unasked += [(holder, function, key, function.__name__) for key in attributes if key != "__wrapped__"]


def _item(value: Any, number: int, name: str) -> Place | None:
    return Place(value, number, named(name, number)) if isinstance(value, tuple) else None


def found_in(reads: Reads, function: Callable[..., Any], arguments: list[tuple[Any, str]]) -> None:
    """Note what `function` may read, and what can be reached from those of its arguments that are no arrays."""
    for value, name in arguments:
        reads.add_argument(value, name)
    reads.add_function(function)
