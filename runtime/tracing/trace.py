"""From a Python function to tensor IR: arguments become traced values, and what is computed with them is recorded.

Each recorded op carries the user's file and line as its location.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FileLineColLoc, ModuleOp, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

import tenon.dialects.ops.library  # noqa: F401  # pyright: ignore[reportUnusedImport]  registers the ops
from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.promotion import forget_exact, weak_float
from tenon.dialects.definition.traits import KeepsMemory, states
from tenon.dialects.definition.value import InsertionPoint, TracedValueError, Value, inserting, insertion_point
from tenon.dialects.families import ScatterOp
from tenon.dialects.ops.control.debug import check_gradients_if
from tenon.dialects.support.frozen_arguments import freeze
from tenon.dialects.support.location import at_line, line_location
from tenon.dialects.support.plain_arrays import copied, elements_of, is_on_gpu, on_gpu_viewed
from tenon.dialects.support.user_traceback import (
    show_all_frames_if,
    show_user_frames_at_the_end,
    user_stacklevel,
)
from tenon.dialects.types.types import AnyTensor, array_type, element_of, shape_of, tensor_type
from tenon.passes.named_shapes import record_shapes
from tenon.passes.transform.check_results import check_results
from tenon.runtime.arguments.arguments import WideFloat, as_array, is_array, stored_type
from tenon.runtime.arguments.orders import Orders, Place, inverse
from tenon.runtime.arguments.tree import Structure, flatten, paths, unflatten
from tenon.runtime.knobs import knobs
from tenon.runtime.tracing.watch import Watch, watching

show_all_frames_if(lambda: knobs.traceback == "full")
show_user_frames_at_the_end()
check_gradients_if(lambda: knobs.check_gradients)


# The identities of the globals of Tenon's modules, which live as long as the process.
_OWN_GLOBALS: set[int] = set()


def user_location() -> FileLineColLoc | None:
    """The innermost line being run that is not Tenon's own."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        names = frame.f_globals
        if id(names) not in _OWN_GLOBALS:
            name = names.get("__name__", "")
            if not (name == "tenon" or name.startswith("tenon.")):
                return line_location(frame.f_code.co_filename, frame.f_lineno)
            if names is getattr(sys.modules.get(name), "__dict__", None):
                _OWN_GLOBALS.add(id(names))
        frame = frame.f_back
    return None


class Captures:
    """The arrays that a traced function takes from around it, as inputs of its program behind those that it declares.

    An array that is met again is the same input, unless it was written to meanwhile: its elements count as they were.
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._block: Block | None = None
        # with the arrays themselves, so that no other one gets their identity
        self._known: dict[int, list[tuple[Any, np.ndarray[Any, Any], Value]]] = {}
        self._held: dict[SSAValue, np.ndarray[Any, Any]] = {}
        self.holders: dict[int, Any] = {}
        """The tensors whose elements inputs are, by the numbers of these."""

    def begin(self, block: Block) -> None:
        """Make arguments of `block` of what is captured from now on."""
        self._block = block

    def value_of(self, array: np.ndarray[Any, Any]) -> Value | None:
        """The input for `array`, which is copied; `None` to have it as a constant."""
        assert self._block is not None
        same = self._known.setdefault(id(array), [])
        for _, held, value in same:
            is_known = held.dtype == array.dtype and held.shape == array.shape
            if is_known and (is_on_gpu(array) or held.tobytes() == array.tobytes()):
                return value
        held = copied(array) if is_on_gpu(array) else np.array(array, order="C")
        value = self.input_for(held)
        same.append((array, held, value))
        self._held[value.ssa] = held
        return value

    def is_of(self, array: Any, holder: Any) -> None:
        """Note the tensor that has an array which was met."""
        held = self._known[id(array)][-1][1] if self._known.get(id(array)) else None
        found = next((number for number, known in enumerate(self.arrays) if known is held), None)
        if found is not None:
            self.holders[found] = holder

    @property
    def foreign(self) -> list[tuple[Any, Any]]:
        """Arrays that may be others', with their elements as they were, but for those of tensors."""
        own = {id(self.arrays[number]) for number in self.holders}
        noted = of_others(noted for same in self._known.values() for noted in same if id(noted[1]) not in own)
        return [(array, held) for array, held, _ in noted]

    def kept(self) -> Self:
        """What other calls of the program need, without what is in tensors."""
        made = copy(self)
        made._known, made._held = {}, {}
        made.arrays = [array if number not in self.holders else ABSENT for number, array in enumerate(self.arrays)]
        return made

    def again(self) -> Self:
        """The inputs of another call, with what tensors hold by then."""
        made = copy(self)
        made.arrays = [*self.arrays]
        for number, holder in self.holders.items():
            made.arrays[number] = self.given_again(holder)
        return made

    def given_again(self, holder: Any) -> Any:
        """What is in a tensor now, as an input."""
        return np.array(elements_of(holder), order="C")

    def array_of(self, value: SSAValue) -> np.ndarray[Any, Any] | None:
        """The array that the input `value` stands for; `None` for what is no such input."""
        return self._held.get(value)

    def input_for(self, held: np.ndarray[Any, Any]) -> Value:
        """A new input, for `held`."""
        assert self._block is not None
        self.arrays.append(held)
        return Value(self._block.insert_arg(array_type(held), len(self._block.args)))


