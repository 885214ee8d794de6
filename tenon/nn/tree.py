"""What is in a module: modules below it, parameters and buffers, by path."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from tenon.dialects.definition.one_program import is_data, kind_of
from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import is_stored
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import is_traced
from tenon.eager.parameters import CALLS, Offered, adopt, as_arrays, buffer_of, found_in, holds, parameter_of
from tenon.eager.tensor import Parameter, Tensor
from tenon.runtime.arguments.tree import like_sequence

Array = Any


# Whether values of a class met so far are arrays or modules; containers are asked for what they hold.
_IS_DYNAMIC: dict[type, bool] = dict.fromkeys((int, float, bool, str, type(None)), False)


def is_dynamic(value: Any) -> bool:
    kind = type(value)
    known = _IS_DYNAMIC.get(kind)
    if known is not None:
        return known
    if isinstance(value, list | tuple):
        return any(map(is_dynamic, value))
    if isinstance(value, dict):
        return any(map(is_dynamic, value.values()))
    known = _IS_DYNAMIC[kind] = isinstance(value, np.ndarray | Value | ModuleTree) or hasattr(kind, "__dlpack__")
    return known


@dataclass(frozen=True)
class Slot:
    """A place below a module that holds an array: its path, and how to put another one there."""

    path: str
    is_buffer: bool
    value: Array
    assign: Callable[[Array], None]
    is_saved: bool = True
    is_optional: bool = False


def _rank(module: ModuleTree, item: tuple[str, Any]) -> int:
    """Where what is in an attribute comes: the module's own parameters, its buffers, and what modules in it have."""
    name, value = item
    is_state = name in module.buffer_names or name in module.held_names
    return 1 if is_state else 2 * holds(value, lambda item: isinstance(item, ModuleTree))


def _slots(
    value: Any, path: str, is_buffer: bool, assign: Callable[[Any], None], module: ModuleTree, name: str
) -> Iterator[Slot]:
    """The places at and below `value`, which is at or below the attribute `name` of `module`."""
    if isinstance(value, ModuleTree):
        for own, attribute in sorted(vars(value).items(), key=partial(_rank, value)):  # which is stable
            inner = f"{path}.{own}" if path else own
            is_state = own in value.buffer_names or own in value.held_names
            yield from _slots(attribute, inner, is_state, partial(setattr, value, own), value, own)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _slots(item, f"{path}.{key}", is_buffer, partial(value.__setitem__, key), module, name)
    elif isinstance(value, list | tuple):
        items = list(value)

        def replace(position: int, item: Any) -> None:
            items[position] = item
            assign(like_sequence(type(value), items))

        for position, item in enumerate(value):
            yield from _slots(item, f"{path}.{position}", is_buffer, partial(replace, position), module, name)
    elif is_dynamic(value) or (is_buffer and value is not None):
        is_saved = name not in module.transient_names and name not in module.held_names
        is_optional = name in module.OPTIONAL_STATE
        yield Slot(path, is_buffer, value, assign, is_saved, is_optional)


_MADE: dict[int, ref[ModuleTree]] = {}
"""The modules that Python made, by identity (a user's class may have no hash); those that functions give are not."""


def note_made(module: ModuleTree) -> None:
    """Have attributes of a new module that layers have arrays in be parameters to those who ask for them."""
    number = id(module)
    _MADE[number] = ref(module, lambda _: _MADE.pop(number, None))


