"""The places of extremes on a GPU, and reductions in parts that no number divides: under the host shim they give what
NumPy gives, the first of equal ones, and NaN before all."""

from __future__ import annotations

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
    check,
    floats,
    integers,
    is_caught,
    load_all,
    lowered,
    needs_compiler,
    planted,
)

import tenon
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.passes.machine import GPUS


def with_ties(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.integers(0, 100, shape).astype(dtype)


def with_nan(*shape: int) -> Array:
    x = with_ties(*shape)
    x.flat[[x.size // 3, x.size // 2]] = np.nan
    return x


CASES: dict[str, Case] = {}
for name, x in {
    "whole": with_ties(140007),
    "rows": with_ties(3, 50021),
    "planes": with_ties(37, 63, 61),
    "columns": with_ties(70013, 2),
    "nan": with_nan(140007),
    "infinite": np.full(140007, -np.inf, np.float32),
    "f16": with_ties(2, 70001, dtype=np.float16),
    "bf16": with_ties(140000, dtype=ml_dtypes.bfloat16),
    "f64": with_ties(131072, dtype=np.float64),
    "i8": with_ties(150001, dtype=np.int8),
    "u8": with_ties(150001, dtype=np.uint8),
    "i64": with_ties(131073, dtype=np.int64),
}.items():
    axis = {"rows": 1, "f16": 1, "columns": 0}.get(name)
    CASES[f"argmax_{name}"] = Case(lambda x, a=axis: tenon.argmax(x, axis=a), [x], lambda x, a=axis: x.argmax(a))
    if name in ("whole", "rows", "nan", "i8"):
        CASES[f"argmin_{name}"] = Case(lambda x, a=axis: tenon.argmin(x, axis=a), [x], lambda x, a=axis: x.argmin(a))
CASES["argmax_small"] = Case(lambda x: tenon.argmax(x), [with_ties(40, 33)], lambda x: x.argmax())
CASES["argmax_turned"] = Case(lambda x: tenon.argmax(x.T), [with_ties(40, 33)], lambda x: x.T.argmax())
CASES["sum"] = Case(lambda x: tenon.sum(x), [floats(140009)], lambda x: x.sum(), 1e-3)
CASES["mean"] = Case(lambda x: tenon.mean(x) * 2 + 1, [floats(140009)], lambda x: x.mean() * 2 + 1, 1e-3)
CASES["sums"] = Case(lambda x: tenon.sum(x, axis=1), [floats(3, 50021)], lambda x: x.sum(1), 1e-3)
CASES["column_sums"] = Case(lambda x: tenon.sum(x, axis=0), [floats(8209, 17)], lambda x: x.sum(0), 1e-3)
CASES["counts"] = Case(
    lambda x: tenon.sum(x.astype(np.int64)), [integers(150001, dtype=np.uint8)], lambda x: x.astype(np.int64).sum()
)
CASES["range"] = Case(lambda x: (tenon.max(x), tenon.min(x)), [floats(140009)], lambda x: (x.max(), x.min()))
CASES["argmax_of_many"] = Case(lambda x: tenon.argmax(x, axis=1), [floats(300, 70)], lambda x: x.argmax(1))
CASES["argmax_of_few"] = Case(lambda x: tenon.argmax(x, axis=1), [floats(6, 2100)], lambda x: x.argmax(1))
WITHOUT_PARTS = ("argmax_of_few", "argmax_small", "argmax_turned", "argmax_of_many", "argmax_planes")


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    return load_all(CASES, [(name, "many") for name in CASES])


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_numpy(name: str, executables: dict[tuple[str, str], Any]) -> None:
    schedules = SCHEDULES if name in ("argmax_rows", "column_sums") else SCHEDULES[-1:]
    check(executables[name, "many"], CASES[name], schedules)


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT_PARTS])
def test_long_reductions_use_many_blocks(name: str) -> None:
    found = kernels(lowered(CASES[name], GPUS["sm_90"]))
    assert max(prod(launch_shape(kernel, "grid")) for kernel in found) >= GPUS["sm_90"].multiprocessors
    for kernel in found:
        assert "schedule" in kernel.attributes, kernel.attributes.get("unscheduled")


@needs_compiler
@pytest.mark.parametrize(("name", "kind"), [("argmax_of_many", ""), ("argmax_of_few", "barrier"), ("sum", "call")])
def test_planted_faults_are_caught(name: str, kind: str) -> None:
    faults = {what: m for what, m in planted(lowered(CASES[name], GPUS["sm_90"])).items() if kind in what}
    assert faults
    for what, executable in zip(faults, load_on_shim(list(faults.values())), strict=True):
        assert is_caught(executable, CASES[name]), what


def first_places(x: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """The places of the `k` best of each row, NaN before all numbers if the largest are; of equal ones the first."""
    keys = np.where(np.isnan(x), np.inf, x)
    ranks = np.isnan(x) * 1
    order = [np.lexsort((np.arange(x.shape[1]), -key, -rank)) for key, rank in zip(keys, ranks, strict=True)]
    if not largest:
        order = [np.lexsort((np.arange(x.shape[1]), key, rank)) for key, rank in zip(keys, ranks, strict=True)]
    places = np.stack(order)[:, :k]
    return np.take_along_axis(x, places, 1), places


@needs_compiler
def test_the_best_few_of_long_rows() -> None:
    cases = [
        Case(
            lambda x, k=k, largest=largest: tenon.top_k(x, k, largest=largest),
            [x],
            lambda x, k=k, largest=largest: first_places(x, k, largest=largest),
        )
        for x, k, largest in [
            (with_ties(3, 300), 5, True),
            (with_nan(2, 417), 70, False),
            (np.full((1, 100), np.nan, np.float32), 9, True),
        ]
    ]
    modules = [lowered(case, GPUS["sm_90"]) for case in cases]
    for case, executable in zip(cases, load_on_shim(modules), strict=True):
        check(executable, case, SCHEDULES[-1:])
