"""From results back to leaves: hooks are called where they stand, and everything between them is one program; or a
program for each call, which other tapes have as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from tenon.eager.backward import Graph
from tenon.eager.tape import Node, Source

G = TypeVar("G")


@dataclass(frozen=True)
class Gradients(Generic[G]):
    """What is done with gradients of kind `G`."""

    pull_back: Callable[[Graph, Sequence[G]], Sequence[G | None]]
    """Gradients of the ends of a graph from those of its roots."""
    add: Callable[[G, G], G]
    hooked: Callable[[Source, G], G]
    """The gradient of a source as its hooks leave it."""
    known: Callable[[Source, G], Sequence[tuple[Source, G]] | None] | None = None
    """Gradients of leaves, and of what Python finds the gradients of, from that of one source, by a program that was
    made before; `None` where that does not do."""
    recorded: bool = False
    """Whether there may be gradients of them."""


def gradients_of(
    roots: Sequence[Source],
    cotangents: Sequence[G],
    how: Gradients[G],
    wanted: Set[Source] | None,
    *,
    retain: bool,
    by_calls: bool = False,
    captured: bool = False,
) -> dict[Source, G]:
    """The gradients with respect to leaves, or to what is `wanted`, by the `first` source of each, after their hooks;
    before these where they go on to others that are wanted, if `captured`; `by_calls`, by a program for each call.

    Unless they are to be retained, the arrays of the calls on the way are let go; if there is an error, they are not.
    """
    nodes, leading, hooked = _ways(roots, wanted)
    meetings = frozenset[Source]() if by_calls else _meetings(roots, nodes, hooked)
    stops = hooked | meetings | (wanted or frozenset())
    at_once = None if by_calls or meetings else how.known
    pending: dict[Source, G] = {}
    passed: dict[Source, G] = {}

    def taken(source: Source) -> G:
        # nothing is added to this gradient any more
        found = pending.pop(source)
        changed = how.hooked(source, found) if wanted is None or source in stops else found
        passed[source] = found if captured and source.node in leading else changed
        return changed

    def collect(found: Iterable[tuple[Source, G | None]]) -> None:
        for end, gradient in found:
            if gradient is not None:
                known = pending.get(end := _whole(end))
                pending[end] = gradient if known is None else how.add(known, gradient)

    def go_on(starts: Sequence[Source], given: Sequence[G]) -> None:
        if any(start.node in leading for start in starts):
            cuts = _operands_of(starts) if by_calls else stops - {*starts}
            collect(_ends_of(starts, given, how, at_once, cuts, None if wanted is None else cuts | stops))

    collect(zip(roots, cotangents, strict=True))
    free = [root for root in pending if root not in stops and root.node is not None and not by_calls]
    if free:
        go_on(free, [pending.pop(root) for root in free])
    while pending:
        # What is computed last comes first: nothing is added to its gradient any more.
        source = max(pending, key=lambda source: -1 if source.node is None else source.node.number)
        node = source.node
        starts = [source] if node is None else _results(node, pending)
        given = [taken(start) for start in starts]
        if node in leading and node.call.pull_back is not None:
            collect(_found_by_python(node, starts, given))
        elif node is not None:
            go_on(starts, given)
    if not retain:
        for node in nodes:
            node.release()
    if wanted is None:
        return {source: gradient for source, gradient in passed.items() if source.node is None}
    return {source: gradient for source, gradient in passed.items() if source in wanted}


def _whole(source: Source) -> Source:
    """The source itself, or of a leaf the one that stands for all values that the tensor had."""
    return source if source.node is not None else source.first


def _found_by_python(
    node: Node, results: Sequence[Source], gradients: Sequence[G]
) -> Iterable[tuple[Source, G | None]]:
    """Gradients of the operands of a call from those of its results, as `pull_back` of the call finds them."""
    assert node.call.pull_back is not None
    of_results: list[G | None] = [None] * node.count
    for result, gradient in zip(results, gradients, strict=True):
        of_results[result.index] = gradient
    found = zip(node.sources, node.call.pull_back(node, of_results), strict=True)
    return [(operand, gradient) for operand, gradient in found if operand is not None]


def _results(node: Node, pending: Iterable[Source]) -> list[Source]:
    """The sources among those that are `pending` that a call gave, in its order."""
    return sorted([source for source in pending if source.node is node], key=lambda source: source.index)


def _ends_of(
    starts: Sequence[Source],
    given: Sequence[G],
    how: Gradients[G],
    at_once: Callable[[Source, G], Sequence[tuple[Source, G]] | None] | None,
    cuts: Set[Source],
    wanted: Set[Source] | None,
) -> Iterable[tuple[Source, G | None]]:
    """The ends of the graph from some sources to where it is cut, with their gradients, as `known` of
    `Gradients` gives them, where that may be used `at_once`."""
    found = at_once(starts[0], given[0]) if at_once is not None and len(starts) == 1 else None
    if found is not None:
        return found
    graph = Graph(starts, cuts, wanted, anew=how.recorded)
    return zip(graph.ends, how.pull_back(graph, given), strict=True) if graph.ends else ()


def _operands_of(starts: Sequence[Source]) -> set[Source]:
    """What the calls that gave `starts` were given, which gradients go on to."""
    nodes = {start.node for start in starts}
    return {operand for node in nodes if node is not None for operand in node.sources if operand is not None}


def _ways(roots: Sequence[Source], wanted: Set[Source] | None) -> tuple[set[Node], set[Node], set[Source]]:
    """The calls that `roots` depend on, those among them that depend on what is wanted, and the sources that
    `_on_the_way` finds, as far as they are on the way to that: hooks of others are not called."""
    nodes, hooked = _on_the_way(roots)
    if wanted is None:
        return nodes, nodes, hooked
    leading = _leading_to(wanted, nodes)
    reached = leading.union([source.node for source in wanted if source.node is not None])
    return nodes, leading, {source for source in hooked if source in wanted or source.node in reached}


def _leading_to(wanted: Set[Source], nodes: set[Node]) -> set[Node]:
    """Those of the calls that depend on what is wanted."""
    leading: set[Node] = set()
    for node in sorted(nodes, key=lambda node: node.number):  # a call comes after those that it depends on
        if any(s is not None and (_whole(s) in wanted or s.node in leading) for s in node.sources):
            leading.add(node)
    return leading


def _on_the_way(roots: Sequence[Source]) -> tuple[set[Node], set[Source]]:
    """The calls that `roots` depend on, and the sources among what they read that have hooks, or that are results or
    operands of calls whose gradients Python finds."""
    nodes: set[Node] = set()
    hooked: set[Source] = set()
    pending = [*roots]
    while pending:
        source = pending.pop()
        if source.has_hooks:
            hooked.add(_whole(source))
        if source.node is None:
            continue
        is_cut = source.node.call.pull_back is not None
        if is_cut:
            hooked.add(source)
        if source.node not in nodes:
            nodes.add(source.node)
            operands = [operand for operand in source.node.sources if operand is not None]
            pending += operands
            if is_cut:
                hooked.update(map(_whole, operands))
    return nodes, hooked


def _meetings(roots: Sequence[Source], nodes: set[Node], stops: set[Source]) -> frozenset[Source]:
    """The results of calls that are gone through from several of the stops, and from the roots: with more stops there
    each call is gone through once, and parts between them that are alike are one program."""
    if all(stop.node is None for stop in stops):
        return frozenset()
    starts: dict[Node, Node | None] = {}
    meeting: set[Node] = set()

    def arrive(source: Source, start: Node | None) -> None:
        node = source.node
        if node is not None:
            start = node if source in stops else start
            if starts.setdefault(node, start) is not start:
                meeting.add(node)

    for root in roots:
        arrive(root, None)
    for node in sorted(nodes, key=lambda node: -node.number):  # a call comes before those that it depends on
        start = node if node in meeting else starts[node]
        for operand in node.sources:
            if operand is not None:
                arrive(operand, start)
    return frozenset([node.source(index) for node in meeting for index in range(node.count)])
