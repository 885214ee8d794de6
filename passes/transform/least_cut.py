"""The lightest set of nodes of a graph that lies on all paths from some nodes to others.

It weighs as much as the most that can flow from the one to the other (Menger's theorem for weights; Ford and Fulkerson,
"Maximal flow through a network", 1956), which shortest paths find (Edmonds and Karp, 1972).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)
_End = tuple[int, bool]
"""A node by number, where it is entered (false) or left (true)."""


def least_cut(
    weights: Mapping[N, int], edges: Iterable[tuple[N, N]], sources: Iterable[N], sinks: Iterable[N]
) -> set[N]:
    """Nodes whose removal leaves no path from `sources` to `sinks`, which may be removed themselves; of the lightest
    such sets that nearest to the sinks. Edges of nodes without a weight are left out."""
    network = _Network[N](weights, edges)
    first = [(network.numbers[node], False) for node in sources if node in weights]
    last = {(network.numbers[node], True) for node in sinks if node in weights}
    while network.push(first, last):
        pass
    return network.cut_before(last)


class _Network(Generic[N]):
    """A flow through the nodes of a graph: each has two ends, between which no more may flow than it weighs."""

    def __init__(self, weights: Mapping[N, int], edges: Iterable[tuple[N, N]]) -> None:
        self.nodes = list(weights)
        self.numbers = {node: number for number, node in enumerate(self.nodes)}
        self.room = {((n, False), (n, True)): weights[node] for n, node in enumerate(self.nodes)}
        endless = 1 + sum(weights.values())
        for before, after in edges:
            if before in weights and after in weights:
                self.room[(self.numbers[before], True), (self.numbers[after], False)] = endless
        self.next: dict[_End, list[_End]] = {}
        for before, after in [*self.room]:
            self.room.setdefault((after, before), 0)
            self.next.setdefault(before, []).append(after)
            self.next.setdefault(after, []).append(before)

    def push(self, first: list[_End], last: set[_End]) -> bool:
        """Let as much flow as one more path has room for; false where there is none."""
        came: dict[_End, _End | None] = dict.fromkeys(first)
        waiting = deque(first)
        while waiting:
            end = waiting.popleft()
            if end in last:
                self._fill(came, end)
                return True
            for after in self.next[end]:
                if after not in came and self.room[end, after]:
                    came[after] = end
                    waiting.append(after)
        return False

    def _fill(self, came: Mapping[_End, _End | None], end: _End) -> None:
        path: list[tuple[_End, _End]] = []
        while (before := came[end]) is not None:
            path.append((before, end))
            end = before
        amount = min(self.room[step] for step in path)
        for before, after in path:
            self.room[before, after] -= amount
            self.room[after, before] += amount

    def cut_before(self, last: Iterable[_End]) -> set[N]:
        """The nodes that are full, and behind which there is room to the last ends."""
        behind = set(last)
        waiting = [*behind]
        while waiting:
            end = waiting.pop()
            for before in self.next[end]:
                if before not in behind and self.room[before, end]:
                    behind.add(before)
                    waiting.append(before)
        return {node for n, node in enumerate(self.nodes) if (n, True) in behind and (n, False) not in behind}
