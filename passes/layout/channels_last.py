"""Convolutions of f16 and bf16 as products of matrices: windows of an image whose channels are neighbours, so that what
an instruction multiplies lies side by side whatever place of a window it is at.

    y[n, f, i, j] = sum over c, h, w of x[n, i + h, j + w, c] * weight[h * width of windows + w, f, c]

Of narrow images all rows are one: what windows across the end of a row give is computed, too, and left out."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
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


def channels_last(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) by `weight` (groups, f, c, ...window) with channels last, if
    their elements are f16 or bf16 that was widened, else `None`."""
    n, groups, c, *image = x.shape
    if groups > 1 or min(c, weight.shape[1]) < FEWEST_CHANNELS:
        return None
    image_before, weight_before = as_before(x), as_before(weight)
    if image_before is None or weight_before is None or image_before.element_type != weight_before.element_type:
        return None
    rank = len(image)
    in_one = rank > 1 and counts[-1] < NARROW and windows.stride[-2:] == (1, 1)
    width, along = image[-1], tuple(counts)
    if in_one:
        along = (*counts[:-2], (counts[-2] - 1) * width + counts[-1])
        image = [*image[:-2], image[-2] * width]
    extents = (n, weight.shape[1], *along, c, *windows.size)
    image_of, filter_of, *rest = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, channel, taps = rest[: len(along)], rest[len(along)], rest[len(along) + 1 :]
    if in_one:
        gaps = windows.dilation[-2:]
        outer = places(out[:-1], taps[:-2], windows.stride[:-2], windows.dilation[:-2]) if rank > 2 else ()
        at = (*outer, out[-1] + scaled(taps[-2], gaps[0] * width) + scaled(taps[-1], gaps[1]))
    else:
        at = places(out, taps, windows.stride, windows.dilation)
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


def as_before(value: Value) -> Value | None:
    """The value as f16 or bf16, if that is what its elements were before they were widened, and then only moved or
    padded by zeros; `None` if they may be others."""
    op = value.ssa.owner
    if isinstance(op, CastOp):
        return Value(op.x) if isinstance(element_of(op.x.type), Float16Type | BFloat16Type) else None
    if not isinstance(op, ReshapeOp | PadOp) or (isinstance(op, PadOp) and op.settings["value"]):
        return None
    narrow = as_before(Value(op.operands[0]))
    if narrow is None:
        return None
    settings = dict(op.settings)
    return ops.reshape(narrow, **settings) if isinstance(op, ReshapeOp) else ops.pad(narrow, **settings)
