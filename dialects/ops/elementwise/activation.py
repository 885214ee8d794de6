"""Smooth activation functions of neural networks, gates and hardmax. Integers are taken as f32."""

from __future__ import annotations

import math as numbers
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import is_widened, polynomial
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, UnaryOp
from tenon.dialects.families.along_axis import KeepsElement, KeepsType
from tenon.dialects.ops.elementwise.normal_tail import weighted_normal_tail
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class TanhshrinkOp(UnaryOp):
    """`x` less its hyperbolic tangent, accurate near 0. An infinity stays.

    >>> tenon.tanhshrink(np.array([-2.0, 0.0, 3.0, np.inf]))
    """

    name = "tenon.tanhshrink"

    @staticmethod
    def scalar(x: Value) -> Value:
        # x - tanh x cancels below 1. There it is x cosh x - sinh x, whose series has positive terms, over cosh x.
        is_near = abs(x) < 1.0
        near = ops.select(is_near, x, 0.0)
        square = near * near
        series = near * square * polynomial(square, _TANHSHRINK) / ops.cosh(near)
        return ops.select(is_near, series, x - ops.tanh(x))

    vjp = staticmethod(lambda g, out, x: g * ops.square(ops.tanh(x)))


_TANHSHRINK = [2 * k / numbers.factorial(2 * k + 1) for k in range(10, 0, -1)]


@tensor_op
class SoftsignOp(UnaryOp):
    """`x` / (1 + |`x`|); NaN for an infinity, as in PyTorch.

    >>> tenon.softsign(np.array([-2.0, 0.0, 3.0]))
    """

    name = "tenon.softsign"
    scalar = staticmethod(lambda x: x / (1.0 + abs(x)))

    vjp = staticmethod(lambda g, out, x: g / ops.square(1.0 + abs(x)))


@tensor_op
class SigmoidOp(UnaryOp):
    """The logistic function of `x`: 1 / (1 + exp(-x)), without overflow.

    >>> tenon.sigmoid(np.array([-1000.0, 0.0, 2.0]))
    """

    name = "tenon.sigmoid"
    ALIASES: ClassVar[tuple[str, ...]] = ("expit",)

    @staticmethod
    def scalar(x: Value) -> Value:
        small = ops.exp(-abs(x))
        return ops.select(x < 0.0, small, 1.0) / (1.0 + small)

    vjp = staticmethod(lambda g, out, x: g * out * (1.0 - out))


@tensor_op
class SiluOp(UnaryOp):
    """`x` times the logistic function of `alpha` `x`, also called swish. NaN for -inf, as in PyTorch.

    Elfwing et al., arXiv:1702.03118; Ramachandran et al., arXiv:1710.05941.

    >>> tenon.silu(np.array([-2.0, 0.0, 3.0]))
    """

    name = "tenon.silu"
    alpha = setting(float, default=1.0)
    ALIASES: ClassVar[tuple[str, ...]] = ("swish",)
    scalar = staticmethod(lambda x, *, alpha: x * ops.sigmoid(x if alpha == 1.0 else alpha * x))


@tensor_op
class SoftplusOp(UnaryOp):
    """log(1 + exp(`beta` x)) / `beta`, without overflow and at full precision for all `x`.

    >>> tenon.softplus(np.array([-2.0, 0.0, 1000.0]))
    """

    name = "tenon.softplus"
    AUTOCAST = "full"
    beta = setting(float, default=1.0)

    @staticmethod
    def scalar(x: Value, *, beta: float) -> Value:
        scaled = x if beta == 1.0 else beta * x
        result = ops.maximum(scaled, 0.0) + ops.log1p(ops.exp(-abs(scaled)))
        return result if beta == 1.0 else result / beta

    vjp = staticmethod(lambda g, out, x, *, beta: g * ops.sigmoid(x if beta == 1.0 else beta * x))


@tensor_op
class LogSigmoidOp(UnaryOp):
    """The logarithm of the logistic function of `x`, without overflow.

    >>> tenon.log_sigmoid(np.array([-1000.0, 0.0, 2.0]))
    """

    name = "tenon.log_sigmoid"
    AUTOCAST = "full"
    ALIASES: ClassVar[tuple[str, ...]] = ("logsigmoid",)
    scalar = staticmethod(lambda x: -ops.softplus(-x))


@tensor_op
class MishOp(UnaryOp):
    """`x` times the hyperbolic tangent of its softplus (Misra, arXiv:1908.08681). NaN for -inf, as in PyTorch.

    >>> tenon.mish(np.array([-2.0, 0.0, 3.0]))
    """

    name = "tenon.mish"
    scalar = staticmethod(lambda x: x * ops.tanh(ops.softplus(x)))


@tensor_op
class EluOp(UnaryOp):
    """The positive entries of `x`, `alpha` times (exp(x) - 1) for the others. The gradient at 0 is `alpha`.

    Clevert, Unterthiner and Hochreiter, arXiv:1511.07289.

    >>> tenon.elu(np.array([-2.0, 0.0, 3.0]))
    >>> tenon.elu(np.array([-2.0, 0.0, 3.0]), alpha=2.0)
    """

    name = "tenon.elu"
    alpha = setting(float, default=1.0)
    scalar = staticmethod(lambda x, *, alpha: ops.select(x > 0.0, x, alpha * ops.expm1(_not_positive(x))))


