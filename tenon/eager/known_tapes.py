"""`backward` of a tape like one before: native code walks the tape and finds its program, with no graph built.

Where each tape is another one, as of episodes of several lengths, a program for each would be compiled and not used
again. Once that has happened for long tapes, one that is new goes by the programs of its calls, and gets its own when
it comes again.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.eager.backward import Graph, Program, Slot, program_for, pull_back
from tenon.eager.engine import Gradients, gradients_of
from tenon.eager.modes import no_grad
from tenon.eager.recording import Stored, hooked
from tenon.eager.tape import Array, Call, Leaf, Node, Saved, Source
from tenon.runtime.arguments.orders import Order
from tenon.runtime.arguments.tree import flatten
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.call.layout import PER_OPERAND, PER_RESULT
from tenon.runtime.call.loaded import tape_functions
from tenon.runtime.call.steps import IndescribableError, numbers_read_as
from tenon.runtime.epoch import EPOCH
from tenon.runtime.executables import Executable
from tenon.runtime.stages import Compiled

_MOST = 1024
_LONG, _WASTED = 24, 96
"""Calls from which on a tape is long, and how many of them in programs for long tapes that were not used again yet."""


def _refuse(values: Sequence[Any]) -> Any:
    raise AssertionError("what a gradient computes is not recorded here")


_CALL = Call("backward", "backward", _refuse)


class _Pull(NativeCalls):
    """The program of a tape: of what it reads and of a gradient, a tensor, gives gradients as tensors."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        epoch = int(EPOCH[0])
        given = [value._array if isinstance(value, Stored) else value for value in values]
        arrays = [np.asarray(value) for value in given]
        results = tuple(self._executable.run(arrays))
        key = tuple(map(type, given))
        if self._dispatch.wants(key, epoch):
            entry = None
            numbers = [(type(v), a.dtype) for v, a in zip(given, arrays, strict=True) if type(v) is not np.ndarray]
            _, structure = flatten((tuple(given), {}))
            compiled = Compiled(flatten(results)[1], "cpu", "backward", self._executable)
            with suppress(IndescribableError):
                entry = compiled.entry_of((tuple(given), {}), structure, {}, None, numbers_read_as(numbers), _CALL)
            self._dispatch.add(self, key, entry, epoch)
        return tuple([values[-1]._new(array) for array in results])


@dataclass
class _Known:
    """What is done for tapes of one key."""

    pull: _Pull | None
    plan: bytes
    """For each value that is read its call, whether it is a result, and its place (see `tenon_gather`)."""
    orders: tuple[tuple[int, Order], ...]
    """The arrays among them that are read with their axes in another order."""
    seed: Any
    """The gradient of a number that the tape ends in: 1."""
    leaves: tuple[int, ...]
    """The ends that have gradients."""
    are_leaves: bool
    """Whether all ends of the tape are leaves; others are results of calls whose gradients Python finds."""
    large: tuple[int, ...]
    """The calls with arrays that are worth to be let go."""
    calls: tuple[Call, ...]
    """The calls of the tape, whose addresses are part of the key."""
    unused: int = 0
    """How many of them there are, if the tape is long and has not come again."""


_KNOWN: dict[Hashable, _Known] = {}
_SEEN: BoundedCache[tuple[Call, ...]] = BoundedCache(1024)
"""The calls of tapes that have gone by the programs of these."""
_epoch = -1


def backward_of_known(
    root: Node, seed: Any, new: Callable[[Array], Any], wanted: Set[Source] | None, *, retain: bool
) -> list[tuple[Leaf, Any]] | None:
    """The gradients with respect to the leaves that a result depends on, given its own (`None`: it is a number, and
    that is 1), or to those that are `wanted`; `None` where hooks, values that are not there any more, or gradients of
    other than leaves, or Python's, ask for the general way, with its errors."""
    found = _found(root, seed, new, wanted, retain=retain)
    if found is None or isinstance(found, list):
        return found
    known, nodes, leaves = found
    if not known.are_leaves:
        return None
    made = _gradients(known, nodes, leaves, seed)
    if any(leaf.has_hooks for leaf, _ in made):
        with no_grad():
            made = [(leaf, hooked(leaf, gradient)) for leaf, gradient in made]
    if not retain:
        for node in nodes:
            node.is_released = True
        for place in known.large:
            nodes[place].release()
    return made


def ends_of_known(root: Source, seed: Any) -> list[tuple[Source, Any]] | None:
    """The same for a part of a tape, without hooks of its ends, down to these: leaves, and results of calls whose
    gradients Python finds."""
    if type(root) is not Node:
        return None
    found = _found(root, seed, seed._new, None, retain=True, is_part=True)
    return None if found is None or isinstance(found, list) else [*_gradients(*found, seed)]


