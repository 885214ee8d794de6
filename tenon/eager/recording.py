"""Calls on tensors, noted on the tape where a gradient may be wanted."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from typing import Any, Self

import numpy as np

from tenon.dialects.definition.autocast import as_autocast, lowered
from tenon.dialects.definition.promotion import AdoptingFloat, exact
from tenon.dialects.definition.registry import generation
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import TracedValueError, Value, insertion_point, ops
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.plain_arrays import copied, is_on_gpu
from tenon.dialects.types.types import f32, f64
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import MODE
from tenon.eager.tape import (
    CHANGES_OF_HOOKS,
    Apply,
    Array,
    Call,
    DeviceNode,
    Kept,
    Leaf,
    Memory,
    Node,
    Operand,
    Parts,
    Saved,
    Source,
)
from tenon.runtime.call.loaded import tape_functions
from tenon.runtime.cuda.arrays import brought, place_of
from tenon.runtime.tracing.trace import ABSENT, Captures, TracingPoint
from tenon.runtime.tracing.watch import note_once

_CALLS: BoundedCache[Call] = BoundedCache(4096)
_NUMBERS = {bool, int, float}
_BEFORE, _KEEPING, _AFTER = 0, 1 << 61, 1 << 62
"""From which numbers on hooks replace gradients, keep them, and are called when they have been added to `grad`."""
_HOOKS = {first: count(first) for first in (_BEFORE, _KEEPING, _AFTER)}


class Around(Captures):
    """What a function of values takes from around it: arrays, and tensors that require a gradient, as further operands
    of its call."""

    def __init__(self) -> None:
        super().__init__()
        self._tensors: list[tuple[Stored, Array, Value]] = []

    def value_of_tensor(self, tensor: Stored) -> Value:
        """The input for a tensor; the same one, unless it was changed meanwhile."""
        for known, array, value in self._tensors:
            if known is tensor and array is tensor._array:
                return value
        array = tensor._array
        if any(known is tensor for known, *_ in self._tensors):
            note_once()  # it was changed
        self.holders[len(self.arrays)] = tensor
        value = self.input_for(array)
        self._tensors.append((tensor, array, value))
        return value

    def kept(self) -> Self:
        made = super().kept()
        made._tensors = [(tensor, ABSENT, value) for tensor, _, value in self._tensors]
        return made

    def again(self) -> Self:
        made = super().again()
        made._tensors = [(tensor, tensor._array, value) for tensor, _, value in self._tensors]
        return made

    def given_again(self, holder: Any) -> Any:
        is_recorded = any(known is holder for known, *_ in self._tensors)
        return holder._array if is_recorded else super().given_again(holder)

    @property
    def has_tensors(self) -> bool:
        """Whether tensors that require a gradient are among it."""
        return bool(self._tensors)

    def operands(self) -> list[Operand]:
        """What the tape keeps of the inputs, in their order."""
        sources = {id(array): tensor for tensor, array, _ in self._tensors}
        return [
            as_operands([sources[id(array)]])[0] if id(array) in sources else (None, Saved(array, Memory()))
            for array in self.arrays
        ]


def read_around(tensor: Stored) -> Value:
    """What stands for a tensor that requires a gradient in a function of values that reads it from around it. Raises
    `TracedValueError` where the call of that function is not one on the tape."""
    point = insertion_point()
    if isinstance(point, TracingPoint) and isinstance(point.captures, Around):
        return point.captures.value_of_tensor(tensor)
    raise TracedValueError(
        f"a tensor of shape {tensor._array.shape} that requires a gradient is read from around a function of "
        "arrays, whose result would have no gradient for it; call the function on tensors, give this one as an "
        "argument, or detach() it"
    )


class Stored:
    """What a tensor is to the tape: an array, its memory where that matters, and where its value came from.

    Native code makes tensors, and knows these fields by their places (`runtime/call/layout.py`).
    """

    __slots__ = ("__weakref__", "_array", "_grad", "_keeps_grad", "_memory", "_source", "_view")
    _array: Array
    _grad: Any
    _keeps_grad: Handle | None
    _memory: Memory | None
    _source: Source | None
    _view: Any

    __tenon_held__ = "_array"
    _is_traced = False
    """Whether a traced value is in the place of the array."""
    _is_offered = False
    """Whether it is a parameter that nothing learns so far."""

    def _hold(self, array: Array) -> None:
        self._array = array
        self._grad = self._keeps_grad = self._memory = self._source = self._view = None

    _laid: Array
    """An array that lies in memory as that of the tensor does: that itself, but for traced ones."""

    @staticmethod
    def _new(array: Array) -> Any:
        """A tensor with the memory of `array`."""
        raise NotImplementedError

    def _on(self, device: str) -> Any:
        """The tensor on a device."""
        raise NotImplementedError

    def _beside(self, array: Any) -> Any:
        """An array where that of the tensor is: itself, or a copy."""
        if is_on_gpu(array) or is_on_gpu(self._array):
            return brought(array, place_of(self._array))
        return array

    def _own_memory(self) -> Memory:
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory()
        return memory


Stored._laid = vars(Stored)["_array"]


def call_of(name: str, key: Hashable, apply: Apply, kept: Kept | None = None, parts: Parts | None = None) -> Call:
    """The `Call` of such a key."""
    key = (key, generation())
    known = _CALLS.get(key)
    if known is None:
        known = _CALLS[key] = Call(name, key, apply, kept)
        known.parts = parts
    return known


def op_call(cls: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Call:
    """The `Call` of an op, with operands in groups as its `bind` gives them, which `autocast` may convert."""
    low = lowered(cls, operands)
    groups = tuple([len(o) if isinstance(o, tuple) else o is None for o in operands])

    def apply_with(settings: Sequence[tuple[str, Any]]) -> Apply:
        def apply(values: Sequence[Any]) -> tuple[Any, ...]:
            rest = iter(values)
            args = [
                tuple([next(rest) for _ in range(group)]) if type(group) is int else None if group else next(rest)
                for group in groups
            ]
            result = cls.apply(*_adopted(cls, args if low is None else as_autocast(cls, args, low)), **dict(settings))
            return result if isinstance(result, tuple) else (result,)

        return apply

    given = tuple(settings.items())
    kind = (cls, groups, low, generation())
    key = (cls, groups, cls.known_settings(settings).identity, low)
    return call_of(cls.name, key, apply_with(given), parts=Parts(kind, given, apply_with))


def _adopted(cls: type[TensorOp], operands: Sequence[Any]) -> Sequence[Any]:
    """The operands of a call that is made again, in which numbers have the dtypes that they had the first time."""
    if not any(type(value) is AdoptingFloat for value in flat(operands)):
        return operands
    as_given = map_grouped(lambda value: 0.0 if type(value) is AdoptingFloat else value, operands)
    targets = iter(cls.operand_elements(as_given))

    def adopted(value: Any) -> Any:
        _, element = next(targets)
        # In f32 and f64 a weak float is what a literal is.
        is_narrower = type(value) is AdoptingFloat and element not in (f32, f64)
        return ops.cast(exact(value), dtype=element) if is_narrower else value

    return map_grouped(adopted, operands)


def check_together(name: str, given: Iterable[Any]) -> None:
    """Raise `ValueError` for operands, some of which may be in lists, on several devices: arrays of the host may stand
    beside tensors on a GPU, and so may a tensor on the CPU that is a number without gradient, but no other one."""
    each = [one for operand in given for one in (operand if type(operand) in (list, tuple) else (operand,))]
    held = [one._array if isinstance(one, Stored) else one for one in each]
    if not any(map(is_on_gpu, held)):
        return
    places = {
        place_of(array)
        for one, array in zip(each, held, strict=True)
        if is_on_gpu(array) or (isinstance(one, Stored) and (array.ndim or one._source is not None))
    }
    if len(places) > 1:
        raise ValueError(
            f"{name}: tensors are on {' and '.join(sorted(places))}, and have to be on one device; write x.to(device)"
        )


def wants_gradient(operands: Iterable[Any]) -> bool:
    """Whether a call on `operands` is to be recorded."""
    for operand in operands:
        if isinstance(operand, Stored) and operand._source is not None:
            return MODE.records
    return False


def is_learned(source: Source | None) -> bool:
    """Whether a gradient of something that is learned is found through `source`; parameters are, once they are used as
    such."""
    pending, seen = [source], set[Source | None]()
    while pending:
        known = pending.pop()
        if known is None or known in seen:
            continue
        seen.add(known)
        if known.node is not None:
            pending += known.node.sources
        elif not isinstance(known, Leaf) or known.tensor is None or not getattr(known.tensor(), "_is_offered", False):
            return True
    return False


def as_operands(operands: Sequence[Any]) -> list[Operand]:
    """What the tape keeps of what a call was given, as that is now. Arrays that could change unnoticed are copied."""
    kept: list[Operand] = []
    for given in operands:
        if isinstance(given, Stored):
            memory = given._memory
            if memory is None:
                memory = given._memory = Memory()
            kept.append((given._source, Saved(given._array, memory)))
        elif type(given) in _NUMBERS:
            kept.append((None, given))
        else:
            is_fixed = isinstance(given, np.ndarray) and not given.flags.writeable
            own = copied(given) if is_on_gpu(given) else given if is_fixed else np.array(given)
            kept.append((None, Saved(own, Memory())))
    return kept


def note(call: Call, given: Sequence[Any], result: Stored) -> None:
    """Note that `call` gave `result` of what is given now."""
    if not _NATIVE and (native := tape_functions()) is not None:
        _NATIVE.append(native.record)
    can_be_native = _NATIVE and type(result._array) is np.ndarray and is_differentiable(result._array.dtype)
    if not can_be_native or not _NATIVE[0](call, result, *given):
        record(call, as_operands(given), (result,))


_NATIVE: list[Callable[..., Any]] = []
"""What records calls natively, once that is known to work."""


def record(call: Call, operands: Sequence[Operand], results: Sequence[Stored], kept: Sequence[Array] = ()) -> None:
    """Note that `call` gave `results`, which are given their sources, and what it keeps besides."""
    saved = [Saved(result._array, result._own_memory()) for result in results]
    kind = DeviceNode if is_on_gpu(results[0]._array) else Node
    node = kind(call, operands, [*saved, *[Saved(array, Memory()) for array in kept]])
    for index, result in enumerate(results):
        array = result._array
        if is_differentiable(array.dtype):
            result._source = node.source(index)


class Handle:
    """A registered hook; `remove()` takes it away."""

    def __init__(self, source: Source, hook: Callable[[Any], Any], first: int = _BEFORE) -> None:
        self._hooks, self._number, self._is_of_leaf = source.hooks, next(_HOOKS[first]), source.node is None
        self._hooks[self._number] = hook
        CHANGES_OF_HOOKS[0] += self._is_of_leaf

    @classmethod
    def keeping(cls, source: Source, hook: Callable[[Any], Any]) -> Handle:
        """The registered hook that keeps a gradient as all others leave it."""
        return cls(source, hook, _KEEPING)

    @classmethod
    def after(cls, leaf: Source, hook: Callable[[Any], Any]) -> Handle:
        """A hook that `called_after` calls with a tensor."""
        return cls(leaf, hook, _AFTER)

    def move(self, source: Source) -> None:
        """Have the hook called for another value of its tensor."""
        self._hooks, hook = source.hooks, self._hooks.pop(self._number, None)
        if hook is not None:
            self._hooks[self._number] = hook

    def remove(self) -> None:
        """Have the hook called no more."""
        self._hooks.pop(self._number, None)
        CHANGES_OF_HOOKS[0] += self._is_of_leaf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def hooked(source: Source, gradient: Any) -> Any:
    """A gradient as the hooks of its source leave it."""
    if not source.has_hooks:  # asking for them would make a dict, and native code leaves tapes with hooks to Python
        return gradient
    for number, hook in sorted(source.hooks.items()):
        if number >= _AFTER:
            break
        changed = hook(gradient)
        if changed is None:
            continue
        if not isinstance(changed, Stored):
            raise TypeError(f"a hook gives a {type(changed).__name__} where a tensor or None is needed")
        if changed._array.shape != source.shape:
            raise ValueError(
                f"a hook gives a gradient of shape {changed._array.shape} for a tensor of shape {source.shape}"
            )
        gradient = changed
    return gradient


def called_after(source: Source, tensor: Any) -> None:
    """Call the hooks of a leaf that are called with its tensor when a gradient has been added to `grad`."""
    if source.has_hooks:
        for number, hook in sorted(source.hooks.items()):
            if number >= _AFTER and hook(tensor) is not None:
                raise TypeError(
                    "a hook that is called after a gradient was accumulated gives something, where None is needed"
                )
