"""Coefficients of the polynomials in `lowering/math/coefficients.py`: `python -m tenon.tools.minimax > FILE`.

Each polynomial has the least largest weighted error on its interval, by Remez' exchange algorithm in mpmath (which must
be installed). The coefficients of the lowest powers are rounded to the format one by one, and the others fitted again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

Number = Any
Function = Callable[[Number], Number]

DIGITS = 50
ROUNDS = 12
NODES_PER_TERM = 24


@dataclass(frozen=True)
class Fit:
    """A polynomial of `terms` terms for `function` on [low, high], where an error counts `weight` times."""

    name: str
    what: str
    function: Function
    interval: tuple[float, float]
    terms: int
    weight: Function
    f32: bool = False
    rounded: int = 2
    """How many coefficients are rounded before the others are fitted."""


def _one(_: Number) -> Number:
    return mpmath.mpf(1)


def _odd(function: Function) -> tuple[Function, Function]:
    """(f(r) - r) / r^3 as a function of z = r^2, and the weight that makes errors relative to f(r)."""

    def rest(z: Number) -> Number:
        r = mpmath.sqrt(z)
        return (function(r) - r) / r**3

    def weight(z: Number) -> Number:
        r = mpmath.sqrt(z)
        return r**3 / function(r)

    return rest, weight


def _log_rest(z: Number) -> Number:
    """(log((1 + s) / (1 - s)) - 2 s) / (s z) for z = s^2"""
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / (s * z)


def _power_log_rest(z: Number) -> Number:
    """(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 for z = s^2"""
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s - 2 * s * z / 3) / (s * z**2)


def _erf_exponent(t: Number) -> Number:
    """(log(erfc(x)) / x + 2 / sqrt(pi)) / x for x = t + 3"""
    x = t + 3
    return (mpmath.log(mpmath.erfc(x)) / x + 2 / mpmath.sqrt(mpmath.pi)) / x


def _erf_weight(t: Number) -> Number:
    x = t + 3
    return mpmath.erfc(x) * x**2 / mpmath.erf(x)


_LN2_HALF = 0.34658
_QUARTER_TURN = 1.5709
_EIGHTH_TURN = 0.78548
_SMALL = 1e-8


def _fits() -> list[Fit]:
    fits = _exponentials_and_sine()
    for suffix, is_f32, counts in (("F64", False, (6, 6, 5, 5, 6, 20, 12, 8)), ("F32", True, (3, 3, 3, 3, 3, 9, 5, 4))):
        fits += _direct(suffix, is_f32, *counts[:5]) + _inverse(suffix, is_f32, *counts[5:])
    erf = Fit(
        "ERF_F64",
        "(log(erfc(x)) / x + 2 / sqrt(pi)) / x in t = x - 3, for x up to 5.93",
        _erf_exponent,
        (-2.9999, 2.93),
        24,
        _erf_weight,
    )
    return [*fits, erf]


def _exponentials_and_sine() -> list[Fit]:
    sine, sine_weight = _odd(mpmath.sin)
    return [
        Fit(
            "EXP_F64",
            "(exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2",
            lambda r: (mpmath.expm1(r) - r) / r**2,
            (-_LN2_HALF, _LN2_HALF),
            11,
            lambda r: abs(r**2 / mpmath.expm1(r)),
        ),
        Fit(
            "EXP2_F64",
            "(2^r - 1) / r for |r| <= 1/2",
            lambda r: mpmath.expm1(r * mpmath.ln(2)) / r,
            (-0.50001, 0.50001),
            11,
            abs,
            rounded=0,  # fewer powers would not alternate on both sides of 0
        ),
        Fit(
            "LOG_F64",
            "(log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2, for (1 + s) / (1 - s) from sqrt(1/2) to sqrt(2)",
            _log_rest,
            (_SMALL, 0.029438),
            7,
            _one,
        ),
        Fit(
            "POWER_LOG_F64",
            "(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in z = s^2, for (1 + s) / (1 - s) as for LOG_F64",
            _power_log_rest,
            (1e-6, 0.029438),
            7,
            lambda z: z**2 / 2,
        ),
        Fit(
            "SIN_F64",
            "(sin(r) - r) / r^3 in z = r^2, for |r| <= pi/2",
            sine,
            (_SMALL, _QUARTER_TURN**2),
            9,
            sine_weight,
        ),
    ]


def _direct(
    suffix: str, is_f32: bool, of_sine: int, of_cosine: int, of_sinh: int, of_cosh: int, of_tanh: int
) -> list[Fit]:
    sine, sine_weight = _odd(mpmath.sin)
    hyperbolic, hyperbolic_weight = _odd(mpmath.sinh)
    tangent, tangent_weight = _odd(mpmath.tanh)
    short = (_SMALL, _EIGHTH_TURN**2)
    reduced = (_SMALL, _LN2_HALF**2)
    return [
        Fit(
            f"SHORT_SIN_{suffix}",
            "(sin(r) - r) / r^3 in z = r^2, for |r| <= pi/4",
            sine,
            short,
            of_sine,
            sine_weight,
            is_f32,
        ),
        Fit(
            f"SHORT_COS_{suffix}",
            "(cos(r) - 1 + z/2) / z^2 in z = r^2, for |r| <= pi/4",
            lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
            short,
            of_cosine,
            lambda z: z**2,
            is_f32,
        ),
        Fit(
            f"SINH_{suffix}",
            "(sinh(r) - r) / r^3 in z = r^2, for |r| <= ln 2 / 2",
            hyperbolic,
            reduced,
            of_sinh,
            hyperbolic_weight,
            is_f32,
        ),
        Fit(
            f"COSH_{suffix}",
            "(cosh(r) - 1) / z in z = r^2, for |r| <= ln 2 / 2",
            lambda z: (mpmath.cosh(mpmath.sqrt(z)) - 1) / z,
            reduced,
            of_cosh,
            lambda z: z,
            is_f32,
        ),
        Fit(
            f"SHORT_TANH_{suffix}",
            "(tanh(r) - r) / r^3 in z = r^2, for |r| <= ln 2 / 4",
            tangent,
            (_SMALL, (_LN2_HALF / 2) ** 2),
            of_tanh,
            tangent_weight,
            is_f32,
        ),
    ]


def _inverse(suffix: str, is_f32: bool, of_atan: int, of_asin: int, of_cbrt: int) -> list[Fit]:
    angle, angle_weight = _odd(mpmath.atan)
    arcsine, arcsine_weight = _odd(mpmath.asin)
    return [
        Fit(
            f"ATAN_{suffix}",
            "(atan(u) - u) / u^3 in z = u^2, for |u| <= 1",
            angle,
            (_SMALL, 1.00001),
            of_atan,
            angle_weight,
            is_f32,
        ),
        Fit(
            f"ASIN_{suffix}",
            "(asin(u) - u) / u^3 in z = u^2, for |u| <= 1/2",
            arcsine,
            (_SMALL, 0.25001),
            of_asin,
            arcsine_weight,
            is_f32,
        ),
        Fit(
            f"CBRT_{suffix}",
            "(1 + f)^(-1/3) for 1 + f from sqrt(1/2) to sqrt(2), the start of an iteration",
            lambda f: (1 + f) ** (-mpmath.mpf(1) / 3),
            (-0.29290, 0.41422),
            of_cbrt,
            _one,
            is_f32,
        ),
    ]


def _chebyshev(count: int, low: Number, high: Number) -> list[Number]:
    """`count` points of [low, high], ends included, dense at the ends."""
    middle, half = (high + low) / 2, (high - low) / 2
    return [middle - half * mpmath.cos(mpmath.pi * k / (count - 1)) for k in range(count)]


@dataclass
class _Samples:
    """A function and its weights on a grid."""

    places: list[Number]
    values: list[Number]
    weights: list[Number]

    def errors(self, coefficients: Sequence[Number]) -> list[Number]:
        """Weighted errors of a polynomial, lowest power first."""
        highest_first = list(reversed(coefficients))
        fitted = [mpmath.polyval(highest_first, place) for place in self.places]
        return [w * (p - v) for w, p, v in zip(self.weights, fitted, self.values, strict=True)]


def _alternation(errors: Sequence[Number], count: int) -> list[int]:
    """Where errors of alternating sign are largest: `count` places, or fewer if there are no more."""
    peaks: list[int] = []
    for place, error in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = place
        else:
            peaks.append(place)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def _remez(samples: _Samples, fixed: Sequence[Number], terms: int) -> tuple[list[Number], Number]:
    """The coefficients, lowest power first, of which the first are `fixed`; and the largest weighted error."""
    free = range(len(fixed), terms)
    step = (len(samples.places) - 1) / len(free)
    reference = [round(k * step) for k in range(len(free) + 1)]
    best: tuple[list[Number], Number] | None = None
    for _ in range(ROUNDS):
        matrix, right = mpmath.matrix(len(reference)), mpmath.matrix(len(reference), 1)
        for row, index in enumerate(reference):
            place = samples.places[index]
            for column, power in enumerate(free):
                matrix[row, column] = place**power
            matrix[row, len(free)] = (-1) ** row / samples.weights[index]
            right[row] = samples.values[index] - sum(c * place**k for k, c in enumerate(fixed))
        solution = mpmath.lu_solve(matrix, right)
        coefficients = [*fixed, *list(solution)[:-1]]
        errors = samples.errors(coefficients)
        largest = max(abs(error) for error in errors)
        if best is None or largest < best[1]:
            best = coefficients, largest
        peaks = _alternation(errors, len(free) + 1)
        if len(peaks) <= len(free) or largest < 1.02 * abs(solution[len(free)]):
            break
        reference = peaks
    assert best is not None
    return best


def fit(wanted: Fit) -> tuple[tuple[float, ...], float]:
    """The rounded coefficients, highest power first, and the largest weighted error before the last were rounded."""
    low, high = map(mpmath.mpf, wanted.interval)
    places = _chebyshev(NODES_PER_TERM * wanted.terms, low, high)
    places = [place if abs(place) > 1e-9 else mpmath.mpf(1e-9) for place in places]  # not at poles of the formula
    samples = _Samples(places, [*map(wanted.function, places)], [*map(wanted.weight, places)])
    kind = np.float32 if wanted.f32 else np.float64
    fixed: list[Number] = []
    coefficients, error = _remez(samples, fixed, wanted.terms)
    for _ in range(min(wanted.rounded, wanted.terms - 1)):
        fixed.append(mpmath.mpf(float(kind(float(coefficients[len(fixed)])))))
        coefficients, error = _remez(samples, fixed, wanted.terms)
    return tuple(float(kind(float(c))) for c in reversed(coefficients)), float(error)


HEADER = '''\
"""Coefficients of polynomials for elementary functions, highest power first; written by `tools/minimax.py`.

The bounds are those of the polynomial's error, relative to the function that it is for.
"""'''


def main() -> None:
    """Print the module, or those of its polynomials that are named."""
    mp.dps = DIGITS
    names = sys.argv[1:]
    print(HEADER)
    for wanted in _fits():
        if names and wanted.name not in names:
            continue
        coefficients, error = fit(wanted)
        print(f"\n{wanted.name} = (")
        for coefficient in coefficients:
            print(f"    {coefficient!r},")
        print(f')\n"""{wanted.what}: to 2^{float(mpmath.log(error, 2)):.1f}"""', flush=True)


if __name__ == "__main__":
    main()
