"""PyTorch's `sigmoid` as its source tree has it: the op, `sigmoid_backward`, the rule that joins them, and the module.

The formula has a derivative of its own, equal to what the rule says where both are finite. The rule stays because
exp(-x) overflows for x far below zero: there the formula's derivative is inf * 0, and the rule gives 0.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import tenon
from tenon import FLOAT_TENSOR, ElementwiseOp, nn, operand_def, result_def, tensor_op


def formula(x: Any) -> Any:
    """1 / (1 + exp(-x))"""
    return 1 / (1 + (-x).exp())


@tensor_op
class SigmoidOp(ElementwiseOp):
    """The logistic function of `x`."""

    name = "pytorch.aten_sigmoid"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any) -> Any:
        return formula(x)

    @staticmethod
    def vjp(g: Any, out: Any, x: Any) -> tuple[Any, ...]:
        return (tenon.aten_sigmoid_backward(g, out),)


@tensor_op
class SigmoidBackwardOp(ElementwiseOp):
    """The gradient of the logistic function, from that of its result and from the result `output` itself."""

    name = "pytorch.aten_sigmoid_backward"
    grad_output = operand_def(FLOAT_TENSOR)
    output = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(grad_output: Any, output: Any) -> Any:
        return grad_output * (1 - output) * output


class Sigmoid(nn.Module):
    """The op as a module."""

    def forward(self, x: Any) -> Any:
        return tenon.aten_sigmoid(x)


def main() -> None:
    """The document's example, and the two gradients."""
    x = np.random.default_rng(0).standard_normal(2).astype(np.float32)
    print("sigmoid of", x, "is", Sigmoid()(x))
    points = np.array([-100, -1, 0, 1, 100], np.float32)
    ones = np.ones_like(points)
    print("at", points)
    print("gradient by the rule:     ", tenon.vjp(Sigmoid(), points, cotangent=ones)[1][0])
    print("gradient by the formula:  ", tenon.vjp(formula, points, cotangent=ones)[1][0])


if __name__ == "__main__":
    main()
