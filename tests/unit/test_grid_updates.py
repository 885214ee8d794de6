"""Scatters on a GPU: what threads do when several updates meet at one place gives what `np.add.at` and its like give,
under the host shim, and the same bits in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from cuda_shim import COMPILER, load_on_shim
from grid_cases import MACHINES, RANDOM, Array, Case, check, compiled, load_all, lowered
from xdsl.dialects.memref import AtomicRMWOp

import tenon
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.passes.machine import GPUS
from tenon.runtime.cuda import nvrtc

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
needs_nvrtc = pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="NVRTC is not installed")


def places(rows: int, number: int) -> Array:
    """Of rows, from both ends, and some that are outside."""
    return RANDOM.integers(-rows - 3, rows + 3, number)


def numbers(*shape: int, dtype: Any = np.int32) -> Array:
    return RANDOM.integers(0 if dtype == np.uint32 else -9, 9, shape).astype(dtype)


def one_by_one(combine: np.ufunc) -> Callable[..., Array]:
    """Updates by NumPy, in order, those outside left out."""

    def updated(x: Array, i: Array, v: Array) -> Array:
        result, i = x.copy(), i.astype(int)
        i = np.where(i < 0, i + len(x), i)
        inside = (i >= 0) & (i < len(x))
        combine.at(result, i[inside], v[inside])
        return result

    return updated


CASES: dict[str, Case] = {
    "counts": Case(
        lambda i: tenon.bincount(i, minlength=100),
        [RANDOM.integers(0, 120, 9001)],
        lambda i: np.bincount(i[i < 100], minlength=100),
        0,
        is_scheduled=False,
    ),
}
for method, combine in [("add", np.add), ("max", np.maximum), ("min", np.minimum), ("multiply", np.multiply)]:
    for rows, columns, updates, dtype in [(50, 1, 3000, np.int32), (300, 65, 200, np.int64), (1, 3, 700, np.uint32)]:
        x, i, v = numbers(rows, columns, dtype=dtype), places(rows, updates), numbers(updates, columns, dtype=dtype)
        if method == "multiply":
            v = v % 2 * 2 + 1
        CASES[f"{method}_{rows}x{columns}"] = Case(
            lambda x, i, v, method=method: getattr(x.at[i], method)(v),
            [x, i, v],
            one_by_one(combine),
            0,
            is_scheduled=False,
        )
CASES["no_updates"] = Case(
    lambda x, i, v: x.at[i].add(v), [numbers(5), places(5, 0), numbers(0)], one_by_one(np.add), 0, is_scheduled=False
)


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    return load_all(CASES, [(name, machine) for name in CASES for machine in MACHINES])


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_numpy(name: str, executables: dict[tuple[str, str], Any]) -> None:
    case = CASES[name]
    expected = case.oracle(*case.arrays)
    for machine in MACHINES:
        check(executables[name, machine], case)
        (result,) = executables[name, machine](list(case.arrays))
        np.testing.assert_array_equal(result, expected.astype(result.dtype))


def updating(case: Case) -> Any:
    *_, kernel = kernels(lowered(case, GPUS["sm_90a"]))
    return kernel


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_added_in_any_order_where_results_may_differ(dtype: Any) -> None:
    x, v = RANDOM.standard_normal((40, 3)).astype(dtype), RANDOM.standard_normal((900, 3)).astype(dtype)
    case = Case(lambda x, i, v: x.at[i].add(v), [x, places(40, 900), v], one_by_one(np.add), 1e-4)
    for machine in MACHINES.values():
        module = lowered(case, replace(machine, deterministic=False))
        assert any(isinstance(op, AtomicRMWOp) for op in module.walk())
        check(load_on_shim([module])[0], case)


def test_few_places_have_copies_in_shared_memory() -> None:
    many = Case(lambda i: tenon.bincount(i, minlength=256), [np.broadcast_to(np.int64(0), 1 << 24)], np.bincount)
    updated: list[Any] = [op.memref.type for op in updating(many).walk() if isinstance(op, AtomicRMWOp)]
    spaces = {buffer.memory_space for buffer in updated}
    assert len(spaces) == 2
    assert prod(launch_shape(updating(many), "grid")) * prod(launch_shape(updating(many), "block")) == 132 * 2048


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_nvrtc_compiles_without_spills(architecture: str) -> None:
    for name in ("counts", "max_50x1", "multiply_300x65", "add_1x3"):
        for kernel, resources in compiled(lowered(CASES[name], GPUS[architecture]), architecture).items():
            assert (resources.spilled, resources.stack) == (0, 0), (name, kernel)
