"""Which kernels have rows so short that lanes had better take a row each than the elements of one.

A row of 10 elements fills 10 of 16 lanes, and what happens once per row (the lanes of a sum are combined, a logarithm
is taken of it) fills one. Columns of 16 rows fill all. They take copies, in which each vector goes through p - 1
shuffles for each prime factor p of the length of rows (`transposed_tiles`). The instructions of a row, counted both
ways, decide:

    in rows      vectors that hold a row * operations + 2 * log2(lanes) for a reduction; operations, done once per row
    in columns   elements of a row / lanes * operations + copies

`turn_rows` rewrites the kernel; each statement then has its lanes along the loop over rows. Rows that a product gives
stay rows of it, and are copied to columns behind it, so that it counts neither way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from xdsl.dialects import arith, linalg, math, memref
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tenon.dialects.families.index_map_gather_scatter import FEWEST_ROWS
from tenon.dialects.types.size import Size, estimate
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import holds_rows
from tenon.lowering.kernels.shared_loops import is_contraction
from tenon.lowering.kernels.statement import (
    Access,
    Kernel,
    LoopKind,
    Statement,
    buffer_shape,
    element_type,
    root_of,
)
from tenon.lowering.kernels.turn_rows import contraction_of, shuffles
from tenon.lowering.schedules.schedule_attribute import LARGEST_TILE
from tenon.lowering.schedules.tile import decide_tile
from tenon.passes.machine import Machine

MOST_SHUFFLES = 288
"""Of a tile, written out, for `FEWEST_ROWS` rows and more, and in proportion for fewer: compiling more takes longer
than they are worth."""
LEAST_ROWS = 16
"""Which fill the lanes of a vector."""
FUNCTION_COST, DIVISION_COST = 16, 4
"""Instructions of a function (exp, log), and those that take as long as a division or a root."""
SHUFFLE_COST = 2
"""Instructions that run in the time of a shuffle: fewer units do these."""
SELECTION_COST = 8
"""How much more than a sum of lanes it takes to find the best one and its place."""
SCALAR_COST = 3
"""How much longer a function of a scalar takes, each instruction of which waits for the one before."""
LEAST_GAIN, LEAST_PRODUCT_GAIN = 1.05, 1.2
"""Of fewer instructions: the copies store and load again what was in memory already; the same where a product gives the
rows, which are stored for the copies alone."""


def short_rows(kernel: Kernel, machine: Machine) -> list[SSAValue]:
    """The buffers of a kernel whose rows had better be columns; none where they are fine as they are."""
    statements = kernel.statements
    if len(statements) != len(kernel.items) or any(s.body_loads() for s in statements):
        return []
    others = [statement for statement in statements if not is_contraction(statement)]
    sizes = dict.fromkeys(filter(None, [*map(_short_rows_of, others), *_parts_of(others)]))
    buffers = [buffer for rows, columns in sizes for buffer in _in_rows(statements, rows, columns)]
    if not buffers:
        return []
    copied = [
        buffer
        for buffer in buffers
        if not isinstance(buffer.owner, memref.AllocOp) or contraction_of(statements, buffer) is not None
    ]
    in_columns = sum(columns_cost(statement, machine) for statement in others)
    in_columns += sum(_copy_cost(buffer, machine) for buffer in copied)
    counts = {rows for rows, _ in sizes}
    in_rows = sum(rows_cost(statement, counts, machine, alone=len(statements) == 1) for statement in others)
    gain = LEAST_GAIN if len(others) == len(statements) else LEAST_PRODUCT_GAIN
    return buffers if in_columns * gain < in_rows else []


def _short_rows_of(statement: Statement) -> tuple[int, int] | None:
    """How many rows a statement reduces, or takes functions of, and how long they are, if it reads each once, and they
    are short."""
    loops = {loop for loop, extent in enumerate(statement.extents) if extent != 1}
    for access in statement.inputs:
        *_, row, column = (None, None, *access.plain_loops())
        if row is None or column is None or access.loops() != loops or statement.kinds[row] is not LoopKind.PARALLEL:
            continue
        if statement.kinds[column] is LoopKind.PARALLEL and _operations(statement) < FUNCTION_COST:
            continue  # that little is done while memory is waited for
        rows, columns = statement.extents[row], statement.extents[column]
        if _are_short(rows, columns) and holds_rows(access, row, column, statement.extents):
            return rows, columns
    return None


def _parts_of(statements: Sequence[Statement]) -> list[tuple[int, int]]:
    """How many rows, and how long ones, there are of which statements access some columns at a time, and in all
    half of them or more."""
    found: dict[SSAValue, set[int]] = {}
    for statement in statements:
        for access in statement.accesses:
            columns = _columns(statement, access)
            if columns is not None and len(columns) < access.shape[-1]:
                found.setdefault(access.buffer, set()).update(columns)
    shapes = [(buffer_shape(buffer)[-2:], columns) for buffer, columns in found.items()]
    return [(rows, length) for (rows, length), columns in shapes if 2 * len(columns) >= length]


def _columns(statement: Statement, access: Access) -> range | None:
    """Which columns of short rows an access reads or writes along a loop over the rows."""
    if not access.is_used or len(access.shape) < 2 or not _are_short(*access.shape[-2:]):
        return None
    if element_type(access.buffer) == i1:
        return None  # a byte in memory, and a bit in a vector
    row, column = access.plain_loops()[-2], access.subscripts[-1]
    if row is None or statement.kinds[row] is not LoopKind.PARALLEL or statement.extents[row] != access.shape[-2]:
        return None
    if any(row in subscript.factors for subscript in (*access.subscripts[:-2], column)):
        return None
    if any(isinstance(statement.extents[loop], Size) for loop in column.factors):
        return None
    return range(column.least(statement.extents), column.end(statement.extents))


def _are_short(rows: int, columns: int) -> bool:
    """Whether rows are short enough, and many enough, to become columns."""
    if isinstance(rows, Size) or isinstance(columns, Size) or not 1 < columns <= LARGEST_TILE or rows < LEAST_ROWS:
        return False
    return columns * shuffles(columns) * FEWEST_ROWS <= MOST_SHUFFLES * min(rows, FEWEST_ROWS)


def _in_rows(statements: Sequence[Statement], rows: int, columns: int) -> list[SSAValue]:
    """The buffers of so many rows of that length; none if some statement sees one otherwise, reads a result before it
    is written, or leaves some of it as it is."""
    found: dict[SSAValue, SSAValue] = {}
    written: dict[SSAValue, set[int]] = {}
    unwritten = {output.buffer for statement in statements for output in statement.outputs}
    contracted: set[SSAValue] = set()
    """What contractions see in rows, but for what they compute for others."""
    for statement in statements:
        if any(access.buffer in unwritten for access in statement.inputs):
            return []
        unwritten -= {output.buffer for output in statement.outputs}
        contracts = is_contraction(statement)
        for access in statement.accesses:
            if access.shape[-2:] != (rows, columns):
                continue
            if contracts:
                if access in statement.inputs or not isinstance(access.buffer.owner, memref.AllocOp):
                    contracted.add(access.buffer)
                continue
            part = _columns(statement, access)
            if part is None:
                return []
            if access in statement.outputs and _reaches_all_rows(statement, access):
                written.setdefault(access.buffer, set()).update(part)
            if found.setdefault(root_of(access.buffer), access.buffer) is not access.buffer:
                return []
        for position, output in enumerate(statement.outputs):
            if statement.reads_output(position) and statement.initial[position] is None and output.buffer in found:
                return []
    # Results are copied from columns as a whole, to rows that may hold something else that is kept.
    results = {output.buffer for s in statements if not is_contraction(s) for output in s.outputs}
    is_written = [len(written.get(buffer, ())) == columns for buffer in found.values() if buffer in results]
    return list(found.values()) if all(is_written) and contracted.isdisjoint(found.values()) else []


def _reaches_all_rows(statement: Statement, access: Access) -> bool:
    """Whether the loops run over all of the dimensions but the last."""
    loops = access.plain_loops()[:-1]
    return len(set(loops)) == len(loops) and all(
        size == (1 if loop is None else statement.extents[loop])
        for loop, size in zip(loops, access.shape[:-1], strict=True)
    )


def _operations(statement: Statement) -> int:
    """The instructions of one iteration: its loads and stores, and what it computes."""

    def cost(op: Operation) -> int:
        if isinstance(op, arith.DivfOp | math.SqrtOp | math.RsqrtOp):
            return DIVISION_COST
        if isinstance(op, arith.ConstantOp | linalg.ops.YieldOp | linalg.ops.IndexOp):
            return 0
        return FUNCTION_COST if op.name.startswith("math.") and not isinstance(op, math.AbsFOp) else 1

    return sum(access.is_used for access in statement.accesses) + sum(map(cost, statement.body.ops))


def rows_cost(statement: Statement, rows: Collection[int], machine: Machine, *, alone: bool) -> float:
    """Instructions with lanes along the elements of rows, or none: LLVM makes vectors of a statement `alone`."""
    own = [loop for loop, extent in enumerate(statement.extents) if extent not in rows]
    tile, _ = decide_tile(statement, own, machine)
    iterations, operations = prod(map(estimate, statement.extents)), _operations(statement)
    if tile is None or tile.vector is None:
        if operations >= FUNCTION_COST:
            return iterations * operations * SCALAR_COST
        return columns_cost(statement, machine) if alone else iterations * operations
    length = estimate(statement.extents[tile.vector])
    combining = 0
    if statement.kinds[tile.vector] is LoopKind.REDUCTION:
        combining = 2 * (tile.width.bit_length() - 1) * len(statement.outputs)
        combining *= SELECTION_COST if statement.selection(tile.vector) else 1
    return iterations / length * (-(-length // tile.width) * operations + combining)


def columns_cost(statement: Statement, machine: Machine) -> float:
    """Instructions with lanes along rows."""
    lanes = machine.vector_bits // compute_bits(statement)
    return prod(map(estimate, statement.extents)) * _operations(statement) / lanes


def _copy_cost(buffer: SSAValue, machine: Machine) -> float:
    """Instructions to make columns of rows, or rows of columns."""
    shape = buffer_shape(buffer)
    lanes = machine.vector_bits // (8 * element_bytes(element_type(buffer)))
    return prod(shape) * (2 + SHUFFLE_COST * shuffles(shape[-1])) / lanes
