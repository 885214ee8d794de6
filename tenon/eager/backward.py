"""Gradients of what is on the tape: one compiled program for each shape of a tape.

The program computes the recorded calls again, but wherever a gradient asks for what a call gave, the array that it gave
takes the place of what would be computed; so of the calls only what happened inside of them and was not kept is
computed again (functions of `jit` keep it, see `residuals`). Programs are found by what was called on what: functions,
settings, types, and who used whose results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.promotion import AdoptingFloat, weak_float
from tenon.dialects.definition.traits import GradientError
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.families.control_flow import erase_effects
from tenon.dialects.support.user_place import location_of, shown
from tenon.dialects.types.types import element_type, is_float, tensor_type
from tenon.eager.tape import Apply, Node, Operand, Saved, Source, Type, type_of
from tenon.passes.transform.differentiate import gradients
from tenon.runtime.arguments.orders import Order, inverse, order_of
from tenon.runtime.arguments.tree import flatten, paths
from tenon.runtime.executables import Executable, executable
from tenon.runtime.tracing.arguments_read import drop_arguments, read_arguments
from tenon.runtime.tracing.trace import Trace, trace, user_location

Slot = int
"""The number of an array of a tape, or of a number."""


@dataclass
class _Place:
    """What is known of a slot: the dtype and shape of an array, or the class of a number, and the elements."""

    type: Any
    elements: Any = None
    node: Node | None = None
    """A call that read or computed it."""

    @property
    def order(self) -> Order | None:
        """The dimensions in the order of memory, where that is another one and the program takes them so."""
        return order_of(self.elements.array, 0) if isinstance(self.elements, Saved) else None  # None on a GPU

    @property
    def array_type(self) -> Type:
        """The dtype and shape of the array as the program takes it."""
        dtype, shape = array_type_of(self.type)
        order = self.order
        return (dtype, shape) if order is None else (dtype, tuple([shape[axis] for axis in order]))


class Graph:
    """The calls that some results depend on, down to `ends`: leaves, and sources at which it is cut."""

    def __init__(
        self,
        roots: Sequence[Source],
        cuts: Set[Source] = frozenset(),
        wanted: Set[Source] | None = None,
        *,
        anew: bool = False,
    ) -> None:
        """`wanted` limits the ends. With `anew`, calls are made again from their operands, without what they keep for
        their gradients: so a gradient of the gradient sees all that it depends on."""
        self._cuts, self._wanted, self._anew = cuts, wanted, anew
        self.roots = roots
        self.nodes = self._reachable()
        self.device = self.nodes[0].device if self.nodes else "cpu"  # tensors of one call are on one
        self.slots: list[_Place] = []
        self.ends: list[Source] = []
        """Leaves and cuts: what gradients are with respect to."""
        self._of_ends: dict[Source, Slot] = {}
        self._of_saved: dict[Any, Slot] = {}
        self._of_results: dict[Node, list[Slot]] = {}
        self.wiring = tuple([self._wire(node) for node in self.nodes])
        """For each call its key, and the slots of its operands and results."""
        self.root_slots = tuple([self._slot_of(root) for root in roots])
        self.end_slots = tuple([self._of_ends[end] for end in self.ends])
        self.applies: dict[Node, Apply] = {}
        """What makes calls again where that is not as they were made."""

    def _is_inner(self, source: Source | None) -> bool:
        return source is not None and source.node is not None and source not in self._cuts

    def _reachable(self) -> list[Node]:
        """The calls, those first that others depend on."""
        found: set[Node] = set()
        pending = [root.node for root in self.roots if self._is_inner(root)]
        while pending:
            node = pending.pop()
            assert node is not None
            if node not in found:
                found.add(node)
                pending += [s.node for s in node.sources if s is not None and self._is_inner(s)]
        return sorted(found, key=lambda node: node.number)

    def _wire(self, node: Node) -> tuple[Hashable, tuple[Slot, ...], tuple[Slot, ...]]:
        operands = tuple([self._operand_slot(operand, node) for operand in node.given])
        computed, kept = node.computed, node.call.kept
        given = computed if kept is None else computed[: kept.given]
        results = tuple([self._add(type_of(result), result, node) for result in given])
        self._of_results[node] = [*results]
        reads = tuple([self._add(type_of(computed[i]), computed[i], node) for i in self._kept_reads(node)])
        return node.call.key, (*operands, *reads), results

    def _kept_reads(self, node: Node) -> tuple[int, ...]:
        return () if node.call.kept is None or self._anew else node.call.kept.reads

    def results_read(self, node: Node, slots: Sequence[Slot]) -> list[tuple[int, Slot]]:
        """Which results a call reads, given the slots that it is applied to: their numbers, and the slots of them."""
        reads = self._kept_reads(node)
        return list(zip(reads, slots[len(slots) - len(reads) :], strict=True))

    def _operand_slot(self, operand: Operand, node: Node) -> Slot:
        source, saved = operand
        if source is None:
            key = (id(saved.array), saved.version) if isinstance(saved, Saved) else object()
            if key not in self._of_saved:
                self._of_saved[key] = self._add(type_of(saved), saved, node)
            return self._of_saved[key]
        slot = self._slot_of(source)
        place = self.slots[slot]
        if isinstance(saved, Saved) and not node.is_released and (place.elements is None or place.elements.is_stale):
            place.elements, place.node = saved, node
        return slot

    def _slot_of(self, source: Source) -> Slot:
        if self._is_inner(source):
            assert source.node is not None
            return self._of_results[source.node][source.index]
        if source not in self._of_ends:
            if self._wanted is None or source in self._wanted or source.first in self._wanted:
                self.ends.append(source)
            self._of_ends[source] = self._add(source.type, None, None)
        return self._of_ends[source]

    def _add(self, type_: Any, saved: Any, node: Node | None) -> Slot:
        is_lost = isinstance(saved, tuple) or (node is not None and node.is_released)
        self.slots.append(_Place(type_, None if is_lost else saved, node))
        return len(self.slots) - 1

    @property
    def key(self) -> Hashable:
        """What tells the program for this graph from others."""
        types = tuple([(place.type, place.elements is None, place.order) for place in self.slots])
        return self.wiring, types, *self.places

    @property
    def places(self) -> tuple[Hashable, ...]:
        """Where it begins and ends, and on what device."""
        return self.root_slots, self.end_slots, self._anew, self.device

    def resize(self, slot: Slot, shape: tuple[int, ...]) -> None:
        """Give what is in a slot another shape, some sizes of which may have names."""
        place = self.slots[slot]
        if isinstance(place.type, tuple):
            place.type = (place.type[0], shape)

    def array(self, slot: Slot) -> Any:
        """What is in a slot. Raises `RuntimeError` if it was changed meanwhile."""
        place = self.slots[slot]
        if isinstance(place.elements, Saved):
            if isinstance(place.elements.array, Value):
                # A traced value stays what it was, whatever a tensor holds since.
                return place.elements.array
            place.elements.check(place.node)
            order = place.order
            return place.elements.array if order is None else place.elements.array.transpose(order)
        return np.asarray(place.elements)

    def source(self, slot: Slot) -> Source | None:
        """What the elements of a slot came from, for a gradient of the gradient."""
        for end, known in self._of_ends.items():
            if known == slot:
                return end
        for node, slots in self._of_results.items():
            if slot in slots:
                dtype, _ = self.slots[slot].type
                return node.source(slots.index(slot)) if is_differentiable(dtype) else None
        return None

    def results_of(self, node: Node) -> Sequence[Slot]:
        """The slots of what a call gave."""
        return self._of_results[node]

    def is_given(self, slot: Slot) -> bool:
        """Whether no call of the graph gives what is in a slot."""
        return not any(slot in slots for slots in self._of_results.values())

    def missing(self, slot: Slot) -> RuntimeError:
        """The error for a slot that is read, and has nothing in it."""
        node = self.slots[slot].node or next(iter(n for n in self.nodes if n.is_released), None)
        name = "a call" if node is None else f"{node.name}{shown(node.place)}"
        return RuntimeError(
            f"backward went through {name} before, and what it needs was let go; "
            "call backward(retain_graph=True) the first time"
        )

    def value(self, slot: Slot, array: Value | None) -> Value:
        """The value for a slot, given that of its array. What is not given is not read."""
        place = self.slots[slot]
        if array is None:
            dtype, shape = array_type_of(place.type)
            value: Value = ops.zeros(shape, element_type(dtype))
        else:
            value = array if place.order is None else ops.transpose(array, permutation=inverse(place.order))
        return AdoptingFloat(weak_float(value).ssa) if place.type is float else value

    def replayed(self, given: dict[Slot, Value]) -> tuple[dict[Slot, Value], list[tuple[Value, Value]]]:
        """The values of all slots, with the calls made again in a trace, and what was computed that is also given."""
        own = {slot for _, _, slots in self.wiring for slot in slots}
        rest = [slot for slot in range(len(self.slots)) if slot not in own]
        computed = {slot: given[slot] if slot in given else self.value(slot, None) for slot in rest}
        for slot in self.end_slots:
            # A value of its own: one array may be given for two slots.
            computed[slot] = ops.identity(computed[slot])
        replaced: list[tuple[Value, Value]] = []
        for node, (_, operands, slots) in zip(self.nodes, self.wiring, strict=True):
            values = [computed[o] for o in operands]
            results = _applied(node, values, self.applies.get(node), anew=self._anew)
            for slot, value in zip(slots, results, strict=True):
                # What a call gives as it got it is another value, too: one of them may have been overwritten.
                is_same = any(value is taken or value.ssa is taken.ssa for taken in values)
                value = ops.identity(value) if is_same else value
                computed[slot] = value
                if slot in given:
                    replaced.append((value, given[slot]))
        return computed, replaced

    def pulled_back(self, reads: Sequence[Slot], given: Sequence[Value]) -> list[Value | None]:
        """Gradients with respect to the ends, built in a trace of the values of the slots `reads` and of cotangents."""
        computed, replaced = self.replayed(dict(zip(reads, given, strict=False)))
        outputs = [computed[slot] for slot in self.root_slots]
        found = gradients(outputs, list(given[len(reads) :]), [computed[slot] for slot in self.end_slots])
        # What a call gives as it got it is somebody else's value.
        taken = {value.ssa for value in given}
        for value, saved in replaced:
            if value.ssa not in taken:
                value.ssa.replace_all_uses_with(saved.ssa)
        return found


def _applied(node: Node, operands: Sequence[Value], apply: Apply | None, *, anew: bool) -> tuple[Value, ...]:
    """What a recorded call gives when it is made again, by `apply` if that is given, which has no effects, at the
    user's line of the first time."""
    call = node.call
    point = insertion_point()
    assert point is not None
    last = point.block.last_op
    apply = apply or (call.apply if call.kept is None or anew else call.kept.apply)
    results = apply(operands)
    first, here = location_of(node.place), user_location()
    op = point.block.first_op if last is None else last.next_op
    while op is not None:
        following = op.next_op
        if first is not None and op.location == here:
            op.location = first
        erase_effects(op)
        op = following
    return results