ABSENT = np.empty(0)
"""In the place of what a tensor holds, where that is not to be kept."""


N = TypeVar("N", bound=tuple[Any, ...])


def of_others(noted: Iterable[N]) -> list[N]:
    """Those of which the array, the first in each, may be others'. Arrays that nobody else has a reference to, now that
    the trace is over, were the function's own."""
    return [known for known in noted if known[0].base is not None or sys.getrefcount(known[0]) > _ALONE]


# as what it is noted in, and `getrefcount`, have it
_ALONE = 2


class TracingPoint(InsertionPoint):
    """The end of a block of the function being traced; ops get the user's line as location."""

    __slots__ = ("captures", "is_for_later")

    is_users = True

    def __init__(self, block: Block, captures: Captures | None = None, is_for_later: bool = False) -> None:
        super().__init__(block)
        self.captures = captures
        self.is_for_later = is_for_later

    def insert(self, op: Operation) -> None:
        self.block.add_op(op)
        location = user_location()
        if location is not None:
            op.location = location

    def captured(self, array: np.ndarray[Any, Any]) -> Value | None:
        return None if self.captures is None else self.captures.value_of(array)


def captured_array(value: SSAValue) -> np.ndarray[Any, Any] | None:
    """The array from around the function that is traced which `value` stands for; `None` where it stands for none."""
    point = insertion_point()
    captures = point.captures if isinstance(point, TracingPoint) else None
    return None if captures is None else captures.array_of(value)


def note_holder(array: Any, holder: Any) -> None:
    """Note the tensor that has an array which the function that is traced takes from around it."""
    point = insertion_point()
    captures = point.captures if isinstance(point, TracingPoint) else None
    if captures is not None:
        captures.is_of(array, holder)


def tracing_inside(block: Block) -> TracingPoint:
    """The end of `block`, which becomes a region of what is being traced, or is batched into it."""
    point = insertion_point()
    if isinstance(point, TracingPoint):
        return TracingPoint(block, point.captures, point.is_for_later)
    return TracingPoint(block)


def is_tracing_for_later() -> bool:
    """Whether a function is traced whose program runs at later calls, too, with all that it reads from around it."""
    point = insertion_point()
    return isinstance(point, TracingPoint) and point.is_for_later


@dataclass(frozen=True)
class Trace:
    """A traced function: a module with `@main`, and how results are put together."""

    module: ModuleOp
    result: Structure
    is_for_once: bool = False
    """Whether it holds for one call alone, even if the next one finds all as it was."""


def trace(
    function: Callable[[Any, Any], Any],
    structure: Structure,
    leaves: Sequence[Any],
    types: Sequence[AnyTensor | None],
    names: Sequence[str],
    donated: Sequence[bool] = (),
    frozen: Sequence[bool] = (),
    captures: Captures | None = None,
    orders: Orders = MappingProxyType({}),
    *,
    is_for_later: bool = False,
) -> Trace:
    """Run `function(args, kwargs)` on traced values.

    `structure` is that of `(args, kwargs)`; its leaves become traced values of `types`, or stay `leaves` where a type
    is `None`. A result whose type is that of a donated argument takes over its memory; arguments that are frozen are
    the same at every call. With `captures`, which then has them, arrays that `function` takes from around it are inputs
    behind the arguments; without, they are constants. A leaf with a place is an input as it lies in memory. Raises
    `TracedValueError` where a traced value is used outside of the function, branch or step that computed it.
    """
    stored = [_stored(t, orders.get(position)) for position, t in enumerate(types)]
    inputs: list[Attribute] = [t for t in stored if t is not None]
    main = func.FuncOp("main", (inputs, []))
    block = main.body.block
    data = [name for name, type_ in zip(names, types, strict=True) if type_ is not None]
    for argument, name in zip(block.args, data, strict=True):
        argument.name_hint = _identifier(name)
    arguments = iter(block.args)
    if captures is not None:
        captures.begin(block)
    with watching(TracedValueError) as watch, inserting(TracingPoint(block, captures, is_for_later)):
        given = [
            leaf if t is None else _argument(leaf, next(arguments), shape_of(t) or (), orders.get(position))
            for position, (leaf, t) in enumerate(zip(leaves, types, strict=True))
        ]
        _note_places(watch, leaves, given, names)
        args, kwargs = unflatten(structure, given)
        outputs, result = flatten(function(args, kwargs))
        values = [_result(leaf, name) for leaf, name in zip(outputs, paths(result), strict=True)]
        block.add_op(func.ReturnOp(*[v.ssa for v in values]))
    forget_exact(main)
    for lost in dict.fromkeys(watch.reports()):
        warnings.warn(lost, stacklevel=user_stacklevel())
        watch.is_for_once = True  # so that each call says so
    if knobs.check_results:
        check_results(block, infinities=knobs.check_results == "nan")
    main.update_function_type()
    record_shapes(main)
    if any(frozen):
        data = [is_frozen for is_frozen, type_ in zip(frozen, types, strict=True) if type_ is not None]
        freeze(main, [i for i, is_frozen in enumerate(data) if is_frozen])
    module = ModuleOp([main])
    check_scopes(module)
    if any(donated):
        data = [d for d, type_ in zip(donated, types, strict=True) if type_ is not None]
        main.attributes["donations"] = DenseArrayBase.from_list(i64, _donations(main, inputs, data))
    return Trace(module, result, watch.is_for_once)


