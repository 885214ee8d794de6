"""Samples over all dtypes: integers of every width and sign at their extremes, pairs that are promoted, conversions.

The oracles of arithmetic compute on Python's integers, which have no width, and wrap the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from dtype_values import converted, edge_values
from sample import BF16, F16, F32, F64, INF, NAN, SPECIAL, Array, add, integers, numbers, truths
from sample import FLOATS as FLOAT_DTYPES

from tenon.dialects.types.types import (
    BOOLS,
    FLOATS,
    INTEGERS,
    NARROW,
    NARROW_INTEGERS,
    f32,
    numpy_dtype,
    significant_bits,
)

DTYPES = [numpy_dtype(element) for element in INTEGERS]


def extremes(dtype: np.dtype[Any]) -> Array:
    """Both ends of the range and what lies beside them, what lies around zero, and numbers between."""
    held = np.iinfo(dtype)
    low, high = int(held.min), int(held.max)
    found = {low, low + 1, low // 2, 0, 1, 2, 3, 7, 8, 64, high // 2, high // 2 + 1, high - 1, high, high // 3}
    return np.array(sorted(found | {-n for n in (1, 2, 3, 7, 8) if low < 0}), dtype)


def pairs(dtype: np.dtype[Any], other: np.dtype[Any] | None = None) -> list[Array]:
    """Each of the extremes with each other, as a column and a row."""
    return [extremes(dtype)[:, None], extremes(dtype if other is None else other)]


def wrapped(number: int, dtype: np.dtype[Any]) -> int:
    held = np.iinfo(dtype)
    return (number - int(held.min)) % (1 << 8 * dtype.itemsize) + int(held.min)


def on_integers(function: Callable[..., int], dtype: np.dtype[Any]) -> Callable[..., Array]:
    """An oracle: `function` of Python's integers for each element, wrapped to `dtype`."""

    def oracle(*arrays: Array) -> Array:
        operands = np.broadcast_arrays(*arrays)
        numbers = [wrapped(function(*map(int, xs)), dtype) for xs in zip(*(a.flat for a in operands), strict=True)]
        return np.array(numbers, dtype).reshape(operands[0].shape)

    return oracle


def truncated(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int) -> int:
    if y < 0:
        return {1: 1, -1: (-1) ** (y & 1)}.get(x, 0)
    return pow(x, y, 1 << 128)  # what lies above is wrapped away


def shift_left(width: int) -> Callable[[int, int], int]:
    return lambda x, y: x << y if 0 <= y < width else 0


def shift_right(width: int) -> Callable[[int, int], int]:
    return lambda x, y: x >> (y if 0 <= y < width else width)


def shift_right_logical(width: int) -> Callable[[int, int], int]:
    return lambda x, y: (x % (1 << width)) >> y if 0 <= y < width else 0


UNARY: dict[str, Callable[[int], int]] = {
    "negative": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "square": lambda x: x * x,
    "floor": lambda x: x,
    "ceil": lambda x: x,
    "round": lambda x: x,
    "trunc": lambda x: x,
    "bitwise_not": lambda x: ~x,
    "bitwise_count": int.bit_count,
    "identity": lambda x: x,
}
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: 0 if y == 0 else x // y,
    "remainder": lambda x, y: 0 if y == 0 else x % y,
    "truncate_divide": truncated,
    "fmod": lambda x, y: 0 if y == 0 else x - y * truncated(x, y),
    "power": power,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}
SHIFTS = {"shift_left": shift_left, "shift_right": shift_right, "shift_right_logical": shift_right_logical}
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")

for dtype in DTYPES:
    width = 8 * dtype.itemsize
    for name, function in UNARY.items():
        add(name, [extremes(dtype)], on_integers(function, dtype))
    # Python counts the bits of the magnitude; the remainder is the two's complement.
    add("population_count", [extremes(dtype)],
        on_integers(lambda x, width=width: (x % (1 << width)).bit_count(), dtype))  # fmt: skip
    for name, function in BINARY.items():
        add(name, pairs(dtype), on_integers(function, dtype))
    for name, of_width in SHIFTS.items():
        add(name, [extremes(dtype)[:, None], np.arange(-1 if dtype.kind == "i" else 0, width + 2).astype(dtype)],
            on_integers(of_width(width), dtype))  # fmt: skip
    for name in (*COMPARISONS, *LOGIC):
        add(name, pairs(dtype), getattr(np, name))
    add("logical_not", [extremes(dtype)], np.logical_not)
    add("clip", [extremes(dtype), dtype.type(2), extremes(dtype)[-3]], np.clip)
    add("select", [truths("s", (5,)), extremes(dtype)[:5], extremes(dtype)[-5:]], np.where)
    add("divide", [integers("d", (9,), dtype, 0, 99), integers("e", (9,), dtype, 1, 9)],
        lambda x, y: x.astype(F64) / y.astype(F64))  # fmt: skip
    add("sqrt", [integers("r", (9,), dtype, 0, 99)], lambda x: np.sqrt(x.astype(F64)))
    for name in ("isnan", "isinf"):
        add(name, [extremes(dtype)], lambda x: np.zeros(x.shape, np.bool_))

