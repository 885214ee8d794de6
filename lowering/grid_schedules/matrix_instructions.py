"""Products of matrices by the instructions that warps have for them: f16 and bf16 with sums in f32, i8 with sums in
i32, f64.

A block computes a tile of the result, whose operands go through shared memory in pieces of the reduced axis, each
copied while those before it are multiplied. They lie there as they do in memory; runs of 16 bytes trade places so that
eight rows of a matrix are in different banks. Of f64 there are unused elements behind rows for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from tenon.lowering.grid_schedules.contractions import large_product, ordered, packed_results
from tenon.lowering.grid_schedules.product_tiles import (
    Block,
    Candidate,
    Tiled,
    bytes_of_piece,
    candidate,
    registers_of,
    tiled,
)
from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.contract import IN_EITHER_ORDER, WIDE, Contract
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.pack import ASYNC, LEAST_ASYNC, SHARED, Pack
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.products import MatrixProduct, matrix_instruction
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.tile_copies import RUN, SWIZZLES, widest
from tenon.lowering.steps.vectorize import Unroll, Vectorize
from tenon.passes.machine import Gpu

ROWS, COLUMNS = (128, 64, 32, 16), (128, 64, 32, 16)
"""Of a tile: four warps have at most 64 by 64 sums each."""
WARPS = 4
"""Of a block: as many as a multiprocessor begins instructions of in a cycle."""
LEAST_PART = 16
"""Rows and columns of a warp's part of a tile."""
DEPTH = 64
"""Bytes of each row of an operand that are copied at a time: two instructions deep."""
LONGEST = 4 * DEPTH
"""The same where more is to be under way."""
STAGES = 4
"""Pieces that are copied or used at a time."""


def tiles_of_matrix_instructions(nest: Nest) -> Sequence[Tiled] | str:
    """The tiles for a product of matrices, alone or followed by what is done to each element of the result."""
    product = large_product(nest)
    if isinstance(product, str):
        return product
    instruction = matrix_instruction(product.statement, nest.machine)
    if isinstance(instruction, str):
        return instruction
    return tiled(candidates(nest, product), _Steps(nest, product, instruction).all)


