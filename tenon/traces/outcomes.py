"""What a call of a program leaves behind: results, and what is written to tensors, arrays and places.

Each outcome is planned when the function is traced, and made again from the arrays of every call.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import as_stored, put
from tenon.dialects.support.user_place import shown
from tenon.eager.changes import is_private, sharing
from tenon.eager.modes import run_waiting
from tenon.eager.recording import Stored
from tenon.eager.tape import Leaf, Node, Source
from tenon.eager.tape import Place as Line
from tenon.eager.tensor import Tensor
from tenon.eager.views import Link, axes_step, index_step, spread_step
from tenon.runtime.arguments.tree import flatten, is_node, unflatten
from tenon.traces.changes import has_traced, hides_traced
from tenon.traces.session import Input, Session, root
from tenon.traces.stand_ins import Counted, Growing, TraceError
from tenon.traces.symbols import detach_step


def _nodes_of(results: Sequence[Source | None]) -> Iterator[Node]:
    """The calls that results depend on."""
    pending, seen = [*results], set[Node]()
    while pending:
        source = pending.pop()
        if source is not None and source.node is not None and source.node not in seen:
            seen.add(source.node)
            pending += source.node.sources
            yield source.node


def _goes_back(result: Source) -> bool:
    """Whether a gradient of what a call gave can be found: nothing that it depends on was let go."""
    return result.node is not None and not any(node.is_released for node in _nodes_of([result]))


def _python_behind(results: Sequence[Source | None]) -> str | None:
    """What of Python, which a program does not have, gradients of results go through; `None` for nothing."""
    for node in _nodes_of(results):
        is_own = node.call.pull_back is not None
        if is_own or any((node.hooks_of or {}).values()):
            what = f"backward of {node.name}" if is_own else f"a hook on what {node.name} gives"
            return f"{what}{shown(node.place)}"
    return None


@dataclass
class Made:
    """What one call has: its arguments, the arrays that the program gave, and the tensors made of them."""

    arguments: Sequence[Any]
    arrays: Sequence[Any]
    tensors: dict[int, Any]


Make = Callable[[Made], Any]


class Plan:
    """The outcomes of a function: values that the program gives, and what becomes of them."""

    def __init__(self, session: Session, keep_grad: bool) -> None:
        self._session = session
        self._keep_grad = keep_grad
        self.values: list[Value] = []
        self.donors: list[int | None] = []
        """For each value the input that gives it its memory."""
        self._tensors: list[tuple[int, Any]] = []
        """Positions of the values of new tensors, and these as they were traced."""
        self.tensors: list[tuple[int, bool, bool]] = []
        """Positions of the values of new tensors, whether they require a gradient of their own, and whether one goes
        through them."""
        self.contents: list[tuple[Input, int]] = []
        """Inputs whose elements are changed, and positions of these."""
        self.places: list[tuple[Any, Make]] = []
        self.items: list[tuple[Any, Any, int]] = []
        """Items of containers that become arrays: these, their keys, and positions of the arrays."""
        self.grown: list[tuple[Any, Make]] = []
        """Lists, and what is appended to them."""
        self.refilled: list[tuple[Any, set[Any]]] = []
        """Sets, and what is in them after a call."""
        self.gradients: list[tuple[Make, Make]] = []
        self.used: list[Make] = []
        """Tensors whose gradients are not kept."""
        self.result: Make = lambda _: None
        self.is_recorded = False
        """Whether some result depends on what requires a gradient."""
        self.python: str | None = None
        """What of Python gradients of results go through; then each call has to record what is in the function."""
        self._inputs: dict[int, Input] = {}
        self._known: dict[int, int] = {}

    def collect(self, result: Any) -> None:
        """Plan what is left of a trace whose function gave `result`."""
        inputs = self._session.inputs
        self._inputs = {id(given.symbol): given for given in inputs if isinstance(given.symbol, Stored)}
        for number, given in enumerate(inputs):
            if given.is_changed:
                self.contents.append((given, self._add(given.symbol._array, number)))
        for place, value in self._session.changes():
            donor = next(
                (i for i, g in enumerate(inputs) if g.place is not None and g.place.is_at(place.container, place.key)),
                None,
            )
            if isinstance(value, Value) and isinstance(place.container, dict | list):
                self.items.append((place.container, place.key, self._add(value, donor)))
            else:
                self.places.append((place, self._planned(value, donor)))
        self.refilled = self._session.standing.refilled
        self.grown = [(grown.target, self._planned(grown.items)) for grown in self._session.standing.grown]
        for tensor, gradient in self._session.gradients.values():
            if gradient is not None and not self._keep_grad and self._session.is_used_up(tensor):
                self.used.append(self._existing(tensor))
            elif id(tensor) in self._session._entered or id(tensor) in self._session._recorded:
                self.gradients.append((self._existing(tensor), self._planned(gradient)))
        self.result = self._planned(result)
        self.tensors = [
            (n, t._source is not None and t._source.node is None, t._source is not None) for n, t in self._tensors
        ]
        self.is_recorded = any(t._source is not None and _goes_back(t._source) for _, t in self._tensors)
        if self.is_recorded:
            self.python = _python_behind([t._source for _, t in self._tensors])
        if self.python is None:
            self.python = self._session.hooked()

    def settle(self) -> None:
        """Let go of what was traced."""
        self._tensors, self._inputs, self._known = [], {}, {}
        del self._session

    def _add(self, value: Value, donor: int | None = None) -> int:
        self.values.append(value)
        self.donors.append(donor)
        return len(self.values) - 1

    def _existing(self, tensor: Any) -> Make:
        """A tensor that is there before the call."""
        given = self._inputs.get(id(tensor))
        position, place = (None, None) if given is None else (given.argument, given.place)
        if position is not None:
            return lambda made: made.arguments[position]
        return (lambda _: tensor) if place is None else lambda _: place.get()

    def _planned(self, value: Any, donor: int | None = None) -> Make:
        """How `value` is made at each call."""
        if getattr(value, "_is_traced", False):
            return self._planned_tensor(value)
        if type(value) is Counted:
            return lambda made: value.replayed(value.place.get())
        if type(value) is Growing:
            return lambda made: value.target
        if isinstance(value, Value):
            number = self._add(value, donor)
            return lambda made: made.arrays[number]
        if isinstance(value, np.ndarray):
            kept = value.copy()
            return lambda made: kept.copy()
        if type(value) is dict:
            parts = {key: self._planned(item) for key, item in value.items()}
            return lambda made: {key: part(made) for key, part in parts.items()}
        if type(value) in (list, tuple):
            items, kind = [self._planned(item) for item in value], type(value)
            return lambda made: kind([item(made) for item in items])
        if is_node(type(value)) and id(value) not in self._session.reads.objects and has_traced(value):
            leaves, structure = flatten(value)
            makes = [self._planned(leaf) for leaf in leaves]
            return lambda made: unflatten(structure, [make(made) for make in makes])
        if hides_traced(value, self._session.reads.objects):
            raise TraceError(
                f"{self._session.name} gives or keeps a {type(value).__name__} with a tensor or a number of this "
                "call, which a program cannot make again; put these into a tuple, list, dict or dataclass"
            )
        return lambda made: value

    def _planned_tensor(self, tensor: Any) -> Make:
        if id(tensor) in self._session._entered or id(tensor) in self._inputs:
            return self._existing(tensor)
        base, links = root(tensor)
        if base is not tensor and (id(base) in self._session._entered or id(base) in self._known):
            make = self._planned_tensor(base)
            return lambda made: looked_at(make(made), links)
        number = self._known.get(id(tensor))
        if number is None:
            number = self._known[id(tensor)] = self._add(tensor._array)
            self._tensors.append((number, tensor))
        return lambda made: made.tensors[number]


def looked_at(tensor: Any, links: Sequence[Link]) -> Any:
    """A view of a tensor."""
    for make, given in links:
        if make is index_step:
            tensor = tensor[given[0]]
        elif make is axes_step:
            tensor = tensor.transpose(given[0])
        elif make is spread_step:
            tensor = tensor.broadcast_to(given[0])
        else:
            tensor = tensor.detach() if make is detach_step else tensor.reshape(given[1])
    return tensor


def new_tensor(array: Any, requires_grad: bool) -> Tensor:
    """A tensor of an array of a program."""
    made = Tensor._new(as_stored(array))
    return made.requires_grad_() if requires_grad else made


def change(target: Any, array: Any, line: Line) -> None:
    """Give a tensor, or an array of NumPy, the elements that a program has computed for it."""
    run_waiting()
    if not isinstance(target, Stored):
        if array is not target:
            put(target, array)
        return
    memory = target._memory
    if array is not target._array:
        if is_private(target):
            target._array, target._memory, memory = as_stored(array), None, None
        else:
            put(target._array, array)
    if memory is not None:
        memory.forget_dead()
        if not (memory.tensors or memory.is_exported) and sys.getrefcount(memory) <= _OWN_REFERENCES:
            target._memory = memory = None
    if memory is not None:
        memory.version += 1
        memory.changed_at = line
    for held in (target,) if memory is None or memory.tensors is None else sharing(target):
        source = held._source
        # Where no record has it, it may stand for the new elements as well.
        if type(source) is Leaf and sys.getrefcount(source) > _OWN_REFERENCES:
            held._source = source.renewed()


_OWN_REFERENCES = 3
"""What refers to a source, or a memory, that only its tensor has, in `change`."""
