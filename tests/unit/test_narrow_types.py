"""Types of 8 bits and less: their conversions against ml_dtypes and exact arithmetic, and all that moves them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenon
from tenon.dialects.types.types import NARROW, NARROW_FLOATS, NARROW_INTEGERS, numpy_dtype
from tenon.runtime.knobs import knobs

Array = np.ndarray[Any, Any]
TYPES = tuple(map(str, NARROW))
FLOATS = tuple(map(str, NARROW_FLOATS))
INTEGERS = tuple(map(str, NARROW_INTEGERS))


def dtype_of(name: str) -> np.dtype[Any]:
    return numpy_dtype(next(element for element in NARROW if str(element) == name))


def codes_of(name: str) -> Array:
    """An array of every number of a type, by its code."""
    bits = {"f4E2M1FN": 4, "i4": 4, "ui4": 4, "i2": 2, "ui2": 2}.get(name, 8)
    return np.arange(2**bits, dtype=np.uint8).view(dtype_of(name))


def codes(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)


def singles() -> Array:
    """Every f16, numbers over all of f32, and around the range of types of 8 bits, with infinities and NaN."""
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        return np.concatenate(
            [
                np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32),
                generator.integers(0, 2**32, 2**15, np.uint32).view(np.float32),
                (generator.standard_normal(2**15) * 2.0 ** generator.integers(-20, 18, 2**15)).astype(np.float32),
                # what is between powers of two
                (
                    (np.arange(512, dtype=np.uint32) << 23)[:, None]
                    + np.array([0, 1, 2**22 - 1, 2**22, 2**22 + 1], np.uint32)
                )
                .reshape(-1)
                .view(np.float32),
            ]
        )


def same(actual: Array, expected: Array) -> bool:
    """Whether arrays have one dtype and the same numbers, signs of zeros included; all NaN are alike."""
    with np.errstate(all="ignore"):
        wide, right = actual.astype(np.float64), expected.astype(np.float64)
    signs = np.signbit(wide) == np.signbit(right)
    alike = ((wide == right) & signs) | (np.isnan(wide) & np.isnan(right))
    return actual.dtype == expected.dtype and bool(alike.all())


# --- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS)
def test_every_float_is_what_ml_dtypes_says(name: str) -> None:
    given = codes_of(name)
    with np.errstate(all="ignore"):
        single = given.astype(np.float32)
        for wide in ("f32", "f16", "bf16", "f64"):
            result = tenon.cast(given, wide)
            assert same(result, single.astype(result.dtype)), wide


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_rounded_as_by_ml_dtypes(name: str) -> None:
    given = singles()
    with np.errstate(all="ignore"):
        expected = given.astype(dtype_of(name))
        half = given.astype(np.float16)
        np.testing.assert_array_equal(codes(tenon.cast(given, name)), codes(expected))
        np.testing.assert_array_equal(
            codes(tenon.cast(half, name)), codes(half.astype(np.float32).astype(dtype_of(name)))
        )


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "f8E8M0FNU"])
def test_doubles_are_rounded_once(name: str) -> None:
    """What f32 would make a tie of goes to the side on which it is; checked with fractions."""
    finite = codes_of(name).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    halfway = (finite[1:] + finite[:-1]) / 2
    given = np.concatenate([halfway * (1 + 2.0**-45), halfway * (1 - 2.0**-45)])

    def nearest(number: float) -> float:
        return min(finite, key=lambda candidate: abs(Fraction(float(candidate)) - Fraction(number)))

    expected = np.array([nearest(float(number)) for number in given])
    np.testing.assert_array_equal(tenon.cast(given, name).astype(np.float64), expected)
    with knobs.override(interpret=True):
        np.testing.assert_array_equal(tenon.cast(given, name).astype(np.float64), expected)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_and_floats_are_limited(name: str) -> None:
    bounds = ml_dtypes.iinfo(dtype_of(name))
    whole = np.arange(-300, 300)
    result = tenon.cast(whole, name)
    np.testing.assert_array_equal(codes(result), codes(whole.astype(dtype_of(name))))
    np.testing.assert_array_equal(
        result.astype(np.int64), (whole - bounds.min) % 2 ** int(bounds.bits) + int(bounds.min)
    )
    broken = np.array([*np.arange(-20, 20, 0.25), 1e9, -1e9, np.inf, -np.inf, np.nan], np.float32)
    limited = np.trunc(np.clip(np.nan_to_num(broken, nan=0.0), bounds.min, bounds.max))
    for kind in ("f32", "f64", "bf16"):
        np.testing.assert_array_equal(tenon.cast(tenon.cast(broken, kind), name).astype(np.float32), limited)
    every = codes_of(name)
    for wide in ("i8", "ui8", "i64", "f32", "f16", "i1"):
        result = tenon.cast(every, wide)
        np.testing.assert_array_equal(result, every.astype(np.int64).astype(result.dtype), wide)


@pytest.mark.parametrize("name", TYPES)
def test_compiled_code_converts_between_all_types_as_the_interpreter(name: str) -> None:
    compiled = tenon.jit(lambda x: {other: tenon.cast(x, other) for other in TYPES})
    with knobs.override(interpret=True):
        expected = compiled(codes_of(name))
    for other, ours in compiled(codes_of(name)).items():
        np.testing.assert_array_equal(codes(ours), codes(expected[other]), other)


def test_casts_that_lose_something_stay() -> None:
    x = singles()[:4096]
    there_and_back = tenon.jit(lambda x: tenon.cast(tenon.cast(x, "f8E4M3FN"), "f32"))
    assert same(there_and_back(x), tenon.cast(tenon.cast(x, "f8E4M3FN"), "f32"))
    # From f8 by way of f32 is from f8, and f8 by way of i4 is not.
    codes_ = codes_of("f8E5M2")
    through = tenon.jit(lambda x: (tenon.cast(tenon.cast(x, "f32"), "f16"), tenon.cast(tenon.cast(x, "i4"), "f16")))
    assert str(through.trace(codes_)).count("tenon.cast") == 4
    exact, limited = through(codes_)
    assert same(exact, tenon.cast(codes_, "f16"))
    assert same(limited, tenon.cast(tenon.cast(codes_, "i4"), "f16"))


def test_bits_of_types_of_one_width() -> None:
    every = np.arange(256, dtype=np.uint8)
    for name in ("f8E4M3FN", "f8E5M2", "f8E8M0FNU"):
        floats = tenon.bitcast(every, name)
        np.testing.assert_array_equal(codes(floats), every)
        np.testing.assert_array_equal(tenon.bitcast(floats, "ui8"), every)
    np.testing.assert_array_equal(codes(tenon.bitcast(codes_of("f4E2M1FN"), "i4")), np.arange(16))
    for given, name in ((codes_of("i4"), "i8"), (codes_of("i4"), "i2"), (every, "i4")):
        with pytest.raises(tenon.InferenceError, match=r"tenon.bitcast: dtype is .*has not as many bits as"):
            tenon.bitcast(given, name)


# --- what does not look at elements -----------------------------------------------------------------------------------


def moved(np_or_tenon: Any, x: Any, places: Any, scattered: Callable[..., Any]) -> list[Any]:
    return [
        x.reshape(4, 3).T,
        np_or_tenon.concatenate((x, x[1:]), 0)[1:4],
        np_or_tenon.stack((x, x), 1),
        np_or_tenon.flip(x, 0),
        np_or_tenon.tile(x, (2, 1)),
        np_or_tenon.where(places > 0, x, x[0]),
        np_or_tenon.broadcast_to(x[:1], (5, 4)),
        np_or_tenon.squeeze(np_or_tenon.expand_dims(x, 0), 0),
        *np_or_tenon.split(x, 2, 1),
        x[places[0]],
        scattered(x),
    ]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_elements_are_moved_as_they_are(name: str, interpret: bool) -> None:
    pool = codes_of(name)
    x = np.resize(pool[::-1], (3, 4))
    places = np.array([[0, 2, 1, 0], [1, 0, 0, 2], [2, 2, 1, 1]])

    def in_numpy(x: Array) -> Array:
        result = x.copy()
        result[1] = x[0]
        return result

    def in_tenon(x: Any) -> Any:
        return tenon.scatter_nd(x, np.array([[1]]), x[:1])

    expected = moved(np, x, places, in_numpy)
    with knobs.override(interpret=interpret):
        results = tenon.jit(lambda x: moved(tenon, x, places, in_tenon))(x)
        padded = tenon.pad(x, (1, 0), (0, 2), value=1)
    for result, right in zip(results, expected, strict=True):
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(codes(result), codes(right))
    around = np.ones((4, 6), np.float32).astype(x.dtype)
    around[1:, :4] = x
    np.testing.assert_array_equal(codes(padded), codes(around))


@pytest.mark.parametrize("name", ["f8E5M2", "f4E2M1FN", "i4", "ui2"])
def test_loops_and_branches_carry_them(name: str) -> None:
    x = np.resize(codes_of(name), (3, 4))

    @tenon.jit
    def flipped(x: Any, times: Any) -> Any:
        return tenon.while_loop(lambda c: c[0] < times, lambda c: (c[0] + 1, tenon.flip(c[1], axis=0)), (0, x))[1]

    @tenon.jit
    def chosen(x: Any, which: Any) -> Any:
        return tenon.cond(which, lambda x: x, lambda x: tenon.flip(x, axis=1), x)

    @tenon.jit
    def scanned(x: Any) -> Any:
        return tenon.scan(lambda carried, row: (row, carried), x[0], x)

    np.testing.assert_array_equal(codes(flipped(x, 3)), codes(x[::-1]))
    np.testing.assert_array_equal(codes(chosen(x, False)), codes(x[:, ::-1]))
    last, rows = scanned(x)
    np.testing.assert_array_equal(codes(last), codes(x[2]))
    np.testing.assert_array_equal(codes(rows), codes(x[[0, 0, 1]]))


# --- as arguments -----------------------------------------------------------------------------------------------------


def test_weights_of_eight_bits() -> None:
    generator = np.random.default_rng(0)
    x, weight = (generator.standard_normal(shape).astype(np.float32) for shape in ((5, 32), (32, 7)))
    stored = tenon.cast(weight, "f8E4M3FN")
    expected = x @ stored.astype(np.float32)

    @tenon.jit
    def layer(weight: Any, x: Any) -> Any:
        return x @ tenon.cast(weight, "f32")

    for _ in range(3):  # by what compiles, and by the code that calls what is compiled
        np.testing.assert_allclose(layer(stored, x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer(np.asfortranarray(stored), x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.freeze(stored)(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        tenon.grad(lambda x: layer(stored, x).sum())(x), np.ones((5, 7)) @ stored.T, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(tenon.vmap(lambda x: layer(stored, x))(x), expected, rtol=1e-5, atol=1e-5)
    out = np.zeros((32, 7), stored.dtype)
    assert tenon.jit(lambda w: tenon.cast(w, "f8E4M3FN"))(weight, out=out) is out
    np.testing.assert_array_equal(codes(out), codes(stored))


def test_one_program_for_all_sizes() -> None:
    there = tenon.jit(lambda x: tenon.cast(x[::-1], "i4"), dynamic={"x": ("n",)})
    for size in (1, 5, 40):
        x = np.arange(size, dtype=np.float32) - 4
        np.testing.assert_array_equal(there(x).astype(np.float32), np.clip(x[::-1], -8, 7))


def test_no_gradient_flows_through_them() -> None:
    x = np.ones(3, np.float32)
    rounded = tenon.grad(lambda x: (x * tenon.cast(tenon.cast(x, "f8E4M3FN"), "f32")).sum())
    np.testing.assert_array_equal(rounded(x), np.ones(3))
    with pytest.raises(TypeError, match="nothing floating-point to differentiate"):
        tenon.grad(lambda x: tenon.cast(x, "f32").sum())(tenon.cast(x, "f8E4M3FN"))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x + x, r"tenon.add: dtype of x is {0} where one of f16, .* is needed; {0} is a storage type: cast"),
        (lambda x: tenon.exp(x), r"tenon.exp: dtype of x is {0} where .*storage type: cast first \(tenon.cast\)"),
        (lambda x: x @ x, r"tenon.matmul: dtype of \w is {0} where .*: cast first"),
        (lambda x: tenon.sum(x), r"tenon.sum: dtype of x is {0} where .*: cast first"),
        (lambda x: x == x, r"tenon.equal: dtype of x is {0} where .*: cast first"),
        (lambda x: tenon.sort(x), r"tenon.sort: dtype of x is {0} where .*: cast first"),
        (lambda x: tenon.concatenate((x, tenon.cast(x, "f32"))), "tenon.concatenate: dtypes {0} and f32 do not meet"),
        (lambda x: tenon.scatter_nd(x, np.array([[0]]), x[:1], reduction="add"), r"reduction is 'add', and {0} of x"),
    ],
)
@pytest.mark.parametrize("name", ["f8E4M3FN", "i4"])
def test_nothing_is_computed_in_them(function: Callable[..., Any], expected: str, name: str) -> None:
    x = np.resize(codes_of(name), (3, 3))
    with pytest.raises((TypeError, tenon.InferenceError), match=expected.format(name)):
        tenon.jit(function)(x)


def test_literals() -> None:
    x = tenon.cast(np.array([1, -2]), "i4")
    np.testing.assert_array_equal(tenon.select(np.array([True, False]), x, 7).astype(int), [1, 7])
    with pytest.raises(OverflowError, match=r"tenon.select: y is 8, which does not fit into i4"):
        tenon.select(True, x, 8)
    with pytest.raises(TypeError, match=r"tenon.select: y is 1.5, which i4 does not hold"):
        tenon.select(True, x, 1.5)
    np.testing.assert_array_equal(tenon.full((2,), 1.5, "f8E5M2").astype(float), [1.5, 1.5])


def test_names_of_dtypes() -> None:
    for name in TYPES:
        dtype = dtype_of(name)
        x = np.ones(2, np.float32)
        assert tenon.cast(x, dtype).dtype == tenon.cast(x, dtype.name).dtype == tenon.cast(x, name).dtype == dtype
    with pytest.raises(TypeError, match=r"dtype float8_e4m3 is not one of f16, .*f8E4M3FN"):
        tenon.jit(lambda x: x)(np.ones(2, ml_dtypes.float8_e4m3))
