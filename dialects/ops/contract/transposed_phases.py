"""Transposed convolutions without the zeros: one for each place between two windows."""

from __future__ import annotations

from math import prod

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved, stepped

LITTLE_WORK = 1 << 16
"""Products below which a convolution stays as it is: more kernels would cost more than they spare."""
MOST_PHASES = 4
"""The largest stride that is worth a convolution for each of the elements that it steps over."""


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
    part = stepped(weight, 3 + at, first, step, -(-(taps - first) // step))
    stride, part_low = list(windows.stride), list(low)
    stride[at], part_low[at] = 1, (phase + low[at] - first) // step
    settings = {"size": size, "stride": tuple(stride), "low": tuple(part_low)}
    return ops.transposed_convolution(x, part, dilation=windows.dilation, **settings)