def _gradients(known: _Known, nodes: list[Node], leaves: list[Any], seed: Any) -> list[tuple[Any, Any]]:
    """Gradients of the ends of a tape like one that is known."""
    functions = tape_functions()
    assert functions is not None
    read = functions.gather(nodes, known.plan, known.seed if seed is None else seed)
    if known.orders:
        read = [*read]
        for place, order in known.orders:
            read[place] = read[place].transpose(order)
    gradients = () if known.pull is None else known.pull(*read)
    return [(leaves[place], gradient) for place, gradient in zip(known.leaves, gradients, strict=True)]


def _found(
    root: Node,
    seed: Any,
    new: Callable[[Array], Any],
    wanted: Set[Source] | None,
    *,
    retain: bool,
    is_part: bool = False,
) -> tuple[_Known, list[Node], list[Any]] | list[tuple[Any, Any]] | None:
    """What is done for a tape like this one, with its calls and ends; or the gradients, found call by call."""
    global _epoch
    functions = tape_functions()
    found = None if functions is None else functions.walk(root)
    if functions is None or found is None:
        return None
    key, nodes, leaves = found
    if wanted is not None:
        if any(type(source) is not Leaf for source in wanted):
            return None
        key = key, tuple([leaf in wanted for leaf in leaves])
    if _epoch != EPOCH[0]:
        _KNOWN.clear()
        _epoch = int(EPOCH[0])
    known = _KNOWN.get(key)
    if known is not None:
        known.unused = 0
    else:
        is_long = len(nodes) >= _LONG and not (is_part or checks_gradients())
        if is_long and sum(other.unused for other in _KNOWN.values()) >= _WASTED and _SEEN.get(key) is None:
            _SEEN[key] = tuple([node.call for node in nodes])
            return _by_calls(root, seed, new, wanted, retain=retain)
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        known = _made(root, nodes, leaves, new, wanted)
        known.unused = len(nodes) if is_long else 0
        if not checks_gradients():  # what is checked names the lines of one tape
            _KNOWN[key] = known
    return known, nodes, leaves


def _by_calls(
    root: Node, seed: Any, new: Callable[[Array], Any], wanted: Set[Source] | None, *, retain: bool
) -> list[tuple[Any, Any]]:
    dtype, shape = root.type
    given = new(np.ones(shape, dtype)) if seed is None else seed
    how = Gradients(pulled_back, lambda a, b: a + b, hooked)
    with no_grad():
        return [*gradients_of([root], [given], how, wanted, retain=retain, by_calls=True).items()]


def pulled_back(graph: Graph, cotangents: Sequence[Any]) -> list[Any]:
    """Gradients, as tensors, of the ends of a graph."""
    found = pull_back(graph, [cotangent._array for cotangent in cotangents])
    return [None if array is None else cotangents[0]._new(array) for array in found]


def _made(
    root: Node, nodes: list[Node], leaves: list[Any], new: Callable[[Array], Any], wanted: Set[Source] | None
) -> _Known:
    dtype, shape = root.type
    graph = Graph([root], frozenset([leaf for leaf in leaves if type(leaf) is not Leaf]), wanted)
    program = program_for(graph, [(dtype, shape)])
    orders = [graph.slots[slot].order for slot in program.reads]
    places = {leaf: place for place, leaf in enumerate(leaves)}
    reached = [end for end, is_reached in zip(graph.ends, program.reached, strict=True) if is_reached]
    return _Known(
        None if program.executable is None else _Pull(program.executable),
        _plan(graph, program, nodes),
        tuple([(place, order) for place, order in enumerate(orders) if order is not None]),
        new(np.ones(shape, dtype)),
        tuple([places[end] for end in reached if end in places]),
        all(type(leaf) is Leaf for leaf in leaves),
        tuple([place for place, node in enumerate(nodes) if node.has_large()]),
        tuple([node.call for node in nodes]),
    )


def _plan(graph: Graph, program: Program, nodes: list[Node]) -> bytes:
    """Where what the program reads lies among the words of calls."""
    places = {node: place for place, node in enumerate(nodes)}
    found: dict[Slot, tuple[int, int, int]] = {}
    for node, (_, operands, results) in zip(graph.nodes, graph.wiring, strict=True):
        given, computed = node.given, node.computed
        for number, (slot, (_, saved)) in enumerate(zip(operands, given, strict=False)):
            if isinstance(saved, Saved) or not isinstance(saved, tuple):
                found.setdefault(slot, (places[node], 0, number * PER_OPERAND + PER_OPERAND - PER_RESULT))
        for number, slot in (*enumerate(results), *graph.results_read(node, operands)):
            if isinstance(computed[number], Saved):
                found.setdefault(slot, (places[node], 1, number * PER_RESULT))
    return np.array([found[slot] for slot in program.reads], np.int64).tobytes()
