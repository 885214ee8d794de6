"""Loops that update elements at computed places, as scatters are: each warp owns a range of rows of the result.

The warps that own rows look at all places, 32 at a time, one to each lane; those among them that are in a warp's rows
it then does in order, its lanes having the elements `j`. So each element is updated by one thread, in the order of the
program, whatever is done to it: results are the same from launch to launch, without atomics, sorting or a further
buffer. The price is that places are read once for each range of rows.

Where places depend on a loop that is an index of the result by itself, as those along an axis do, each of its
iterations has updates of its own, `out[i, place(i, u)] = f(i, u)`, and warps that own ranges of these."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, gpu, math, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i32
from xdsl.ir import Block, Region, SSAValue

from tenon.dialects.upstream.nvvm import BallotOp
from tenon.lowering.grids.update_code import LESS, NOT_LESS, UNEQUAL, UpdateCode, Updates
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.loop_ir.builder import INDEX, Position, Steps
from tenon.passes.machine import Gpu

WARPS = 4
"""Of a block."""
OWNERS = 2
"""Warps for each multiprocessor that own rows: with more, places are read more often than updates are worth."""


class OwnerCode(UpdateCode):
    """The code of warps that own rows."""

    def __init__(self, entry: Block, updates: Updates, machine: Gpu) -> None:
        super().__init__(entry, updates)
        self.warp = machine.warp
        extents = updates.extents
        self.serial = [extents[n] for n in updates.serial]
        self.parallel = [extents[n] for n in updates.parallel]
        self.outer = prod(extents[n] for n in updates.outer)
        type_ = updates.store.memref.type
        assert isinstance(type_, MemRefType)
        rows, elements = type_.get_shape()[updates.dim], prod(self.parallel)
        # Whole blocks, as warps beyond the last one would do elements of others again.
        owners = max(OWNERS * machine.multiprocessors // WARPS, 1) * WARPS
        self.parts = min(-(-elements // self.warp), owners)
        ranges = max(1, min(rows, owners // (self.parts * max(self.outer, 1))))
        self.rows = -(-rows // ranges)
        self.ranges = -(-rows // self.rows)
        self.index_dim = updates.store.indices[updates.dim]
        self.exists: SSAValue | None = None
        """Whether it is at an iteration of these at all; None where each warp is."""

    def emit(self) -> tuple[int, int]:
        number = self.of(arith.MuliOp, self.position(gpu.BlockIdOp), self.number(WARPS * self.warp))
        thread = self.of(arith.AddiOp, number, self.position(gpu.ThreadIdOp))
        lane = self.of(arith.RemUIOp, thread, self.number(self.warp))
        owner = self.of(arith.DivUIOp, thread, self.number(self.warp))
        first = self.of(arith.MuliOp, self.of(arith.RemUIOp, owner, self.number(self.ranges)), self.number(self.rows))
        part = self.of(arith.DivUIOp, owner, self.number(self.ranges))
        if self.updates.outer:
            part = self._outer(part)
        start = self.of(arith.AddiOp, self.of(arith.MuliOp, part, self.number(self.warp)), lane)

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            base = self.builder.index(at)
            number = self.of(arith.AddiOp, base, lane)
            mine = self._is_mine(number, first)
            waiting = self.builder.value(BallotOp.of(self.builder.constant(IntegerAttr(-1, i32), i32), mine))
            self._each(waiting, base, start)
            return ()

        total = prod(self.serial)
        self.builder.sequential(Steps(0, -(-total // self.warp), self.warp), (), step)
        return -(-self.ranges * self.parts * self.outer // WARPS), WARPS * self.warp

    def _outer(self, part: SSAValue) -> SSAValue:
        """Note at which iteration of the outer loops a warp is, from the number of its part in all; its part there."""
        number, total = self.of(arith.DivUIOp, part, self.number(self.parts)), self.number(self.outer)
        if self.ranges * self.parts * self.outer % WARPS:
            self.exists = self.compare(LESS, number, total)
            number = self.of(arith.MinSIOp, number, self.number(self.outer - 1))
        self.around = self.variables(number, self.updates.outer)
        return self.of(arith.RemUIOp, part, self.number(self.parts))

    def _is_mine(self, number: SSAValue, first: SSAValue) -> SSAValue:
        """Whether the update `number`, if there is one, is of a row from `first` on that the warp owns."""
        inside = self.compare(LESS, number, self.number(prod(self.serial)))
        if self.exists is not None:
            inside = self.both(inside, self.exists)
        # Beyond the last one the last one is looked at.
        known = self.variables(self.of(arith.MinSIOp, number, self.number(prod(self.serial) - 1)), self.updates.serial)
        self.clone([op for op in self.updates.ops if op in slice_of([self.index_dim])], known)
        row = known.get(self.index_dim, self.index_dim)
        distance = self.of(arith.SubiOp, row, first)
        below = self.compare(LESS, distance, self.number(self.rows))
        above = self.compare(NOT_LESS, distance, self.number(0))
        return self.both(inside, self.both(below, above))

    def _each(self, waiting: SSAValue, base: SSAValue, start: SSAValue) -> None:
        """Do the updates whose bits are set, in order."""
        before, after = Block(arg_types=[i32]), Block(arg_types=[i32])
        with self.builder.inside(before):
            zero = self.builder.constant(IntegerAttr(0, i32), i32)
            more = self.compare(UNEQUAL, before.args[0], zero)
            self.builder.add(scf.ConditionOp(more, before.args[0]))
        with self.builder.inside(after):
            bits = after.args[0]
            lowest = self.builder.value(math.CountTrailingZerosOp(bits))
            number = self.of(arith.AddiOp, base, self.cast(lowest))
            self._update(number, start)
            one = self.builder.constant(IntegerAttr(1, i32), i32)
            rest = self.of(arith.AndIOp, bits, self.of(arith.SubiOp, bits, one))
            self.builder.add(scf.YieldOp(rest))
        self.builder.add(scf.WhileOp([waiting], [i32], Region(before), Region(after)))

    def _update(self, number: SSAValue, start: SSAValue) -> None:
        """The update `number`, of those of its elements that the lane has."""
        elements = prod(self.parallel)
        known = self.variables(number, self.updates.serial)
        block = Block(arg_types=[INDEX])
        with self.builder.inside(block):
            inner = {**known, **self.variables(block.args[0], self.updates.parallel)}
            self.clone(self.updates.ops, inner)
            self.builder.add(scf.YieldOp())
        step = self.number(self.warp * self.parts)
        self.builder.add(scf.ForOp(start, self.number(elements), step, [], block))
