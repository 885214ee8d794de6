"""Memory over time: which values may share a buffer, and where each buffer lies in one arena.

Time is a position in program order. The op at the even position `p` reads its operands until `p + 1` and writes its
results from `p + 1` on. An operand that the op only copies, or reads element by element before it writes that element,
is needed no longer than `p`. So two values may share memory exactly if no interval of the one meets an interval of the
other.

A value that is used in a loop and defined outside of it is live for the whole loop; a value that is used in one branch
of an `scf.if` is not live in the other. `plan_memory` gives each buffer an offset such that buffers that live at the
same time do not overlap, and `memory_report` reads the same back from a buffered module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.size import Size
from tenon.dialects.types import numpy_dtype

ARENA_ALIGNMENT = 64
"""Every planned buffer starts at a multiple of this many bytes: a cache line, and the widest vector."""

Interval = tuple[int, int]
"""First and last position, both included."""


def element_bytes(element_type: Attribute) -> int:
    """Bytes of one element in memory; an `i1` takes a whole byte."""
    try:
        return numpy_dtype(element_type).itemsize
    except KeyError:
        raise ValueError(f"memory plan: element type {element_type} has no size in memory") from None


def buffer_bytes(shaped: TensorType[Attribute] | MemRefType[Attribute]) -> int:
    """Bytes of a row-major buffer of this type."""
    total = element_bytes(shaped.element_type)
    for size in shaped.get_shape():
        total *= size
    return total


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


def plan_memory(lifetimes: Sequence[Lifetime], alignment: int = ARENA_ALIGNMENT) -> MemoryPlan:
    """Give each buffer an offset, a multiple of `alignment`, such that buffers that are live together do not overlap.

    Largest first, each into the smallest gap that fits (best fit): the greedy-by-size of Pisarchyk and Lee, "Efficient
    memory management for deep neural net inference" (2020). The result keeps the order of `lifetimes`.
    """
    if any(isinstance(lifetime.bytes, Size) for lifetime in lifetimes):
        return _plan_sizes(lifetimes, alignment)
    order = sorted(range(len(lifetimes)), key=lambda index: (-lifetimes[index].bytes, lifetimes[index].first, index))
    firsts, lasts, begins, ends = (np.zeros(len(lifetimes), dtype=np.int64) for _ in range(4))
    offsets = [0] * len(lifetimes)
    placed = 0
    for index in order:
        lifetime = lifetimes[index]
        if lifetime.bytes == 0:
            continue
        together = np.flatnonzero((firsts[:placed] <= lifetime.last) & (lasts[:placed] >= lifetime.first))
        occupied = sorted(zip(begins[together].tolist(), ends[together].tolist(), strict=True))
        offset = _best_fit(occupied, lifetime.bytes, alignment)
        firsts[placed], lasts[placed] = lifetime.first, lifetime.last
        begins[placed], ends[placed] = offset, offset + lifetime.bytes
        offsets[index] = offset
        placed += 1
    buffers = tuple(
        PlannedBuffer(lifetime.name, lifetime.bytes, offset, lifetime.first, lifetime.last)
        for lifetime, offset in zip(lifetimes, offsets, strict=True)
    )
    peak = max((buffer.offset + buffer.bytes for buffer in buffers), default=0)
    return MemoryPlan(buffers, peak, _most_live_bytes(lifetimes))


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


def _best_fit(occupied: Iterable[Interval], size: int, alignment: int) -> int:
    """The aligned start of the smallest free gap of `size` bytes between `occupied` spans, sorted by their start."""
    best, best_gap, free = -1, 0, 0
    for begin, end in occupied:
        gap = begin - free
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = free, gap
        free = max(free, -(-end // alignment) * alignment)
    return free if best < 0 else best


def _most_live_bytes(lifetimes: Iterable[Lifetime]) -> int:
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


# ----------------------------------------------------------------------------------------------------------------------
# Report on a buffered module
# ----------------------------------------------------------------------------------------------------------------------


def memory_report(module: ModuleOp, function_name: str = "main") -> MemoryPlan:
    """The plan that a buffered function follows, read off the views of its arena, which is its last argument.

    Views at the same offset value are one buffer. A buffer that a loop body reads, or writes in part, before the body
    has written all of it, is live for the whole loop, unless all accesses to it are in that body.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    if function_name not in functions:
        raise ValueError(f"memory report: the module has no function @{function_name}")
    reader = _ArenaReader(functions, functions[function_name].body.block)
    buffers = tuple(reader.planned_buffers())
    peak = max((buffer.offset + buffer.bytes for buffer in buffers), default=0)
    lifetimes = [Lifetime(buffer.name, buffer.bytes, buffer.first, buffer.last) for buffer in buffers]
    return MemoryPlan(buffers, peak, _most_live_bytes(lifetimes))


@dataclass(eq=False, slots=True)
class _ArenaBuffer:
    name: str
    bytes: int
    offset: int
    accesses: list[Interval] = field(default_factory=list[Interval])


