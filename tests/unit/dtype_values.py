"""Values at which dtypes differ, and what conversion makes of them, in NumPy and in Python's integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tenon.dialects.types.types import element_type, is_float, numpy_dtype

Array = np.ndarray[Any, Any]


def integers_of(dtype: np.dtype[Any]) -> list[int]:
    """The ends of the range, what lies beside them and beside powers of two, and numbers that floats must round."""
    held = np.iinfo(dtype)
    found = {0, 1, -1, 2, -2, 7, 100}
    for exponent in range(dtype.itemsize * 8 + 1):
        found |= {sign * (2**exponent + offset) for sign in (1, -1) for offset in (-1, 0, 1)}
        # Halfway between two numbers of 8, 11, 24 and 53 bits, and one beside it.
        for bits in (8, 11, 24, 53):
            if exponent > bits:
                halfway = (2**exponent) + 2 ** (exponent - bits)
                found |= {sign * (halfway + offset) for sign in (1, -1) for offset in (-1, 0, 1)}
    return sorted(number for number in found if held.min <= number <= held.max)


def floats_of(dtype: np.dtype[Any]) -> Array:
    """The ends of all ranges and what lies beside them, ties of narrower floats, subnormal numbers, NaN."""
    special = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.999,
        -0.999,
        1.5,
        -1.5,
        2.5,
        1e-7,
        -1e-7,
        6e-8,
        3e-8,
        1e-40,
        np.inf,
        -np.inf,
        np.nan,
    ]
    powers = [sign * 2.0**exponent for sign in (1, -1) for exponent in (7, 8, 15, 16, 31, 32, 63, 64, 127)]
    wide = np.array([*special, *powers], np.float64)
    ties = [
        (1 + 2.0**-bits) * (1 + offset) * 2.0**exponent
        for bits in (8, 11, 24)
        for offset in (0.0, 2.0**-52, -(2.0**-52), 2.0**-24, -(2.0**-24), 2.0**-30)
        for exponent in (-30, 0, 3, 15, 60, 100)
    ]
    wide = np.concatenate([wide, ties, np.negative(ties), [65504.0, 65519.99, 65520.0, 3.3895e38, 3.4e38, 2**-133]])
    with np.errstate(all="ignore"):
        values = rounded(wide, dtype)
        beside = [np.nextafter(values, dtype.type(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([values, *beside])


def edge_values(name: str) -> Array:
    dtype = numpy_dtype(element_type(name))
    if name == "i1":
        return np.array([False, True])
    return floats_of(dtype) if is_float(element_type(name)) else np.array(integers_of(dtype), dtype)


def rounded(exact: Array, dtype: np.dtype[Any]) -> Array:
    """Float64 numbers rounded to `dtype` once, to nearest, ties to even."""
    if dtype != ml_dtypes.bfloat16:
        with np.errstate(all="ignore"):
            return exact.astype(dtype)
    # By the spacing of numbers with 8 bits at that exponent, not below that of the subnormal ones.
    _, exponent = np.frexp(exact)
    spacing = np.ldexp(1.0, np.maximum(exponent - 8, -133))
    with np.errstate(all="ignore"):
        return (np.rint(exact / spacing) * spacing).astype(np.float32).astype(dtype)


def integer_rounded(number: int, dtype: np.dtype[Any]) -> Any:
    """A Python integer rounded to a float dtype once, to nearest, ties to even."""
    bits = {2: 11, 4: 24, 8: 53}[dtype.itemsize] if dtype != ml_dtypes.bfloat16 else 8
    excess = max(abs(number).bit_length() - bits, 0)
    quotient, rest = divmod(abs(number), 1 << excess)
    half = (1 << excess) >> 1
    quotient += excess > 0 and (rest > half or (rest == half and quotient % 2 == 1))
    with np.errstate(all="ignore"):
        return np.float64((quotient << excess) * (-1 if number < 0 else 1)).astype(dtype)


def converted(values: Array, dtype: np.dtype[Any]) -> Array:
    """What converting means: NumPy's rule where it has one; floats saturate on the way to integers, NaN becomes 0."""
    source_is_float = values.dtype.kind == "f" or values.dtype == ml_dtypes.bfloat16
    target_is_float = dtype.kind == "f" or dtype == ml_dtypes.bfloat16
    if dtype == np.bool_:
        return values != 0
    if source_is_float and target_is_float:
        return rounded(values.astype(np.float64), dtype)
    if source_is_float:
        held = np.iinfo(dtype)
        numbers = [0 if np.isnan(x) else int(np.clip(x, -1e300, 1e300)) for x in values.astype(np.float64)]
        return np.array([min(max(number, int(held.min)), int(held.max)) for number in numbers], dtype)
    if target_is_float and values.dtype != np.bool_:
        return np.array([integer_rounded(int(x), dtype) for x in values], dtype)
    return values.astype(dtype)
