"""Loops that update elements at computed places, as scatters are: each warp owns a range of rows of the result.

    for u: for j: out[place(u), j] = f(out[place(u), j], u, j)

The warps that own rows look at all places, 32 at a time, one to each lane; those among them that are in a warp's rows
it then does in order, its lanes having the elements `j`. So each element is updated by one thread, in the order of the
program: results are the same from launch to launch, without atomics, sorting or a further buffer. The price is that
places are read once for each range of rows.

Where places depend on a loop that is an index of the result by itself, as those along an axis do, each of its
iterations has updates of its own, `out[i, place(i, u)] = f(i, u)`, and warps that own ranges of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, gpu, math, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, i1, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tenon.dialects.families.linalg_builders import DISTINCT
from tenon.dialects.upstream.nvvm import BallotOp
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, Position, Steps, is_pure
from tenon.lowering.loop_ir.nests import constant_int
from tenon.passes.machine import Gpu

WARPS = 4
"""Of a block."""
OWNERS = 2
"""Warps for each multiprocessor that own rows: with more, places are read more often than updates are worth."""

_X = gpu.DimensionAttr(gpu.DimensionEnum.X)
_UNEQUAL, _LESS, _NOT_LESS = 1, 2, 5  # predicates of arith.cmpi: ne, slt, sge


@dataclass(frozen=True)
class Updates:
    """Nested loops, outermost first, around `ops`, of which the last is the `store`; the index `dim` of that is
    computed from the loops `serial` and `outer` alone, and each of `outer` and of the others, `parallel`, is one of its
    indices."""

    loops: tuple[scf.ForOp, ...]
    ops: tuple[Operation, ...]
    store: memref.StoreOp
    dim: int
    serial: tuple[int, ...]
    parallel: tuple[int, ...]
    outer: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """How often each loop runs."""
        return tuple(constant_int(loop.ub) or 0 for loop in self.loops)


def match_updates(function: func.FuncOp) -> Updates | None:
    """The updates that are all that a kernel does, if they are of this form."""
    entry = list(function.body.block.ops)
    loops = [op for op in entry if isinstance(op, scf.ForOp)]
    others = [op for op in entry if not isinstance(op, scf.ForOp | func.ReturnOp | memref.CollapseShapeOp)]
    if len(loops) != 1 or any(not is_pure(op) or op.regions for op in others):
        return None
    if DISTINCT in loops[0].attributes:  # nobody has to own what only one thread updates
        return None
    nest: list[scf.ForOp] = []
    ops: list[Operation] = []
    loop: scf.ForOp | None = loops[0]
    while loop is not None:
        if (
            loop.iter_args
            or constant_int(loop.lb) != 0
            or constant_int(loop.step) != 1
            or constant_int(loop.ub) is None
        ):
            return None
        nest.append(loop)
        inner = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
        if len(inner) > 1 or (inner and inner[0].next_op is not loop.body.block.last_op):
            return None
        ops += [op for op in loop.body.block.ops if not isinstance(op, scf.ForOp | scf.YieldOp)]
        loop = inner[0] if inner else None
    return _matched(nest, ops)


def _matched(nest: Sequence[scf.ForOp], ops: Sequence[Operation]) -> Updates | None:
    stores = [op for op in ops if isinstance(op, memref.StoreOp)]
    if len(stores) != 1 or ops[-1] is not stores[0]:
        return None
    (store,) = stores
    if any(op.regions or not (op is store or isinstance(op, memref.LoadOp) or is_pure(op)) for op in ops):
        return None
    written = root_of(store.memref)
    for op in ops:
        if not isinstance(op, memref.LoadOp) or root_of(op.memref) is not written:
            continue
        if op.memref is not store.memref or tuple(op.indices) != tuple(store.indices):
            return None
    variables = [loop.body.block.args[0] for loop in nest]
    parallel = tuple(n for n, variable in enumerate(variables) if variable in store.indices)
    serial = tuple(n for n in range(len(nest)) if n not in parallel)
    computed = [dim for dim, index in enumerate(store.indices) if index not in variables]
    if not computed or not serial:
        return None
    sources = slice_of([store.indices[computed[0]]])
    if any(isinstance(op, memref.LoadOp) and root_of(op.memref) is written for op in sources):
        return None
    arguments = {operand for op in sources for operand in op.operands if operand in variables}
    outer = tuple(n for n in parallel if variables[n] in arguments)
    inner = tuple(n for n in parallel if n not in outer)
    return Updates(tuple(nest), tuple(ops), store, computed[0], serial, inner, outer)


def write_updates(function: func.FuncOp, updates: Updates, machine: Gpu) -> None:
    """Put the code of a thread in the place of the loops."""
    entry = function.body.block
    returned = entry.last_op
    assert returned is not None
    outer = updates.loops[0]
    outer.detach()
    returned.detach()
    blocks = _OwnerCode(entry, updates, machine).emit()
    entry.add_op(returned)
    outer.erase()
    function.attributes["grid"] = DenseArrayBase.from_list(i64, (blocks, 1, 1))
    function.attributes["block"] = DenseArrayBase.from_list(i64, (WARPS * machine.warp, 1, 1))


class _OwnerCode:
    def __init__(self, entry: Block, updates: Updates, machine: Gpu) -> None:
        self.updates, self.warp = updates, machine.warp
        self.builder = LoopBuilder(entry)
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
        self.around: dict[SSAValue, SSAValue] = {}
        """Where the warp is along the outer loops."""
        self.exists: SSAValue | None = None
        """Whether it is at an iteration of these at all; None where each warp is."""

    def emit(self) -> int:
        """Append the code; how many blocks run it."""
        number = self._of(arith.MuliOp, self._id(gpu.BlockIdOp), self._number(WARPS * self.warp))
        thread = self._of(arith.AddiOp, number, self._id(gpu.ThreadIdOp))
        lane = self._of(arith.RemUIOp, thread, self._number(self.warp))
        owner = self._of(arith.DivUIOp, thread, self._number(self.warp))
        first = self._of(
            arith.MuliOp, self._of(arith.RemUIOp, owner, self._number(self.ranges)), self._number(self.rows)
        )
        part = self._of(arith.DivUIOp, owner, self._number(self.ranges))
        if self.updates.outer:
            part = self._outer(part)
        start = self._of(arith.AddiOp, self._of(arith.MuliOp, part, self._number(self.warp)), lane)

        def step(at: Position, _: list[SSAValue]) -> Sequence[SSAValue]:
            base = self.builder.index(at)
            number = self._of(arith.AddiOp, base, lane)
            mine = self._is_mine(number, first)
            waiting = self.builder.value(BallotOp.of(self.builder.constant(IntegerAttr(-1, i32), i32), mine))
            self._each(waiting, base, start)
            return ()

        total = prod(self.serial)
        self.builder.sequential(Steps(0, -(-total // self.warp), self.warp), (), step)
        return -(-self.ranges * self.parts * self.outer // WARPS)

    def _outer(self, part: SSAValue) -> SSAValue:
        """Note at which iteration of the outer loops a warp is, from the number of its part in all; its part there."""
        number, total = self._of(arith.DivUIOp, part, self._number(self.parts)), self._number(self.outer)
        if self.ranges * self.parts * self.outer % WARPS:
            self.exists = self._compare(_LESS, number, total)
            number = self._of(arith.MinSIOp, number, self._number(self.outer - 1))
        self.around = self._variables(number, self.updates.outer)
        return self._of(arith.RemUIOp, part, self._number(self.parts))

    def _is_mine(self, number: SSAValue, first: SSAValue) -> SSAValue:
        """Whether the update `number`, if there is one, is of a row from `first` on that the warp owns."""
        inside = self._compare(_LESS, number, self._number(prod(self.serial)))
        if self.exists is not None:
            inside = self._and(inside, self.exists)
        # Beyond the last one the last one is looked at.
        known = self._variables(
            self._of(arith.MinSIOp, number, self._number(prod(self.serial) - 1)), self.updates.serial
        )
        self._clone([op for op in self.updates.ops if op in slice_of([self.index_dim])], known)
        row = known.get(self.index_dim, self.index_dim)
        distance = self._of(arith.SubiOp, row, first)
        below = self._compare(_LESS, distance, self._number(self.rows))
        above = self._compare(_NOT_LESS, distance, self._number(0))
        return self._and(inside, self._and(below, above))

    def _each(self, waiting: SSAValue, base: SSAValue, start: SSAValue) -> None:
        """Do the updates whose bits are set, in order."""
        before, after = Block(arg_types=[i32]), Block(arg_types=[i32])
        with self.builder.inside(before):
            zero = self.builder.constant(IntegerAttr(0, i32), i32)
            more = self._compare(_UNEQUAL, before.args[0], zero)
            self.builder.add(scf.ConditionOp(more, before.args[0]))
        with self.builder.inside(after):
            bits = after.args[0]
            lowest = self.builder.value(math.CountTrailingZerosOp(bits))
            number = self._of(arith.AddiOp, base, self._cast(lowest))
            self._update(number, start)
            one = self.builder.constant(IntegerAttr(1, i32), i32)
            rest = self._of(arith.AndIOp, bits, self._of(arith.SubiOp, bits, one))
            self.builder.add(scf.YieldOp(rest))
        self.builder.add(scf.WhileOp([waiting], [i32], Region(before), Region(after)))

    def _update(self, number: SSAValue, start: SSAValue) -> None:
        """The update `number`, of those of its elements that the lane has."""
        elements = prod(self.parallel)
        known = self._variables(number, self.updates.serial)
        block = Block(arg_types=[INDEX])
        with self.builder.inside(block):
            inner = {**known, **self._variables(block.args[0], self.updates.parallel)}
            self._clone(self.updates.ops, inner)
            self.builder.add(scf.YieldOp())
        step = self._number(self.warp * self.parts)
        self.builder.add(scf.ForOp(start, self._number(elements), step, [], block))

    def _variables(self, number: SSAValue, loops: Sequence[int]) -> dict[SSAValue, SSAValue]:
        """The variables of `loops` at iteration `number` of all of them together."""
        known = dict(self.around)
        extents = [self.updates.extents[n] for n in loops]
        inner = prod(extents)
        for position, (n, extent) in enumerate(zip(loops, extents, strict=True)):
            inner //= max(extent, 1)
            value = number
            if inner > 1:
                value = self._of(arith.DivUIOp, value, self._number(inner))
            if position > 0:
                value = self._of(arith.RemUIOp, value, self._number(extent))
            known[self.updates.loops[n].body.block.args[0]] = value
        return known

    def _clone(self, ops: Sequence[Operation], known: dict[SSAValue, SSAValue]) -> None:
        for op in ops:
            copy = op.clone(known)
            self.builder.add(copy)
            known.update(zip(op.results, copy.results, strict=True))

    def _id(self, kind: type[gpu.BlockIdOp] | type[gpu.ThreadIdOp]) -> SSAValue:
        return self.builder.value(kind(_X))

    def _number(self, number: int) -> SSAValue:
        return self.builder.index_constant(number)

    def _of(self, op_type: type[Operation], first: SSAValue, second: SSAValue) -> SSAValue:
        return self.builder.value(op_type.create(operands=(first, second), result_types=(first.type,)))

    def _and(self, first: SSAValue, second: SSAValue) -> SSAValue:
        return self._of(arith.AndIOp, first, second)

    def _cast(self, value: SSAValue) -> SSAValue:
        return self.builder.value(arith.IndexCastOp(value, INDEX))

    def _compare(self, predicate: int, first: SSAValue, second: SSAValue) -> SSAValue:
        properties = {"predicate": IntegerAttr(predicate, i64)}
        op = arith.CmpiOp.create(operands=(first, second), result_types=(i1,), properties=properties)
        return self.builder.value(op)
