"""`block-sums`: long sums of floats are sums of sums, so that their errors stay small.

Before: the loop stage. After: the same, where no number is added to a sum that many were added to before: a loop that
adds more than twice `limit` times to a value that it carries is cut into blocks, each of which begins with nothing.
Those of register tiles, whose totals have to wait in memory, have `tile_limit` in place of `limit`.

    %r = scf.for %i = (0) to (4096) iter_args(%a = %init) { yield %a + f(%i) }

    %r = scf.for %k = (0) to (4096) step (256) iter_args(%total = %init) {
      %p = scf.for %i = (%k) to (%k + 256) iter_args(%a = -0.0) { yield %a + f(%i) }
      yield %total + %p
    }

The error of a sum of n numbers grows with n where they have one sign, that of such sums with `limit` and the logarithm
of n (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). A loop that adds `LEAST` times or more to what
another one carries, or to what was in memory, begins with nothing, too. The order in which numbers are added up
depends on the program and its sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, func, math, scf, vector
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.monoid import ADD_FLOATS
from tenon.dialects.upstream.vector_arith import element_type_of
from tenon.dialects.upstream.vector_ops import VectorContractOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.loop_ir.nests import constant_int
from tenon.lowering.math.builder import Constants
from tenon.passes.machine import GENERIC

LEAST = 64
"""Additions of a loop that are worth one more."""
TILE = GENERIC.registers * 3 // 8
"""Values that a loop carries from which on its totals have to wait in memory: its blocks are longer."""

_INDEX = IndexType()
_SUM_OPERAND: dict[type[Operation], tuple[int, ...]] = {
    arith.AddfOp: (0, 1),
    math.FmaOp: (2,),
    vector.FMAOp: (2,),
    VectorContractOp: (2,),
}
"""The operands that an op adds something to."""


@dataclass(frozen=True)
class BlockSumsPass(FunctionPass):
    """Cut loops that add up more than twice `limit` floats, or `tile_limit` in a register tile, into blocks."""

    name = "block-sums"

    limit: int = 64
    tile_limit: int = 512

    def change(self, module: ModuleOp) -> Change:
        if self.limit < 2 or self.tile_limit < 2:
            raise ValueError(f"block-sums: limit is {self.limit}, tile-limit {self.tile_limit}, expected at least 2")
        return self._block_all

    def _block_all(self, function: func.FuncOp) -> None:
        constants = Constants(function.body.block)
        loops = [op for op in ops_of(function, scf.ForOp) if op.results]
        for loop in reversed(loops):  # inner loops first
            self._block(loop, constants)

    def _block(self, loop: scf.ForOp, constants: Constants) -> None:
        counts = {number: count for number in range(len(loop.results)) if (count := _additions(loop, number))}
        step = constant_int(loop.step)
        if not counts or step is None:
            return
        most, trips = max(counts.values()), _most_trips(loop)
        limit = self.tile_limit if len(counts) >= TILE else self.limit
        if trips is not None and most * trips <= 2 * limit:
            if most * trips >= LEAST:
                _begin_with_nothing(loop, counts, constants)
            return
        length = max(1, limit // most)
        if trips is not None:
            length = -(-trips // -(-trips // length))  # blocks of one length, as far as that goes
        around = _cut(loop, length * step)
        _begin_with_nothing(loop, counts, constants)
        if trips is not None:
            self._block(around, constants)


def _additions(loop: scf.ForOp, number: int) -> int | None:
    """How often an iteration adds to what `loop` carries as `number`; None if it does anything else with it."""
    value, count = loop.body.block.args[1 + number], 0
    if not isinstance(element_type_of(value.type), AnyFloat):
        return None
    while (use := value.get_unique_use()) is not None:
        op = use.operation
        if isinstance(op, scf.YieldOp):
            return count if op.parent is loop.body.block and use.index == number else None
        if isinstance(op, scf.ForOp):
            position = use.index - 3
            inner = _additions(op, position) if position >= 0 else None
            trips = _most_trips(op)
            if inner is None or trips is None:
                return None
            count, value = count + inner * trips, op.results[position]
        elif use.index in _SUM_OPERAND.get(type(op), ()):
            count, value = count + 1, op.results[0]
        else:
            return None
    return None


def _most_trips(loop: scf.ForOp) -> int | None:
    """How often `loop` runs at most, if that is known."""
    step = constant_int(loop.step)
    distances = [d for end in _ends(loop.ub) if (d := _distance(loop.lb, end)) is not None]
    return -(-max(min(distances), 0) // step) if step and distances else None


def _ends(end: SSAValue) -> Iterable[SSAValue]:
    """The numbers whose minimum `end` is."""
    if isinstance(end.owner, arith.MinSIOp):
        for operand in end.owner.operands:
            yield from _ends(operand)
    else:
        yield end


def _distance(start: SSAValue, end: SSAValue) -> int | None:
    """How far `end` is from `start` at most, which is no less than 0."""
    if isinstance(end.owner, arith.AddiOp) and start in end.owner.operands:
        first, second = end.owner.operands
        return constant_int(second if first is start else first)
    last, first = constant_int(end), constant_int(start)
    return None if last is None else last - (first or 0)


def _cut(loop: scf.ForOp, stride: int) -> scf.ForOp:
    """Put `loop` into one that carries the same values and gives it `stride` of its numbers at a time."""
    before = Builder(InsertPoint.before(loop))
    by = before.insert(arith.ConstantOp(IntegerAttr(stride, _INDEX))).result
    block = Block(arg_types=[_INDEX, *[value.type for value in loop.iter_args]])
    around = before.insert(scf.ForOp(loop.lb, loop.ub, by, list(loop.iter_args), block))
    for old, new in zip(loop.results, around.results, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    start, *carried = block.args
    inside = Builder(InsertPoint.at_end(block))
    end = inside.insert(arith.AddiOp(start, by)).result
    first, last = constant_int(loop.lb), constant_int(loop.ub)
    if first is None or last is None or (last - first) % stride:
        end = inside.insert(arith.MinSIOp(end, loop.ub)).result
    loop.operands = [start, end, loop.step, *carried]
    inside.insert(loop)
    inside.insert(scf.YieldOp(*loop.results))
    return around


def _begin_with_nothing(loop: scf.ForOp, numbers: Iterable[int], constants: Constants) -> None:
    """Add what `loop` begins with to its results, where that is no constant."""
    after = Builder(InsertPoint.after(loop))
    for number in numbers:
        initial, result = loop.iter_args[number], loop.results[number]
        if _is_constant(initial):
            continue
        loop.operands[3 + number] = constants.get(ADD_FLOATS.neutral(0), initial.type)
        total = after.insert(arith.AddfOp(initial, result)).result
        result.replace_uses_with_if(total, lambda use, added=total.owner: use.operation is not added)


def _is_constant(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, arith.ConstantOp) or (isinstance(op, vector.BroadcastOp) and _is_constant(op.operands[0]))
