"""Tiles of matrices: which products instructions on whole tiles do, and the blocks around them.

A pair of tiles of rows and a pair of tiles of columns make four tiles of sums: all registers that there are, and each
tile that is loaded is used twice. That takes as many bytes in a cycle as the second cache gives, so what is multiplied
again and again stays there: a panel of columns, of at most half of it, that all rows pass by in blocks. Columns are
always copied, since tiles take them in groups. A copy takes about as long as the products of as many rows as one tile
has; so each column is copied once, before all rows, in parts that the second cache holds (`pack_block`). Rows are
copied where their groups are not in memory as they are taken, or the last tile would reach beyond them.
"""

from __future__ import annotations

from math import prod

from tenon.dialects.types.size import estimate
from tenon.lowering.kernels.dot_products import TILE, DotProduct, dot_product, groups_obstacle, has_groups
from tenon.lowering.kernels.footprint import sharing_rows
from tenon.lowering.kernels.statement import LoopKind, Statement
from tenon.lowering.schedules.schedule_attribute import Schedule
from tenon.passes.machine import Machine
from tenon.passes.tile_products import tiles_pay

PAIR = 2 * TILE
MOST_ROWS = 2 * PAIR
"""Rows of a block: of its sums, and of what is done to them, much stays in the nearest cache."""
MOST_COLUMNS = 8 * PAIR
"""Columns of a block, which share the rows that come from afar."""


def decide_matrices(
    statement: Statement, columns_of: tuple[int, int], rows_of: tuple[int, int], machine: Machine
) -> Schedule | None:
    """The schedule that multiplies tiles, of columns and of rows: each a loop, and the one input that it indexes; the
    extents of what is copied are known. None where the machine has none for what is multiplied, or they do not pay."""
    product = dot_product(statement, tiles=True)
    (vector, columns), (jam, rows) = columns_of, rows_of
    if product is None or product.name not in machine.tiles:
        return None
    access, step = statement.inputs[rows], TILE * product.depth
    loop = max(
        statement.loops(LoopKind.REDUCTION), key=lambda loop: (has_groups(access, loop), statement.extents[loop])
    )
    sharing = sharing_rows(statement, statement.inputs[columns], vector)
    if not tiles_pay(statement.extents, (jam, vector, loop), sharing, access.element_bytes):
        return None
    in_place = has_groups(access, loop) and statement.extents[loop] % step == 0
    height = min(PAIR, -(-estimate(statement.extents[jam]) // TILE) * TILE)
    block, part = _columns(statement, columns, vector, loop, product, machine)
    tiled = Schedule(
        vector=vector,
        width=TILE,
        unroll=2,
        jam=jam,
        jam_count=height,
        pack=columns,
        pack_jam=None if in_place else rows,
        jam_block=MOST_ROWS // height * height,
        dot=loop,
        depth=product.depth,
        tile=TILE,
        vector_block=block,
        pack_block=part,
    )
    return None if groups_obstacle(statement, loop, product.depth, vector, tiled.packed, TILE) else tiled


def _columns(
    statement: Statement, columns: int, vector: int, loop: int, product: DotProduct, machine: Machine
) -> tuple[int, int]:
    """Columns of a block, and of a part that is copied at once."""
    access, step = statement.inputs[columns], TILE * product.depth
    extents = {r: statement.extents[r] for r in statement.loops(LoopKind.REDUCTION) if r in access.loops()}
    extents[loop] = -(-extents[loop] // step) * step
    size, extent = prod(extents.values()) * access.element_bytes, statement.extents[vector]
    fitting = max(machine.l2 // 2 // (size * PAIR), 1) * PAIR
    block = _even(extent, min(fitting, MOST_COLUMNS))
    return block, max(fitting // block, 1) * block


def _even(extent: int, most: int) -> int:
    """A multiple of a pair of tiles, up to `most`, that cuts `extent` into parts as even as can be."""
    parts = -(-extent // most)
    return -(-extent // (parts * PAIR)) * PAIR
