"""Parameters of modules between the two faces: arrays to functions of trees, tensors to what asks for them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, Self
from weakref import WeakValueDictionary, ref

import numpy as np

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import elements_of, host_array, is_on_gpu, is_stored, on_host
from tenon.dialects.support.suggestion import did_you_mean
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import is_traced, run_waiting
from tenon.eager.recording import Handle, Stored
from tenon.eager.tape import Array
from tenon.eager.tensor import Parameter, Tensor, as_tensor
from tenon.runtime.arguments.frozen import FREEZING
from tenon.runtime.arguments.tree import like_sequence
from tenon.runtime.cuda.arrays import brought, place_of
from tenon.runtime.evaluate import evaluate
from tenon.runtime.retrace import install_state
from tenon.runtime.tracing.trace import is_tracing_for_later


class _Calls(threading.local):
    """The buffers that calls of modules in progress in this thread have set, with what they were before."""

    journal: list[tuple[Any, str, Any]] | None = None


CALLS = _Calls()
install_state(lambda: CALLS.journal is None)


class Offered(Parameter):
    """A parameter that its module has handed out (`parameters()`), and that nothing learns so far.

    Until then its module is one of arrays, as before: to functions of trees (`jit`, `grad`, `Optimizer.update`), and
    where it is called on arrays. By itself it is a tensor, of which calls are recorded. What learns it (an optimizer, a
    module that is called on a tensor, `requires_grad_`) makes it a `Parameter`, which stays the same object.
    """

    __slots__ = ()
    __tenon_elements__ = "_array"
    _is_offered = True

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        return adopt(self).requires_grad_(requires_grad)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        return adopt(self).register_hook(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        return adopt(self).register_post_accumulate_grad_hook(hook)

    def numpy(self) -> Array:
        """The elements as a NumPy array that shares the memory."""
        return super().numpy() if is_on_gpu(self._array) else self._shared()

    def __tenon_value__(self) -> Value:
        """The parameter in a function of values that reads it from around: an array, as its module has."""
        array = self._shared()  # which is held here, too, as what is made for a call alone is not
        return to_value(array)

    def _shared(self) -> Array:
        run_waiting()
        self._own_memory().is_exported = True
        return self._array

    @classmethod
    def __tenon_op__(cls, op: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        if _is_of_arrays(flat(operands)):
            return evaluate(op, map_grouped(as_arrays, operands), settings)
        return super().__tenon_op__(op, operands, settings)

    @classmethod
    def __tenon_function__(cls, function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if _is_of_arrays((*args, *settings.values())):
            return function(*map(as_arrays, args), **{name: as_arrays(value) for name, value in settings.items()})
        return super().__tenon_function__(function, args, settings)


def _is_of_arrays(operands: Iterable[Any]) -> bool:
    """Whether a call on these is made by a module that is called on arrays."""
    is_called = CALLS.journal is not None
    return is_called and all(type(value) is Offered or not isinstance(value, Stored) for value in operands)


def adopt(value: Any) -> Any:
    """`value`, which is learned from here on if it is a parameter."""
    if type(value) is Offered:
        value.__class__ = Parameter  # pyright: ignore[reportAttributeAccessIssue]
    return value


_OF_ARRAYS: dict[int, tuple[ref[Array], list[ref[Parameter]]]] = {}
"""The parameters that were made of arrays that are still there, by the identities of these."""


def parameter_of(array: Any, there: dict[int, Any]) -> Any:
    """The parameter with a copy of what a module holds; what is no array of floats, as it is.

    `there` has what else the module holds, by identity. If one of these is a parameter that was made of the same array,
    and has not been learned, it is that: two layers that have one array have one parameter, and two modules that were
    made of one array have two.
    """
    if not is_stored(array) or not is_differentiable(array.dtype):
        return array
    number = id(array)
    if number not in _OF_ARRAYS:
        _OF_ARRAYS[number] = ref(array, lambda _: _OF_ARRAYS.pop(number, None)), []
    known = _OF_ARRAYS[number][1]
    known[:] = [made for made in known if made() is not None]
    for found in known:
        made = found()
        if made is not None and there.get(id(made)) is made and (type(made) is Offered or _is_as_made(made, array)):
            return made
    made = Parameter(array)
    made.__class__ = Offered
    there[id(made)] = made
    known.append(ref(made))
    return made


_BUFFERS: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""The tensors that have the memory of buffers, by the identity of the arrays, which they hold."""


