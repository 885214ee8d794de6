"""`vectorize-updates`: loops that update rows at loaded numbers (scatter) do so in vectors.

Before: the loop stage. After: the same, where an innermost loop that updates rows from others is over vectors of
`vector_bits`, over narrower ones behind the last whole one, and over single elements only at the end. What is the same
for all of the row (its number, whether it lies inside) is computed in front of that loop, once per row.

    scf.for %j = %c0 to %c64 step %c1 {          %p = memref.load %rows[%i]
      %p = memref.load %rows[%i]                 scf.for %j = %c0 to %c64 step %c16 {
      %a = memref.load %o[%p, %j]                  %a = vector.load %o[%p, %j]
      %b = memref.load %u[%i, %j]                  %b = vector.load %u[%i, %j]
      %c = arith.addf %a, %b                       %c = arith.addf %a, %b
      memref.store %c, %o[%p, %j]                  vector.store %c, %o[%p, %j]

The loop has constant bounds, a step of one, no values that it carries, arithmetic, loads, and stores, one of them as
its last op. What depends on the loop's index is read and written in the last dimension at that index, or at a fixed
distance from it, and at one and the same in all accesses to a buffer that is written. So lanes meet different elements
whatever the rows are, and in the order of the elements nothing changes. Of parallel loops over updates of different
elements, the innermost is made a loop of its own first.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families.linalg_builders import DISTINCT
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.nests import constant_int, index_constant
from tenon.lowering.loop_passes.widening import add_wide, bits_of, is_simple
from tenon.passes.machine import GENERIC

LEAST_BITS = 64
"""The narrowest vectors: what does not fill one is done element by element."""


@dataclass(frozen=True)
class VectorizeUpdatesPass(FunctionPass):
    """Make vectors of `vector_bits` of the loops that update rows; 0: of none."""

    name = "vectorize-updates"

    vector_bits: int = GENERIC.vector_bits

    def change(self, module: ModuleOp) -> Change:
        bits = self.vector_bits
        if bits < 0 or bits & (bits - 1):
            raise ValueError(f"vectorize-updates: vector-bits is {bits}, neither 0 nor a power of two")
        return self._vectorize

    def _vectorize(self, function: func.FuncOp) -> None:
        for parallel in ops_of(function, scf.ParallelOp):
            if parallel.attributes.pop(DISTINCT, None) is not None:
                _take_innermost(parallel)
        for loop in ops_of(function, scf.ForOp):
            update = _Update.of(loop)
            if update is not None:
                update.hoist()
                update.vectorize(self.vector_bits)


@dataclass(frozen=True)
class _Update:
    """A loop over one row, its body without the terminator, and which of the ops change along it."""

    loop: scf.ForOp
    ops: tuple[Operation, ...]
    changing: frozenset[Operation]
    places: frozenset[SSAValue]
    """The loop's index, and its sums with what is the same for all of the row."""

    @staticmethod
    def of(loop: scf.ForOp) -> _Update | None:
        """The update that `loop` is, if it is one at an index that is data."""
        *ops, _ = loop.body.block.ops
        if loop.iter_args or constant_int(loop.step) != 1 or not ops or not isinstance(ops[-1], memref.StoreOp):
            return None
        index = loop.body.block.args[0]
        stores = {root_of(op.memref): op for op in ops if isinstance(op, memref.StoreOp)}
        places: set[SSAValue] = {index}
        values: set[SSAValue] = {index}
        changing: set[Operation] = set()
        for op in ops:
            if not is_simple(op):
                return None
            if any(operand in values for operand in op.operands):
                if _is_shift(op, places, values):
                    places.update(op.results)
                elif not _follows(op, places, values):
                    return None
                changing.add(op)
                values.update(op.results)
            elif isinstance(op, memref.StoreOp) or (isinstance(op, memref.LoadOp) and root_of(op.memref) in stores):
                return None
        accesses = [op for op in changing if isinstance(op, memref.LoadOp | memref.StoreOp)]
        own = [(op, stores[root]) for op in accesses if (root := root_of(op.memref)) in stores]
        if any(op.indices[-1] is not store.indices[-1] for op, store in own):
            return None
        return _Update(loop, tuple(ops), frozenset(changing), frozenset(places))

    def hoist(self) -> None:
        """Move what is the same for all of the row in front of the loop."""
        block = self.loop.parent
        assert isinstance(block, Block)
        for op in self.ops:
            if op not in self.changing:
                op.detach()
                block.insert_op_before(op, self.loop)

    def vectorize(self, bits: int) -> None:
        """Put loops over vectors in front of the loop, which is left with what does not fill one."""
        start, end = constant_int(self.loop.lb), constant_int(self.loop.ub)
        lanes = [result for op in self.changing for result in op.results if result not in self.places]
        widest = max(map(bits_of, lanes), default=0)
        if start is None or end is None or start >= end or not widest:
            return
        width = bits // widest
        while width >= max(2, LEAST_BITS // widest):
            whole = (end - start) // width * width
            if whole:
                self._add_vectors(start + whole, width)
            start, width = start + whole, width // 2
        if start == end:
            self.loop.detach()
            self.loop.erase()

    def _add_vectors(self, middle: int, width: int) -> None:
        """Do what is before `middle` in vectors, `width` iterations in each."""
        builder = Builder(InsertPoint.before(self.loop))
        limit = index_constant(builder, middle)
        block = Block(arg_types=[IndexType()])
        inside = Builder(InsertPoint.at_end(block))
        values: dict[SSAValue, SSAValue] = {self.loop.body.block.args[0]: block.args[0]}
        for op in self.ops:
            if any(result in self.places for result in op.results):
                values[op.results[0]] = inside.insert(op.clone(values)).results[0]
            elif op in self.changing:
                add_wide(inside, op, values, width)
        inside.insert(scf.YieldOp())
        builder.insert(scf.ForOp(self.loop.lb, limit, index_constant(builder, width), [], Region(block)))
        self.loop.operands[0] = limit


def _is_shift(op: Operation, places: set[SSAValue], values: set[SSAValue]) -> bool:
    """Whether `op` adds to a place what is the same for all of the row."""
    return (
        isinstance(op, arith.AddiOp)
        and [operand in places for operand in op.operands].count(True) == 1
        and ([operand in values for operand in op.operands].count(True) == 1)
    )


def _follows(op: Operation, places: set[SSAValue], values: set[SSAValue]) -> bool:
    """Whether `op` can be done for neighbouring iterations at once."""
    if isinstance(op, memref.LoadOp | memref.StoreOp):
        if not op.indices:
            return False
        *outer, last = op.indices
        return last in places and not any(place in values for place in outer)
    return not any(operand in places for operand in op.operands) and len(op.results) == 1


def _take_innermost(parallel: scf.ParallelOp) -> None:
    """Make the innermost of parallel loops a loop of its own."""
    *outer, index = parallel.body.block.args
    lower, upper, step = [list(bounds) for bounds in (parallel.lowerBound, parallel.upperBound, parallel.step)]
    body = Block(arg_types=[index.type])
    index.replace_all_uses_with(body.args[0])
    for op in list(parallel.body.block.ops)[:-1]:
        op.detach()
        body.add_op(op)
    body.add_op(scf.YieldOp())
    made: Operation = scf.ForOp(lower.pop(), upper.pop(), step.pop(), [], Region(body))
    if outer:
        around = Block(arg_types=[argument.type for argument in outer])
        for old, new in zip(outer, around.args, strict=True):
            old.replace_all_uses_with(new)
        around.add_ops([made, scf.ReduceOp.create()])
        made = scf.ParallelOp(lower, upper, step, Region(around))
    Rewriter.replace_op(parallel, made)
