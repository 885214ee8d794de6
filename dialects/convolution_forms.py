"""Forms of a convolution that run faster: the same sums over loops that vectors fill.

Vectors run along the last spatial dimension, where neighbours must be neighbours in memory, and many.
"""

from __future__ import annotations

from math import prod

from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.minimal_filtering import NARROW, minimal_filtering
from tenon.dialects.value import Value, ops
from tenon.dialects.windows import Sizes, Windows, moved, scaled

LITTLE_WORK = 1 << 16
"""Products below which a convolution stays as it is: more kernels would cost more than they spare."""
MOST_PHASES = 4
"""The largest stride that is worth a convolution for each of the elements that it steps over."""
FEWEST_FILTERS = 8
"""Filters that read what is split by phases often enough for that to pay."""


def faster_form(x: Value, weight: Value, windows: Windows) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) in another form where that is faster, else `None`."""
    counts = windows.counts(x.shape[3:])
    if not counts or prod((x.shape[0], *weight.shape, *counts)) < LITTLE_WORK:
        return None
    filtered = minimal_filtering(x, weight, windows, counts)
    if filtered is not None:
        return filtered
    steps = 1 < windows.stride[-1] <= MOST_PHASES and windows.dilation[-1] == 1
    if steps and weight.shape[1] >= FEWEST_FILTERS:
        return _by_phases(x, weight, windows, counts[-1])
    if len(counts) > 1 and windows.stride[-2:] == (1, 1) and counts[-1] < NARROW and counts[-2] > 1:
        return _along_rows(x, weight, windows, counts)
    return None


def _by_phases(x: Value, weight: Value, windows: Windows, count: int) -> Value:
    """One convolution for each place between two windows: there, windows of every so many columns start one apart."""
    step, taps = windows.stride[-1], windows.size[-1]
    total: Value | None = None
    for phase in range(min(step, taps)):
        part = _stepped(weight, weight.ndim - 1, phase, step, -(-(taps - phase) // step))
        image = _stepped(x, x.ndim - 1, phase, step, count + part.shape[-1] - 1)
        term = ops.convolution(image, part, stride=(*windows.stride[:-1], 1), dilation=windows.dilation)
        total = term if total is None else total + term
    assert total is not None
    return total


def _stepped(x: Value, axis: int, start: int, step: int, count: int) -> Value:
    """`count` entries of `x` along `axis` from `start` on, `step` apart."""
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, start + (count - 1) * step + 1, step
    return ops.slice(x, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))


def _along_rows(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value:
    """All rows of an image as one: what windows across the end of a row give is computed, too, and left out."""
    rank, (rows, columns), width = len(counts), counts[-2:], x.shape[-1]
    extents = (*x.shape[:2], weight.shape[1], *counts[:-2], (rows - 1) * width + columns, *weight.shape[2:])
    n, groups, f, *rest = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, (c, *taps) = rest[: rank - 1], rest[rank - 1 :]
    outer = zip(out[:-1], taps, windows.stride, windows.dilation, strict=False)
    image = [scaled(o, s) + scaled(t, d) for o, t, s, d in outer]
    down, along = windows.dilation[-2] * width, windows.dilation[-1]
    image.append(out[-1] + taps[-2] * down + scaled(taps[-1], along))
    indices = ((n, groups, c, *image), (groups, f, c, *taps), (n, groups, f, *out))
    result = ops.contract(
        (ops.reshape(x, shape=(*x.shape[:-2], x.shape[-2] * width)), weight),
        maps=tuple([AffineMap(len(extents), 0, index) for index in indices]),
        extents=extents,
        shape=extents[: rank + 2],
    )
    whole = moved(result, (0,), (width - columns,))
    table = ops.reshape(whole, shape=(*whole.shape[:-1], rows, width))
    return moved(table, (0,), (columns - width,))


def transposed_by_phases(x: Value, weight: Value, windows: Windows, size: Sizes, low: Sizes) -> Value | None:
    """A `transposed_convolution` that steps over elements, as one without zeros in between for each place between two
    windows; `None` where that is not faster.
    """
    steps = zip(windows.stride, windows.dilation, windows.size, strict=True)
    stepping = [i for i, (step, gap, taps) in enumerate(steps) if 1 < step <= MOST_PHASES and gap == 1 and taps > 1]
    if not stepping or prod((x.shape[0], *weight.shape, *x.shape[3:])) < LITTLE_WORK:
        return None
    at = stepping[0]
    step = windows.stride[at]
    # As many places of each phase as any phase has.
    reach = -(-size[at] // step)
    parts = [_phase(x, weight, windows, at, phase, (*size[:at], reach, *size[at + 1 :]), low) for phase in range(step)]
    whole = ops.stack(parts, axis=4 + at)
    shape = (*whole.shape[: 3 + at], reach * step, *whole.shape[5 + at :])
    behind = [0] * len(size)
    behind[at] = size[at] - reach * step
    return moved(ops.reshape(whole, shape=shape), (0,) * len(size), tuple(behind))


def _phase(x: Value, weight: Value, windows: Windows, at: int, phase: int, size: Sizes, low: Sizes) -> Value:
    """What a `transposed_convolution` has at every `stride[at]`-th place along dimension `at`, from `phase` on."""
    step, taps = windows.stride[at], windows.size[at]
    first = (phase + low[at]) % step
    if first >= taps:
        return ops.zeros((*x.shape[:2], weight.shape[2], *size), x.element_type)
    part = _stepped(weight, 3 + at, first, step, -(-(taps - first) // step))
    stride, part_low = list(windows.stride), list(low)
    stride[at], part_low[at] = 1, (phase + low[at] - first) // step
    settings = {"size": size, "stride": tuple(stride), "low": tuple(part_low)}
    return ops.transposed_convolution(x, part, dilation=windows.dilation, **settings)
