"""Ops called on concrete arrays run at once: one executable per op, settings and operand types; from the second sizes
on one for all sizes, if there can be one, until calls of the same sizes are made often.

`evaluate` is what ops do on arrays wherever they are called. An `ArrayFunction` is what users find under the name of an
op: calls of it that are like one before go to the executable without Python, as those of compiled functions do.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Attribute

from tenon.dialects.definition import registry
from tenon.dialects.definition.autocast import autocast_element, like_autocast, lowered, precision
from tenon.dialects.definition.keywords import MeantOtherwise
from tenon.dialects.definition.one_program import install_compiler
from tenon.dialects.definition.promotion import adopted, is_literal
from tenon.dialects.definition.registry import generation, install_evaluator, install_functions, of_users
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.plain_arrays import as_stored, device_for, elements_of, is_on_gpu, put
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.dialects.types.assumptions import assuming, require_positive_sizes
from tenon.dialects.types.types import AnyTensor, array_type, i64, numpy_dtype
from tenon.runtime.arguments.arguments import Parameters, Static
from tenon.runtime.arguments.interface import EmptySizeError, SizeMismatchError, main_function
from tenon.runtime.arguments.leaf_sizes import meaning_of, with_names
from tenon.runtime.arguments.orders import Orders, orders_of
from tenon.runtime.arguments.outputs import leaves_of, sharing
from tenon.runtime.arguments.tree import flatten, paths, register_constant, tell_by_identity, unflatten
from tenon.runtime.call.callable_class import native_class
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.call.layout import ANY_PRECISION
from tenon.runtime.call.steps import IndescribableError, numbers_read_as
from tenon.runtime.call.tensors import call_on_tensors
from tenon.runtime.cuda.arrays import as_data, taken
from tenon.runtime.cuda.calls import OTHER, DeviceCalls
from tenon.runtime.epoch import EPOCH
from tenon.runtime.jit import jit
from tenon.runtime.knobs import knobs
from tenon.runtime.stages import Compiled, Traced
from tenon.runtime.tracing.trace import trace

_MOST_MADE, _OFTEN = 1024, 16
"""Calls of an op that are told apart by their sizes, and how many of the same sizes take about as long, beside native
ones, as compiling for these."""

_LONG = 14
"""Each time so many bits of the bytes of operands count as another call: large ones are soon worth their own code."""

_CALLS_OF_ANY_SIZES, _MOST_OF_ANY_SIZES = 64, 4096
"""Native calls of a program for all sizes after which one is counted, which takes as long as a hundred of them: where
sizes come again, and where many in a row are new and operands are small."""

_READ_IN_PLACE = 1 << 14
"""Bytes from which on an operand with its dimensions in another order is not copied."""

_NUMBERS = {float, int, bool}
_PLAIN = {np.ndarray, *_NUMBERS}
"""Classes of operands of native calls."""

_COMPILED: BoundedCache[Compiled] = BoundedCache(4096)


@dataclass
class _Calls:
    """Calls of an op that differ in sizes alone, and the program for all of them once there were two."""

    made: Counter[Any] = field(default_factory=Counter[Any])
    program: Compiled | None = None
    is_refused: bool = False
    uncounted: int = 1
    """The native calls that the program may serve until one is counted: twice as many for each new size in a row."""

    def for_all_sizes(self, key: Any, weight: int, compile_: Callable[[], Compiled]) -> Compiled | None:
        """The program, where there were calls of other sizes, and few of these, which are not worth their own yet.

        A call counts as often as its `weight` says, from the next one on.
        """
        is_first, before = not self.made, self.made[key]
        self.uncounted = 1 if before else min(2 * self.uncounted, 1 + _MOST_OF_ANY_SIZES // weight)
        if is_first or before or len(self.made) < _MOST_MADE:
            self.made[key] += weight
        if is_first or before >= _OFTEN or self.is_refused:
            return None
        if self.program is None:
            try:
                self.program = compile_()
            except Exception:  # what is wrong whatever the sizes are is found again when these are compiled for
                self.is_refused = True
        return self.program


_CALLS: BoundedCache[_Calls] = BoundedCache(4096)


def evaluate(cls: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Any:
    """The result of op `cls` on arrays and numbers (an array, or a tuple of them).

    An operand whose class defines `__tenon_op__(cls, operands, settings)` decides what the result is.
    """
    for operand in flat(operands):
        face = getattr(type(operand), "__tenon_op__", None)
        if face is not None:
            return face(cls, operands, settings)
    found = _compiled(cls, operands, settings)
    return found.program.launch(found.arrays)


class _Found(NamedTuple):
    """What runs an op on some operands."""

    key: Any
    """What tells the program from others."""
    program: Compiled
    arrays: list[np.ndarray[Any, Any]]
    """The operands as the program takes them."""
    orders: Orders
    """Which of them it takes as they lie in memory."""
    most: int = -1
    """The native calls that it serves until it is asked for again; -1: all."""


def _compiled(cls: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> _Found:
    """What runs op `cls` on such operands."""
    known = cls.known_settings(settings)
    device = device_for(flat(operands))
    if device != "cpu":  # dtypes are asked for before operands are arrays
        operands = map_grouped(taken, operands)
    low = lowered(cls, operands)
    grouped = _arrays(cls, operands, low)
    arrays = flat(grouped)
    orders = orders_of(arrays, least=_READ_IN_PLACE) if device == "cpu" else {}
    groups = tuple([len(o) if isinstance(o, tuple) else o is None for o in grouped])
    signature = tuple([(array.dtype, array.shape) for array in arrays])
    # What other settings gave is not meant, nor what was made before an op was defined again.
    meant = device, knobs.interpret, knobs.code_settings, generation()
    key = (cls, groups, known.identity, low, signature, *meant, *orders.items())
    compiled = _COMPILED.get(key)
    if compiled is None:
        _, structure = flatten((tuple(grouped), {}))
        names = [name.removeprefix("0.") for name in paths(structure)]

        def applied(args: Any, _: Any) -> Any:
            return cls.apply(*args, **settings)

        def program(types: Sequence[AnyTensor], orders: Orders) -> Compiled:
            with assuming(meaning_of(types, arrays)) as needed:
                traced = trace(applied, structure, arrays, types, names, orders=orders)
            require_positive_sizes(main_function(traced.module), needed)
            return Traced(traced.module, traced.result, device, cls.name.rpartition(".")[2]).compile()

        types = [array_type(array) for array in arrays]
        if not knobs.interpret and device == "cpu":
            # What lies in another order is copied: that takes less than to compile for sizes that may not come again.
            sized = with_names(types)
            kind = (*key[:4], sized, *meant)
            calls = _CALLS.setdefault(kind, _Calls())
            weight = 1 + (sum([array.nbytes for array in arrays]) >> _LONG)
            found = calls.for_all_sizes(key, weight, lambda: program(sized, {}))
            if found is not None and _takes(found, arrays):
                return _Found(kind, found, arrays, {}, max(_CALLS_OF_ANY_SIZES, calls.uncounted))
        compiled = _COMPILED[key] = program(types, orders)
    for position, place in orders.items():
        arrays[position] = place.whole(arrays[position])
    return _Found(key, compiled, arrays, orders)


def _takes(program: Compiled, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether a program for all sizes serves those of `arrays`."""
    try:
        program.interface.bind([array.shape for array in arrays])
    except (SizeMismatchError, EmptySizeError):
        return False
    return True


