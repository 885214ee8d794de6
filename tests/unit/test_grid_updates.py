"""Scatters on a GPU: what threads do when several updates meet at one place gives what `np.add.at` and its like give,
under the host shim, and the same bits in any order of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_shim import SCHEDULES, load_on_shim
from grid_cases import (
    RANDOM,
    Array,
    Case,
    assert_in_registers,
    check,
    counted_each,
    floats,
    load_all,
    lowered,
    needs_compiler,
    needs_nvrtc,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AtomicRMWOp
from xdsl.parser import Parser

import tenon
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.lowering.grids.index_bits import narrow_indices
from tenon.passes.machine import GPUS
from tenon.runtime.lower import new_context


def places(rows: int, number: int) -> Array:
    """Of rows, from both ends, and some that are outside."""
    return RANDOM.integers(-rows - 3, rows + 3, number)


def numbers(*shape: int, dtype: Any = np.int32) -> Array:
    return RANDOM.integers(0 if np.dtype(dtype).kind in "bu" else -9, 9, shape).astype(dtype)


def one_by_one(combine: np.ufunc) -> Callable[..., Array]:
    """Updates by NumPy, in order, those outside left out."""

    def updated(x: Array, i: Array, v: Array) -> Array:
        result, i = x.copy(), i.astype(int)
        i = np.where(i < 0, i + len(x), i)
        inside = (i >= 0) & (i < len(x))
        combine.at(result, i[inside], v[inside])
        return result

    return updated


def set_one_by_one(x: Array, i: Array, v: Array) -> Array:
    """`v` at the places `i`, in order, by NumPy."""
    result = x.copy()
    for place, value in zip(i.astype(int), v, strict=True):
        if -len(x) <= place < len(x):
            result[place] = value
    return result


def case(function: Callable[..., Any], arrays: list[Array], oracle: Callable[..., Any], tolerance: float = 0) -> Case:
    return Case(function, arrays, oracle, tolerance, is_scheduled=False)


def updating(method: str, x: Array, i: Array, v: Array, tolerance: float = 0) -> Case:
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}[method]
    return case(lambda x, i, v: getattr(x.at[i], method)(v), [x, i, v], one_by_one(combine), tolerance)


INTEGERS: dict[str, Case] = {
    "counts": case(
        lambda i: tenon.bincount(i, minlength=100),
        [RANDOM.integers(0, 120, 9001)],
        lambda i: np.bincount(i[i < 100], minlength=100),
    ),
    "counts_of_i32": case(
        lambda i: tenon.bincount(i, minlength=100),
        [RANDOM.integers(-5, 120, 9001).astype(np.int32)],
        lambda i: np.bincount(i[(i >= 0) & (i < 100)], minlength=100),
    ),
    "counts_of_wide": case(  # places that 32 bits do not hold
        lambda i: tenon.zeros(50, tenon.int32).at[i].add(1),
        [RANDOM.integers(-60, 60, 900) + 2**32 * RANDOM.integers(-1, 2, 900)],
        lambda i: np.bincount(np.where(i < 0, i + 50, i)[(i >= -50) & (i < 50)], minlength=50),
    ),
    "float_counts": case(
        lambda i: tenon.zeros(50).at[i].add(2.0),
        [RANDOM.integers(0, 50, 3000)],
        lambda i: 2 * np.bincount(i, minlength=50),
    ),
    "computed_places": case(  # rows read each place several times
        lambda i, v: tenon.index_add(tenon.zeros((90, 3), tenon.int32), 0, 2 * i - 5, v * v - 1),
        [RANDOM.integers(0, 60, 700).astype(np.int32), numbers(700, 3)],
        lambda i, v: one_by_one(np.add)(np.zeros((90, 3), np.int32), 2 * i - 5, v * v - 1),
    ),
    "no_updates": updating("add", numbers(5), places(5, 0), numbers(0)),
}
for method, rows, columns, number, dtype in [
    ("add", 50, 1, 3000, np.int32),
    ("add", 50, 1, 900, np.int8),
    ("max", 1, 3, 700, np.uint32),
    ("max", 50, 1, 700, np.bool_),
    ("min", 50, 2, 3000, np.int64),
    ("multiply", 300, 3, 200, np.int32),
]:
    x, v = numbers(rows, columns, dtype=dtype), numbers(number, columns, dtype=dtype)
    v = v % 2 * 2 + 1 if method == "multiply" else v
    INTEGERS[f"{method}_{np.dtype(dtype).name}"] = updating(method, x, places(rows, number), v)

SKEWED = np.where(RANDOM.random(9000) < 0.7, RANDOM.choice([7, 99], 9000), places(40, 9000))
LAST_TOO = np.append(places(20000, 2098), [19999, 20000])  # where updates that are left out would go
WIDE = {"dtype": np.float64}
FLOATS: dict[str, Case] = {
    "one_place": updating("add", floats(40, 8), np.full(2500, 39), floats(2500, 8), 1e-3),
    "one_row": updating("add", floats(1, 64, **WIDE), places(1, 2100), floats(2100, 64, **WIDE), 1e-11),
    "skewed": updating("add", floats(40, 1), SKEWED, floats(9000, 1), 1e-3),
    "few_of_many_rows": updating("add", floats(20000, 2), LAST_TOO, floats(2100, 2), 1e-4),
    "products": updating("multiply", floats(3000, 2), places(3000, 2100), floats(2100, 2), 1e-4),
    "set": case(lambda x, i, v: x.at[i].set(v), [floats(50, 6), places(50, 2500), floats(2500, 6)], set_one_by_one),
    "along_an_axis": case(
        lambda x, i, v: tenon.scatter_elements(x, i, v, axis=1, reduction="add"),
        [floats(3, 70), RANDOM.integers(0, 70, (3, 2100)), floats(3, 2100)],
        lambda x, i, v: np.stack([one_by_one(np.add)(*row) for row in zip(x, i, v, strict=True)]),
        1e-4,
    ),
    "behind_an_axis": case(
        lambda x, i, v: tenon.index_add(x, 1, i, v),
        [floats(2, 30, 5), RANDOM.integers(0, 30, 2100), floats(2, 2100, 5)],
        lambda x, i, v: np.stack([one_by_one(np.add)(a, i, b) for a, b in zip(x, v, strict=True)]),
        1e-4,
    ),
    "gradient_of_embedding": case(
        lambda w, i: tenon.grad(lambda w: tenon.sum(tenon.embedding(w, i) ** 2))(w),
        [floats(60, 4), RANDOM.integers(0, 60, 2500)],
        lambda w, i: one_by_one(np.add)(np.zeros_like(w), i, 2 * w[i.astype(int)]),
        1e-4,
    ),
}
for dtype in (np.float16, ml_dtypes.bfloat16):
    x, v = floats(20, 8, dtype=dtype), floats(90, 8, dtype=dtype)
    FLOATS[f"few_{np.dtype(dtype).name}"] = updating("add", x, places(20, 90), v, 5e-2)
SPECIAL = RANDOM.choice(np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf], np.float32), (2100, 2))
SPECIAL[np.isnan(SPECIAL) & (RANDOM.random(SPECIAL.shape) < 0.9)] = -0.0
FLOATS["max_of_zeros"] = updating("max", SPECIAL[:300], places(300, 2100), SPECIAL)
CASES = INTEGERS | FLOATS


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    return load_all(CASES, [("counts", "one"), *[(name, "many") for name in CASES]])


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_numpy(name: str, executables: dict[tuple[str, str], Any]) -> None:
    case = CASES[name]
    for machine in ("one", "many") if name == "counts" else ("many",):
        results = [executables[name, machine](list(case.arrays), schedule)[0] for schedule in SCHEDULES]
        assert len({result.tobytes() for result in results}) == 1
        if case.tolerance == 0:
            np.testing.assert_array_equal(results[0], case.oracle(*case.arrays).astype(results[0].dtype))
        else:
            check(executables[name, machine], case, SCHEDULES[:1])


@needs_compiler
@pytest.mark.parametrize("name", ["max_of_zeros", "few_float16", "products", "few_of_many_rows"])
def test_bits_are_those_of_a_processor(name: str, executables: dict[tuple[str, str], Any]) -> None:
    case = CASES[name]
    (result,) = executables[name, "many"](list(case.arrays))
    assert result.tobytes() == np.asarray(tenon.jit(case.function)(*case.arrays)).tobytes()


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_added_in_any_order_where_results_may_differ(dtype: Any) -> None:
    x, v = floats(40, 3, dtype=dtype), floats(2100, 3, dtype=dtype)
    case = updating("add", x, places(40, 2100), v, 1e-3)
    module = lowered(case, replace(GPUS["sm_90a"], deterministic=False))
    assert any(isinstance(op, AtomicRMWOp) for op in module.walk())
    check(load_on_shim([module])[0], case)


def test_few_places_have_copies_in_shared_memory() -> None:
    many = case(lambda i: tenon.bincount(i, minlength=256), [np.broadcast_to(np.int64(0), 1 << 24)], np.bincount)
    *_, kernel = kernels(lowered(many, GPUS["sm_90a"]))
    updated: list[Any] = [op.memref.type for op in kernel.walk() if isinstance(op, AtomicRMWOp)]
    assert len({buffer.memory_space for buffer in updated}) == 2
    assert prod(launch_shape(kernel, "grid")) * prod(launch_shape(kernel, "block")) == 132 * 2048


@needs_compiler
@pytest.mark.parametrize("name", ["counts", "counts_of_i32", "computed_places"])
def test_what_updates_are_computed_from_is_read_once(name: str, executables: dict[tuple[str, str], Any]) -> None:
    case, executable = CASES[name], executables[name, "many"]
    (result,) = executable(list(case.arrays))
    *before, updates = counted_each(executable, case.arrays)
    assert updates.read_bytes <= sum(array.nbytes for array in case.arrays) + result.nbytes
    assert [counters.written_bytes for counters in before] == [result.nbytes]


def test_updates_are_those_of_many_threads_with_indices_of_32_bits() -> None:
    for name in ("counts_of_i32", "counts_of_wide", "add_int32", "computed_places"):
        *_, kernel = kernels(lowered(CASES[name], GPUS["sm_90a"]))
        assert any(isinstance(op, AtomicRMWOp) for op in kernel.walk())
        assert "index_bits" in kernel.attributes


@pytest.mark.parametrize(
    ("limited", "fits"),
    [
        ("minsi %place, %end", False),
        ("minsi %end, %place", False),
        ("maxsi %place, %end", False),
        ("maxsi %end, %place", False),
        ("minsi %above, %end", True),
        ("minsi %end, %above", True),
    ],
)
def test_places_of_64_bits_are_no_numbers_before_they_have_both_ends(limited: str, fits: bool) -> None:
    text = f"""
    func.func @kernel(%0: i64) {{
      %end = arith.constant 49 : index
      %first = arith.constant -50 : index
      %place = arith.index_cast %0 : i64 to index
      %above = arith.maxsi %first, %place : index
      %limited = arith.{limited} : index
      %moved = arith.subi %limited, %first : index
      func.return
    }}"""
    (function,) = Parser(new_context(), text).parse_module().ops
    assert isinstance(function, FuncOp)
    assert narrow_indices(function, 1, 32) == fits


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_nvrtc_compiles_without_spills(architecture: str) -> None:
    for name in ("counts", "one_row", "few_bfloat16"):
        assert_in_registers(lowered(CASES[name], GPUS[architecture]), architecture)
