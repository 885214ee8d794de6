"""Convolutions by minimal filtering, which takes about half of the products (Winograd, 1980; Lavin and Gray,
arXiv:1509.09308).

`m` neighbouring outputs of a filter with `r` taps are coefficients of a product of polynomials, which is told by its
values at `m + r - 1` points: y = A ((G w) * (B x)), with as many products as points instead of m * r. Here it is done
along the rows of an image alone. The other dimensions stay a convolution, whose vectors run along the last one and on
from row to row, and the three transforms are contractions with small constant matrices.

Points are chosen such that rounding is no worse than in the sum itself: with 64 channels and 3x3 windows the largest
error is 1.1e-6 of the largest result, and 0.9e-6 for the direct sum. An infinity or a NaN reaches all outputs of its
group of rows, which is why it can be turned off: `filtering`, an option of the pass `convolution-forms`.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineExpr

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved, places
from tenon.dialects.support.frozen_arguments import is_frozen
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import f32, f64, numpy_dtype
from tenon.passes.layout.forms import contracted

FEWEST_CHANNELS = 16
"""Channels and filters below which the transforms of images and results cost more than is spared."""
FEWEST_WINDOWS = 128
"""Windows below which the transform of the weight costs too much."""
FEWEST_FROZEN_WINDOWS = 24
"""The same for a weight that is transformed once: from here on the products cost more than to read twice the bytes."""
POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)
TAPS = 3
LARGEST_GROUP = len(POINTS) + 2 - TAPS

Matrix = np.ndarray[Any, Any]


def minimal_filtering(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) with windows of 3 rows, of which `counts` fit, by minimal
    filtering along the rows; `None` where that is not faster."""
    if len(counts) < 2:
        return None
    if (windows.size[-2], windows.stride[-2], windows.dilation[-2]) != (TAPS, 1, 1):
        return None
    if x.element_type not in (f32, f64) or windows.stride[-1] != 1 or counts[-2] < 2:
        return None
    fewest = FEWEST_FROZEN_WINDOWS if is_frozen(weight.ssa) else FEWEST_WINDOWS
    if min(weight.shape[1:3]) < FEWEST_CHANNELS or estimate(x.shape[0]) * prod(counts) < fewest:
        return None
    return _filtered(x, weight, windows, counts, _rows_of_group(counts[-2]))


def _rows_of_group(count: int) -> int:
    """How many of `count` rows take the fewest products together; between equals, as few as round best."""
    return min(range(2, LARGEST_GROUP + 1), key=lambda size: -(-count // size) * (size + TAPS - 1))


def _filtered(x: Value, weight: Value, windows: Windows, counts: Sizes, group: int) -> Value:
    """In groups of `group` rows: transform images and weight, convolve what becomes of them, and transform back. The
    rows of an image lie one behind the other meanwhile, so that vectors run on from one to the next."""
    n, groups, c, *outer, height, width = x.shape
    f, taps, columns = weight.shape[1], weight.shape[3:-2], weight.shape[-1]
    to_image, to_weight, to_result = filtering_matrices(group, TAPS)
    dtype, points, rows = numpy_dtype(x.element_type), len(to_image), -(-counts[-2] // group)
    x = moved(x, (0, 0), (rows * group + TAPS - 1 - height, 0))

    # (n, groups, points, c, ...outer, rows, width)
    extents = (n, groups, points, c, *outer, rows, width, group + TAPS - 1)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    place = (*d[:2], *d[3:-3], d[-3] * group + d[-1], d[-2])
    image = contracted(extents, [(x, place), (to_image.astype(dtype), (d[2], d[-1]))], tuple(d[:-1]))
    image = ops.reshape(image, shape=(n, groups, points, c, *outer, rows * width))

    rank = len(taps)
    # (n, groups, f, points, ...outer, places along the rows)
    extents = (n, groups, f, points, *counts[:-2], (rows - 1) * width + counts[-1], c, *taps, columns)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, channel, tap = d[4 : 4 + rank + 1], d[5 + rank], d[6 + rank :]
    place = places(out, tap, _without_rows(windows.stride), _without_rows(windows.dilation))
    filters = _filters(weight, to_weight)
    operands = [(image, (*d[:2], d[3], channel, *place)), (filters, (d[1], d[3], d[2], channel, *tap))]
    product = contracted(extents, operands, (*d[:4], *out))

    # (n, groups, f, ...outer, rows, group, counts[-1])
    extents = (n, groups, f, *counts[:-2], rows, group, counts[-1], points)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    place = (*d[:3], d[-1], *d[3:-4], d[-4] * width + d[-2])
    result = contracted(extents, [(product, place), (to_result.astype(dtype), (d[-3], d[-1]))], tuple(d[:-1]))
    result = ops.reshape(result, shape=(n, groups, f, *counts[:-2], rows * group, counts[-1]))
    return moved(result, (0, 0), (counts[-2] - rows * group, 0))


def _filters(weight: Value, matrix: Matrix) -> Value:
    """`weight` (groups, f, c, ...taps, rows, columns) as (groups, points, f, c, ...taps, columns): what the products at
    one point read lies together, and can be fetched ahead."""
    groups, f, c, *taps, rows, columns = weight.shape
    extents = (groups, len(matrix), f, c, *taps, columns, rows)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    own = (d[0], *d[2:-2], d[-1], d[-2])
    by_point = matrix.astype(numpy_dtype(weight.element_type))
    return contracted(extents, [(weight, own), (by_point, (d[1], d[-1]))], d[:-1])


def _without_rows(sizes: Sizes) -> Sizes:
    return (*sizes[:-2], sizes[-1])


@cache
def filtering_matrices(outputs: int, taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """B (points, points), G (points, taps) and A (outputs, points) such that A ((G w) * (B x)) are the `outputs` sums
    of `taps` neighbours in x (points,) weighted by w: by interpolation at the first of `POINTS` and at infinity."""
    count = outputs + taps - 1
    finite = np.array(POINTS[: count - 1])
    to_image, to_weight, to_result = np.zeros((count, count)), np.zeros((count, taps)), np.zeros((outputs, count))
    for i, point in enumerate(finite):
        others = np.delete(finite, i)
        to_image[i, :-1] = np.poly(others)[::-1]
        to_weight[i] = point ** np.arange(taps) / np.prod(point - others)
        to_result[:, i] = point ** np.arange(outputs)
    to_image[-1] = np.poly(finite)[::-1]
    to_weight[-1, -1] = to_result[-1, -1] = 1
    return to_image, to_weight, to_result
