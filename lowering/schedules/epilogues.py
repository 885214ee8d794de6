"""Epilogues: the statements that take the sums of the one before them out of its registers.

What is done to each sum behind a contraction (a bias, `relu`, a residual) reads it from memory in a nest of its own. In
place of that a register tile goes on with its sums before it stores them. That saves a store and a load for each
vector: a fifth of the time where a sum has 64 terms.

A tile holds its sums to their end then, so that nothing is cut into blocks of a reduction. And it writes out what is
done for each of its vectors, so that this is a few instructions. Statements that take turns do not follow each other:
what the first reads and what the second writes, of that which flows inside of the kernel, may share memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from xdsl.dialects import arith, linalg, math, memref
from xdsl.ir import Operation

from tenon.lowering.kernels.intermediates import reads_padding
from tenon.lowering.kernels.masked_range import read_visible
from tenon.lowering.kernels.obstacles import stored_across
from tenon.lowering.kernels.shared_loops import SharedLoop, is_accumulated
from tenon.lowering.kernels.statement import Access, Kernel, LoopKind, Statement
from tenon.lowering.schedules.schedule_attribute import Schedule

MOST_OPERATIONS = 8


def epilogues(
    kernel: Kernel, shared: Sequence[SharedLoop], schedules: Sequence[Schedule | None]
) -> dict[int, dict[int, int]]:
    """By statement, those that the next one goes on with: the loop of this one for each loop of the next one."""
    statements = kernel.statements
    found: dict[int, dict[int, int]] = {}
    if any(is_accumulated(statements, loop) for loop in shared):
        return found
    for number, (first, following) in enumerate(pairwise(statements)):
        tile, own = schedules[number], schedules[number + 1]
        if tile is None or own is None or not _keeps_sums(first, tile) or not _is_short(following):
            continue
        loops = {loop[number + 1]: loop[number] for loop in shared}
        is_alike = own == Schedule(own.vector, own.width, own.unroll) and own.width == tile.width
        if is_alike and loops.get(own.vector or 0) == tile.vector and _takes(kernel, first, following, loops):
            found[number] = loops
    return found


def _keeps_sums(statement: Statement, schedule: Schedule) -> bool:
    """Whether register tiles hold sums, vectors of what is stored, from their start to their end."""
    if schedule.vector is None or LoopKind.REDUCTION not in statement.kinds or None in statement.initial:
        return False
    cut = (schedule.rows, schedule.block, schedule.tile, schedule.rest)
    is_plain = statement.kinds[schedule.vector] is LoopKind.PARALLEL and not statement.loops(LoopKind.SEQUENTIAL)
    is_plain = is_plain and all(part is None for part in cut) and read_visible(statement) is None
    is_stored = not stored_across(statement, schedule.vector, schedule.jam) and not schedule.in_rows(statement)
    return is_plain and is_stored


def _is_short(statement: Statement) -> bool:
    """Whether a statement does little to each element by itself, and nothing that it must not do in masked lanes."""
    if set(statement.kinds) != {LoopKind.PARALLEL} or reads_padding(statement) or read_visible(statement) is not None:
        return False
    if any(map(statement.reads_output, range(len(statement.outputs)))) or statement.divides_integers():
        return False
    ops = [op for op in statement.body.ops if not isinstance(op, linalg.ops.YieldOp | arith.ConstantOp)]
    return len(ops) <= MOST_OPERATIONS and all(map(_is_instruction, ops))


def _is_instruction(op: Operation) -> bool:
    return op.dialect_name() == "arith" or isinstance(op, math.AbsFOp | math.FmaOp)


def _takes(kernel: Kernel, first: Statement, following: Statement, loops: Mapping[int, int]) -> bool:
    """Whether `following`, and no other statement, reads the outputs of `first`, in each iteration what the same one
    made."""
    if any(extent != 1 for loop, extent in enumerate(following.extents) if loop not in loops):
        return False
    used = loops.values()
    if any(first.extents[loop] != 1 for loop in first.loops(LoopKind.PARALLEL) if loop not in used):
        return False
    made = {alloc.memref for alloc in kernel.intermediates}
    if any(a.buffer in made for a in first.inputs) and any(a.buffer in made for a in following.outputs):
        return False
    for output in first.outputs:
        users = {use.operation for use in output.buffer.uses} - {first.op, following.op}
        if output.buffer not in made or not all(isinstance(op, linalg.ops.FillOp | memref.DeallocOp) for op in users):
            return False
        if not all(_is_same(output, a, loops) for a in following.inputs if a.buffer is output.buffer):
            return False
    return True


def _is_same(written: Access, read: Access, loops: Mapping[int, int]) -> bool:
    """Whether an iteration reads the element that the same one wrote."""
    return all(
        size == 1 or (own is not None and loops.get(own) == known)
        for own, known, size in zip(read.plain_loops(), written.plain_loops(), written.shape, strict=True)
    )