@dataclass(frozen=True)
class Program:
    """A compiled program, and which arrays it is given: those whose elements it reads."""

    executable: Executable | None
    reads: tuple[Slot, ...]
    reached: tuple[bool, ...]
    """Which of what is differentiated with respect to has a gradient."""


@dataclass(frozen=True)
class Traced:
    """A program before it is compiled."""

    module: ModuleOp
    reads: tuple[Slot, ...]
    reached: tuple[bool, ...]

    def compiled(self, device: str) -> Program:
        """The program for a device."""
        made = executable(self.module, device, "backward") if any(self.reached) else None
        return Program(made, self.reads, self.reached)


def traced(graph: Graph, seeds: Sequence[Type]) -> Traced:
    """The program for a graph, for cotangents of the roots of such types."""
    slots = [slot for slot, place in enumerate(graph.slots) if place.elements is not None]
    missing = [slot for slot, place in enumerate(graph.slots) if place.elements is None and graph.is_given(slot)]
    taken = [*slots, *missing]
    made, reached = _traced(graph, seeds, taken)
    read = read_arguments(made.module, len(taken))
    reads = [taken[i] for i in read]
    if lost := [slot for slot in reads if graph.slots[slot].elements is None]:
        raise graph.missing(lost[0])
    drop_arguments(made.module, {*range(len(taken))}.difference(read))
    _note_needs(graph)
    return Traced(made.module, tuple(reads), tuple(reached))


