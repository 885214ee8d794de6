"""OneFlow's tutorial op: `leaky_relu_yzh`, and the op that the tutorial writes for its gradient."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import tenon
from tenon import FLOAT_TENSOR, ElementwiseOp, operand_def, result_def, setting, tensor_op


@tensor_op
class LeakyReluYzhOp(ElementwiseOp):
    """The positive entries of `x`, and the others times `alpha`."""

    name = "oneflow.leaky_relu_yzh"
    x = operand_def(FLOAT_TENSOR)
    alpha = setting(float)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any, *, alpha: float) -> Any:
        return tenon.select(x > 0, x, alpha * x)


@tensor_op
class LeakyReluYzhGradOp(ElementwiseOp):
    """`dy` where the saved input `x` is positive, and `alpha` times `dy` elsewhere."""

    name = "oneflow.leaky_relu_yzh_grad"
    x = operand_def(FLOAT_TENSOR)
    dy = operand_def(FLOAT_TENSOR)
    alpha = setting(float)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any, dy: Any, *, alpha: float) -> Any:
        return tenon.select(x > 0, dy, alpha * dy)


def leaky_relu(x: Any) -> Any:
    """The op with the tutorial's `alpha`."""
    return tenon.leaky_relu_yzh(x, alpha=0.2)


def main() -> None:
    """The tutorial's call, and its gradient op beside the gradient that nobody wrote."""
    generator = np.random.default_rng(0)
    x, dy = generator.standard_normal((2, 3, 3))
    y, (dx,) = tenon.vjp(leaky_relu, x, cotangent=dy)
    written = tenon.leaky_relu_yzh_grad(x, dy, alpha=0.2)
    print(f"x:\n{x}\ny:\n{y}\ndx, derived:\n{dx}\ndx, from the gradient op:\n{written}")
    print("equal:", np.array_equal(dx, written))


if __name__ == "__main__":
    main()
