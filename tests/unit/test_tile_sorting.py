"""Sorting in tiles, as on a GPU: emitted code under the host shim, and the ops' references, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cuda_shim import SCHEDULES, load_on_shim
from grid_cases import compiled, needs_compiler, needs_nvrtc
from sample import BF16, F32, Array
from samples_sorting import SPECIAL, best, in_order, order
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.dialects.definition import signedness
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.ops.order import digit_code
from tenon.dialects.ops.order.tile_sorting import LeadingOfTilesOp, MoveByDigitOp, MovePairsByDigitOp, SortTilesOp
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower, run_passes
from tenon.passes.machine import GPUS
from tenon.runtime.lower import new_context


def rows(dtype: np.dtype[Any], length: int) -> Array:
    """Two rows with many equal elements and, of floats, NaN, infinities and zeros of both signs."""
    x = np.random.default_rng(length).integers(0, 90, (2, length)).astype(dtype)
    if x.dtype.kind not in "iub":
        x[:, : SPECIAL.size] = SPECIAL
        x[:, -SPECIAL.size :] = SPECIAL
    elif x.dtype.kind != "b":
        x[0, :2], x[1, -2:] = np.iinfo(dtype).max, np.iinfo(dtype).min
    return x


def traced(function: Callable[..., Any], *arrays: Array) -> ModuleOp:
    return tenon.jit(function).trace(*arrays).module.clone()


def lowered(function: Callable[..., Any], *arrays: Array) -> ModuleOp:
    return lower(new_context(), traced(function, *arrays), LoweringOptions(gpu=GPUS["sm_90"]))


def program(x: Any) -> tuple[Any, ...]:
    return (tenon.sort(x), tenon.argsort(x, descending=True), *tenon.top_k(x, 5))


def compare(results: Sequence[Any], x: Array) -> None:
    for result, wanted in zip(results, expected(x), strict=True):
        given = np.asarray(result).view(wanted.dtype)
        if x.dtype == BF16:  # whose NaN NumPy does not take for equal
            given, wanted = given.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_array_equal(given, wanted, err_msg=str(x.dtype))


def expected(x: Array) -> tuple[Array, ...]:
    wide = x.astype(F32) if x.dtype == BF16 else x  # NumPy finds no NaN in bf16
    values, places = best(wide, 5)
    return in_order(wide).astype(x.dtype), order(wide, -1, True), values.astype(x.dtype), places


@pytest.mark.parametrize("length", [70, 200])
def test_references_of_tiles_are_what_numpy_says(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digit_code, "_LONGEST_TILE", 96)
    dtypes: tuple[Any, ...] = (np.uint8, np.int32, np.uint64, np.bool_, BF16, F32)
    for dtype in dtypes:
        x = rows(np.dtype(dtype), length)
        module = traced(program, x)
        run_passes(new_context(), module, ["decompose{serial-rows=false}", "convert-tensor-to-structured"])
        signedness.erase(module)
        compare(Interpreter().run(module, "main", [x]), x)


@needs_compiler
@pytest.mark.parametrize(
    ("length", "longest", "dtypes"),
    [(70, 96, (np.bool_, np.int8, BF16, np.float64)), (1300, 700, (np.uint8, F32))],
    ids=["tile", "digits"],
)
def test_shim_gives_what_numpy_says(
    length: int, longest: int, dtypes: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a block sorts, and rows in two tiles of several warps that are moved by one digit after the other."""
    monkeypatch.setattr(digit_code, "_LONGEST_TILE", longest)
    examples = [rows(np.dtype(dtype), length) for dtype in dtypes]
    for x, executable in zip(examples, load_on_shim([lowered(program, x) for x in examples]), strict=True):
        for schedule in SCHEDULES:
            compare(executable([x], schedule), x)


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "architecture"), [(F32, "sm_80"), (np.dtype(np.float64), "sm_90")], ids=str)
def test_whole_tiles_spill_nothing_and_get_shared_memory_without_asking(
    dtype: np.dtype[Any], architecture: str
) -> None:
    size = digit_code.longest_tile(tenon.element_type(dtype.name))

    def whole_tiles(x: Any, places: Any, starts: Any) -> Any:
        moved = MovePairsByDigitOp.apply(x, places, starts, digit=0)
        return moved, MoveByDigitOp.apply(x, starts, digit=0), SortTilesOp.apply(x), LeadingOfTilesOp.apply(x, 1, 9)

    arrays = np.zeros((1, size), dtype), np.zeros((1, size), np.int32), np.zeros((1, 256, 1), np.int32)
    module = lowered(whole_tiles, *arrays)
    kernels = compiled(module, architecture)
    assert {name: kernel.spilled for name, kernel in kernels.items() if kernel.spilled} == {}
    assert len(kernels) == 4
    assert max(kernel.shared for kernel in kernels.values()) <= GPUS[architecture].shared


def test_tiles_that_hold_too_few_or_too_many_are_refused() -> None:
    x = np.zeros((2, 20), np.float32)
    with pytest.raises(tenon.InferenceError, match="rows of 20 elements in 5 tiles, where a tile has 5 to 8192"):
        traced(lambda x: LeadingOfTilesOp.apply(x, tiles=5, k=5), x)
    with pytest.raises(tenon.InferenceError, match="digit is 4, and f32 has 4"):
        traced(lambda x: MoveByDigitOp.apply(x, np.zeros((2, 256, 1), np.int32), digit=4), x)
    with pytest.raises(tenon.InferenceError, match=r"starts has shape .* where \(2, 256, tiles\) is needed"):
        traced(lambda x: MoveByDigitOp.apply(x, np.zeros((2, 16, 1), np.int32), digit=0), x)
