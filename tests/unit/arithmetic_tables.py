"""What ops of `arith` and `math` give, at any operands: tables on Python's integers, fractions and NumPy's floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES = {
    "i1": np.dtype(np.bool_),
    **{f"i{width}": np.dtype(f"int{width}") for width in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
INTEGERS = ("i1", "i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")


# ------------------------------------------------------------------------------------------------ what integers give


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# On Python's integers: the signed operands, the same two as unsigned numbers, and the width. Results wrap around.
INTEGER_OPS: dict[str, Callable[[int, int, int, int, int], int | tuple[int, int]]] = {
    "arith.addi": lambda a, b, u, v, w: a + b,
    "arith.subi": lambda a, b, u, v, w: a - b,
    "arith.muli": lambda a, b, u, v, w: a * b,
    "arith.divsi": lambda a, b, u, v, w: truncated(a, b) if b else 0,
    "arith.remsi": lambda a, b, u, v, w: a - b * truncated(a, b) if b else 0,
    "arith.floordivsi": lambda a, b, u, v, w: a // b if b else 0,
    "arith.ceildivsi": lambda a, b, u, v, w: -(-a // b) if b else 0,
    "arith.divui": lambda a, b, u, v, w: u // v if v else 0,
    "arith.remui": lambda a, b, u, v, w: u % v if v else 0,
    "arith.ceildivui": lambda a, b, u, v, w: -(-u // v) if v else 0,
    "arith.andi": lambda a, b, u, v, w: a & b,
    "arith.ori": lambda a, b, u, v, w: a | b,
    "arith.xori": lambda a, b, u, v, w: a ^ b,
    "arith.shli": lambda a, b, u, v, w: a << v if v < w else 0,
    "arith.shrui": lambda a, b, u, v, w: u >> v if v < w else 0,
    "arith.shrsi": lambda a, b, u, v, w: a >> min(v, w - 1),
    "arith.maxsi": lambda a, b, u, v, w: max(a, b),
    "arith.minsi": lambda a, b, u, v, w: min(a, b),
    "arith.maxui": lambda a, b, u, v, w: max(u, v),
    "arith.minui": lambda a, b, u, v, w: min(u, v),
    "arith.addui_extended": lambda a, b, u, v, w: (u + v, u + v >> w),
    "arith.mului_extended": lambda a, b, u, v, w: (u * v, u * v >> w),
    "arith.mulsi_extended": lambda a, b, u, v, w: (a * b, a * b >> w),
    "arith.cmpi eq,": lambda a, b, u, v, w: a == b,
    "arith.cmpi ne,": lambda a, b, u, v, w: a != b,
    "arith.cmpi slt,": lambda a, b, u, v, w: a < b,
    "arith.cmpi sle,": lambda a, b, u, v, w: a <= b,
    "arith.cmpi sgt,": lambda a, b, u, v, w: a > b,
    "arith.cmpi sge,": lambda a, b, u, v, w: a >= b,
    "arith.cmpi ult,": lambda a, b, u, v, w: u < v,
    "arith.cmpi ule,": lambda a, b, u, v, w: u <= v,
    "arith.cmpi ugt,": lambda a, b, u, v, w: u > v,
    "arith.cmpi uge,": lambda a, b, u, v, w: u >= v,
    "math.ipowi": lambda a, b, u, v, w: pow(a, b, 1 << w) if b >= 0 else {1: 1, -1: (-1) ** (b & 1)}.get(a, 0),
    "math.absi": lambda a, b, u, v, w: abs(a),
    "math.ctpop": lambda a, b, u, v, w: u.bit_count(),
    "math.ctlz": lambda a, b, u, v, w: w - u.bit_length(),
    "math.cttz": lambda a, b, u, v, w: (u & -u).bit_length() - 1 if u else w,
}
UNARY_ON_INTEGERS = ("math.absi", "math.ctpop", "math.ctlz", "math.cttz")

# -------------------------------------------------------------------------------------------------- what floats give


def half_away(x: Array) -> Array:
    below = np.floor(np.abs(x))
    return np.copysign(below + (np.abs(x) - below >= 0.5), x)


def fused(x: float, y: float, z: float, element: str) -> float:
    """`x * y + z`, rounded once."""
    separate = float(x) * float(y) + float(z)
    if not all(map(math.isfinite, (x, y, z))):
        return separate
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return nearest(exact, element) if exact else separate


# Exact, or rounded once; on f16 and bf16 in f32, whose results are rounded again.
FLOAT_OPS: dict[str, Callable[..., Array]] = {
    "arith.addf": lambda x, y: x + y,
    "arith.subf": lambda x, y: x - y,
    "arith.mulf": lambda x, y: x * y,
    "arith.divf": lambda x, y: x / y,
    "arith.remf": lambda x, y: np.fmod(x, y),
    "arith.negf": lambda x: -x,
    "arith.maximumf": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x, y)),
    "arith.minimumf": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x < y, x, y)),
    "arith.maxnumf": lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y) | (x > y), x, y)),
    "arith.minnumf": lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y) | (x < y), x, y)),
    "math.absf": lambda x: np.abs(x),
    "math.ceil": lambda x: np.ceil(x),
    "math.copysign": lambda x, y: np.copysign(x, y),
    "math.floor": lambda x: np.floor(x),
    "math.fma": lambda x, y, z: np.vectorize(fused)(x, y, z, f"f{8 * x.itemsize}"),
    "math.round": half_away,
    "math.roundeven": lambda x: np.rint(x),
    "math.sqrt": lambda x: np.sqrt(x),
    "math.trunc": lambda x: np.trunc(x),
}
EITHER_ZERO = {"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}
"""Zeros of both signs are equal to these, and either may be the result."""

# Functions that are near what they should be.
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "math.acos": lambda x: np.arccos(x),
    "math.acosh": lambda x: np.arccosh(x),
    "math.asin": lambda x: np.arcsin(x),
    "math.asinh": lambda x: np.arcsinh(x),
    "math.atan": lambda x: np.arctan(x),
    "math.atan2": lambda x, y: np.arctan2(x, y),
    "math.atanh": lambda x: np.arctanh(x),
    "math.cbrt": lambda x: np.cbrt(x),
    "math.cos": lambda x: np.cos(x),
    "math.cosh": lambda x: np.cosh(x),
    "math.erf": lambda x: scipy.special.erf(x),
    "math.exp": lambda x: np.exp(x),
    "math.exp2": lambda x: np.exp2(x),
    "math.expm1": lambda x: np.expm1(x),
    "math.log": lambda x: np.log(x),
    "math.log10": lambda x: np.log10(x),
    "math.log1p": lambda x: np.log1p(x),
    "math.log2": lambda x: np.log2(x),
    "math.powf": lambda x, y: np.power(x, y),
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sin": lambda x: np.sin(x),
    "math.sinh": lambda x: np.sinh(x),
    "math.tan": lambda x: np.tan(x),
    "math.tanh": lambda x: np.tanh(x),
}
TOLERANCE = {"f16": 2e-3, "bf16": 2e-2, "f32": 2e-6, "f64": 1e-14}

# For each predicate whether it holds of less, equal, greater and unordered numbers.
FLOAT_COMPARISONS = {
    "false": (0, 0, 0, 0),
    "oeq": (0, 1, 0, 0),
    "ogt": (0, 0, 1, 0),
    "oge": (0, 1, 1, 0),
    "olt": (1, 0, 0, 0),
    "ole": (1, 1, 0, 0),
    "one": (1, 0, 1, 0),
    "ord": (1, 1, 1, 0),
    "ueq": (0, 1, 0, 1),
    "ugt": (0, 0, 1, 1),
    "uge": (0, 1, 1, 1),
    "ult": (1, 0, 0, 1),
    "ule": (1, 1, 0, 1),
    "une": (1, 0, 1, 1),
    "uno": (0, 0, 0, 1),
    "true": (1, 1, 1, 1),
}

# ------------------------------------------------------------------------------------------- what conversions give


def saturated(x: float, least: int, most: int) -> int:
    """The integer that a float is cut to, within the range."""
    return 0 if math.isnan(x) else least if x <= least else most if x >= most else int(x)


def nearest(number: Fraction, element: str) -> float:
    """The float nearest to an exact number, ties to even; infinite beyond the largest."""
    kind = ml_dtypes.finfo(DTYPES[element])
    magnitude, sign = abs(number), -1.0 if number < 0 else 1.0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = max(exponent - (magnitude < Fraction(2) ** exponent), int(kind.minexp))
    place = Fraction(2) ** (exponent - int(kind.nmant))
    rounded = round(magnitude / place) * place
    return math.copysign(math.inf if rounded > Fraction(float(kind.max)) else float(rounded), sign)


def rounded(x: float, element: str) -> float:
    return math.copysign(nearest(Fraction(x), element), x) if math.isfinite(x) else x


def bits_of(width: str) -> int:
    return int(width.lstrip("bfi"))


# Which pairs of types each takes, and what it gives of a signed number and the same as an unsigned one.
Conversion = tuple[Sequence[str], Sequence[str], Callable[[Any, int, str], Any]]
CONVERSIONS: dict[str, Conversion] = {
    "arith.extf": (FLOATS, FLOATS, lambda a, u, t: a),
    "arith.truncf": (FLOATS, FLOATS, lambda a, u, t: rounded(a, t)),
    "arith.extsi": (INTEGERS, INTEGERS, lambda a, u, t: a),
    "arith.extui": (INTEGERS, INTEGERS, lambda a, u, t: u),
    "arith.trunci": (INTEGERS, INTEGERS, lambda a, u, t: a),
    "arith.sitofp": (INTEGERS, FLOATS, lambda a, u, t: nearest(Fraction(a), t)),
    "arith.uitofp": (INTEGERS, FLOATS, lambda a, u, t: nearest(Fraction(u), t)),
    "arith.fptosi": (FLOATS, INTEGERS, lambda a, u, t: saturated(a, -(1 << bits_of(t) - 1), (1 << bits_of(t) - 1) - 1)),
    "arith.fptoui": (FLOATS, INTEGERS, lambda a, u, t: saturated(a, 0, (1 << bits_of(t)) - 1)),
}
WIDENS = {"arith.extf": True, "arith.extsi": True, "arith.extui": True, "arith.truncf": False, "arith.trunci": False}


def converts(name: str, source: str, target: str) -> bool:
    sources, targets, _ = CONVERSIONS[name]
    is_wider = {True: bits_of(source) < bits_of(target), False: bits_of(source) > bits_of(target)}
    return source in sources and target in targets and (name not in WIDENS or is_wider[WIDENS[name]])
