"""Operators that compute each element by itself: arithmetic, functions, comparisons, bits, casts, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tenon.dialects.definition.value import ops
from tenon.dialects.types import types
from tenon.dialects.types.types import bit_width, element_type, is_bool
from tenon.onnx.narrow import cast_to
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator


def of_dtype(x: Any, dtype: object) -> Any:
    """`x` as a tensor of `dtype` (a NumPy dtype, or Tenon's name for one)."""
    element = element_type(dtype)
    return x if element_type(x.dtype) == element else ops.cast(x, dtype=element)


def in_single(x: Any) -> Any:
    """`x` as it is computed: half precision (f16, bf16) in f32, everything else as it is."""
    return ops.cast(x, dtype="f32") if is_float(x) and x.dtype.itemsize == 2 else x


def is_float(x: Any) -> bool:
    """Whether the elements are floats that ops compute with, bf16 among them."""
    return types.is_float(element_type(x.dtype))


@operator("Div")
def div(node: Node, x: Operand, y: Operand) -> Any:
    """Integers are divided toward zero."""
    return ops.divide(x, y) if is_float(x) else ops.truncate_divide(x, y)


@operator("Mod", since=10)
def mod(node: Node, x: Operand, y: Operand) -> Any:
    """The sign is that of the divisor, or with `fmod` that of the dividend."""
    return ops.fmod(x, y) if node.attribute("fmod", 0) else ops.remainder(x, y)


@operator("Pow", since=7)
def power(node: Node, x: Operand, y: Operand) -> Any:
    """The result has the dtype of the base; an integer base with a float exponent is computed in floats."""
    return of_dtype(ops.power(x, y), x.dtype)


def _folded(name: str, function: Callable[[Any, Any], Any]) -> None:
    @operator(name, since=6)
    def fold(node: Node, *operands: Operand) -> Any:
        return reduce(function, operands)


_folded("Max", lambda x, y: ops.maximum(x, y))
_folded("Min", lambda x, y: ops.minimum(x, y))


@operator("Sum", since=6)
def total(node: Node, *operands: Operand) -> Any:
    """Half precision is added up in f32 and rounded once."""
    return of_dtype(reduce(ops.add, map(in_single, operands)), operands[0].dtype)


@operator("Mean", since=6)
def mean(node: Node, *operands: Operand) -> Any:
    return of_dtype(reduce(ops.add, map(in_single, operands)) / float(len(operands)), operands[0].dtype)


@operator("Clip", since=6, until=10)
def clip_to_attributes(node: Node, x: Operand) -> Any:
    return clip(node, x, node.attribute("min"), node.attribute("max"))


@operator("Clip", since=11)
def clip(node: Node, x: Operand, low: Operand | None = None, high: Operand | None = None) -> Any:
    """Where `low` is above `high`, the result is `high`."""
    if low is not None:
        x = ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@operator("IsInf", since=10)
def isinf(node: Node, x: Operand) -> Any:
    negative, positive = (bool(node.attribute(f"detect_{sign}", 1)) for sign in ("negative", "positive"))
    return ops.isinf(x, detect_negative=negative, detect_positive=positive)


@operator("BitShift", since=11)
def bit_shift(node: Node, x: Operand, y: Operand) -> Any:
    direction = node.required("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise OnnxError(f"{node.where}: direction is {direction!r} where 'LEFT' or 'RIGHT' is needed")
    return ops.shift_left(x, y) if direction == "LEFT" else ops.shift_right(x, y)


@operator("Cast", since=6)
def cast(node: Node, x: Operand) -> Any:
    """`saturate` and `round_mode` are about floats of 8 bits."""
    node.required("to")
    return cast_to(node, x, node.dtype("to"))


@operator("BitCast", since=26)
def bit_cast(node: Node, x: Operand) -> Any:
    """A truth value has the bits of a byte, 0 or 1."""
    node.required("to")
    element = element_type(node.dtype("to"))
    if is_bool(element) and bit_width(element_type(x.dtype)) == 8:
        return ops.not_equal(ops.bitcast(x, dtype="ui8"), 0)
    bits = ops.cast(x, dtype="ui8") if is_bool(element_type(x.dtype)) else x
    return ops.bitcast(bits, dtype=element)


@operator("CastLike", since=15)
def cast_like(node: Node, x: Operand, like: Operand) -> Any:
    return cast_to(node, x, like.dtype)


@operator("Identity")
def identity(node: Node, x: Operand) -> Any:
    return x


@operator("Relu")
def relu(node: Node, x: Operand) -> Any:
    return ops.relu(x) if is_float(x) else ops.maximum(x, 0)


@operator("PRelu", since=7)
def prelu(node: Node, x: Operand, slope: Operand) -> Any:
    """The slope broadcasts to `x`."""
    return ops.prelu(x, slope) if is_float(x) else ops.select(ops.less(x, 0), ops.multiply(x, slope), x)


@operator("Shrink", since=9)
def shrink(node: Node, x: Operand) -> Any:
    """Integers are computed in f64 and rounded toward zero."""
    values = x if is_float(x) else ops.cast(x, dtype="f64")
    return of_dtype(ops.shrink(values, lambd=node.attribute("lambd", 0.5), bias=node.attribute("bias", 0.0)), x.dtype)


@operator("Gelu", since=20)
def gelu(node: Node, x: Operand) -> Any:
    approximate = node.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise OnnxError(f"{node.where}: approximate is {approximate!r} where 'none' or 'tanh' is needed")
    return ops.gelu(x, approximate=approximate)
