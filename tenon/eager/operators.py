"""Operators and methods of tensors: the functions of the ops, which the tensor is the first operand of."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from tenon.dialects.definition.registry import function_names, watch_generation
from tenon.dialects.definition.signature import flat
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.suggestion import did_you_mean
from tenon.eager.changes import kept, replace
from tenon.eager.modes import MODE
from tenon.eager.recording import Stored, as_operands, op_call, record, wants_gradient
from tenon.eager.tape import Call
from tenon.runtime.evaluate import ArrayFunction, find_function

# The functions of ops that operators call, and how the tape names them.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Call]] = {}
watch_generation(_FUNCTIONS.clear)

_PLAIN = {bool, int, float, np.ndarray}
_TORCH_SETTINGS = {"dim": "axis", "keepdim": "keepdims"}


def _load(name: str, arity: int) -> tuple[Callable[..., Any], Call]:
    function = find_function(name)
    found = _FUNCTIONS[name] = function, op_call(function.op, (0.0,) * arity, {})
    return found


def _unary(name: str) -> Any:
    def operator(self: Any) -> Any:
        function, call = _FUNCTIONS.get(name) or _load(name, 1)
        result = self._new(function(self._array))
        if self._source is not None and MODE.records:
            record(call, as_operands((self,)), (result,))
        return result

    return operator


def _binary(name: str, *, is_reflected: bool = False) -> Any:
    def operator(self: Any, other: Any) -> Any:
        function, call = _FUNCTIONS.get(name) or _load(name, 2)
        is_recorded = self._source is not None
        array = other
        if isinstance(other, Stored):
            array = other._array
            is_recorded = is_recorded or other._source is not None
        elif type(other) not in _PLAIN:
            return function(other, self) if is_reflected else function(self, other)
        result = self._new(function(array, self._array) if is_reflected else function(self._array, array))
        if is_recorded and MODE.records:
            record(call, as_operands((other, self) if is_reflected else (self, other)), (result,))
        return result

    return operator


def _in_place(name: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return change_by(self, find_function(name), (other,), {})

    return operator


def change_by(tensor: Stored, function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Give `tensor` the elements of `function(tensor, *args)`, in its place."""
    result = function(kept(tensor), *args, **settings)
    name = getattr(function, "__name__", "the function")
    if not isinstance(result, Stored):
        raise TypeError(f"{name}_: the function gives a {type(result).__name__} where a tensor is needed")
    replace(tensor, result, f"{name}_")
    return tensor


class Operators(Stored):
    """Arithmetic and comparisons, and all functions as methods; those with a trailing `_` change the tensor."""

    __add__, __radd__, __iadd__ = _binary("add"), _binary("add", is_reflected=True), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _binary("subtract", is_reflected=True), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _binary("multiply", is_reflected=True), _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", is_reflected=True)
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", is_reflected=True)
    __mod__, __rmod__, __imod__ = _binary("remainder"), _binary("remainder", is_reflected=True), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power"), _binary("power", is_reflected=True), _in_place("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _binary("matmul", is_reflected=True)
    __and__, __rand__, __iand__ = (
        _binary("bitwise_and"),
        _binary("bitwise_and", is_reflected=True),
        _in_place("bitwise_and"),
    )
    __or__, __ror__, __ior__ = _binary("bitwise_or"), _binary("bitwise_or", is_reflected=True), _in_place("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", is_reflected=True)
    __lshift__, __rlshift__ = _binary("shift_left"), _binary("shift_left", is_reflected=True)
    __rshift__, __rrshift__ = _binary("shift_right"), _binary("shift_right", is_reflected=True)
    __itruediv__, __ifloordiv__, __ixor__ = _in_place("divide"), _in_place("floor_divide"), _in_place("bitwise_xor")
    __ilshift__, __irshift__, __imatmul__ = _in_place("shift_left"), _in_place("shift_right"), _in_place("matmul")
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("bitwise_not")
    __lt__, __le__, __gt__, __ge__ = (
        _binary("less"),
        _binary("less_equal"),
        _binary("greater"),
        _binary("greater_equal"),
    )
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __hash__ = object.__hash__

    def __pos__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"a tensor has no attribute {name!r}")
        method = _method(name)
        if method is None:
            raise AttributeError(f"a tensor has no attribute or op {name!r}{did_you_mean(name, function_names())}")
        setattr(Operators, name, method)
        _METHODS.append(name)
        return getattr(self, name)


# The methods that were asked for, which the class has until an op is defined again.
_METHODS: list[str] = []


def _forget() -> None:
    while _METHODS:
        delattr(Operators, _METHODS.pop())


watch_generation(_forget)


def _method(name: str) -> Callable[..., Any] | None:
    """The function called `name`, or what changes a tensor by that without the trailing `_`; `None` if none is."""
    function = find_function(name)
    if isinstance(function, ArrayFunction):

        def method(self: Any, *args: Any, **settings: Any) -> Any:
            known = _named(function, settings) if settings else settings
            if insertion_point() is not None:
                return function(self, *args, **known)
            return run(self._new, function, (self, *args), known)

        return method
    if function is not None:
        return lambda self, *args, **settings: function(self, *args, **settings)
    changing = find_function(name[:-1]) if name.endswith("_") else None
    if changing is None:
        return None

    def in_place(self: Any, *args: Any, **settings: Any) -> Any:
        return change_by(self, changing, args, _named(changing, settings))

    return in_place


def run(new: Callable[[Any], Any], function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The function of an op, called on tensors among others; `new` makes a tensor of an array."""
    arrays = [given._array if isinstance(given, Stored) else given for given in args]
    named = {name: v._array if isinstance(v, Stored) else v for name, v in settings.items()} if settings else settings
    result = function(*arrays, **named)
    made = tuple(map(new, result)) if isinstance(result, tuple) else (new(result),)
    if wants_gradient(args) or (settings and wants_gradient(settings.values())):
        record_op(function.op, args, settings, made)
    return made if isinstance(result, tuple) else made[0]


_SIMPLE: dict[Any, Call] = {}
watch_generation(_SIMPLE.clear)
_MOST = 4096


def record_op(op: Any, args: tuple[Any, ...], settings: dict[str, Any], made: tuple[Any, ...]) -> None:
    """Note the call of an op on the tape."""
    count = len(op.SIGNATURE.operands)
    if op.SIGNATURE.is_plain and len(args) >= count and op.KEYWORDS.keys().isdisjoint(settings):
        key = op, args[count:], *settings.items()
        with suppress(TypeError):  # of settings that are no keys
            call = _SIMPLE.get(key)
            if call is None:
                if len(_SIMPLE) >= _MOST:
                    _SIMPLE.clear()
                call = _SIMPLE[key] = op_call(op, *op.bind(args, settings))
            record(call, as_operands(args[:count]), made)
            return
    operands, known = op.bind(args, settings)
    record(op_call(op, operands, known), as_operands(flat(operands)), made)


def _named(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Settings under the names that the op has for them, where they have PyTorch's."""
    op = getattr(function, "op", None)
    if op is None or not settings:
        return settings
    known = op.SIGNATURE.settings
    return {
        own if name not in known and (own := _TORCH_SETTINGS.get(name)) in known else name: value
        for name, value in settings.items()
    }  # pyright: ignore[reportReturnType]
