"""Transposed convolutions without the zeros: one for each place between two windows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import promote

LITTLE_WORK = 1 << 16
"""Products below which a convolution stays as it is: more kernels would cost more than they spare."""
MOST_PHASES = 4
"""The largest stride that is worth a convolution for each of the elements that it steps over."""


@dataclass(frozen=True)
class _Phase:
    """What every `step`-th place along a dimension has from one of the first on, `phase`: `taps` of the weight from
    `first` on, `apart`, and in x windows of elements `gap` apart, the first of which begins `low` places before x."""

    first: int
    apart: int
    taps: int
    gap: int
    low: int

    @staticmethod
    def of(phase: int, low: int, step: int, gap: int, taps: int) -> _Phase | None:
        """Those taps that are a whole number of steps from the place; `None` if there are none."""
        common = gcd(step, gap)
        apart = step // common
        first = next((tap for tap in range(min(taps, apart)) if (phase + low - gap * tap) % step == 0), None)
        if first is None:
            return None
        count, gap_in_x = -(-(taps - first) // apart), gap // common
        return _Phase(first, apart, count, gap_in_x, (count - 1) * gap_in_x - (phase + low - gap * first) // step)


def transposed_by_phases(x: Value, weight: Value, windows: Windows, size: Sizes, low: Sizes) -> Value | None:
    """A `transposed_convolution` that steps over elements, as one without zeros in between for each place between two
    windows; `None` where that is not faster."""
    steps = windows.stride
    work = prod(map(estimate, (x.shape[0], *weight.shape, *x.shape[3:])))
    if prod(steps) == 1 or max(steps) > MOST_PHASES or prod(windows.size) == 1 or work < LITTLE_WORK or 0 in size:
        return None
    turned = ops.transpose(weight, permutation=(0, 2, 1, *range(3, weight.ndim)))
    # As many places of each phase as any phase has.
    reach = tuple([-(-extent // step) for extent, step in zip(size, steps, strict=True)])
    along = [
        [_Phase.of(phase, *each) for phase in range(each[1])]
        for each in zip(low, windows.stride, windows.dilation, windows.size, strict=True)
    ]
    before, behind = [], []
    for phases, count, extent in zip(along, x.shape[3:], reach, strict=True):
        known = [phase for phase in phases if phase is not None]
        before.append(max(phase.low for phase in known))
        behind.append(max((phase.taps - 1) * phase.gap - phase.low for phase in known) + extent - count)
    padded = moved(x, tuple(before), tuple(behind))
    parts = [_part(x, padded, tuple(before), turned, phases, reach) for phases in product(*along)]
    whole = ops.reshape(ops.stack(parts), shape=(*steps, *parts[0].shape))
    rank = len(size)
    order = (*range(rank, rank + 3), *[axis for i in range(rank) for axis in (rank + 3 + i, i)])
    shape = (*parts[0].shape[:3], *[extent * step for extent, step in zip(reach, steps, strict=True)])
    rest = tuple([extent - most for extent, most in zip(size, shape[3:], strict=True)])
    return moved(ops.reshape(ops.transpose(whole, permutation=order), shape=shape), (0,) * rank, rest)


def _part(
    x: Value, padded: Value, before: Sizes, turned: Value, phases: tuple[_Phase | None, ...], reach: Sizes
) -> Value:
    """What is at the places of `phases`, of which a dimension has `reach`; `padded` has so many places `before` x, and
    the weight is `turned`, c before f."""
    known = [phase for phase in phases if phase is not None]
    if len(known) < len(phases):
        element = promote([x.element_type, turned.element_type])
        return ops.zeros((*x.shape[:2], turned.shape[1], *reach), element)
    last = [phase.first + (phase.taps - 1) * phase.apart for phase in known]
    weight = ops.slice(
        turned,
        starts=(0, 0, 0, *last),
        limits=(*turned.shape[:3], *[phase.first - 1 for phase in known]),
        strides=(1, 1, 1, *[-phase.apart for phase in known]),
    )
    starts = [ahead - phase.low for phase, ahead in zip(known, before, strict=True)]
    spans = [extent + (phase.taps - 1) * phase.gap for phase, extent in zip(known, reach, strict=True)]
    limits = [start + span for start, span in zip(starts, spans, strict=True)]
    if all(phase.taps == 1 for phase in known):
        # Most often x as it is.
        sides = zip(known, reach, x.shape[3:], strict=True)
        low, high = zip(*[(phase.low, extent - phase.low - count) for phase, extent, count in sides], strict=True)
        image = moved(x, low, high)
    else:
        image = ops.slice(padded, starts=(0, 0, 0, *starts), limits=(*padded.shape[:3], *limits))
    return ops.convolution(image, weight, dilation=tuple([phase.gap for phase in known]))
