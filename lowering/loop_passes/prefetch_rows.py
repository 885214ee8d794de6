"""`prefetch-rows`: what a later iteration reads at an index that is data is asked for in time.

Before: the loop stage. After: the same, where rows of large buffers that are found through an index are prefetched some
iterations ahead. The hardware foresees where a loop reads next as long as the places follow each other; a row whose
number was loaded (gather, scatter, an embedding) it does not, so that each first access waits for memory.

    scf.for %i = %c0 to %n step %c1 {                      scf.for %i = %c0 to %n step %c1 {
                                                             %a = arith.addi %i, 16
                                                             %b = arith.minsi %a, %n - 1
                                                             %q = memref.load %rows[%b]
                                                             memref.prefetch %x[%q, %j]
      %p = memref.load %rows[%i]                             %p = memref.load %rows[%i]
      %v = vector.load %x[%p, %j]                            %v = vector.load %x[%p, %j]

The row that is asked for is `ahead` bytes of rows away, but at least one row and `MOST_ROWS` at most. Only loops that
run over consecutive numbers are looked at, only vectors are prefetched, and only from buffers of `least` bytes or more:
smaller ones are in the caches anyway. The number of the row has to follow from the loop's own index, from loads out of
what the loop does not write, and from values that do not change in the loop. Where it follows from the indices of two
loops, as that of `table[rows[i, k]]` summed over k, the iterations of the inner one go on with those of the next of the
outer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of, touched_buffers
from tenon.lowering.loop_ir.nests import constant_int, index_constant
from tenon.passes.machine import GENERIC

MOST_ROWS = 16
"""Prefetches that are on their way at the same time: processors follow about as many."""

LOCALITY = 3
"""To the nearest cache."""

_LOADS = (vector.LoadOp, vector.MaskedLoadOp)


@dataclass(frozen=True)
class PrefetchRowsPass(FunctionPass):
    """Prefetch rows at loaded numbers from buffers of `least` bytes or more, which a core's cache cannot hold, `ahead`
    bytes of rows before they are read, once for each `line` bytes of a row; 0 for `least`: none are."""

    name = "prefetch-rows"

    least: int = GENERIC.l2
    ahead: int = GENERIC.page
    line: int = GENERIC.line

    def change(self, module: ModuleOp) -> Change:
        if self.least < 0:
            raise ValueError(f"prefetch-rows: least is {self.least}, expected at least 0")
        if self.ahead < 1:
            raise ValueError(f"prefetch-rows: ahead is {self.ahead}, expected at least 1")
        if self.line < 1:
            raise ValueError(f"prefetch-rows: line is {self.line}, expected at least 1")
        return self._prefetch

    def _prefetch(self, function: func.FuncOp) -> None:
        loads = ops_of(function, *_LOADS) if self.least else []
        large = [load for load in loads if _is_large(load.base, self.least)]
        if not large or ops_of(function, PrefetchOp):
            return
        prefetches = _Prefetches(self.ahead, self.line)
        for load in large:
            prefetches.add(load)


def _is_large(buffer: SSAValue, least: int) -> bool:
    if not isinstance(buffer.type, MemRefType):
        return False
    size = buffer_bytes(buffer.type)
    return isinstance(size, Size) or size >= least


@dataclass(frozen=True)
class _Counter:
    """The index of a loop over consecutive numbers, and the bounds of the loop."""

    loop: scf.ForOp | scf.ParallelOp
    index: SSAValue
    start: SSAValue
    end: SSAValue


@dataclass(frozen=True)
class _Row:
    """The loops that a row's number comes from, the outer one first if there are two, and the ops that compute it, in
    order."""

    counters: tuple[_Counter, ...]
    ops: tuple[Operation, ...]


class _Prefetches:
    """Adds prefetches to one kernel; what is asked for twice, and numbers of rows, are written once."""

    def __init__(self, ahead: int, line: int) -> None:
        self._ahead = ahead
        self._line = line
        self._later: dict[SSAValue, SSAValue] = {}
        self._asked: set[tuple[SSAValue | int, ...]] = set()

    def add(self, access: vector.LoadOp | vector.MaskedLoadOp) -> None:
        """Ask for what `access` reads some iterations later, if that is at an index that is data."""
        place = (access.base, *access.indices[:-1], self._line_of(access))
        if place in self._asked:
            return
        for dimension, index in enumerate(access.indices):
            if index not in self._later:
                row = _row(access, index)
                if row is None:
                    continue
                self._later[index] = _later_row(row, index, _distance(access.base, dimension, self._ahead))
            self._asked.add(place)
            indices = list(access.indices)
            indices[dimension] = self._later[index]
            op = PrefetchOp.of_data(access.base, tuple(indices), LOCALITY)
            Builder(InsertPoint.before(access)).insert(op)
            return

    def _line_of(self, access: vector.LoadOp | vector.MaskedLoadOp) -> SSAValue | int:
        """The place along the last dimension: the cache line in its row, where that is known."""
        kind = access.base.type
        assert isinstance(kind, MemRefType)
        column = constant_int(access.indices[-1])
        if column is None:
            return access.indices[-1]
        element = buffer_bytes(MemRefType(kind.element_type, []))
        assert isinstance(element, int)
        return column * element // self._line


def _later_row(row: _Row, index: SSAValue, distance: int) -> SSAValue:
    """What `index` is `distance` iterations later, or in the last one."""
    assert isinstance(index.owner, Operation)
    builder = Builder(InsertPoint.after(index.owner))
    *outer, inner = row.counters
    mapping: dict[SSAValue, SSAValue] = {}
    if outer:
        runs = _runs(inner)
        assert runs is not None
        whole, distance = divmod(distance, runs)
        later = _plus(builder, inner.index, distance)
        goes_on = builder.insert(arith.CmpiOp(later, inner.end, "sge")).result
        mapping[inner.index] = _either(builder, goes_on, _plus(builder, later, -runs), later)
        next_ = _plus(builder, outer[0].index, whole)
        mapping[outer[0].index] = _until(builder, outer[0], _either(builder, goes_on, _plus(builder, next_, 1), next_))
    else:
        mapping[inner.index] = _until(builder, inner, _plus(builder, inner.index, distance))
    for op in row.ops:
        builder.insert(op.clone(mapping))
    return mapping[index]


def _plus(builder: Builder, value: SSAValue, number: int) -> SSAValue:
    return builder.insert(arith.AddiOp(value, index_constant(builder, number))).result if number else value


def _either(builder: Builder, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
    return builder.insert(arith.SelectOp(condition, then, otherwise)).result


def _until(builder: Builder, counter: _Counter, value: SSAValue) -> SSAValue:
    """`value`, or the last index of the loop where that is less."""
    last = builder.insert(arith.SubiOp(counter.end, index_constant(builder, 1))).result
    return builder.insert(arith.MinSIOp(value, last)).result


def _runs(counter: _Counter) -> int | None:
    """How many iterations the loop has, if that is known and there is one at least."""
    start, end = constant_int(counter.start), constant_int(counter.end)
    return end - start if start is not None and end is not None and start < end else None


def _distance(buffer: SSAValue, dimension: int, ahead: int) -> int:
    """How many rows ahead to ask, where `dimension` of the buffer is indexed by data."""
    assert isinstance(buffer.type, MemRefType)
    kind = buffer.type
    row = prod(size for size in kind.get_shape()[dimension + 1 :] if not isinstance(size, Size))
    row_bytes = row * buffer_bytes(MemRefType(kind.element_type, []))
    return min(max(ahead // max(row_bytes, 1), 1), MOST_ROWS)


def _row(access: Operation, index: SSAValue) -> _Row | None:
    """How `index` of `access` follows from data that a loop around reads, if it does."""
    ops: dict[Operation, None] = {}
    sources: set[SSAValue] = set()
    if not _collect(index, access, ops, sources) or not any(isinstance(op, memref.LoadOp) for op in ops):
        return None
    counters = [counter for source in sources if (counter := _counter(source)) is not None]
    # Those that are further in have more loops around them.
    counters = sorted(counters, key=lambda counter: _depth(counter.loop))[-2:]
    if not counters or (len(counters) == 2 and (counters[0].loop is counters[1].loop or _runs(counters[1]) is None)):
        return None
    loop = counters[0].loop
    written = set[SSAValue]().union(*(_written(op) for op in loop.walk()))
    if any(isinstance(op, memref.LoadOp) and root_of(op.memref) in written for op in ops):
        return None
    order = [op for op in loop.walk() if op in ops]
    always = all(_runs_always(op, loop) for op in order)
    return _Row(tuple(counters), tuple(order)) if always and len(order) == len(ops) else None


def _depth(op: Operation) -> int:
    parent = op.parent_op()
    return 0 if parent is None else 1 + _depth(parent)


def _runs_always(op: Operation, loop: Operation) -> bool:
    """Whether each iteration of `loop` gets to `op`, so that it can be done for another one."""
    parent = op.parent_op()
    while parent is not loop:
        if not isinstance(parent, scf.ForOp | scf.ParallelOp):
            return False
        parent = parent.parent_op()
    return True


def _collect(value: SSAValue, access: Operation, ops: dict[Operation, None], sources: set[SSAValue]) -> bool:
    """Gather in `ops` what computes `value` inside of the loops around `access`; whether all of it can be repeated."""
    owner = value.owner
    if isinstance(owner, Block):
        sources.add(value)
        return _counter(value) is not None or not _is_in_loop(owner)
    if not isinstance(owner.parent, Block) or not _is_in_loop(owner.parent):
        return True
    if owner in ops:
        return True
    if owner.regions or not (owner.name.startswith("arith.") or isinstance(owner, memref.LoadOp)):
        return False
    if not all(
        isinstance(operand.type, MemRefType) or _collect(operand, access, ops, sources) for operand in owner.operands
    ):
        return False
    ops[owner] = None
    return True


def _is_in_loop(block: Block) -> bool:
    parent = block.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.ParallelOp | scf.WhileOp):
            return True
        parent = parent.parent_op()
    return False


def _counter(value: SSAValue) -> _Counter | None:
    """The loop over consecutive numbers that `value` counts."""
    block = value.owner
    if not isinstance(block, Block) or not isinstance(value.type, IndexType):
        return None
    loop, number = block.parent_op(), list(block.args).index(value)  # pyright: ignore[reportArgumentType]
    if isinstance(loop, scf.ParallelOp):
        start, end, step = loop.lowerBound[number], loop.upperBound[number], loop.step[number]
    elif isinstance(loop, scf.ForOp) and number == 0:
        start, end, step = loop.lb, loop.ub, loop.step
    else:
        return None
    return _Counter(loop, value, start, end) if constant_int(step) == 1 else None


def _written(op: Operation) -> set[SSAValue]:
    if isinstance(op, memref.StoreOp):
        return {root_of(op.memref)}
    if isinstance(op, vector.StoreOp | vector.MaskedStoreOp):
        return {root_of(op.base)}
    return set() if op.name.startswith(("arith.", "scf.", "math.", "vector.")) or not op.operands else _others(op)


def _others(op: Operation) -> set[SSAValue]:
    return set() if isinstance(op, memref.LoadOp | PrefetchOp) else touched_buffers(op)
