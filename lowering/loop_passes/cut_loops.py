"""Cutting parallel loops into tiles that threads take: the ops that `parallelize` writes.

One loop is cut by a loop over its tiles. Loops that may run at the same time share one: its iterations are the tiles of
the first of them, then those of the second, and so on.

    scf.parallel (%c) = (0) to (12) step (1) {
      scf.if %c < 8 {
        scf.parallel (%i) = (%c * 16) to (%c * 16 + 16) step (1) { the first loop's body }
      } else {
        scf.parallel (%i) = ((%c - 8) * 8) to ((%c - 8) * 8 + 8) step (1) { the second's }
      }
    } {threads}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.lowering.loop_ir.builder import BESIDE, is_pure
from tenon.lowering.loop_ir.launch_numbers import (
    INDEX,
    Number,
    Numbers,
    known,
    product,
    quotient,
    remainder,
    smaller,
    total,
)
from tenon.lowering.loop_passes.parallel_work import Loop, loop_trips

THREADS = "threads"
"""The attribute of a parallel loop each of whose iterations is a chunk for one thread."""

KEPT = "kept"
"""The attribute of memory that a thread has for all chunks that it runs one after another, and of an `scf.index_switch`
without cases that fills it: what it writes follows from its argument, so it is left out while that is the same."""


def neighbours(loops: Sequence[Loop]) -> list[list[Loop]]:
    """`loops`, in the order of the program, in groups that may run at the same time; all but parallel ones alone."""
    groups: list[list[Loop]] = []
    for loop in loops:
        is_beside = isinstance(loop, scf.ParallelOp) and BESIDE in loop.attributes
        if groups and is_beside and _is_next(groups[-1][-1], loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return groups


def _is_next(first: Operation, second: Operation) -> bool:
    """Whether `second` follows `first` with nothing but pure ops in between."""
    op = first.next_op
    while op is not None and op is not second:
        if not is_pure(op):
            return False
        op = op.next_op
    return op is second


def cut(loop: scf.ParallelOp, lengths: Sequence[Number]) -> None:
    """Tile `loop` by `lengths`, with the attribute `threads` on the loop over the tiles."""
    along = [d for d, (count, length) in enumerate(zip(loop_trips(loop), lengths, strict=True)) if length != count]
    if not along:
        return
    numbers = Numbers(loop)
    steps = [numbers.value(product(lengths[d], known(loop.step[d]))) for d in along]
    block = Block(arg_types=[INDEX] * len(along))
    tiles = scf.ParallelOp(
        [loop.lowerBound[d] for d in along], [loop.upperBound[d] for d in along], steps, Region(block)
    )
    tiles.attributes[THREADS] = UnitAttr()
    Rewriter.insert_op(tiles, InsertPoint.before(loop))
    loop.detach()
    block.add_ops([loop, scf.ReduceOp.create()])
    _narrow(loop, lengths, dict(zip(along, block.args, strict=True)), dict(zip(along, steps, strict=True)))


def cut_together(loops: Sequence[scf.ParallelOp], lengths: Sequence[Sequence[Number]]) -> None:
    """Tile each of the neighbouring `loops` by its `lengths`, all constant, with one loop over the tiles of all."""
    parts = [_Part.of(loop, tile) for loop, tile in zip(loops, lengths, strict=True)]
    first, last = loops[0], loops[-1]
    op = first.next_op
    while op is not None and op is not last:
        following = op.next_op
        if op not in loops:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(first))
        op = following
    numbers = Numbers(first)
    end = scf.ReduceOp.create()
    block = Block([end], arg_types=[INDEX])
    start, count, step = (numbers.value(number) for number in (0, sum(part.tiles for part in parts), 1))
    tiles = scf.ParallelOp([start], [count], [step], Region(block))
    tiles.attributes[THREADS] = UnitAttr()
    Rewriter.insert_op(tiles, InsertPoint.before(first))
    _insert_parts(parts, block.args[0], end)


@dataclass(frozen=True)
class _Part:
    """A loop that shares a launch: `counts` tiles along each dimension, each `lengths` iterations long."""

    loop: scf.ParallelOp
    lengths: Sequence[int]
    counts: Sequence[int]

    @staticmethod
    def of(loop: scf.ParallelOp, lengths: Sequence[Number]) -> _Part:
        known_lengths = [length for length in lengths if isinstance(length, int)]
        known_trips = [count for count in loop_trips(loop) if isinstance(count, int)]
        counts = [-(-count // length) for count, length in zip(known_trips, known_lengths, strict=True)]
        return _Part(loop, known_lengths, counts)

    @property
    def tiles(self) -> int:
        """How many there are."""
        return prod(self.counts)


def _insert_parts(parts: Sequence[_Part], number: SSAValue, end: Operation) -> None:
    """Put tile `number` of all tiles of `parts` in front of `end`."""
    part, *others = parts
    if not others:
        _insert_tile(part, number, end)
        return
    tiles = Numbers(end).value(part.tiles)
    own_end, others_end = scf.YieldOp(), scf.YieldOp()
    is_own = arith.CmpiOp(number, tiles, "ult")
    branch = scf.IfOp(is_own, [], Region(Block([own_end])), Region(Block([others_end])))
    later = arith.SubiOp(number, tiles)
    Rewriter.insert_op([is_own, branch], InsertPoint.before(end))
    Rewriter.insert_op(later, InsertPoint.before(others_end))
    _insert_tile(part, number, own_end)
    _insert_parts(others, later.result, others_end)


def _insert_tile(part: _Part, number: SSAValue, end: Operation) -> None:
    """Put tile `number` of a loop in front of `end`; tiles are counted in row-major order."""
    loop = part.loop
    loop.detach()
    loop.attributes.pop(BESIDE, None)
    Rewriter.insert_op(loop, InsertPoint.before(end))
    numbers = Numbers(loop)
    left: Number = number
    starts: dict[int, SSAValue] = {}
    steps: dict[int, SSAValue] = {}
    along = [d for d, count in enumerate(part.counts) if count != 1]
    for d in reversed(along):
        place = left if d == along[0] else remainder(left, part.counts[d])
        left = quotient(left, part.counts[d])
        steps[d] = numbers.value(product(part.lengths[d], known(loop.step[d])))
        starts[d] = numbers.value(total(known(loop.lowerBound[d]), product(place, steps[d])))
    _narrow(loop, part.lengths, starts, steps)


def _narrow(
    loop: scf.ParallelOp, lengths: Sequence[Number], starts: Mapping[int, SSAValue], steps: Mapping[int, SSAValue]
) -> None:
    """Let dimensions of `loop` run from `starts`, for `steps` or up to where they ended."""
    counts = loop_trips(loop)
    numbers = Numbers(loop)
    for d, start in starts.items():
        end = total(start, steps[d])
        if not _divides(lengths[d], counts[d]):
            end = smaller(end, loop.upperBound[d])
        loop.operands[d] = start
        loop.operands[len(counts) + d] = numbers.value(end)


def _divides(length: Number, count: Number) -> bool:
    return isinstance(length, int) and isinstance(count, int) and count % length == 0
