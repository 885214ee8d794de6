"""The gradient of a convolution's weight, of f16 and bf16, as a product of matrices for each place of a window, along
all places of images whose channels are neighbours:

    dw[h, w, f, c] = sum over n, i, j of dy[n, i, j, f] * x[n, i + h, j + w, c]

Where windows do not step, all rows of an image are one, with zeros of `dy` across their ends: where the image was
padded so that there are as many windows as elements, these are the zeros that the gradient of the image has around
`dy`, too, and both read the same copy. Where windows have one element, channels stay where they are: images are
matrices then."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type
from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, moved
from tenon.dialects.ops.move.padding import PadOp
from tenon.passes.layout.channels_last import FEWEST_CHANNELS, RUN, both_before, places_of_rows
from tenon.passes.layout.forms import contracted
from tenon.passes.layout.weight_gradient import WeightGradient


def weight_gradient_of_few_channels(gradient: WeightGradient) -> Value | None:
    """The gradient as one product, whose columns are channels and places of a window together, of a copy of the image
    for each place: where channels are too few for a matrix, but copies are no more than filters, so that they are less
    than the cotangent. `None` elsewhere.

        dw[f, c h w] = sum over n, i j of dy[n, f, i j] * copies[n, c h w, i j]
        copies[n, c h w, i j] = x[n, c, i + h, j + w]
    """
    (f, c), n, rank, taps = gradient.channels, gradient.n, len(gradient.counts), prod(gradient.window)
    if gradient.batch or gradient.groups > 1 or c >= FEWEST_CHANNELS or not FEWEST_CHANNELS <= c * taps <= f:
        return None
    cotangent, image = both_before(*gradient.operands) or gradient.operands
    # Windows of windows: element `out` of the window that starts at `tap` is element `tap` of window `out`.
    steps = zip(gradient.counts, gradient.stride, gradient.window, gradient.dilation, strict=True)
    spans = [(count - 1) * step + (size - 1) * gap + 1 for count, step, size, gap in steps]
    image = moved(image, (0,) * rank, tuple([span - size for span, size in zip(spans, image.shape[3:], strict=True)]))
    copies = ops.sliding_windows(image, window=gradient.counts, stride=gradient.dilation, dilation=gradient.stride)
    count, element = prod(gradient.counts), gradient.operands[0].element_type
    of, at, place, column = [AffineExpr.dimension(i) for i in (0, 2, 3, 1)]
    rows = ops.reshape(cotangent, shape=(n, f, count)).astype(element)
    columns = ops.reshape(copies, shape=(n, c * taps, count)).astype(element)
    total = contracted((f, c * taps, n, count), [(rows, (at, of, place)), (columns, (at, column, place))], (of, column))
    return ops.reshape(total, shape=(1, f, c, *gradient.window))


def weight_gradient_products(gradient: WeightGradient) -> Value | None:
    """The gradient as such products, if it is of f16 or bf16 that was widened, and of enough channels; else `None`."""
    if gradient.batch or gradient.groups > 1 or min(gradient.channels) < FEWEST_CHANNELS:
        return None
    narrow = both_before(*gradient.operands)
    if narrow is None:
        return None
    if prod(gradient.window) == prod(gradient.stride) == 1 and prod(gradient.counts) % RUN == 0:
        return _of_points(*narrow, gradient)
    return _by_places(*narrow, gradient)


def _of_points(cotangent: Value, image: Value, gradient: WeightGradient) -> Value:
    """The gradient where windows have one element: images are matrices of channels and places."""
    (f, c), n, count = gradient.channels, gradient.n, prod(gradient.counts)
    of, to, at, place = [AffineExpr.dimension(i) for i in range(4)]
    rows = ops.reshape(cotangent, shape=(n, f, count)).astype(Float32Type())
    columns = ops.reshape(image, shape=(n, c, count)).astype(Float32Type())
    total = contracted((f, c, n, count), [(rows, (at, of, place)), (columns, (at, to, place))], (of, to))
    return ops.reshape(total, shape=(1, f, c, *gradient.window))


def _by_places(cotangent: Value, image: Value, gradient: WeightGradient) -> Value:
    """The gradient as a product for each place of a window."""
    (f, c), n, rank = gradient.channels, gradient.n, len(gradient.counts)
    sizes, counts = image.shape[3:], gradient.counts
    in_one = rank > 1 and gradient.stride[-2:] == (1, 1)
    low = (0,) * rank
    if in_one and counts[-1] < sizes[-1]:
        low, high = _zeros(gradient, sizes)
        cotangent = moved(cotangent, low, high)
    order, given = (0, 1, *range(3, 3 + rank), 2), cotangent.shape[3:]
    if in_one:
        sizes, given = (*sizes[:-2], prod(sizes[-2:])), (*given[:-2], prod(given[-2:]))
        counts = (*counts[:-2], (counts[-2] - 1) * image.shape[-1] + counts[-1])
        low = (*low[:-2], low[-2] * image.shape[-1] + low[-1])
    slopes = ops.reshape(ops.transpose(cotangent, permutation=order), shape=(n, *given, f))
    images = ops.reshape(ops.transpose(image, permutation=order), shape=(n, *sizes, c))
    moving = tuple([size for size in gradient.window if size > 1])
    extents = (*moving, f, c, n, *counts)
    loops = [AffineExpr.dimension(i) for i in range(len(extents))]
    along, (of, to, at), out = loops[: len(moving)], loops[len(moving) :][:3], loops[len(moving) + 3 :]
    left = iter(along)
    taps = [next(left) if size > 1 else AffineExpr.constant(0) for size in gradient.window]
    behind = [place + start if start else place for place, start in zip(out, low, strict=True)]
    read = places_of_rows(out, taps, gradient.stride, gradient.dilation, image.shape[-1])
    factors = [(slopes.astype(Float32Type()), (at, *behind, of)), (images.astype(Float32Type()), (at, *read, to))]
    total = contracted(extents, factors, (*along, of, to))
    total = ops.transpose(total, permutation=(len(along), len(along) + 1, *range(len(along))))
    return ops.reshape(total, shape=(1, f, c, *gradient.window))


def _zeros(gradient: WeightGradient, sizes: Sizes) -> tuple[Sizes, Sizes]:
    """How many zeros stand before and behind the cotangent, so that its rows are as long as those of the image: as the
    gradient of the image has them, if there are as many windows as elements before the image was padded. Where some are
    behind, some are before: a loop by itself is an index that goes through all of an operand."""
    rank, padded = len(sizes), gradient.operands[1].ssa.owner
    if isinstance(padded, PadOp):
        before, behind = (padded.settings[side][3:] for side in ("high", "low"))
        whole = tuple([x + y + z for x, y, z in zip(before, gradient.counts, behind, strict=True)])
        # Of the last two dimensions all places are one loop.
        first, last = ((*side[:-2], sum(side[-2:])) for side in (before, behind))
        if whole == tuple(sizes) and all(x or not y for x, y in zip(first, last, strict=True)):
            return before, behind
    missing = sizes[-1] - gradient.counts[-1]
    return (*[0] * (rank - 1), 1), (*[0] * (rank - 1), missing - 1)
