"""Samples of special functions and of elementary functions of two variables."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import scipy.special
from sample import BF16, F16, F32, F64, FLOATS, INF, NAN, SPECIAL, Array, add, integers, numbers
from samples_elementwise import binary, unary

# --- one operand ------------------------------------------------------------------------------------------------------

unary("erfc", scipy.special.erfc, -3.0, 3.0)
unary("ndtr", scipy.special.ndtr, -3.0, 3.0)
unary("erfinv", scipy.special.erfinv, -0.95, 0.95)
unary("erfcinv", scipy.special.erfcinv, 0.05, 1.95)
# SciPy gives -inf at -inf, C and PyTorch inf.
unary("ndtri", scipy.special.ndtri, 0.02, 0.98)
unary("log_ndtr", scipy.special.log_ndtr, -6.0, 3.0)
unary("erfcx", scipy.special.erfcx, -2.0, 6.0)
unary("entr", scipy.special.entr, 0.1, 4.0)
for _name in ("i0", "i0e", "i1", "i1e"):
    unary(_name, getattr(scipy.special, _name), -9.0, 9.0, special=SPECIAL[abs(SPECIAL) < 100])
    add(
        _name,
        [np.array([-700.0, -8.0, -1e-300, 0.0, 8.0, 8.0000001, 60.0, 709.0])],
        getattr(scipy.special, _name),
        "far",
        rtol=4e-15,
    )
add("i0e", [np.array([INF, -INF, NAN])], lambda x: np.array([0.0, 0.0, NAN]), "ends")
add(
    "i1",
    [np.array([INF, -INF, NAN, 712.0])],
    lambda x: np.array([INF, -INF, NAN, 2.46667701352e307]),
    "ends",
    rtol=1e-6,
)
unary("lgamma", scipy.special.gammaln, 0.1, 12.0, special=SPECIAL[SPECIAL != -INF])
unary("digamma", scipy.special.digamma, 0.1, 12.0, special=SPECIAL[SPECIAL != -INF])
unary("cbrt", np.cbrt, 0.2, 8.0)
unary("sinc", np.sinc, -3.0, 3.0, special=SPECIAL[np.isfinite(SPECIAL)])
unary("logit", scipy.special.logit, 0.05, 0.95)
unary("deg2rad", np.deg2rad, -400.0, 400.0)
unary("rad2deg", np.rad2deg, -7.0, 7.0)
for _order in (1, 2, 3):
    unary(
        "polygamma",
        lambda x, order=_order: scipy.special.polygamma(order, x),
        0.5,
        12.0,
        special=SPECIAL[SPECIAL > 0],
        order=_order,
        rtol=None,
    )

add("erfc", [np.array([-30.0, -5.0, 4.0, 9.0, 10.0, 30.0], F32)], scipy.special.erfc, "tail", rtol=4e-7, atol=2e-45)
add("erfc", [np.array([-30.0, 5.0, 20.0, 26.5, 28.0])], scipy.special.erfc, "tail", rtol=1e-13, atol=1e-323)
add("ndtr", [np.array([-30.0, -13.0, -8.0, 8.0], F32)], scipy.special.ndtr, "tail", rtol=4e-7, atol=2e-45)
add("erfinv", [np.array([1 - 2**-24, -1 + 2**-24, 1e-30, 1, -1], F32)], scipy.special.erfinv, "edge", rtol=4e-7)
add("erfinv", [np.array([1 - 2**-53, 1e-300, -0.85, 0.8501])], scipy.special.erfinv, "edge", rtol=1e-14)
add(
    "erfcinv",
    [np.array([1e-44, 2e-38, 1e-10, 1 - 2**-24, 1, 2 - 2**-23, 2, 0], F32)],
    scipy.special.erfcinv,
    "edge",
    rtol=4e-7,
)
add(
    "log_ndtr",
    [np.array([-1e200, -45.0, -42.3, -1e-9, 0.0, 9.0, 40.0, INF])],
    scipy.special.log_ndtr,
    "tails",
    rtol=1e-13,
)
add("log_ndtr", [np.array([-INF, NAN], F32)], lambda x: x, "ends")
add("erfcx", [np.array([-20.0, 0.0, 29.9, 30.1, 1e10, INF])], scipy.special.erfcx, "tails", rtol=1e-13)
add("ndtri", [np.array([0.0, 1e-300, 1e-9, 1 - 2**-53, 1.0, -0.5, 2.0])], scipy.special.ndtri, "edge", rtol=1e-13)
add("entr", [np.array([0.0, -1.0, 1e-300, INF])], scipy.special.entr, "edge")
binary("zeta", scipy.special.zeta, 1.1, 9.0)
add(
    "zeta",
    [np.array([1.0, 0.5, 3.0, 3.0, 80.0, 2.5, 1.5, 2.0]), np.array([2.0, 2.0, -2.0, 0.0, 0.3, 1e5, 1e300, INF])],
    scipy.special.zeta,
    "edge",
)


def _slope_by_shape(a: Array, x: Array) -> Any:
    """The derivative of the lower incomplete gamma function by its first argument."""

    def slope(a: float, x: float) -> float:
        return float(mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a))

    with mpmath.workdps(40):
        return np.vectorize(slope)(a, x)


_SHAPES = np.array([1e-9, 1e-9, 0.3, 0.3, 0.9, 1.0, 5.0, 5.0, 15.9, 16.0, 16.0, 30.0, 30.0, 100.0])
_LIMITS = np.array([1e-9, 0.9, 1e-9, 1.2, 3.0, 40.0, 2.0, 5.0, 16.0, 16.0, 4.0, 33.0, 90.0, 80.0])
for _name, _oracle in {
    "gammainc": scipy.special.gammainc,
    "gammaincc": scipy.special.gammaincc,
    "gammainc_slope": _slope_by_shape,
    "gamma_density": lambda a, x: np.exp(scipy.special.xlogy(a - 1, x) - x - scipy.special.gammaln(a)),
}.items():
    _args = [numbers(_name + "a", (2, 5), F32, 0.3, 6.0), numbers(_name + "x", (5,), F32, 0.3, 6.0)]
    add(_name, _args, _oracle, differentiable=_name != "gammainc_slope")
    add(_name, [numbers(_name, (11,), F16, 0.3, 6.0), numbers(_name, (1,), F16, 0.3, 6.0)], _oracle)
    add(_name, [_SHAPES, _LIMITS], _oracle, "everywhere", rtol=1e-12)
    if _name in ("gammainc", "gammaincc"):
        _ends = (
            np.array([0.0, 0.0, 2.0, 2.0, INF, INF, -1.0, 1.0, NAN]),
            np.array([0.0, 2.0, 0.0, INF, 2.0, INF, 1.0, -1.0, 1.0]),
        )
        add(_name, [*_ends], _oracle, "ends")
add("erfcinv", [np.array([1e-300, 1e-20, 0.15, 1.85, 2 - 2**-52])], scipy.special.erfcinv, "edge", rtol=1e-14)
_NEGATIVE = np.array([-0.25, -1.5, -2.75, -7.1, -31.4, -1e-20])
add("lgamma", [_NEGATIVE], scipy.special.gammaln, "negative", rtol=1e-13, differentiable=False)
add("lgamma", [_NEGATIVE.astype(F32)], scipy.special.gammaln, "negative", rtol=1e-6)
add("lgamma", [np.array([1.0, 2.0, 3.0, 8.0, 1e10, 1e300, -3.0])], scipy.special.gammaln, "whole")
add("lgamma", [np.array([-INF], F32)], lambda x: np.array([INF]), "least")
add("digamma", [_NEGATIVE], scipy.special.digamma, "negative", rtol=1e-12)
add("digamma", [np.array([0.0, -0.0, -1.0, -INF])], lambda x: np.array([-INF, INF, NAN, NAN]), "poles")
add("digamma", [np.array([1.4616321449683622, 1e-10, 1e10])], scipy.special.digamma, "root", atol=1e-16)
for _order in (1, 2):
    add(
        "polygamma",
        [np.array([-0.25, -1.5])],
        lambda x, n=_order: scipy.special.polygamma(n, x + 2) - (-1.0) ** n * n * (x ** -(n + 1) + (x + 1) ** -(n + 1)),
        "negative",
        order=_order,
    )
add("logit", [np.array([0.0, 1.0, 0.5, -0.1, 1.1], F32)], scipy.special.logit, "edge")
add(
    "logit",
    [np.array([0.0, 0.3, 1.0], F32)],
    lambda x: scipy.special.logit(np.clip(x, 0.1, 0.9)),
    eps=0.1,
    differentiable=True,
)
add("sinc", [np.array([1e-3, -1e-9, 0.0, 0.499, 0.501, 2.0])], np.sinc, "small", atol=1e-15, differentiable=True)

for _dtype in (F32, F64):
    _bounds = np.finfo(_dtype)
    add(
        "nan_to_num",
        [SPECIAL.astype(_dtype)],
        lambda x, b=_bounds: np.nan_to_num(x, posinf=float(b.max), neginf=float(b.min)),
    )
add(
    "nan_to_num",
    [SPECIAL.astype(F16)],
    lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0),
    nan=1.0,
    posinf=2.0,
    neginf=-3.0,
)
add("nan_to_num", [numbers("nan_to_num", (3, 5), F64)], lambda x: x, differentiable=True)
add(
    "nan_to_num", [SPECIAL.astype(BF16)], lambda x: np.nan_to_num(x, posinf=3.3895313892515355e38, neginf=-1), neginf=-1
)
add("nan_to_num", [integers("nan_to_num", (3, 2), np.int64)], lambda x: x)
add("nan_to_num", [np.zeros((0,), F32)], lambda x: x)

# --- two operands -----------------------------------------------------------------------------------------------------

_PAIRS = np.array([(a, b) for a in SPECIAL[:9] for b in SPECIAL[:9]], F32).T

binary("hypot", np.hypot, 0.5, 2.0)
binary("logaddexp", np.logaddexp)
binary("logaddexp2", np.logaddexp2)
binary("xlogy", scipy.special.xlogy, 0.5, 2.0)
binary("xlog1py", scipy.special.xlog1py, 0.5, 2.0)
binary("copysign", np.copysign, 0.5, 2.0)
binary("heaviside", np.heaviside, smooth=False)
for _name, _oracle in {
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "xlogy": scipy.special.xlogy,
    "xlog1py": scipy.special.xlog1py,
    "heaviside": np.heaviside,
}.items():
    add(_name, list(_PAIRS), _oracle, "special")
add("copysign", [_PAIRS[0][9:], _PAIRS[1][9:]], np.copysign, "special")  # the sign of NaN is not kept everywhere
add("hypot", [np.array([1e30, 1e-40], F32), np.array([-1e30, 0.0], F32)], np.hypot, "large")
add("hypot", [np.array([1e200, 0.0, 3e-320]), np.array([1e200, 0.0, 4e-320])], np.hypot, "large")
_STEPS = integers("heaviside", (13,), np.int32, -2, 3)
add("heaviside", [_STEPS, np.int32(7)], lambda x, values: np.where(x, x > 0, values).astype(np.int32))


def _nextafter(dtype: Any) -> Any:
    return lambda x, y: np.nextafter(x.astype(dtype), y.astype(dtype)).astype(np.float64)


for _dtype in (F32, F64):
    _least = float(np.finfo(_dtype).smallest_subnormal)
    _x = np.concatenate([_PAIRS[0], np.array([_least, -_least, 1.0, float(np.finfo(_dtype).max)])]).astype(_dtype)
    _y = np.concatenate([_PAIRS[1], [0.0, 0.0, 2.0, INF]]).astype(_dtype)
    add("nextafter", [_x, _y], _nextafter(_dtype), "special", rtol=0, atol=0)
add("nextafter", [numbers("next", (3, 5)), numbers("to", (5,))], _nextafter(F32), rtol=0, atol=0)
add("nextafter", [numbers("next", ()), numbers("to", (0, 2))], _nextafter(F32))


def _lerp(start: Array, end: Array, weight: Array) -> Any:
    return start + weight * (end - start)


add("lerp", [numbers("a", (3, 5)), numbers("b", (5,)), numbers("w", (3, 1))], _lerp, differentiable=True)
add("lerp", [numbers("a", ()), numbers("b", (2, 3), F32), np.float32(0.75)], _lerp, differentiable=True)
for _dtype in FLOATS:
    add(
        "lerp", [np.asarray([1.0, 2.0], _dtype), np.asarray([5.0, -1.0], _dtype), np.asarray([0.0, 1.0], _dtype)], _lerp
    )
