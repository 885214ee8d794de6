"""Special functions of one variable: error and gamma functions, and rarer elementary ones. Integers are taken as f32.

Polynomials are evaluated in f64, and the result of an f32 (or narrower) operand is rounded once.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from xdsl.dialects import math
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.scalar import ScalarForms, convert, emit_scalar, polynomial
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, PrimitiveOp, UnaryOp
from tenon.dialects.ops.elementwise import special_coefficients as coefficients
from tenon.dialects.ops.elementwise.normal_tail import error_tail, normal_tail
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import NUMERIC_TENSOR, f64, is_float, numpy_dtype

_SQRT_HALF = numbers.sqrt(0.5)


# --- building blocks on scalars ---------------------------------------------------------------------------------------


def _of_half_turns(function: Callable[[Value], Value], x: Value) -> Value:
    """sin(pi x) or cos(pi x), from what x has beyond whole numbers: exact at these, however large they are."""
    whole = ops.round(x)
    is_odd = ops.round(0.5 * whole) != 0.5 * whole
    value = function(numbers.pi * (x - whole))
    return ops.select(is_odd, -value, value)


# --- error functions --------------------------------------------------------------------------------------------------


@tensor_op
class ErfcOp(UnaryOp):
    """The complementary error function of `x`: 1 - erf(x), exact where that is small, too.

    >>> tenon.erfc(np.array([0.0, 1.0, -1.0]))
    >>> tenon.erfc(np.array([10.0])) * 1e45
    """

    name = "tenon.erfc"

    @staticmethod
    def scalar(x: Value) -> Value:
        tail = error_tail(abs(x))
        return ops.select(x < 0.0, 2.0 - tail, tail)

    vjp = staticmethod(lambda g, out, x: g * (-2.0 / numbers.sqrt(numbers.pi)) * ops.exp(-(x * x)))


@tensor_op
class NdtrOp(UnaryOp):
    """The probability that a standard normal variable is below `x`, exact in the lower tail.

    >>> tenon.ndtr(np.array([0.0, 1.0, -1.96]))
    """

    name = "tenon.ndtr"

    @staticmethod
    def scalar(x: Value) -> Value:
        tail = normal_tail(abs(x))
        return ops.select(x < 0.0, tail, 1.0 - tail)

    vjp = staticmethod(lambda g, out, x: g * numbers.sqrt(0.5 / numbers.pi) * ops.exp(-0.5 * x * x))


@tensor_op
class ErfinvOp(UnaryOp):
    """The number whose error function is `x`: infinite at -1 and 1, NaN outside of [-1, 1].

    Wichura, Algorithm AS 241 (Applied Statistics 37, 1988).

    >>> tenon.erfinv(np.array([0.0, 0.5, -1.0, 2.0]))
    """

    name = "tenon.erfinv"

    @staticmethod
    def scalar(x: Value) -> Value:
        y = convert(x, f64)
        q = 0.5 * y
        r = ops.sqrt(-ops.log(0.5 - abs(q)))
        ranges = (0.180625 - q * q, r - 1.6, r - 5.0)
        center, middle, far = [
            polynomial(place, terms[0]) / polynomial(place, terms[1])
            for place, terms in zip(ranges, _QUANTILE_RANGES, strict=True)
        ]
        tail = emit_scalar(math.CopySignOp, _SQRT_HALF * ops.select(r <= 5.0, middle, far), y)
        # q is 0 for the smallest subnormal number.
        result = ops.select(abs(q) <= 0.425, y * (0.5 * _SQRT_HALF * center), tail)
        result = ops.select(abs(y) == 1.0, numbers.inf * y, result)
        return convert(result, x.type)

    vjp = staticmethod(lambda g, out, x: g * (0.5 * numbers.sqrt(numbers.pi)) * ops.exp(out * out))


_QUANTILE = coefficients.NORMAL_QUANTILE
_QUANTILE_RANGES = (_QUANTILE[0:2], _QUANTILE[2:4], _QUANTILE[4:6])


# --- the gamma function's relatives -----------------------------------------------------------------------------------

_LOG_ROOT_TWO_PI = 0.5 * numbers.log(2.0 * numbers.pi)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)


def _moved_down(x: Value, steps: int) -> list[tuple[Value, Value]]:
    """While the number is at least 2, one is taken off: whether each of `steps` does so, and what is left."""
    moves: list[tuple[Value, Value]] = []
    for _ in range(steps):
        above = x >= 2.0
        x = ops.select(above, x - 1.0, x)
        moves.append((above, x))
    return moves


def _positive_lgamma(x: Value) -> Value:
    """log Gamma(x) for x > 0, f64: by its values in [1, 2] below 8, by Stirling's series from there."""
    below = x < 1.0
    product: Any = ops.select(below, x, 1.0)
    place = ops.select(below, x + 1.0, x)
    for above, left in _moved_down(place, 6):
        product = ops.select(above, product * left, product)
        place = left
    logarithm = ops.log(product)
    # x + 1 may have been rounded.
    roots = ops.select(below, x, place - 1.0) * ops.select(below, x - 1.0, place - 2.0)
    near = roots * polynomial(2.0 * place - 3.0, coefficients.LOG_GAMMA)
    near = near + ops.select(below, -logarithm, logarithm)
    series = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    inverse = 1.0 / x
    far = (x - 0.5) * (ops.log(x) - 1.0) + (_LOG_ROOT_TWO_PI - 0.5)
    far = far + inverse * polynomial(inverse * inverse, series[::-1])
    return ops.select(x < 8.0, near, far)


