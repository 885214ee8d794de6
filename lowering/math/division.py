"""Integers, as f32 or f64, divided by a constant: multiply-adds that give what division does, to the last bit.

A vector of divisions takes as long as a dozen multiply-adds or more, and images of bytes are divided by 255 all the
time. For a quotient `q` within a unit in the last place of x / c, and `y` = 1 / c rounded to nearest, q + (x - c q) y
rounded once is x / c rounded to nearest (Markstein, "Computation of elementary functions on the IBM RISC System/6000",
1990). x y is such a quotient where `y` happens to be near enough to 1 / c, and elsewhere after one such step.

Nothing overflows, and no remainder is subnormal: integers are 0, or 1 to 2^64 in magnitude, and `LIMIT` bounds c.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tenon.lowering.math.builder import ArithmeticBuilder
from tenon.lowering.math.float_formats import format_of

LIMIT = 2.0**60
"""Of the magnitude of a constant, and of one over it."""


def is_integral(x: SSAValue) -> bool:
    """Whether `x` is an integer as a float."""
    return isinstance(x.owner, arith.SIToFPOp | arith.UIToFPOp)


def is_divisor(c: float) -> bool:
    """Whether to divide by `c` like this: not by 0 or NaN, and not by a power of two, which is one product."""
    if not 1 / LIMIT <= abs(c) <= LIMIT:
        return False
    number = abs(Fraction(c).numerator)
    return number & (number - 1) != 0


def by_constant(b: ArithmeticBuilder, x: SSAValue, constant: float) -> SSAValue:
    """x / constant for integers `x`"""
    fraction = format_of(x).fraction
    kind = np.float32 if fraction == 23 else np.float64
    c = float(kind(constant))
    reciprocal = float(kind(1 / c))
    quotient = b.mul(x, reciprocal)
    is_near = abs(Fraction(reciprocal) * Fraction(c) - 1) < Fraction(1, 2 ** (fraction + 2))
    for _ in range(1 if is_near else 2):
        quotient = b.fma(b.fma(quotient, -c, x), reciprocal, quotient)
    return quotient
