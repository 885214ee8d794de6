"""Two products of matrices with a softmax between them, softmax(Q Kᵀ) V, without scores in memory.

A warp has rows of queries, a block several warps; keys and values go through shared memory in pieces, the next one
being copied while one is used. Scores of a piece are in the registers of the threads that have the sums, where they
become the left operand of the second product as they are; maxima and sums of rows go on from piece to piece. (T. Dao,
"FlashAttention-2", 2023.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenon.lowering.grid_schedules.contractions import packed_results
from tenon.lowering.grid_schedules.matrix_instructions import cut_rows, dealt_columns, is_asynchronous, packed_operand
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.contract import Contract
from tenon.lowering.steps.nest import Nest
from tenon.lowering.steps.online import OnlineStep
from tenon.lowering.steps.pack import ASYNC
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.products import MatrixProduct, matrix_instruction, matrix_product
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step

WARPS = 4
"""Of a block."""
SUMS = 64
"""Sums of each product that a thread has, at most."""
MATRIX = (16, 8)
"""Rows and columns of the result of an instruction."""
MOST_ROWS, KEYS = 32, 64
"""Of a warp, and of a piece."""


def decide_online_products(nest: Nest) -> Sequence[Step] | str:
    """Steps for two products of which one multiplies rows that are made of the other."""
    found: list[MatrixProduct] = []
    for statement in nest.statements:
        product = matrix_product(statement)
        if isinstance(product, str):
            continue
        instruction = matrix_instruction(statement, nest.machine)
        if isinstance(instruction, str):
            return instruction
        found.append(product)
    if len(found) != 2:
        return f"{len(found)} products of matrices, expected two"
    first, second = found
    if (first.row, first.column) != (second.row, second.reduced) or not nest.writers(second.left.buffer):
        return "the second product does not multiply rows that are made of the first"
    if first.around or second.around:
        return "products are summed up along windows"
    return _Steps(nest, first, second).all()


@dataclass(frozen=True)
class _Steps:
    nest: Nest
    first: MatrixProduct
    second: MatrixProduct

    def all(self) -> list[Step]:
        nest, first, second = self.nest, self.first, self.second
        row, key, depth, head = first.row, first.column, first.reduced, second.column
        others = [axis for axis in nest.extents if axis not in (row, key, depth, head)]
        order = (*others, row, key, depth, head)
        steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
        steps += [BindLoop(axis, "grid") for axis in others]
        rows = self.rows()
        steps += cut_rows(row, rows * WARPS, rows)
        steps += [Split(key, KEYS, (f"{key}o", f"{key}b")), *dealt_columns(f"{key}b", key)]
        steps += [Split(depth, MATRIX[0], (f"{depth}u", f"{depth}f"))]
        steps += dealt_columns(head, head, like=f"{key}l")
        heads = -(-nest.extents[head] // MATRIX[1]) * MATRIX[1]
        depths = -(-nest.extents[depth] // MATRIX[0]) * MATRIX[0]
        operands = (
            (first.left, {row: rows * WARPS, depth: depths}, depth, ""),
            (first.right, {key: KEYS, depth: depths}, depth, f"{key}o"),
            (second.right, {head: heads, key: KEYS}, key, f"{key}o"),
        )
        asynchronous = [is_asynchronous(nest, access, next(iter(sizes)), along) for access, sizes, along, _ in operands]
        for access, sizes, along, at in operands:
            steps += packed_operand(nest, access, sizes, along, at, ASYNC if all(asynchronous) else "")
        steps += packed_results(nest, [access.buffer for access, *_ in operands])
        steps += [Contract(f"{depth}f", "mma"), Contract(f"{key}u", "mma"), OnlineStep(f"{key}o")]
        return [*steps, Pipeline(f"{key}o", 2)] if nest.extents[key] > KEYS else steps

    def rows(self) -> int:
        """Rows of a warp: as many as sums of both products stay in registers."""
        nest, rows = self.nest, MOST_ROWS
        heads = nest.extents[self.second.column]
        while rows > MATRIX[0] and rows * heads > SUMS * nest.machine.warp:
            rows //= 2
        return rows
