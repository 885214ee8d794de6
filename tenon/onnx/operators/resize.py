"""Resize and Upsample: interpolation along each axis by itself, with places and weights that are known when importing.

Each element of the result is a sum of a few elements along the axis ("taps") times weights, as the standard's text
states them for every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.support.interpolation import Array, Kernel, cubic, linear
from tenon.dialects.types.shapes import normalize_axis
from tenon.onnx.node import LARGEST_ARRAY, Node, OnnxError, Operand, check_size
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, is_float, of_dtype


@dataclass(frozen=True)
class Axis:
    """How one axis changes: its sizes, the scale between them, and the part that is looked at (`roi`)."""

    length: int
    resized: int
    scale: float
    start: float
    end: float


def _coordinates(mode: str, axis: Axis) -> Array:
    """The place in the original for each element of the result (`coordinate_transformation_mode`)."""
    x = np.arange(axis.resized, dtype=np.float64)
    last = axis.length - 1
    match mode:
        case "half_pixel":
            return (x + 0.5) / axis.scale - 0.5
        case "half_pixel_symmetric":
            # Where the size was rounded, both ends lose or gain the same.
            adjustment = axis.resized / (axis.scale * axis.length)
            return axis.length / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / axis.scale - 0.5 if axis.resized > 1 else np.zeros_like(x)
        case "align_corners":
            width = axis.scale * axis.length  # before it was rounded
            return x * last / (width - 1) if width != 1 else np.zeros_like(x)
        case "asymmetric":
            return x / axis.scale
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / axis.scale
        case "tf_crop_and_resize":
            if axis.resized == 1:
                return np.full_like(x, 0.5 * (axis.start + axis.end) * last)
            return axis.start * last + x * (axis.end - axis.start) * last / (axis.resized - 1)
        case _:
            raise OnnxError(f"coordinate_transformation_mode {mode!r} is not supported")


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class Filter:
    """An interpolation: its kernel, how far that reaches, and what is done at the ends."""

    kernel: Kernel
    radius: int
    antialias: bool
    exclude_outside: bool

    def taps(self, coordinates: Array, axis: Axis, where: str) -> tuple[Array, Array]:
        """Indices and weights (resized, taps) of the elements that make up each element of the result."""
        stretch = min(axis.scale, 1.0) if self.antialias else 1.0
        reach = ceil(self.radius / stretch)
        check_size((axis.resized, 2 * reach), coordinates.dtype, f"{where}: its table of weights", LARGEST_ARRAY)
        places = np.floor(coordinates)[:, None] + np.arange(1 - reach, reach + 1)
        weights = self.kernel((places - coordinates[:, None]) * stretch)
        if self.exclude_outside:
            weights = np.where((places >= 0) & (places < axis.length), weights, 0)
        if self.antialias or self.exclude_outside:
            weights = weights / weights.sum(axis=1, keepdims=True)
        return np.clip(places, 0, axis.length - 1).astype(np.int64), weights


def _filter(node: Node, mode: str) -> Filter:
    antialias, exclude = bool(node.attribute("antialias", 0)), bool(node.attribute("exclude_outside", 0))
    if mode == "linear":
        return Filter(linear, 1, antialias, exclude)
    if mode == "cubic":
        return Filter(cubic(node.attribute("cubic_coeff_a", -0.75)), 2, antialias, exclude)
    raise OnnxError(f"{node.where}: mode {mode!r} is not one of nearest, linear, cubic")


def _resized(node: Node, x: Operand, axes: dict[int, Axis], coordinate_mode: str) -> Any:
    """`x` with each of `axes` interpolated."""
    mode = node.attribute("mode", "nearest")
    result: Any = x if mode == "nearest" else in_single(x) if is_float(x) else ops.cast(x, dtype="f32")
    outside: Any = None
    for position, axis in axes.items():
        if axis.resized < 0 or (axis.resized and not 0 < axis.scale < inf):
            raise OnnxError(f"{node.where}: dimension {position} has size {axis.resized}, scale {axis.scale:g}")
        check_size((axis.resized,), np.dtype(np.float64), f"{node.where}: its table of places", LARGEST_ARRAY)
        coordinates = _coordinates(coordinate_mode, axis)
        if coordinate_mode == "tf_crop_and_resize":
            behind = (1,) * (x.ndim - 1 - position)
            beyond = ((coordinates < 0) | (coordinates > axis.length - 1)).reshape(-1, *behind)
            outside = beyond if outside is None else outside | beyond
        elif axis.length == axis.resized and axis.scale == 1.0:
            continue
        result = _along(node, result, position, axis, coordinates, mode)
    if outside is not None and outside.any():
        result = ops.select(outside, node.attribute("extrapolation_value", 0.0), result)
    return of_dtype(result, x.dtype)


def _along(node: Node, x: Any, position: int, axis: Axis, coordinates: Array, mode: str) -> Any:
    if mode == "nearest":
        rounding = node.attribute("nearest_mode", "round_prefer_floor")
        if rounding not in _NEAREST:
            raise OnnxError(f"{node.where}: nearest_mode {rounding!r} is not one of {', '.join(_NEAREST)}")
        rounded = _NEAREST[rounding](coordinates)
        return ops.gather(x, np.clip(rounded, 0, axis.length - 1).astype(np.int64), axis=position)
    indices, weights = _filter(node, mode).taps(coordinates, axis, node.where)
    kept = weights.any(axis=0)
    behind = (1,) * (x.ndim - 1 - position)
    parts = ops.gather(x, indices[:, kept], axis=position)
    scaled = parts * weights[:, kept].astype(x.dtype).reshape(axis.resized, int(kept.sum()), *behind)
    return ops.sum(scaled, axis=position + 1)


def _sizes_keeping_aspect(sizes: Sequence[int], lengths: Sequence[int], policy: str) -> tuple[list[int], list[float]]:
    """Sizes and scales for target sizes (`keep_aspect_ratio_policy`)."""
    ratios = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return list(sizes), ratios
    if policy not in ("not_larger", "not_smaller"):
        raise OnnxError(f"keep_aspect_ratio_policy {policy!r} is not supported")
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [floor(scale * length + 0.5) for length in lengths], [scale] * len(ratios)


@operator("Resize", since=11)
def resize(
    node: Node,
    x: Operand,
    roi: Operand | None = None,
    scales: Operand | None = None,
    sizes: Operand | None = None,
) -> Any:
    shape = node.shape(x)
    chosen = [normalize_axis(axis, x.ndim) for axis in node.attribute("axes", range(x.ndim))]
    lengths = [shape[axis] for axis in chosen]
    target = node.integers(sizes, "sizes")
    if target:
        resized, factors = _sizes_keeping_aspect(target, lengths, node.attribute("keep_aspect_ratio_policy", "stretch"))
    elif scales is not None:
        factors = node.known(scales, "scales").astype(np.float64).tolist()
        resized = [floor(length * factor) for length, factor in zip(lengths, factors, strict=True)]
    else:
        raise OnnxError(f"{node.where}: neither scales nor sizes is given")
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    region = [0.0] * len(chosen) + [1.0] * len(chosen)
    if mode == "tf_crop_and_resize" and roi is not None:
        region = node.known(roi, "roi").astype(np.float64).tolist()
    bounds = zip(region[: len(chosen)], region[len(chosen) :], strict=True)
    parts = zip(chosen, lengths, resized, factors, bounds, strict=True)
    axes = {axis: Axis(length, size, factor, *bound) for axis, length, size, factor, bound in parts}
    return _resized(node, x, axes, mode)


@operator("Resize", since=10)
def resize_by_scales(node: Node, x: Operand, scales: Operand) -> Any:
    return _upsampled(node, x, node.known(scales, "scales").astype(np.float64).tolist())


@operator("Upsample", since=7, until=8)
def upsample_by_attribute(node: Node, x: Operand) -> Any:
    return _upsampled(node, x, node.required("scales"))


@operator("Upsample", since=9)
def upsample(node: Node, x: Operand, scales: Operand) -> Any:
    return _upsampled(node, x, node.known(scales, "scales").astype(np.float64).tolist())


def _upsampled(node: Node, x: Operand, scales: Sequence[float]) -> Any:
    """As before opset 11: coordinates are divided by the scale and, for the nearest, rounded down."""
    lengths = node.shape(x)
    axes = {
        axis: Axis(length, floor(length * scale), scale, 0.0, 1.0)
        for axis, (length, scale) in enumerate(zip(lengths, scales, strict=True))
    }
    rounded_down = replace(node, attributes={**node.attributes, "nearest_mode": "floor"})
    return _resized(rounded_down, x, axes, "asymmetric")
