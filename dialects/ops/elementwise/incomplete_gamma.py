"""The incomplete gamma functions, regularized, and their derivatives by either argument.

Everything is computed in f64, and the result of narrower operands is rounded once. All expansions are computed, and one
is chosen, so that vectors take one way.
"""

from __future__ import annotations

import math as numbers
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.scalar import convert
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import GradientError
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.ops.elementwise.incomplete_gamma_expansions import (
    BEGIN,
    HIGH,
    LARGE,
    LOW,
    VANISHED,
    Factor,
    Jet,
    factor_of,
    fraction_of,
    series_of,
    small_upper,
    uniform_tail,
    value_of,
)
from tenon.dialects.types.types import FLOAT_TENSOR, f64


@dataclass(frozen=True)
class _Parts:
    """What the functions are chosen of."""

    is_uniform: Value
    is_fraction: Value
    is_small: Value
    uniform: Value
    fraction: Any
    series: Any


def _scaled(a: Value, x: Value) -> tuple[Value, Value]:
    """The operands, with no exponents that products would overflow by: so far out x / a alone counts."""
    is_huge = a > 1e100
    return ops.select(is_huge, 1e100, a), ops.select(is_huge, x / a * 1e100, x)


def _parts(a: Value, x: Value, factor: Factor, *, with_slope: bool) -> _Parts:
    is_uniform = (a >= LARGE) & (factor.ratio > LOW) & (factor.ratio < HIGH)
    near, far = ops.minimum(a, VANISHED), ops.minimum(x, VANISHED)
    moving: Any = Jet(near, 1.0 + 0.0 * near) if with_slope else near
    series = factor.value * series_of(moving, far)
    return _Parts(
        is_uniform,
        (x >= BEGIN) & (x >= a),
        (x < BEGIN) & (a < 1.0) & (value_of(series) > 0.5),
        uniform_tail(a, x, factor, with_slope=with_slope),
        factor.value * (moving * fraction_of(moving, far)),
        series,
    )


def _regularized(a: Value, x: Value, *, upper: bool) -> Value:
    """The lower or the upper function of f64 operands."""
    a, x, given = *_scaled(a, x), (a, x)
    factor = factor_of(a, x, with_slope=False)
    parts = _parts(a, x, factor, with_slope=False)
    smaller = ops.select(parts.is_uniform, parts.uniform, ops.select(parts.is_fraction, parts.fraction, parts.series))
    is_upper = ops.select(parts.is_uniform, x >= a, parts.is_fraction)
    other = 1.0 - smaller
    found = ops.select(is_upper, smaller, other) if upper else ops.select(is_upper, other, smaller)
    if upper:
        small = small_upper(ops.minimum(a, 1.0), ops.minimum(x, 1.0), _log(x))
        found = ops.select(parts.is_small, small, found)
    return _with_ends(*given, found, none=1.0 if upper else 0.0, whole=0.0 if upper else 1.0)


def _log(x: Value) -> Value:
    return ops.log(ops.maximum(x, 5e-324))


def _with_ends(a: Value, x: Value, found: Value, *, none: float, whole: float) -> Value:
    """What was found, `none` at x = 0 and an infinite a, `whole` at an infinite x and a = 0, and NaN where both or
    where an operand is negative."""
    none_there, whole_there = (x == 0.0) | (a == numbers.inf), (x == numbers.inf) | (a == 0.0)
    found = ops.select(none_there, none, ops.select(whole_there, whole, found))
    return ops.select((a >= 0.0) & (x >= 0.0) & ops.logical_not(none_there & whole_there), found, numbers.nan)


class IncompleteGammaOp(ElementwiseOp):
    """A function of a shape `a` and a limit `x`."""

    a = operand_def(FLOAT_TENSOR)
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    AUTOCAST = "full"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"other": "x"}
    HAS_FUNCTION: ClassVar[bool] = False