@tensor_op
class CeluOp(UnaryOp):
    """The positive entries of `x`, `alpha` times (exp(x / alpha) - 1) for the others (Barron, arXiv:1704.07483).

    The gradient at 0 is 1.

    >>> tenon.celu(np.array([-2.0, 0.0, 3.0]), alpha=2.0)
    """

    name = "tenon.celu"
    alpha = setting(float, default=1.0)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["alpha"] == 0.0:
            raise InferenceError("alpha is 0 where another number is needed")

    scalar = staticmethod(lambda x, *, alpha: ops.select(x > 0.0, x, alpha * ops.expm1(_not_positive(x) / alpha)))


@tensor_op
class SeluOp(UnaryOp):
    """`gamma` times the positive entries of `x`, `gamma` `alpha` times (exp(x) - 1) for the others.

    The defaults keep mean 0 and variance 1 (Klambauer et al., arXiv:1706.02515). The gradient at 0 is `gamma` `alpha`.

    >>> tenon.selu(np.array([-2.0, 0.0, 3.0]))
    """

    name = "tenon.selu"
    alpha = setting(float, default=1.6732632423543772)
    gamma = setting(float, default=1.0507009873554805)

    @staticmethod
    def scalar(x: Value, *, alpha: float, gamma: float) -> Value:
        return ops.select(x > 0.0, gamma * x, gamma * alpha * ops.expm1(_not_positive(x)))


def _not_positive(x: Value) -> Value:
    """`x`, and 0 where it is positive: exp(x) overflows there, and a gradient of 0 times inf is NaN."""
    return ops.select(x > 0.0, 0.0, x)


@tensor_op
class GeluOp(UnaryOp):
    """`x` times the probability that a standard normal variable is below `x` (Hendrycks and Gimpel, arXiv:1606.08415).

    It is exact in the lower tail, too, and -0.0 for -inf (PyTorch: NaN). `approximate="tanh"` uses their approximation
    by a hyperbolic tangent, which is NaN for -inf.

    >>> tenon.gelu(np.array([-2.0, 0.0, 3.0]))
    >>> tenon.gelu(np.array([-2.0, 0.0, 3.0]), approximate="tanh")
    """

    name = "tenon.gelu"
    approximate = setting(str, default="none", choices=("none", "tanh"))

    @staticmethod
    def scalar(x: Value, *, approximate: str) -> Value:
        if approximate == "tanh":
            # (1 + tanh(u)) / 2 is the logistic function of 2 u, which does not cancel.
            return x * ops.sigmoid(_GELU_SCALE * (x + 0.044715 * x * x * x))
        return ops.select(x < 0.0, -0.0, x) - weighted_normal_tail(abs(x), rounded=is_widened(x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, approximate: str) -> tuple[Any, ...]:
        if approximate == "tanh":
            gate = ops.sigmoid(_GELU_SCALE * (x + 0.044715 * x * x * x))
            return (g * (gate + x * gate * (1.0 - gate) * _GELU_SCALE * (1.0 + 3 * 0.044715 * x * x)),)
        return (g * (ops.ndtr(x) + numbers.sqrt(0.5 / numbers.pi) * x * ops.exp(-0.5 * x * x)),)


_GELU_SCALE = 2.0 * numbers.sqrt(2.0 / numbers.pi)


@tensor_op
class GluOp(KeepsElement, CompositeOp):
    """The first half of `x` along `axis` times the logistic function of the second.

    Dauphin et al., arXiv:1612.08083. The size along `axis` is even.

    >>> tenon.glu(np.array([1.0, 2.0, 0.0, 1000.0]))
    """

    name = "tenon.glu"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        axis = normalize_axis(settings["axis"], len(shape))
        if shape[axis] >= 0 and shape[axis] % 2:
            raise InferenceError(f"dimension {axis} of x is {shape[axis]} where an even size is needed")
        half = shape[axis] // 2 if shape[axis] >= 0 else -1
        return (*shape[:axis], half, *shape[axis + 1 :])

    @staticmethod
    def decompose(x: Value, *, axis: int) -> Value:
        value, gate = ops.split(x, sections=2, axis=axis)
        return value * ops.sigmoid(gate)


@tensor_op
class HardmaxOp(KeepsType, CompositeOp):
    """1 at the first largest element of `x` along `axis`, or at the first NaN, and 0 elsewhere.

    >>> tenon.hardmax(np.array([[1.0, 3.0, 3.0], [1.0, np.nan, 3.0]]))
    """

    name = "tenon.hardmax"
    x = operand_def(FLOAT_TENSOR)
    axis = setting(int, default=-1)
    result = result_def(FLOAT_TENSOR)
    traits = traits_def(Pure(), NoGradient())

    @staticmethod
    def decompose(x: Value, *, axis: int) -> Value:
        if 0 in x.shape:
            return ops.zeros_like(x)
        axis = normalize_axis(axis, x.ndim)
        places = ops.iota(shape=(x.shape[axis], *(1,) * (x.ndim - 1 - axis)))
        return (ops.argmax(x, axis=axis, keepdims=True) == places).astype(x.element_type)
