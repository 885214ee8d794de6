"""Loop nests with constant bounds: their domains, their reductions, and moving their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.monoid import Monoid
from tenon.lowering.loop_ir.combiners import combiners_of

INDEX = IndexType()


def index_constant(builder: Builder, value: int) -> SSAValue:
    return builder.insert(arith.ConstantOp(IntegerAttr(value, INDEX))).result


def constant_int(value: SSAValue) -> int | None:
    """The value of an integer constant, or None if it is not one."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


@dataclass(frozen=True)
class Domain:
    """The iterations of a loop nest with constant bounds, numbered in row-major order."""

    lower: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    extent: tuple[int, ...] = ()

    @staticmethod
    def of(lower: Sequence[SSAValue], upper: Sequence[SSAValue], step: Sequence[SSAValue]) -> Domain | None:
        """The domain of a nest, or None if a bound is not constant."""
        bounds = [tuple(constant_int(value) for value in values) for values in (lower, upper, step)]
        if any(value is None for values in bounds for value in values):
            return None
        starts, ends, steps = (tuple(value for value in values if value is not None) for values in bounds)
        extents = tuple(max(0, -((first - last) // by)) for first, last, by in zip(starts, ends, steps, strict=True))
        return Domain(starts, steps, extents)

    @property
    def size(self) -> int:
        return prod(self.extent)

    def variables(self, builder: Builder, number: SSAValue) -> list[SSAValue]:
        """The loop variables of iteration `number`, outermost first."""
        found: list[SSAValue] = []
        inner = self.size
        for lower, step, extent in zip(self.lower, self.step, self.extent, strict=True):
            outer, inner = inner, inner // extent if extent else 0
            value = number
            if extent == 1:
                value = index_constant(builder, 0)
            elif inner > 1:
                value = builder.insert(arith.DivUIOp(value, index_constant(builder, inner))).result
            if extent > 1 and outer < self.size:
                value = builder.insert(arith.RemUIOp(value, index_constant(builder, extent))).result
            if step != 1:
                value = builder.insert(arith.MuliOp(value, index_constant(builder, step))).result
            if lower != 0:
                value = builder.insert(arith.AddiOp(value, index_constant(builder, lower))).result
            found.append(value)
        return found


def inline_body(body: Block, values: Sequence[SSAValue], target: InsertPoint) -> None:
    """Move the ops of `body` but its terminator to `target`, with `values` for its leading arguments."""
    for argument, value in zip(body.args, values, strict=False):
        argument.replace_all_uses_with(value)
    builder = Builder(target)
    for op in list(body.ops)[:-1]:
        op.detach()
        builder.insert(op)


def parallel_domain(loop: scf.ParallelOp) -> Domain | None:
    return Domain.of(loop.lowerBound, loop.upperBound, loop.step)


def serialize(loop: scf.ParallelOp) -> scf.ForOp:
    """Replace a parallel loop by nested sequential ones; returns the outermost."""
    target = InsertPoint.before(loop)
    nest: list[scf.ForOp] = []
    for lower, upper, step in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True):
        terminator = scf.YieldOp()
        nest.append(Builder(target).insert(scf.ForOp(lower, upper, step, [], Block([terminator], arg_types=[INDEX]))))
        target = InsertPoint.before(terminator)
    inline_body(loop.body.block, [one.body.block.args[0] for one in nest], target)
    loop.detach()
    loop.erase()
    return nest[0]


def serialize_all(block: Block) -> None:
    for loop in [op for op in block.walk() if isinstance(op, scf.ParallelOp)]:
        serialize(loop)


@dataclass(frozen=True)
class Reduction:
    """A nest of `scf.for`, outermost first, that only combines values: one associative op for each result."""

    loops: tuple[scf.ForOp, ...]
    domain: Domain
    combiners: tuple[Monoid, ...]

    @staticmethod
    def match(loop: scf.ForOp) -> Reduction | None:
        """The reduction that `loop` is, if its combiners are associative and its iterations can be reordered."""
        if not loop.results or any(isinstance(op, NOT_IN_REDUCTIONS) for op in loop.walk()):
            return None
        loops = [loop]
        while (inner := perfectly_nested(loops[-1])) is not None:
            loops.append(inner)
        domain = Domain.of([one.lb for one in loops], [one.ub for one in loops], [one.step for one in loops])
        combiners = combiners_of(loops[-1])
        if domain is None or combiners is None:
            return None
        return Reduction(tuple(loops), domain, combiners)


NOT_IN_REDUCTIONS = (memref.StoreOp, memref.CopyOp, memref.AllocaOp, memref.AllocOp, memref.AtomicRMWOp, scf.ParallelOp)


def perfectly_nested(loop: scf.ForOp) -> scf.ForOp | None:
    """The inner loop that `loop` passes its carried values through, if there is one."""
    body = loop.body.block
    terminator = body.last_op
    inner = terminator.prev_op if terminator is not None else None
    if terminator is None or not isinstance(inner, scf.ForOp):
        return None
    carried = body.args[1:]
    if tuple(inner.iter_args) != tuple(carried) or tuple(terminator.operands) != tuple(inner.results):
        return None
    return inner if all(value.has_one_use() for value in (*carried, *inner.results)) else None
