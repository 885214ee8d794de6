"""How large the parts of arguments are that a block keeps in shared memory, and how many neighbours one access
copies."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.lowering.steps.nest import Nest, NestAccess, Tile
from tenon.lowering.steps.vectorize import WIDTHS, allows_vectors

RUN = 16
"""Bytes that trade places in a swizzled tile: what one access moves, at most."""
SWIZZLES = (2, 4, 8)
"""Runs that trade places: eight are all banks."""


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
