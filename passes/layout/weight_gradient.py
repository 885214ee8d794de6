"""The gradient of a convolution's weight in a form that runs faster: vectors along channels.

The result (groups, f, c, ...window) has no dimension that is long enough for vectors but filters and channels, and the
operands have neither of them last. The one that they run along is transposed once and read for each tap. It is cut into
blocks that stay in the cache for all taps, of channels and of rows; what blocks of rows give is added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.ops.contract.windows import Sizes, places, scaled
from tenon.passes.layout.forms import contracted
from tenon.passes.machine import Machine

LITTLE_WORK = 1 << 16
"""Products below which more kernels would cost more than they spare."""
FULL_ENOUGH = 0.75
"""The part of vectors that channels have to fill for vectors to run along them."""
FEWEST_TERMS = 512
"""Terms of a sum, of images and places, below which to put the result in order takes too long beside it, where windows
have one element: then it is a product of matrices, whose operands are copied to panels in any case."""
BLOCK_VECTORS = 4
"""Vectors of channels in a block: as many as the tile of a contraction is wide."""


@dataclass(frozen=True)
class _Gradient:
    """The cotangent (groups, f, c, ...window) of a weight from the cotangent (n, groups, f, ...counts) of the result
    and the image (n, groups, c, ...image); all may have `batch` in front, but for operands that are not `batched`."""

    operands: tuple[Value, Value]
    batched: tuple[bool, bool]
    batch: Sizes
    n: int
    groups: int
    channels: Sizes
    counts: Sizes
    window: Sizes
    stride: Sizes
    dilation: Sizes

    @property
    def work(self) -> int:
        """Products of one example."""
        return prod((self.n, self.groups, *self.channels, *self.counts, *self.window))

    @staticmethod
    def of(operands: Sequence[Value], maps: Sequence[AffineMap], extents: Sizes) -> _Gradient | None:
        """The gradient that a contraction is; `None` where it is another one."""
        if len(operands) != 2:
            return None
        cotangent, weight = _loops(maps[0]), _loops(maps[2])
        if cotangent is None or weight is None:
            return None
        rank = len(extents) - len(weight) - 1
        batch = weight[: max(len(weight) - 3 - rank, 0)]
        has = [m.results[: len(batch)] == maps[2].results[: len(batch)] for m in maps[:2]]
        cotangent = cotangent[len(batch) :] if has[0] else cotangent
        image = maps[1].results[len(batch) :] if has[1] else maps[1].results
        weight = weight[len(batch) :]
        if rank < 1 or not len(cotangent) == len(image) == len(weight) == 3 + rank:
            return None
        (n, group, f), out = cotangent[:3], cotangent[3:]
        c, tap = weight[2], weight[3:]
        loops = [AffineExpr.dimension(loop) for loop in (n, group, c)]
        if len({*batch, n, group, f, c, *out, *tap}) != len(extents):
            return None
        if weight[:2] != (group, f) or list(image[:3]) != loops:
            return None
        steps = [_steps(place, i, k) for place, i, k in zip(image[3:], out, tap, strict=True)]
        if None in steps:
            return None
        stride, dilation = zip(*[step for step in steps if step is not None], strict=True)

        def sizes(loops: Sequence[int]) -> Sizes:
            return tuple([extents[loop] for loop in loops])

        return _Gradient(
            (operands[0], operands[1]),
            (has[0] and bool(batch), has[1] and bool(batch)),
            *(sizes(batch), extents[n], extents[group], sizes((f, c)), sizes(out), sizes(tap), stride, dilation),
        )


def _loops(index: AffineMap) -> tuple[int, ...] | None:
    """The loops that an index consists of; `None` where it has more than loops."""
    loops = [expr.position for expr in index.results if isinstance(expr, AffineDimExpr)]
    return tuple(loops) if len(loops) == len(index.results) else None


def _steps(place: AffineExpr, out: int, tap: int) -> tuple[int, int] | None:
    """The factors of two loops that a place is the sum of, if it is."""
    subscript = Subscript.of(place)
    factors = subscript.factors
    return (factors[out], factors[tap]) if factors.keys() == {out, tap} and subscript.constant == 0 else None


def weight_gradient_by_channels(operands: Sequence[Value], settings: dict[str, Any], machine: Machine) -> Value | None:
    """What a contraction of `operands` with the `settings` of `contract` gives, as the gradient of a weight with
    vectors along channels; `None` where it is none, or channels are too few."""
    if len({x.element_type for x in operands}) > 1:
        return None
    gradient = _Gradient.of(operands, settings["maps"], settings["extents"])
    if gradient is None or gradient.work < LITTLE_WORK:
        return None
    is_product = prod(gradient.window) == prod(gradient.stride) == 1
    if is_product and gradient.n * prod(gradient.counts) < FEWEST_TERMS:
        return None
    filled = [size / (-(-size // machine.lanes) * machine.lanes) for size in gradient.channels]
    if max(filled) < FULL_ENOUGH:
        return None
    # Of two that fill vectors as well, the one whose operand is smaller.
    g, x = gradient.operands
    at = 0 if (filled[0], -prod(g.shape)) >= (filled[1], -prod(x.shape)) else 1
    block = BLOCK_VECTORS * machine.lanes
    if gradient.channels[at] % block:
        block = gradient.channels[at]
    return _by_blocks(gradient, at, block, _rows_of_block(gradient.counts, block, machine))


def _rows_of_block(counts: Sizes, channels: int, machine: Machine) -> int:
    """How many of the first dimension of the windows a block has, which divides it: of the transposed operand, a
    quarter of the cache holds as many elements of 4 bytes."""
    most = max(machine.l2 // 16 // (prod(counts[1:]) * channels), 1)
    return max(rows for rows in range(1, counts[0] + 1) if counts[0] % rows == 0 and rows <= most)


def _by_blocks(gradient: _Gradient, at: int, block: int, rows: int) -> Value:
    """Vectors along `block` channels of `operands[at]`: filters of the cotangent, or channels of the image."""
    counts, window, groups = gradient.counts, gradient.window, gradient.groups
    first, rank, others = len(gradient.batch), len(window), gradient.channels[1 - at]
    blocks = gradient.channels[at] // block
    inner = (counts[0] // rows, groups, blocks, *window, others, block, gradient.n, rows, *counts[1:])
    extents = (*gradient.batch, *inner)
    example, *d = _batch_and_loops(extents, first)
    (part, group, channels), tap, (other, last, image, row) = d[:3], d[3 : 3 + rank], d[3 + rank : 7 + rank]
    out = (scaled(part, rows) + row if rows < counts[0] else row, *d[7 + rank :])
    spatial = [out, places(out, tap, gradient.stride, gradient.dilation)]
    # Blocks of channels stand before the image, and the channels of a block behind it.
    own, rest = [example if has else () for has in (gradient.batched[at], gradient.batched[1 - at])]
    ahead, shape = len(own), gradient.operands[at].shape
    blocked = ops.reshape(gradient.operands[at], shape=(*shape[: ahead + 2], blocks, block, *shape[ahead + 3 :]))
    order = (0, 1, 2, *range(4, 4 + rank), 3)
    blocked = ops.transpose(blocked, permutation=(*range(ahead), *[ahead + axis for axis in order]))
    factors = [
        (blocked, (*own, image, group, channels, *spatial[at], last)),
        (gradient.operands[1 - at], (*rest, image, group, other, *spatial[1 - at])),
    ]
    total = contracted(extents, factors, (*example, *d[: 5 + rank]))
    if total.shape[first] == 1:
        total = ops.reshape(total, shape=(*gradient.batch, *total.shape[first + 1 :]))
    else:
        total = ops.sum(total, axis=first)
    # (...batch, groups, blocks, ...window, others, block)
    along, beside = (1, 3 + rank), (2 + rank,)
    order = (0, *((*along, *beside) if at == 0 else (*beside, *along)), *range(2, 2 + rank))
    total = ops.transpose(total, permutation=(*range(first), *[first + axis for axis in order]))
    return ops.reshape(total, shape=(*gradient.batch, groups, *gradient.channels, *window))


def _batch_and_loops(extents: Sizes, first: int) -> list[Any]:
    """The loops over a batch, together, and then each of the others."""
    loops = [AffineExpr.dimension(i) for i in range(len(extents))]
    return [tuple(loops[:first]), *loops[first:]]
