"""Activation functions of neural networks. Integers are taken as f32."""

from __future__ import annotations

import math as numbers
from typing import Any

from xdsl.irdl import operand_def, result_def

from tenon.dialects.base import tensor_op
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.settings import setting
from tenon.dialects.types import FLOAT_TENSOR
from tenon.dialects.value import Value, ops


@tensor_op
class ReluOp(ElementwiseOp):
    """The positive entries of `x`, zero for the others; NaN stays. The gradient at 0 is 0."""

    name = "tenon.relu"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return ops.maximum(x, 0.0)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        return (ops.select(x > 0.0, g, 0.0),)


@tensor_op
class LeakyReluOp(ElementwiseOp):
    """The positive entries of `x`, the others times `negative_slope`. The gradient at 0 is `negative_slope`."""

    name = "tenon.leaky_relu"
    x = operand_def(FLOAT_TENSOR)
    negative_slope = setting(float, default=0.01)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value, *, negative_slope: float) -> Value:
        return ops.select(x > 0.0, x, negative_slope * x)


@tensor_op
class HardtanhOp(ElementwiseOp):
    """`x` limited to [`min_val`, `max_val`]; NaN stays. The gradient on the bounds is 0."""

    name = "tenon.hardtanh"
    x = operand_def(FLOAT_TENSOR)
    min_val = setting(float, default=-1.0)
    max_val = setting(float, default=1.0)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value, *, min_val: float, max_val: float) -> Value:
        return ops.minimum(ops.maximum(x, min_val), max_val)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, min_val: float, max_val: float) -> tuple[Any, ...]:
        return (ops.select((x > min_val) & (x < max_val), g, 0.0),)


@tensor_op
class SigmoidOp(ElementwiseOp):
    """The logistic function of `x`: 1 / (1 + exp(-x))."""

    name = "tenon.sigmoid"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return 1.0 / (1.0 + ops.exp(-x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        return (g * out * (1.0 - out),)


@tensor_op
class SiluOp(ElementwiseOp):
    """`x` times its logistic function, also called swish."""

    name = "tenon.silu"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return x * ops.sigmoid(x)


@tensor_op
class SoftplusOp(ElementwiseOp):
    """log(1 + exp(x)), without overflow."""

    name = "tenon.softplus"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return ops.maximum(x, 0.0) + ops.log1p(ops.exp(-abs(x)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        return (g * ops.sigmoid(x),)


@tensor_op
class LogSigmoidOp(ElementwiseOp):
    """The logarithm of the logistic function of `x`, without overflow."""

    name = "tenon.log_sigmoid"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return -ops.softplus(-x)


@tensor_op
class EluOp(ElementwiseOp):
    """The positive entries of `x`, `alpha` times (exp(x) - 1) for the others. The gradient at 0 is `alpha`."""

    name = "tenon.elu"
    x = operand_def(FLOAT_TENSOR)
    alpha = setting(float, default=1.0)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value, *, alpha: float) -> Value:
        return ops.select(x > 0.0, x, alpha * ops.expm1(x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, alpha: float) -> tuple[Any, ...]:
        # For negative x, out + alpha = alpha * exp(x); exp(x) itself overflows for the others.
        return (g * ops.select(x > 0.0, 1.0, out + alpha),)


@tensor_op
class GeluOp(ElementwiseOp):
    """`x` times the probability that a standard normal variable is below `x` (Hendrycks and Gimpel, arXiv:1606.08415).

    `approximate="tanh"` uses their approximation by a hyperbolic tangent.
    """

    name = "tenon.gelu"
    x = operand_def(FLOAT_TENSOR)
    approximate = setting(str, default="none", choices=("none", "tanh"))
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value, *, approximate: str) -> Value:
        if approximate == "tanh":
            return 0.5 * x * (1.0 + ops.tanh(numbers.sqrt(2.0 / numbers.pi) * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1.0 + ops.erf(x * numbers.sqrt(0.5)))
