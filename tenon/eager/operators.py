"""Operators and methods of tensors: the functions of the ops, which the tensor is the first operand of."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tenon.dialects.definition.autocast import lowered
from tenon.dialects.definition.both_faces import BothFaces
from tenon.dialects.definition.methods import TensorMethods
from tenon.dialects.definition.registry import function_names, watch_generation
from tenon.dialects.definition.signature import flat
from tenon.dialects.support.suggestion import UnknownAttributeError, instead_or_meant
from tenon.eager.changes import kept, replace
from tenon.eager.recording import Stored, as_operands, check_together, op_call, record, wants_gradient
from tenon.eager.tape import Call
from tenon.runtime.call.callable_class import as_method
from tenon.runtime.evaluate import ArrayFunction, find_function

# The functions of ops that operators call, until an op is defined again.
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
watch_generation(_FUNCTIONS.clear)


def _found(name: str) -> Callable[..., Any]:
    function = _FUNCTIONS[name] = find_function(name)
    return function


def _binary(name: str) -> tuple[Any, Any, Any]:
    """An operator, which is the function of the op itself and needs no Python; its reflection; and it in place."""

    def reflected(self: Any, other: Any) -> Any:
        return (_FUNCTIONS.get(name) or _found(name))(other, self)

    def in_place(self: Any, other: Any) -> Any:
        function = _FUNCTIONS.get(name) or _found(name)
        if self._source is not None or self._is_traced or getattr(other, "_source", None) is not None:
            return change_by(self, function, (other,), {})
        # Nothing is recorded: the result takes the tensor's place at once, where nobody else sees its memory.
        result = function(self, other)
        array, memory = self._array, self._memory
        if type(result) is type(self) and memory is None and array.base is None and self._view is None:
            made = result._array
            if made.dtype is array.dtype and made.shape == array.shape:
                self._array = made
                return self
        return changed_to(self, result, name)

    return find_function(name), reflected, in_place


def change_by(tensor: Stored, function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Give `tensor` the elements of `function(tensor, *args)`, in its place."""
    result = function(kept(tensor, (*args, *settings.values())), *args, **settings)
    return changed_to(tensor, result, getattr(function, "__name__", "the function"))


def changed_to(tensor: Stored, result: Any, name: str) -> Any:
    """Give `tensor` the elements of what the function called `name` gave, in its place."""
    if not isinstance(result, Stored):
        raise TypeError(f"{name}_: the function gives a {type(result).__name__} where a tensor is needed")
    replace(tensor, result, f"{name}_")
    return tensor


class Operators(Stored, BothFaces, TensorMethods):
    """Arithmetic and comparisons, and all functions as methods; those with a trailing `_` change the tensor."""

    __slots__ = ()

    _op = staticmethod(find_function)
    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power")
    __matmul__, __rmatmul__, __imatmul__ = _binary("matmul")
    __and__, __rand__, __iand__ = _binary("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _binary("shift_left")
    __rshift__, __rrshift__, __irshift__ = _binary("shift_right")
    __lt__, __le__, __gt__, __ge__ = map(find_function, ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = find_function("equal"), find_function("not_equal")
    __neg__, __abs__, __invert__ = map(find_function, ("negative", "abs", "bitwise_not"))
    __hash__ = object.__hash__

    def __pos__(self) -> Any:
        return self

    if not TYPE_CHECKING:  # type checkers read `methods.pyi`

        def __getattr__(self, name: str) -> Callable[..., Any]:
            if name.startswith("_"):
                raise AttributeError(f"a tensor has no attribute {name!r}")
            method = _method(name)
            if method is None:
                message = f"a tensor has no attribute or op {name!r}"
                raise UnknownAttributeError(message, name, lambda: [*function_names(), *dir(self)], instead_or_meant)
            setattr(Operators, name, method)
            _METHODS.append(name)
            return getattr(self, name)


# The methods that were asked for, which the class has until an op is defined again.
_METHODS: list[str] = []


def _renew() -> None:
    while _METHODS:
        delattr(Operators, _METHODS.pop())
    for name, function in [*vars(Operators).items()]:
        if isinstance(function, ArrayFunction) and (own := find_function(function.__name__)) is not function:
            setattr(Operators, name, own)


watch_generation(_renew)


def _method(name: str) -> Callable[..., Any] | None:
    """The function called `name`, or what changes a tensor by that without the trailing `_`; `None` if none is."""
    function = find_function(name)
    if isinstance(function, ArrayFunction):
        return as_method(function)
    if function is not None:
        return lambda self, *args, **settings: function(self, *args, **settings)
    # A method of both faces comes before the op of its name.
    changing = vars(BothFaces).get(name[:-1]) or find_function(name[:-1]) if name.endswith("_") else None
    if changing is None:
        return None

    def in_place(self: Any, *args: Any, **settings: Any) -> Any:
        return change_by(self, changing, args, settings)

    return in_place


def run(new: Callable[[Any], Any], function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The function of an op, called on tensors among others; `new` makes a tensor of an array."""
    arrays = [given._array if isinstance(given, Stored) else _bare(given) for given in args]
    named = {name: v._array if isinstance(v, Stored) else v for name, v in settings.items()} if settings else settings
    check_together(function.__name__, (*args, *settings.values()))
    result = function(*arrays, **named)
    made = tuple(map(new, result)) if isinstance(result, tuple) else (new(result),)
    groups = [given for given in args if type(given) in (list, tuple)]
    if wants_gradient(args) or any(map(wants_gradient, groups)) or wants_gradient(settings.values()):
        record_op(function.op, args, settings, made)
    return made if isinstance(result, tuple) else made[0]


def _bare(given: Any) -> Any:
    """What is given beside tensors: of several operands in a list or a tuple, the arrays."""
    if type(given) not in (list, tuple):
        return given
    return type(given)([one._array if isinstance(one, Stored) else one for one in given])


_SIMPLE: dict[Any, Call] = {}
watch_generation(_SIMPLE.clear)
_MOST = 4096


def record_op(op: Any, args: tuple[Any, ...], settings: dict[str, Any], made: tuple[Any, ...]) -> None:
    """Note the call of an op on the tape."""
    count = len(op.SIGNATURE.operands)
    if op.SIGNATURE.is_plain and len(args) >= count and op.OTHER_NAMES.keys().isdisjoint(settings):
        key = op, lowered(op, args[:count]), args[count:], *settings.items()
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