@tensor_op
class GammaincOp(IncompleteGammaOp):
    """The lower incomplete gamma function of `a` and `x`, regularized: the integral of t^(a - 1) exp(-t) from 0 to `x`,
    over that to infinity, which is Gamma(`a`). It is 1 where `a` is 0; NaN if an operand is negative, or both are 0 or
    infinite.

    Computed in f64; the result of narrower operands is rounded once.

    >>> tenon.gammainc(np.array([0.5, 1.0, 10.0]), np.array([0.1, 1.0, 12.0]))
    """

    name = "tenon.gammainc"
    HAS_FUNCTION: ClassVar[bool] = True
    ALIASES: ClassVar[tuple[str, ...]] = ("igamma",)

    @staticmethod
    def scalar(a: Value, x: Value) -> Value:
        return convert(_regularized(convert(a, f64), convert(x, f64), upper=False), a.type)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, x: Value) -> tuple[Any, ...]:
        return g * GammaincSlopeOp.apply(a, x), g * GammaDensityOp.apply(a, x)


@tensor_op
class GammainccOp(IncompleteGammaOp):
    """The upper incomplete gamma function of `a` and `x`, regularized: 1 - gammainc(`a`, `x`), exact where that is
    small, too.

    Computed in f64; the result of narrower operands is rounded once.

    >>> tenon.gammaincc(np.array([0.5, 1.0, 10.0]), np.array([0.1, 1.0, 12.0]))
    """

    name = "tenon.gammaincc"
    HAS_FUNCTION: ClassVar[bool] = True
    ALIASES: ClassVar[tuple[str, ...]] = ("igammac",)

    @staticmethod
    def scalar(a: Value, x: Value) -> Value:
        return convert(_regularized(convert(a, f64), convert(x, f64), upper=True), a.type)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, x: Value) -> tuple[Any, ...]:
        return -g * GammaincSlopeOp.apply(a, x), -g * GammaDensityOp.apply(a, x)


@tensor_op
class GammaDensityOp(IncompleteGammaOp):
    """x^(a - 1) exp(-x) / Gamma(a): the derivative of `gammainc` by `x`."""

    name = "tenon.gamma_density"

    @staticmethod
    def scalar(a: Value, x: Value) -> Value:
        given = convert(a, f64), convert(x, f64)
        shape, limit = _scaled(*given)
        found = factor_of(shape, limit, with_slope=False).value / limit * shape
        at_zero = ops.select(given[0] < 1.0, numbers.inf, ops.select(given[0] == 1.0, 1.0, 0.0))
        found = ops.select(given[1] == 0.0, at_zero, _with_ends(*given, found, none=0.0, whole=0.0))
        return convert(ops.select(given[0] >= 0.0, found, numbers.nan), a.type)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, x: Value) -> tuple[Any, ...]:
        return g * out * (ops.log(x) - ops.digamma(a)), g * out * ((a - 1.0) / x - 1.0)


@tensor_op
class GammaincSlopeOp(IncompleteGammaOp):
    """The derivative of `gammainc` by `a`, which has no rule for its own."""

    name = "tenon.gammainc_slope"

    @staticmethod
    def scalar(a: Value, x: Value) -> Value:
        given = convert(a, f64), convert(x, f64)
        shape, limit = _scaled(*given)
        factor = factor_of(shape, limit, with_slope=True)
        parts = _parts(shape, limit, factor, with_slope=True)
        near = ops.minimum(shape, 1.0)
        small = small_upper(Jet(near, 1.0 + 0.0 * near), ops.minimum(limit, 1.0), _log(limit))
        found = ops.select(parts.is_fraction, -parts.fraction.slope, parts.series.slope)
        found = ops.select(parts.is_small, -small.slope, found)
        found = ops.select(parts.is_uniform, parts.uniform, found)
        is_end = (given[0] == numbers.inf) | (given[1] == numbers.inf) | (given[1] == 0.0)
        found = ops.select(is_end, 0.0, found)
        return convert(ops.select((given[0] >= 0.0) & (given[1] >= 0.0), found, numbers.nan), a.type)

    @staticmethod
    def vjp(g: Value, out: Value, a: Value, x: Value) -> tuple[Any, ...]:
        raise GradientError("tenon.gammainc: its derivative with respect to a has no gradient")