# --- quotients and truths of floats ----------------------------------------------------------------------------------

QUOTIENTS: dict[str, Callable[[Array, Array], Array]] = {
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "truncate_divide": lambda x, y: np.trunc(x / y),
    "fmod": np.fmod,
}
for name, quotient in QUOTIENTS.items():
    # Quarters, which f16 and bf16 hold.
    x, y = integers("x", (5, 7), F64, -40, 40) / 4, integers("y", (7,), F64, 1, 9) / 4
    for dtype in FLOAT_DTYPES:
        add(name, [x.astype(dtype), y.astype(dtype)], quotient)
        add(name, [x.astype(dtype), np.negative(y).astype(dtype)], quotient)
    add(name, [SPECIAL[:, None], SPECIAL], quotient, "special")
    add(name, [np.zeros((2, 0), F32), np.float32(2)], quotient)
    if name in ("remainder", "fmod"):
        add(
            name, [numbers("x", (6,), F32, 2.1, 2.9), numbers("y", (6,), F32, 0.9, 1.04)], quotient, differentiable=True
        )
for dtype in FLOAT_DTYPES:
    special = SPECIAL.astype(dtype)
    add("isinf", [special], np.isneginf, detect_positive=False)
    add("isinf", [special], np.isposinf, detect_negative=False)
    add("isinf", [special], lambda x: np.zeros(x.shape, np.bool_), detect_negative=False, detect_positive=False)
add("subtract", [np.float32(0.0), SPECIAL], lambda x, y: x - y)
add("add", [SPECIAL, np.float32(0.0)], lambda x, y: x + y)

# --- reductions -------------------------------------------------------------------------------------------------------


def reduced(function: Callable[[int, int], int], start: int, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """An oracle: the rows of a matrix combined in Python's integers."""

    def oracle(x: Array) -> Array:
        totals: list[int] = []
        for row in x.tolist():
            total = start
            for number in row:
                total = function(total, number)
            totals.append(wrapped(total, dtype))
        return np.array(totals, dtype)

    return oracle


def shuffled(dtype: np.dtype[Any], rows: int, columns: int) -> Array:
    """A matrix of extremes in no order."""
    return np.random.default_rng(5).choice(extremes(dtype), (rows, columns))


for dtype in DTYPES:
    add("sum", [shuffled(dtype, 3, 37)], reduced(lambda x, y: x + y, 0, dtype), axis=(1,))
    add("prod", [shuffled(dtype, 3, 5)], reduced(lambda x, y: x * y, 1, dtype), axis=(1,))
    add("sum", [np.zeros((2, 0), dtype)], reduced(lambda x, y: x + y, 0, dtype), axis=(1,))
    for name in ("max", "min"):
        add(name, [shuffled(dtype, 3, 37)], lambda x, name=name: getattr(x, name)(axis=1), axis=(1,))
        add(name, [shuffled(dtype, 37, 3)], lambda x, name=name: getattr(x, name)(axis=0), axis=(0,))
        add(f"arg{name}", [shuffled(dtype, 3, 37)], lambda x, name=name: getattr(x, f"arg{name}")(axis=1), axis=1)
    for name in ("any", "all"):
        add(
            name,
            [np.array([[0, 0], [0, 64], [3, 127]], dtype)],
            lambda x, name=name: getattr(x, name)(axis=1),
            axis=(1,),
        )
    add("mean", [integers("m", (3, 7), dtype, 0, 100)], lambda x: x.mean(axis=1, dtype=F64), axis=(1,))

# --- moving elements, and indices -------------------------------------------------------------------------------------

for dtype in DTYPES:
    x = extremes(dtype)
    add("constant", [], lambda x=x: x, value=x)
    add("iota", [], lambda dtype=dtype: np.arange(5).astype(dtype), shape=(5,), dtype=dtype)
    add("concatenate", [(x, x[:3])], lambda parts: np.concatenate(parts))
    add("stack", [(x, x[::-1].copy())], lambda parts: np.stack(parts))
    add("flip", [x], lambda x: x[::-1], axis=(0,))
    add("transpose", [pairs(dtype)[0]], np.transpose)
    add("reshape", [x[:6]], lambda x: x.reshape(2, 3), shape=(2, 3))
    add("broadcast_to", [x], lambda x: np.broadcast_to(x, (2, len(x))), shape=(2, len(x)))
    add("slice", [x], lambda x: x[1:5], starts=(1,), limits=(5,))
    add("gather", [x, np.array([[0, 2], [3, 1]], dtype)], lambda x, i: x[i])
    add("gather", [numbers("g", (4, 2)), np.array([0, 3, np.iinfo(dtype).max], dtype)],
        lambda x, i: x[np.minimum(i, 3).astype(np.int64)])  # fmt: skip
    add("scatter_add", [np.zeros(4, dtype), np.array([1, 1, 3], dtype), x[-3:]],
        lambda x, i, u: np.array([0, wrapped(int(u[0]) + int(u[1]), u.dtype), 0, u[2]], u.dtype))  # fmt: skip
    add("embedding", [numbers("w", (4, 2)), np.array([2, 0], dtype)], lambda w, i: w[i])
    add("one_hot", [np.array([0, 2, np.iinfo(dtype).max], dtype)],
        lambda i: (i[:, None] == np.arange(3)).astype(F64), num_classes=3)  # fmt: skip
    add("invert_permutation", [np.array([2, 0, 1], dtype)], lambda i: np.argsort(i).astype(i.dtype))
    add("matmul", [integers("a", (3, 4), dtype, 0, 100), integers("b", (4, 2), dtype, 0, 100)], np.matmul)

# --- dtypes that meet -------------------------------------------------------------------------------------------------

I8, I16, I32, I64, U8, U16, U32, U64 = DTYPES
BOOL = np.dtype(np.bool_)
MEETING: Sequence[tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]] = (
    (U8, I8, I16),
    (U8, I16, I16),
    (U16, I8, I32),
    (U16, I16, I32),
    (U32, I32, I64),
    (U32, I64, I64),
    (U8, U64, U64),
    (I8, I64, I64),
)
for first, second, together in MEETING:
    for name in ("add", "multiply", "floor_divide", "maximum", "bitwise_xor"):
        add(name, pairs(first, second), on_integers(BINARY[name], together))
        add(name, pairs(second, first), on_integers(BINARY[name], together))
    add("less", pairs(first, second), lambda x, y: x.astype(object) < y.astype(object))
    add("concatenate", [(extremes(first), extremes(second))],
        lambda parts, together=together: np.concatenate([part.astype(together) for part in parts]))  # fmt: skip
