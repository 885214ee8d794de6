"""`places-ahead`: loops of updates at loaded places compute these in vectors, for many updates at once.

Before: the loop stage, its loops cut for threads. After: the same, where an innermost loop that updates elements at
places which it finds out (a histogram, a scatter of numbers) is over strips of `strip` updates. What an update needs,
but for what is in memory where it goes, is computed in vectors of `vector_bits` in front of each strip and kept on the
stack; the updates themselves stay one after the other, in their order.

    scf.for %i = %c0 to %n step %c1 {                scf.for %k = %c0 to %n step %c256 {
      %p = memref.load %places[%i]                     scf.for %j = %k to min(%k + 256, %n) step %c8 {
      %q = wrapped and limited %p                        %p = vector.load %places[%j]
      %a = memref.load %o[%q]                            %q = wrapped and limited %p
      %b = arith.addf %a, %u                             vector.store %q, %ahead[%j - %k]
      %c = arith.select %inside, %b, %a                  %v = arith.select %inside, %u, -0.0
      memref.store %c, %o[%q]                            vector.store %v, %values[%j - %k]
                                                       }
                                                       scf.for %i = %k to min(%k + 256, %n) step %c1 {
                                                         %q = memref.load %ahead[%i - %k]
                                                         %a = memref.load %o[%q]
                                                         %v = memref.load %values[%i - %k]
                                                         %b = arith.addf %a, %v
                                                         memref.store %b, %o[%q]

What is not to count is combined with what changes nothing, as above, so that no update waits for a choice. An update
takes two loads, an op and a store then, a third of what finding its place takes one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, MemRefType, ModuleOp, NoneAttr, i1, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.memref_facts import collapsed_type
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.kernels.update_monoid import combination
from tenon.lowering.loop_ir.nests import constant_int, index_constant
from tenon.lowering.loop_passes.widening import add_wide, bits_of, is_simple
from tenon.passes.machine import GENERIC

LEAST_SAVED = 3
"""Instructions of an update that vectors do, from which on storing and loading what they make is worth it."""

_INDEX = IndexType()


@dataclass(frozen=True)
class PlacesAheadPass(FunctionPass):
    """Compute the places of `strip` updates at once, in vectors of `vector_bits`; 0: of none."""

    name = "places-ahead"

    vector_bits: int = GENERIC.vector_bits
    strip: int = 256

    def change(self, module: ModuleOp) -> Change:
        bits = self.vector_bits
        if bits < 0 or bits & (bits - 1):
            raise ValueError(f"places-ahead: vector-bits is {bits}, neither 0 nor a power of two")
        if self.strip < 1:
            raise ValueError(f"places-ahead: strip is {self.strip}, expected at least 1")
        return self._compute_ahead

    def _compute_ahead(self, function: func.FuncOp) -> None:
        for loop in ops_of(function, scf.ForOp):
            if not _is_loop_of_updates(loop):
                continue
            _combine_with_nothing(loop)
            parts = _Parts(loop)
            width = self.vector_bits // max(map(bits_of, parts.lanes())) if parts.is_worth_it() else 0
            if width > 1:
                parts.cut(self.strip, width)


def _is_loop_of_updates(loop: scf.ForOp) -> bool:
    """Whether all that `loop` does is to store at places that each iteration finds out."""
    *ops, _ = loop.body.block.ops
    stores = [op for op in ops if isinstance(op, memref.StoreOp)]
    if loop.results or constant_int(loop.step) != 1 or not stores or not all(map(is_simple, ops)):
        return False
    found = {result for op in ops if isinstance(op, memref.LoadOp) for result in op.results}
    for op in ops:
        if any(operand in found for operand in op.operands):
            found.update(op.results)
    return all(any(place in found for place in store.indices) for store in stores)


def _combine_with_nothing(loop: scf.ForOp) -> None:
    """select(c, a + x, a) -> a + select(c, x, -0.0), where `a` was loaded from where that goes, for any monoid"""
    ops = list(loop.body.block.ops)
    loads = [op for op in ops if isinstance(op, memref.LoadOp)]
    for store, load in product([op for op in ops if isinstance(op, memref.StoreOp)], loads):
        monoid, value = combination(load, store), store.value
        if monoid is None or not isinstance(value.owner, arith.SelectOp):
            continue
        builder = Builder(InsertPoint.before(store))
        choices: list[arith.SelectOp] = []
        while isinstance(choice := value.owner, arith.SelectOp) and choice.rhs is load.res:
            choices.append(choice)
            value = choice.lhs
        combined = value.owner
        assert isinstance(combined, Operation)
        (position,) = [number for number, operand in enumerate(combined.operands) if operand is not load.res]
        nothing = builder.insert(arith.ConstantOp(monoid.identity(value.type))).result
        operands = list(combined.operands)
        for choice in choices:
            operands[position] = builder.insert(arith.SelectOp(choice.cond, operands[position], nothing)).result
        new = builder.insert(combined.clone(dict(zip(combined.operands, operands, strict=True))))
        store.operands[0] = new.results[0]
        for op in (*choices, combined):
            Rewriter.erase_op(op)


class _Parts:
    """What of a loop is computed `ahead`, in vectors, and what is the same for all of its updates."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop = loop
        *ops, _ = loop.body.block.ops
        self._stored = {root_of(op.memref) for op in ops if isinstance(op, memref.StoreOp)}
        self._varying: set[SSAValue] = {loop.body.block.args[0]}
        self._fixed: list[Operation] = []
        self._ahead: dict[Operation, None] = {}
        for op in ops:
            if isinstance(op, memref.LoadOp | memref.StoreOp) or not self._varying.isdisjoint(op.operands):
                self._varying.update(op.results)
                if self._is_ahead(op):
                    self._ahead[op] = None
            else:
                self._fixed.append(op)
        # A truth value is a bit in a vector, and a byte in memory: what makes one for an update stays beside it.
        while bits := [value for value in self._kept() if value.type == i1]:
            for value in bits:
                assert isinstance(value.owner, Operation)
                del self._ahead[value.owner]

    def _is_ahead(self, op: Operation) -> bool:
        if isinstance(op, memref.LoadOp):
            return root_of(op.memref) not in self._stored and self._column(op) is not None
        values = [operand for operand in op.operands if operand in self._varying]
        return len(op.results) == 1 and all(value.owner in self._ahead for value in values)

    def _column(self, load: memref.LoadOp) -> int | None:
        """The dimension along which neighbouring updates read neighbouring elements, if they do."""
        assert isinstance(load.memref.type, MemRefType)
        shape = load.memref.type.get_shape()
        column = next((axis for axis in reversed(range(len(shape))) if shape[axis] != 1), None)
        if column is None or not isinstance(load.memref.type.layout, NoneAttr):
            return None
        others = [place for axis, place in enumerate(load.indices) if axis != column]
        is_neighbour = load.indices[column] is self.loop.body.block.args[0] and self._varying.isdisjoint(others)
        return column if is_neighbour else None

    def _kept(self) -> list[SSAValue]:
        """What is computed ahead and asked for by what is not."""
        return [value for value in self.lanes() if any(use.operation not in self._ahead for use in value.uses)]

    def lanes(self) -> list[SSAValue]:
        """What is computed in vectors."""
        return [result for op in self._ahead for result in op.results]

    def is_worth_it(self) -> bool:
        return len(self._ahead) - len(self._kept()) >= LEAST_SAVED

    def cut(self, strip: int, width: int) -> None:
        """Put the loop into one over strips, of each of which all is computed first that can be."""
        loop, before = self.loop, Builder(InsertPoint.before(self.loop))
        for op in self._fixed:
            op.detach()
            before.insert(op)
        self._drop_last_dimensions(before)
        buffers = {
            value: before.insert(memref.AllocaOp.get(value.type, shape=[strip])).memref for value in self._kept()
        }
        by, lanes = index_constant(before, strip), index_constant(before, width)
        body = Block([last := scf.YieldOp()], arg_types=[_INDEX])
        before.insert(scf.ForOp(loop.lb, loop.ub, by, [], body))
        start = body.args[0]
        inside = Builder(InsertPoint.before(last))
        behind = inside.insert(arith.AddiOp(start, by)).result
        end = inside.insert(arith.MinSIOp(behind, loop.ub)).result
        count = inside.insert(arith.SubiOp(end, start)).result
        rest = inside.insert(arith.RemUIOp(count, lanes)).result
        whole = inside.insert(arith.SubiOp(end, rest)).result
        inside.insert(scf.ForOp(start, whole, lanes, [], self._filled(buffers, start, width)))
        inside.insert(scf.ForOp(whole, end, loop.step, [], self._filled(buffers, start, 1)))
        self._read(buffers, start)
        loop.detach()
        loop.operands = [start, end, loop.step]
        inside.insert(loop)

    def _drop_last_dimensions(self, builder: Builder) -> None:
        """Let what is loaded in vectors lie along the last dimension."""
        for op in self._ahead:
            if isinstance(op, memref.LoadOp) and (column := self._column(op)) != len(op.indices) - 1:
                assert column is not None
                kind = op.memref.type
                assert isinstance(kind, MemRefType)
                shape = kind.get_shape()
                groups = [[axis] for axis in range(column)] + [[*range(column, len(shape))]]
                view = memref.CollapseShapeOp.create(
                    operands=[op.memref],
                    result_types=[collapsed_type(kind, shape[: column + 1])],
                    properties={"reassociation": ArrayAttr([_numbers(group) for group in groups])},
                )
                op.operands = [builder.insert(view).results[0], *op.indices[: column + 1]]

    def _filled(self, buffers: Mapping[SSAValue, SSAValue], start: SSAValue, width: int) -> Block:
        """The body of a loop that computes `width` elements of each of `buffers`, which begin at `start`."""
        block = Block(arg_types=[_INDEX])
        builder = Builder(InsertPoint.at_end(block))
        values: dict[SSAValue, SSAValue] = {self.loop.body.block.args[0]: block.args[0]}
        place = builder.insert(arith.SubiOp(block.args[0], start)).result
        for op in self._ahead:
            if width > 1:
                add_wide(builder, op, values, width)
            else:
                builder.insert(op.clone(values))
        for value, buffer in buffers.items():
            if width > 1:
                builder.insert(vector.StoreOp.create(operands=[values[value], buffer, place]))
            else:
                builder.insert(memref.StoreOp.get(values[value], buffer, [place]))
        builder.insert(scf.YieldOp())
        return block

    def _read(self, buffers: Mapping[SSAValue, SSAValue], start: SSAValue) -> None:
        """Let the updates read what was computed ahead."""
        block = self.loop.body.block
        assert block.first_op is not None
        builder = Builder(InsertPoint.before(block.first_op))
        place = builder.insert(arith.SubiOp(block.args[0], start)).result
        for value, buffer in buffers.items():
            value.replace_all_uses_with(builder.insert(memref.LoadOp.get(buffer, [place])).res)
        for op in reversed(self._ahead):
            Rewriter.erase_op(op)


def _numbers(group: list[int]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(axis, i64) for axis in group])
