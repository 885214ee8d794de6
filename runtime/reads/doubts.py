"""What functions read that are traced for one call, and what tells one call from others.

Where a program is to serve another call, nothing may be another one that is not compared, and nothing may be left
undone: a function that asks for what guards leave alone (the time, a file, an iterator, a draw of NumPy's) or that does
something besides computing (a print) is in doubt, and is traced again.
"""

from __future__ import annotations

import array
import builtins
import functools
import inspect
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from tenon.dialects.support.plain_arrays import elements_of, is_on_gpu
from tenon.runtime.arguments.tree import static_key
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.reads.code import asked_of
from tenon.runtime.reads.libraries import is_library, is_library_class
from tenon.runtime.reads.places import Place, named
from tenon.runtime.reads.reads import Reads

_LARGE = 1 << 26
"""Bytes of arrays from which on to compare them takes about as long as to trace."""
_MANY = 10_000
"""Guards from which on this is so."""
_PURE = frozenset(
    [
        *("tenon", "numpy", "ml_dtypes", "math", "cmath", "operator", "functools", "itertools", "collections", "copy"),
        *("typing", "typing_extensions", "types", "dataclasses", "enum", "numbers", "abc", "string", "builtins"),
    ]
)
"""Libraries whose functions only compute."""
_SAFE = frozenset(
    [
        *("abs", "all", "any", "bool", "bytes", "callable", "chr", "classmethod", "complex", "dict", "divmod"),
        *("enumerate", "filter", "float", "format", "frozenset", "getattr", "hasattr", "int", "isinstance"),
        *("issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "ord", "pow", "property"),
        *("range", "repr", "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum"),
        *("super", "tuple", "type", "zip", "Ellipsis", "NotImplemented", "__build_class__", "__debug__", "__name__"),
    ]
)
"""Functions of Python's that only compute."""
_IMPURE = frozenset(
    [
        *("random", "default_rng", "seed", "manual_seed", "get_rng_state", "set_rng_state", "now", "today"),
        *("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savetxt", "tofile"),
        *("print", "input", "open", "read", "write", "set_default_device", "set_grad_enabled", "backward"),
    ]
)
"""Names of what libraries that only compute have besides."""
_OWN = frozenset(("dialects", "runtime", "traces", "nn", "optim", "quantization", "custom_rules"))
"""Rooms of Tenon's whose objects are as what they hold."""
_OF_GRADIENTS = frozenset(("grad", "getattr", "attrgetter"))
"""Names by which a tensor is asked for its gradient."""
_COLLECTIONS = (dict, list, tuple, set, frozenset, deque)
_PLAIN = (
    *(types.MethodType, functools.partial, NativeCalls, types.CellType, np.ufunc, types.SimpleNamespace),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, bytearray, memoryview, array.array, inspect.Signature),
)


class CallReads(Reads):
    """What was found, the tensors among it, and what cannot be guarded."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[int, Any] = {}
        """By identity; their elements are given to a program anew."""
        self._gradients: list[Place] = []
        self.doubts: list[str] = []
        """What a function asks for that no guard compares."""

    def settled(self) -> bool:
        """Whether a program may serve another call, as far as what was found says."""
        self.doubts += sorted(_IMPURE & self._names)
        self.doubts += ["numbers that are drawn"] if self.generators else []
        is_small = sum(array.nbytes for _, array in self.arrays) <= _LARGE
        return not self.doubts and is_small and len(self.identities) + len(self.constants) < _MANY

    def kinds(self) -> list[Any]:
        """What a program takes for granted of tensors, besides what is in them."""
        return [kind_of_tensor(tensor) for tensor in self.tensors.values()]

    def in_tensors(self) -> list[Any]:
        """What tensors hold."""
        return [elements_of(tensor) for tensor in self.tensors.values()]

    def _visit(self, value: Any, place: Place | None, name: str, *, data: Any = None) -> None:
        if is_on_gpu(value) or (isinstance(value, np.ndarray) and type(value) is not np.ndarray):
            self.doubts.append(name)
        super()._visit(value, place, name, data=data)

    def _enter(self, value: Any, name: str, data: Any) -> None:
        if hasattr(type(value), "__tenon_held__"):
            self._add_tensor(value, name)
        elif not _is_known(value):
            self.doubts.append(name or type(value).__name__)
        super()._enter(value, name, data)

    def _add_tensor(self, tensor: Any, name: str) -> None:
        if not tensor.is_leaf or type(elements_of(tensor)) is not np.ndarray:
            self.doubts.append(name)  # what was computed is another one next time
        self.tensors[id(tensor)] = tensor
        self._gradients.append(Place(tensor, "_grad", named(name, "grad"), is_attribute=True))

    def _settle(self) -> None:
        super()._settle()
        while self._gradients and not self._names.isdisjoint(_OF_GRADIENTS):
            place = self._gradients.pop()
            self._visit(place.get(), place, place.name)

    def _add_module(self, module: types.ModuleType, name: str) -> None:
        if not _is_pure(module.__name__):
            self.doubts.append(name)
        super()._add_module(module, name)

    def _add_variable(self, variables: dict[str, Any], key: str, name: str) -> None:
        if key not in variables and hasattr(builtins, key) and not _is_safe(key):
            self.doubts.append(name)
        super()._add_variable(variables, key, name)

    def _read_code(self, function: types.FunctionType) -> None:
        if is_library(function.__globals__.get("__name__")):
            for cell in function.__closure__ or ():  # besides functions, as those of all branches
                with suppress(ValueError):
                    for part in _parts(cell.cell_contents):
                        self._visit(part, None, function.__name__)
        else:
            asked = [name for name, kind in asked_of(function.__code__) if kind == "module"]
            self.doubts += [name for name in asked if not _is_pure(name)]
        super()._read_code(function)


def _parts(value: Any) -> Iterator[Any]:
    """The functions in lists, tuples and dicts."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        if callable(item):
            yield item
        else:
            yield from _parts(item)


