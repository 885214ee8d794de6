"""The gradient of a convolution's weight in a form that runs faster: vectors along channels.

The result (groups, f, c, ...window) has no dimension that is long enough for vectors but filters and channels, and the
operands have neither of them last. The panels that a product copies of one of them (`lowering/schedules/packing.py`)
are in the order in which it reads them: filters of the cotangent, which are the same for all taps. There is a sum for
each image, or each few rows of one, as long as these sums take less than what is added up: a panel stays near then for
all taps, and threads have parts of their own. They are added up in the end.

Where an operand would be copied for each tap, where it is small beside the result, and where there are no panels, it is
transposed once and read for each. It is cut into blocks that stay in the cache for all taps, of channels and of rows.

Where channels are too few, as those of a group mostly are, vectors run along places, and there is a sum for each part
that stays in the nearest cache for all taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.ops.contract.windows import Sizes, moved, places, scaled
from tenon.dialects.types.size import Size, estimate
from tenon.passes.layout.forms import contracted
from tenon.passes.machine import Machine

FULL_ENOUGH = 0.75
"""The part of vectors that channels have to fill for vectors to run along them."""
FEWEST_TERMS = 512
"""Terms of a sum, of images and places, below which to put the result in order takes too long beside it, where windows
have one element: then it is a product of matrices, whose operands are copied to panels in any case."""
TILE = 8
"""Filters that a tile has together where vectors run along places, at most."""
SHORT = 4
"""Parts are short that have less than this part of what fits: what is left of vectors, and to add up their lanes, take
longer."""
BLOCK_VECTORS = 4
"""Vectors of channels in a block: as many as the tile of a contraction is wide."""


@dataclass(frozen=True)
class WeightGradient:
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
        return prod((estimate(self.n), self.groups, *self.channels, *self.counts, *self.window))

    @property
    def sums(self) -> int:
        """Elements of the result of one example."""
        return self.groups * prod((*self.channels, *self.window))

    @property
    def read(self) -> int:
        """Elements of the operands of one example, about: of the image as many as there are windows."""
        return estimate(self.n) * self.groups * sum(self.channels) * prod(self.counts)

    @staticmethod
    def of(operands: Sequence[Value], maps: Sequence[AffineMap], extents: Sizes) -> WeightGradient | None:
        """The gradient that a contraction is; `None` where it is another one."""
        if len(operands) != 2 or operands[0].element_type != operands[1].element_type:
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
        if any(isinstance(extents[loop], Size) for loop in (*batch, group, f, c, *out, *tap)):
            return None
        if weight[:2] != (group, f) or list(image[:3]) != loops:
            return None
        steps = [_steps(place, i, k) for place, i, k in zip(image[3:], out, tap, strict=True)]
        if None in steps:
            return None
        stride, dilation = zip(*[step for step in steps if step is not None], strict=True)

        def sizes(loops: Sequence[int]) -> Sizes:
            return tuple([extents[loop] for loop in loops])

        return WeightGradient(
            (operands[0], _up_to_last_window(operands[1], sizes(out), sizes(tap), stride, dilation)),
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


def _up_to_last_window(image: Value, counts: Sizes, window: Sizes, stride: Sizes, dilation: Sizes) -> Value:
    """The image without what is behind its last window, along dimensions with one window or with windows of one
    element: a loop by itself is an index there, which must go through all of the operand."""
    behind = tuple(
        [
            (count - 1) * step + (size - 1) * gap + 1 - whole if 1 in (count, size) else 0
            for whole, count, size, step, gap in zip(
                image.shape[-len(counts) :], counts, window, stride, dilation, strict=True
            )
        ]
    )
    return moved(image, (0,) * len(counts), behind)


def weight_gradient_by_channels(gradient: WeightGradient, machine: Machine, *, panels: bool) -> Value | None:
    """The gradient of a weight with vectors along channels; with `panels`, products copy what lies across vectors by
    themselves. Where channels are too few, vectors are along places then; `None` elsewhere."""
    is_product = prod(gradient.window) == prod(gradient.stride) == 1
    if is_product and estimate(gradient.n) * prod(gradient.counts) < FEWEST_TERMS:
        return None
    filled = [size / (-(-size // machine.lanes) * machine.lanes) for size in gradient.channels]
    if max(filled) < FULL_ENOUGH:
        return _along_places(gradient, machine) if panels else None
    # Of two that fill vectors as well, the one that is the same for all taps, or else whose operand is smaller.
    g, x = gradient.operands
    sizes = (0, 1) if panels and not is_product else [prod(map(estimate, value.shape)) for value in (g, x)]
    at = 0 if (filled[0], -sizes[0]) >= (filled[1], -sizes[1]) else 1
    block = BLOCK_VECTORS * machine.lanes
    if gradient.channels[at] % block:
        block = gradient.channels[at]
    most = gradient.read // gradient.sums
    if panels and most and (at == 0 or is_product):
        return _in_parts(gradient, at, block, _images_and_rows(gradient, block, most, machine), is_transposed=False)
    part = gradient.n, _rows_of_block(gradient.counts, block, machine)
    return _in_parts(gradient, at, block, part, is_transposed=True)


def _images_and_rows(gradient: WeightGradient, channels: int, most: int, machine: Machine) -> tuple[int, int]:
    """How many images, and of each how many of the first dimension of the windows, `most` parts or fewer have."""
    images = _images_of_part(gradient.n, most)
    if images != 1:
        return images, gradient.counts[0]
    rows = _rows_of_block(gradient.counts, channels, machine)
    return 1, rows if estimate(gradient.n) * (gradient.counts[0] // rows) <= most else gradient.counts[0]


def _images_of_part(n: int, most: int) -> int:
    """How many of `n` images each of `most` parts or fewer has: one or all, where only the launch tells how many."""
    if isinstance(n, Size):
        return 1 if estimate(n) <= most else n
    return n // _largest_divisor(n, most)


def _rows_of_block(counts: Sizes, channels: int, machine: Machine) -> int:
    """How many of the first dimension of the windows a block has, which divides it: of the transposed operand, a
    quarter of the cache holds as many elements of 4 bytes."""
    return _largest_divisor(counts[0], max(machine.l2 // 16 // (prod(counts[1:]) * channels), 1))


def _largest_divisor(number: int, most: int) -> int:
    return max(divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0)


def _in_parts(gradient: WeightGradient, at: int, block: int, part: tuple[int, int], *, is_transposed: bool) -> Value:
    """Vectors along `block` channels of `operands[at]`: filters of the cotangent, or channels of the image; a sum for
    each `part` of images and rows. With `is_transposed`, the channels of a block come last in that operand."""
    (images, rows), window, counts, groups = part, gradient.window, gradient.counts, gradient.groups
    first, rank, others = len(gradient.batch), len(window), gradient.channels[1 - at]
    blocks = gradient.channels[at] // block
    kept = (gradient.n // images, counts[0] // rows, groups, blocks, *window, others, block)
    d = _Loops(gradient.batch, (*kept, images, rows, *counts[1:]))
    of_images, of_rows, group, channels, *inner = d.loops
    tap, (other, last, image, row, *along) = inner[:rank], inner[rank:]
    spatial = _spatial(gradient, rows, (of_rows, row, *along), tap)
    factors: list[tuple[Value, tuple[AffineExpr, ...]]] = []
    for number, value in enumerate(
        _divided(gradient, part, [(blocks, block) if i == at else (others,) for i in (0, 1)])
    ):
        own = d.batch if gradient.batched[number] else ()
        behind, place = (channels, last) if number == at else (other,), spatial[number]
        if number == at and is_transposed:
            # The channels of a block come last.
            axis = len(own) + 4
            order = (*range(axis), *range(axis + 1, value.ndim), axis)
            value, behind, place = ops.transpose(value, permutation=order), (channels,), (*place, last)
        factors.append((value, (*own, of_images, image, group, *behind, *place)))
    total = contracted(d.extents, factors, d.kept(len(kept)))
    total = ops.sum(ops.reshape(total, shape=(*gradient.batch, *kept)), axis=(first, first + 1))
    # (...batch, groups, blocks, ...window, others, block)
    channel, beside = (1, 3 + rank), (2 + rank,)
    order = (0, *((*channel, *beside) if at == 0 else (*beside, *channel)), *range(2, 2 + rank))
    total = ops.transpose(total, permutation=(*range(first), *[first + axis for axis in order]))
    return ops.reshape(total, shape=(*gradient.batch, groups, *gradient.channels, *window))


def _along_places(gradient: WeightGradient, machine: Machine) -> Value | None:
    """Vectors along places: a sum for each part of images and rows of which the nearest cache holds what a tile of
    filters reads for all taps; `None` where it holds all, where a tile has taps in place of filters, and where parts
    are too many or short."""
    n, counts, window, (f, c) = gradient.n, gradient.counts, gradient.window, gradient.channels
    first, rank, room = len(gradient.batch), len(window), machine.l1 // 2 // (4 * min(f, TILE))
    rows = _largest_divisor(counts[0], max(room // prod(counts[1:]), 1))
    are_joined = rows == counts[0] and not isinstance(n, Size)
    images = _largest_divisor(n, max(room // prod(counts), 1)) if are_joined else 1
    kept = (n // images, counts[0] // rows, gradient.groups, f, c, *window)
    if prod(window) == 1 or f == 1 or not 1 < prod(map(estimate, kept[:2])) <= gradient.read // gradient.sums:
        return None
    if images * rows * prod(counts[1:]) < room // SHORT:
        return None
    d = _Loops(gradient.batch, (*kept, images, rows, *counts[1:]))
    of_images, of_rows, group, filter_of, channel, *inner = d.loops
    tap, (image, row, *along) = inner[:rank], inner[rank:]
    spatial = _spatial(gradient, rows, (of_rows, row, *along), tap)
    factors = [
        (value, (*(d.batch if has else ()), of_images, image, group, own, *place))
        for value, has, own, place in zip(
            _divided(gradient, (images, rows), [(f,), (c,)]),
            gradient.batched,
            (filter_of, channel),
            spatial,
            strict=True,
        )
    ]
    total = contracted(d.extents, factors, d.kept(len(kept)))
    return ops.sum(ops.reshape(total, shape=(*gradient.batch, *kept)), axis=(first, first + 1))


def _divided(gradient: WeightGradient, part: tuple[int, int], channels: Sequence[Sizes]) -> list[Value]:
    """The operands with each `part` of images and rows as dimensions of their own, and so each one's `channels`."""
    (images, rows), first, rank = part, len(gradient.batch), len(gradient.window)
    cotangent, x = gradient.operands
    split = (gradient.counts[0] // rows, rows, *gradient.counts[1:])
    return [
        ops.reshape(
            value,
            shape=(*value.shape[: first if has else 0], gradient.n // images, images, gradient.groups, *own, *sizes),
        )
        for value, has, own, sizes in zip(
            (cotangent, x), gradient.batched, channels, (split, x.shape[x.ndim - rank :]), strict=True
        )
    ]


def _spatial(
    gradient: WeightGradient, rows: int, out: Sequence[AffineExpr], tap: Sequence[AffineExpr]
) -> tuple[tuple[AffineExpr, ...], tuple[AffineExpr, ...]]:
    """Where the cotangent is read, and the image. Parts of `rows` are dimensions of their own: a loop that is a sum
    with another everywhere would need one that says how long."""
    of_rows, row, *along = out
    return tuple(out), places((scaled(of_rows, rows) + row, *along), tap, gradient.stride, gradient.dilation)


class _Loops:
    """The loops over a batch and over `sizes`; those of one iteration are none, but the number 0."""

    def __init__(self, batch: Sizes, sizes: Sizes) -> None:
        self.batch = tuple([AffineExpr.dimension(i) for i in range(len(batch))])
        self.extents = (*batch, *[size for size in sizes if size != 1])
        numbers = iter(range(len(batch), len(self.extents)))
        self.loops = [AffineExpr.constant(0) if size == 1 else AffineExpr.dimension(next(numbers)) for size in sizes]

    def kept(self, count: int) -> tuple[AffineExpr, ...]:
        """Those over the batch, and of the first `count` others those that are loops."""
        return (*self.batch, *[loop for loop in self.loops[:count] if isinstance(loop, AffineDimExpr)])
