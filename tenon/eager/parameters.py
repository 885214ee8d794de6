"""Parameters of modules between the two faces: arrays to functions of trees, tensors to what asks for them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Self
from weakref import ref

import numpy as np

from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import run_waiting
from tenon.eager.recording import Stored
from tenon.eager.tape import Array
from tenon.eager.tensor import Handle, Parameter, Tensor
from tenon.runtime.evaluate import evaluate


class _Calls(threading.local):
    """The buffers that calls of modules in progress in this thread have set, with what they were before."""

    journal: list[tuple[Any, str, Any]] | None = None


CALLS = _Calls()


class Offered(Parameter):
    """A parameter that its module has handed out (`parameters()`), and that nothing has used as a tensor so far.

    Until then its module is one of arrays, as before: to functions of trees (`jit`, `grad`, `Optimizer.update`), and
    where it is called on arrays. What uses the parameter makes it a `Parameter`, which stays the same object.
    """

    __slots__ = ()

    def requires_grad_(self, wanted: bool = True) -> Self:
        return adopt(self).requires_grad_(wanted)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        return adopt(self).register_hook(hook)

    def numpy(self) -> Array:
        """The elements as a NumPy array that shares the memory."""
        run_waiting()
        self._own_memory().is_exported = True
        return self._array

    @classmethod
    def __tenon_op__(cls, op: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        if _is_of_arrays(flat(operands)):
            return evaluate(op, map_grouped(as_arrays, operands), settings)
        return super().__tenon_op__(op, _adopted(operands), settings)

    @classmethod
    def __tenon_function__(cls, function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if _is_of_arrays((*args, *settings.values())):
            return function(*map(as_arrays, args), **{name: as_arrays(value) for name, value in settings.items()})
        return super().__tenon_function__(function, tuple(_adopted(args)), settings)

    @classmethod
    def __tenon_call__(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().__tenon_call__(function, tuple(_adopted(args)), kwargs)


def _is_of_arrays(operands: Iterable[Any]) -> bool:
    """Whether a call on these is made by a module that is called on arrays."""
    is_called = CALLS.journal is not None
    return is_called and all(type(value) is Offered or not isinstance(value, Stored) for value in operands)


def _adopted(operands: Sequence[Any]) -> Sequence[Any]:
    for operand in flat(operands):
        adopt(operand)
    return operands


def adopt(value: Any) -> Any:
    """`value`, which is used as a tensor from here on if it is a parameter."""
    if type(value) is Offered:
        value.__class__ = Parameter  # pyright: ignore[reportAttributeAccessIssue]
    return value


_OF_ARRAYS: dict[int, tuple[ref[Array], ref[Parameter]]] = {}
"""The parameters that were made of arrays, by their identities, so that one in two places becomes one parameter."""


def parameter_of(array: Any) -> Any:
    """The parameter with a copy of what a module holds, the same one for the same array; what is no array of floats,
    as it is. Raises `NotImplementedError` for an array on a GPU."""
    if is_on_gpu(array):
        raise NotImplementedError(
            "tensors, which backward() and step() need, are in the memory of the CPU, and this parameter is on a GPU: "
            "train by a function of jit(device='cuda'), or call cpu() of the module before"
        )
    if not isinstance(array, np.ndarray) or not is_differentiable(array.dtype):
        return array
    number = id(array)
    if number in _OF_ARRAYS and (known := _OF_ARRAYS[number][1]()) is not None:
        return known
    made = Parameter(array)
    made.__class__ = Offered
    _OF_ARRAYS[number] = ref(array, lambda _: _OF_ARRAYS.pop(number, None)), ref(made)
    return made


def as_arrays(value: Any) -> Any:
    """What a module has in an attribute, with the arrays of parameters that nothing has used as tensors so far."""
    if type(value) is Offered:
        return value._array
    if not isinstance(value, list | tuple | dict) or not _offers(value):
        return value
    if isinstance(value, dict):
        made = copy(value)
        made.update({key: as_arrays(item) for key, item in value.items()})
        return made
    items = [as_arrays(item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _offers(value: Any) -> bool:
    if isinstance(value, list | tuple | dict):
        return any(map(_offers, value.values() if isinstance(value, dict) else value))
    return type(value) is Offered


__all__ = ["CALLS", "Offered", "adopt", "as_arrays", "parameter_of"]
