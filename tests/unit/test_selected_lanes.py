"""Selections (argmax) whose lanes look for the best by themselves: the first of equals, and numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_kernels import interpret, parse, to_loops
from xdsl.dialects import vector

import tenon
from tenon.lowering.kernels.obstacles import vector_obstacle
from tenon.lowering.kernels.statement import kernels_of, read_kernel

FLOATS = """%0 = arith.cmpf {no_better}, %e, %best : f32
    %true = arith.constant true
    %1 = arith.xori %0, %true : i1
    %2 = arith.cmpf oeq, %best, %best : f32
    %better = arith.andi %1, %2 : i1"""
INTEGERS = "%better = arith.cmpi {less}, %e, %best : i32"


def selection(rows: int, columns: int, compare: str, element: str, schedule: str = "") -> str:
    x, v, o = f"memref<{rows}x{columns}x{element}>", f"memref<{rows}x{element}>", f"memref<{rows}xi64>"
    attributes = f" attrs = {{schedule = {{{schedule}}}}}" if schedule else ""
    return f"""func.func private @k(%x: {x}, %v: {v}, %o: {o}) attributes {{kernel}} {{
  linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
      ins(%x : {x}) outs(%v, %o : {v}, {o}){attributes} {{
  ^bb0(%e: {element}, %best: {element}, %where: i64):
    {compare}
    %value = arith.select %better, %e, %best : {element}
    %index = linalg.index 1 : index
    %number = arith.index_cast %index : index to i64
    %place = arith.select %better, %number, %where : i64
    linalg.yield %value, %place : {element}, i64
  }}
  func.return
}}
"""


@settings(max_examples=12)
@given(
    rows=st.integers(1, 3),
    columns=st.integers(1, 70),
    width=st.sampled_from([2, 4, 8, 16]),
    unroll=st.integers(1, 4),
    seed=st.integers(0, 99),
    numbers=st.integers(1, 4),
)
def test_the_first_of_the_best_is_found(
    rows: int, columns: int, width: int, unroll: int, seed: int, numbers: int
) -> None:
    x = np.random.default_rng(seed).choice(
        np.array([1, -np.inf, np.nan, 2], np.float32)[:numbers], size=(rows, columns)
    )
    schedule = f"vector = 1 : i64, width = {width} : i64, unroll = {unroll} : i64"
    module = to_loops(parse(selection(rows, columns, FLOATS.format(no_better="ole"), "f32", schedule)), None)
    initial = [np.full(rows, -np.inf, np.float32), np.zeros(rows, np.int64)]
    value, place = interpret(module, "k", [x], initial)
    np.testing.assert_array_equal(place, x.argmax(axis=1))
    np.testing.assert_array_equal(value, x[np.arange(rows), place])


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("columns", [16, 100, 257])
def test_integers_and_what_was_there_before(columns: int, bits: int) -> None:
    x = np.random.default_rng(bits).integers(0, 9, (4, columns)).astype(np.int32)
    module = to_loops(parse(selection(4, columns, INTEGERS.format(less="slt"), "i32")), bits)
    assert any(isinstance(op, vector.ShuffleOp) for op in module.walk())
    value, place = interpret(module, "k", [x], [np.array([9, 9, 0, -1], np.int32), np.full(4, 77, np.int64)])
    np.testing.assert_array_equal(value, [x[0].min(), x[1].min(), 0, -1])
    np.testing.assert_array_equal(place, [x[0].argmin(), x[1].argmin(), 77, 77])


@pytest.mark.parametrize("no_better", ["olt", "one", "ule"])
def test_what_also_takes_equals_stays_in_order(no_better: str) -> None:
    (kernel,) = kernels_of(parse(selection(2, 50, FLOATS.format(no_better=no_better), "f32")))
    (statement,) = read_kernel(kernel).statements
    assert statement.selection(1) is None
    assert vector_obstacle(statement, 1) == "an output is not combined by one associative op"


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("columns", [8, 33, 100])
def test_compiled_lanes_find_what_numpy_finds(columns: int, dtype: str) -> None:
    x = (100 * np.random.default_rng(columns).standard_normal((50, columns))).astype(dtype)
    np.testing.assert_array_equal(tenon.argmax(x, axis=1), x.argmax(axis=1))


def test_places_beyond_32_bits_are_counted_in_64() -> None:
    for count, kind in (2**31 - 100, "i32"), (2**31 + 16, "i64"):
        loops = str(tenon.jit(tenon.argmax).lower(tenon.ShapeDtype((count,), "u8")).module)
        assert f"vector<16x{kind}>" in loops
        assert f"vector<16x{'i64' if kind == 'i32' else 'i32'}>" not in loops
