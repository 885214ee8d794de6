"""Interpolation at places that are data: grid_sample, roi_align, and deformable convolution.

A place is a number per spatial dimension, counted in elements of the image. Along each dimension an element of the
result is made of a few elements of the image ("taps") times weights; the gradient reaches the image and the places.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.ops.contract.windows import Padding, Sizes, Windows, check_padding, each
from tenon.dialects.ops.move.taps import (
    Tap,
    clipped,
    combined,
    cubic_taps,
    extent_of,
    interpolated,
    linear_taps,
    masked,
)
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, refine, show
from tenon.dialects.types.types import FLOAT_TENSOR, INTEGER_TENSOR, element_of, shape_of, tensor_type


def _channels_last(x: Value) -> Value:
    """(n, c, *image) as (n * elements, c), as it is computed."""
    batch, channels, *image = x.shape
    last = ops.transpose(ops.reshape(x, shape=(batch, channels, prod(image))), permutation=(0, 2, 1))
    return in_compute_type(ops.reshape(last, shape=(batch * prod(image), channels)))


# --- grid_sample ------------------------------------------------------------------------------------------------------


def _reflected(place: Value, low: float, high: Any) -> Value:
    """`place` mirrored at `low` and `high` as often as needed: a wave of triangles."""
    span = high - low
    if isinstance(span, float) and span <= 0:
        return place * 0.0 + low
    turned = ops.remainder(place - low, span * 2.0)
    mirrored = (span + low) - ops.abs(turned - span)
    return mirrored if isinstance(span, float) else ops.select(span > 0.0, mirrored, low)


def _within(place: Value, size: int, padding_mode: str, align_corners: bool) -> Value:
    """A place brought into the image, unless outside of it there are zeros."""
    if padding_mode == "zeros":
        return place
    extent = extent_of(size, place)
    if padding_mode == "reflection":
        place = _reflected(place, 0.0, extent - 1.0) if align_corners else _reflected(place, -0.5, extent - 0.5)
    return clipped(place, extent - 1.0)


def _grid_taps(place: Value, size: int, mode: str, padding_mode: str, align_corners: bool) -> list[Tap]:
    if mode == "cubic":
        taps = [tap._replace(place=_within(tap.place, size, padding_mode, align_corners)) for tap in cubic_taps(place)]
    else:
        place = _within(place, size, padding_mode, align_corners)
        taps = [Tap(ops.round(place), None, None)] if mode == "nearest" else linear_taps(place)
    return [masked(tap, size) for tap in taps] if padding_mode == "zeros" else taps


@tensor_op
class GridSampleOp(CompositeOp):
    """Images `x` (n, c, *image) interpolated at the places that `grid` (n, *out, rank) states: (n, c, *out).

    The last axis of `grid` has a number for each spatial dimension, the last dimension first, in which -1 is one end of
    the image and 1 the other: the outer edges of its first and last element, or with `align_corners` their centers.
    `mode` is `linear`, `nearest` (halves to even) or `cubic`; outside of the image there are `zeros`, the nearest
    element of it (`border`), or its mirror image (`reflection`). PyTorch calls the modes by the number of dimensions:
    bilinear, bicubic (Jaderberg et al., arXiv:1506.02025).

    >>> x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid = np.array([[[[0.0, 0.0], [0.5, -0.5], [1.0, 1.0]]]])
    >>> tenon.grid_sample(x, grid)
    """

    name = "tenon.grid_sample"
    x = operand_def(FLOAT_TENSOR)
    grid = operand_def(FLOAT_TENSOR)
    mode = setting(str, default="linear", choices=("linear", "nearest", "cubic"))
    padding_mode = setting(str, default="zeros", choices=("zeros", "border", "reflection"))
    align_corners = setting(bool, default=False)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, grid = map(shape_of, operands)
        element = element_of(operands[0])
        if x is None or grid is None:
            rank = len(x or grid or ())
            return tensor_type(None if rank == 0 else (-1,) * rank, element)
        rank = len(x) - 2
        if rank < 1 or len(grid) != len(x) or grid[-1] not in (-1, rank):
            raise InferenceError(
                f"grid has shape {show(grid)} where (n, *out, rank), and x {show(x)} where (n, c, *image) is needed, "
                f"with rank dimensions in image and in out"
            )
        batch = _equal("the first dimension", x=x[0], grid=grid[0])
        if 0 in x[2:] and 0 not in grid[1:-1]:
            raise InferenceError(f"x has shape {show(x)}, whose images have no elements")
        return tensor_type((batch, x[1], *grid[1:-1]), element)

    @staticmethod
    def decompose(x: Value, grid: Value, *, mode: str, padding_mode: str, align_corners: bool) -> Value:
        batch, channels, *image = x.shape
        out = grid.shape[1:-1]
        places = in_compute_type(ops.reshape(grid, shape=(batch, prod(out), len(image))))
        axes: list[list[Tap]] = []
        for axis, size in enumerate(image):
            part = _column(places, len(image) - 1 - axis)
            extent = extent_of(size, part)
            scaled = (part + 1.0) * ((extent - 1.0) * 0.5) if align_corners else ((part + 1.0) * extent - 1.0) * 0.5
            axes.append(_grid_taps(scaled, size, mode, padding_mode, align_corners))
        sampled = interpolated(in_compute_type(x), axes)
        return ops.reshape(sampled.astype(x.element_type), shape=(batch, channels, *out))


def _column(x: Value, index: int) -> Value:
    """`x[..., index]` of a tensor of rank 3."""
    rows, columns, _ = x.shape
    taken = ops.slice(x, starts=(0, 0, index), limits=(rows, columns, index + 1))
    return ops.reshape(taken, shape=(rows, columns))


def _equal(what: str, **sizes: int) -> int:
    """The one size that operands share, -1 where none of them is known."""
    known = {name: size for name, size in sizes.items() if size >= 0}
    if len(set(known.values())) > 1:
        listed = " and ".join(f"{size} in {name}" for name, size in known.items())
        first, second, *_ = dict.fromkeys(known.values())
        raise InferenceError(f"{what} is {listed}", (first, second))
    return next(iter(known.values()), -1)


# --- roi_align --------------------------------------------------------------------------------------------------------


def _roi_taps(place: Value, size: int) -> list[Tap]:
    """Linear interpolation up to one element beyond the ends, where the end continues, and nothing further out."""
    extent = extent_of(size, place)
    inside = ops.logical_and(place >= -1.0, place <= extent)
    low, high = linear_taps(clipped(place, extent - 1.0))
    return [tap._replace(inside=inside) for tap in (low, high)]


def _roi_places(start: Value, end: Value, bins: int, samples: int, aligned: bool) -> Value:
    """The places (rois, bins * samples) of evenly spaced samples in each bin from `start` to `end` (rois,)."""
    length = end - start if aligned else ops.maximum(end - start, 1.0)
    steps = ops.cast(ops.iota(shape=(1, bins * samples), axis=1), dtype=start.element_type)
    width = ops.expand_dims(length / float(bins * samples), axis=1)
    return ops.expand_dims(start, axis=1) + (steps + 0.5) * width


@tensor_op
class RoiAlignOp(CompositeOp):
    """The parts `rois` (k, 4) of images `x` (n, c, height, width), each brought to `output_size`: (k, c, *output_size).

    A row of `rois` is x1, y1, x2, y2 in the units of which `spatial_scale` makes elements of `x`, and `batch_indices`
    (k,) says of which image. Every bin of the result is the mean of `sampling_ratio` interpolated values (rows and
    columns, or one number for both), evenly spaced, or with `mode="max"` the largest of their four weighted elements.
    `aligned` moves places by half an element, so that they count from the edge of the first one; without it parts are
    at least one element in size (He et al., Mask R-CNN, arXiv:1703.06870).

    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> tenon.roi_align(x, np.array([[0.0, 0.0, 4.0, 4.0]]), np.array([0]), output_size=(2, 2))
    """

    name = "tenon.roi_align"
    x = operand_def(FLOAT_TENSOR)
    rois = operand_def(FLOAT_TENSOR)
    batch_indices = operand_def(INTEGER_TENSOR)
    output_size = setting(tuple)
    sampling_ratio = setting(tuple, default=(2,))
    spatial_scale = setting(float, default=1.0)
    aligned = setting(bool, default=True)
    mode = setting(str, default="avg", choices=("avg", "max"))
    result = result_def(FLOAT_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "rois")

    @staticmethod
    def check(**settings: Any) -> None:
        size, samples = settings["output_size"], settings["sampling_ratio"]
        if len(size) != 2 or min(size) < 1:
            raise InferenceError(f"output_size is {size} where two sizes of at least 1 are needed")
        each(samples, 2, "sampling_ratio")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, rois, batch = map(shape_of, operands)
        x, rois, batch = (
            _of_rank(name, s, r) for name, s, r in (("x", x, 4), ("rois", rois, 2), ("batch_indices", batch, 1))
        )
        if rois[1] not in (-1, 4):
            raise InferenceError(f"rois has shape {show(rois)} where (k, 4) is needed")
        count = _equal("the number of parts", rois=rois[0], batch_indices=batch[0])
        if 0 in (x[0], *x[2:]) and count != 0:
            raise InferenceError(f"x has shape {show(x)}, without any element to take")
        return tensor_type((count, x[1], *settings["output_size"]), element_of(operands[0]))

    @staticmethod
    def decompose(
        x: Value,
        rois: Value,
        batch_indices: Value,
        *,
        output_size: Sizes,
        sampling_ratio: Sizes,
        spatial_scale: float,
        aligned: bool,
        mode: str,
    ) -> Value:
        count, (_, channels, *image), samples = rois.shape[0], x.shape, each(sampling_ratio, 2, "sampling_ratio")
        corners = in_compute_type(rois) * spatial_scale - (0.5 if aligned else 0.0)
        left, top, right, bottom = (
            ops.reshape(ops.slice(corners, starts=(0, i), limits=(count, i + 1)), shape=(count,)) for i in range(4)
        )
        ends = ((top, bottom), (left, right))
        rows, columns = (
            _roi_places(*bounds, bins, number, aligned)
            for bounds, bins, number in zip(ends, output_size, samples, strict=True)
        )
        grid = (count, output_size[0] * samples[0], output_size[1] * samples[1])
        spread = (ops.expand_dims(rows, axis=2), ops.expand_dims(columns, axis=1))
        axes = [
            _roi_taps(ops.reshape(ops.broadcast_to(p, shape=grid), shape=(count, prod(grid[1:]))), size)
            for p, size in zip(spread, image, strict=True)
        ]
        images = ops.cast(ops.expand_dims(batch_indices, axis=1), dtype="i64")
        sampled = combined(_channels_last(x), images, axes, image, "maximum" if mode == "max" else "add")
        apart = ops.reshape(sampled, shape=(count, output_size[0], samples[0], output_size[1], samples[1], channels))
        bins = ops.max(apart, axis=(2, 4)) if mode == "max" else ops.mean(apart, axis=(2, 4))
        return ops.transpose(bins, permutation=(0, 3, 1, 2)).astype(x.element_type)


def _of_rank(name: str, shape: Shape, rank: int) -> tuple[int, ...]:
    if shape is None:
        return (-1,) * rank
    if len(shape) != rank:
        raise InferenceError(f"{name} has rank {len(shape)} where {rank} is needed")
    return shape


# --- deformable convolution -------------------------------------------------------------------------------------------


@tensor_op
class DeformConvOp(CompositeOp):
    """The convolution of images `x` (n, c, *image), each element of a window moved by `offset`, with `weight`.

    `weight` is (f, c / groups, *window), `offset` (n, offset_groups * elements * rank, *counts) with the elements of
    the window in row-major order and for each a number per spatial dimension, in elements of the image. `mask`
    (n, offset_groups * elements, *counts) scales what is read, `bias` (f,) is added. Places between elements are
    interpolated linearly; outside of the image there are zeros. The other settings, and counts, are those of `conv`
    (Dai et al., arXiv:1703.06211; with a mask: Zhu et al., arXiv:1811.11168).

    >>> x, weight = np.array([[[1.0, 2.0, 3.0, 4.0]]]), np.array([[[1.0, 10.0]]])
    >>> tenon.deform_conv(x, weight, np.full((1, 2, 3), 0.5))
    """

    name = "tenon.deform_conv"
    AUTOCAST = "low"
    x = operand_def(FLOAT_TENSOR)
    weight = operand_def(FLOAT_TENSOR)
    offset = operand_def(FLOAT_TENSOR)
    mask = opt_operand_def(FLOAT_TENSOR)
    bias = opt_operand_def(FLOAT_TENSOR)
    stride = setting(tuple, default=(1,))
    padding = setting("padding", default=(0,))
    dilation = setting(tuple, default=(1,))
    groups = setting(int, default=1)
    offset_groups = setting(int, default=1)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        each(settings["stride"], None, "stride")
        each(settings["dilation"], None, "dilation")
        check_padding(settings["padding"], None)
        for name in ("groups", "offset_groups"):
            if settings[name] < 1:
                raise InferenceError(f"{name} is {settings[name]} where a number of at least 1 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, weight, offset, mask, bias = (None if t is None else shape_of(t) for t in operands)
        groups, offset_groups = settings["groups"], settings["offset_groups"]
        if x is None or weight is None:
            return tensor_type(None, element_of(operands[0]))
        rank = len(x) - 2
        if rank < 1 or len(weight) != len(x):
            raise InferenceError(
                f"ranks are {len(x)} in x and {len(weight)} in weight where one of 3 or more is needed"
            )
        for name, divisor in (("groups", groups), ("offset_groups", offset_groups)):
            if x[1] >= 0 and x[1] % divisor:
                raise InferenceError(f"dimension 1 of x is {x[1]}, which is no multiple of {name} {divisor}")
        if weight[0] >= 0 and weight[0] % groups:
            raise InferenceError(f"dimension 0 of weight is {weight[0]}, which is no multiple of groups {groups}")
        if x[1] >= 0 and weight[1] >= 0 and x[1] != weight[1] * groups:
            raise InferenceError(f"dimension 1 is {x[1]} in x and {weight[1]} in weight with groups {groups}")
        counts = _windows(weight[2:], settings).counts(x[2:])
        elements = -1 if -1 in weight[2:] else prod(weight[2:])
        for name, shape, each_ in (("offset", offset, rank), ("mask", mask, 1)):
            channels = -1 if elements < 0 else elements * offset_groups * each_
            _refined(name, shape, (x[0], channels, *counts))
        _refined("bias", bias, (weight[0],))
        return tensor_type((x[0], weight[0], *counts), element_of(operands[0]))

    @staticmethod
    def decompose(
        x: Value,
        weight: Value,
        offset: Value,
        mask: Value | None,
        bias: Value | None,
        *,
        offset_groups: int,
        groups: int,
        **settings: Any,
    ) -> Value:
        batch, channels, *image = x.shape
        filters, window = weight.shape[0], weight.shape[2:]
        windows = _windows(window, settings)
        counts = windows.counts(tuple(image))
        elements, rows, inner = prod(window), batch * offset_groups, channels // offset_groups
        moved = in_compute_type(ops.reshape(offset, shape=(rows, elements, len(image), *counts)))
        starts = _regular_places(window, counts, windows, tuple(image), moved)
        axes = [
            [masked(tap, size) for tap in linear_taps(ops.reshape(start, shape=(rows, elements * prod(counts))))]
            for start, size in zip(starts, image, strict=True)
        ]
        images = ops.reshape(x, shape=(rows, inner, *image))
        sampled = interpolated(in_compute_type(images), axes)
        if mask is not None:
            sampled = sampled * in_compute_type(ops.reshape(mask, shape=(rows, 1, elements * prod(counts))))
        columns = ops.reshape(sampled, shape=(batch, groups, channels // groups * elements, prod(counts)))
        factors = ops.reshape(
            in_compute_type(weight), shape=(1, groups, filters // groups, channels // groups * elements)
        )
        total = ops.reshape(ops.matmul(factors, columns), shape=(batch, filters, *counts))
        if bias is not None:
            total = total + ops.reshape(in_compute_type(bias), shape=(filters, *(1,) * len(counts)))
        return total.astype(x.element_type)


def _windows(window: Sizes, settings: dict[str, Any]) -> Windows:
    padding: Padding = settings["padding"]
    return Windows.of(tuple(window), settings["stride"], padding, settings["dilation"])


def _refined(name: str, shape: Shape, needed: Shape) -> None:
    try:
        refine(needed, shape)
    except InferenceError as error:
        raise InferenceError(f"{name} has shape {show(shape)} where {show(needed)} is needed", error.sizes) from None


def _regular_places(window: Sizes, counts: Sizes, windows: Windows, image: Sizes, moved: Value) -> list[Value]:
    """For each dimension, where the elements of windows lie (rows, elements, *counts): as in `conv`, plus `moved`."""
    rows, elements, rank = moved.shape[:3]
    starts: list[Value] = []
    for axis, (low, _) in enumerate(windows.borders(image)):
        taps = ops.iota(shape=(*window, *(1,) * rank), axis=axis) * windows.dilation[axis]
        out = ops.iota(shape=(*(1,) * rank, *counts), axis=rank + axis) * windows.stride[axis]
        regular = ops.cast(ops.reshape(taps + out, shape=(elements, *counts)), dtype=moved.element_type)
        taken = ops.slice(
            moved,
            starts=(0, 0, axis, *(0,) * rank),
            limits=(rows, elements, axis + 1, *counts),
        )
        starts.append(ops.reshape(taken, shape=(rows, elements, *counts)) + regular - float(low))
    return starts
