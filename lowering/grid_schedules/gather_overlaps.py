"""`gather-overlaps`: sums whose terms overlap in the result, such as gradients of windows, are gathered by place.

Before: the buffered stage. After: a statement that adds windows to where they came from, and so reaches each place from
several iterations, runs over the places, and for each of them over the windows that reach it:

    for a < 28: for w < 3:          for p < 57: for u < 2:
      out[2 * a + w] += x[a, w]  ->   out[p] += x[a, w] if a < 28 and w < 3
                                      with a = p / 2 + u - 1, w = p % 2 + 2 * (1 - u)

Each place then has a thread of its own. Any monoid will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, linalg, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.linalg_builders import PARALLEL, REDUCTION
from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.types.size import Size
from tenon.lowering.grid_schedules.parts import unscheduled_kernels
from tenon.lowering.kernels.statement import LoopKind, Statement, element_type, read_kernel, root_of

_MOST = 1 << 31
"""Elements from which 32 bits are too few for a place."""


@dataclass(frozen=True)
class GatherOverlapsPass(ModulePass):
    """Have sums that overlap in the result run over its places."""

    name = "gather-overlaps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in unscheduled_kernels(op, self.name):
            items = read_kernel(function).items
            for number, item in enumerate(items):
                overlap = _Overlap.of(item) if isinstance(item, Statement) else None
                if overlap is None:
                    continue
                before = items[number - 1] if number else None
                if isinstance(before, Statement):
                    _as_fill(before, overlap.statement.outputs[0].buffer)
                overlap.gather()


@dataclass(frozen=True)
class _Sum:
    """A dimension of the result whose index is `stride` iterations of `outer` and `step` of `window`, added up."""

    outer: int
    window: int
    stride: int
    step: int
    count: int
    """How many iterations of `window` reach a place at most."""


@dataclass(frozen=True)
class _Overlap:
    """A statement with, for each dimension of its result, the loop that the index is, or a sum of two."""

    statement: Statement
    dimensions: tuple[int | _Sum, ...]

    @staticmethod
    def of(statement: Statement) -> _Overlap | None:
        """The statement as one that can run over places, if it does not anyway."""
        if LoopKind.SEQUENTIAL not in statement.kinds or len(statement.outputs) != 1:
            return None
        extents = statement.extents
        if any(isinstance(extent, Size) or extent < 1 for extent in extents):
            return None
        if combining_monoid(statement.body, statement.accumulators[0]) is None:
            return None
        dimensions: list[int | _Sum] = []
        loops: list[int] = []
        for subscript in statement.outputs[0].subscripts:
            plain, factors = subscript.plain_loop(), subscript.factors
            if plain is None and (len(factors) != 2 or subscript.constant or min(factors.values()) < 1):
                return None
            if plain is None:
                outer, window = sorted(factors, key=lambda loop: (-extents[loop], loop))
                stride, step = factors[outer], factors[window]
                count = -(-extents[window] // stride) if step == 1 else extents[window]
                dimensions.append(_Sum(outer, window, stride, step, count))
            else:
                dimensions.append(plain)
            loops += factors
        return _Overlap(statement, tuple(dimensions)) if len(set(loops)) == len(loops) else None

    @property
    def sums(self) -> list[_Sum]:
        """The dimensions that several iterations reach."""
        return sorted([d for d in self.dimensions if isinstance(d, _Sum)], key=lambda d: min(d.outer, d.window))

    def gather(self) -> None:
        """Put a statement over places in the place of this one."""
        statement, op = self.statement, self.statement.op
        taken = {loop for s in self.sums for loop in (s.outer, s.window)}
        others = [n for n in range(len(statement.extents)) if n not in taken and n not in self.dimensions]
        reduced = [*[s.count for s in self.sums], *[int(statement.extents[n]) for n in others]]
        rank, total = len(self.dimensions), len(self.dimensions) + len(reduced)
        numbers = {loop: n for n, loop in enumerate(self.dimensions) if isinstance(loop, int)}
        numbers |= {loop: rank + len(self.sums) + n for n, loop in enumerate(others)}
        assert op.parent is not None
        element = element_type(op.outputs[0])
        extents = memref.AllocOp([], [], MemRefType(element, reduced))
        op.parent.insert_op_before(extents, op)
        kept = [n for n, access in enumerate(statement.inputs) if access.loops() <= numbers.keys()]
        inputs = [extents.memref, *[op.inputs[n] for n in kept]]
        body = Block(arg_types=[element_type(value) for value in (*inputs, op.outputs[0])])
        _Body(self, numbers, dict(zip(kept, body.args[1:-1], strict=True)), body).write()
        moved = [AffineDimExpr(numbers.get(n, 0)) for n in range(len(statement.extents))]
        maps = [AffineMap(total, 0, tuple(AffineDimExpr(n) for n in range(rank, total)))]
        maps += [op.indexing_maps.data[n].data.replace_dims_and_symbols(moved, [], total, 0) for n in kept]
        maps.append(AffineMap(total, 0, tuple(AffineDimExpr(n) for n in range(rank))))
        kinds = ArrayAttr([PARALLEL] * rank + [REDUCTION] * len(reduced))
        maps_attribute = ArrayAttr([AffineMapAttr(map_) for map_ in maps])
        new = linalg.ops.GenericOp(inputs, list(op.outputs), Region(body), maps_attribute, kinds)
        new.location = op.location
        op.parent.insert_op_before(new, op)
        op.detach()
        op.erase()


class _Body:
    """Writes to `block` what one iteration over places does; `numbers` are new loops by old ones, `known` the arguments
    of inputs that need no computed place."""

    def __init__(self, overlap: _Overlap, numbers: dict[int, int], known: dict[int, SSAValue], block: Block) -> None:
        self.overlap, self.numbers, self.known, self.block = overlap, numbers, known, block
        self.builder = Builder(InsertPoint.at_end(block))
        self.places: dict[int, SSAValue] = {}
        """Where the old loops are that are a sum, as numbers; 0 where there is no such iteration."""
        buffers = overlap.statement.accesses
        self.type: IntegerType = i64 if any(prod(a.shape) >= _MOST for a in buffers) else i32

    def write(self) -> None:
        """Append everything."""
        statement, rank = self.overlap.statement, len(self.overlap.dimensions)
        inside: SSAValue | None = None
        for n, known in enumerate(self.overlap.sums):
            term = self._term(known, self._loop(self.overlap.dimensions.index(known)), self._loop(rank + n))
            inside = term if inside is None else self.builder.insert(arith.AndIOp(inside, term)).result
        assert inside is not None
        values: dict[SSAValue, SSAValue] = {statement.accumulators[0]: self.block.args[-1]}
        for n, access in enumerate(statement.inputs):
            if access.is_used:
                values[statement.body.args[n]] = self.known.get(n) or self._read(n)
        for op in statement.body.ops:
            if isinstance(op, linalg.ops.IndexOp):
                values[op.result] = self._index(op.dim.value.data)
            elif isinstance(op, linalg.ops.YieldOp):
                total = values[op.operands[0]]
                chosen = self.builder.insert(arith.SelectOp(inside, total, self.block.args[-1])).result
                self.builder.insert(linalg.ops.YieldOp(chosen))
            else:
                self.builder.insert(op.clone(values))

    def _term(self, known: _Sum, place: SSAValue, turn: SSAValue) -> SSAValue:
        """Whether there is an iteration number `turn` that reaches a place; it is noted."""
        extents = self.overlap.statement.extents
        last = self._number(known.count - 1)
        back = self._of(arith.SubiOp, last, turn)  # later windows come first where earlier places of them do
        conditions: list[SSAValue] = []
        if known.step == 1 and known.stride > 1:
            stride = self._number(known.stride)
            window = self._of(
                arith.AddiOp, self._of(arith.RemUIOp, place, stride), self._of(arith.MuliOp, back, stride)
            )
            outer = self._of(arith.SubiOp, self._of(arith.DivUIOp, place, stride), back)
            conditions.append(self._less(window, int(extents[known.window])))
        else:
            window = back
            moved = self._of(arith.SubiOp, place, self._of(arith.MuliOp, back, self._number(known.step)))
            outer = moved
            if known.stride > 1:
                stride = self._number(known.stride)
                outer = self._of(arith.DivSIOp, moved, stride)
                again = self._of(arith.MuliOp, outer, stride)
                conditions.append(self.builder.insert(arith.CmpiOp(again, moved, "eq")).result)
        conditions.append(self._less(outer, int(extents[known.outer])))
        inside = conditions[0]
        for condition in conditions[1:]:
            inside = self.builder.insert(arith.AndIOp(inside, condition)).result
        for loop, at in ((known.outer, outer), (known.window, window)):
            self.places[loop] = self.builder.insert(arith.SelectOp(inside, at, self._number(0))).result
        return inside

    def _read(self, number: int) -> SSAValue:
        """The element of an input, at a computed place."""
        access = self.overlap.statement.inputs[number]
        indices: list[SSAValue] = []
        for subscript in access.subscripts:
            at = self._number(subscript.constant)
            for loop, factor in subscript.factors.items():
                place = self.places[loop] if loop in self.places else self._loop(self.numbers[loop])
                at = self._of(arith.AddiOp, at, self._of(arith.MuliOp, place, self._number(factor)))
            indices.append(self.builder.insert(arith.IndexCastOp(at, IndexType())).result)
        return self.builder.insert(memref.LoadOp.get(self.overlap.statement.op.inputs[number], indices)).res

    def _index(self, loop: int) -> SSAValue:
        """The index of an old loop."""
        if loop in self.places:
            return self.builder.insert(arith.IndexCastOp(self.places[loop], IndexType())).result
        return self.builder.insert(linalg.ops.IndexOp(self.numbers[loop])).result

    def _loop(self, loop: int) -> SSAValue:
        """The index of a new loop as a number."""
        index = self.builder.insert(linalg.ops.IndexOp(loop)).result
        return self.builder.insert(arith.IndexCastOp(index, self.type)).result

    def _number(self, number: int) -> SSAValue:
        return self.builder.insert(arith.ConstantOp(IntegerAttr(number, self.type))).result

    def _of(self, op_type: type[Operation], first: SSAValue, second: SSAValue) -> SSAValue:
        return self.builder.insert(op_type.create(operands=(first, second), result_types=(self.type,))).results[0]

    def _less(self, value: SSAValue, number: int) -> SSAValue:
        """Whether a number is from 0 on below another."""
        return self.builder.insert(arith.CmpiOp(value, self._number(number), "ult")).result


def _as_fill(statement: Statement, buffer: SSAValue) -> None:
    """Make a statement that writes one value all over `buffer` a fill again, from which a reduction begins."""
    op = statement.op
    (*rest, last) = op.body.block.ops
    if rest or statement.inputs or len(op.outputs) != 1 or root_of(op.outputs[0]) is not root_of(buffer):
        return
    (value,) = last.operands
    if value.owner is op.body.block:
        return
    assert op.parent is not None
    op.parent.insert_op_before(linalg.ops.FillOp([value], [op.outputs[0]], []), op)
    op.detach()
    op.erase()