class LayerArray:
    """An attribute in which a layer of Tenon's has an array: the parameter or the buffer that `parameters()` or
    `buffers()` gives, to those who ask for it outside of calls of modules and of traces, where it is what the module
    has."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: ModuleTree | None, owner: type | None = None) -> Any:
        if module is None:
            return self
        try:
            value = module.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None  # which the module's `__getattr__` goes on from
        kind = type(value)
        if is_stored(value) and CALLS.journal is None and id(module) in _MADE and not is_traced():
            if value.dtype.kind in "USO":
                return value  # of a dtype that no tensor has
            if self.name in module.buffer_names:
                return buffer_of(value)
            return module._offered(self.name) if is_differentiable(value.dtype) else value
        return as_arrays(value) if kind is Offered and is_traced() else value

    def __set__(self, module: ModuleTree, value: Any) -> None:
        vars(module)[self.name] = value

    def __delete__(self, module: ModuleTree) -> None:
        if vars(module).pop(self.name, self) is self:
            raise AttributeError(f"{type(module).__name__} has no attribute {self.name!r}")


def note_array(kind: type, name: str) -> None:
    """Have an attribute in which modules of a class have an array be one of a layer, if the class is or extends one."""
    if hasattr(kind, name):
        return
    own = next((base for base in kind.__mro__ if base.__module__.startswith("tenon.")), None)
    if own is not None and own.__module__ not in _NO_LAYERS:
        setattr(kind, name, LayerArray(name))


_NO_LAYERS = {"tenon.nn.module", "tenon.nn.container"}


class _Children(MutableMapping[str, Any]):
    """The modules directly below one by their names, which may be replaced, as PyTorch keeps them."""

    def __init__(self, module: ModuleTree) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        return dict(self._module.named_children())[name]

    def __setitem__(self, name: str, module: Any) -> None:
        setattr(self._module, name, module)

    def __delitem__(self, name: str) -> None:
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._module.named_children())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ModuleTree:
    """A module as what holds parameters, buffers and modules."""

    buffer_names: tuple[str, ...] = ()
    transient_names: tuple[str, ...] = ()
    """The buffers that are not saved with the module."""
    held_names: tuple[str, ...] = ()
    """The attributes with tensors that are no parameters, as in PyTorch: what is no `Parameter` is neither learned nor
    saved. (Arrays are: functions of trees have no other parameters.)"""
    OPTIONAL_STATE: ClassVar[tuple[str, ...]] = ()
    """Buffers that a checkpoint may lack: what the module has of them stays."""
    _modules = property(_Children)
    is_unmade: ClassVar[bool] = False
    """Whether its parameters are not there yet, as its size is not known."""

    @contextmanager
    def _made_of(self, state: Mapping[str, Array]) -> Generator[None, None, None]:
        """Have all layers below whose sizes are not known take them from a state, by path; after an error, none."""
        with ExitStack() as undoing:
            for path, module in [*self.named_modules()]:
                if module.is_unmade:
                    undoing.callback(module._make_of(state, f"{path}." if path else ""))
            yield
            undoing.pop_all()

    def _check_made(self) -> None:
        """Raise `RuntimeError` if there is a layer whose size is not known, and whose parameters are asked for."""
        for path, module in self.named_modules():
            if module.is_unmade:
                where = f"{type(module).__name__} {path}".rstrip()
                raise RuntimeError(
                    f"{where}: its size is not known before its first call, and it has no parameters so far; call the "
                    "model on an example before"
                )

    def __tenon_kind__(self) -> Hashable:
        """What one program serves that a module of Tenon's own is called in, if it has settings alone."""
        if getattr(self, "hooks", ()) or not type(self).__module__.startswith("tenon."):
            return None
        kinds = [(name, None if is_data(value) else kind_of(value)) for name, value in vars(self).items()]
        return None if any(kind is None for _, kind in kinds) else (type(self), *kinds)

    def register_buffer(self, name: str, value: Array, persistent: bool = True) -> None:
        """Make `value` an attribute that is not trained, and saved with the module if it is `persistent`."""
        self._check_name("buffer", name)
        others = tuple([known for known in self.buffer_names if known != name])
        self.buffer_names = (*others, name)
        transient = tuple([known for known in self.transient_names if known != name])
        if not persistent or transient != self.transient_names:
            self.transient_names = transient if persistent else (*transient, name)
        setattr(self, name, value)

    def register_parameter(self, name: str, value: Array) -> None:
        """Make an array, or `None`, an attribute; the same as to assign it, but that it is checked."""
        self._check_name("parameter", name)
        if value is not None and not is_dynamic(value):
            raise TypeError(f"parameter {name!r} of a {type(self).__name__} is a {type(value).__name__}, and no array")
        is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
        setattr(self, name, Parameter(value) if is_plain else value)

    def register_module(self, name: str, module: ModuleTree | None) -> None:
        """Make a module, or `None`, an attribute; the same as to assign it, but for names that are no Python names."""
        self._check_name("module", name)
        if module is not None and not isinstance(module, ModuleTree):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name!r} of a {type(self).__name__} is a {type(module).__name__}, and no module")
        setattr(self, name, module)

    add_module = register_module

    def _check_name(self, what: str, name: str) -> None:
        if not name or "." in name:
            raise KeyError(f"a {what} cannot be called {name!r}: names are not empty and have no dot")
        if hasattr(type(self), name) and not isinstance(getattr(type(self), name), LayerArray):
            raise KeyError(f"a {what} cannot be called {name!r}, which every {type(self).__name__} has as an attribute")

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Names and modules directly below this one."""
        for name, value in vars(self).items():
            yield from _modules_in(name, value)

    def children(self) -> Iterator[Any]:
        """The modules directly below this one, each once."""
        yield from {id(child): child for _, child in self.named_children()}.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """This module and all below it, each once, by path (`encoder.0`)."""
        seen: set[int] = set()

        def walk(path: str, module: ModuleTree) -> Iterator[tuple[str, Any]]:
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module
                for name, child in module.named_children():
                    yield from walk(f"{path}.{name}" if path else name, child)

        yield from walk(prefix, self)

    def modules(self) -> Iterator[Any]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def slots(self) -> Iterator[Slot]:
        """The places of all arrays."""
        return _slots(self, "", False, lambda _: None, self, "")

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Array]]:
        """The parameters of this module and, if `recurse`, those below it, by path (`encoder.0.weight`): tensors that
        take the place of arrays in the module; where functions are traced, as they are there.

        One that is at several places has the first path alone, unless `remove_duplicate` is false.
        """
        named = [*self.named_arrays(prefix, recurse, remove_duplicate)]
        if any(is_stored(value) for _, value in named):
            self.offer()
            named = [*self.named_arrays(prefix, recurse, remove_duplicate)]
        yield from named

    def named_arrays(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Array]]:
        """What `named_parameters` gives, as it is in the module: arrays until they are asked for as parameters."""
        return self._named(prefix, recurse, remove_duplicate, is_buffer=False)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Array]]:
        """What is not trained, by path, in the same way: tensors that have the memory of arrays in the module."""
        for path, value in self._named(prefix, recurse, remove_duplicate, is_buffer=True):
            yield path, buffer_of(value)

    def _named(
        self, prefix: str, recurse: bool, remove_duplicate: bool, *, is_buffer: bool
    ) -> Iterator[tuple[str, Array]]:
        self._check_made()
        below = () if recurse else tuple([f"{name}." for name, _ in self.named_children()])
        seen: set[int] = set()
        for slot in self.slots():
            if slot.is_buffer == is_buffer and not slot.path.startswith(below or "."):
                if remove_duplicate and id(slot.value) in seen:
                    continue
                seen.add(id(slot.value))
                yield (f"{prefix}.{slot.path}" if prefix else slot.path), slot.value

    def parameters(self, recurse: bool = True) -> Iterator[Array]:
        """The parameters of this module and those below it, each once, as `named_parameters` gives them."""
        yield from [value for _, value in self.named_parameters(recurse=recurse)]

    def make_learned(self) -> None:
        """Make tensors that require gradients of the parameters that are no tensors yet."""
        self._make_parameters(is_due=lambda value: not isinstance(value, Tensor))
        for slot in self.slots():
            if not slot.is_buffer:
                adopt(slot.value)

    def offer(self) -> None:
        """Have parameters be tensors, which are arrays to functions of trees as long as nothing uses them as tensors;
        not where a function is traced.
        """
        if is_traced():
            return
        self._make_parameters(is_due=is_stored)

    def _offered(self, name: str) -> Any:
        """The parameter that takes the place of the array in one attribute, wherever the module has that."""
        array = vars(self)[name]
        self._make_parameters(is_due=lambda value: value is array)
        return vars(self)[name]

    def _make_parameters(self, is_due: Callable[[Any], bool]) -> None:
        slots = [slot for slot in self.slots() if not slot.is_buffer]
        there = {id(slot.value): slot.value for slot in slots}
        for slot in slots:
            if is_due(slot.value) and (made := parameter_of(slot.value, there)) is not slot.value:
                slot.assign(made)

    def buffers(self, recurse: bool = True) -> Iterator[Array]:
        """What is not trained, each once, as `named_buffers` gives it."""
        yield from [value for _, value in self.named_buffers(recurse=recurse)]

    def get_submodule(self, path: str) -> Any:
        """The module at a path (`encoder.0`), this one for the empty path. Raises `AttributeError` if there is none."""
        return found_in(self, "module", path, self.named_modules())

    def get_parameter(self, path: str) -> Array:
        """The parameter at a path, as it is. Raises `AttributeError` if there is none."""
        return found_in(self, "parameter", path, self.named_arrays(remove_duplicate=False))

    def get_buffer(self, path: str) -> Array:
        """The buffer at a path. Raises `AttributeError` if there is none."""
        return found_in(self, "buffer", path, self.named_buffers(remove_duplicate=False))


def may_be_learned(value: Any) -> bool:
    """Whether a value has what a module that is called on a tensor makes learned tensors of."""
    return holds(
        value, lambda item: type(item) is Offered or (not isinstance(item, Tensor | Value) and is_dynamic(item))
    )


def check_is_learned(module: ModuleTree, name: str, value: Any) -> None:
    """Raise `TypeError` where what is assigned to a parameter that is learned would not be."""
    is_known = value is None or isinstance(value, Value | ModuleTree) or not is_dynamic(value)
    if is_known or (isinstance(value, Tensor) and value.requires_grad):
        return
    raise TypeError(
        f"{name} of a {type(module).__name__} is a parameter that is learned, and a {type(value).__name__} would not "
        f"be; write module.{name}.data = ... for other elements, or module.{name} = nn.Parameter(...) for another one"
    )


def is_held(value: Any, module: ModuleTree) -> bool:
    """Whether what an attribute of a module gets is no parameter: constants, and what was computed, are tensors that
    are none, or values of the function that is traced (if it has not made the module itself)."""

    def is_no_parameter(item: Any) -> bool:
        if isinstance(item, Value):
            return id(module) not in _MADE
        is_plain = isinstance(item, Tensor) and not isinstance(item, Parameter)
        return is_plain and not (item.requires_grad and item.is_leaf)

    return not holds(value, lambda item: is_dynamic(item) and not is_no_parameter(item))


def _modules_in(path: str, value: Any) -> Iterator[tuple[str, ModuleTree]]:
    if isinstance(value, ModuleTree):
        yield path, value
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _modules_in(f"{path}.{key}", item)
