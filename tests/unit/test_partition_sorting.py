"""Sorting by partition in vectors: the runtime's sorters against NumPy, for all lengths of blocks and kinds of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.ops.order.partition_sorting import BreakTiesOp
from tenon.runtime.cpu.compile import compile_native, host_target
from tenon.runtime.cpu.load import load_objects
from tenon.runtime.cpu.sorting import keys, parts
from tenon.runtime.cpu.sorting.keys import key_sorter
from tenon.runtime.cpu.sorting.loaded import sorters_of
from tenon.runtime.cpu.sorting.names import sorter_name
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR
from tenon.runtime.cpu.threads import pool_address

Array = np.ndarray[Any, Any]
Sorter = Callable[[Array], Array]

DTYPES = [np.dtype(name) for name in ("i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8")]
SIZES = (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 256, 257, 511, 512, 513, 1000, 4097)
LONG = 65537
"""Moved into parts by threads."""

packs = pytest.mark.skipif(set(host_target().packs) != {"16", "32", "64"}, reason="this processor packs no lanes")


def sorter(address: int, dtype: np.dtype[Any], *, descending: bool = False) -> Sorter:
    """The function at `address` on arrays (rows, n), or (n,), with room behind the result that it must leave alone."""
    bits = 8 * dtype.itemsize
    word: Any = {16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}[bits]
    function = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, word, word, word
    )(address)
    highest, ones = 1 << (bits - 1), (1 << bits) - 1
    is_float = dtype.kind == "f"
    infinity = int(np.array(inf, dtype).view(f"u{dtype.itemsize}")) if is_float else ones
    inverted = (0 if dtype.kind == "u" else highest) ^ (ones if descending else 0)

    def sort(x: Array) -> Array:
        rows = x.size // max(x.shape[-1], 1)
        result = np.full(x.size + 8, 7, dtype)
        magnitude = highest - 1 if is_float else 0
        function(x.ctypes.data, result.ctypes.data, rows, x.shape[-1], magnitude, infinity, inverted)
        assert (result[x.size :] == 7).all()
        return result[: x.size].reshape(x.shape)

    return sort


@cache
def loaded(dtype: np.dtype[Any], descending: bool = False) -> Sorter:
    name = sorter_name(8 * dtype.itemsize)
    return sorter(sorters_of([name.encode()])[name], dtype, descending=descending)


def numbers(dtype: np.dtype[Any], size: int) -> Array:
    generator = np.random.default_rng(size)
    if dtype.kind == "f":
        return (100 * generator.standard_normal(size)).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, size, dtype, endpoint=True)


def kinds(dtype: np.dtype[Any], size: int) -> Iterator[tuple[str, Array]]:
    x, places = numbers(dtype, size), np.arange(size)
    yield "in random order", x
    yield "sorted", np.sort(x)
    yield "reversed", np.sort(x)[::-1].copy()
    yield "of few numbers", (places[::-1] % 5).astype(dtype)
    yield "of equal numbers", np.full(size, np.nan if dtype.kind == "f" else np.iinfo(dtype).max, dtype)
    yield "with a period", (places % 64).astype(dtype)
    yield "up and down", (np.minimum(places, size - places) % 1000).astype(dtype)
    yield "with one larger number", (places == size // 2).astype(dtype)


@packs
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_all_kinds_and_lengths(dtype: np.dtype[Any]) -> None:
    for size in (*SIZES, LONG):
        for kind, x in kinds(dtype, size):
            np.testing.assert_array_equal(loaded(dtype)(x), np.sort(x), err_msg=f"{size} {kind}")


@packs
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_largest_first(dtype: np.dtype[Any]) -> None:
    for size in (17, 600, LONG):
        x = numbers(dtype, size)
        np.testing.assert_array_equal(loaded(dtype, True)(x), np.sort(x)[::-1])


@packs
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind == "f"], ids=str)
def test_zeros_and_what_is_no_number(dtype: np.dtype[Any]) -> None:
    special = np.array([nan, -inf, 0.0, -0.0, inf, -nan, 3.0, -1.0], dtype)
    for size in (8, 300, 5000):
        x = np.resize(special, size)
        found = loaded(dtype)(x)
        np.testing.assert_array_equal(found, np.sort(x))
        zeros = found[found == 0]
        assert np.signbit(zeros).sum() == np.signbit(x[x == 0]).sum()
        assert (np.diff(np.signbit(zeros).astype(int)) <= 0).all()


@packs
@pytest.mark.parametrize("shape", [(3, 100), (40, 1000), (9, 300), (2, LONG)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_beside_each_other(shape: tuple[int, int], threads: int) -> None:
    x = numbers(np.dtype("f4"), shape[0] * shape[1]).reshape(shape)
    with tenon.num_threads(threads):
        np.testing.assert_array_equal(loaded(x.dtype)(x), np.sort(x, axis=1))


@packs
@pytest.mark.parametrize("dtype", [np.int32, np.float64], ids=lambda dtype: dtype.__name__)
def test_rows_at_the_end_of_memory(dtype: Any) -> None:
    with tenon.knobs.override(check_memory=True):
        for length in (5, 17, 33, 600):
            x = np.arange(2 * length)[::-1].reshape(2, length).astype(dtype)
            np.testing.assert_array_equal(tenon.jit(tenon.sort)(x), np.sort(x))


@packs
def test_halving_the_range_where_pivots_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_MOST_ROWS", 16)  # compiled in a third of the time
    for module in (keys, parts):
        monkeypatch.setattr(module, "steps_of", lambda code, count: count * 0)
    name = sorter_name(64)
    code = compile_native(key_sorter(64).text(host_target().triple), host_target())
    linked = load_objects([code], exports=(name,), symbols={PARALLEL_FOR: pool_address()})
    sort = sorter(linked.entry(name), np.dtype("u8"))
    for size in (1000, LONG):
        for kind, x in kinds(np.dtype("u8"), size):
            np.testing.assert_array_equal(sort(x), np.sort(x), err_msg=f"{size} {kind}")


@pytest.mark.parametrize("size", [2, 33, 1000, 40_000])
@pytest.mark.parametrize("descending", [False, True])
def test_order_and_places(size: int, descending: bool) -> None:
    """Whatever the processor."""
    x = numbers(np.dtype("f4"), size).round(-2)  # with ties
    x[::7] = nan
    _, ranks = np.unique(x, return_inverse=True)
    order = np.argsort(-ranks if descending else ranks, kind="stable")
    np.testing.assert_array_equal(tenon.argsort(x, descending=descending), order)
    np.testing.assert_array_equal(tenon.sort(x, descending=descending), x[order])


@pytest.mark.parametrize("dtype", ["f8", "i8", "u8"])
@pytest.mark.parametrize("shape", [(1, 13), (3, 700), (1, LONG)])
@pytest.mark.parametrize("descending", [False, True])
def test_places_of_elements_that_differ_in_their_lowest_bits(
    dtype: str, shape: tuple[int, int], descending: bool
) -> None:
    """Beside a place there is no room for all bits of an element; those of 0 are as far from the others as can be."""
    places = np.random.default_rng(shape[1]).integers(0, 2 * shape[1], shape)
    x = places.astype("u8").view("i8") if dtype == "f8" else places.astype(dtype)
    x = (x + np.array(1 << 62, x.dtype)).view(dtype)
    x[:, shape[1] // 2] = 0
    if dtype == "f8":
        x[:, 1], x[:, 3], x[:, 4] = nan, -0.0, -inf
    for row, found in zip(x, tenon.argsort(x, axis=1, descending=descending), strict=True):
        _, ranks = np.unique(row, return_inverse=True)
        np.testing.assert_array_equal(found, np.argsort(-ranks if descending else ranks, kind="stable"))


def test_breaking_ties() -> None:
    keys = np.random.default_rng(0).integers(0, 4000, (3, 200)).astype("u8")
    shifts = np.array([4, 0, 12], "u8")
    x = np.sort(keys >> shifts[:, None] << 8 | np.arange(200, dtype="u8"))
    expected = np.argsort(keys, axis=1, kind="stable")
    np.testing.assert_array_equal(BreakTiesOp.reference(x, keys, shifts, place_bits=8), expected)
    if "64" in host_target().packs:
        breaks = tenon.jit(lambda *given: BreakTiesOp.apply(*given, place_bits=8))
        np.testing.assert_array_equal(breaks(x, keys, shifts), expected)
    with pytest.raises(ValueError, match=r"x, keys and shifts have shapes \(3, 200\), \(3, 200\) and \(2,\) where"):
        tenon.jit(lambda *given: BreakTiesOp.apply(*given, place_bits=8))(x, keys, shifts[:2])