@dataclass(eq=False, slots=True)
class _Frame:
    """A region on the way to the current op: whether it is a loop body, and the buffers that are set in it by now.

    `live_in` are the buffers that it reads, or writes in part, before they are set, each with whether its content must
    be kept from one iteration to the next in any case.
    """

    is_loop: bool = False
    live_in: list[tuple[_ArenaBuffer, bool]] = field(default_factory=list[tuple[_ArenaBuffer, bool]])
    written: set[_ArenaBuffer] = field(default_factory=set[_ArenaBuffer])


class _ArenaReader:
    """One walk over a buffered function that collects the accesses to each buffer of its arena."""

    def __init__(self, functions: dict[str, func.FuncOp], entry: Block):
        self._functions = functions
        self._arena = entry.args[-1]
        self._clock = 0
        self._buffers: dict[SSAValue, _ArenaBuffer] = {}
        self._aliases: dict[SSAValue, tuple[_ArenaBuffer, bool]] = {}
        self._frames = [_Frame()]
        self._live_in: list[tuple[_ArenaBuffer, bool, int, int]] = []
        self._walk(entry)

    def planned_buffers(self) -> Iterable[PlannedBuffer]:
        """The buffers in the order of their views."""
        for buffer, is_kept, start, end in self._live_in:
            # Content that comes and goes within one iteration is not carried by the loop.
            if is_kept or any(first < start or last > end for first, last in buffer.accesses):
                buffer.accesses.append((start, end))
        for buffer in self._buffers.values():
            first = min((access[0] for access in buffer.accesses), default=0)
            last = max((access[1] for access in buffer.accesses), default=0)
            yield PlannedBuffer(buffer.name, buffer.bytes, buffer.offset, first, last)

    def _walk(self, block: Block) -> None:
        for op in block.ops:
            self._clock += 2
            if isinstance(op, memref.ViewOp) and op.source is self._arena:
                self._view(op)
            elif isinstance(op, memref.ReinterpretCastOp | memref.SubviewOp | memref.CastOp):
                if (alias := self._aliases.get(op.operands[0])) is not None:
                    is_whole = alias[1] and buffer_bytes(_memref_type(op.results[0])) == alias[0].bytes
                    self._aliases[op.results[0]] = (alias[0], is_whole)
            else:
                self._access(op)
                if isinstance(op, scf.ForOp | scf.WhileOp):
                    self._loop(op)
                elif isinstance(op, scf.IfOp):
                    self._branches(op)

    def _loop(self, op: scf.ForOp | scf.WhileOp) -> None:
        start = self._clock
        frame = _Frame(is_loop=True)
        self._frames.append(frame)
        self._walk(op.regions[0].block)
        always_written = frozenset(frame.written) if isinstance(op, scf.WhileOp) else frozenset[_ArenaBuffer]()
        for region in op.regions[1:]:
            self._walk(region.block)
        self._frames.pop()
        self._frames[-1].written |= always_written
        self._clock += 2
        self._live_in += ((buffer, is_kept, start, self._clock) for buffer, is_kept in frame.live_in)

    def _branches(self, op: scf.IfOp) -> None:
        written: list[set[_ArenaBuffer]] = []
        for region in op.regions:
            self._frames.append(_Frame())
            for block in region.blocks:
                self._walk(block)
            written.append(self._frames.pop().written)
        self._frames[-1].written |= set[_ArenaBuffer].intersection(*written)

    def _view(self, op: memref.ViewOp) -> None:
        shift, owner, is_whole = op.byte_shift, op.byte_shift.owner, True
        while isinstance(owner, arith.AddiOp):
            shift, owner, is_whole = owner.lhs, owner.lhs.owner, False
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
            raise ValueError("memory report: a view of the arena must start at a constant, or a constant plus an index")
        size = buffer_bytes(_memref_type(op.result))
        buffer = self._buffers.get(shift)
        if buffer is None:
            name = op.result.name_hint or f"buffer_{len(self._buffers)}"
            buffer = self._buffers[shift] = _ArenaBuffer(name, size, owner.value.value.data)
        buffer.bytes = max(buffer.bytes, size)
        self._aliases[op.result] = (buffer, is_whole)

    def _access(self, op: Operation) -> None:
        first_written = self._first_written_operand(op)
        for index, operand in enumerate(op.operands):
            alias = self._aliases.get(operand)
            if alias is None:
                continue
            buffer, is_whole = alias
            if index >= first_written and is_whole:
                buffer.accesses.append((self._clock + 1, self._clock + 1))
                self._frames[-1].written.add(buffer)
                continue
            buffer.accesses.append((self._clock, self._clock + 1))
            # A part that one iteration writes is kept for the iterations that write the others.
            is_kept = index >= first_written
            for frame in reversed(self._frames):
                if buffer in frame.written:
                    break
                if frame.is_loop:
                    frame.live_in.append((buffer, is_kept))
                    is_kept = False

    def _first_written_operand(self, op: Operation) -> int:
        if isinstance(op, memref.CopyOp):
            return 1
        if isinstance(op, func.CallOp):
            inputs = self._functions[op.callee.string_value()].attributes.get("num_inputs")
            if isinstance(inputs, IntegerAttr):
                return inputs.value.data
        return len(op.operands)


def _memref_type(value: SSAValue) -> MemRefType[Attribute]:
    assert isinstance(value.type, MemRefType)
    return value.type
