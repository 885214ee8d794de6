"""Samples of ops that interpolate at places that are data, of sums of windows, transforms and determinants."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, Array, add, generator, numbers

from tenon.dialects.ops.contract.fourier_plan import COMPLEX, plan_of, side_by_side

# --- interpolation ----------------------------------------------------------------------------------------------------


def reflected(place: float, low: float, high: float) -> float:
    """Mirrored at each end in turn until it is inside."""
    while high > low and not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place if high > low else low


def kernel_weights(place: float, mode: str) -> list[tuple[int, float]]:
    if mode == "nearest":
        return [(int(np.rint(place)), 1.0)]
    first = int(np.floor(place))
    if mode == "linear":
        return [(first, 1 - (place - first)), (first + 1, place - first)]
    result = []
    for tap in range(first - 1, first + 3):
        d = abs(place - tap)
        inner = 1.25 * d**3 - 2.25 * d**2 + 1
        outer = -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
        result.append((tap, inner if d <= 1 else outer))
    return result


def grid_sampled(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    """One element after the other."""
    rank = x.ndim - 2
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for batch, *out in np.ndindex(x.shape[0], *grid.shape[1:-1]):
        taps = []
        for axis, size in enumerate(x.shape[2:]):
            unit = (grid[(batch, *out, rank - 1 - axis)] + 1) / 2
            place = unit * (size - 1) if align_corners else unit * size - 0.5

            def inside(p: float, size: int = size) -> float:
                if padding_mode == "reflection":
                    p = reflected(p, 0, size - 1) if align_corners else reflected(p, -0.5, size - 0.5)
                return p if padding_mode == "zeros" else min(max(p, 0), size - 1)

            if mode != "cubic":
                place = inside(place)
            own = [(int(inside(tap)) if mode == "cubic" else tap, w) for tap, w in kernel_weights(place, mode)]
            taps.append([(tap, w) for tap, w in own if 0 <= tap < size])
        for chosen in product(*taps):
            weight = np.prod([w for _, w in chosen])
            result[(batch, slice(None), *out)] += weight * x[(batch, slice(None), *[tap for tap, _ in chosen])]
    return result


for _number, (_mode, _padding, _align) in enumerate(
    product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (False, True))
):
    _shapes = (((2, 3, 4, 5), (2, 3, 2, 2)), ((1, 2, 6), (1, 5, 1)), ((1, 2, 3, 2, 4), (1, 2, 2, 2, 3)))
    # The 64 elements that are combined in three dimensions take long, and are made like 16 in two.
    _shapes = _shapes[_number % (2 if _mode == "cubic" else 3)]
    _dtype = (F32, F32, F16, F64, BF16)[_number % 5]
    add(
        "grid_sample",
        [numbers("image", _shapes[0], _dtype), numbers(f"grid{_number}", _shapes[1], _dtype, -1.7, 1.7)],
        lambda x, g, m=_mode, p=_padding, a=_align: grid_sampled(x, g, m, p, a),
        mode=_mode,
        padding_mode=_padding,
        align_corners=_align,
        differentiable=True,
        rtol={F16: 4e-3, BF16: 3e-2, F32: 2e-5, F64: 1e-11}[np.dtype(_dtype)],
        atol={F16: 4e-3, BF16: 3e-2, F32: 2e-5, F64: 1e-11}[np.dtype(_dtype)],
    )
add(
    "grid_sample",
    [numbers("point", (1, 2, 1, 3)), numbers("point", (1, 0, 2, 2))],
    lambda x, g: np.zeros((1, 2, 0, 2)),
)
add(
    "grid_sample",
    [numbers("line", (1, 1, 1, 3)), numbers("far", (1, 2, 2, 2), F32, -9, 9)],
    lambda x, g: grid_sampled(x, g, "linear", "reflection", True),
    padding_mode="reflection",
    align_corners=True,
    rtol=1e-5,
    atol=1e-5,
)


def roi_aligned(
    x: Array, rois: Array, batch: Array, size: Any, ratio: Any, scale: float, aligned: bool, mode: str
) -> Array:
    offset = 0.5 if aligned else 0.0
    result = np.zeros((len(rois), x.shape[1], *size))
    for index, channel, *bins in np.ndindex(*result.shape):
        image = x[batch[index], channel]
        start, end = rois[index][[1, 0]] * scale - offset, rois[index][[3, 2]] * scale - offset
        extent = end - start if aligned else np.maximum(end - start, 1)
        values = []
        for sample in np.ndindex(*ratio):
            place = start + (np.array(bins) + (np.array(sample) + 0.5) / ratio) * extent / size
            if (place < -1).any() or (place > image.shape).any():
                values.append([0.0] * 4)
                continue
            place = np.clip(place, 0, np.array(image.shape) - 1)
            low = np.minimum(place.astype(int), np.array(image.shape) - 1)
            high = np.minimum(low + 1, np.array(image.shape) - 1)
            part = place - low
            values.append(
                [
                    image[(low, high)[i][0], (low, high)[j][1]]
                    * (part[0] if i else 1 - part[0])
                    * (part[1] if j else 1 - part[1])
                    for i in (0, 1)
                    for j in (0, 1)
                ]
            )
        result[(index, channel, *bins)] = np.max(values) if mode == "max" else np.sum(values) / len(values)
    return result


_ROIS = np.array([[0.3, 0.4, 3.7, 4.2], [-2.0, 1.1, 2.6, 9.0], [1.2, 1.3, 1.9, 1.4]], F32)
for _ratio, _scale, _aligned, _mode in (
    ((2, 2), 1.0, True, "avg"),
    ((1, 3), 0.7, False, "avg"),
    ((2, 1), 1.0, True, "max"),
):
    add(
        "roi_align",
        [numbers("roi", (2, 3, 5, 4)), _ROIS, np.array([1, 0, 1])],
        lambda x, r, b, n=_ratio, s=_scale, a=_aligned, m=_mode: roi_aligned(x, r, b, (2, 3), n, s, a, m),
        output_size=(2, 3),
        sampling_ratio=_ratio,
        spatial_scale=_scale,
        aligned=_aligned,
        mode=_mode,
        differentiable=_mode == "avg",
    )


def deformed(
    x: Array,
    weight: Array,
    offset: Array,
    mask: Any,
    bias: Any,
    stride: Any,
    pads: Any,
    dilation: Any,
    groups: int,
    own: int,
) -> Array:
    """One element of the result after the other."""
    n, channels = x.shape[:2]
    filters, inner, *window = weight.shape
    counts, elements = offset.shape[2:], int(np.prod(window))
    moves = offset.reshape(n, own, elements, len(window), *counts)
    result = np.zeros((n, filters, *counts))
    for b, f, *out in np.ndindex(*result.shape):
        total = 0.0 if bias is None else bias[f]
        for c, (e, tap) in product(range(inner), enumerate(np.ndindex(*window))):
            channel = f // (filters // groups) * inner + c
            group = channel // (channels // own)
            place = [
                o * s - p + t * d + moves[(b, group, e, i, *out)]
                for i, (o, s, p, t, d) in enumerate(zip(out, stride, pads, tap, dilation, strict=True))
            ]
            value = 0.0
            for taps in product(*[kernel_weights(p, "linear") for p in place]):
                index = tuple(i for i, _ in taps)
                if all(0 <= i < size for i, size in zip(index, x.shape[2:], strict=True)):
                    value += x[(b, channel, *index)] * np.prod([w for _, w in taps])
            scale = 1.0 if mask is None else mask.reshape(n, own, elements, *counts)[(b, group, e, *out)]
            total += weight[(f, c, *tap)] * value * scale
        result[(b, f, *out)] = total
    return result


add(
    "deform_conv",
    [
        numbers("deform", (2, 4, 3, 3)),
        numbers("filter", (4, 2, 2, 2)),
        numbers("moves", (2, 2 * 4 * 2, 2, 2)),
        numbers("scales", (2, 2 * 4, 2, 2), F32, 0, 1),
        numbers("shift", (4,)),
    ],
    lambda x, w, o, m, b: deformed(x, w, o, m, b, (2, 1), (1, 0), (1, 1), 2, 2),
    stride=(2, 1),
    padding=(1, 0),
    groups=2,
    offset_groups=2,
    differentiable=True,
    rtol=2e-5,
    atol=2e-5,
)
add(
    "deform_conv",
    [numbers("deform", (1, 2, 7)), numbers("filter", (3, 2, 2)), numbers("moves", (1, 2, 5)), None, None],
    lambda x, w, o, m, b: deformed(x, w, o, m, b, (1,), (0,), (2,), 1, 1),
    dilation=2,
    differentiable=True,
    rtol=2e-5,
    atol=2e-5,
)

# --- sums of windows --------------------------------------------------------------------------------------------------


def folded(x: Array, size: Any, window: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Array:
    sides = list(zip(size, low, high, strict=True))
    padded = np.zeros((x.shape[0], x.shape[1] // int(np.prod(window)), *[n + a + b for n, a, b in sides]), x.dtype)
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(padded.shape[2:], spans, stride, strict=True)]
    parts = x.reshape(*padded.shape[:2], *window, *counts)
    for index in np.ndindex(*parts.shape[2:]):
        tap, out = index[: len(window)], index[len(window) :]
        place = tuple(o * s + t * d for o, s, t, d in zip(out, stride, tap, dilation, strict=True))
        padded[(..., *place)] += parts[(..., *index)]
    return padded[(..., *[slice(a, a + n) for n, a, _ in sides])]


add(
    "fold",
    [numbers("fold", (2, 3 * 4, 12))],
    lambda x: folded(x, (4, 5), (2, 2), (1, 1), (0, 0), (0, 0), (1, 1)),
    size=(4, 5),
    window=(2, 2),
    differentiable=True,
)
add(
    "fold",
    [numbers("fold", (1, 2 * 6, 9))],
    lambda x: folded(x, (5, 6), (2, 3), (2, 2), (1, 0), (1, 2), (2, 1)),
    size=(5, 6),
    window=(2, 3),
    stride=(2, 2),
    padding=(1, 1, 0, 2),
    dilation=(2, 1),
    differentiable=True,
)
add(
    "fold",
    [np.arange(12, dtype=np.int32).reshape(1, 3, 4)],
    lambda x: folded(x, (10,), (3,), (2,), (0,), (0,), (1,)),
    size=(10,),
    window=(3,),
    stride=2,
)

# --- transforms -------------------------------------------------------------------------------------------------------


def pairs(numbers_: Array) -> Array:
    return np.stack([numbers_.real, numbers_.imag], axis=-1)


def fourier(x: Array, axis: int, length: int | None, inverse: bool, onesided: bool) -> Array:
    values = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    axis = axis % x.ndim
    if onesided:
        return np.fft.irfft(values, length, axis)[..., None] if inverse else pairs(np.fft.rfft(x[..., 0], length, axis))
    return pairs((np.fft.ifft if inverse else np.fft.fft)(values, length, axis))


for _shape, _axis, _length, _inverse, _onesided in (
    ((2, 6, 2), -2, None, False, False),
    ((5, 3, 1), 0, 8, False, False),
    ((2, 9, 1), 1, None, False, True),
    ((2, 5, 2), 1, None, True, True),
    ((4, 2), 0, 7, True, True),
    ((130, 2, 2), 0, None, True, False),
    ((1, 5, 1), 1, 4, True, False),
    ((257, 2), 0, None, False, False),
    ((2, 256, 2), 1, None, False, False),
    ((300, 2, 2), 0, None, True, False),
    ((12, 20, 2), 0, None, True, False),
    ((512, 1), 0, None, False, True),
    ((2, 257, 2), 1, None, True, True),
    ((514, 1), 0, None, False, True),
):
    add(
        "dft",
        [numbers("signal", _shape)],
        lambda x, a=_axis, n=_length, i=_inverse, o=_onesided: fourier(x, a, n, i, o),
        axis=_axis,
        length=_length,
        inverse=_inverse,
        onesided=_onesided,
        differentiable=np.prod(_shape) < 50,
        rtol=1e-5,
        atol=1e-5 * _shape[_axis] ** 0.5,
    )
add("dft", [numbers("half", (8, 1), F16)], lambda x: fourier(x, 0, None, False, False), rtol=4e-3, atol=8e-3)

_plan = plan_of(256, side_by_side(4))
assert _plan is not None
add(
    "transform_rows",
    [numbers("rows", (2, 256, 2)), _plan.roots(COMPLEX).astype(F32)],
    lambda x, roots: fourier(x, 1, None, False, False),
    kind=COMPLEX,
    length=256,
    rtol=1e-5,
    atol=1e-4,
)

# --- determinants -----------------------------------------------------------------------------------------------------

for _size in (0, 1, 2, 4, 5, 9):
    add("det", [numbers("det", (2, _size, _size))], np.linalg.det, differentiable=_size > 0, rtol=2e-4, atol=2e-5)
_LOW_RANK = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], F32)
add("det", [_LOW_RANK], np.linalg.det, "rank2", differentiable=True, atol=1e-5)
add("det", [np.zeros((3, 3), F32)], np.linalg.det, "zeros", differentiable=True)
add("det", [generator("permutation").permuted(np.eye(6), axis=0).astype(F16)], np.linalg.det, "permutation")
