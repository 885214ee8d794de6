"""Products of matrices that are made of others, without what is between in memory: softmax(Q Kᵀ) V, and the gradients
of that, from scores that are computed again.

A warp has rows of scores, a block several warps; columns go through shared memory in pieces, the next one being copied
while one is used. Scores of a piece are in the registers of the threads that have the sums, where they become the left
operand of further products as they are; these go on from piece to piece (`pieces`), and so do maxima and sums of rows
(`online`). Of a gradient that sums along rows the rows are queries, as in memory; of one that sums along columns they
are keys. (T. Dao, "FlashAttention-2", 2023.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from tenon.lowering.grid_schedules.contractions import packed_results
from tenon.lowering.grid_schedules.matrix_instructions import cut_rows, dealt_columns, is_asynchronous, packed_operand
from tenon.lowering.grid_schedules.warpgroup_instructions import rows_of_warpgroups
from tenon.lowering.steps.bind import DESCENDING, BindLoop
from tenon.lowering.steps.contract import MMA, WGMMA, Contract
from tenon.lowering.steps.contract_warpgroup import ROWS
from tenon.lowering.steps.nest import Nest, NestAccess
from tenon.lowering.steps.pack import ASYNC, LEAST_ASYNC, SHARED, Pack
from tenon.lowering.steps.pieces import OnlineStep, PiecesStep, visible_along
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.products import MatrixProduct, matrix_instruction, matrix_product, warpgroup_instruction
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.tile_copies import SWIZZLES, widest

WARPS = 4
"""Of a block."""
MATRIX = (16, 8)
"""Rows and columns of the result of an instruction."""
SIZES = ((32, 64), (32, 32), (16, 64), (16, 32))
"""Rows of a warp and columns of a piece, the best first: for each row that a warp has, it loads columns once less."""
SUMS = 64
"""Sums of a product that goes on from piece to piece which a thread has, at most."""
QUERIES = 128
"""Rows of a block of two warpgroups."""
PIECES = (128, 64)
"""Columns of a piece, the best first."""
STAGES = 2
"""Pieces that are copied or used at a time."""
BESIDE = 32
"""What a thread of a warpgroup keeps beside sums."""
MOST_SUMS = 192
"""Sums of all products that such a thread has, at most: of two products from scores of 64 columns that go on, of heads
of 128 elements."""
PANEL, MOST = 64, 128
"""Elements of 2 bytes of a row of shared memory that warpgroups read, and of the rows that they multiply, at most."""
LEAST = 64
"""Rows and columns below which what a warpgroup computes is mostly empty."""
SHARE = 5 / 8
"""Of what a thread can hold what sums of all products take at most; fragments, places and row numbers need the rest."""


def decide_chained_products(nest: Nest) -> Sequence[Step] | str:
    """Steps for products of which some multiply rows that are made of the others."""
    chain = _chain(nest)
    return chain if isinstance(chain, str) else _Steps(nest, *chain).all()


def decide_chained_warpgroups(nest: Nest) -> Sequence[Step] | str:
    """The same by the instructions of warpgroups."""
    chain = _chain(nest)
    if isinstance(chain, str):
        return chain
    steps = _WarpgroupSteps(nest, *chain)
    return steps.obstacle() or steps.all()


def _chain(nest: Nest) -> tuple[str, str, list[MatrixProduct], list[MatrixProduct]] | str:
    """The axes of rows and columns of products that others are made of, these, and the others."""
    found: list[MatrixProduct] = []
    for statement in nest.statements:
        product = matrix_product(statement)
        if isinstance(product, str):
            continue
        instruction = matrix_instruction(statement, nest.machine)
        if isinstance(instruction, str):
            return instruction
        found.append(product)
    if len(found) < 2:
        return f"{len(found)} products of matrices, expected two or more"
    if any(product.around for product in found):
        return "products are summed up along windows"
    made = [[access for access in (p.left, p.right) if nest.writers(access.buffer)] for p in found]
    firsts = [product for product, accesses in zip(found, made, strict=True) if not accesses]
    seconds = [
        product if accesses[0] is product.left else product.turned()
        for product, accesses in zip(found, made, strict=True)
        if len(accesses) == 1
    ]
    if len(firsts) + len(seconds) < len(found) or not firsts or not seconds:
        return "a product has not one operand that is made of others"
    row, column = seconds[0].row, seconds[0].reduced
    if any((product.row, product.reduced) != (row, column) for product in seconds):
        return "products of what is made of others sum along several axes"
    if any({product.row, product.column} != {row, column} for product in firsts):
        return "a product does not multiply rows that are made of the others"
    turned = [product if product.row == row else product.turned() for product in firsts]
    return row, column, turned, seconds


@dataclass(frozen=True)
class _Steps:
    nest: Nest
    row: str
    column: str
    firsts: list[MatrixProduct]
    seconds: list[MatrixProduct]

    by: ClassVar[str] = MMA

    def all(self) -> list[Step]:
        nest, row, column = self.nest, self.row, self.column
        depths, heads = (list(dict.fromkeys(axes)) for axes in (self.depths, self.heads))
        own = dict.fromkeys((*depths, *heads))
        others = [axis for axis in nest.extents if axis not in (row, column, *own)]
        order = (*others, row, column, *own)
        rows, columns = self.sizes()
        steps: list[Step] = [Reorder(order)] if order != tuple(nest.extents) else []
        steps += self._blocks(others, rows)
        steps += [Split(column, columns, (f"{column}o", f"{column}b")), *dealt_columns(f"{column}b", column)]
        for axis in own:
            steps += self._cut(axis)
        steps += self._packed({row: rows, column: columns, **{axis: self._whole(axis) for axis in own}})
        for depth in depths:
            steps.append(Contract(f"{depth}u" if depth in heads else f"{depth}f", self.by))
        steps.append(Contract(f"{column}u", self.by))
        steps.append(PiecesStep(f"{column}o") if self.is_summed else OnlineStep(f"{column}o"))
        return [*steps, Pipeline(f"{column}o", STAGES)] if nest.extents[column] > columns else steps

    def _blocks(self, others: Sequence[str], rows: int) -> list[Step]:
        """Steps that deal out blocks, of so many rows, and these to threads; the `others` are axes of all products."""
        return [*[BindLoop(axis, "grid") for axis in others], *cut_rows(self.row, rows, rows // WARPS)]

    @property
    def depths(self) -> list[str]:
        return [product.reduced for product in self.firsts]

    @property
    def heads(self) -> list[str]:
        return [product.column for product in self.seconds]

    @property
    def is_summed(self) -> bool:
        """Whether all that goes on from piece to piece are products."""
        products = {id(product.statement) for product in self.seconds}
        return all(id(s) in products for s in self.nest.statements if self.column in s.reduced)

    def sizes(self) -> tuple[int, int]:
        """Rows of a block and columns of a piece: as many as all sums of products stay in registers."""
        heads, machine = [self._whole(axis) for axis in self.heads], self.nest.machine

        def fits(rows: int, columns: int) -> bool:
            numbers = rows * (sum(heads) + columns * len(self.firsts))
            share = SHARE * (machine.thread_registers + 1)
            return rows * max(heads) <= SUMS * machine.warp and numbers <= share * machine.warp

        rows, columns = next((sizes for sizes in SIZES if fits(*sizes)), SIZES[-1])
        return rows * WARPS, columns

    def _whole(self, axis: str) -> int:
        """The extent of an axis in whole matrices."""
        matrix = MATRIX[0] if axis in self.depths else MATRIX[1]
        return -(-self.nest.extents[axis] // matrix) * matrix

    def _cut(self, axis: str) -> list[Step]:
        """Steps that cut an axis that is reduced, whose elements are columns of results, or both."""
        if axis not in self.heads:
            return [Split(axis, MATRIX[0], (f"{axis}u", f"{axis}f"))]
        steps: list[Step] = []
        loop = axis
        if axis in self.depths and self.nest.extents[axis] % MATRIX[0]:
            one, loop = f"{axis}w", f"{axis}b"  # one piece, of whole matrices
            steps = [Split(axis, self._whole(axis), (one, loop)), BindLoop(one, "warp")]
        return [*steps, *dealt_columns(loop, axis, like=f"{self.column}l")]

    def _packed(self, sizes: dict[str, int]) -> list[Step]:
        """Steps that copy operands to shared memory, those along columns piece by piece, and load other arguments."""
        nest, known = self.nest, self._operands()
        copies = ASYNC if all(is_asynchronous(nest, *operand) for operand in known) else ""
        steps: list[Step] = []
        for access, axis, reduced in known:
            at = f"{self.column}o" if self.column in (axis, reduced) else ""
            tile = {axis: sizes[axis], reduced: sizes[reduced]}
            steps += packed_operand(nest, access, tile, reduced, at, copies)
        return steps + packed_results(nest, [access.buffer for access, _, _ in known])

    def _operands(self) -> list[tuple[NestAccess, str, str]]:
        """The operands in memory, with the axes that they alone have and those along which they are reduced."""
        operands = dict[SSAValue, tuple[NestAccess, str, str]]()
        for product in self.firsts:
            for access, axis in ((product.left, self.row), (product.right, self.column)):
                operands.setdefault(access.buffer, (access, axis, product.reduced))
        for product in self.seconds:
            operands.setdefault(product.right.buffer, (product.right, product.column, product.reduced))
        return list(operands.values())


class _WarpgroupSteps(_Steps):
    by = WGMMA

    def sizes(self) -> tuple[int, int]:
        """Rows of a block and columns of a piece: as many as leave room for another block, which computes while this
        one waits."""
        return QUERIES, next((columns for columns in PIECES if self._resident(columns) > 1), PIECES[-1])

    def _sums(self, columns: int) -> int:
        """Sums of all products that a thread has."""
        numbers = sum(self.nest.extents[axis] for axis in self.heads) + columns * len(self.firsts)
        return QUERIES * numbers // self._threads

    @property
    def _threads(self) -> int:
        return QUERIES // ROWS * self.nest.machine.warpgroup

    def _resident(self, columns: int) -> int:
        """How many blocks a multiprocessor holds at a time."""
        nest, shared = self.nest, 0
        for access, axis, reduced in self._operands():
            sizes = {**nest.extents, self.row: QUERIES, self.column: columns}
            stages = STAGES if self.column in (axis, reduced) else 1
            shared += stages * sizes[axis] * sizes[reduced] * access.access.element_bytes
        return nest.machine.resident(self._threads, self._sums(columns) + BESIDE, shared)

    def obstacle(self) -> str | None:
        """Why products are left to warps."""
        nest, (_, columns) = self.nest, self.sizes()
        for axis in (*self.depths, *self.heads):
            if nest.extents[axis] % PANEL or nest.extents[axis] > MOST:
                return f"heads of a warpgroup have {PANEL} or {MOST} elements, not {nest.extents[axis]}"
        if nest.extents[self.row] < LEAST or nest.extents[self.column] < LEAST:
            return f"there are less than {LEAST} rows or columns"
        if self._sums(columns) > MOST_SUMS:
            return f"a thread of a warpgroup would have {self._sums(columns)} sums of products, {MOST_SUMS} at most"
        if not all(is_asynchronous(nest, *operand) for operand in self._operands()):
            return "rows of operands begin where no asynchronous copy can"
        needed = [warpgroup_instruction(first.statement, nest.machine, columns) for first in self.firsts]
        for second in self.seconds:
            head = nest.extents[second.column]
            needed.append(warpgroup_instruction(second.statement, nest.machine, head, second.left))
        for known in needed:
            if isinstance(known, str):
                return known
            if (refused := known.obstacle(nest.machine.architecture)) is not None:
                return refused
        return None

    def _blocks(self, others: Sequence[str], rows: int) -> list[Step]:
        steps, blocks = rows_of_warpgroups(self.row, rows), f"{self.row}g"
        seen = visible_along(self.nest, self.column)
        if seen is None or seen.row != self.row or (seen.lower is None) is (seen.upper is None):
            steps.append(BindLoop(blocks, "grid"))
        else:  # those that take longest begin first
            order = DESCENDING if seen.lower is None else ""
            steps += [Reorder((blocks, *others)), BindLoop(blocks, "grid", order=order)]
        return [*steps, *[BindLoop(axis, "grid") for axis in others]]

    def _packed(self, sizes: dict[str, int]) -> list[Step]:
        nest, operands, steps = self.nest, self._operands(), list[Step]()
        for access, axis, reduced in operands:
            at = f"{self.column}o" if self.column in (axis, reduced) else ""
            pack = Pack(nest.name_of(access.buffer), SHARED, at=at, swizzle=max(SWIZZLES), copy=ASYNC, panel=PANEL)
            steps.append(pack)
        packed = [access.buffer for access, _, _ in operands]
        for access in self._numbers():
            if access.buffer not in packed:
                packed.append(access.buffer)
                steps.append(Pack(nest.name_of(access.buffer), SHARED, at=f"{self.column}o", copy=ASYNC))
        return steps + packed_results(nest, packed)

    def _numbers(self) -> Iterator[NestAccess]:
        """Arguments that have a number for each column, which come with the operands of a piece: loaded when they are
        needed, each would be waited for."""
        nest = self.nest
        for access in [access for statement in nest.statements for access in statement.inputs if access.access.is_used]:
            is_along = access.leading[-1:] == (self.column,) and self.row not in access.axes
            if is_along and widest(nest, access) * access.access.element_bytes >= LEAST_ASYNC:
                yield access
