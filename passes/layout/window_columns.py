"""Convolutions of images of few windows as products of matrices whose columns are windows.

    y[n, f, window] = sum over k of weight[f, k] * columns[n, k, window],    k over channels and taps

What such a convolution takes is to read its weight: here that is done once for all windows, in the order in which it
lies, however far windows step. A copy of each window costs little beside the products of many filters with it."""

from __future__ import annotations

from math import prod

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved
from tenon.passes.layout.forms import FEW_VECTORS, float_lanes
from tenon.passes.machine import Machine

FEWEST_FILTERS = 128
"""Filters that read a copy of a window often enough for it to cost little."""


def window_columns(x: Value, weight: Value, windows: Windows, counts: Sizes, machine: Machine) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) by `weight` (groups, f, c, ...window) as products of matrices;
    `None` where windows are many, or too few for a vector, or filters are few, or rows are long as they are."""
    lanes = float_lanes(x, machine)
    if not lanes:
        return None
    n, groups, c = x.shape[:3]
    filters, columns, taps = weight.shape[1], prod(counts), prod(windows.size)
    if taps == 1 or filters < FEWEST_FILTERS or not lanes <= columns <= FEW_VECTORS * lanes:
        return None
    if windows.stride[-1] == 1 and counts[-1] >= lanes * 3 // 2:
        return None  # along a row, vectors are full without a copy
    # Windows of windows: element `out` of the window that starts at `tap` is element `tap` of window `out`.
    spans = [(count - 1) * step + span for count, step, span in zip(counts, windows.stride, windows.span, strict=True)]
    rest = tuple([span - size for span, size in zip(spans, x.shape[3:], strict=True)])
    copied = ops.sliding_windows(
        moved(x, (0,) * len(rest), rest), window=counts, stride=windows.dilation, dilation=windows.stride
    )
    total = ops.matmul(
        ops.reshape(weight, shape=(groups, filters, c * taps)),
        ops.reshape(copied, shape=(n, groups, c * taps, columns)),
    )
    return ops.reshape(total, shape=(n, groups, filters, *counts))
