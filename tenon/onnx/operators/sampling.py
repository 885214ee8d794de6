"""Operators that interpolate at places that are data, and that add windows up to images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.convolution import interleaved, padding, sizes
from tenon.onnx.operators.elementwise import of_dtype

_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""How opset 16 calls modes."""


@operator("GridSample", since=16)
def grid_sample(node: Node, x: Operand, grid: Operand) -> Any:
    mode = node.attribute("mode", "linear")
    sampled = ops.grid_sample(
        x,
        grid,
        mode=_GRID_MODES.get(mode, mode),
        padding_mode=node.attribute("padding_mode", "zeros"),
        align_corners=bool(node.attribute("align_corners", 0)),
    )
    return of_dtype(sampled, x.dtype)


@operator("RoiAlign", since=10)
def roi_align(node: Node, x: Operand, rois: Operand, batch_indices: Operand) -> Any:
    """A sampling ratio of 0 takes as many samples as a bin has elements, for which `rois` have to be known."""
    mode = node.attribute("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise OnnxError(f"{node.where}: coordinate_transformation_mode {mode!r} is not supported")
    bins = (node.attribute("output_height", 1), node.attribute("output_width", 1))
    scale, ratio = node.attribute("spatial_scale", 1.0), node.attribute("sampling_ratio", 0)
    settings = {
        "output_size": bins,
        "spatial_scale": scale,
        "aligned": mode == "half_pixel",
        "mode": node.attribute("mode", "avg"),
    }
    if ratio > 0:
        return ops.roi_align(x, rois, batch_indices, sampling_ratio=ratio, **settings)
    corners = node.known(rois, "rois, whose sizes are sampling ratios,").astype(np.float64) * scale
    extents = corners[:, [3, 2]] - corners[:, [1, 0]]
    if mode == "output_half_pixel":
        extents = np.maximum(extents, 1.0)
    ratios = np.maximum(np.ceil(extents / bins), 1).astype(np.int64)
    parts: list[Any] = []
    order: list[Any] = []
    for each in np.unique(ratios, axis=0):
        (chosen,) = np.nonzero((ratios == each).all(axis=1))
        taken = (ops.gather(rois, chosen, axis=0), ops.gather(batch_indices, chosen, axis=0))
        parts.append(ops.roi_align(x, *taken, sampling_ratio=tuple(each.tolist()), **settings))
        order.append(chosen)
    if not parts:
        return ops.roi_align(x, rois, batch_indices, **settings)
    return ops.gather(ops.concatenate(parts, axis=0), np.argsort(np.concatenate(order)), axis=0)


@operator("DeformConv", since=19)
def deform_conv(
    node: Node, x: Operand, weight: Operand, offset: Operand, bias: Operand | None = None, mask: Operand | None = None
) -> Any:
    rank = x.ndim - 2
    return ops.deform_conv(
        x,
        weight,
        offset,
        mask,
        bias,
        stride=sizes(node, "strides", rank),
        padding=padding(node, rank),
        dilation=sizes(node, "dilations", rank),
        groups=node.attribute("group", 1),
        offset_groups=node.attribute("offset_group", 1),
    )


@operator("Col2Im", since=18)
def col2im(node: Node, x: Operand, image: Operand, block: Operand) -> Any:
    size, window = node.integers(image, "image_shape") or [], node.integers(block, "block_shape") or []
    rank = len(size)
    return ops.fold(
        x,
        size=tuple(size),
        window=tuple(window),
        stride=sizes(node, "strides", rank),
        padding=interleaved(node.attribute("pads") or [0] * (2 * rank)),
        dilation=sizes(node, "dilations", rank),
    )
