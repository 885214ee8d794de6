"""Memory over time: which values may share a buffer, and where each buffer lies in one arena.

Time is a position in program order. The op at the even position `p` reads its operands until `p + 1` and writes its
results from `p + 1` on. An operand that the op only copies, or reads element by element before it writes that element,
is needed no longer than `p`. So two values may share memory exactly if no interval of the one meets an interval of the
other.

A value that is used in a loop and defined outside of it is live for the whole loop; a value that is used in one branch
of an `scf.if` is not live in the other. `plan_memory` gives each buffer an offset such that buffers that live at the
same time do not overlap; `memory_report` reads the same back from a buffered module.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.passes.machine import ALIGNMENT

Interval = tuple[int, int]
"""First and last position, both included."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer to be placed: its size in bytes, and the first and last position at which its content is needed."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PlannedBuffer:
    """A buffer in the arena: `bytes` from byte `offset` on, from position `first` to position `last`."""

    name: str
    bytes: int
    offset: int
    first: int
    last: int
    writer: str = ""
    """The kernel that writes it first, where that was read from a module."""

    def conflicts_with(self, other: PlannedBuffer) -> bool:
        """Whether both are live at some position and share a byte."""
        return (
            self.first <= other.last
            and other.first <= self.last
            and self.offset < other.offset + other.bytes
            and other.offset < self.offset + self.bytes
        )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where buffers lie in the arena; no plan needs less than `lower_bound`, the most bytes live at one position."""

    buffers: tuple[PlannedBuffer, ...]
    peak_bytes: int
    lower_bound: int

    def conflicts(self) -> list[tuple[PlannedBuffer, PlannedBuffer]]:
        """Pairs of buffers that are live together and overlap; none in a correct plan."""
        return [
            (left, right)
            for index, left in enumerate(self.buffers)
            for right in self.buffers[index + 1 :]
            if left.conflicts_with(right)
        ]

    def __str__(self) -> str:
        width = max((len(buffer.name) for buffer in self.buffers), default=0)
        rows = [
            f"{b.name:<{width}}  {b.bytes:>12} bytes at {b.offset:>12}  live {b.first}..{b.last}" for b in self.buffers
        ]
        return "\n".join([*rows, f"peak {self.peak_bytes} bytes, lower bound {self.lower_bound} bytes"])


def plan_memory(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> MemoryPlan:
    """Give each buffer an offset, a multiple of `alignment`, such that buffers that are live together do not overlap.

    One after another, each into the smallest gap that fits (best fit), largest first: the greedy-by-size of Pisarchyk
    and Lee, "Efficient memory management for deep neural net inference" (2020). Where that needs noticeably more than
    the lower bound, it is tried again with what ended highest placed first. The result keeps the order of `lifetimes`.
    Raises `ValueError` where the buffers have more bytes than an index counts.
    """
    if any(isinstance(lifetime.bytes, Size) for lifetime in lifetimes):
        return _plan_sizes(lifetimes, alignment)
    if (total := sum(lifetime.bytes + alignment for lifetime in lifetimes)) > _ENDLESS:
        raise ValueError(f"buffers of {total} bytes, which is more than an index counts")
    lower_bound = most_live_bytes(lifetimes)
    order = sorted(range(len(lifetimes)), key=lambda index: (-lifetimes[index].bytes, lifetimes[index].first, index))
    placing = _Placing(lifetimes, alignment)
    best, peak = offsets, _ = placing.placed(order)
    tried = {tuple(order)}
    enough = lower_bound + max(alignment * len(lifetimes), lower_bound // _NOTICEABLE)
    for _ in range(_ATTEMPTS - 1):
        if peak <= enough:
            break
        highest = max(order, key=lambda index: offsets[index] + lifetimes[index].bytes)
        order.remove(highest)
        order.insert(0, highest)
        if tuple(order) in tried:
            break
        tried.add(tuple(order))
        offsets, end = placing.placed(order)
        if end < peak:
            best, peak = offsets, end
    buffers = tuple(
        PlannedBuffer(lifetime.name, lifetime.bytes, offset, lifetime.first, lifetime.last)
        for lifetime, offset in zip(lifetimes, best, strict=True)
    )
    return MemoryPlan(buffers, peak, lower_bound)


_ATTEMPTS = 32
"""How often to try for less memory."""
_NOTICEABLE = 50
"""The share of the memory that is worth trying for: each attempt takes milliseconds where there are many buffers."""

_Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_ENDLESS = np.iinfo(np.int64).max


class _Placing:
    """Places buffers one after another, each into the smallest gap that fits between those that are live with it."""

    def __init__(self, lifetimes: Sequence[Lifetime], alignment: int) -> None:
        self._sizes: list[int] = [lifetime.bytes for lifetime in lifetimes]
        self._lengths = [-(-size // alignment) * alignment for size in self._sizes]
        firsts = np.array([lifetime.first for lifetime in lifetimes], dtype=np.int64)
        lasts = np.array([lifetime.last for lifetime in lifetimes], dtype=np.int64)
        self._together = [(firsts <= lifetime.last) & (lasts >= lifetime.first) for lifetime in lifetimes]
        """For each buffer, which ones are live with it."""

    def placed(self, order: Iterable[int]) -> tuple[list[int], int]:
        """The offset of each buffer, placed in this order, and where the last one ends."""
        count = len(self._sizes)
        begins, ends = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        by_begin: _Bytes = np.zeros(count, dtype=np.int64)
        """The buffers that are placed, by where they begin."""
        sorted_begins: list[int] = []
        offsets = [0] * count
        for index in order:
            size = self._sizes[index]
            if size == 0:
                continue
            number = len(sorted_begins)
            placed = by_begin[:number]
            met = placed[self._together[index][placed]]
            offset = _best_fit(begins[met], ends[met], size)
            place = bisect_right(sorted_begins, offset)
            sorted_begins.insert(place, offset)
            by_begin[place + 1 : number + 1] = by_begin[place:number]
            by_begin[place] = index
            begins[index], ends[index] = offset, offset + self._lengths[index]
            offsets[index] = offset
        return offsets, max([0, *map(add, offsets, self._sizes)])


@dataclass(frozen=True, slots=True)
class _Place:
    """Memory that buffers of equal sizes take turns at."""

    bytes: int
    offset: int
    taken: list[Lifetime] = field(default_factory=list[Lifetime])

    def has_room_for(self, lifetime: Lifetime) -> bool:
        """Whether a buffer has this size and none of those here is live when it is."""
        return self.bytes == lifetime.bytes and all(
            lifetime.last < other.first or other.last < lifetime.first for other in self.taken
        )


def _plan_sizes(lifetimes: Sequence[Lifetime], alignment: int) -> MemoryPlan:
    """The plan of buffers of which some have sizes that are known at launch only.

    Those come behind all others, one after another; buffers of equal sizes take turns at one place.
    """
    fixed = [lifetime for lifetime in lifetimes if not isinstance(lifetime.bytes, Size)]
    plan = plan_memory(fixed, alignment)
    planned = iter(plan.buffers)
    free: int = -(-plan.peak_bytes // alignment) * alignment
    places: list[_Place] = []
    buffers: list[PlannedBuffer] = []
    for lifetime in lifetimes:
        if not isinstance(lifetime.bytes, Size):
            buffers.append(next(planned))
            continue
        place = next((place for place in places if place.has_room_for(lifetime)), None)
        if place is None:
            place = _Place(lifetime.bytes, free)
            places.append(place)
            free = free + -(-lifetime.bytes // alignment) * alignment
        place.taken.append(lifetime)
        buffers.append(PlannedBuffer(lifetime.name, lifetime.bytes, place.offset, lifetime.first, lifetime.last))
    return MemoryPlan(tuple(buffers), free, free)


def _best_fit(begins: _Bytes, ends: _Bytes, size: int) -> int:
    """The start of the smallest free gap of `size` bytes between what lies from `begins`, in order, to `ends`."""
    free = np.zeros(len(begins) + 1, dtype=np.int64)
    np.maximum.accumulate(ends, out=free[1:])
    gaps = -free
    gaps[:-1] += begins
    gaps[-1] += _ENDLESS  # behind all there is room for anything
    gaps[gaps < size] = _ENDLESS
    return int(free[gaps.argmin()])


def most_live_bytes(lifetimes: Iterable[Lifetime]) -> int:
    """The most bytes that are needed at one position."""
    changes: dict[int, int] = {}
    for lifetime in lifetimes:
        changes[lifetime.first] = changes.get(lifetime.first, 0) + lifetime.bytes
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - lifetime.bytes
    live = most = 0
    for position in sorted(changes):
        live += changes[position]
        most = max(most, live)
    return most


# ----------------------------------------------------------------------------------------------------------------------
# Values over time
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Scope:
    """A function body, or one region of a control-flow op that starts at `op_start` and ends at `op_end`."""

    parent: Scope | None = None
    op_start: int = 0
    region_start: int = 0
    is_loop: bool = False
    depth: int = 0
    op_end: int = 0


@dataclass(eq=False, slots=True)
class Storage:
    """One piece of memory and when its content is needed.

    `home` is the memref it is pinned to (an argument), `constant` the data it holds; with neither it is a temporary.
    `donor` is the input whose memory it may be: it must not hold anything while that input is still read.
    With `slice_op` it is part of `slice_base`: the slice that this op takes or inserts.
    """

    bytes: int
    element_type: Attribute
    name: str = ""
    home: SSAValue | None = None
    constant: Attribute | None = None
    read_only: bool = False
    donor: Storage | None = None
    intervals: list[Interval] = field(default_factory=list[Interval])
    writes: list[int] = field(default_factory=list[int])
    reads: list[int] = field(default_factory=list[int])
    merged_into: Storage | None = None
    is_shared: bool = False
    has_slices: bool = False
    slice_op: Operation | None = None
    slice_base: Storage | None = None

    @property
    def root(self) -> Storage:
        """The storage this one was merged into, or itself."""
        storage = self
        while storage.merged_into is not None:
            storage = storage.merged_into
        if storage is not self:
            self.merged_into = storage
        return storage

    @property
    def base(self) -> Storage:
        """The storage whose memory this is, or is a slice of."""
        root = self.root
        return root if root.slice_base is None else root.slice_base.root

    @property
    def is_temporary(self) -> bool:
        """Whether it is memory of its own, neither pinned nor constant nor a slice."""
        return self.home is None and self.constant is None and self.slice_base is None

    def write_at(self, position: int) -> None:
        """Note that the content is set at `position`."""
        self.writes.append(position)
        self.intervals.append((position, position))

    def lifetime(self) -> Lifetime:
        """From the first to the last position of need, holes included. An op's reads end after its writes begin."""
        return Lifetime(self.name, self.bytes, self.intervals[0][0], self.intervals[-1][1] | 1)


