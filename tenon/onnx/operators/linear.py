"""Operators that are sums of products: matrix products, also of quantized numbers, and Einstein sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.types.types import element_type, is_narrow_float
from tenon.onnx.narrow import cast_to, limits
from tenon.onnx.node import Node, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, of_dtype


@operator("Gemm", since=7)
def gemm(node: Node, a: Operand, b: Operand, c: Operand | None = None) -> Any:
    """alpha * a @ b + beta * c; half precision is rounded once, at the end."""
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    left = ops.transpose(a) if node.attribute("transA", 0) else a
    right = ops.transpose(b) if node.attribute("transB", 0) else b
    if alpha == 1.0 and (c is None or beta == 0.0):
        return ops.matmul(left, right)
    product = ops.matmul(in_single(left), in_single(right))
    result = product if alpha == 1.0 else ops.multiply(alpha, product)
    if c is not None and beta != 0.0:
        bias = in_single(c)
        result = ops.add(result, bias if beta == 1.0 else ops.multiply(beta, bias))
    return of_dtype(result, a.dtype)


@operator("Einsum", since=12)
def einsum(node: Node, *operands: Operand) -> Any:
    return ops.einsum(node.required("equation"), *operands)


def from_zero_point(x: Any, zero: Any, axis: int) -> Any:
    """`x` less its zero point, i32; a vector of zero points goes along `axis`."""
    values = ops.cast(x, dtype="i32")
    if zero is None:
        return values
    point = ops.cast(zero, dtype="i32")
    if zero.ndim == 1 and zero.shape[0] != 1:
        axis = axis % x.ndim
        point = ops.reshape(point, shape=(zero.shape[0], *(1,) * (x.ndim - 1 - axis)))
    elif zero.ndim == 1:
        point = ops.reshape(point, shape=())
    return ops.subtract(values, point)


@operator("MatMulInteger", since=10)
def matmul_integer(
    node: Node, a: Operand, b: Operand, a_zero: Operand | None = None, b_zero: Operand | None = None
) -> Any:
    """Zero points are one for all, or one for each row of `a` and each column of `b`."""
    return ops.matmul(from_zero_point(a, a_zero, max(a.ndim - 2, 0)), from_zero_point(b, b_zero, b.ndim - 1))


# --- quantization -----------------------------------------------------------------------------------------------------


def _spread(node: Node, x: Any, parameter: Any, axis: int) -> Any:
    """A scale or zero point of one, of one per index along `axis`, or of one per block there, against `x`."""
    if parameter.ndim == 0 or (parameter.ndim == 1 and parameter.shape[0] == 1):
        return ops.reshape(parameter, shape=())
    if parameter.ndim == 1:
        return ops.reshape(parameter, shape=(parameter.shape[0], *(1,) * (x.ndim - 1 - axis)))
    block = node.attribute("block_size", 0) or -(-x.shape[axis] // parameter.shape[axis])
    places = np.arange(x.shape[axis]) // block
    return ops.gather(parameter, places, axis=axis)


def _quantized(values: Any, zero: Any, dtype: np.dtype[Any]) -> Any:
    """Numbers in steps rounded to the nearest even, moved by the zero point, kept within `dtype`."""
    low, high = limits(dtype)
    moved = ops.round(values)
    if zero is not None:
        moved = moved + ops.cast(zero, dtype="f32")
    return ops.cast(ops.clip(moved, low=low, high=high), dtype=dtype)


@operator("QuantizeLinear", since=10)
def quantize_linear(node: Node, x: Operand, scale: Operand, zero: Operand | None = None) -> Any:
    axis = node.attribute("axis", 1)
    axis = axis % x.ndim if x.ndim > 1 else 0
    asked = node.dtype("output_dtype") if node.attribute("output_dtype", 0) else None
    dtype = zero.dtype if zero is not None else asked or np.dtype(np.uint8)
    precision = (node.dtype("precision") if node.attribute("precision", 0) else None) or np.dtype(np.float32)
    steps = of_dtype(x, precision) / of_dtype(_spread(node, x, scale, axis), precision)
    spread_zero = None if zero is None else _spread(node, x, zero, axis)
    if not is_narrow_float(element_type(dtype)):
        return _quantized(of_dtype(steps, "f32"), spread_zero, dtype)
    moved = steps if spread_zero is None else steps + of_dtype(spread_zero, precision)
    return cast_to(node, moved, dtype)


@operator("DequantizeLinear", since=10)
def dequantize_linear(node: Node, x: Operand, scale: Operand, zero: Operand | None = None) -> Any:
    axis = node.attribute("axis", 1)
    axis = axis % x.ndim if x.ndim > 1 else 0
    exact = "f32" if is_narrow_float(element_type(x.dtype)) else "i32"
    values = ops.cast(x, dtype=exact)
    if zero is not None:
        values = ops.subtract(values, ops.cast(_spread(node, x, zero, axis), dtype=exact))
    dtype = (node.dtype("output_dtype") if node.attribute("output_dtype", 0) else None) or scale.dtype
    return of_dtype(ops.cast(values, dtype="f32") * ops.cast(_spread(node, x, scale, axis), dtype="f32"), dtype)


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    node: Node,
    a: Operand,
    a_scale: Operand,
    a_zero: Operand,
    b: Operand,
    b_scale: Operand,
    b_zero: Operand,
    y_scale: Operand,
    y_zero: Operand,
) -> Any:
    product = matmul_integer(node, a, b, a_zero, b_zero)
    factor = of_dtype(_along_rows(a_scale), "f32") * of_dtype(b_scale, "f32") / of_dtype(_along_rows(y_scale), "f32")
    return requantized(product, factor, _along_rows(y_zero))


def requantized(total: Any, factor: Any, zero: Any) -> Any:
    """i32 sums times `factor`, as steps of a quantized dtype with a zero point."""
    return _quantized(ops.cast(total, dtype="f32") * factor, zero, zero.dtype)


def _along_rows(parameter: Any) -> Any:
    return ops.expand_dims(parameter, axis=1) if parameter.ndim == 1 and parameter.shape[0] != 1 else parameter
