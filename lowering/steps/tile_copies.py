"""How large the parts of arguments are that a block keeps in shared memory, how many neighbours one access copies, and
which parts bulk copies of tensors can copy as boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import BFloat16Type, Float16Type, MemRefType
from xdsl.ir import BlockArgument, SSAValue

from tenon.dialects.upstream.bulk_copies import MOST_BOX
from tenon.dialects.upstream.warpgroup import REPEAT, SPAN
from tenon.lowering.instructions.table import INSTRUCTIONS
from tenon.lowering.kernels.statement import element_type
from tenon.lowering.steps.nest import Nest, NestAccess, Tile
from tenon.lowering.steps.vectorize import WIDTHS, allows_vectors

RUN = 16
"""Bytes that trade places in a swizzled tile: what one access moves, at most."""
SWIZZLES = (2, 4, 8)
"""Runs that trade places: eight are all banks."""
RANKS = (2, 3, 4)
"""Of arguments that are copied as boxes."""
SAME_MEMORY = (memref.CastOp, memref.CollapseShapeOp, memref.ExpandShapeOp)
"""Ops whose result is the same memory."""


def tile_order(access: NestAccess, tile: Tile) -> list[int]:
    """The subscripts of an access from the outermost dimension of its tile on."""
    numbers = list(range(len(access.factors)))
    inner = access.leading.index(tile.inner) if tile.inner is not None else numbers[-1]
    return [n for n in numbers if n != inner] + [inner]


def tile_sizes(nest: Nest, access: NestAccess, tile: Tile) -> list[int]:
    """The sizes of the dimensions of a tile in one stage, from the outermost on, with unused elements; panels are the
    outermost one, where there are some."""
    axes = access.leading
    sizes: list[int] = []
    for axis in (axes[n] for n in tile_order(access, tile)):
        loops = nest.tile_loops(tile, axis) if axis is not None else []
        sizes.append(1 + sum((loop.extent - 1) * loop.stride for loop in loops))
    sizes[-1] += tile.pad
    return [sizes[-1] // tile.panel, *sizes[:-1], tile.panel] if tile.panel else sizes


def copy_width(nest: Nest, access: NestAccess, tile: Tile) -> int:
    """How many neighbours one load of a tile takes."""
    axis = access.leading[-1]
    loops = nest.tile_loops(tile, axis) if axis is not None else []
    size = 1 + sum((loop.extent - 1) * loop.stride for loop in loops)
    around = [loop.stride for loop in nest.loops_of([axis] if axis is not None else []) if loop not in loops]
    return widest(nest, access, (size, *around))


def widest(nest: Nest, access: NestAccess, multiples: Sequence[int] = ()) -> int:
    """How many neighbours one access to memory takes: a number that `multiples` are multiples of, and that is whole
    along the last dimension."""
    axis = access.leading[-1]
    if axis is None:
        return 1
    best = 1
    for width in WIDTHS:
        fits = width * access.access.element_bytes <= nest.machine.access
        fits &= all(number % width == 0 for number in (*multiples, nest.extents[axis]))
        if fits and allows_vectors(nest, access, axis, width):
            best = width
    return best


def box_obstacle(nest: Nest, access: NestAccess, tile: Tile) -> str | None:
    """Why the tile of an access cannot be copied as boxes, or None."""
    return next(_obstacles(nest, access, tile), None)


def _obstacles(nest: Nest, access: NestAccess, tile: Tile) -> Iterator[str]:
    name, buffer = nest.name_of(access.buffer), access.access.buffer
    type_, size, rank = buffer.type, access.access.element_bytes, len(access.factors)
    assert isinstance(type_, MemRefType)
    if rank not in RANKS:
        yield f"{name} has {rank} dimensions, boxes have one of {', '.join(map(str, RANKS))}"
        return
    if (refused := INSTRUCTIONS[f"tn_tma_load_{rank}d"].obstacle(nest.machine.architecture)) is not None:
        yield refused
    if not isinstance(argument_of(buffer), BlockArgument):
        yield f"{name} is read in a part of it, which begins where no launch knows"
    if not isinstance(element_type(buffer), Float16Type | BFloat16Type):
        yield f"{name} has elements of {element_type(buffer)}, boxes f16 or bf16"
    if tile.inner not in (None, access.leading[-1]):
        yield f"boxes leave elements in their order, and neighbours of {name} are along {tile.inner}"
    sizes = tile_sizes(nest, access, tile)
    if tile.pad or tile.swizzle != max(SWIZZLES) or sizes[-1] * size != SPAN:
        yield f"rows of {name} in shared memory are not {max(SWIZZLES)} runs of {RUN} bytes that trade places"
    rows = prod(sizes[bool(tile.panel) : -1])
    if rows % REPEAT:
        yield f"{rows} rows of {name} are no multiple of {REPEAT}, after which runs have traded places in the same way"
    if max(sizes[bool(tile.panel) :]) > MOST_BOX:
        yield f"a box of {name} has more than {MOST_BOX} elements along a dimension"
    strides = type_.get_strides()
    if strides is None or None in strides or strides[-1] != 1:
        yield f"neighbours of {name} are not beside each other"
    elif any(stride is not None and stride * size % RUN for stride in strides[:-1]):
        yield f"rows of {name} begin at no multiples of {RUN} bytes"
    if copy_width(nest, access, tile) * size < RUN:
        yield f"{name} begins at no multiple of {RUN} bytes"
    yield from _edges(nest, access)


def argument_of(buffer: SSAValue) -> SSAValue:
    """What a buffer is another shape of."""
    while not isinstance(buffer, BlockArgument) and isinstance(buffer.owner, SAME_MEMORY):
        buffer = buffer.owner.operands[0]
    return buffer


def _edges(nest: Nest, access: NestAccess) -> Iterator[str]:
    """A box is 0 beyond the argument, which has to be where the iterations of a sum end."""
    name = nest.name_of(access.buffer)
    reduced = {axis for statement in nest.statements for axis in statement.reduced}
    for axis, factors, constant, size in zip(
        access.leading, access.factors, access.constants, access.access.shape, strict=True
    ):
        if axis is None:
            continue
        if dict(factors)[axis] != 1:
            yield f"elements of {name} along {axis} are {dict(factors)[axis]} apart"
        ends = len(factors) == 1 and constant + nest.extents[axis] == size
        if axis in reduced and nest.covered(axis) > nest.extents[axis] and not ends:
            yield f"{name} goes on behind what is summed up along {axis}"