def warps_of(rows: int, columns: int) -> tuple[int, int]:
    """Warps along the rows and the columns of a tile."""
    along_rows = 2 if rows >= 2 * LEAST_PART else 1
    return along_rows, min(WARPS // along_rows, columns // LEAST_PART)


def candidates(nest: Nest, product: MatrixProduct) -> Iterator[Candidate]:
    """The tiles that there are, with what they take."""
    for rows in ROWS:
        for columns in COLUMNS:
            down, across = warps_of(rows, columns)
            moved = down * across * (rows // down + columns // across)
            shared = STAGES * DEPTH * (rows + columns)
            block = Block(rows, columns, down * across * nest.machine.warp, moved, shared)
            if registers_of(product, block) <= nest.machine.thread_registers:
                yield candidate(nest, product, block)


@dataclass(frozen=True)
class _Steps:
    nest: Nest
    product: MatrixProduct
    instruction: Instruction

    def all(self, tile: Candidate) -> list[Step]:
        nest, product = self.nest, self.product
        row, column, reduced = product.row, product.column, product.reduced
        steps = ordered(nest, product)
        down, across = warps_of(tile.rows, tile.columns)
        steps += cut_rows(row, tile.rows, tile.rows // down) + _columns(column, tile.columns, tile.columns // across)
        depth = self.instruction.fragments["a"].shape[1]
        operands = ((product.left, row, tile.rows), (product.right, column, tile.columns))
        copies = ASYNC if all(is_asynchronous(nest, access, axis, reduced) for access, axis, _ in operands) else ""
        # What else is under way is in registers of the threads, which have no room for longer pieces.
        bytes_ = bytes_of_piece(nest.machine, tile, STAGES, DEPTH, LONGEST) if copies else DEPTH
        piece = min(bytes_ // product.left.access.element_bytes, -(-nest.extents[reduced] // depth) * depth)
        outer, inner, whole = (f"{reduced}{name}" for name in "oif")
        steps += [Split(reduced, piece, (outer, inner)), Split(inner, depth, (f"{reduced}u", whole))]
        for access, axis, size in operands:
            steps += packed_operand(nest, access, {axis: size, reduced: piece}, reduced, outer, copies)
        steps += [*packed_results(nest, [access.buffer for access, _, _ in operands]), Contract(whole, "mma")]
        pieces = -(-nest.extents[reduced] // piece)
        ahead = pieces * prod(nest.extents[axis] for axis in product.around)
        stages = min(STAGES, ahead) if copies else min(2, pieces)
        return [*steps, Pipeline(outer, stages)] if stages > 1 else steps


def packed_operand(
    nest: Nest, access: NestAccess, sizes: dict[str, int], reduced: str, at: str, copies: str
) -> list[Step]:
    """Steps that copy an operand to shared memory at a loop (or once), in tiles of so many elements along its own axis
    and the `reduced` one, and load fragments of it."""
    (axis,) = [known for known in sizes if known != reduced]
    name, along = nest.name_of(access.buffer), access.leading[-1]
    bytes_ = access.access.element_bytes
    inner = "" if along in (axis, reduced) else axis
    if not inner and along == axis and bytes_ not in IN_EITHER_ORDER:
        inner = reduced
    row = sizes[inner or str(along)] * bytes_
    pad, swizzle = 0, gcd(max(SWIZZLES), row // RUN)
    if bytes_ == WIDE:
        pad, swizzle = _unused(row, nest.machine, along_reduced=(inner or along) == reduced) // bytes_, 1
    return [Pack(name, SHARED, at=at, inner=inner, pad=pad, swizzle=swizzle, copy=copies), Pack(name, "fragments")]


def _unused(row: int, machine: Gpu, *, along_reduced: bool) -> int:
    """The unused bytes behind rows of so many, with which f64 that threads load at the same time are in different
    banks: of two rows eight neighbours along the reduced axis, or of every second row four along the other one."""
    banks = machine.shared_access
    apart, period = (banks // 2, banks) if along_reduced else (banks // 8, banks // 4)
    return (apart - row) % period


def is_asynchronous(nest: Nest, access: NestAccess, axis: str, reduced: str) -> bool:
    """Whether threads can go on while an operand is copied, which has the axes `axis` and `reduced`."""
    along, bytes_ = access.leading[-1], access.access.element_bytes
    if along not in (axis, reduced) or (along == axis and bytes_ not in IN_EITHER_ORDER):
        return False
    return widest(nest, access) * bytes_ >= LEAST_ASYNC


def cut_rows(axis: str, size: int, of_warp: int) -> list[Step]:
    """Steps that cut the rows: blocks, warps, matrices of 16 rows, their halves, lanes."""
    return [*_cut(axis, size, of_warp, (16, 8), "hl"), Unroll(f"{axis}h"), BindLoop(f"{axis}l", "lane")]


def dealt_columns(loop: str, axis: str, *, like: str = "") -> list[Step]:
    """Steps that deal the columns of a loop out to lanes as a result of the instructions is."""
    return [
        Split(loop, 8, (f"{axis}u", f"{axis}s")),
        Split(f"{axis}s", 2, (f"{axis}l", f"{axis}v")),
        Unroll(f"{axis}u"),
        BindLoop(f"{axis}l", "lane", like=like),
        Vectorize(f"{axis}v"),
    ]


def _columns(axis: str, size: int, of_warp: int) -> list[Step]:
    """Steps that cut the columns: blocks, warps, matrices of 8 columns, lanes, the two numbers of each."""
    return [*_cut(axis, size, of_warp, (8, 2), "lv"), BindLoop(f"{axis}l", "lane"), Vectorize(f"{axis}v")]


def _cut(axis: str, size: int, of_warp: int, matrix: tuple[int, int], names: str) -> list[Step]:
    """Steps that cut an axis into blocks, warps and matrices, and these into two loops of the `names`."""
    return [
        Split(axis, size, (f"{axis}g", f"{axis}b")),
        Split(f"{axis}b", of_warp, (f"{axis}w", f"{axis}r")),
        Split(f"{axis}r", matrix[0], (f"{axis}u", f"{axis}s")),
        Split(f"{axis}s", matrix[1], (f"{axis}{names[0]}", f"{axis}{names[1]}")),
        BindLoop(f"{axis}g", "grid"),
        BindLoop(f"{axis}w", "warp"),
        Unroll(f"{axis}u"),
    ]
