"""`contract(kf, mma)`: a warp computes the products of matrices of one instruction, along the iterations of a loop;
`contract(kf, wgmma)`: four warps do (`contract_warpgroup`).

The loops that the instruction takes the place of are those by which its result is dealt out to the lanes of a warp,
eight rows and four pairs of columns, so that what follows finds the sums in the registers of the thread that has them:

    split(i.., 16) -> iu, if   split(if, 8) -> ih, il   unroll(iu)   unroll(ih)   bind(il, lane)
    split(j.., 8) -> ju, jf    split(jf, 2) -> jl, jv   unroll(ju)   bind(jl, lane)   vectorize(jv)
    split(k.., 16) -> ku, kf

The operands are fragments, which `ldmatrix` loads from shared memory: its rows are runs of 16 bytes, along the reduced
axis or, for elements of 2 bytes, along the other one. Elements of 8 bytes are loaded as they are, two at a time where
neighbours are along the reduced axis.

Which of both axes of the result has the rows is told by the lanes; in memory either may come first.

The rows may also be the result of such a product, or what was made of it, in registers: sums are dealt out as elements
of 2 bytes of a left operand are, matrices of 8 columns being one of 16. So `contract(ju, mma)` of the loop above, which
is written out, does two of its iterations at once, and columns of this product have the lanes of `jl`:

    split(l.., 8) -> lu, lf    split(lf, 2) -> ll, lv   unroll(lu)   bind(ll, lane, like=jl)   vectorize(lv)

An axis along which one product has its columns, dealt out so, and that another one reduces, is contracted in the same
way: `contract(lu, mma)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import BlockArgument

from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.steps.contract_warpgroup import DEPTH, columns_of, held_of, warpgroup_obstacles
from tenon.lowering.steps.nest import Bind, Contraction, Loop, Nest, NestAccess, NestStatement, Space, replaced
from tenon.lowering.steps.products import (
    MatrixProduct,
    factor_of,
    matrix_instruction,
    matrix_product,
    warpgroup_instruction,
)
from tenon.lowering.steps.step import Step
from tenon.lowering.steps.tile_copies import RUN
from tenon.passes.machine import GPU_REGISTER

MMA, WGMMA = "mma", "wgmma"
TRANSPOSABLE = 2
"""Bytes of the elements that `ldmatrix` transposes."""
WIDE = 2 * GPU_REGISTER
"""Bytes of elements that fill more than a register: threads load each for themselves."""
IN_EITHER_ORDER = (TRANSPOSABLE, WIDE)
"""Bytes of the elements whose neighbours in shared memory may be along either axis of a matrix."""


@dataclass(frozen=True)
class Contract(Step):
    """Have the instruction `by` do all iterations of `loop` at once, for each product that sums along its axis."""

    name = "contract"

    loop: str
    by: str

    def obstacle(self, nest: Nest) -> str | None:
        if self.by not in (MMA, WGMMA):
            return f"products are contracted by {MMA} or {WGMMA}, not {self.by}"
        loop = nest.loop(self.loop)
        if not loop.in_order and not loop.unrolled:
            return f"loop {self.loop} is bound or written out"
        statements = _statements(nest, loop)
        if not statements:
            return f"no statement reduces axis {loop.axis}"
        if (known := nest.contraction_of(statements[0])) is not None:
            return f"loop {known.depth.name} is contracted already"
        by_warpgroups = self.by == WGMMA
        if any(other.by_warpgroup is not by_warpgroups for other in nest.contractions):
            return f"a kernel contracts all products by {WGMMA} or none"
        return next((known for statement in statements for known in self.obstacles(nest, statement, loop)), None)

    def obstacles(self, nest: Nest, statement: NestStatement, loop: Loop) -> Iterator[str]:
        """What is against having the instruction compute a statement, now and when all steps are done."""
        return (self._warpgroup_obstacles if self.by == WGMMA else self._warp_obstacles)(nest, statement, loop)

    def _warp_obstacles(self, nest: Nest, statement: NestStatement, loop: Loop) -> Iterator[str]:
        product, instruction = _dealt(nest, statement), matrix_instruction(statement, nest.machine)
        if isinstance(product, str) or isinstance(instruction, str):
            yield product if isinstance(product, str) else str(instruction)
            return
        if loop.axis != product.reduced:
            yield f"operands are copied along {product.reduced}, not {loop.axis}"
            return
        refused = instruction.obstacle(nest.machine.architecture)
        if refused is not None:
            yield refused
        rows, depth = instruction.fragments["a"].shape
        columns = instruction.fragments["b"].shape[1]
        yield from _fragment_obstacles(nest, product, rows, columns)
        yield from _depth_obstacles(nest, product, loop, instruction.name, depth)
        if held_of(nest, product) is None:
            yield from _operand_obstacles(nest, statement, product.left, product.row, loop.axis)
        yield from _operand_obstacles(nest, statement, product.right, product.column, loop.axis)

    def _warpgroup_obstacles(self, nest: Nest, statement: NestStatement, loop: Loop) -> Iterator[str]:
        product = _dealt(nest, statement)
        if isinstance(product, str):
            yield product
            return
        if loop.axis != product.reduced:
            yield f"operands are copied along {product.reduced}, not {loop.axis}"
            return
        yield from _depth_obstacles(nest, product, loop, WGMMA, DEPTH)
        yield from warpgroup_obstacles(nest, product, loop)

    def apply(self, nest: Nest) -> None:
        loop = nest.loop(self.loop)
        depth = loop if loop.unrolled else replaced(loop, contracted=True)
        nest.change(self.loop, depth)
        for statement in _statements(nest, loop):
            nest.contractions.append(self._contraction(nest, statement, depth))

    def _contraction(self, nest: Nest, statement: NestStatement, depth: Loop) -> Contraction:
        product = _dealt(nest, statement)
        assert isinstance(product, MatrixProduct)
        if self.by == WGMMA:
            columns, held = columns_of(nest, product), held_of(nest, product)
            instruction = warpgroup_instruction(statement, nest.machine, columns, held)
        else:
            instruction = matrix_instruction(statement, nest.machine)
        assert isinstance(instruction, Instruction)
        return Contraction(statement, instruction, product.left, product.right, product.row, product.column, depth)


def _statements(nest: Nest, loop: Loop) -> list[NestStatement]:
    """The products that reduce a loop, or what else does."""
    reducing = [s for s in nest.statements if loop.axis in s.reduced]
    return [s for s in reducing if isinstance(matrix_product(s), MatrixProduct)] or reducing[:1]


def _dealt(nest: Nest, statement: NestStatement) -> MatrixProduct | str:
    """The product that a statement is, with the rows along the axis that has eight lanes where the other one has
    four."""
    product = matrix_product(statement)
    if isinstance(product, str):
        return product
    lanes = [
        [loop.extent for loop in nest.loops_of([axis]) if loop.bind is Bind.LANE]
        for axis in (product.row, product.column)
    ]
    return product.turned() if lanes == [[4], [8]] else product


def _fragment_obstacles(nest: Nest, product: MatrixProduct, rows: int, columns: int) -> Iterator[str]:
    """What of the loops along rows and columns is not as the instruction deals its result out."""
    row, column = nest.loops_of([product.row]), nest.loops_of([product.column])
    lanes_of = [loop.like or loop.name for loop in (*row, *column) if loop.bind is Bind.LANE]
    if [loop.name for loop in nest.bound(Bind.LANE)] != lanes_of:
        yield f"the lanes of a warp are along {product.row} and {product.column}, in this order"
    for axis, loops, lanes, size in ((product.row, row, (8, 1), rows), (product.column, column, (4, 2), columns)):
        own = [(loop.extent, loop.stride) for loop in loops if loop.bind is Bind.LANE]
        if own != [lanes]:
            yield f"{lanes[0]} lanes {lanes[1]} apart are along {axis}"
        inner = [(loop.extent, loop.stride) for loop in loops if loop.written_out and loop.stride < size]
        if inner != [(2, 8) if loops is row else (2, 1)]:
            yield f"each lane has two elements along {axis}, {8 if loops is row else 1} apart"
        outer = [loop.stride for loop in loops if loop.written_out and loop.stride >= size]
        if outer != [size]:
            yield f"one loop along {axis} is written out, in steps of {size}"
        if any(loop.stride % size for loop in loops if not loop.written_out and loop.bind is not Bind.LANE):
            yield f"a warp begins at multiples of {size} along {axis}"
    if not any(loop.vector for loop in column):
        yield f"the two elements along {product.column} are a vector"


def _depth_obstacles(nest: Nest, product: MatrixProduct, loop: Loop, name: str, depth: int) -> Iterator[str]:
    """What is against having an instruction, which takes so many neighbours along the reduced axis, do a loop along
    it."""
    if loop.unrolled:
        yield from _dealt_obstacles(nest, product, loop, depth)
    elif held_of(nest, product) is not None:
        yield f"loop {loop.name} is not written out, and {nest.name_of(product.left.buffer)} is in registers"
    elif (loop.extent, loop.stride) != (depth, 1):
        yield f"{name} takes {depth} neighbours along {loop.axis}, loop {loop.name} has {loop.extent}"


def _dealt_obstacles(nest: Nest, product: MatrixProduct, loop: Loop, depth: int) -> Iterator[str]:
    """What is against reducing an axis that is dealt out as the columns of a result of products are, which rows are
    that are in registers."""
    name, access, loops = nest.name_of(product.left.buffer), product.left.access, nest.loops_of([loop.axis])
    if nest.writers(product.left.buffer):
        if nest.space(product.left.buffer) is not Space.REGISTERS:
            yield f"{name} is not kept in registers"
        if access.element_bytes != 4:
            yield f"elements of {name} have {access.element_bytes} bytes, those of sums 4"
    lanes = [(known.extent, known.stride) for known in loops if known.bind is Bind.LANE]
    inner = [(known.extent, known.stride) for known in loops if known.written_out and known is not loop]
    if lanes != [(4, 2)] or inner != [(2, 1)] or 2 * loop.stride != depth or loop.extent % 2:
        yield f"{name} is not dealt out along {loop.axis} as matrices of {depth} columns"
    if any(known.stride % depth for known in loops if known.in_order):
        yield f"a piece begins at multiples of {depth} along {loop.axis}"


def _operand_obstacles(
    nest: Nest, statement: NestStatement, access: NestAccess, axis: str, reduced: str
) -> Iterator[str]:
    name, tile = nest.name_of(access.buffer), nest.tiles.get(access.buffer)
    if nest.space(access.buffer) is not Space.FRAGMENTS or tile is None:
        yield f"{name} is not packed to {Space.FRAGMENTS.value}"
        return
    if not isinstance(factor_of(statement, access), BlockArgument):
        yield f"elements of {name} are rounded before they are multiplied"
    inner = tile.inner or access.leading[-1]
    if inner not in (axis, reduced):
        yield f"neighbours of {name} in shared memory are along {inner}, neither {axis} nor {reduced}"
    elif inner == axis and access.access.element_bytes not in IN_EITHER_ORDER:
        known = " or ".join(map(str, IN_EITHER_ORDER))
        yield f"neighbours of {name} in shared memory are along {axis}, and its elements have not {known} bytes"
    elif tile.panel:
        yield f"{name} is in panels in shared memory, which only {WGMMA} reads"
    elif tile.pad * access.access.element_bytes % RUN:
        yield f"rows of {name} in shared memory are no multiples of {RUN} bytes apart"
