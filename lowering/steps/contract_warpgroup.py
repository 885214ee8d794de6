"""`contract(kf, wgmma)`: what is against having four warps multiply matrices of 64 rows that are in shared memory.

Its result is dealt out to the lanes of a warp as that of `contract(kf, mma)` is, to warps by 16 rows each:

    split(i.., 64) -> iw, ir   split(ir, 16) -> iq, is   split(is, 8) -> ih, il
    bind(iw, warp)   bind(iq, warp)   unroll(ih)   bind(il, lane)
    split(j.., 8) -> ju, jf    split(jf, 2) -> jl, jv   unroll(ju)   bind(jl, lane)   vectorize(jv)
    split(k.., 64) -> ko, ki   split(ki, 16) -> ku, kf

Operands are copied at `ko` in rows of 128 bytes, along the reduced axis, or along either in panels of 64.

In pieces (`online`, `pieces`) there may be several products, and operands that are copied once. The left operand may
then be in registers, as the result of another product or what was made of it: `contract(ju, wgmma)` of the loop that is
written out along its columns takes all of it. As with `contract(ju, mma)`, the loop may also be along columns of one
product that another one reduces, with both operands in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenon.dialects.upstream.warpgroup import ROWS, SPAN
from tenon.lowering.steps.nest import Bind, Loop, Nest, NestAccess, Space
from tenon.lowering.steps.products import MatrixProduct, warpgroup_instruction
from tenon.lowering.steps.tile_copies import RUN, SWIZZLES, tile_sizes

PART = 16
"""Rows of these that a warp has."""
DEPTH = 16
"""Neighbours along the reduced axis that one instruction takes."""


def columns_of(nest: Nest, product: MatrixProduct) -> int:
    """The columns that the accumulators of a thread belong to: those that the innermost loops of the axis reach."""
    loops = nest.loops_of([product.column])
    loops = [loop for loop in loops if loop.written_out or loop.rotated or loop.bind is Bind.LANE]
    return 1 + sum((loop.extent - 1) * loop.stride for loop in loops)


def held_of(nest: Nest, product: MatrixProduct) -> NestAccess | None:
    """The left operand, where that is made of others and in registers."""
    return product.left if nest.writers(product.left.buffer) else None


def warpgroup_obstacles(nest: Nest, product: MatrixProduct, loop: Loop) -> Iterator[str]:
    """Why a warpgroup cannot do all iterations of `loop` at once."""
    columns, held = columns_of(nest, product), held_of(nest, product)
    instruction = warpgroup_instruction(product.statement, nest.machine, columns, held)
    if isinstance(instruction, str):
        yield instruction
        return
    if (refused := instruction.obstacle(nest.machine.architecture)) is not None:
        yield refused
    yield from _thread_obstacles(nest, product, columns)
    for access, axis, size in ((product.left, product.row, ROWS), (product.right, product.column, columns)):
        if access is not held:
            yield from _operand_obstacles(nest, access, axis, size, loop.axis)


def _thread_obstacles(nest: Nest, product: MatrixProduct, columns: int) -> Iterator[str]:
    """What of the loops along rows and columns is not as a warpgroup deals its result out."""
    row, column = nest.loops_of([product.row]), nest.loops_of([product.column])
    warps, lanes = nest.bound(Bind.WARP), [loop for loop in (*row, *column) if loop.bind is Bind.LANE]
    if nest.count(Bind.BLOCK) != 1 or not warps or (warps[-1].extent, warps[-1].stride) != (ROWS // PART, PART):
        yield f"the last {ROWS // PART} warps are {PART} rows apart"
    elif warps[-1] not in row:
        yield f"the last loop of warps is along {product.row}"
    dealt = [(loop.axis, loop.extent, loop.stride) for loop in lanes]
    in_order = [loop.name for loop in nest.bound(Bind.LANE)] == [loop.like or loop.name for loop in lanes]
    if dealt != [(product.row, 8, 1), (product.column, 4, 2)] or not in_order:
        yield f"8 lanes 1 apart are along {product.row}, 4 lanes 2 apart along {product.column}, in this order"
    for axis, loops, inner, size in ((product.row, row, (2, 8), ROWS), (product.column, column, (2, 1), 8)):
        small = [(loop.extent, loop.stride) for loop in loops if loop.written_out and loop.stride < size]
        if small != [inner]:
            yield f"each lane has two elements along {axis}, {inner[1]} apart"
    if [loop.stride for loop in column if loop.written_out and loop.stride >= 8] != [8]:
        yield f"one loop along {product.column} is written out, in steps of 8"
    if any(loop.rotated and loop.stride != 8 * known.extent for loop in column for known in column if known.unrolled):
        yield f"what takes turns along {product.column} are neighbours"
    if any(loop.rotated for loop in row):
        yield f"what takes turns is along {product.column}"
    if not any(loop.vector for loop in column):
        yield f"the two elements along {product.column} are a vector"
    for loops, size in ((row, ROWS), (column, columns)):
        own = (*warps[-1:], *lanes, *[loop for loop in column if loop.rotated])
        around = [loop for loop in loops if loop not in own and not loop.written_out]
        around += [loop for loop in row if loop.written_out and loop.stride >= ROWS] if loops is row else []
        if any(loop.stride % size for loop in around):
            yield f"a warpgroup begins at multiples of {size} along {loops[0].axis}"


def _operand_obstacles(nest: Nest, access: NestAccess, axis: str, extent: int, reduced: str) -> Iterator[str]:
    name, tile, size = nest.name_of(access.buffer), nest.tiles.get(access.buffer), access.access.element_bytes
    if tile is None or nest.space(access.buffer) is not Space.GLOBAL:
        yield f"{name} is not packed to shared memory, for wgmma to read it there"
        return
    if not tile.asynchronous:
        yield f"{name} is not copied asynchronously"
    inner = tile.inner or access.leading[-1]
    sizes = tile_sizes(nest, access, tile)
    if sizes[-1] * size != SPAN or tile.swizzle != max(SWIZZLES):
        yield f"rows of {name} in shared memory are not {max(SWIZZLES)} runs of {RUN} bytes that trade places"
    elif inner == axis and (not tile.panel or extent % tile.panel):
        yield f"neighbours of {name} in shared memory are along {axis}, and {extent} of them are no panels"
    elif inner not in (axis, reduced):
        yield f"neighbours of {name} in shared memory are along {inner}, neither {axis} nor {reduced}"
    if sum(n > 1 for n in sizes[bool(tile.panel) : -1]) > 1:
        yield f"{name} has rows along several axes in shared memory"
