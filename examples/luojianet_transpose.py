"""LuoJiaNET's tutorial op: `Transpose`, with the gradient that the tutorial registers for it."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tenon
from tenon import ANY_TENSOR, IndexMapOp, InferenceError, nn, operand_def, result_def, setting, tensor_op


def invert_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `perm`."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


@tensor_op
class TransposeOp(IndexMapOp):
    """`x` with its axes reordered: axis i of the result is axis `perm[i]` of `x`."""

    name = "luojianet.custom_transpose"
    x = operand_def(ANY_TENSOR)
    perm = setting(tuple)
    result = result_def(ANY_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,), perm = operands, settings["perm"]
        shape = tenon.shape_of(x)
        if shape is None:
            shape = (-1,) * len(perm)
        if sorted(perm) != list(range(len(shape))):
            raise InferenceError(f"perm is {perm}, which is no permutation of the {len(shape)} axes of x")
        return tenon.tensor_type(tuple(shape[axis] for axis in perm), tenon.element_of(x))

    @staticmethod
    def source(index: Any, shape: tuple[int, ...], /, *, perm: tuple[int, ...]) -> Any:
        return tuple(index[axis] for axis in invert_permutation(perm))

    @staticmethod
    def vjp(g: Any, out: Any, x: Any, *, perm: tuple[int, ...]) -> tuple[Any, ...]:
        return (tenon.custom_transpose(g, perm=invert_permutation(perm)),)


class Net(nn.Module):
    """The network of the tutorial: the op alone."""

    def forward(self, data: Any) -> Any:
        return tenon.custom_transpose(data, perm=(1, 0))


def main() -> None:
    """The numbers of the tutorial's two tests."""
    x = np.arange(2 * 3).reshape(2, 3).astype(np.float32)
    print("output:", Net()(x).tolist())
    sens = np.arange(2 * 3).reshape(3, 2).astype(np.float32)
    _, (dx,) = tenon.vjp(Net(), x, cotangent=sens)
    print("dx:    ", dx.tolist())


if __name__ == "__main__":
    main()
