"""The gradient of a convolution's weight in a form that runs faster: vectors along channels.

The result (groups, f, c, ...window) has no dimension that is long enough for vectors but filters and channels, and the
operands have neither of them last. The one that they run along is transposed once and read for each tap. It is cut into
blocks that stay in the cache for all taps, of channels and of rows; what blocks of rows give is added up.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, places, scaled
from tenon.dialects.types.types import is_static

LITTLE_WORK = 1 << 16
"""Products below which more kernels would cost more than they spare."""
VECTOR = 16
FULL_ENOUGH = 0.75
"""The part of vectors of 16 that channels have to fill for vectors to run along them."""
BLOCK_CHANNELS = 64
BLOCK_ELEMENTS = 1 << 16
"""Elements of the transposed operand that stay in the cache."""


def weight_gradient_by_channels(g: Value, x: Value, weight: Value, settings: dict[str, Any]) -> Value | None:
    """The cotangent of `weight` (groups, f, c, ...window) from the cotangent `g` (n, groups, f, ...counts) of the
    result and the image `x` (n, groups, c, ...image); `None` where channels are too few."""
    counts, channels = g.shape[3:], weight.shape[1:3]
    if not counts or not all(is_static(v.type) for v in (g, x, weight)) or x.element_type != g.element_type:
        return None
    if prod((g.shape[0], *weight.shape, *counts)) < LITTLE_WORK:
        return None
    filled = [size / (-(-size // VECTOR) * VECTOR) for size in channels]
    if max(filled) < FULL_ENOUGH:
        return None
    # Of two that fill vectors as well, the one whose operand is smaller.
    at = 0 if (filled[0], -prod(g.shape)) >= (filled[1], -prod(x.shape)) else 1
    block = BLOCK_CHANNELS if channels[at] % BLOCK_CHANNELS == 0 else channels[at]
    rows = _rows_of_block(counts, block)
    return _by_blocks((g, x), weight, settings, at, block, rows)


def _rows_of_block(counts: Sizes, channels: int) -> int:
    """How many of the first dimension of the windows a block has, which divides it."""
    most = max(BLOCK_ELEMENTS // (prod(counts[1:]) * channels), 1)
    return max(rows for rows in range(1, counts[0] + 1) if counts[0] % rows == 0 and rows <= most)


def _by_blocks(
    operands: tuple[Value, Value], weight: Value, settings: dict[str, Any], at: int, block: int, rows: int
) -> Value:
    """Vectors along `block` channels of `operands[at]`: filters of the cotangent, or channels of the image."""
    counts, window = operands[0].shape[3:], weight.shape[3:]
    n, groups = operands[0].shape[:2]
    rank, others, blocks = len(window), weight.shape[2 - at], weight.shape[1 + at] // block
    extents = (counts[0] // rows, groups, blocks, *window, others, block, n, rows, *counts[1:])
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    (part, group, channels), tap, (other, last, image, row) = d[:3], d[3 : 3 + rank], d[3 + rank : 7 + rank]
    out = (scaled(part, rows) + row if rows < counts[0] else row, *d[7 + rank :])
    spatial = [out, places(out, tap, settings["stride"], settings["dilation"])]
    # Blocks of channels stand before the image, and the channels of a block behind it.
    shape = operands[at].shape
    blocked = ops.reshape(operands[at], shape=(*shape[:2], blocks, block, *shape[3:]))
    blocked = ops.transpose(blocked, permutation=(0, 1, 2, *range(4, 4 + rank), 3))
    indices = [(image, group, channels, *spatial[at], last), (image, group, other, *spatial[1 - at])]
    total = ops.contract(
        (blocked, operands[1 - at]),
        maps=tuple([AffineMap(len(extents), 0, index) for index in (*indices, tuple(d[: 5 + rank]))]),
        extents=extents,
        shape=extents[: 5 + rank],
    )
    total = ops.reshape(total, shape=total.shape[1:]) if total.shape[0] == 1 else ops.sum(total, axis=0)
    # (groups, blocks, ...window, others, block)
    own, rest = (1, 3 + rank), (2 + rank,)
    order = (*own, *rest) if at == 0 else (*rest, *own)
    return ops.reshape(ops.transpose(total, permutation=(0, *order, *range(2, 2 + rank))), shape=weight.shape)
