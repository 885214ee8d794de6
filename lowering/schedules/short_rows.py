"""Which kernels have rows so short that lanes had better take a row each than the elements of one.

A row of 10 elements fills 10 of 16 lanes, and what happens once per row (the lanes of a sum are combined, a logarithm
is taken of it) fills one. Columns of 16 rows fill all. They take copies, in which each vector goes through p - 1
shuffles for each prime factor p of the length of rows (`transposed_tiles`). The instructions of a row, counted both
ways, decide:

    in rows      vectors that hold a row * operations + 2 * log2(lanes) for a reduction; operations, done once per row
    in columns   elements of a row / lanes * operations + copies

`turn_rows` rewrites the kernel; each statement then has its lanes along the loop over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, linalg, math, memref
from xdsl.ir import Operation, SSAValue

from tenon.dialects.types.size import Size, estimate
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import holds_rows
from tenon.lowering.kernels.shared_loops import is_contraction
from tenon.lowering.kernels.statement import Kernel, LoopKind, Statement, buffer_shape, element_type, root_of
from tenon.lowering.kernels.turn_rows import prime_factors
from tenon.lowering.schedules.steps import LARGEST_TILE
from tenon.lowering.schedules.tile import decide_tile
from tenon.passes.machine import Machine

MOST_SHUFFLES = 288
"""Of a tile, written out: compiling more takes longer than they are worth."""
FEWEST_ROWS = 1024
"""Fewer take too little time, too."""
FUNCTION_COST, DIVISION_COST = 16, 4
"""Instructions of a function (exp, log), and those that take as long as a division or a root."""
SHUFFLE_COST = 2
"""Instructions that run in the time of a shuffle: fewer units do these."""
SELECTION_COST = 8
"""How much more than a sum of lanes it takes to find the best one and its place."""
SCALAR_COST = 3
"""How much longer a function of a scalar takes, each instruction of which waits for the one before."""
LEAST_GAIN = 1.05
"""Of fewer instructions: the copies store and load again what was in memory already."""


def short_rows(kernel: Kernel, machine: Machine) -> list[SSAValue]:
    """The buffers of a kernel whose rows had better be columns; none where they are fine as they are."""
    statements = kernel.statements
    if len(statements) != len(kernel.items) or any(s.body_loads() or is_contraction(s) for s in statements):
        return []
    sizes = next(filter(None, map(_short_rows_of, statements)), None)
    if sizes is None:
        return []
    buffers = _in_rows(statements, *sizes)
    copied = [buffer for buffer in buffers if not isinstance(buffer.owner, memref.AllocOp)]
    in_columns = sum(_columns_cost(statement, machine) for statement in statements)
    in_columns += sum(_copy_cost(buffer, machine) for buffer in copied)
    in_rows = sum(_rows_cost(statement, sizes[0], machine, alone=len(statements) == 1) for statement in statements)
    return buffers if in_columns * LEAST_GAIN < in_rows else []


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
        if isinstance(rows, Size) or isinstance(columns, Size) or not 1 < columns <= LARGEST_TILE or rows < FEWEST_ROWS:
            continue
        if columns * _shuffles(columns) <= MOST_SHUFFLES and holds_rows(access, row, column, statement.extents):
            return rows, columns
    return None


def _in_rows(statements: Sequence[Statement], rows: int, columns: int) -> list[SSAValue]:
    """The buffers of so many rows of that length; none if some statement sees one otherwise, or reads a result before
    it is written."""
    found: dict[SSAValue, SSAValue] = {}
    unwritten = {output.buffer for statement in statements for output in statement.outputs}
    for statement in statements:
        if any(access.buffer in unwritten for access in statement.inputs):
            return []
        unwritten -= {output.buffer for output in statement.outputs}
        for access in statement.accesses:
            if access.shape[-2:] != (rows, columns):
                continue
            row, column = access.plain_loops()[-2:]
            if row is None or statement.kinds[row] is not LoopKind.PARALLEL or statement.extents[row] != rows:
                return []
            if not holds_rows(access, row, column, statement.extents):
                return []
            if found.setdefault(root_of(access.buffer), access.buffer) is not access.buffer:
                return []
        for position, output in enumerate(statement.outputs):
            if statement.reads_output(position) and statement.initial[position] is None and output.buffer in found:
                return []
    return list(found.values())


def _operations(statement: Statement) -> int:
    """The instructions of one iteration: its loads and stores, and what it computes."""

    def cost(op: Operation) -> int:
        if isinstance(op, arith.DivfOp | math.SqrtOp | math.RsqrtOp):
            return DIVISION_COST
        if isinstance(op, arith.ConstantOp | linalg.ops.YieldOp | linalg.ops.IndexOp):
            return 0
        return FUNCTION_COST if op.name.startswith("math.") and not isinstance(op, math.AbsFOp) else 1

    return sum(access.is_used for access in statement.accesses) + sum(map(cost, statement.body.ops))


def _rows_cost(statement: Statement, rows: int, machine: Machine, *, alone: bool) -> float:
    """Instructions with lanes along the elements of rows, or none: LLVM makes vectors of a statement `alone`."""
    own = [loop for loop, extent in enumerate(statement.extents) if extent != rows]
    tile, _ = decide_tile(statement, own, machine)
    iterations, operations = prod(map(estimate, statement.extents)), _operations(statement)
    if tile is None or tile.vector is None:
        if operations >= FUNCTION_COST:
            return iterations * operations * SCALAR_COST
        return _columns_cost(statement, machine) if alone else iterations * operations
    length = estimate(statement.extents[tile.vector])
    combining = 0
    if statement.kinds[tile.vector] is LoopKind.REDUCTION:
        combining = 2 * (tile.width.bit_length() - 1) * len(statement.outputs)
        combining *= SELECTION_COST if statement.selection(tile.vector) else 1
    return iterations / length * (-(-length // tile.width) * operations + combining)


def _columns_cost(statement: Statement, machine: Machine) -> float:
    """Instructions with lanes along rows."""
    lanes = machine.vector_bits // compute_bits(statement)
    return prod(map(estimate, statement.extents)) * _operations(statement) / lanes


def _copy_cost(buffer: SSAValue, machine: Machine) -> float:
    """Instructions to make columns of rows, or rows of columns."""
    shape = buffer_shape(buffer)
    lanes = machine.vector_bits // (8 * element_bytes(element_type(buffer)))
    return prod(shape) * (2 + SHUFFLE_COST * _shuffles(shape[-1])) / lanes


def _shuffles(length: int) -> int:
    """How many shuffles each vector of rows of that length goes through."""
    return sum(p - 1 for p in prime_factors(length))
