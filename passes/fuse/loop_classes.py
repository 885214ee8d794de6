"""Which loops of different ops are the same one."""

from __future__ import annotations


class LoopClasses:
    """Loops that were found to be the same one: disjoint sets whose last unions can be undone."""

    def __init__(self) -> None:
        self.extents: list[int] = []
        self._parents: list[int] = []
        self._log: list[int] = []

    def add(self, extent: int) -> int:
        self.extents.append(extent)
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def find(self, loop: int) -> int:
        parents = self._parents
        while parents[loop] != loop:
            loop = parents[loop]
        return loop

    def union(self, left: int, right: int) -> bool:
        """Make two loops one; false if their extents differ."""
        left, right = self.find(left), self.find(right)
        if left == right:
            return True
        if self.extents[left] != self.extents[right]:
            return False
        # The older loop stays, which keeps paths short when ops join one by one.
        low, high = min(left, right), max(left, right)
        self._parents[high] = low
        self._log.append(high)
        return True

    def mark(self) -> int:
        return len(self._log)

    def undo(self, mark: int) -> None:
        while len(self._log) > mark:
            loop = self._log.pop()
            self._parents[loop] = loop
