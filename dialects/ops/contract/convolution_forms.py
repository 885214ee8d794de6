"""Forms of a convolution that run faster: the same sums over loops that vectors fill.

Vectors run along the last spatial dimension, where neighbours must be neighbours in memory, and many.
"""

from __future__ import annotations

from itertools import product
from math import prod

from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.minimal_filtering import minimal_filtering
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved, places, scaled

NARROW = 24
"""Windows along the last dimension below which vectors are filled badly."""
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
    pays = steps and weight.shape[1] >= FEWEST_FILTERS
    columns = counts[-1]
    if len(counts) > 1 and columns < NARROW and counts[-2] > 1 and _fit_in_one_row(windows, pays):
        return _along_rows(x, weight, windows, counts)
    return _by_phases(x, weight, windows, columns) if pays else None


def _fit_in_one_row(windows: Windows, splitting_pays: bool) -> bool:
    """Whether the rows of an image, or of its phases, can be one behind the other."""
    if windows.stride[-2:] == (1, 1):
        return True
    return splitting_pays and windows.stride[-2] <= MOST_PHASES and windows.dilation[-2:] == (1, 1)


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
    """All rows of an image as one: what windows across the end of a row give is computed, too, and left out. Where
    windows step, there is such an image for each place between two of them."""
    images, width = _one_row_each(x, windows, counts)
    steps = zip(windows.stride[-2:], windows.size[-2:], strict=True)
    total: Value | None = None
    for phase in product(*[range(min(step, taps)) for step, taps in steps]):
        term = _phase_along_rows(images, weight, windows, counts, width, phase)
        total = term if total is None else total + term
    assert total is not None
    return ops.sliding_windows(total, window=(counts[-1],), stride=(width,))


def _one_row_each(x: Value, windows: Windows, counts: Sizes) -> tuple[Value, int]:
    """`x` (n, groups, ..., height, width) as (n, groups, places between two windows, ..., rows one behind the other),
    and the length of one of these rows."""
    n, groups, *outer, height, width = x.shape
    if windows.stride[-2:] == (1, 1):
        return ops.reshape(x, shape=(n, groups, 1, *outer, height * width)), width
    down, along = windows.stride[-2:]
    rows = counts[-2] + (windows.size[-2] - 1) // down
    columns = counts[-1] + (windows.size[-1] - 1) // along
    split = moved(x, (0, 0), (rows * down - height, columns * along - width))
    split = ops.reshape(split, shape=(n, groups, *outer, rows, down, columns, along))
    behind = 2 + len(outer)
    kept = range(2, behind)
    split = ops.transpose(split, permutation=(0, 1, behind + 1, behind + 3, *kept, behind, behind + 2))
    return ops.reshape(split, shape=(n, groups, down * along, *outer, rows * columns)), columns


def _phase_along_rows(
    images: Value, weight: Value, windows: Windows, counts: Sizes, width: int, phase: tuple[int, ...]
) -> Value:
    """What the elements of windows at one place between two of them add, for `images` of rows of `width`."""
    rank, steps, gaps = len(counts), windows.stride[-2:], windows.dilation[-2:]
    places_along = (counts[-2] - 1) * width + counts[-1]
    inside = [-(-(size - at) // step) for size, at, step in zip(windows.size[-2:], phase, steps, strict=True)]
    extents = (*images.shape[:2], weight.shape[1], *counts[:-2], places_along, *weight.shape[2:-2], *inside)
    n, groups, f, *rest = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, c, taps, (row, column) = rest[: rank - 1], rest[rank - 1], rest[rank:-2], rest[-2:]
    outer = places(out[:-1], taps, windows.stride[:-2], windows.dilation[:-2]) if rank > 2 else ()
    place = out[-1] + row * (gaps[0] * width) + scaled(column, gaps[1])
    at = AffineExpr.constant(phase[0] * steps[1] + phase[1])
    tap = [
        scaled(i, step) + start if start else scaled(i, step)
        for i, step, start in zip((row, column), steps, phase, strict=True)
    ]
    indices = ((n, groups, at, c, *outer, place), (groups, f, c, *taps, *tap), (n, groups, f, *out))
    return ops.contract(
        (images, weight),
        maps=tuple([AffineMap(len(extents), 0, index) for index in indices]),
        extents=extents,
        shape=extents[: rank + 2],
    )


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
