"""Lanes that read at indices of their own: kernels that compute functions beside a gather stay in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import generator

import tenon
from tenon.runtime.knobs import knobs

RANDOM = generator("gathered lanes")


def heavy(x: Any, table: Any, places: Any) -> Any:
    return tenon.log1p(tenon.exp(x)) * table[places] + tenon.tanh(table[places])


def wanted(x: Any, table: Any, places: Any) -> Any:
    inside = np.clip(np.where(places < 0, places + len(table), places), 0, len(table) - 1)
    return np.log1p(np.exp(x)) * table[inside] + np.tanh(table[inside])


@pytest.mark.parametrize("size", [1, 7, 8, 17, 64])
@pytest.mark.parametrize("places_dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lanes_read_what_numpy_reads(dtype: str, places_dtype: str, size: int) -> None:
    x, table = RANDOM.normal(size=size).astype(dtype), RANDOM.normal(size=20).astype(dtype)
    places = RANDOM.integers(0 if places_dtype == "uint8" else -25, 25, size).astype(places_dtype)
    reference = wanted(x.astype(np.float64), table.astype(np.float64), places.astype(np.int64))
    rtol = 1e-5 if dtype == "float32" else 1e-13
    with knobs.override(check_memory=True):
        np.testing.assert_allclose(tenon.jit(heavy)(x, table, places), reference, rtol=rtol, atol=rtol)


def test_examples_read_their_own_tables_and_gradients_follow() -> None:
    x, tables = RANDOM.normal(size=(5, 19)), RANDOM.normal(size=(5, 6))
    places = RANDOM.integers(-8, 8, (5, 19))
    batched = tenon.jit(tenon.vmap(heavy))
    reference = np.stack([wanted(*row) for row in zip(x, tables, places, strict=True)])
    np.testing.assert_allclose(batched(x, tables, places), reference, rtol=1e-13, atol=1e-13)
    slope = tenon.jit(tenon.grad(lambda t: (tenon.vmap(heavy)(x, t, places) ** 2).sum()))(tables)
    step = RANDOM.normal(size=tables.shape)
    there, back = [(batched(x, tables + h * step, places) ** 2).sum() for h in (1e-6, -1e-6)]
    np.testing.assert_allclose((slope * step).sum(), (there - back) / 2e-6, rtol=1e-6)


def test_a_donated_table_is_not_overwritten_while_lanes_read_it() -> None:
    order = RANDOM.permutation(40)
    x = RANDOM.normal(size=40)
    found = tenon.jit(lambda x, order: tenon.exp(x) + x[order], donate="x")(x.copy(), order)
    np.testing.assert_allclose(found, np.exp(x) + x[order], rtol=1e-14)


@pytest.mark.parametrize("function", [lambda x, taken: tenon.exp(x) + taken, lambda x, taken: (x + taken) % 0.7])
def test_functions_beside_a_gather_are_computed_in_vectors(function: Any) -> None:
    x, table, places = RANDOM.normal(size=64), RANDOM.normal(size=20), RANDOM.integers(0, 20, 64)
    jitted = tenon.jit(lambda x, table, places: function(x, table[places]))
    assert "vector.gather" in str(jitted.lower(x, table, places))
    np.testing.assert_allclose(jitted(x, table, places), np.asarray(function(x, table[places])), atol=1e-15)
    # places that differ in another dimension than the last are left to LLVM, unless there are functions
    rows = np.stack([x, x, x])
    assert "vector." not in str(tenon.jit(tenon.gather_elements).lower(rows, places[None] % 3))


def test_what_is_read_may_say_where() -> None:
    order = RANDOM.permutation(40).astype("int32")
    np.testing.assert_array_equal(tenon.jit(lambda x: tenon.gather(x, x) + x)(order), order[order] + order)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "bool"])
@pytest.mark.parametrize("count", [3, 70, 1000])
def test_computed_places_of_several_rows_stay_near(count: int, dtype: str) -> None:
    def taken(x: Any, at: Any) -> Any:
        places = tenon.floor(at * at * 30.0 - 4.0).astype("int32")
        return tenon.take_along_axis(x, tenon.expand_dims(places, axis=1), axis=2)

    x, at = (RANDOM.normal(size=(4, 5, 23)) * 9).astype(dtype), RANDOM.normal(size=(4, count)).astype("f4")
    places = np.floor(at * at * np.float32(30) - np.float32(4)).astype(np.int64)
    places = np.clip(np.where(places < 0, places + 23, places), 0, 22)
    with knobs.override(check_memory=True):
        np.testing.assert_array_equal(tenon.jit(taken)(x, at), np.take_along_axis(x, places[:, None], axis=2))
    if count == 1000:  # places are in no memory
        moved = tenon.jit(taken).compile(x, at).memory().moved
        assert (
            sum(kernel.read + kernel.written for kernel in moved) == x.nbytes + at.nbytes + x.itemsize * 4 * 5 * count
        )


def test_places_of_any_number_are_lanes() -> None:
    jitted = tenon.jit(lambda table, at: table[at * 3 % 41 - 4] + 1, dynamic={"at": ("n",)})
    table = RANDOM.normal(size=37).astype("f4")
    for count in (1, 15, 33):
        at = RANDOM.integers(0, 50, count)
        assert "vector.gather" in str(jitted.lower(table, at))
        places = at * 3 % 41 - 4
        with knobs.override(check_memory=True):
            np.testing.assert_array_equal(
                jitted(table, at), table[np.minimum(np.where(places < 0, places + 37, places), 36)] + 1
            )
