"""Products of matrices of f16 or bf16 by the instructions that four warps have for them on `sm_90a` (wgmma).

A block computes a tile of the result, each four warps 64 of its rows. Operands go through shared memory in pieces of
128 bytes of each row, where the instructions read them: a piece is copied while the two before it are multiplied, and
products of one piece are under way while those of the next are begun. Operands whose neighbours are not along the
reduced axis lie in panels of 64.

Blocks that run at the same time have neighbouring rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

from tenon.lowering.grid_schedules.contractions import large_product, ordered, packed_results
from tenon.lowering.grid_schedules.matrix_instructions import WARPS, dealt_columns, is_asynchronous
from tenon.lowering.grid_schedules.product_tiles import BESIDE_SUMS, Block, Candidate, Tiled, candidate, tiled
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.contract import WGMMA, Contract
from tenon.lowering.steps.contract_warpgroup import DEPTH, PART, ROWS, SPAN
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.pack import BOXES, SHARED, Pack
from tenon.lowering.steps.pipeline import Last, Pipeline, Registers, left_to_computing
from tenon.lowering.steps.products import MatrixProduct, warpgroup_instruction
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.rotate import Rotate
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.tile_copies import SWIZZLES
from tenon.lowering.steps.vectorize import Unroll

TILES = ((128, 256), (256, 128), (128, 128), (64, 256), (64, 128), (128, 64), (64, 64))
"""Rows and columns: a thread has at most 128 sums."""
LEAST = 64
"""Rows and columns below which tiles are mostly empty."""
STAGES = 4
"""Pieces that are copied or used at a time."""
TURN = 64
"""Columns for which code that follows a product is written out, where it is long."""
LONG = 16
"""Operations on each element from which on it is: for all sums of a thread, it would be fetched again and again."""
COPYING = 40
"""What each thread of those that copy boxes keeps, if they leave some to others: enough for addresses."""
ALONE = 32
"""What a thread that computes has beside its sums where these are all that is stored: it copies nothing."""
GROUP = 8
"""About how many tiles down the rows of the result blocks take before they go on to the next columns."""


def tiles_of_warpgroups(nest: Nest, copies: str = BOXES) -> Sequence[Tiled] | str:
    """The tiles for a product of matrices, alone or followed by what is done to each element of the result, whose
    operands a warp of its own has copied, or all threads copy."""
    product = large_product(nest)
    if isinstance(product, str):
        return product
    instruction = warpgroup_instruction(product.statement, nest.machine, LEAST)
    if isinstance(instruction, str):
        return instruction
    if (refused := instruction.obstacle(nest.machine.architecture)) is not None:
        return refused
    if min(nest.extents[product.row], nest.extents[product.column]) < LEAST:
        return f"the result has less than {LEAST} rows or columns"
    piece, depth = _piece(product), nest.extents[product.reduced]
    if 3 * piece * -(-depth // piece) > 4 * depth:
        return f"pieces of {piece} of the {depth} that are added up would be mostly empty"
    if not all(is_asynchronous(nest, access, axis, product.reduced) for access, axis in _operands(product)):
        return "rows of operands begin where no asynchronous copy can"
    return tiled(candidates(nest, product, copies), partial(_steps, nest, product, copies))


def _operands(product: MatrixProduct) -> tuple[tuple[NestAccess, str], tuple[NestAccess, str]]:
    """The operands, with the axes that they alone have."""
    return (product.left, product.row), (product.right, product.column)


def _piece(product: MatrixProduct) -> int:
    """Elements along the reduced axis that are copied at a time."""
    return SPAN // product.left.access.element_bytes


def candidates(nest: Nest, product: MatrixProduct, copies: str) -> Iterator[Candidate]:
    """The tiles that there are, with what they take where operands are copied so."""
    stages = _stages(nest, product)
    for rows, columns in TILES:
        groups = rows // ROWS
        moved, shared = rows + columns + groups * (ROWS + columns), stages * SPAN * (rows + columns)
        yield candidate(
            nest, product, Block(rows, columns, groups * WARPS * nest.machine.warp, moved, shared, copies == BOXES)
        )


def _stages(nest: Nest, product: MatrixProduct) -> int:
    """Pieces that are copied or used at a time, where there are so many."""
    pieces = -(-nest.extents[product.reduced] // _piece(product)) * prod(nest.extents[axis] for axis in product.around)
    return min(STAGES, pieces)


def _steps(nest: Nest, product: MatrixProduct, copies: str, tile: Candidate) -> list[Step]:
    row, column, reduced = product.row, product.column, product.reduced
    steps = ordered(nest, product)
    turns = _turns(nest, product, tile)
    steps += [*rows_of_warpgroups(row, tile.rows), *_columns(column, tile.columns, turns)]
    steps += _neighbours(nest, product, tile)
    outer, inner, whole = (f"{reduced}{name}" for name in "oif")
    piece = _piece(product)
    steps += [Split(reduced, piece, (outer, inner)), Split(inner, DEPTH, (f"{reduced}u", whole))]
    for access, _ in _operands(product):
        panel = piece if access.leading[-1] != reduced else 0
        name = nest.name_of(access.buffer)
        steps.append(Pack(name, SHARED, at=outer, swizzle=max(SWIZZLES), copy=copies, panel=panel))
    steps += [*packed_results(nest, [access.buffer for access, _ in _operands(product)]), Contract(whole, WGMMA)]
    if copies == BOXES:
        return [*steps, *_roles(nest, product, tile, outer)]
    stages = _stages(nest, product)
    return [*steps, Pipeline(outer, stages)] if stages > 1 else steps


def _roles(nest: Nest, product: MatrixProduct, tile: Candidate, outer: str) -> list[Step]:
    """Steps that say how many pieces are copied ahead at loop `outer`, how many blocks there are, and how many
    registers who computes has. Where there are more tiles than blocks at a time, blocks last, and pieces of the next
    tiles are copied ahead as well, as many as fit beside the other blocks of a multiprocessor."""
    machine, stages, steps = nest.machine, _stages(nest, product), list[Step]()
    at_a_time = machine.multiprocessors * tile.resident
    lasts = tile.blocks > at_a_time
    if lasts:
        size = SPAN * (tile.rows + tile.columns)
        fits = [
            n for n in range(1, STAGES + 1) if machine.resident(tile.threads, tile.registers, n * size) >= tile.resident
        ]
        stages = max([stages, *fits])
    if stages > 1:
        steps.append(Pipeline(outer, stages))
    if lasts:
        steps.append(Last(at_a_time))
    first, computing = left_to_computing(nest, tile.threads, COPYING)
    operands = [access.buffer for access, _ in _operands(product)]
    others = len(packed_results(nest, operands))
    if tile.registers - (BESIDE_SUMS - ALONE if others == 1 else 0) > first:
        steps.append(Registers(COPYING, computing))
    return steps


def rows_of_warpgroups(axis: str, size: int) -> list[Step]:
    """Steps that cut the rows: blocks, four warps, a warp, halves of its rows, lanes."""
    return [
        Split(axis, size, (f"{axis}g", f"{axis}b")),
        Split(f"{axis}b", ROWS, (f"{axis}w", f"{axis}r")),
        Split(f"{axis}r", PART, (f"{axis}q", f"{axis}s")),
        Split(f"{axis}s", 8, (f"{axis}h", f"{axis}l")),
        BindLoop(f"{axis}w", "warp"),
        BindLoop(f"{axis}q", "warp"),
        Unroll(f"{axis}h"),
        BindLoop(f"{axis}l", "lane"),
    ]


def _turns(nest: Nest, product: MatrixProduct, tile: Candidate) -> int:
    """How often what follows a product runs, of which all at once would be long code, or keep what it loads for each
    element in registers: where tiles end beyond extents, each load is a branch, and all come before their use."""
    following = [statement for statement in nest.statements if not statement.reduced]
    if len(following) != 1 or tile.columns < 2 * TURN:
        return 1
    sizes = (product.row, tile.rows), (product.column, tile.columns)
    is_cut = any(nest.extents[axis] % size for axis, size in sizes)
    loaded = [a for a in following[0].inputs if a.access.is_used and a.buffer in nest.kernel.function.body.block.args]
    is_kept = is_cut and any({product.row, product.column} <= set(access.axes) for access in loaded)
    return tile.columns // TURN if is_kept or len(following[0].statement.body.ops) > LONG else 1


def _columns(axis: str, size: int, turns: int) -> list[Step]:
    """Steps that cut the columns: blocks, those that take turns, those of a thread, lanes, the two numbers of each."""
    inner = size // turns
    taken = [Split(f"{axis}b", inner, (f"{axis}n", f"{axis}c")), Rotate(f"{axis}n")] if turns > 1 else []
    return [
        Split(axis, size, (f"{axis}g", f"{axis}b")),
        *taken,
        *dealt_columns(f"{axis}c" if taken else f"{axis}b", axis),
    ]


def _neighbours(nest: Nest, product: MatrixProduct, tile: Candidate) -> list[Step]:
    """Steps that number the blocks: several rows of tiles, column by column, where there are that many."""
    row, column = f"{product.row}g", f"{product.column}g"
    down, across = (-(-nest.extents[a] // n) for a, n in ((product.row, tile.rows), (product.column, tile.columns)))
    grid = [BindLoop(row, "grid"), BindLoop(column, "grid")]
    sizes = [size for size in range(GROUP // 2, 2 * GROUP + 1) if down % size == 0]
    group = min(sizes, key=lambda size: abs(size - GROUP), default=down)
    if group == down or across == 1:
        return [*grid]
    split = Split(row, group, (f"{row}o", f"{row}i"))
    ordered = Reorder((f"{row}o", column, f"{row}i"))
    return [split, ordered, BindLoop(f"{row}o", "grid"), grid[1], BindLoop(f"{row}i", "grid")]
