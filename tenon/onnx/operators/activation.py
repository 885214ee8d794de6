"""Activation functions."""

from __future__ import annotations

from typing import Any

from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import is_float, of_dtype


@operator("Relu")
def relu(node: Node, x: Operand) -> Any:
    return ops.relu(x) if is_float(x) else ops.maximum(x, 0)


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Operand) -> Any:
    return ops.leaky_relu(x, negative_slope=node.attribute("alpha", 0.01))


@operator("PRelu", since=7)
def prelu(node: Node, x: Operand, slope: Operand) -> Any:
    """The slope broadcasts to `x`."""
    return ops.prelu(x, slope) if is_float(x) else ops.select(ops.less(x, 0), ops.multiply(x, slope), x)


@operator("Elu")
def elu(node: Node, x: Operand) -> Any:
    return ops.elu(x, alpha=node.attribute("alpha", 1.0))


@operator("Celu", since=12)
def celu(node: Node, x: Operand) -> Any:
    return ops.celu(x, alpha=node.attribute("alpha", 1.0))


@operator("Selu", since=6)
def selu(node: Node, x: Operand) -> Any:
    """gamma * (x, or alpha * (exp(x) - 1) where x is negative)."""
    alpha = node.attribute("alpha", 1.67326319217681884765625)
    gamma = node.attribute("gamma", 1.05070102214813232421875)
    return ops.selu(x, alpha=alpha, gamma=gamma)


@operator("ThresholdedRelu", since=10)
def thresholded_relu(node: Node, x: Operand) -> Any:
    return ops.thresholded_relu(x, alpha=node.attribute("alpha", 1.0))


@operator("Shrink", since=9)
def shrink(node: Node, x: Operand) -> Any:
    """Integers are computed in f64 and rounded toward zero."""
    values = x if is_float(x) else ops.cast(x, dtype="f64")
    return of_dtype(ops.shrink(values, lambd=node.attribute("lambd", 0.5), bias=node.attribute("bias", 0.0)), x.dtype)


@operator("Sigmoid")
def sigmoid(node: Node, x: Operand) -> Any:
    return ops.sigmoid(x)


@operator("HardSigmoid", since=6)
def hard_sigmoid(node: Node, x: Operand) -> Any:
    return ops.hard_sigmoid(x, alpha=node.attribute("alpha", 0.2), beta=node.attribute("beta", 0.5))


@operator("HardSwish", since=14)
def hard_swish(node: Node, x: Operand) -> Any:
    return ops.hard_swish(x)


@operator("Softplus")
def softplus(node: Node, x: Operand) -> Any:
    return ops.softplus(x)


@operator("Softsign")
def softsign(node: Node, x: Operand) -> Any:
    return ops.softsign(x)


@operator("Mish", since=18)
def mish(node: Node, x: Operand) -> Any:
    return ops.mish(x)


@operator("Gelu", since=20)
def gelu(node: Node, x: Operand) -> Any:
    approximate = node.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise OnnxError(f"{node.where}: approximate is {approximate!r} where 'none' or 'tanh' is needed")
    return ops.gelu(x, approximate=approximate)


@operator("Swish", since=24)
def swish(node: Node, x: Operand) -> Any:
    return ops.silu(x, alpha=node.attribute("alpha", 1.0))