@tensor_op
class LgammaOp(UnaryOp):
    """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers.

    Between those it crosses 0: there, the error is small against 1, not against the result.

    >>> tenon.lgamma(np.array([1.0, 5.0, 0.5, -1.0]))
    """

    name = "tenon.lgamma"
    ALIASES: ClassVar[tuple[str, ...]] = ("gammaln",)

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        magnitude = abs(wide)
        positive = _positive_lgamma(magnitude)
        # Gamma(x) Gamma(-x) = -pi / (x sin(pi x))
        sine = ops.log(abs(_of_half_turns(ops.sin, wide)))
        reflected = numbers.log(numbers.pi) - (ops.log(magnitude) + positive) - sine
        # So near 0 the sine has few digits left, and both are -log |x|.
        reflected = ops.select(magnitude < 1e-20, positive, reflected)
        pole = (wide <= 0.0) & (ops.round(wide) == wide)
        result = ops.select(pole | (magnitude == numbers.inf), numbers.inf, ops.select(wide < 0.0, reflected, positive))
        return convert(result, x.type)

    vjp = staticmethod(lambda g, out, x: g * ops.digamma(x))


def _positive_digamma(x: Value) -> Value:
    """The logarithmic derivative of the gamma function for x > 0, f64; see `_positive_lgamma`."""
    below = x < 1.0
    total: Any = ops.select(below, -1.0 / x, 0.0)
    place = ops.select(below, x + 1.0, x)
    for above, left in _moved_down(place, 8):
        total = ops.select(above, total + 1.0 / left, total)
        place = left
    from_root = (place - _DIGAMMA_ROOT[0]) - _DIGAMMA_ROOT[1]
    near = total + from_root * polynomial(2.0 * place - 3.0, coefficients.DIGAMMA)
    inverse = 1.0 / x
    series = [-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]
    square = inverse * inverse
    far = ops.log(x) - 0.5 * inverse + square * polynomial(square, series[::-1])
    return ops.select(x < 10.0, near, far)


@tensor_op
class DigammaOp(UnaryOp):
    """The derivative of log Gamma at `x`; -inf at 0.0, inf at -0.0, NaN at negative whole numbers and -inf.

    Between those it crosses 0: there, the error is small against 1, not against the result.

    >>> tenon.digamma(np.array([1.0, 0.5, 10.0, -1.0]))
    """

    name = "tenon.digamma"

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        positive = _positive_digamma(ops.select(wide <= 0.0, 1.0 - wide, wide))
        whole = ops.round(wide)
        cotangent = numbers.pi / ops.tan(numbers.pi * (wide - whole))
        result = ops.select(wide < 0.0, positive - cotangent, positive)
        result = ops.select((wide < 0.0) & (whole == wide), numbers.nan, result)
        result = ops.select(wide == -numbers.inf, numbers.nan, result)
        return convert(ops.select(wide == 0.0, -1.0 / wide, result), x.type)

    vjp = staticmethod(lambda g, out, x: g * ops.polygamma(x, order=1))