def buffer_of(array: Any) -> Any:
    """A tensor with the memory of a buffer, the same one as long as somebody has it; where a function is traced, and
    what is no array, as it is."""
    if not is_stored(array) or is_traced():
        return array
    known = _BUFFERS.get(id(array))
    if known is None or known._array is not array:
        known = _BUFFERS[id(array)] = as_tensor(array)
    return known


def _is_as_made(parameter: Parameter, array: Array) -> bool:
    found, array = on_host(parameter._array), on_host(array)
    return found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()


def as_arrays(value: Any) -> Any:
    """What a module has in an attribute, with the arrays of parameters that nothing learns so far.

    Where they are frozen, they are as they are: their arrays are copied there.
    """
    if type(value) is Offered:
        if is_tracing_for_later():
            value._own_memory().is_exported = True  # what is compared at each call is written to, and not replaced
        return value if FREEZING.is_on else value._array
    if not isinstance(value, list | tuple | dict) or not _offers(value):
        return value
    if isinstance(value, dict):
        made = copy(value)
        made.update({key: as_arrays(item) for key, item in value.items()})
        return made
    items = [as_arrays(item) for item in value]
    return like_sequence(type(value), items)


def _offers(value: Any) -> bool:
    return holds(value, lambda item: type(item) is Offered)


def has_tensor(value: Any) -> bool:
    """Whether a value is a tensor, or has one in a list, a tuple or a dict."""
    return holds(value, _is_tensor)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def found_in(module: Any, what: str, path: str, there: Iterator[tuple[str, Any]]) -> Any:
    """What `there` has at a path. Raises `AttributeError` if there is nothing."""
    known = dict(there)
    if path not in known:
        raise AttributeError(f"{type(module).__name__} has no {what} {path!r}{did_you_mean(path, known)}")
    return known[path]


def fitting(path: str, own: Any, given: Any) -> Any:
    """A copy of `given` as what a module has at `path` is stored, and where; raises `ValueError` if it is of another
    kind."""
    is_symbol = is_traced() and (isinstance(given, Value) or (isinstance(given, Stored) and given._is_traced))
    own = own if is_traced() else elements_of(own)
    given = given if is_symbol else host_array(given)
    if given.shape != own.shape:
        raise ValueError(f"{path} has shape {own.shape} in the module and {given.shape} in the state")
    if not np.can_cast(given.dtype, own.dtype, "same_kind"):
        raise ValueError(f"{path} has dtype {own.dtype} in the module and {given.dtype} in the state")
    if is_symbol:
        return (given if isinstance(given, Value) else given.detach()).astype(own.dtype)
    return brought(np.array(given, dtype=own.dtype), place_of(own))


_CONTAINERS = (list, tuple, dict)


def holds(value: Any, test: Callable[[Any], bool]) -> bool:
    """Whether a value, or something in a list, a tuple or a dict that it is, passes a test."""
    if not isinstance(value, _CONTAINERS):
        return test(value)
    # Asked of the arguments of each call of a module on arrays, where a generator would take twice as long.
    for item in value.values() if isinstance(value, dict) else value:  # noqa: SIM110
        if holds(item, test):
            return True
    return False


class _Learned:
    """The modules of which all parameters are known to be tensors, as long as no module or array is new."""

    def __init__(self) -> None:
        self.changes = 0
        # By identity: a user's class may have no hash.
        self._known: dict[int, tuple[ref[Any], int]] = {}

    def is_known(self, module: Any) -> bool:
        """Whether there is nothing to do for a module."""
        known = self._known.get(id(module))
        return known is not None and known[1] == self.changes and known[0]() is module

    def learn(self, module: Any) -> None:
        """Have the parameters of a module, and of all below it, be tensors that are learned."""
        module.make_learned()
        self.note(module)

    def note(self, module: Any) -> None:
        """Have a module, and all below it, be as they are when they are called."""
        self._known |= {id(m): (ref(m, partial(self._forget, id(m))), self.changes) for m in module.modules()}

    def _forget(self, number: int, _: object) -> None:
        self._known.pop(number, None)


LEARNED = _Learned()


__all__ = [
    "CALLS",
    "LEARNED",
    "Offered",
    "adopt",
    "as_arrays",
    "buffer_of",
    "fitting",
    "found_in",
    "has_tensor",
    "holds",
    "parameter_of",
]
