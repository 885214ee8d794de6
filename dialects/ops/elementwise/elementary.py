"""Elementary functions: exponentials, logarithms, roots, trigonometry. Integers are taken as f32.

Outside of their domain they give NaN or an infinity, as in NumPy: the square root and logarithm of a negative number
are NaN, the logarithm of zero is -inf.
"""

from __future__ import annotations

import math as numbers
from typing import Any, ClassVar

from xdsl.dialects import math
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.scalar import ScalarForms
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import PrimitiveOp, UnaryOp
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class ExpOp(UnaryOp, PrimitiveOp):
    """e to the power `x`.

    >>> tenon.exp(np.array([0.0, 1.0, -np.inf]))
    """

    name = "tenon.exp"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.ExpOp)
    vjp = staticmethod(lambda g, out, x: g * out)


@tensor_op
class Exp2Op(UnaryOp, PrimitiveOp):
    """2 to the power `x`.

    >>> tenon.exp2(np.array([0.0, 3.0, -1.0]))
    """

    name = "tenon.exp2"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.Exp2Op)
    vjp = staticmethod(lambda g, out, x: g * out * numbers.log(2.0))


@tensor_op
class Expm1Op(UnaryOp, PrimitiveOp):
    """e to the power `x`, less one; accurate near 0.

    >>> tenon.expm1(np.array([0.0, 1.0, -np.inf]))
    >>> tenon.expm1(np.array([1e-12])) * 1e12
    """

    name = "tenon.expm1"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.ExpM1Op)
    vjp = staticmethod(lambda g, out, x: g * ops.exp(x))


@tensor_op
class LogOp(UnaryOp, PrimitiveOp):
    """The natural logarithm of `x`: -inf at 0, NaN for negative numbers.

    >>> tenon.log(np.array([1.0, 10.0, 0.0, -1.0]))
    """

    name = "tenon.log"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.LogOp)
    vjp = staticmethod(lambda g, out, x: g / x)


@tensor_op
class Log2Op(UnaryOp, PrimitiveOp):
    """The logarithm of `x` to base 2: -inf at 0, NaN for negative numbers.

    >>> tenon.log2(np.array([8.0, 0.5, 0.0, -1.0]))
    """

    name = "tenon.log2"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.Log2Op)
    vjp = staticmethod(lambda g, out, x: g / (x * numbers.log(2.0)))


@tensor_op
class Log10Op(UnaryOp, PrimitiveOp):
    """The logarithm of `x` to base 10: -inf at 0, NaN for negative numbers.

    >>> tenon.log10(np.array([1000.0, 0.01, 0.0, -1.0]))
    """

    name = "tenon.log10"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.Log10Op)
    vjp = staticmethod(lambda g, out, x: g / (x * numbers.log(10.0)))


@tensor_op
class Log1pOp(UnaryOp, PrimitiveOp):
    """The natural logarithm of one plus `x`, accurate near 0: -inf at -1, NaN below.

    >>> tenon.log1p(np.array([0.0, 1.0, -1.0]))
    >>> tenon.log1p(np.array([1e-12])) * 1e12
    """

    name = "tenon.log1p"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.Log1pOp)
    vjp = staticmethod(lambda g, out, x: g / (x + 1.0))


@tensor_op
class SqrtOp(UnaryOp, PrimitiveOp):
    """The square root of `x`; NaN for negative numbers.

    >>> tenon.sqrt(np.array([9.0, 2.0, 0.0, -1.0]))
    """

    name = "tenon.sqrt"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.SqrtOp)
    vjp = staticmethod(lambda g, out, x: 0.5 * g / out)


@tensor_op
class RsqrtOp(UnaryOp, PrimitiveOp):
    """One divided by the square root of `x`; NaN for negative numbers.

    >>> tenon.rsqrt(np.array([4.0, 2.0, 0.0, -1.0]))
    """

    name = "tenon.rsqrt"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.RsqrtOp)
    vjp = staticmethod(lambda g, out, x: -0.5 * g * out / x)


@tensor_op
class SinOp(UnaryOp, PrimitiveOp):
    """The sine of `x` (in radians).

    >>> tenon.sin(np.array([0.0, np.pi / 6, np.pi / 2]))
    """

    name = "tenon.sin"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.SinOp)
    vjp = staticmethod(lambda g, out, x: g * ops.cos(x))


@tensor_op
class CosOp(UnaryOp, PrimitiveOp):
    """The cosine of `x` (in radians).

    >>> tenon.cos(np.array([0.0, np.pi / 3, np.pi]))
    """

    name = "tenon.cos"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CosOp)
    vjp = staticmethod(lambda g, out, x: -g * ops.sin(x))


@tensor_op
class TanOp(UnaryOp, PrimitiveOp):
    """The tangent of `x` (in radians).

    >>> tenon.tan(np.array([0.0, np.pi / 4, 1.0]))
    """

    name = "tenon.tan"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.TanOp)
    vjp = staticmethod(lambda g, out, x: g * (1.0 + out * out))


