"""`prefetch-next`: while a row is gone over once more, the next one is fetched.

Before: the loop stage. After: the same, where loops over rows that go over each of them several times prefetch. The
hardware foresees where a loop reads next as long as it reads. A softmax reads a row for its maximum, and then computes
exponentials, a sum and quotients in the nearest cache; the next row is found to be needed when all of that is done.

    scf.for %i = %c0 to %n step %c1 {              scf.for %i = %c0 to %n step %c1 {
                                                     %k = arith.addi %i, 1
                                                     %q = arith.minsi %k, %n - 1
      scf.for %j = ... {                             scf.for %j = ... {
        %a = vector.load %x[%i, %j]                    %a = vector.load %x[%i, %j]
      }                                              }
      scf.for %j = ... {                             scf.for %j = ... {
                                                       memref.prefetch %x[%q, %j], read
        %b = vector.load %x[%i, %j]                    %b = vector.load %x[%i, %j]
                                                       memref.prefetch %o[%q, %j], write
        vector.store %c, %o[%i, %j]                    vector.store %c, %o[%i, %j]
      }                                              }

The second loop that reads of a row what another has read asks for as much of the next row, and a loop behind the first
one that writes to a row for the place to which the next one is written, unless past the caches. Only buffers of `least`
bytes or more, which a core's own cache does not hold, and of known sizes are looked at, and rows of which `ROWS` fit
into the nearest cache: to go over longer ones takes what comes from the next level, and fetches compete with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes, element_bytes
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.nests import constant_int, index_constant
from tenon.lowering.loop_passes.prefetch_rows import LOCALITY
from tenon.passes.machine import GENERIC

ROWS = 8
"""Rows that have to fit where one is fetched to: this one and the next, of a few buffers."""

_LOADS = (vector.LoadOp, vector.MaskedLoadOp)
_STORES = (vector.StoreOp, vector.MaskedStoreOp)
_Access = vector.LoadOp | vector.MaskedLoadOp | vector.StoreOp | vector.MaskedStoreOp
_LOOPS = (scf.ForOp, scf.ParallelOp)
_Place = tuple[SSAValue | int | None, ...]


@dataclass(frozen=True)
class PrefetchNextPass(FunctionPass):
    """Prefetch the next row of buffers of `least` bytes or more, which a core's cache cannot hold, where a row is gone
    over several times, to the nearest cache, of `nearest` bytes; 0 for `least`: none are."""

    name = "prefetch-next"

    least: int = GENERIC.l2
    nearest: int = GENERIC.l1

    def change(self, module: ModuleOp) -> Change:
        if self.least < 0:
            raise ValueError(f"prefetch-next: least is {self.least}, expected at least 0")
        if self.nearest < 1:
            raise ValueError(f"prefetch-next: nearest is {self.nearest}, expected at least 1")
        return self._prefetch

    def _prefetch(self, function: func.FuncOp) -> None:
        if not self.least:
            return
        for rows in ops_of(function, *_LOOPS):
            passes = [op for op in rows.body.block.ops if isinstance(op, _LOOPS)]
            index = rows.body.block.args[-1 if isinstance(rows, scf.ParallelOp) else 0]
            step = rows.step[-1] if isinstance(rows, scf.ParallelOp) else rows.step
            if len(passes) > 1 and constant_int(step) == 1 and not ops_of(rows, PrefetchOp):
                _Next(rows.body.block, index, self.least, self.nearest).add(passes)


class _Next:
    """Adds prefetches of the next row to the body of a loop over rows."""

    def __init__(self, body: Block, index: SSAValue, least: int, nearest: int) -> None:
        self._body = body
        self._index = index
        self._least = least
        self._nearest = nearest
        self._later: dict[int, SSAValue] = {}

    def add(self, passes: list[scf.ForOp | scf.ParallelOp]) -> None:
        """Ask in loops over a row for what they do with the next."""
        loaded: set[_Place] = set()
        asked: set[_Place] = set()
        for number, loop in enumerate(passes):
            accesses = [op for op in all_ops(loop) if isinstance(op, _Access)]
            places = {op: place for op in accesses if (place := self._place(op, loop)) is not None}
            for op, place in places.items():
                is_again = place in loaded if isinstance(op, _LOADS) else number > 0 and place not in loaded
                if is_again and place not in asked and not _is_streaming(op):
                    self._ask(op)
            asked |= {place for place in places.values() if number > 0}
            loaded |= {places[op] for op in places if isinstance(op, _LOADS)}

    def _place(self, op: _Access, loop: scf.ForOp | scf.ParallelOp) -> _Place | None:
        """Which part of a row `op` reads or writes in `loop`; None where that is not to be prefetched."""
        kind, indices = op.base.type, list(op.indices)
        assert isinstance(kind, MemRefType)
        if self._index not in indices[:-1] or isinstance(root_of(op.base).owner, Operation):
            return None
        size = buffer_bytes(kind)
        if isinstance(size, Size) or size < self._least or self._row_bytes(op) * ROWS > self._nearest:
            return None
        start = loop.lb if isinstance(loop, scf.ForOp) else loop.lowerBound[-1]
        fixed = [index if _is_outside(index, loop) else None for index in indices]
        return (op.base, *fixed, constant_int(start))

    def _row_bytes(self, op: _Access) -> int:
        kind = op.base.type
        assert isinstance(kind, MemRefType)
        inner = kind.get_shape()[list(op.indices).index(self._index) + 1 :]
        return prod(inner) * element_bytes(kind.element_type)

    def _ask(self, op: _Access) -> None:
        kind, indices = op.base.type, list(op.indices)
        assert isinstance(kind, MemRefType)
        dimension = indices.index(self._index)
        indices[dimension] = self._next(kind.get_shape()[dimension])
        ask = PrefetchOp.of_data(op.base, tuple(indices), LOCALITY, is_write=isinstance(op, _STORES))
        Builder(InsertPoint.before(op)).insert(ask)

    def _next(self, count: int) -> SSAValue:
        """The index of the next row, or of the last of `count`."""
        if count not in self._later:
            builder = Builder(InsertPoint.at_start(self._body))
            later = builder.insert(arith.AddiOp(self._index, index_constant(builder, 1))).result
            self._later[count] = builder.insert(arith.MinSIOp(later, index_constant(builder, count - 1))).result
        return self._later[count]


def _is_outside(value: SSAValue, loop: Operation) -> bool:
    """Whether `value` is known in front of `loop`."""
    parent = value.owner.parent_op()
    while parent is not None and parent is not loop:
        parent = parent.parent_op()
    return parent is None


def _is_streaming(op: Operation) -> bool:
    return "nontemporal" in op.properties
