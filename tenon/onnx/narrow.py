"""Types of 8 bits and less in models: how their tensors are packed, and what casts to them do out of range."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.types import (
    element_type,
    f8E8M0FNU,
    is_float,
    is_narrow,
    is_narrow_float,
    numpy_dtype,
    significant_bits,
)
from tenon.onnx.node import Node, OnnxError


def packed_bits(dtype: np.dtype[Any]) -> int:
    """The bits that an element takes in a file: 4 or 2 where several share a byte."""
    return significant_bits(element_type(dtype))


def unpacked(data: np.ndarray[Any, np.dtype[np.uint8]], dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    """The `count` elements of 4 or 2 bits in the bytes `data`, the first one in the lowest bits."""
    bits = packed_bits(dtype)
    places = np.arange(0, 8, bits, dtype=np.uint8)
    return ((data[:, None] >> places) & ((1 << bits) - 1)).reshape(-1)[:count].view(dtype)


def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest number of a dtype of integers or floats."""
    element = element_type(dtype)
    bounds = ml_dtypes.finfo(dtype) if is_narrow_float(element) else ml_dtypes.iinfo(dtype)
    return float(bounds.min), float(bounds.max)


def cast_to(node: Node, x: Any, dtype: object) -> Any:
    """`x` in `dtype` as Cast has it: what a float of 8 bits does not hold becomes its largest, unless `saturate` is 0.

    Of a float that does not fit into an integer of 4 or 2 bits the low bits are kept. The standard leaves that open;
    its tests expect this.
    """
    element = element_type(dtype)
    source = element_type(x.dtype)
    if source == element:
        return x
    if not is_narrow_float(element):
        wraps = is_narrow(element) and is_float(source)
        return ops.cast(ops.cast(x, dtype="i32") if wraps else x, dtype=element)
    values = x if is_float(source) else ops.cast(x, dtype="f32")
    if element == f8E8M0FNU:
        return _power_of_two(node, values)
    return saturated(values, element) if node.attribute("saturate", 1) else ops.cast(values, dtype=element)


def saturated(x: Any, element: Any) -> Any:
    """Floats in a narrow type, those out of range as the nearest finite number; NaN stays NaN where there is one."""
    wide = ops.cast(x, dtype="f32") if is_narrow(element_type(x.dtype)) else x
    low, high = limits(numpy_dtype(element))
    return ops.cast(ops.clip(wide, low, high), dtype=element)


def _power_of_two(node: Node, x: Any) -> Any:
    """Floats as f8E8M0FNU, rounded as `round_mode` says: `up` in magnitude, `down`, or `nearest`."""
    mode = node.attribute("round_mode", "up")
    if mode not in ("up", "down", "nearest"):
        raise OnnxError(f"{node.where}: round_mode is {mode!r} where 'up', 'down' or 'nearest' is needed")
    low, high = 2.0**-127, 2.0**127
    wide = x if x.dtype.itemsize > 2 else ops.cast(x, dtype="f32")
    if node.attribute("saturate", 1):
        wide = ops.clip(wide, low, high)
    else:
        wide = ops.select(ops.less(wide, low), float("nan"), wide)
        if mode == "down":  # what is finite
            wide = ops.select(ops.less(wide, float("inf")), ops.minimum(wide, high), wide)
    nearest = ops.cast(ops.cast(wide, dtype=f8E8M0FNU), dtype=element_type(wide.dtype))
    if mode == "up":
        nearest = ops.select(ops.less(nearest, wide), nearest * 2.0, nearest)
    elif mode == "down":
        nearest = ops.select(ops.greater(nearest, wide), nearest * 0.5, nearest)
    return ops.cast(nearest, dtype=f8E8M0FNU)