def _cotangent_derivative(order: int) -> list[float]:
    """The `order`-th derivative of c = cot(y) as a polynomial in c, highest power first."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        polynomial = -polynomial.deriv() * np.polynomial.Polynomial([1.0, 0.0, 1.0])
    return [float(c) for c in polynomial.coef[::-1]]


@tensor_op
class PolygammaOp(UnaryOp):
    """The derivative of order `order` (1 to 20) of digamma at `x`.

    At 0 and negative whole numbers it is inf for odd orders and -inf for even ones, as in SciPy. Computed by Euler and
    Maclaurin's formula for sum_k 1 / (x + k)^(order + 1), and reflection below 0.

    >>> tenon.polygamma(np.array([1.0, 0.5]))
    >>> tenon.polygamma(np.array([1.0, 0.0]), order=2)
    """

    name = "tenon.polygamma"
    order = setting(int, default=1)

    @staticmethod
    def check(**settings: Any) -> None:
        if not 1 <= settings["order"] <= 20:
            raise InferenceError(f"order is {settings['order']} where a number from 1 to 20 is needed")

    @staticmethod
    def scalar(x: Value, *, order: int) -> Value:
        wide = convert(x, f64)
        place = ops.select(wide < 0.0, 1.0 - wide, wide)
        terms = 12 + order
        total = _whole_power(place, -(order + 1))
        for k in range(1, terms):
            total = total + _whole_power(place + float(k), -(order + 1))
        edge = place + float(terms)
        power = _whole_power(edge, -order)
        total = total + power * (1.0 / order) + 0.5 * power / edge
        square, rising = 1.0 / (edge * edge), 1.0
        power = power * square
        for k, bernoulli in enumerate(_BERNOULLI, 1):
            rising *= float(order + 1) if k == 1 else float((order + 2 * k - 2) * (order + 2 * k - 1))
            total = total + (bernoulli * rising / numbers.factorial(2 * k)) * power
            power = power * square
        sign = (-1.0) ** (order + 1)
        positive = ops.select(place == numbers.inf, 0.0, sign * numbers.factorial(order) * total)
        whole = ops.round(wide)
        cotangent = 1.0 / ops.tan(numbers.pi * (wide - whole))
        turned = polynomial(cotangent, [c * numbers.pi ** (order + 1) for c in _cotangent_derivative(order)])
        reflected = (-1.0) ** order * positive - turned
        reflected = ops.select(whole == wide, sign * numbers.inf, reflected)
        return convert(ops.select(wide < 0.0, reflected, positive), x.type)

    vjp = staticmethod(lambda g, out, x, *, order: g * ops.polygamma(x, order=order + 1))


def _whole_power(x: Value, exponent: int) -> Value:
    result, square, rest = None, x, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else result * square
        rest >>= 1
        if rest:
            square = square * square
    assert result is not None
    return 1.0 / result if exponent < 0 else result


# --- elementary functions ---------------------------------------------------------------------------------------------


@tensor_op
class CbrtOp(UnaryOp, PrimitiveOp):
    """The cube root of `x`, of negative numbers, too. The gradient at 0 is infinite.

    >>> tenon.cbrt(np.array([27.0, -8.0, 2.0]))
    """

    name = "tenon.cbrt"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CbrtOp)
    vjp = staticmethod(lambda g, out, x: g / (3.0 * out * out))


_SINC_SLOPE = [(-1) ** k * 2 * k / numbers.factorial(2 * k + 1) for k in range(1, 12)]


@tensor_op
class SincOp(UnaryOp):
    """sin(pi x) / (pi x), and 1 at 0. Exactly 0 at all other whole numbers, where NumPy gives about 1e-17.

    >>> tenon.sinc(np.array([0.0, 0.5, 1.5, 2.0]))
    """

    name = "tenon.sinc"

    @staticmethod
    def scalar(x: Value) -> Value:
        return ops.select(x == 0.0, 1.0, _of_half_turns(ops.sin, x) / (numbers.pi * ops.select(x == 0.0, 1.0, x)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Any, ...]:
        """(cos(pi x) - sinc(x)) / x, which cancels near 0: there, its series."""
        is_near = abs(x) < 0.5
        near, far = ops.select(is_near, x, 0.0), ops.select(is_near, 1.0, x)
        square = numbers.pi**2 * near * near
        series: Any = _SINC_SLOPE[-1]
        for term in _SINC_SLOPE[-2::-1]:
            series = series * square + term
        formula = (_of_half_turns(ops.cos, far) - ops.sinc(far)) / far
        return (g * ops.select(is_near, numbers.pi**2 * near * series, formula),)


@tensor_op
class LogitOp(UnaryOp):
    """The inverse of the logistic function: log(`x` / (1 - `x`)); NaN outside of [0, 1].

    With `eps`, `x` is limited to [`eps`, 1 - `eps`] before.

    >>> tenon.logit(np.array([0.5, 0.9, 1.0, 2.0]))
    >>> tenon.logit(np.array([0.0, 1.0]), eps=0.1)
    """

    name = "tenon.logit"
    eps = setting(float, default=None)

    @staticmethod
    def scalar(x: Value, *, eps: float | None) -> Value:
        if eps is not None:
            x = ops.clip(x, eps, 1.0 - eps)
        # log(1 + (2 x - 1) / (1 - x)): near 1/2 both logarithms are small and their arguments exact.
        middle = ops.log1p((2.0 * x - 1.0) / (1.0 - x))
        return ops.select(abs(x - 0.5) < 0.25, middle, ops.log(x / (1.0 - x)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, *, eps: float | None) -> tuple[Any, ...]:
        if eps is None:
            return (g / (x * (1.0 - x)),)
        is_limited = (x < eps) | (x > 1.0 - eps)
        inside = ops.select(is_limited, 0.5, x)
        return (ops.select(is_limited, 0.0, g / (inside * (1.0 - inside))),)


class AngleOp(UnaryOp):
    """An angle in another unit."""


@tensor_op
class DegreesToRadiansOp(AngleOp):
    """The angle of `x` degrees in radians.

    >>> tenon.deg2rad(np.array([0.0, 90.0, 180.0]))
    """

    name = "tenon.deg2rad"
    ALIASES: ClassVar[tuple[str, ...]] = ("radians",)
    scalar = staticmethod(lambda x: x * (numbers.pi / 180.0))


@tensor_op
class RadiansToDegreesOp(AngleOp):
    """The angle of `x` radians in degrees.

    >>> tenon.rad2deg(np.array([0.0, 1.0, np.pi]))
    """

    name = "tenon.rad2deg"
    ALIASES: ClassVar[tuple[str, ...]] = ("degrees",)
    scalar = staticmethod(lambda x: x * (180.0 / numbers.pi))


@tensor_op
class NanToNumOp(CompositeOp):
    """`x` with `nan` for NaN and `posinf` and `neginf` for the infinities: by default the largest and least number.

    The gradient is that of `x` where it is finite, else 0. Integers stay as they are.

    >>> tenon.nan_to_num(np.array([1.5, np.nan, np.inf, -np.inf]), nan=0.0, posinf=9.0, neginf=-9.0)
    """

    name = "tenon.nan_to_num"
    x = operand_def(NUMERIC_TENSOR)
    nan = setting(float, default=0.0)
    posinf = setting(float, default=None)
    neginf = setting(float, default=None)
    result = result_def(NUMERIC_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def decompose(x: Value, *, nan: float, posinf: float | None, neginf: float | None) -> Value:
        if not is_float(x.element_type):
            return ops.identity(x)
        bounds = ml_dtypes.finfo(numpy_dtype(x.element_type))
        high, low = (float(bounds.max), float(bounds.min)) if None in (posinf, neginf) else (0.0, 0.0)
        high, low = high if posinf is None else posinf, low if neginf is None else neginf
        finite = ops.select(x == numbers.inf, high, ops.select(x == -numbers.inf, low, x))
        return ops.select(ops.isnan(x), nan, finite)