@tensor_op
class AsinOp(UnaryOp, PrimitiveOp):
    """The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside of [-1, 1].

    >>> tenon.asin(np.array([0.0, 0.5, 1.0, 1.5]))
    """

    name = "tenon.asin"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AsinOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arcsin",)
    vjp = staticmethod(lambda g, out, x: g * ops.rsqrt((1.0 - x) * (1.0 + x)))


@tensor_op
class AcosOp(UnaryOp, PrimitiveOp):
    """The angle in [0, pi] whose cosine is `x`; NaN outside of [-1, 1].

    >>> tenon.acos(np.array([1.0, 0.5, -1.0, 1.5]))
    """

    name = "tenon.acos"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AcosOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arccos",)
    vjp = staticmethod(lambda g, out, x: -g * ops.rsqrt((1.0 - x) * (1.0 + x)))


@tensor_op
class AtanOp(UnaryOp, PrimitiveOp):
    """The angle in [-pi/2, pi/2] whose tangent is `x`.

    >>> tenon.atan(np.array([0.0, 1.0, -np.inf]))
    """

    name = "tenon.atan"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AtanOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arctan",)
    vjp = staticmethod(lambda g, out, x: g / (1.0 + x * x))


@tensor_op
class SinhOp(UnaryOp, PrimitiveOp):
    """The hyperbolic sine of `x`.

    >>> tenon.sinh(np.array([0.0, 1.0, -1.0]))
    """

    name = "tenon.sinh"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.SinhOp)
    vjp = staticmethod(lambda g, out, x: g * ops.cosh(x))


@tensor_op
class CoshOp(UnaryOp, PrimitiveOp):
    """The hyperbolic cosine of `x`.

    >>> tenon.cosh(np.array([0.0, 1.0, -1.0]))
    """

    name = "tenon.cosh"
    AUTOCAST = "full"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CoshOp)
    vjp = staticmethod(lambda g, out, x: g * ops.sinh(x))


@tensor_op
class TanhOp(UnaryOp, PrimitiveOp):
    """The hyperbolic tangent of `x`.

    >>> tenon.tanh(np.array([0.0, 1.0, -100.0]))
    """

    name = "tenon.tanh"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.TanhOp)
    vjp = staticmethod(lambda g, out, x: g * (1.0 - out * out))


@tensor_op
class AsinhOp(UnaryOp, PrimitiveOp):
    """The number whose hyperbolic sine is `x`.

    >>> tenon.asinh(np.array([0.0, 1.0, -10.0]))
    """

    name = "tenon.asinh"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AsinhOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arcsinh",)
    vjp = staticmethod(lambda g, out, x: g / ops.hypot(x, 1.0))


@tensor_op
class AcoshOp(UnaryOp, PrimitiveOp):
    """The number >= 0 whose hyperbolic cosine is `x`; NaN below 1.

    >>> tenon.acosh(np.array([1.0, 10.0, 0.5]))
    """

    name = "tenon.acosh"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AcoshOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arccosh",)
    vjp = staticmethod(lambda g, out, x: g * (ops.rsqrt(x - 1.0) * ops.rsqrt(x + 1.0)))


@tensor_op
class AtanhOp(UnaryOp, PrimitiveOp):
    """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1].

    >>> tenon.atanh(np.array([0.0, 0.5, 1.0, 2.0]))
    """

    name = "tenon.atanh"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AtanhOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("arctanh",)
    vjp = staticmethod(lambda g, out, x: g / ((1.0 - x) * (1.0 + x)))


@tensor_op
class ErfOp(UnaryOp, PrimitiveOp):
    """The error function of `x`: 2/sqrt(pi) times the integral of exp(-t^2) for t from 0 to `x`.

    >>> tenon.erf(np.array([0.0, 0.5, -1.0, np.inf]))
    """

    name = "tenon.erf"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.ErfOp)
    vjp = staticmethod(lambda g, out, x: g * (2.0 / numbers.sqrt(numbers.pi)) * ops.exp(-(x * x)))


@tensor_op
class Atan2Op(PrimitiveOp):
    """The angle in [-pi, pi] of the point with ordinate `y` and abscissa `x`. The gradient at (0, 0) is 0.

    >>> tenon.atan2(np.array([1.0, 1.0, -1.0, 0.0]), np.array([1.0, -1.0, -1.0, -1.0]))
    """

    name = "tenon.atan2"
    y = operand_def(FLOAT_TENSOR)
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.Atan2Op)
    ALIASES: ClassVar[tuple[str, ...]] = ("arctan2",)

    @staticmethod
    def vjp(g: Value, out: Value, y: Value, x: Value) -> tuple[Any, ...]:
        """x / r^2 and -y / r^2, in two steps, so that squares neither overflow nor vanish."""
        distance = ops.hypot(x, y)
        safe = ops.select(distance == 0, 1.0, distance)
        scaled = g / safe
        return scaled * (x / safe), -scaled * (y / safe)
