"""Quantized numbers as compositions of ops: on arrays and tensors at once, or in a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.one_program import one_program_when_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.ops.contract.windows import Windows
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import element_type, numpy_dtype


def limits_of(dtype: Any) -> tuple[int, int]:
    """The least and the largest number of a quantized dtype. Raises `TypeError` for one that is neither i8 nor ui8."""
    element = element_type(dtype)
    if str(element) not in ("i8", "ui8"):
        raise TypeError(f"quantization: dtype is {element}, neither i8 nor ui8")
    limits = np.iinfo(numpy_dtype(element))
    return int(limits.min), int(limits.max)


def _spread(parameter: Any, x: Any, axis: int | None, name: str) -> Any:
    """A scale or zero point against `x`: one number, or one for each index along `axis`."""
    if isinstance(parameter, int | float):
        return parameter
    parameter = shaped(parameter)
    if axis is None:
        if tuple(parameter.shape) not in ((), (1,)):
            raise ValueError(f"quantization: {name} has shape {tuple(parameter.shape)}; name the axis that it is along")
        return tenon.reshape(parameter, shape=())
    axis = normalize_axis(axis, x.ndim, "quantization: axis")
    if tuple(parameter.shape) != (x.shape[axis],):
        raise ValueError(f"quantization: {name} has shape {tuple(parameter.shape)} where ({x.shape[axis]},) is needed")
    return tenon.reshape(parameter, shape=(x.shape[axis], *(1,) * (x.ndim - 1 - axis)))


def _steps(x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    """The nearest numbers of steps, of two the even one, from the zero point, in f32 and without limits."""
    inverse = tenon.reciprocal(tenon.cast(_spread(scale, x, axis, "scale"), dtype="f32"))
    moved = tenon.cast(_spread(zero_point, x, axis, "zero_point"), dtype="f32")
    return tenon.add(tenon.round(tenon.multiply(tenon.cast(x, dtype="f32"), inverse)), moved)


@one_program_when_large
def quantize(x: Any, scale: Any, zero_point: Any = 0, *, dtype: Any = "i8", axis: int | None = None) -> Any:
    """`x` / `scale` rounded to the nearest integer (of two the even one) plus `zero_point`, kept within `dtype`.

    `dtype` is i8 or ui8; scale and zero point are numbers, or with `axis` one for each index along it. As in PyTorch,
    `x` is multiplied by the inverse of the scale, in f32.
    """
    low, high = limits_of(dtype)
    x = shaped(x)
    return tenon.cast(tenon.clip(_steps(x, scale, zero_point, axis), low=low, high=high), dtype=dtype)


@one_program_when_large
def dequantize(x: Any, scale: Any, zero_point: Any = 0, *, axis: int | None = None, dtype: Any = "f32") -> Any:
    """(`x` - `zero_point`) · `scale`, for `x` of integers."""
    x = shaped(x)
    whole = tenon.subtract(
        tenon.cast(x, dtype="i32"), tenon.cast(_spread(zero_point, x, axis, "zero_point"), dtype="i32")
    )
    scale = tenon.cast(_spread(scale, x, axis, "scale"), dtype="f32")
    return tenon.cast(tenon.multiply(tenon.cast(whole, dtype="f32"), scale), dtype=dtype)


@one_program_when_large
def fake_quantize(x: Any, scale: Any, zero_point: Any = 0, *, dtype: Any = "i8", axis: int | None = None) -> Any:
    """What is left of `x` after `quantize` and `dequantize`, in the dtype of `x`.

    The gradient goes straight through where `x` is within the limits, and is 0 elsewhere; there is none with respect to
    scale and zero point. Source: Bengio, Léonard and Courville, arXiv:1308.3432.
    """
    low, high = limits_of(dtype)
    x = shaped(x)
    held = tenon.stop_gradient(x)
    scale = tenon.cast(_spread(scale, x, axis, "scale"), dtype="f32")
    point = tenon.cast(_spread(zero_point, x, axis, "zero_point"), dtype="f32")
    steps = tenon.add(tenon.round(tenon.multiply(tenon.cast(held, dtype="f32"), tenon.reciprocal(scale))), point)
    within = tenon.logical_and(tenon.greater_equal(steps, low), tenon.less_equal(steps, high))
    left = tenon.multiply(tenon.subtract(tenon.clip(steps, low=low, high=high), point), scale)
    # x - x is 0, and has the gradient of x.
    through = tenon.select(within, tenon.subtract(x, held), tenon.zeros_like(held))
    return tenon.add(tenon.stop_gradient(tenon.cast(left, dtype=x.dtype)), through)


def parameters_for(low: Any, high: Any, *, dtype: Any = "i8", symmetric: bool = False) -> tuple[Any, Any]:
    """Scale (f32) and zero point (i32) for numbers from `low` to `high`, and 0, as PyTorch's observers choose them.

    `symmetric` puts 0 in the middle: the zero point is 0 for i8 and 128 for ui8.
    """
    least, most = limits_of(dtype)
    low = tenon.minimum(tenon.cast(low, dtype="f32"), 0.0)
    high = tenon.maximum(tenon.cast(high, dtype="f32"), 0.0)
    smallest = float(np.finfo(np.float32).eps)
    if symmetric:
        scale = tenon.maximum(tenon.maximum(tenon.negative(low), high) / ((most - least) / 2), smallest)
        return scale, tenon.cast(tenon.zeros_like(scale) + (least + 128), dtype="i32")
    scale = tenon.maximum((high - low) / float(most - least), smallest)
    point = tenon.clip(least - tenon.round(low / scale), low=least, high=most)
    return scale, tenon.cast(point, dtype="i32")


@one_program_when_large
def integer_matmul(x: Any, y: Any, x_zero_point: Any = None) -> Any:
    """The exact product of matrices of i8 or ui8 (..., m, k) and (..., k, n), in i32; with a zero point of `x`, that of
    `x - x_zero_point`."""
    total = tenon.matmul(tenon.cast(x, dtype="i32"), tenon.cast(y, dtype="i32"))
    if x_zero_point is None:
        return total
    # Apart from the product, whose operands stay narrow.
    columns = tenon.sum(tenon.cast(y, dtype="i32"), axis=(-2,), keepdims=True)
    return tenon.subtract(total, tenon.multiply(columns, tenon.cast(x_zero_point, dtype="i32")))


def integer_conv(
    x: Any,
    weight: Any,
    x_zero_point: Any = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Any = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Any:
    """The exact convolution of images of i8 or ui8 (n, c, ...) with a weight (f, c / groups, ...), in i32, as
    `tenon.conv`; with a zero point of `x`, that of `x - x_zero_point`, padded with zeros."""
    x, weight = shaped(x), shaped(weight)
    point = None if x_zero_point is None else tenon.cast(x_zero_point, dtype="i32")
    if point is not None:
        windows = Windows.of(tuple(weight.shape[2:]), tuple(stride), padding, tuple(dilation))
        margins = windows.margins(tuple(x.shape[2:]))
        x = _padded(x, x_zero_point, margins)
        padding = (0,)
    total = tenon.conv(
        tenon.cast(x, dtype="i32"), tenon.cast(weight, dtype="i32"),
        stride=tuple(stride), padding=padding, dilation=tuple(dilation), groups=groups,
    )  # fmt: skip
    if point is None:
        return total
    sums = tenon.sum(tenon.cast(weight, dtype="i32"), axis=tuple(range(1, weight.ndim)))
    column = tenon.reshape(sums, shape=(-1, *(1,) * (weight.ndim - 2)))
    return tenon.subtract(total, tenon.multiply(column, point))


def _padded(x: Any, value: Any, margins: Any) -> Any:
    """`x` with margins of `value` around its images: ones of zeros, in steps from the zero point."""
    low, high = margins
    if not any((*low, *high)):
        return x
    point = tenon.cast(value, dtype=x.dtype)
    moved = tenon.subtract(tenon.cast(x, dtype="i32"), tenon.cast(point, dtype="i32"))
    around = tenon.pad(moved, low=(0, 0, *low), high=(0, 0, *high))
    return tenon.cast(tenon.add(around, tenon.cast(point, dtype="i32")), dtype=x.dtype)


@one_program_when_large
def requantize(total: Any, factor: Any, zero_point: Any = 0, *, dtype: Any = "i8", axis: int | None = None) -> Any:
    """Sums of i32 times `factor` (the scales of both operands over that of the result), rounded to the nearest, plus
    `zero_point`, kept within `dtype`; with `axis`, one factor for each index along it."""
    low, high = limits_of(dtype)
    total = shaped(total)
    scaled = tenon.round(tenon.multiply(tenon.cast(total, dtype="f32"), _spread(factor, total, axis, "factor")))
    moved = tenon.add(scaled, tenon.cast(zero_point, dtype="f32"))
    return tenon.cast(tenon.clip(moved, low=low, high=high), dtype=dtype)


__all__ = [
    "dequantize",
    "fake_quantize",
    "integer_conv",
    "integer_matmul",
    "limits_of",
    "parameters_for",
    "quantize",
    "requantize",
]
