"""Pooling over windows and over whole images."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.convolution import padding, sizes


def _windows(node: Node, x: Any) -> dict[str, Any]:
    window = tuple(node.required("kernel_shape"))
    rank = len(window)
    return {
        "window": window,
        "stride": sizes(node, "strides", rank),
        "dilation": sizes(node, "dilations", rank),
        "padding": padding(node, rank),
        "ceil_mode": bool(node.attribute("ceil_mode", 0)),
    }


@operator("MaxPool")
def max_pool(node: Node, x: Operand) -> Any:
    if not node.wants(1):
        return ops.max_pool(x, **_windows(node, x))
    return ops.max_pool_with_indices(
        x, storage_order=node.attribute("storage_order", 0), within="tensor", **_windows(node, x)
    )


@operator("AveragePool", since=7)
def average_pool(node: Node, x: Operand) -> Any:
    return ops.avg_pool(x, count_include_pad=bool(node.attribute("count_include_pad", 0)), **_windows(node, x))


@operator("LpPool", since=2)
def lp_pool(node: Node, x: Operand) -> Any:
    return ops.lp_pool(x, p=float(node.attribute("p", 2)), **_windows(node, x))


@operator("MaxUnpool", since=9)
def max_unpool(node: Node, x: Operand, indices: Operand, shape: Operand | None = None) -> Any:
    """`x` at `indices` of a tensor of zeros; where its shape is given, indices still count in the one inferred."""
    window = node.required("kernel_shape")
    rank = len(window)
    around = padding(node, rank)
    before = (0,) * (2 * rank) if isinstance(around, str) else around
    own = zip(x.shape[2:], sizes(node, "strides", rank), window, before[::2], before[1::2], strict=True)
    inferred = (*x.shape[:2], *[(size - 1) * step + extent - low - high for size, step, extent, low, high in own])
    flat = ops.scatter_elements(
        ops.zeros((prod(inferred),), dtype=x.dtype),
        ops.reshape(indices, shape=(-1,)),
        ops.reshape(x, shape=(-1,)),
        axis=0,
    )
    result = ops.reshape(flat, shape=inferred)
    target = node.integers(shape, "output_shape")
    if target is None:
        return result
    high = np.subtract(target, inferred)
    return ops.pad(result, low=(0,) * x.ndim, high=tuple(int(size) for size in high))