def _arrays(cls: type[TensorOp], operands: Sequence[Any], low: Attribute | None) -> list[Any]:
    """Operands as arrays; numbers become arrays of the dtype that they would adopt, where `autocast` converts others to
    what it has for `low`."""
    targets = iter(cls.operand_elements(operands if low is None else like_autocast(cls, operands, low)))

    def convert(value: Any) -> np.ndarray[Any, Any]:
        where, element = next(targets)
        if is_literal(value):
            if isinstance(value, bool) and element == i64:
                return np.asarray(value)  # what ops of truth values give may depend on that there are no others
            return np.asarray(adopted(value, element, where), numpy_dtype(element))
        return as_data(value, where)

    return map_grouped(convert, operands)


install_evaluator(evaluate)
install_compiler(lambda function, settings: jit(function, static=settings))


class ArrayFunction(NativeCalls):
    """The function of an op, calls of which on arrays are native."""

    __name__: str
    is_view = False
    """Whether it looks at a tensor in another way, which is done without it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._on_gpu = DeviceCalls(self)
        self._follow(function)

    def _follow(self, function: Callable[..., Any]) -> None:
        """Be the function of an op, as it is defined now."""
        self._function = function
        self.op: type[TensorOp] = function.op  # pyright: ignore[reportFunctionMemberAccess]
        settings = self.op.SIGNATURE.settings
        self._parameters = Parameters(function, tuple(settings))
        self._parameters.static |= {other for other, own in self.op.OTHER_NAMES.items() if own in settings}
        self._meanings = frozenset([name for name, meaning in self.op.OTHER_NAMES.items() if callable(meaning)])
        self._takes_several = any(operand.arity == "variadic" for operand in self.op.SIGNATURE.operands)

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run at once, on arrays; in a trace, join it. The result is written to `out`, where there is that argument."""
        current: Any = registry.find_function(self.__name__)
        if current is not self._function and getattr(getattr(current, "op", None), "name", None) == self.op.name:
            self._follow(current)  # the op was defined again since this was asked for
        try:
            return self._called(args, kwargs)
        except MeantOtherwise as other:
            meant = other.call
        return meant()

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "out" in kwargs and insertion_point() is None and "out" not in self.op.OTHER_NAMES:
            return self._into(kwargs.pop("out"), args, kwargs)
        if insertion_point() is not None:
            return self._function(*args, **kwargs)
        if kwargs and not self._meanings.isdisjoint(kwargs):  # they are calls of their own
            operands, settings = self.op.bind(args, kwargs)
            return self(*operands, **settings)
        if self._takes_several:
            operands, settings = self.op.bind(args, kwargs)
            if (made := self.op.in_parts(*operands, **settings)) is not None:
                return made
        face = self._face_of(args)
        if face is not None:
            return face(self, args, kwargs)
        if (calls := self._on_gpu) and (made := calls.run(args, kwargs)) is not OTHER:
            return made
        return self._run(args, kwargs)

    def _face_of(self, args: tuple[Any, ...]) -> Any:
        """What calls the function on operands of which one has a class that decides so."""
        for operand in args:
            ones = operand if self._takes_several and type(operand) in (list, tuple) else (operand,)
            for one in ones:
                face = getattr(type(one), "__tenon_function__", None)
                if face is not None:
                    return face
        return None

    def _into(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        face = getattr(type(out), "__tenon_out__", None)
        if face is not None:
            return face(out, self, args, kwargs)
        outputs = flatten(out)[0]
        arrays = [given for given in flat(self.op.bind(args, kwargs)[0]) if type(given) is np.ndarray]
        is_plain = all(type(o) is np.ndarray and o.flags.c_contiguous and o.flags.aligned for o in outputs)
        if is_plain and autocast_element() is None and not sharing([*outputs, *arrays]):
            return self._run(args, kwargs, out)
        found, structure = flatten(self(*args, **kwargs))
        for target, array in zip(leaves_of(self.op.name, out, structure), found, strict=True):
            _write(f"{self.op.name}: out", target, as_stored(elements_of(array)))
        return out

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None) -> Any:
        epoch = int(EPOCH[0])
        operands, settings = self.op.bind(args, kwargs)
        given = flat(operands)
        if not _PLAIN.issuperset(map(type, given)) and out is None:
            if device_for(given) == "cpu":
                return self._function(*args, **kwargs)
            return self._run_on_gpu(args, kwargs, operands, settings, epoch)
        found = _compiled(self.op, operands, settings)
        result = found.program.launch(found.arrays, out)
        leaves, structure = flatten(self._parameters.marked(args, kwargs))
        held = ANY_PRECISION if self.op.AUTOCAST is None else precision()
        kind = structure, found.key, tuple(map(type, leaves)), out is None, held
        if self._dispatch.wants(kind, epoch, found.most):
            entry = None
            if _are_operands(leaves, given) and _PLAIN.issuperset(map(type, given)):
                pairs = zip(given, found.arrays, strict=True)
                numbers = [(type(v), array.dtype) for v, array in pairs if type(v) is not np.ndarray]
                call = self._parameters.marked(args, kwargs)
                name = None
                if out is not None:
                    name, call = "out", (call[0], {**call[1], "out": out})
                on_tensors = None if self.is_view or name else call_on_tensors(self.op, operands, settings)
                with suppress(IndescribableError):
                    rest = found.orders, name, numbers_read_as(numbers), on_tensors, found.most
                    entry = found.program.entry_of(
                        *(call, structure, *rest), precision=held, has_ops_of_users=self.op in of_users()
                    )
            self._dispatch.add(self, kind, entry, epoch)
        return result

    def _run_on_gpu(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: Sequence[Any],
        settings: dict[str, Any],
        epoch: int,
    ) -> Any:
        found = _compiled(self.op, operands, settings)
        result = found.program.launch(found.arrays)
        given = flat(operands)
        leaves, structure = flatten(self._parameters.marked(args, kwargs))
        if autocast_element() is None and _are_operands(leaves, given):
            pairs = zip(given, found.arrays, strict=True)
            numbers = {i: array for i, (v, array) in enumerate(pairs) if type(v) in _NUMBERS}
            marked = [Static(leaf) if type(leaf) in _NUMBERS else leaf for leaf in leaves]
            positional, named = unflatten(structure, marked)
            kind = structure, found.key, tuple(kwargs), *[(type(given[i]), repr(given[i])) for i in numbers]
            marked_call = positional, named, numbers
            self._on_gpu.learn(kind, lambda native: found.program.device_call_of(*marked_call, native=native), epoch)
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: bound to its object, which is the first argument."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.__name__

    def __copy__(self) -> ArrayFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ArrayFunction:
        return self

    def __repr__(self) -> str:
        return repr(self._function)


