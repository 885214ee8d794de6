"""A fusion group, and how two of them run as one."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from xdsl.ir import Operation, SSAValue

from tenon.dialects.families import ContractionOp, ReductionOp

Loops = tuple[int | None, ...]
Edge = tuple[SSAValue, Operation, int]
"""A value, an op that uses it, and as which operand."""


class Group:
    """Ops that run together, `position` being that of the last one; sets of positions are kept as bits.

    `ancestors` has of each group that this one depends on some of the `members`, and none of any other group."""

    def __init__(self, op: Operation, position: int) -> None:
        self.operations = [op]
        self.position = position
        self.members = 1 << position
        self.ancestors = 0
        self.predecessors: set[Group] = set()
        self.successors: set[Group] = set()
        self.inputs: set[SSAValue] = set()
        self.pending: dict[SSAValue, int] = {}
        """How many uses outside of the group a value still has."""
        self.kept: set[SSAValue] = set()
        """Values whose elements of a whole row must be kept when all uses are inside."""
        self.loops: set[int] = set()
        self.shared: frozenset[int] = frozenset()
        self.accumulated: frozenset[int] = frozenset()
        """Shared loops over which some op adds up what only leaves the group."""
        self.added_up: set[SSAValue] = set()
        """What is added up so."""
        self.row_bytes = 0
        self.closed = True
        self.across: set[int] = set()
        """Loops of values that windows read across, which cannot be shared."""

    @property
    def contractions(self) -> list[Operation]:
        return [op for op in self.operations if isinstance(op, ContractionOp)]

    @property
    def sums_rows(self) -> bool:
        """Whether a reduction adds up the rows of shared loops."""
        return any(isinstance(value.owner, ReductionOp) for value in self.added_up)

    @property
    def has_rows(self) -> bool:
        return len(self.loops) > len(self.shared)

    @property
    def plan(self) -> Plan:
        """How the group runs with what joins it and changes nothing about that."""
        return Plan(self.shared, self.row_bytes, self.accumulated, (), frozenset(self.across))


@dataclass(frozen=True, slots=True)
class Plan:
    """How two groups run as one: the loops they share, and the bytes that one iteration of these keeps."""

    shared: frozenset[int]
    row_bytes: int = 0
    accumulated: frozenset[int] = frozenset()
    added_up: tuple[SSAValue, ...] = ()
    """Values that are only complete when all iterations of the accumulated loops have run."""
    across: frozenset[int] = frozenset()


def connect(before: Group, after: Group) -> None:
    """Note that `after` depends on `before`."""
    if before is after:
        return
    before.successors.add(after)
    after.predecessors.add(before)
    _propagate(after, before.ancestors | before.members)


def _propagate(group: Group, ancestors: int) -> None:
    pending = [(group, ancestors)]
    while pending:
        current, given = pending.pop()
        added = given & ~current.ancestors
        if added:
            current.ancestors |= added
            pending += [(successor, added) for successor in current.successors]


def take_place(small: Group, large: Group) -> None:
    """Let `large` stand in for `small` as well where groups depend on each other."""
    members = large.members | small.members
    ancestors = (large.ancestors | small.ancestors) & ~members
    # Those behind either group know it already: only what it comes to depend on may be new to them.
    for group in (small, large):
        added = ancestors & ~group.ancestors
        for successor in (group.successors - {small, large}) if added else ():
            _propagate(successor, added)
    for group in small.predecessors:
        group.successors.discard(small)
        group.successors.add(large)
    for group in small.successors:
        group.predecessors.discard(small)
        group.predecessors.add(large)
    large.predecessors = (large.predecessors | small.predecessors) - {small, large}
    large.successors = (large.successors | small.successors) - {small, large}
    for group in (*large.predecessors, *large.successors):
        group.successors.discard(small)
        group.predecessors.discard(small)
    large.predecessors.discard(large)
    large.members, large.ancestors = members, ancestors


def would_make_circle(left: Group, right: Group) -> bool:
    """Whether some other group depends on one of the two and is depended on by the other."""
    return any(group.ancestors & left.members for group in right.predecessors if group is not left) or any(
        group.ancestors & right.members for group in left.predecessors if group is not right
    )


def in_order(groups: set[Group]) -> list[Group]:
    """The groups so that each comes after those it depends on; as in the block where that leaves a choice."""
    waiting = {group: len(group.predecessors) for group in groups}
    ready: list[tuple[int, Group]] = []
    for group in groups:
        if not waiting[group]:
            heappush(ready, (group.position, group))
    ordered: list[Group] = []
    while ready:
        _, group = heappop(ready)
        ordered.append(group)
        for successor in group.successors:
            waiting[successor] -= 1
            if not waiting[successor]:
                heappush(ready, (successor.position, successor))
    assert len(ordered) == len(groups), "fusion groups depend on each other in a circle"
    return ordered