@dataclass(eq=False, slots=True)
class Definition:
    """A tensor value (and its reshapes): where it is defined, where it is used, and in which storage it is kept."""

    storage: Storage
    scope: Scope
    start: int
    is_undefined: bool = False
    uses: list[tuple[Scope, int]] = field(default_factory=list[tuple[Scope, int]])

    def use(self, scope: Scope, position: int) -> None:
        """Note that the value is needed until `position`."""
        self.uses.append((scope, position))
        self.storage.reads.append(position)

    def live_intervals(self) -> list[Interval]:
        """Where the value is needed, in no order."""
        intervals = [(self.start, self.start)]
        for scope, end in self.uses:
            while scope is not self.scope:
                if scope.is_loop:
                    end = scope.op_end
                else:
                    intervals.append((scope.region_start, end))
                    end = scope.op_start
                assert scope.parent is not None, "a value is used outside the region that defines it"
                scope = scope.parent
            intervals.append((self.start, end))
        return intervals


def merged_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """The same positions as sorted intervals that do not meet."""
    result: list[Interval] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def intervals_meet(left: Sequence[Interval], right: Sequence[Interval]) -> bool:
    """Whether two sorted lists of intervals have a position in common."""
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i][1] < right[j][0]:
            i += 1
        elif right[j][1] < left[i][0]:
            j += 1
        else:
            return True
    return False


def try_merge(left: Storage, right: Storage) -> bool:
    """Keep both in the same memory from now on, if no position needs them both. Returns whether they do."""
    left, right = left.root, right.root
    if left is right:
        return True
    if left.read_only or right.read_only or (left.home is not None and right.home is not None):
        return False
    if left.bytes != right.bytes or left.element_type != right.element_type:
        return False
    if (left.has_slices and right.home is not None) or (right.has_slices and left.home is not None):
        return False
    if intervals_meet(left.intervals, right.intervals):
        return False
    if left.donor is not None and intervals_meet(left.donor.intervals, right.intervals):
        return False
    if right.donor is not None and intervals_meet(right.donor.intervals, left.intervals):
        return False
    kept, gone = (right, left) if right.home is not None else (left, right)
    gone.merged_into = kept
    kept.intervals = merged_intervals(kept.intervals + gone.intervals)
    kept.writes += gone.writes
    kept.reads += gone.reads
    kept.is_shared = True
    kept.has_slices = kept.has_slices or gone.has_slices
    return True
