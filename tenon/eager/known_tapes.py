"""`backward` of a tape like one before: native code walks the tape and finds its program, with no graph built.

Where each tape is another one, as of episodes of several lengths, a program for each would be compiled and not used
again. Once that has happened for long tapes, one that is new goes by the programs of its calls, and gets its own when
it comes again.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.ops.control.debug import checks_gradients
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.eager.backward import Graph, Program, Slot
from tenon.eager.engine import Gradients, gradients_of
from tenon.eager.modes import no_grad
from tenon.eager.recording import Stored, hooked
from tenon.eager.tape import Array, Call, Leaf, Node, Saved, Source
from tenon.eager.tape_programs import program_for, pull_back
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
_OFTEN = 16
"""Times that tapes of the same sizes come, until they are worth a program of their own."""
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
    large: tuple[int, ...]
    """The calls with arrays that are worth to be let go."""
    calls: tuple[Call, ...]
    """The calls of the tape, whose addresses are part of the key."""
    is_shared: bool
    """Whether the program is for tapes of other sizes as well."""
    unused: int = 0
    """How many of them there are, if the tape is long and has not come again."""
    uses: int = 0


_Part = tuple[_Known, list[Node], list[Any]]
"""What is done for a tape, or a part of one, its calls, and its ends."""
_Walk = tuple[Hashable, list[Node], list[Any]]
"""The key of a tape, its calls, and its ends."""
_LEAVES = frozenset([Leaf])
"""The class of the ends of a tape that is one program."""
_KNOWN: dict[Hashable, _Known] = {}
_SEEN: BoundedCache[tuple[Call, ...]] = BoundedCache(1024)
"""The calls of tapes that have gone by the programs of these."""
_epoch = -1


def backward_of_known(
    root: Source, seed: Any, new: Callable[[Array], Any], wanted: Set[Source] | None, *, retain: bool
) -> list[tuple[Leaf, Any]] | None:
    """The gradients with respect to the leaves that a result depends on, given its own (`None`: it is a number, and
    that is 1), or to those that are `wanted`; `None` where hooks, values that are not there any more, or gradients of
    other than leaves ask for the general way, with its errors."""
    if type(root) is not Node:
        is_python = root.node is not None and root.node.call.pull_back is not None and wanted is None
        return _through_python(root, seed, new, retain=retain) if is_python else None
    walk = _walked(root)
    if walk is None:
        return None
    if not _LEAVES.issuperset(map(type, walk[2])):  # which is no part of the key
        return _through_python(root, seed, new, retain=retain, walk=walk) if wanted is None else None
    found = _found(root, walk, seed, new, wanted, retain=retain)
    if found is None or isinstance(found, list):
        return found
    known, nodes, leaves = found
    made = _gradients(known, nodes, leaves, seed)
    has_hooks = any(leaf.has_hooks for leaf, _ in made)
    if wanted is not None or has_hooks:
        made = _joined(made)
    if has_hooks:
        with no_grad():
            made = [(leaf, hooked(leaf, gradient)) for leaf, gradient in made]
    if not retain:
        _release(known, nodes)
    return made


def _joined(made: list[tuple[Leaf, Any]]) -> list[tuple[Leaf, Any]]:
    """The gradients of leaves, those of several values of one tensor added up."""
    found: dict[Leaf, Any] = {}
    with no_grad():
        for leaf, gradient in made:
            known = found.get(leaf.first)
            found[leaf.first] = gradient if known is None else known + gradient
    return [*found.items()]


def _through_python(
    root: Source, seed: Any, new: Callable[[Array], Any], *, retain: bool, walk: _Walk | None = None
) -> list[tuple[Leaf, Any]] | None:
    """The same for a tape with calls whose gradients Python finds, between programs that are known, which begins with
    what native code found; `None` where it is not for these."""
    parts = _parts_of(root, new, walk)
    if parts is None:
        return None
    if seed is None:
        seed = parts[root][0].seed if root in parts else new(np.ones(root.shape, root.dtype))
    pending: dict[Source, Any] = {root: seed}
    of_leaves: dict[Leaf, Any] = {}
    python: list[Node] = []

    def collect(ends: Iterable[tuple[Any, Any]]) -> None:
        for end, gradient in ends:
            if end is not None and gradient is not None:
                into: dict[Any, Any] = pending
                if type(end) is Leaf:
                    into, end = of_leaves, end.first
                before = into.get(end)
                into[end] = gradient if before is None else before + gradient

    with no_grad():
        while pending:
            # What is computed last comes first: nothing is added to its gradient any more.
            source = max(pending, key=_number)
            node = source.node
            assert node is not None
            if node.call.pull_back is None:
                collect(_gradients(*parts[source], hooked(source, pending.pop(source))))
                continue
            of_results: list[Any] = [None] * node.count
            for result in [known for known in pending if known.node is node]:
                of_results[result.index] = hooked(result, pending.pop(result))
            collect(zip(node.sources, node.call.pull_back(node, of_results), strict=True))
            python.append(node)
        made = [(leaf, hooked(leaf, gradient)) for leaf, gradient in of_leaves.items()]
    if not retain:
        for known, nodes, _ in parts.values():
            _release(known, nodes)
        for node in python:
            node.release()
    return made


def _number(source: Source) -> int:
    return -1 if source.node is None else source.node.number


def _release(known: _Known, nodes: list[Node]) -> None:
    for node in nodes:
        node.is_released = True
    for place in known.large:
        nodes[place].release()


def _parts_of(root: Source, new: Callable[[Array], Any], walk: _Walk | None) -> dict[Source, _Part] | None:
    """The parts of a tape between calls whose gradients Python finds, by the sources that they begin with; `None`
    where one has hooks inside, or values that are not there any more, or where they have most of their calls in common,
    which then are to be gone through once."""
    walks: dict[Source, _Walk] = {}
    met: set[Source | None] = {None, root}
    pending = [root]
    while pending:
        source = pending.pop()
        node = source.node
        assert node is not None
        ends: Sequence[Source | None] = node.sources
        if node.call.pull_back is None:
            found = walk if source is root and walk is not None else None
            if found is None:
                found = _walked(source) if type(source) is Node else None
            if found is None:
                return None
            walks[source] = found
            ends = found[2]
        for end in ends:
            if end not in met:
                met.add(end)
                if end is not None and end.node is not None:
                    pending.append(end)
    if len(walks) > 2:
        calls = [node for _, nodes, _ in walks.values() for node in nodes]
        if len(calls) > 2 * len(set(calls)):
            return None
    return {source: (_known(source, found, new), *found[1:]) for source, found in walks.items()}


def ends_of_known(root: Source, seed: Any) -> list[tuple[Source, Any]] | None:
    """The same for a part of a tape, without hooks of its ends, down to these: leaves, and results of calls whose
    gradients Python finds."""
    walk = _walked(root) if type(root) is Node else None
    return None if walk is None else _gradients(_known(root, walk, seed._new), *walk[1:], seed)


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
    root: Node, walk: _Walk, seed: Any, new: Callable[[Array], Any], wanted: Set[Source] | None, *, retain: bool
) -> _Part | list[tuple[Any, Any]] | None:
    """What is done for a tape like this one, with its calls and ends; or the gradients, found call by call."""
    key, nodes, leaves = walk
    if wanted is not None:
        if any(type(source) is not Leaf for source in wanted):
            return None
        key = key, tuple([leaf.first in wanted for leaf in leaves])
    is_long = len(nodes) >= _LONG and not checks_gradients()
    if (
        is_long
        and _is_new(key)
        and sum(other.unused for other in _KNOWN.values()) >= _WASTED
        and _SEEN.get(key) is None
    ):
        _SEEN[key] = tuple([node.call for node in nodes])
        return _by_calls(root, seed, new, wanted, retain=retain)
    return _known(root, (key, nodes, leaves), new, wanted, unused=len(nodes) if is_long else 0), nodes, leaves


def _walked(root: Source) -> _Walk | None:
    """What native code finds of a tape, unless it has to be gone through in the general way."""
    functions = tape_functions()
    return None if functions is None else functions.walk(root)


def _is_new(key: Hashable) -> bool:
    """Whether nothing is known of tapes of a key."""
    global _epoch
    if _epoch != EPOCH[0]:
        _KNOWN.clear()
        _epoch = int(EPOCH[0])
    return key not in _KNOWN


def _known(
    root: Source, walk: _Walk, new: Callable[[Array], Any], wanted: Set[Source] | None = None, *, unused: int = 0
) -> _Known:
    """What is done for a tape; of one that is new, with that many calls of a long tape that has not come again."""
    key, nodes, leaves = walk
    if not _is_new(key):
        known = _KNOWN[key]
        known.unused = 0
        known.uses += 1
        if not known.is_shared or known.uses < _OFTEN:
            return known
        unused = 0
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    known = _made(root, nodes, leaves, new, wanted, is_own=key in _KNOWN)
    known.unused = 0 if known.is_shared else unused
    if not checks_gradients():  # what is checked names the lines of one tape
        _KNOWN[key] = known
    return known


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
    root: Source,
    nodes: list[Node],
    leaves: list[Any],
    new: Callable[[Array], Any],
    wanted: Set[Source] | None,
    *,
    is_own: bool,
) -> _Known:
    dtype, shape = root.type
    graph = Graph([root], frozenset([leaf for leaf in leaves if type(leaf) is not Leaf]), wanted)
    program = program_for(graph, [(dtype, shape)], is_own=is_own)
    orders = [graph.slots[slot].order for slot in program.reads]
    places = {leaf: place for place, leaf in enumerate(leaves)}
    reached = [end for end, is_reached in zip(graph.ends, program.reached, strict=True) if is_reached]
    return _Known(
        None if program.executable is None else _Pull(program.executable),
        _plan(graph, program, nodes),
        tuple([(place, order) for place, order in enumerate(orders) if order is not None]),
        new(np.ones(shape, dtype)),
        tuple([places[end] for end in reached if end in places]),
        tuple([place for place, node in enumerate(nodes) if node.has_large()]),
        tuple([node.call for node in nodes]),
        program.executable is not None and bool(program.executable.interface.sizes),
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