def _stored(type_: AnyTensor | None, place: Place | None) -> AnyTensor | None:
    return type_ if type_ is None or place is None else tensor_type(place.shape, element_of(type_))


def _argument(leaf: Any, argument: SSAValue, shape: Sequence[int], place: Place | None) -> Value:
    value = Value(argument)
    if place is not None:
        if place.has_gaps(shape):
            steps = (*[1] * (len(shape) - 1), place.step)
            value = value.slice(starts=(0,) * len(shape), limits=place.limits(shape), strides=steps)
        return value.transpose(inverse(place.order))
    return weak_float(value) if type(leaf) is WideFloat else value


def traced(leaf: Any, name: str = "argument") -> Value:
    """A number or an array as a traced value; a float of Python's is f32 that loses nothing where it meets f64."""
    if isinstance(leaf, Value):
        return leaf
    if type(leaf) in (float, WideFloat):
        return weak_float(to_value(np.asarray(leaf, np.float64)))
    return to_value(_data(leaf, name))


def _data(leaf: Any, name: str) -> Any:
    """What a number or an array is given to ops as; one on a GPU stays there."""
    if hasattr(type(leaf), "__tenon_value__"):
        return leaf
    if is_on_gpu(leaf):
        stored_type(view := on_gpu_viewed(leaf), name)
        return view
    return as_array(leaf, name)


def _note_places(watch: Watch, leaves: Sequence[Any], given: Sequence[Any], names: Sequence[str]) -> None:
    """Note which of the values `given` for `leaves` stand for one array."""
    found: dict[int, list[int]] = {}
    for position, (leaf, value) in enumerate(zip(leaves, given, strict=True)):
        if value is not leaf:
            found.setdefault(id(leaf), []).append(position)
    for positions in found.values():
        if len(positions) > 1:
            for position in positions:
                watch.is_at(given[position], tuple([names[other] for other in positions]))


def _identifier(path: str) -> str | None:
    words = [word for word in path.split(".") if word.isascii()]
    name = "_".join(words)
    return name if name.replace("_", "a").isalnum() and not name[0].isdigit() else None


def _result(leaf: Any, name: str) -> Value:
    if isinstance(leaf, Value):
        return leaf
    if not is_array(leaf):
        raise TypeError(f"result {name} is a {type(leaf).__name__}, which is neither a tensor nor a number")
    return to_value(_data(leaf, f"result {name}"))


def check_scopes(module: ModuleOp) -> None:
    """Raise `TracedValueError` for an op on a value of another trace, or of a branch or step that has ended."""
    visible: set[Any] = set()

    def check(op: Operation) -> None:
        for operand in op.operands:
            if operand not in visible:
                raise TracedValueError(
                    f"{op.name}: an operand ({operand.type}) was traced in another function, branch or step, "
                    f"which has ended; pass it in as an argument or return it from there{at_line(op)}"
                )
        for region in op.regions:
            for block in region.blocks:
                visible.update(block.args)
                inside: list[Any] = []
                for inner in block.ops:
                    check(inner)
                    visible.update(inner.results)
                    inside.extend(inner.results)
                visible.difference_update(inside)
                visible.difference_update(block.args)

    check(module)


def _donations(main: func.FuncOp, inputs: Sequence[Attribute], donated: Sequence[bool]) -> list[int]:
    """For each result the donated argument of the same type that gives its memory, or -1; each is given once, to what
    updates it rather than to another result."""
    free = [i for i, given in enumerate(donated) if given]
    returned = main.body.block.last_op
    assert returned is not None
    choices = [-1] * len(returned.operands)
    wanted: list[Callable[[SSAValue], Sequence[int]]] = [_updated_arguments, lambda value: tuple(free)]
    for candidates in wanted:
        for number, value in enumerate(returned.operands):
            if choices[number] < 0:
                match = next((i for i in candidates(value) if i in free and inputs[i] == value.type), -1)
                choices[number] = match
                if match >= 0:
                    free.remove(match)
    return choices


def _updated_arguments(value: SSAValue) -> Sequence[int]:
    """The number of the argument that `value` is with some elements replaced, if it is one."""
    while isinstance(op := value.owner, ScatterOp) or (isinstance(op, Operation) and states(op, KeepsMemory)):
        value = op.operands[0]
    return (value.index,) if isinstance(value, BlockArgument) else ()