def _note_needs(graph: Graph) -> None:
    """Find for each kind of call in `graph` which arrays its own gradient needs."""
    for node in graph.nodes:
        if node.signature not in node.call.needed and not node.is_released:
            with suppress(GradientError):  # of a result whose gradient nobody asks for: all arrays are kept
                node.call.note_needed(node.signature, _needs(node))


def noted_needs(graph: Graph, needed: Sequence[Any]) -> None:
    """Note what is known of calls like those of `graph`, but for sizes."""
    for node, known in zip(graph.nodes, needed, strict=True):
        if known is not None:
            node.call.note_needed(node.signature, known)


def _needs(node: Node) -> tuple[Sequence[bool], Sequence[bool]]:
    """Which operands and results of a call its gradient needs, or a gradient of that."""
    of_operands, of_results = [False] * len(node.given), [False] * len(node.computed)
    kept = node.call.kept
    types = list(map(type_of, node.computed[: None if kept is None else kept.given]))
    results = [node.source(i) for i, (dtype, _) in enumerate(types) if is_differentiable(dtype)]
    for anew in (False,) if kept is None else (False, True):
        graph = Graph(results, frozenset([source for source in node.sources if source is not None]), anew=anew)
        slots = range(len(graph.slots))
        made, _ = _traced(graph, [result.type for result in results], slots)
        read = {*read_arguments(made.module, len(slots))}
        ((_, operands, own),) = graph.wiring
        for needed, places in (
            (of_operands, enumerate(operands[: len(of_operands)])),
            (of_results, [*enumerate(own), *graph.results_read(node, operands)]),
        ):
            for number, slot in places:
                needed[number] |= slot in read
    return of_operands, of_results


