"""Scans on a GPU: running sums, products and extremes whose elements are spread over lanes, warps and blocks give under
the host shim what NumPy gives in f64, from both ends, at odd sizes, for all dtypes."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_shim import SCHEDULES, load_on_shim
from grid_cases import (
    ONE,
    Array,
    Case,
    assert_in_registers,
    check,
    counted,
    floats,
    integers,
    is_caught,
    load_all,
    lowered,
    needs_compiler,
    needs_nvrtc,
    planted,
)

import tenon
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.passes.machine import GPUS


def along(ufunc: Any, x: Array, axis: int, *, reverse: bool = False, exclusive: bool = False) -> Array:
    """What NumPy makes of the elements up to each place."""
    x = np.flip(x, axis) if reverse else x
    result = ufunc.accumulate(x, axis, np.float64 if x.dtype.kind == "f" else x.dtype)
    if exclusive:
        result = np.roll(result, 1, axis)
        np.moveaxis(result, axis, 0)[0] = ufunc.identity
    return np.flip(result, axis) if reverse else result


def extremes(x: Array, sign: int, *, reverse: bool = False) -> tuple[Array, Array]:
    """The largest (or, times -1, smallest) so far of each row, the latest of equal ones, and NaN beyond all."""
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)
    for row in range(x.shape[0]):
        best = None
        for column in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
            new = x[row, column]
            if best is None or new != new or (x[row, best] == x[row, best] and sign * new >= sign * x[row, best]):
                best = column
            values[row, column], places[row, column] = x[row, best], best
    return values, places


CASES: dict[str, Case] = {}
for rows, columns in [(1, 1), (1, 7), (9, 31), (50, 6), (3, 64), (5, 130), (2, 1000), (3, 2049), (2, 9001), (1, 20004)]:
    CASES[f"sums_{rows}x{columns}"] = Case(
        lambda x: tenon.cumsum(x, axis=1), [floats(rows, columns)], lambda x: along(np.add, x, 1), 1e-4
    )
for reverse, exclusive in [(True, False), (False, True), (True, True)]:
    for columns in (70, 4100):
        CASES[f"sums_{'from_the_end_' * reverse}{'before_' * exclusive}{columns}"] = Case(
            lambda x, r=reverse, e=exclusive: tenon.cumsum(x, axis=1, reverse=r, exclusive=e),
            [floats(3, columns)],
            lambda x, r=reverse, e=exclusive: along(np.add, x, 1, reverse=r, exclusive=e),
            1e-4,
        )
for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
    CASES[f"sums_{np.dtype(dtype).name}"] = Case(
        lambda x: tenon.cumsum(x, axis=-1),
        [floats(3, 517, dtype=dtype)],
        lambda x: along(np.add, x, 1),
        1e-12 if dtype is np.float64 else 3e-2,
    )
for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32):
    CASES[f"sums_{np.dtype(dtype).name}"] = Case(
        lambda x: tenon.cumsum(x, axis=-1), [integers(3, 333, dtype=dtype)], lambda x: along(np.add, x, 1)
    )
CASES["truth"] = Case(
    lambda x: tenon.cumsum(x, axis=-1), [integers(3, 333, dtype=np.bool_)], lambda x: along(np.add, x.astype(int), 1)
)
CASES["products"] = Case(
    lambda x: tenon.cumprod(x, axis=1), [1 + floats(4, 300) / 50], lambda x: along(np.multiply, x, 1), 1e-4
)
for axis, shape in [(0, (1000, 1)), (0, (33, 5)), (0, (700, 40)), (1, (3, 150, 70)), (0, (2, 130)), (1, (2, 65, 3))]:
    CASES[f"columns_{'x'.join(map(str, shape))}"] = Case(
        lambda x, a=axis: tenon.cumsum(x, axis=a), [floats(*shape)], lambda x, a=axis: along(np.add, x, a), 1e-4
    )
CASES["columns_from_the_end"] = Case(
    lambda x: tenon.cumsum(x, axis=0, reverse=True),
    [floats(300, 24)],
    lambda x: along(np.add, x, 0, reverse=True),
    1e-4,
)
for axis in (0, 1):
    CASES[f"logarithms_{axis}"] = Case(
        lambda x, a=axis: tenon.logcumsumexp(x, axis=a),
        [floats(150, 150) * 9],
        lambda x, a=axis: along(np.logaddexp, x, a),
        1e-4,
    )
long_ties = integers(2, 65601, dtype=np.int8).astype(np.float32)
long_ties[0, 60000] = long_ties[1, 65600] = np.nan
long_ties[1, :30000] = -np.inf
ties = integers(4, 333, dtype=np.int8).astype(np.float32)
ties[0, 300] = ties[1, 0] = ties[3, 332] = np.nan
ties[2, :50] = -np.inf
for name, op, sign in [("largest", tenon.cummax, 1), ("smallest", tenon.cummin, -1)]:
    for reverse in (False, True):
        CASES[f"{name}{'_from_the_end' * reverse}"] = Case(
            lambda x, op=op, r=reverse: op(x, axis=1, reverse=r),
            [ties],
            lambda x, s=sign, r=reverse: extremes(x, s, reverse=r),
        )
CASES["largest_of_integers"] = Case(
    lambda x: tenon.cummax(x, axis=1), [integers(2, 1500, dtype=np.int16)], lambda x: extremes(x, 1)
)
CASES["fused"] = Case(
    lambda x, y: tenon.cumsum(tenon.exp(x) * y, axis=1) * 2 + y,
    [floats(3, 260), floats(3, 260)],
    lambda x, y: along(np.add, np.exp(x) * y, 1) * 2 + y,
    1e-3,
)
CASES["gradient"] = Case(
    lambda x, w: tenon.grad(lambda x: tenon.sum(tenon.cumsum(x, axis=1) * w))(x),
    [floats(3, 260), floats(3, 260)],
    lambda x, w: along(np.add, w, 1, reverse=True),
    1e-4,
)
# Long enough for three phases.
LONG = {
    "long_row": Case(lambda x: tenon.cumsum(x, axis=0), [floats(140003)], lambda x: along(np.add, x, 0), 1e-3),
    "long_rows": Case(
        lambda x: tenon.cumsum(x, axis=1, reverse=True, exclusive=True),
        [floats(3, 50021)],
        lambda x: along(np.add, x, 1, reverse=True, exclusive=True),
        1e-3,
    ),
    "long_even_row": Case(
        lambda x: tenon.cumsum(x, axis=-1), [integers(1, 1 << 17, dtype=np.int32)], lambda x: along(np.add, x, 1)
    ),
    "long_f16": Case(
        lambda x: tenon.cumprod(x, axis=1, exclusive=True),
        [(1 + floats(2, 70000) / 3000).astype(np.float16)],
        lambda x: along(np.multiply, x, 1, exclusive=True),
        3e-2,
    ),
    "long_logarithms": Case(
        lambda x: tenon.logcumsumexp(x, axis=1), [floats(1, 131077)], lambda x: along(np.logaddexp, x, 1), 1e-3
    ),
    "long_columns": Case(lambda x: tenon.cumsum(x, axis=0), [floats(8209, 17)], lambda x: along(np.add, x, 0), 1e-3),
    "long_column": Case(
        lambda x: tenon.cumsum(x, axis=0), [integers(140001, 1, dtype=np.int32)], lambda x: along(np.add, x, 0)
    ),
    "long_largest": Case(lambda x: tenon.cummax(x, axis=1), [long_ties], lambda x: extremes(x, 1)),
    "long_smallest_from_the_end": Case(
        lambda x: tenon.cummin(x, axis=1, reverse=True), [long_ties], lambda x: extremes(x, -1, reverse=True)
    ),
}
CASES.update(LONG)
FOR_MANY = ("sums_3x64", "sums_5x130", "sums_2x9001", "sums_from_the_end_70", "columns_700x40", "largest", "gradient")
WANTED = [*[(name, "one") for name in CASES if name not in LONG], *[(name, "many") for name in (*FOR_MANY, *LONG)]]


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    return load_all(CASES, WANTED)


@needs_compiler
@pytest.mark.parametrize(("name", "machine"), WANTED)
def test_shim_agrees_with_numpy(name: str, machine: str, executables: dict[tuple[str, str], Any]) -> None:
    check(executables[name, machine], CASES[name], SCHEDULES[-1:] if name in LONG else SCHEDULES)


@pytest.mark.parametrize("name", LONG)
def test_long_scans_use_many_blocks(name: str) -> None:
    found = kernels(lowered(CASES[name], GPUS["sm_90"]))
    assert max(prod(launch_shape(kernel, "grid")) for kernel in found) > 30
    for kernel in found:
        assert "schedule" in kernel.attributes, kernel.attributes.get("unscheduled")


@pytest.mark.parametrize("name", CASES)
def test_all_kernels_have_steps(name: str) -> None:
    for kernel in kernels(lowered(CASES[name], ONE)):
        assert "schedule" in kernel.attributes, kernel.attributes.get("unscheduled")


@needs_compiler
@pytest.mark.parametrize("name", ["sums_3x64", "sums_2x1000", "columns_700x40"])
def test_memory_is_read_and_written_once(name: str, executables: dict[tuple[str, str], Any]) -> None:
    case = CASES[name]
    counters = counted(executables[name, "one"], case)
    assert (counters.read_bytes, counters.written_bytes) == (case.arrays[0].nbytes, case.arrays[0].nbytes)
    assert counters.sector_use > 0.95


@needs_compiler
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sums_2x1000", ""),
        ("sums_2x9001", ""),
        ("largest_from_the_end", ""),
        ("columns_700x40", "barrier"),
        ("long_rows", "call"),
    ],
)
def test_planted_faults_are_caught(name: str, kind: str) -> None:
    faults = {what: m for what, m in planted(lowered(CASES[name], GPUS["sm_90"])).items() if kind in what}
    assert any(kind or "barrier" in what for what in faults)
    for what, executable in zip(faults, load_on_shim(list(faults.values())), strict=True):
        assert is_caught(executable, CASES[name]), what


@needs_nvrtc
@pytest.mark.parametrize("name", ["sums_1x20004", "columns_700x40", "largest", "long_rows"])
def test_nvrtc_compiles_without_local_memory(name: str) -> None:
    assert_in_registers(lowered(CASES[name], GPUS["sm_90"]), "sm_90")
