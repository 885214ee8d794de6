"""Ops that return their operand and mean something to transformations only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import ConstantToGradients, SameValue
from tenon.dialects.families import IndexMapOp
from tenon.dialects.types.types import STORED_TENSOR


class _SameOp(IndexMapOp):
    """An op whose result is its operand."""

    traits = traits_def(Pure(), SameValue())

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def source(index: tuple[AffineExpr, ...], shape: tuple[int, ...], /, **settings: Any) -> tuple[AffineExpr, ...]:
        return index

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*operands)


@tensor_op
class IdentityOp(_SameOp):
    """`x` itself, as a value of its own: differentiating with respect to it leaves other uses of `x` alone.

    >>> tenon.identity(np.array([1.0, 2.0]))
    """

    name = "tenon.identity"
    ALIASES: ClassVar[tuple[str, ...]] = ("copy",)
    x = operand_def(STORED_TENSOR)
    result = result_def(STORED_TENSOR)
    vjp = staticmethod(lambda g, out, x: g)  # pyright: ignore[reportAssignmentType]


@tensor_op
class StopGradientOp(_SameOp):
    """`x`, taken as a constant by differentiation.

    >>> tenon.grad(lambda x: x * tenon.stop_gradient(x))(3.0)
    >>> tenon.grad(lambda x: x * x)(3.0)
    """

    name = "tenon.stop_gradient"
    traits = traits_def(Pure(), SameValue(), ConstantToGradients())
    x = operand_def(STORED_TENSOR)
    result = result_def(STORED_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("detach",)
    vjp = staticmethod(lambda g, out, x: (None,))  # pyright: ignore[reportAssignmentType]
