"""MegEngine's tutorial op: C = x A + y B + z with integers x, y and z, its two inverses, and its gradient.

The tutorial calls the inverses "backward" ops. They solve for one operand, given the result and the other operand, and
are ops of their own here too; the gradient, which is (x g, y g), is derived from the first op alone.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import tenon
from tenon import NUMERIC_TENSOR, ElementwiseOp, InferenceError, nn, operand_def, result_def, setting, tensor_op
from tenon.dialects.types.shapes import compatible


class SameLayoutOp(ElementwiseOp):
    """Two operands of one shape and dtype, where other elementwise ops broadcast and promote."""

    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        if not compatible(*operands):
            shown = [f"{o.name} is {t}" for o, t in zip(cls.SIGNATURE.operands, operands, strict=True)]
            raise InferenceError(f"shapes and dtypes must be equal, but {' and '.join(shown)}")
        return operands[0]


@tensor_op
class AddExampleOp(SameLayoutOp):
    """`x` times `data1` plus `y` times `data2` plus `z`."""

    name = "megengine.add_example"
    data1 = operand_def(NUMERIC_TENSOR)
    data2 = operand_def(NUMERIC_TENSOR)
    x = setting(int, default=1)
    y = setting(int, default=1)
    z = setting(int, default=0)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def scalar(data1: Any, data2: Any, *, x: int, y: int, z: int) -> Any:
        return x * data1 + y * data2 + z


@tensor_op
class AddBackwardData1Op(SameLayoutOp):
    """The `data1` from which `add_example` makes `diff`."""

    name = "megengine.add_backward_data1"
    diff = operand_def(NUMERIC_TENSOR)
    data2 = operand_def(NUMERIC_TENSOR)
    x = setting(int, default=1)
    y = setting(int, default=1)
    z = setting(int, default=0)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["x"] == 0:
            raise InferenceError("x is 0, so the result does not tell data1")

    @staticmethod
    def scalar(diff: Any, data2: Any, *, x: int, y: int, z: int) -> Any:
        return quotient(diff - y * data2 - z, x)


@tensor_op
class AddBackwardData2Op(SameLayoutOp):
    """The `data2` from which `add_example` makes `diff`."""

    name = "megengine.add_backward_data2"
    diff = operand_def(NUMERIC_TENSOR)
    data1 = operand_def(NUMERIC_TENSOR)
    x = setting(int, default=1)
    y = setting(int, default=1)
    z = setting(int, default=0)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["y"] == 0:
            raise InferenceError("y is 0, so the result does not tell data2")

    @staticmethod
    def scalar(diff: Any, data1: Any, *, x: int, y: int, z: int) -> Any:
        return quotient(diff - x * data1 - z, y)


def quotient(dividend: Any, divisor: int) -> Any:
    """`dividend / divisor` as C has it: integers round toward zero."""
    is_integer = dividend.dtype.kind in "iu"
    return tenon.truncate_divide(dividend, divisor) if is_integer else dividend / divisor


class AddExample(nn.Module):
    """The op as a module."""

    def __init__(self, x: int = 1, y: int = 1, z: int = 0) -> None:
        super().__init__()
        self.x, self.y, self.z = x, y, z

    def forward(self, data1: Any, data2: Any) -> Any:
        return tenon.add_example(data1, data2, x=self.x, y=self.y, z=self.z)


def main() -> None:
    """The numbers of the tutorial's tests."""
    a = np.array([[[1, 2], [3, 4]]], np.float32)
    b = np.array([[[5, 6], [7, 8]]], np.float32)
    c = tenon.add_example(a, b, x=2, y=3, z=4)
    print("C = 2 A + 3 B + 4:       ", c.tolist())
    print("A, from C and B:         ", tenon.add_backward_data1(c, b, x=2, y=3, z=4).tolist())
    print("B, from C and A:         ", tenon.add_backward_data2(c, a, x=2, y=3, z=4).tolist())
    _, (da, db) = tenon.vjp(AddExample(2, 3, 4), a, b, cotangent=np.ones_like(c))
    print("gradient of sum(C) in A: ", da.tolist())
    print("gradient of sum(C) in B: ", db.tolist())
    data1 = tenon.tensor(np.array([[1, 2], [0, 4]], dtype=np.float32))
    data2 = tenon.tensor(np.array([[4, 6], [7, 3]], dtype=np.float32))
    print("C = 2 A - 3 B + 16:      ", tenon.add_example(data1, data2, x=2, y=-3, z=16).tolist())
    print("(the tutorial prints 17.0 as the last of these; its test compares that with itself)")
    manager = tenon.GradManager().attach([data1, data2], callbacks=lambda tensor, gradient: gradient * 10)
    with manager:
        manager.backward(AddExample(2, -3, 16)(data1, data2).sum())
    gradients: list[Any] = [data1.grad, data2.grad]
    print("10 times the gradients:  ", [gradient.tolist() for gradient in gradients])


if __name__ == "__main__":
    main()
