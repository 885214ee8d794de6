"""Scans whose lanes are neighbours along what is scanned: each vector is combined with what is before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon
from tenon.runtime.knobs import knobs

RANDOM = generator("scanned lanes")
UFUNCS = {"cumsum": np.add, "cumprod": np.multiply, "logcumsumexp": np.logaddexp}
NEUTRAL = {"cumsum": 0, "cumprod": 1, "logcumsumexp": -np.inf}


def elements(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    if name == "cumprod":
        return RANDOM.choice([-1, 1, 2], shape).astype(dtype)
    return (RANDOM.normal(size=shape) * 20).astype(dtype)


def accumulated(name: str, x: Any, *, exclusive: bool, reverse: bool) -> Any:
    ordered = x[..., ::-1] if reverse else x
    wide = x.dtype if x.dtype.kind == "i" else np.float64
    found = UFUNCS[name].accumulate(ordered, axis=-1, dtype=wide)
    if exclusive:
        found = np.concatenate([np.full_like(found[..., :1], NEUTRAL[name]), found[..., :-1]], axis=-1)
    return found[..., ::-1] if reverse else found


@pytest.mark.parametrize(
    ("name", "dtype", "exclusive", "reverse"),
    [
        ("cumsum", "float32", False, False),
        ("cumsum", "int8", True, True),
        ("cumprod", "int32", True, False),
        ("cumprod", "int64", False, True),
        ("logcumsumexp", "float32", True, True),
    ],
)
def test_running_results(name: str, dtype: str, exclusive: bool, reverse: bool) -> None:
    x = elements(name, dtype, (3, 83))
    f = tenon.jit(lambda x: getattr(tenon, name)(x, axis=-1, exclusive=exclusive, reverse=reverse))
    assert "vector.shuffle" in str(f.lower(x))
    with knobs.override(check_memory=True):
        found = f(x)
    wanted = accumulated(name, x, exclusive=exclusive, reverse=reverse)
    np.testing.assert_allclose(found, wanted, rtol=0 if dtype[0] == "i" else 1e-5, atol=0 if dtype[0] == "i" else 1e-4)


@pytest.mark.parametrize(("name", "reverse"), [("cummax", False), ("cummin", True)])
def test_running_extremes_and_the_latest_of_their_places(name: str, reverse: bool) -> None:
    x = RANDOM.integers(-9, 9, (2, 75)).astype(np.float32)
    x[1, 40] = np.nan
    values, places = tenon.jit(lambda x: getattr(tenon, name)(x, axis=1, reverse=reverse))(x)
    for row, found, at in zip(x, values, places, strict=True):
        best = 0.0
        for step, number in enumerate(range(len(row))[:: -1 if reverse else 1]):
            is_better = row[number] >= row[int(best)] if name == "cummax" else row[number] <= row[int(best)]
            if not step or np.isnan(row[number]) or is_better:
                best = number
            assert at[number] == best
            np.testing.assert_array_equal(found[number], row[int(best)])


@pytest.mark.parametrize("size", [7, 65])
def test_lengths_that_fill_vectors_and_those_that_do_not(size: int) -> None:
    x = RANDOM.integers(-100, 100, size).astype(np.int32)
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.cumsum(x * 3) - x)(x), np.cumsum(x * 3) - x)


def test_products_of_what_is_far_apart_are_those_of_steps() -> None:
    """What a part overflows to would make NaN of the 0 before it."""
    x = np.full(64, 1e3, np.float32)
    x[9] = 0
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.cumprod(x, axis=0))(x), np.cumprod(x))


def test_beside_reductions_of_the_same_rows_and_in_gradients() -> None:
    x = RANDOM.normal(size=(4, 53))
    f = tenon.jit(
        lambda x: tenon.cumsum(tenon.softmax(x, axis=1), axis=1) / (1 + tenon.sum(x * x, axis=1, keepdims=True))
    )
    e = np.exp(x - x.max(1, keepdims=True))
    wanted = np.cumsum(e / e.sum(1, keepdims=True), 1) / (1 + (x * x).sum(1, keepdims=True))
    np.testing.assert_allclose(f(x), wanted, rtol=1e-13)
    slope = tenon.jit(tenon.grad(lambda x: (tenon.logcumsumexp(x, axis=1) ** 2).sum()))(x)
    step = RANDOM.normal(size=x.shape)
    there, back = [(np.logaddexp.accumulate(x + h * step, 1) ** 2).sum() for h in (1e-6, -1e-6)]
    np.testing.assert_allclose((slope * step).sum(), (there - back) / 2e-6, rtol=1e-6)