def kind_of_tensor(tensor: Any) -> Any:
    """What a program takes for granted of a tensor."""
    array = elements_of(tensor)
    return type(tensor), tensor.requires_grad, type(array), array.dtype, array.shape


def _is_pure(module: str | None) -> bool:
    """Whether functions of a module only compute, as long as they are no users': what these do is found."""
    name = module or ""
    return not is_library(name) or (name.partition(".")[0] in _PURE and not name.startswith("numpy.random"))


def _is_safe(name: str) -> bool:
    found = getattr(builtins, name)
    return name in _SAFE or (isinstance(found, type) and issubclass(found, BaseException))


def _is_known(value: Any) -> bool:
    """Whether the guards of an object say all that it does."""
    kind = type(value)
    if isinstance(value, types.FunctionType):
        return _is_pure(value.__globals__.get("__name__"))
    if isinstance(value, types.ModuleType):
        return _is_pure(value.__name__)
    if isinstance(value, types.BuiltinFunctionType):
        return _is_known_builtin(value)
    if isinstance(value, type):
        return _is_known_class(value)
    if isinstance(value, _PLAIN):
        return True
    module = kind.__module__
    if module.partition(".")[0] == "tenon":
        return module.split(".")[1] in _OWN and not hasattr(kind, "__tenon_value__")
    if is_library_class(kind) and not isinstance(value, _COLLECTIONS):
        return module == "operator" or kind is type(np.sum) or value is ... or value is NotImplemented
    return _is_known_class(kind)


def _is_known_builtin(value: Any) -> bool:
    owner = value.__self__
    if owner is builtins:
        return _is_safe(value.__name__)
    if owner is None:
        return _is_pure(value.__module__)
    return isinstance(owner, types.ModuleType | type) and _is_known(owner)


def _is_known_class(kind: type) -> bool:
    return all(_is_pure(base.__module__) for base in kind.__mro__ if is_library_class(base))


class FunctionKey:
    """What tells a function from others: what it is made of, and what is in its closure now, as functions inside of
    others are made again at each call of these.

    Raises `TypeError` where what a function of Tenon's is made of could change unnoticed.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.held: list[Any] = []
        """What is told by its identity, and has to be kept."""
        self.told: set[int] = set()
        """The identities of the functions and the variables of closures that it tells."""
        self._numbers: dict[int, int] = {}
        """Of functions that were met, which may be met again, as those that call themselves are."""
        self.key: Hashable = self._of(function, is_inner=False)

    def _of(self, value: Any, *, is_inner: bool) -> Hashable:
        """`is_inner` says that it is in the closure of Tenon's function, in which no guard looks but for functions."""
        kind = type(value)
        if kind is types.FunctionType:
            return self._of_function(value)
        if kind in _BY_VALUE:
            return kind, static_key(value)
        if kind is types.MethodType:
            return kind, self._of(value.__func__, is_inner=False), self._of(value.__self__, is_inner=False)
        if kind is functools.partial:
            parts = (value.func, *value.args, *value.keywords.values())
            return kind, *value.keywords, *[self._of(v, is_inner=False) for v in parts]
        if hasattr(kind, "__tenon_traced_function__"):
            return kind  # beside which the function is that is traced
        if is_inner and kind in (tuple, list):
            return kind, *[self._of(v, is_inner=True) for v in value]
        if is_inner and kind is dict:
            return kind, *value, *[self._of(v, is_inner=True) for v in value.values()]
        if is_inner and not callable(value):
            raise TypeError(f"a {kind.__name__} may change")
        self.held.append(value)
        return kind, id(value)

    def _of_function(self, function: types.FunctionType) -> Hashable:
        if id(function) in self._numbers:
            return self._numbers[id(function)]
        self._numbers[id(function)] = len(self._numbers)
        is_inner = (function.__globals__.get("__name__") or "").partition(".")[0] == "tenon"
        self.held += [function.__code__, function.__globals__]
        made = id(function.__code__), id(function.__globals__)
        if function.__dict__ and not is_inner:
            self.held.append(function)
            return id(function), made
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        cells = function.__closure__ or ()
        found: list[Hashable] = [made, len(defaults), *named]
        found += [self._of(value, is_inner=is_inner) for value in (*defaults, *named.values())]
        found += [_EMPTY if _is_empty(cell) else self._of(cell.cell_contents, is_inner=is_inner) for cell in cells]
        self.told |= {id(function), id(named), *map(id, cells)}
        return tuple(found)


_BY_VALUE = (bool, int, float, str, bytes, complex, type(None))
_EMPTY = object()


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
