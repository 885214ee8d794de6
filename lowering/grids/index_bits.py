"""Whether 32 bits are enough for the indices of a kernel of updates: by what each of them can be at most.

Places that are loaded as 64-bit integers may be anything. They are made 32-bit ones by saturation, which leaves what is
outside of a buffer outside of it; so only comparisons, least and greatest, and the size that is added to negative ones
may follow until they are within bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, gpu, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.loop_ir.nests import constant_int

INDEX_BITS = "index_bits"
"""The attribute of a kernel that says how wide its indices are."""
LEAST, MOST = -(1 << 31), (1 << 31) - 1
_LESS = 2


@dataclass(frozen=True)
class _Range:
    """What an index can be; beyond ends that are `cut` it stands for all that is further out."""

    low: int
    high: int
    cut_low: bool = False
    cut_high: bool = False

    @property
    def fits(self) -> bool:
        return self.low >= LEAST and self.high <= MOST

    @property
    def is_exact(self) -> bool:
        return not (self.cut_low or self.cut_high)


def narrow_indices(function: func.FuncOp, blocks: int, threads: int) -> bool:
    """Make places of a kernel of so many blocks and threads fit 32 bits if all its indices do then; whether so."""
    ranges: dict[SSAValue, _Range] = {}
    wide: list[arith.IndexCastOp] = []
    numbers: dict[type[Operation], int] = {gpu.BlockIdOp: blocks, gpu.ThreadIdOp: threads}
    if any(not _is_small(argument.type) for argument in function.body.block.args):
        return False
    for op in all_ops(function):
        if isinstance(op, scf.ForOp):
            first, end, step = (ranges.get(bound) for bound in (op.lb, op.ub, op.step))
            if first is None or end is None or step is None or end.high + step.high > MOST:
                return False
            ranges[op.body.block.args[0]] = _Range(first.low, max(first.high, end.high - 1))
        if any(isinstance(value.type, IndexType) for value in _carried(op)):
            return False
        is_number = isinstance(op, arith.IndexCastOp) and not isinstance(op.result.type, IndexType)
        if is_number and not ranges[op.operands[0]].is_exact:
            return False
        for result in op.results:
            if not _is_small(result.type):
                return False
            if isinstance(result.type, IndexType):
                found = _range_of(op, ranges, numbers)
                if found is None or not found.fits:
                    return False
                ranges[result] = found
        if isinstance(op, arith.IndexCastOp) and op.input.type == i64:
            wide.append(op)
    for op in wide:
        _saturate(op)
    return True


def _carried(op: Operation) -> list[SSAValue]:
    """The arguments of the blocks in an op, but for the variable of a loop."""
    found: list[SSAValue] = [value for region in op.regions for block in region.blocks for value in block.args]
    return found[1:] if isinstance(op, scf.ForOp) else found


def _is_small(type_: Attribute) -> bool:
    """Whether a buffer has less than 2^31 elements, none of which is an index; what is no buffer is small."""
    if not isinstance(type_, MemRefType):
        return True
    return prod(type_.get_shape()) <= MOST and -1 not in type_.get_shape() and type_.element_type != IndexType()


def _range_of(
    op: Operation, ranges: Mapping[SSAValue, _Range], numbers: Mapping[type[Operation], int]
) -> _Range | None:
    """What an op with one index as result can give; None where that is not known."""
    if (number := constant_int(op.results[0])) is not None:
        return _Range(number, number)
    if (count := numbers.get(type(op))) is not None:
        return _Range(0, count - 1)
    if isinstance(op, arith.IndexCastOp) and isinstance(op.input.type, IntegerType):
        is_wide = op.input.type.width.data > 32
        return _Range(LEAST, MOST, is_wide, is_wide)
    if isinstance(op, arith.SelectOp):
        return _either(ranges[op.lhs], ranges[op.rhs])
    if len(op.operands) != 2:
        return None
    one, other = (ranges[operand] for operand in op.operands)
    cut_low, cut_high = (one.cut_low, other.cut_low), (one.cut_high, other.cut_high)
    if isinstance(op, arith.MinSIOp):
        return _Range(min(one.low, other.low), min(one.high, other.high), any(cut_low), all(cut_high))
    if isinstance(op, arith.MaxSIOp):
        return _Range(max(one.low, other.low), max(one.high, other.high), all(cut_low), any(cut_high))
    if isinstance(op, arith.AddiOp) and _is_for_negatives(op) and other.low == other.high >= 0:
        return _Range(one.low + other.high, other.high - 1, one.cut_low)
    return _exact_range(op, one, other) if one.is_exact and other.is_exact else None


def _either(one: _Range, other: _Range) -> _Range:
    return _Range(
        min(one.low, other.low),
        max(one.high, other.high),
        one.cut_low or other.cut_low,
        one.cut_high or other.cut_high,
    )


def _exact_range(op: Operation, one: _Range, other: _Range) -> _Range | None:
    if isinstance(op, arith.AddiOp):
        return _Range(one.low + other.low, one.high + other.high)
    if isinstance(op, arith.SubiOp):
        return _Range(one.low - other.high, one.high - other.low)
    if isinstance(op, arith.MuliOp):
        ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        return _Range(min(ends), max(ends))
    if one.low >= 0 and other.low > 0:
        if isinstance(op, arith.DivUIOp):
            return _Range(one.low // other.high, one.high // other.low)
        if isinstance(op, arith.RemUIOp):
            return _Range(0, min(one.high, other.high - 1))
    return None


def _is_for_negatives(op: arith.AddiOp) -> bool:
    """Whether a sum is used where its first operand is negative alone: beyond 32 bits it is not looked at."""

    def is_so(user: Operation) -> bool:
        if not isinstance(user, arith.SelectOp) or user.lhs is not op.result or user.rhs is not op.lhs:
            return False
        asked = user.cond.owner
        if not isinstance(asked, arith.CmpiOp) or asked.predicate.value.data != _LESS or asked.lhs is not op.lhs:
            return False
        return constant_int(asked.rhs) == 0

    return all(is_so(use.operation) for use in op.result.uses)


def _saturate(op: arith.IndexCastOp) -> None:
    """Have a 64-bit integer be one of 32 bits before it becomes an index."""
    least, most = (arith.ConstantOp(IntegerAttr(end, i64)) for end in (LEAST, MOST))
    above = arith.MaxSIOp(op.input, least.result)
    within = arith.MinSIOp(above.result, most.result)
    Rewriter.insert_op([least, most, above, within], InsertPoint.before(op))
    op.operands[0] = within.result
