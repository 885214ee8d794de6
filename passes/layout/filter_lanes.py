"""Convolutions with vectors along filters: each element of an image is multiplied by all filters of a block at once.

    y[n, block, i, j, filter] = sum over c, h, w of x[n, c, step * i + h, step * j + w] * weight[block, c, h, w, filter]

Images are read where they are, however far windows step, and vectors are full whatever number of windows there is. What
it costs is the weight in another order, once where it is frozen; the result is transposed back a tile at a time, in
registers (`layout` makes its transpose part of the contraction). It pays where columns are no neighbours, since windows
step, and where an image has so few windows that each element of a weight that does not stay near would serve a vector
or two."""

from __future__ import annotations

from math import prod

from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, places
from tenon.dialects.support.frozen_arguments import is_frozen
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import numpy_dtype
from tenon.passes.layout.contraction_axes import EMPTIER, lanes_filled
from tenon.passes.layout.forms import FEW_VECTORS, contracted, float_lanes, image_around, whole_of, within
from tenon.passes.machine import Machine

BLOCK_VECTORS = 2
"""Vectors of filters in a block: beside so few, a tile has as many rows as let loads keep ahead of products."""
MOST_VECTORS = 4
"""The same where filters have no blocks of two: as many as the tile of a contraction is wide."""
FULL_ENOUGH, FULL = 0.75, 0.875
"""The part of vectors that the filters of a block have to fill: all filters, and one of several blocks."""
FEWEST_WINDOWS = 128
"""Windows below which putting the weight in order costs too much, unless it is done once."""


def filter_lanes(
    x: Value, weight: Value, windows: Windows, counts: Sizes, machine: Machine, *, otherwise: bool = True
) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) by `weight` (groups, f, c, ...window) with vectors along filters;
    `None` where these do not fill blocks, or, if it could do `otherwise`, others do as well."""
    lanes = float_lanes(x, machine)
    if not lanes:
        return None
    block = _filters_of_block(weight.shape[1], lanes)
    is_prepared = is_frozen(weight.ssa) or estimate(x.shape[0]) * prod(counts) >= FEWEST_WINDOWS
    steps, has_few = windows.stride[-1] > 1, prod(counts) <= FEW_VECTORS * lanes and prod(windows.size) > 1
    if block is None or not is_prepared:
        return None
    # What `layout` makes of an order of axes in which vectors are not emptier.
    is_emptier = lanes_filled(counts[-1], lanes) < EMPTIER * lanes_filled(block, lanes)
    if not steps and not (block > lanes and (has_few or (not otherwise and is_emptier))):
        return None
    return _by_blocks(x, weight, windows, counts, block, machine)


def _filters_of_block(filters: int, lanes: int) -> int | None:
    """The filters of a block, a divisor of all of them: as many as fill vectors best, of two vectors if there is a
    choice, and of one vector only where that takes them all; `None` where vectors stay too empty."""

    def vectors(block: int) -> int:
        return -(-block // lanes)

    def rank(block: int) -> tuple[float, bool, int]:
        return block / (vectors(block) * lanes), vectors(block) == BLOCK_VECTORS, block

    divisors = [block for block in range(1, MOST_VECTORS * lanes + 1) if filters % block == 0]
    best = max([block for block in divisors if block > lanes or block == filters], key=rank, default=1)
    return best if rank(best)[0] >= (FULL_ENOUGH if best == filters else FULL) else None


def _by_blocks(x: Value, weight: Value, windows: Windows, counts: Sizes, block: int, machine: Machine) -> Value:
    groups, f, c, *taps = weight.shape
    rank, blocks = len(counts), f // block
    # Slices of one weight, or of one image, share it, however it is put in order.
    whole, starts, steps = whole_of(weight)
    if (whole.shape[:3], starts[:3], steps[:3]) != (weight.shape[:3], (0, 0, 0), (1, 1, 1)):
        whole, starts, steps = weight, (0,) * weight.ndim, (1,) * weight.ndim
    by_block = ops.reshape(whole, shape=(groups, blocks, block, *whole.shape[2:]))
    by_block = ops.transpose(by_block, permutation=(0, 1, *range(3, 4 + rank), 2))
    # Loops over the result, in the order in which least comes from beyond the cache: g, n, ...out, then blocks.
    order = _order(x, weight, blocks, rank, machine)
    sizes = {"g": groups, "n": x.shape[0], "b": blocks, **{f"o{i}": count for i, count in enumerate(counts)}}
    extents = (*[sizes[name] for name in order], block, c, *taps)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    at = dict(zip(order, d, strict=False))
    filter_of, channel, tap = d[len(order)], d[len(order) + 1], d[len(order) + 2 :]
    out = [at[f"o{i}"] for i in range(rank)]
    image, *image_part = image_around(x)
    image_of = within((at["n"], at["g"], channel, *places(out, tap, windows.stride, windows.dilation)), *image_part)
    weight_of = (at["g"], at["b"], channel, *within(tap, starts[3:], steps[3:]), filter_of)
    total = contracted(extents, [(image, image_of), (by_block, weight_of)], d[: len(order) + 1])
    back = [order.index(name) for name in ("n", "g", "b")]
    along = [order.index(f"o{i}") for i in range(rank)]
    total = ops.transpose(total, permutation=(*back, len(order), *along))
    return ops.reshape(total, shape=(x.shape[0], groups, f, *counts))


def _order(x: Value, weight: Value, blocks: int, rank: int, machine: Machine) -> tuple[str, ...]:
    """The loops over groups, images, blocks of filters and the dimensions of the result."""
    rows, last = [f"o{i}" for i in range(rank - 1)], f"o{rank - 1}"
    filters, images = prod(weight.shape), prod(map(estimate, x.shape))
    if filters * numpy_dtype(x.element_type).itemsize <= machine.l2 // 2:
        return ("g", "n", *rows, "b", last)
    if estimate(x.shape[0]) * filters <= blocks * images:
        return ("g", "n", "b", *rows, last)
    return ("g", "b", "n", *rows, last)
