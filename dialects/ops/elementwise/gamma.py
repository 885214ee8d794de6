"""The logarithm of the gamma function and its derivatives. Integers are taken as f32.

Polynomials are evaluated in f64, and the result of an f32 (or narrower) operand is rounded once.
"""

from __future__ import annotations

import math as numbers
from typing import Any, ClassVar

import numpy as np

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.scalar import convert, polynomial
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import BinaryOp, UnaryOp
from tenon.dialects.ops.elementwise import special_coefficients as coefficients
from tenon.dialects.ops.elementwise.special import of_half_turns
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import f64

_LOG_ROOT_TWO_PI = 0.5 * numbers.log(2.0 * numbers.pi)


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
STIRLING = tuple([b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)][::-1])
"""Those of Stirling's series for the logarithm, highest power first."""


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
    inverse = 1.0 / x
    far = (x - 0.5) * (ops.log(x) - 1.0) + (_LOG_ROOT_TWO_PI - 0.5)
    far = far + inverse * polynomial(inverse * inverse, STIRLING)
    return ops.select(x < 8.0, near, far)


@tensor_op
class LgammaOp(UnaryOp):
    """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers.

    Between those it crosses 0: there, the error is small against 1, not against the result.

    >>> tenon.lgamma(np.array([1.0, 5.0, 0.5, -1.0]))
    """

    name = "tenon.lgamma"
    AUTOCAST = "full"
    ALIASES: ClassVar[tuple[str, ...]] = ("gammaln",)

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        magnitude = abs(wide)
        positive = _positive_lgamma(magnitude)
        # Gamma(x) Gamma(-x) = -pi / (x sin(pi x))
        sine = ops.log(abs(of_half_turns(ops.sin, wide)))
        reflected = numbers.log(numbers.pi) - (ops.log(magnitude) + positive) - sine
        # So near 0 the sine has few digits left, and both are -log |x|.
        reflected = ops.select(magnitude < 1e-20, positive, reflected)
        pole = (wide <= 0.0) & (ops.round(wide) == wide)
        result = ops.select(pole | (magnitude == numbers.inf), numbers.inf, ops.select(wide < 0.0, reflected, positive))
        return convert(result, x.type)

    vjp = staticmethod(lambda g, out, x: g * ops.digamma(x))


def positive_digamma(x: Value) -> Value:
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
    series = [-b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
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
    AUTOCAST = "full"
    ALIASES: ClassVar[tuple[str, ...]] = ("psi",)

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        positive = positive_digamma(ops.select(wide <= 0.0, 1.0 - wide, wide))
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
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"n": "order"}
    AUTOCAST = "full"
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
        for k, bernoulli in enumerate(BERNOULLI, 1):
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


@tensor_op
class ZetaOp(BinaryOp):
    """The zeta function of Hurwitz: the sum over all k from 0 on of (`y` + k) to the power of -`x`; with a `y` of 1,
    that of Riemann. inf at 1 and for whole `y` up to 0, NaN for `x` below 1 and for other negative `y`.

    Computed in f64 by Euler and Maclaurin's formula; the result of narrower operands is rounded once.

    >>> tenon.zeta(np.array([2.0, 3.0]), 1.0)
    """

    name = "tenon.zeta"
    AUTOCAST = "full"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"q": "y"}

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        exponent, wide = ops.cast(x, dtype=f64), ops.cast(y, dtype=f64)
        start = ops.select(wide > 0.0, wide, 1.0)
        total = start ** (-exponent)
        for k in range(1, 12):
            total = total + (start + float(k)) ** (-exponent)
        edge = start + 12.0
        power = edge ** (-exponent)
        # the power alone may be too small where this is not
        total = total + edge ** (1.0 - exponent) / (exponent - 1.0) + 0.5 * power
        inverse, rising = 1.0 / edge, exponent * power
        for k, bernoulli in enumerate(BERNOULLI, 1):
            rising = rising * inverse
            total = total + (bernoulli / numbers.factorial(2 * k)) * rising
            rising = rising * inverse * (exponent + float(2 * k - 1)) * (exponent + float(2 * k))
        total = ops.select(exponent == numbers.inf, ops.select(start > 1.0, 0.0, start ** (-exponent)), total)
        total = ops.select(wide > 0.0, total, ops.select(ops.round(wide) == wide, numbers.inf, numbers.nan))
        total = ops.select(exponent > 1.0, total, ops.select(exponent == 1.0, numbers.inf, numbers.nan))
        return ops.cast(total, dtype=x.element_type)


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
