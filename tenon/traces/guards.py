"""Whether what a traced program was made from is still there: what it read, and the types of what it is given."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.eager.recording import Stored
from tenon.eager.tape import CHANGES_OF_HOOKS, Leaf
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.layout import Load, Test
from tenon.runtime.call.loaded import holding
from tenon.runtime.cuda.arrays import place_of
from tenon.runtime.reads.guards import Guards, guard_at
from tenon.runtime.reads.places import Place
from tenon.traces.reads import is_apart

_ANY, _NO_SOURCE, _SOURCE = range(3)


class TensorGuards(Guards):
    """What must hold for a program with tensors to be run."""

    def add_tensor(self, tensor: Any, name: str) -> None:
        """Have a tensor of the type that it has, and of the same part in gradients."""
        t, array = self._names.of(tensor), tensor._array
        shape, dtype = self._names.of(array.shape), self._names.of(array.dtype)
        kind, source = ("is", _NO_SOURCE) if tensor._source is None else ("is not", _SOURCE)
        check = f"{t}._array.shape == {shape} and {t}._array.dtype == {dtype} and {t}._source {kind} None"
        check = f"{check} and {self._names.of(place_of)}({t}._array) == {self._names.of(place_of(array))}"
        guard = Guard(Load.constant, Test.like, tensor, index=source, expected=_like(array))
        self.add(name, check, None if is_on_gpu(array) else guard)

    def add_data(self, place: Place, value: Any) -> None:
        """Have an array or a number of the same type in a place."""
        if type(value) is float:
            self.add_kind(place, float)
        else:
            self._add_fitting(place, value._array if isinstance(value, Stored) else value)

    def add_replaced(self, place: Place, tensor: Any, captured: set[int]) -> None:
        """Have a tensor of the same type in a place, which shares its memory with none that the program knows."""
        kind = _part_in_gradients(tensor)
        of, array = self._names.of, tensor._array
        type_ = f"{of(type(tensor))}, {of(array.shape)}, {of(array.dtype)}, {of(place_of(array))}"
        given = f"{type_}, {kind}, {of(captured)}"
        self.add(place.name, f"{of(is_replacement)}({self._names.read(place)}, {given})", None)

    def add_kind(self, place: Place, kind: type) -> None:
        """Have an object of a class in a place."""
        check = f"type({self._names.read(place)}) is {self._names.of(kind)}"
        self.add(place.name, check, guard_at(place, Test.kind, kind))

    def add_tree(self, place: Place, tree: Any) -> None:
        """Have a tuple, list or dict with as many items, or with these keys, in a place."""
        self.add_kind(place, type(tree))
        found = self._names.read(place)
        is_dict = isinstance(tree, dict)
        check = f"tuple({found}) == {self._names.of(tuple(tree))}" if is_dict else f"len({found}) == {len(tree)}"
        self.add(place.name, check, None)

    def add_hooks(self, tensors: Sequence[Any]) -> None:
        """Have the hooks on tensors that they have; these are compared where some were registered since."""
        if not tensors:
            return
        of, kept = self._names.of, CHANGES_OF_HOOKS.copy()
        hooks = hooks_of(tensors)
        check = f"{of(CHANGES_OF_HOOKS)}[0] == {kept[0]} or {of(hooks_of)}({of(tensors)}) == {of(hooks)}"
        native = Guard(Load.constant, Test.bits, CHANGES_OF_HOOKS, index=kept.itemsize, expected=kept)
        self.add("the hooks of a tensor", f"({check})", native)

    def add_gradient(self, tensor: Any, gradient: Any, name: str) -> None:
        """Have a gradient, or none."""
        place = Place(tensor, "_grad", name, is_attribute=True)
        if gradient is None:
            self.add(name, f"{self._names.of(tensor)}._grad is None", guard_at(place, Test.identity, None))
        else:
            self._add_fitting(place, gradient)

    def _add_fitting(self, place: Place, array: Any) -> None:
        of = self._names.of
        guard = guard_at(place, Test.like, _like(array), index=_NO_SOURCE) if isinstance(array, np.ndarray) else None
        type_ = f"{of(array.shape)}, {of(array.dtype)}, {of(place_of(array))}"
        check = f"{of(fits)}({self._names.read(place)}, {type_})"
        self.add(place.name, check, guard)

    def finish(self) -> None:
        """Make one function of all checks."""
        super().finish()
        self._hold = holding(self.native)

    def hold(self) -> bool:
        """Whether everything is as it was."""
        return (self._hold is not None and self._hold()) or super().hold()


def _part_in_gradients(tensor: Any) -> int:
    """Whether a tensor has no part in gradients (0), is one that they are with respect to (1), or a result (2)."""
    return 0 if tensor._source is None else 1 if tensor._source.node is None else 2


def is_replacement(value: Any, kind: type, shape: Any, dtype: Any, device: str, part: int, others: set[int]) -> bool:
    """Whether a value is a tensor of this type, without a gradient, and apart from others."""
    return (
        type(value) is kind
        and value._array.shape == shape
        and value._array.dtype == dtype
        and place_of(value._array) == device
        and value._grad is None
        and _part_in_gradients(value) == part
        and is_apart(value, others)
    )


def hooks_of(tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The hooks on tensors that gradients are with respect to."""
    sources = [tensor._source for tensor in tensors]
    return [tuple(s.hooks.values()) if type(s) is Leaf and s.has_hooks else () for s in sources]


def _like(array: Any) -> Any:
    """An array of a type, of next to no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def fits(value: Any, shape: Any, dtype: Any, device: str) -> bool:
    """Whether a value is an array, or a tensor of no gradient, of this type."""
    array = value._array if isinstance(value, Stored) else value
    return (
        (isinstance(array, np.ndarray | np.generic) or is_on_gpu(array))
        and array.shape == shape
        and array.dtype == dtype
        and place_of(array) == device
        and (array is value or value._source is None)
    )