def _traced(graph: Graph, seeds: Sequence[Type], reads: Sequence[Slot]) -> tuple[Trace, list[bool]]:
    """The program as a trace that takes the arrays of the slots `reads`, and then cotangents; and what is reached."""
    reached: list[bool] = []

    def function(*arrays: Value) -> Any:
        values = [graph.value(slot, array) for slot, array in zip(reads, arrays, strict=False)]
        found = graph.pulled_back(reads, [*values, *arrays[len(reads) :]])
        reached[:] = [gradient is not None for gradient in found]
        return tuple([gradient for gradient in found if gradient is not None])

    types = [graph.slots[slot].array_type for slot in reads]
    return trace_types(function, [*types, *seeds]), reached


def array_type_of(type_: Any) -> Type:
    """The dtype and shape of the array for what `type_of` gives."""
    if isinstance(type_, tuple):
        return type_
    return np.asarray(type_(0)).dtype, ()


def trace_types(function: Callable[..., Any], types: Sequence[Type], **settings: Any) -> Trace:
    """`function` of values of these types, traced, with `settings` as `trace` has them."""
    leaves = [np.empty((), dtype) for dtype, _ in types]
    _, structure = flatten((tuple(leaves), {}))
    names = [name.removeprefix("0.") for name in paths(structure)]
    tensors = [tensor_type(shape, element_type(dtype)) for dtype, shape in types]
    return trace(lambda args, _: function(*args), structure, leaves, tensors, names, **settings)


@cache
def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Whether elements of this dtype change continuously."""
    return is_float(element_type(dtype))
