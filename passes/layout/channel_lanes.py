"""Convolutions of each channel by itself, of narrow images, with vectors along channels.

    y[n, block, i, j, channel] = sum over h, w of x[n, block, i + h, j + w, channel] * weight[block, h, w, channel]

Rows that are shorter than a vector leave some of its lanes empty otherwise, at each element of a window. Vectors of
channels are full, and aligned wherever a window is. What it costs are the image and the result transposed, which pays
where windows are large and rows short."""

from __future__ import annotations

from math import prod

from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, places
from tenon.dialects.ops.move.padding import PadOp
from tenon.passes.layout.forms import contracted, float_lanes
from tenon.passes.machine import Machine

TRANSPOSED = 32
"""Products of vectors that take as long as to transpose one of the image and one of the result."""


def channel_lanes(x: Value, weight: Value, windows: Windows, counts: Sizes, machine: Machine) -> Value | None:
    """The convolution of `x` (n, groups, 1, ...image) by `weight` (groups, 1, 1, ...window) with vectors along groups;
    `None` where groups do not fill vectors, windows step, or rows are long."""
    lanes = float_lanes(x, machine)
    if not lanes:
        return None
    n, groups = x.shape[:2]
    empty = prod(windows.size) * (lanes - counts[-1])
    if groups % lanes or empty <= TRANSPOSED * counts[-1] or windows.stride[-1] > 1:
        return None
    rank, blocks = len(counts), groups // lanes
    filters = ops.transpose(
        ops.reshape(weight, shape=(blocks, lanes, *windows.size)), permutation=(0, *range(2, 2 + rank), 1)
    )
    images = _in_blocks(x, blocks)
    extents = (n, blocks, *counts, lanes, *windows.size)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, channel, taps = d[2 : 2 + rank], d[2 + rank], d[3 + rank :]
    place = (d[0], d[1], *places(out, taps, windows.stride, windows.dilation), channel)
    total = contracted(extents, [(images, place), (filters, (d[1], *taps, channel))], d[: 3 + rank])
    total = ops.transpose(total, permutation=(0, 1, 2 + rank, *range(2, 2 + rank)))
    return ops.reshape(total, shape=(n, groups, 1, *counts))


def _in_blocks(x: Value, blocks: int) -> Value:
    """`x` (n, groups, 1, ...image) as (n, blocks, ...image, block); padding around images is put around them then."""
    op, rank = x.ssa.owner, x.ndim - 3
    if isinstance(op, PadOp) and not any((*op.settings["low"][:3], *op.settings["high"][:3])):
        settings = dict(op.settings)
        sides = {name: (0, 0, *settings[name][3:], 0) for name in ("low", "high")}
        return ops.pad(_in_blocks(Value(op.x), blocks), **{**settings, **sides})
    n, groups, _, *image = x.shape
    split = ops.reshape(x, shape=(n, blocks, groups // blocks, *image))
    return ops.transpose(split, permutation=(0, 1, *range(3, 3 + rank), 2))
