"""Modified Bessel functions of the first kind, of orders 0 and 1. Integers are taken as f32.

Polynomials are evaluated in f64, and the result of an f32 (or narrower) operand is rounded once. Their coefficients,
highest power first, are those of Chebyshev interpolants, computed with 60 digits, in the ranges of Cephes (S. L.
Moshier, "Methods and programs for mathematical functions", 1989).
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from typing import Any

from tenon.dialects.definition.scalar import convert, polynomial
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import UnaryOp
from tenon.dialects.types.types import f64

_I0_SMALL = (
    -1.1852342482684723e-09,
    4.470516727511741e-09,
    -7.723094556846333e-09,
    2.6265363151970112e-08,
    -1.1384114641747256e-07,
    3.675842926555429e-07,
    -1.0883393970072518e-06,
    3.2293390826404927e-06,
    -9.251680584432654e-06,
    2.520232727107692e-05,
    -6.550861389620851e-05,
    0.00016240542162878106,
    -0.00038290209550065975,
    0.0008563152748272306,
    -0.001811886793937724,
    0.003617126448897043,
    -0.0067923998730731695,
    0.011960077907026221,
    -0.01968265469059234,
    0.030177912022978357,
    -0.04298594945479612,
    0.05677703201991695,
    -0.06954119561719381,
    0.07927522590716347,
    -0.08496338091616305,
    0.08734341617552313,
    -0.08904344136075962,
    0.09451562853995103,
    -0.11300432688620549,
    0.2070019212239867,
)
"""exp(-x) I0(x) for x in [0, 8], in x / 4 - 1."""
_I0_LARGE = (
    9.365086901290267e-11,
    3.629355230393462e-11,
    -6.63328711727099e-10,
    -2.80338199823354e-10,
    2.1968921390219547e-09,
    1.1050558795183846e-09,
    -4.575553426089669e-09,
    -3.1346276430167126e-09,
    6.56013874823726e-09,
    7.335968710884895e-09,
    -5.038106488625105e-09,
    -1.3326094405798255e-08,
    -6.849338188032624e-09,
    7.534355843812459e-09,
    2.1566251453048386e-08,
    3.9328893751144804e-08,
    8.872034383314865e-08,
    2.973596046562713e-07,
    1.4838476651250262e-06,
    1.1143033800708978e-05,
    0.00013621607438984735,
    0.0033605519836677504,
    0.4021765094450081,
)
"""sqrt(x) exp(-x) I0(x) for x from 8 on, in 16 / x - 1."""
_I1_SMALL = (
    -9.506861180736366e-11,
    3.7284532079392345e-10,
    -7.277033556073836e-10,
    2.603206542331157e-09,
    -1.1224475126135595e-08,
    3.802984785138283e-08,
    -1.1993980285486188e-07,
    3.759367306404118e-07,
    -1.1381566323785447e-06,
    3.293899139003749e-06,
    -9.131775730568571e-06,
    2.4233753149624307e-05,
    -6.142655719704761e-05,
    0.0001484212433475852,
    -0.00034117472445271377,
    0.0007445123445061157,
    -0.0015388749696724586,
    0.0030057624197775295,
    -0.00553456775924123,
    0.009583962150731578,
    -0.015571309256763564,
    0.023686016957729535,
    -0.03367135551992323,
    0.04467457262125467,
    -0.055280039227051464,
    0.06376740371340721,
    -0.06848260620582547,
    0.0680575999095116,
    -0.06112433802966629,
    0.044687709875608835,
)
"""exp(-x) I1(x) / x for x in [0, 8], in x / 4 - 1."""
_I1_LARGE = (
    -9.752397212622016e-11,
    -3.365431853921216e-11,
    6.917089298925417e-10,
    2.6340771098951776e-10,
    -2.297004163026422e-09,
    -1.059454416128182e-09,
    4.8105974066480695e-09,
    3.0868867368253853e-09,
    -6.983839626219433e-09,
    -7.444441477273801e-09,
    5.59337010251455e-09,
    1.3958551001421646e-08,
    6.840138997451954e-09,
    -8.409182040453211e-09,
    -2.3392503747962396e-08,
    -4.3131964899775585e-08,
    -1.0001095659637265e-07,
    -3.483853438037635e-07,
    -1.834910235895538e-06,
    -1.5038547209501858e-05,
    -0.0002192357638317243,
    -0.009749577193235635,
    0.38939845902587233,
)
"""sqrt(x) exp(-x) I1(x) for x from 8 on, in 16 / x - 1."""


_DIFFERENCE = (
    *(221746399875 / 4294967296, 869593725 / 67108864, 31216185 / 8388608, 654885 / 524288),
    *(33075 / 65536, 525 / 2048, 45 / 256, 3 / 16, 1 / 2),
)
"""sqrt(2 pi x) exp(-x) (I0(x) - I1(x)) x for x from 128 on, in 1 / x (NIST DLMF, 10.40.1)."""


def _difference(x: Value) -> Value:
    """exp(-x) (I0(x) - I1(x)) for an f64 x that is not negative; for large x by its series, as the difference
    cancels."""
    near, inverse = ops.minimum(x, 128.0), 1.0 / ops.maximum(x, 128.0)
    series: Any = _DIFFERENCE[0]
    for term in _DIFFERENCE[1:]:
        series = series * inverse + term
    series = series * inverse * ops.sqrt(inverse * (0.5 / numbers.pi))
    return ops.select(x < 128.0, ops.i0e(near) - ops.i1e(near), series)


def _scaled(size: Value, near: Sequence[float], far: Sequence[float], *, is_odd: bool) -> Value:
    """exp(-x) I(x) for an f64 x that is not negative."""
    close = polynomial(0.25 * ops.minimum(size, 8.0) - 1.0, near)
    close = close * size if is_odd else close
    above = ops.maximum(size, 8.0)
    distant = polynomial(16.0 / above - 1.0, far) / ops.sqrt(above)
    return ops.select(size <= 8.0, close, distant)


def _even(x: Value) -> Value:
    return _scaled(abs(x), _I0_SMALL, _I0_LARGE, is_odd=False)


def _odd(x: Value) -> Value:
    value = _scaled(abs(x), _I1_SMALL, _I1_LARGE, is_odd=True)
    return ops.select(x < 0.0, -value, value)


def _grown(x: Value, scaled: Value, end: Value) -> Value:
    """exp(abs(x)) times a value, by halves: the exponential may be too large where that is not. `end` at infinity."""
    half = ops.exp(0.5 * abs(x))
    return ops.select(abs(x) == numbers.inf, end, half * scaled * half)


@tensor_op
class I0Op(UnaryOp):
    """The modified Bessel function of the first kind of order 0 of `x`.

    >>> tenon.i0(np.array([0.0, 1.0, -5.0]))
    """

    name = "tenon.i0"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        return convert(_grown(wide, _even(wide), abs(wide)), x.type)

    vjp = staticmethod(lambda g, out, x: g * ops.i1(x))


@tensor_op
class I0eOp(UnaryOp):
    """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 0 of `x`.

    >>> tenon.i0e(np.array([0.0, 1.0, -500.0]))
    """

    name = "tenon.i0e"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        return convert(_even(convert(x, f64)), x.type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Value]:
        slope = -ops.sign(x) * ops.cast(_difference(abs(ops.cast(x, dtype=f64))), dtype=x.element_type)
        return (g * slope,)


@tensor_op
class I1Op(UnaryOp):
    """The modified Bessel function of the first kind of order 1 of `x`.

    >>> tenon.i1(np.array([0.0, 1.0, -5.0]))
    """

    name = "tenon.i1"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        wide = convert(x, f64)
        return convert(_grown(wide, _odd(wide), wide), x.type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Value]:
        # both are infinite where the result is
        return (g * ops.select(abs(out) == numbers.inf, numbers.inf, ops.i0(x) - _over(out, x)),)


@tensor_op
class I1eOp(UnaryOp):
    """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 1 of `x`.

    >>> tenon.i1e(np.array([0.0, 1.0, -500.0]))
    """

    name = "tenon.i1e"
    AUTOCAST = "full"

    @staticmethod
    def scalar(x: Value) -> Value:
        return convert(_odd(convert(x, f64)), x.type)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value) -> tuple[Value]:
        wide = ops.cast(x, dtype=f64)
        slope = _difference(abs(wide)) - _over(ops.i1e(wide), wide)
        return (g * ops.cast(slope, dtype=x.element_type),)


def _over(out: Value, x: Value) -> Value:
    """I1(x) / x, which is 1/2 at 0."""
    is_zero = x == 0.0
    return ops.select(is_zero, 0.5, out / ops.select(is_zero, 1.0, x))
