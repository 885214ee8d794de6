"""What a traced function reads besides its arguments, with the tensors and the state that its program is given."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import numpy as np

from tenon.eager.changes import sharing
from tenon.eager.recording import Stored
from tenon.eager.tape import Leaf
from tenon.nn.module import Module
from tenon.runtime.arguments.tree import is_named_tuple
from tenon.runtime.reads.places import Holder, Place
from tenon.runtime.reads.reads import Reads, found_in
from tenon.seeds import COUNTED_STREAM
from tenon.traces.stand_ins import Written, key_of

NUMBERS = (int, float)


class TensorReads(Reads):
    """What was found, and the tensors and modules among it."""

    has_inputs = True

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.written = written
        self.tensors: dict[int, tuple[Any, str]] = {}
        """Tensors and what they are called, by identity."""
        self.modules: list[Module] = []
        self.states: dict[int, Holder] = {}
        """Lists and dicts in the state of optimizers."""
        self.replaced: list[tuple[Place, Any]] = []
        """Places whose tensors are replaced, and these: inputs, wherever the function has them from."""
        self.trees: list[tuple[Place, Any]] = []
        """Places whose lists, tuples and dicts are replaced, and these."""
        self.counted: list[tuple[Place, Any]] = []
        """Places whose numbers are changed, and these."""
        self.grown: list[tuple[Place, Any]] = []
        """Places of lists that are appended to, and these."""

    def _visit(self, value: Any, place: Place | None, name: str, *, data: Any = None) -> None:
        if id(value) in self.written.lists and _can_be_set(place):
            self._grow(value, place)
            return
        if place is not None and self.written.has(place) and self._replace(value, place):
            return
        super()._visit(value, place, name, data=data)
        if isinstance(value, Stored) and data == () and place is not None:
            self.tensors[id(value)] = (value, name)  # what a module calls its parameters is what others know

    def _enter(self, value: Any, name: str, data: Any) -> None:
        if not isinstance(value, Stored):
            super()._enter(value, name, data)
            return
        self.tensors.setdefault(id(value), (value, name))
        source = value._source
        if type(source) is Leaf and source.has_hooks:
            for hook in [*source.hooks.values()]:
                self._visit(hook, None, f"{name}.hook")
        for held in (*(() if value._view is None else (value._view.base,)), *sharing(value)):
            if id(held) not in self.objects:
                self._visit(held, None, f"{name}.base")

    def _add_object(self, value: Any, name: str) -> None:
        if isinstance(value, Module):
            self.modules.append(value)
        if (begin := getattr(type(value), "__tenon_begin__", None)) is not None:
            begin(value)
        super()._add_object(value, name)

    def _is_input(self, owner: Any, place: Place, value: Any, data: Any) -> bool:
        is_buffer = isinstance(owner, Module) and place.key in owner.buffer_names
        if is_buffer and isinstance(value, Stored) and value._source is None:
            self.data.append((place, value, False))
            return True
        return False

    def _add_container(self, value: Any, name: str, data: Any) -> None:
        super()._add_container(value, name, data)
        if data:
            self.states[id(value)] = self.holders[id(value)]

    def _grow(self, value: Any, place: Any) -> None:
        self.identities.append((place, value))
        self.grown.append((place, value))
        self.holders.setdefault(id(value), Holder(value, place.name))

    def _replace(self, value: Any, place: Place) -> bool:
        """Whether what is in a place that gets something else is an input, or has a stand-in."""
        if isinstance(value, Stored):
            if value._grad is not None:
                return False
            self.replaced.append((place, value))
        elif isinstance(value, np.ndarray | np.generic):
            self.data.append((place, value, True))
        elif type(value) in NUMBERS and self.written.has(place):
            self.counted.append((place, value))
        elif type(value) in (list, tuple, dict) or is_named_tuple(type(value)):
            return self._replace_items(value, place)
        else:
            return False
        return True

    def _replace_items(self, tree: Any, place: Place) -> bool:
        items = items_of(tree)
        if any(type(key) not in (int, str) for key in items):
            return False
        self.trees.append((place, tree))
        for key, item in items.items():
            inner = place.item(key)
            if not self._replace(item, inner):
                super()._visit(item, inner, inner.name)
        return True


def items_of(tree: Any) -> dict[Any, Any]:
    """What is in a dict, a list or a tuple, by keys; of anything else, and of what stands for a list, nothing."""
    if issubclass(type(tree), dict):
        return tree
    return dict(enumerate(tree)) if issubclass(type(tree), list | tuple) else {}


def _can_be_set(place: Place | None) -> bool:
    return place is not None and (
        place.is_attribute or (isinstance(place.container, dict | list | CellType) and not place.path)
    )


def reads_of(
    function: Callable[..., Any], arguments: list[tuple[Any, str]], leaves: Sequence[Any], written: Written
) -> TensorReads:
    """What `function` may read, and what can be reached from those of its arguments that are no arrays; of what it
    writes to, what is `written`. `leaves` are its arguments."""
    while True:
        reads = TensorReads(written)
        if written.draws:
            reads.add_argument(COUNTED_STREAM, "draws")
        found_in(reads, function, arguments)
        captured = {id(tensor) for tensor, _ in reads.tensors.values()}
        given = captured | {id(leaf) for leaf in leaves}  # which gradients may go to, too
        shared = {
            key_of(place)[:2]
            for place, tensor in reads.replaced
            if not is_apart(tensor, captured if tensor._source is None else given)
        }
        if not shared:
            return reads
        written.shared |= shared


def is_apart(tensor: Any, others: set[int]) -> bool:
    """Whether a tensor shares its memory with none of the others, which are known by their identity."""
    return id(tensor) not in others and all(id(held) not in others for held in sharing(tensor))
