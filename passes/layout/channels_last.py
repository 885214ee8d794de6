"""Convolutions of f16 and bf16 as products of matrices: windows of an image whose channels are neighbours, so that what
an instruction multiplies lies side by side whatever place of a window it is at.

    y[n, f, i, j] = sum over c, h, w of x[n, i + h, j + w, c] * weight[h * width of windows + w, f, c]

Of narrow images all rows are one: what windows across the end of a row give is computed, too, and left out. Where
windows have one element, channels stay where they are: images are matrices then."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import IndexMapOp
from tenon.dialects.ops.contract.transposed_convolution import DilateOp
from tenon.dialects.ops.contract.windows import Sizes, Windows, places, scaled
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.move.padding import PadOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.types.types import element_of
from tenon.passes.layout.forms import contracted

FEWEST_CHANNELS = 16
"""Of the image and of the result, below which matrices are mostly empty."""
NARROW = 32
"""Columns below which rows are one."""
RUN = 8
"""Elements that one access copies: of an image whose places are a multiple of them, each channel begins at one."""


def channels_last(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) by `weight` (groups, f, c, ...window) with channels last, if
    their elements are f16 or bf16 that was widened, else `None`."""
    n, groups, c, *image = x.shape
    if groups > 1 or min(c, weight.shape[1]) < FEWEST_CHANNELS:
        return None
    narrow = both_before(x, weight)
    if narrow is None:
        return None
    image_before, weight_before = narrow
    rank = len(image)
    in_one = rank > 1 and counts[-1] < NARROW and windows.stride[-2:] == (1, 1)
    width, along = image[-1], tuple(counts)
    if in_one:
        along = (*counts[:-2], (counts[-2] - 1) * width + counts[-1])
        image = [*image[:-2], image[-2] * width]
    extents = (n, weight.shape[1], *along, c, *windows.size)
    image_of, filter_of, *rest = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, channel, taps = rest[: len(along)], rest[len(along)], rest[len(along) + 1 :]
    at = places_of_rows(out, taps, windows.stride, windows.dilation, width)
    tap = taps[0]
    for size, inner in zip(windows.size[1:], taps[1:], strict=True):
        tap = scaled(tap, size) + inner
    behind = range(3, 3 + rank)
    images = ops.transpose(image_before, permutation=(0, 1, *behind, 2))
    filters = ops.transpose(weight_before, permutation=(*behind, 0, 1, 2))
    images = ops.reshape(images, shape=(n, *image, c)).astype(Float32Type())
    filters = ops.reshape(filters, shape=(prod(windows.size), weight.shape[1], c)).astype(Float32Type())
    factors = [(images, (image_of, *at, channel)), (filters, (tap, filter_of, channel))]
    total = contracted(extents, factors, (image_of, filter_of, *out))
    if in_one:
        total = ops.sliding_windows(total, window=(counts[-1],), stride=(width,))
    return ops.reshape(total, shape=(n, 1, weight.shape[1], *counts))


def products_of_channels(x: Value, weight: Value, counts: Sizes) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) by a `weight` whose windows have one element, of elements as
    `channels_last` asks for them: a product along channels where they are, if copies of their rows are of whole runs,
    else `None`."""
    n, groups, c, *image = x.shape
    narrow = both_before(x, weight)
    if narrow is None or prod(image) % RUN:
        return None
    extents = (n, groups, weight.shape[1], prod(image), c)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    rows = ops.reshape(narrow[0], shape=(n, groups, c, prod(image))).astype(Float32Type())
    filters = ops.reshape(narrow[1], shape=weight.shape[:3]).astype(Float32Type())
    total = contracted(extents, [(rows, (d[0], d[1], d[4], d[3])), (filters, (d[1], d[2], d[4]))], d[:4])
    return ops.reshape(total, shape=(*extents[:3], *counts))


def places_of_rows(
    out: Sequence[AffineExpr], taps: Sequence[AffineExpr], stride: Sizes, dilation: Sizes, width: int
) -> tuple[AffineExpr, ...]:
    """Where an element of a window is; if there is one loop less over windows than over its elements, in images whose
    rows of `width` are one."""
    if len(out) == len(taps):
        return places(out, taps, stride, dilation)
    outer = places(out[:-1], taps[:-2], stride[:-2], dilation[:-2]) if len(taps) > 2 else ()
    return *outer, out[-1] + scaled(taps[-2], dilation[-2] * width) + scaled(taps[-1], dilation[-1])


def both_before(one: Value, other: Value) -> tuple[Value, Value] | None:
    """Two values as f16 or both as bf16, if they were before (see `as_before`)."""
    first, second = as_before(one), as_before(other)
    if first is None or second is None or first.element_type != second.element_type:
        return None
    return first, second


def as_before(value: Value) -> Value | None:
    """The value as f16 or bf16, if that is what its elements were before they were widened to f32, and then only moved,
    or put between zeros; `None` if they may be others."""
    op = value.ssa.owner
    if isinstance(op, CastOp):
        is_half = isinstance(element_of(op.x.type), Float16Type | BFloat16Type)
        return Value(op.x) if is_half and isinstance(value.element_type, Float32Type) else None
    if not isinstance(op, IndexMapOp | ReshapeOp | DilateOp | PadOp) or len(op.operands) != 1:
        return None
    if isinstance(op, PadOp) and op.settings["value"]:
        return None
    narrow = as_before(Value(op.operands[0]))
    return None if narrow is None else type(op).apply(narrow, **op.settings)