for first, second in (
    (U64, I64),
    (U64, I8),
    (U8, F16),
    (U16, BF16),
    (U64, F32),
    (I64, F64),
):
    x, y = integers("p", (7,), first, 0, 99), integers("q", (7,), I8, 1, 9).astype(second)
    add("multiply", [x, y], lambda x, y: x.astype(F64) * y.astype(F64))
    add("add", [y, x], lambda x, y: x.astype(F64) + y.astype(F64))
add("add", [truths("t", (9,)), integers("u", (9,), U8, 0, 99)], lambda x, y: x.astype(U8) + y)
add("power", [numbers("f", (6,), F32, 0.5, 2.0), np.array([0, 1, 2, 3, 7, 255], U8)], lambda x, y: x ** y.astype(F64))
add(
    "power", [numbers("f", (6,), F64, -2.0, 2.0), np.array([0, -1, 2, -3, 7, 20], I64)], lambda x, y: x ** y.astype(F64)
)

# --- conversion -------------------------------------------------------------------------------------------------------

for source in (*BOOLS, *INTEGERS, *FLOATS):
    values = edge_values(str(source))
    for target in (*BOOLS, *INTEGERS, *FLOATS):
        to = numpy_dtype(target)

        def exactly(_: Array, values: Array = values, to: np.dtype[Any] = to) -> Array:
            result = converted(values, to)
            return result.astype(F64) if to in (F16, BF16, F32, F64) else result

        add("cast", [values], exactly, "edges", dtype=target, rtol=0.0, atol=0.0)

for source, target in (
    (F16, I16),
    (BF16, U16),
    (F32, I32),
    (F32, U32),
    (F64, U64),
    (F64, I64),
    (F16, BF16),
    (BF16, F16),
    (I8, U8),
):
    values = np.arange(0, 2**15, 37).astype(np.uint64)
    values = values << np.uint64(8 * source.itemsize - 15) if source.itemsize > 1 else values & np.uint64(0xFF)
    for before, after in ((source, target), (target, source)):
        x = values.astype(f"u{before.itemsize}").view(before)
        with np.errstate(invalid="ignore"):
            x = x[np.isfinite(x.astype(F64)) & np.isfinite(x.view(after).astype(F64))]
        expected = x.view(after).astype(F64) if after in (F16, BF16, F32, F64) else x.view(after)
        add("bitcast", [x], lambda _, expected=expected: expected, dtype=after, rtol=0.0, atol=0.0)

# --- types of 8 bits and less -----------------------------------------------------------------------------------------

for element in NARROW:
    dtype, bits = numpy_dtype(element), significant_bits(element)
    every = np.arange(2**bits, dtype=np.uint8).view(dtype)
    x = np.array([-1000, -7.5, -3, -1.5, -0.0, 0, 1e-4, 0.3, 1, 1.25, 2.5, 5, 100, 500, INF, NAN], F32)
    if element in NARROW_INTEGERS:
        bounds = ml_dtypes.iinfo(dtype)
        limited = (
            np.trunc(np.nan_to_num(np.clip(x, float(bounds.min), float(bounds.max)))).astype(np.int8).astype(dtype)
        )
    else:
        with np.errstate(all="ignore"):
            limited = x.astype(dtype)
    add("cast", [every], lambda x: x.astype(F32).astype(F64), dtype=f32)
    add("cast", [x], lambda x, limited=limited: limited, dtype=element)
    add("flip", [every], lambda x: x[::-1], axis=(0,))
