"""Windows that slide over the last dimensions of an image: what settings say about them, and how many fit.

A window has `window[i]` elements along spatial dimension i, `dilation[i]` apart; windows start every `stride[i]`
elements. Sizes are given as one for all spatial dimensions or one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.shapes import InferenceError

Sizes = tuple[int, ...]
Padding = Sizes | str

PADDINGS = ("valid", "same", "same_upper", "same_lower")


def scaled(loop: Any, factor: int) -> Any:
    """`loop * factor`, which stays a plain loop for a factor of 1."""
    return loop if factor == 1 else loop * factor


def places(out: Sequence[Any], tap: Sequence[Any], stride: Sizes, dilation: Sizes) -> tuple[Any, ...]:
    """Where element `tap` of window `out` lies in the image, as affine expressions."""
    rank = len(out)
    steps, gaps = each(stride, rank, "stride"), each(dilation, rank, "dilation")
    return tuple([scaled(o, s) + scaled(t, d) for o, t, s, d in zip(out, tap, steps, gaps, strict=True)])


def each(sizes: Sizes, rank: int | None, name: str, least: int = 1) -> Sizes:
    """A setting of one size, or of one for each of `rank` spatial dimensions, as one for each; `None` is any rank."""
    fits = len(sizes) > 0 if rank is None else len(sizes) in (1, rank)
    if not fits or min(sizes) < least:
        count = "one size or more" if rank is None else "one size" if rank == 1 else f"one size or {rank}"
        raise InferenceError(f"{name} is {sizes} where {count} of at least {least} are needed")
    return sizes * rank if rank is not None and len(sizes) == 1 else sizes


def check_padding(padding: Padding, rank: int | None) -> None:
    """Raise unless `padding` is a name, or sizes: one, one per dimension, or before and behind each in turn."""
    if isinstance(padding, str):
        if padding not in PADDINGS:
            raise InferenceError(f"padding is {padding!r} where sizes or one of {', '.join(PADDINGS)} are needed")
        return
    fits = len(padding) > 0 if rank is None else len(padding) in (1, rank, 2 * rank)
    if not fits or min(padding) < 0:
        counts = "sizes" if rank is None else "one or two sizes" if rank == 1 else f"one, {rank} or {2 * rank} sizes"
        raise InferenceError(f"padding is {padding} where {counts} of at least 0 are needed")


def halves(total: int, padding: Padding) -> tuple[int, int]:
    """`total` before and behind; the odd one is before with `"same_lower"` and otherwise behind."""
    small, large = total // 2, total - total // 2
    return (large, small) if padding == "same_lower" else (small, large)


def borders(padding: Sizes, rank: int) -> list[tuple[int, int]]:
    """What explicit `padding` puts before and behind each spatial dimension."""
    check_padding(padding, rank)
    if len(padding) == 2 * rank:
        return list(zip(padding[::2], padding[1::2], strict=True))
    return [(size, size) for size in each(padding, rank, "padding", 0)]


@dataclass(frozen=True)
class Windows:
    """The windows over images of any size: one entry per spatial dimension, -1 where the size of the window is unknown.

    With `ceil_mode` a last window that reaches beyond the padded image counts, if it starts within the image or the
    padding before it.
    """

    size: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Padding
    ceil_mode: bool = False

    @classmethod
    def of(cls, size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool = False) -> Windows:
        """From settings, which may have one entry for all dimensions; raises `InferenceError` for wrong ones."""
        rank = len(size)
        check_padding(padding, rank)
        return cls(size, each(stride, rank, "stride"), each(dilation, rank, "dilation"), padding, ceil_mode)

    @property
    def span(self) -> Sizes:
        """How many elements of the image a window reaches over, -1 where unknown."""
        pairs = zip(self.size, self.dilation, strict=True)
        return tuple([-1 if size < 0 else max((size - 1) * step + 1, 0) for size, step in pairs])

    def borders(self, image: Sizes) -> list[tuple[int, int]]:
        """What is padded before and behind each dimension, which must be known where the padding depends on it."""
        if not isinstance(self.padding, str):
            return borders(self.padding, len(self.size))
        if self.padding == "valid":
            return [(0, 0)] * len(self.size)
        result: list[tuple[int, int]] = []
        for size, span, step in zip(image, self.span, self.stride, strict=True):
            last = (-(-size // step) - 1) * step
            result.append(halves(max(last + span - size, 0), self.padding))
        return result

    def counts(self, image: Sizes) -> Sizes:
        """How many windows fit in each dimension of `image`, -1 where unknown."""
        known = [size >= 0 and span >= 0 for size, span in zip(image, self.span, strict=True)]
        sides = self.borders(tuple([max(size, 0) for size in image]))
        result: list[int] = []
        for size, (low, high), span, step, is_known in zip(image, sides, self.span, self.stride, known, strict=True):
            room = size + low + high - span
            if not is_known:
                result.append(-1)
                continue
            if room < 0:
                raise InferenceError(f"a window spans {span} and the padded x has size {size + low + high}")
            count = room // step + 1
            if self.ceil_mode and room % step and count * step < size + low:
                count += 1
            result.append(count)
        return tuple(result)

    def margins(self, image: Sizes) -> tuple[Sizes, Sizes]:
        """What has to stand before and behind `image`, so that it holds all windows that count."""
        low: list[int] = []
        high: list[int] = []
        sides = self.borders(image)
        for size, (before, behind), span, step, count in zip(
            image, sides, self.span, self.stride, self.counts(image), strict=True
        ):
            low.append(before)
            high.append(max(behind, (count - 1) * step + span - size - before))
        return tuple(low), tuple(high)

    def padded(self, x: Value, value: float) -> Value:
        """`x` with `value` around its last dimensions, so that it holds all windows that count."""
        rank = len(self.size)
        low, high = self.margins(x.shape[x.ndim - rank :])
        return moved(x, low, high, value)


def moved(x: Value, low: Sizes, high: Sizes, value: float = 0.0) -> Value:
    """`x` with `value` before and behind its last dimensions; a negative size leaves out as many elements instead, of
    `x` and then of what is on its other side."""
    kept = (0,) * (x.ndim - len(low))
    low, high = (*kept, *low), (*kept, *high)
    if min((*low, *high), default=0) < 0:
        along = [_cut(*each) for each in zip(x.shape, low, high, strict=True)]
        starts, limits, low, high = (tuple(column) for column in zip(*along, strict=True))
        x = ops.slice(x, starts=starts, limits=limits)
    return ops.pad(x, low=low, high=high, value=value) if any((*low, *high)) else x


def _cut(size: int, low: int, high: int) -> tuple[int, int, int, int]:
    """Where a dimension of `size` starts and ends once it is cut, and what is before and behind it then."""
    start, limit = max(-low, 0), size - max(-high, 0)
    if (low >= 0 and high >= 0) or limit > start:
        return start, limit, max(low, 0), max(high, 0)
    return 0, 0, 0, max(low + size + high, 0)


def stepped(x: Value, axis: int, start: int, step: int, count: int) -> Value:
    """`count` entries of `x` along `axis` from `start` on, `step` apart."""
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, start + (count - 1) * step + 1, step
    return ops.slice(x, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))