# Functions belong to the structure of arguments.
tell_by_identity(ArrayFunction)
for _kind in (ArrayFunction, native_class(ArrayFunction)):
    register_constant(_kind)


def _write(where: str, target: Any, result: np.ndarray[Any, Any]) -> None:
    """Write a result to an array that the caller gave."""
    kind = "CuPy" if is_on_gpu(result) else "NumPy"
    if not (is_on_gpu(target) if kind == "CuPy" else isinstance(target, np.ndarray)):
        raise TypeError(f"{where} is of type {type(target).__name__} where a {kind} array is needed")
    if (target.dtype, target.shape) != (result.dtype, result.shape):
        raise ValueError(
            f"{where} is {target.dtype}{list(target.shape)} where the result is {result.dtype}{list(result.shape)}"
        )
    if kind == "NumPy" and not target.flags.writeable:
        raise ValueError(f"{where} is read-only")
    put(target, result)


def _are_operands(leaves: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether the leaves of a call, but for its settings, are the operands in their order."""
    data = [leaf for leaf in leaves if type(leaf) is not Static]
    return len(data) == len(operands) and all(map(operator.is_, data, operands))


def find_function(name: str) -> Any:
    """The function of the op called `name` without its dialect, or of one of its aliases, as users call it; `None` if
    there is none."""
    function = registry.find_function(name)
    if function is None or not hasattr(function, "op"):
        return function
    if not hasattr(function, "on_arrays"):
        function.on_arrays = ArrayFunction(function)  # pyright: ignore[reportFunctionMemberAccess]
    return function.on_arrays  # pyright: ignore[reportFunctionMemberAccess]


install_functions(find_function)
