"""The base of all modules: a tree whose arrays are parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.eager.modes import no_grad
from tenon.eager.tensor import Parameter, Tensor
from tenon.nn.traced import watch_buffers, watch_foreign
from tenon.runtime.arguments.tree import register_node
from tenon.runtime.tracing.watch import watch

Array = Any


# Whether values of a class met so far are arrays or modules; containers are asked for what they hold.
_IS_DYNAMIC: dict[type, bool] = dict.fromkeys((int, float, bool, str, type(None)), False)


def _is_dynamic(value: Any) -> bool:
    kind = type(value)
    known = _IS_DYNAMIC.get(kind)
    if known is not None:
        return known
    if isinstance(value, list | tuple):
        return any(map(_is_dynamic, value))
    if isinstance(value, dict):
        return any(map(_is_dynamic, value.values()))
    known = _IS_DYNAMIC[kind] = isinstance(value, np.ndarray | Value | Module) or hasattr(kind, "__dlpack__")
    return known


@dataclass(frozen=True)
class _Slot:
    """A place below a module that holds an array: its path, and how to put another one there."""

    path: str
    is_buffer: bool
    value: Array
    assign: Callable[[Array], None]


def _slots(value: Any, path: str, is_buffer: bool, assign: Callable[[Any], None]) -> Iterator[_Slot]:
    if isinstance(value, Module):
        for name, attribute in vars(value).items():
            inner = f"{path}.{name}" if path else name
            yield from _slots(attribute, inner, name in value.buffer_names, partial(setattr, value, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _slots(item, f"{path}.{key}", is_buffer, partial(value.__setitem__, key))
    elif isinstance(value, list | tuple):
        items = list(value)

        def replace(position: int, item: Any) -> None:
            items[position] = item
            assign(type(value)(*items) if hasattr(value, "_fields") else type(value)(items))

        for position, item in enumerate(value):
            yield from _slots(item, f"{path}.{position}", is_buffer, partial(replace, position))
    elif _is_dynamic(value) or (is_buffer and value is not None):
        yield _Slot(path, is_buffer, value, assign)


class Module:
    """Base of all modules. Arrays that are assigned to attributes are parameters, unless `register_buffer` says
    otherwise.
    """

    training: bool
    buffer_names: tuple[str, ...]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # Not in `__init__`, which subclasses forget to call.
        module = object.__new__(cls)
        tracing = watch()
        if tracing is not None:
            tracing.own(module)
        module.training = True
        module.buffer_names = ()
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        _watch_if_foreign(self)
        if isinstance(value, Tensor) and name in self.buffer_names and value.requires_grad:
            value = value.detach()  # statistics are not learned
        object.__setattr__(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result; to be defined by each module."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _watch_if_foreign(self)
        try:
            return self.forward(*args, **kwargs)
        except Exception as error:
            # The frames of Tenon's own modules are not shown.
            if type(self).__module__.startswith("tenon."):
                error.add_note(f"in {self._described()}")
            raise

    def register_buffer(self, name: str, value: Array) -> None:
        """Make `value` an attribute that is saved with the module, but not trained."""
        self.buffer_names = (*self.buffer_names, name)
        setattr(self, name, value)

    def children(self) -> Iterator[tuple[str, Module]]:
        """Names and modules directly below this one."""
        for name, value in vars(self).items():
            yield from _modules_in(name, value)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def _slots(self) -> Iterator[_Slot]:
        return _slots(self, "", False, lambda _: None)

    def named_parameters(self) -> dict[str, Array]:
        """The trained arrays of this module and those below it, by path (`encoder.0.weight`)."""
        return {slot.path: slot.value for slot in self._slots() if not slot.is_buffer}

    def parameters(self) -> list[Array]:
        """The trained arrays of this module and those below it; each once."""
        return list({id(value): value for value in self.named_parameters().values()}.values())

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Make tensors of all parameters, if they are none yet, which are learned by `backward()` and `step()`; or,
        with `False`, have no gradients found for them.
        """
        made: dict[int, Tensor] = {}
        for slot in self._slots():
            if not slot.is_buffer:
                value = slot.value
                known = value if isinstance(value, Tensor) else made.setdefault(id(value), Parameter(value))
                slot.assign(known.requires_grad_(wanted))
        return self

    def zero_grad(self) -> None:
        """Take the gradients of all parameters that are tensors away."""
        for value in self.parameters():
            if isinstance(value, Tensor):
                value.grad = None

    def named_buffers(self) -> dict[str, Array]:
        """The arrays that are saved but not trained, by path."""
        return {slot.path: slot.value for slot in self._slots() if slot.is_buffer}

    def state_dict(self) -> dict[str, Array]:
        """Parameters and buffers by path.

        The arrays are the module's own: copy them before a call that is given the module's memory (`donate`).
        """
        return {**self.named_parameters(), **self.named_buffers()}

    def load_state_dict(self, state: Mapping[str, Array], strict: bool = True) -> tuple[list[str], list[str]]:
        """Set parameters and buffers to copies of `state`, of arrays of any library; gives the names that are missing
        and those that are unknown. PyTorch's counts of batches, which nothing here needs, are left out.

        Raises `ValueError`, changing nothing, when shapes or kinds of numbers differ, and, if `strict`, when names do.
        """
        slots = {slot.path: slot for slot in self._slots()}
        state = {path: value for path, value in state.items() if not path.endswith("num_batches_tracked")}
        missing, unknown = sorted(slots.keys() - state.keys()), sorted(state.keys() - slots.keys())
        if strict and (missing or unknown):
            raise ValueError(
                f"state does not fit the module: missing {', '.join(missing) or 'none'}, "
                f"unknown {', '.join(unknown) or 'none'}"
            )
        loaded: dict[str, Array] = {}
        slots = {path: slot for path, slot in slots.items() if path in state}
        for path, slot in slots.items():
            given, own = plain(state[path]), plain(slot.value)
            if given.shape != own.shape:
                raise ValueError(f"{path} has shape {own.shape} in the module and {given.shape} in the state")
            if not np.can_cast(given.dtype, own.dtype, "same_kind"):
                raise ValueError(f"{path} has dtype {own.dtype} in the module and {given.dtype} in the state")
            loaded[path] = np.array(given, dtype=own.dtype)
        with no_grad():
            for path, slot in slots.items():
                if isinstance(slot.value, Tensor):
                    slot.value[...] = loaded[path]
                else:
                    slot.assign(loaded[path])
        return missing, unknown

    def set_parameters(self, values: Mapping[str, Array]) -> None:
        """Replace parameters by path; values are taken as they are. Raises `ValueError`, changing nothing, for a path
        that is not that of a parameter.
        """
        slots = {slot.path: slot for slot in self._slots() if not slot.is_buffer}
        if unknown := [path for path in values if path not in slots]:
            raise ValueError(f"{type(self).__name__} has no parameter {', '.join(unknown)}")
        for path, value in values.items():
            slots[path].assign(value)

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training behaviour (or, with `False`, to evaluation)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation behaviour."""
        return self.train(False)

    def __repr__(self) -> str:
        return self._described(*[f"{name}={child!r}" for name, child in self.children()])

    def _described(self, *inner: str) -> str:
        """The class with its settings and the shapes of its parameters, then `inner`."""
        own = [
            f"{name}={value!r}" if isinstance(value, int | float | str) else f"{name}: {tuple(value.shape)}"
            for name, value in vars(self).items()
            if name not in ("training", *self.buffer_names)
            and (isinstance(value, int | float | str) or hasattr(value, "shape"))
        ]
        return f"{type(self).__name__}({', '.join([*own, *inner])})"


def plain(array: Any) -> np.ndarray[Any, Any]:
    """The elements of an array or a tensor."""
    return plain_array(array.detach() if hasattr(array, "detach") else array)


def _modules_in(path: str, value: Any) -> Iterator[tuple[str, Module]]:
    if isinstance(value, Module):
        yield path, value
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _modules_in(f"{path}.{key}", item)


def _watch_if_foreign(module: Module) -> None:
    tracing = watch()
    if tracing is not None and tracing.is_foreign(module):
        watch_foreign(tracing, module)


def _take_apart(module: Module) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    names: list[str] = []
    values: list[Any] = []
    static: dict[str, Any] = {}
    buffers = module.buffer_names
    for name, value in vars(module).items():
        # A buffer is data even after arithmetic has made a number of it, as NumPy does with arrays of rank 0.
        if _is_dynamic(value) or name in buffers:
            names.append(name)
            values.append(value)
        else:
            static[name] = value
    return tuple(names), values, static


def _put_together(kind: type, names: tuple[str, ...], values: Sequence[Any], static: dict[str, Any]) -> Module:
    module = object.__new__(kind)
    attributes = vars(module)
    attributes.update(static)
    attributes.update(zip(names, values, strict=True))
    tracing = watch()
    if tracing is not None:
        watch_buffers(tracing, tracing.own(module))
    return module


register_node(Module, _take_apart, _put_together, has_attributes=True)
