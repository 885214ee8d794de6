"""Kernels whose loops are scheduled by steps: under the host shim they give what NumPy gives in f64, at odd sizes; with
decided steps for a GPU of one multiprocessor, where each block gets as much work as on a large device, and for many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from cuda_shim import SCHEDULES, load_on_shim
from grid_cases import (
    ONE,
    RANDOM,
    Array,
    Case,
    check,
    counted,
    floats,
    integers,
    load_all,
    lowered,
    needs_compiler,
    needs_nvrtc,
)
from xdsl.context import Context
from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import IndexType, StringAttr, i64
from xdsl.parser import Parser

import tenon
from tenon.dialects.upstream.nvvm import BallotOp
from tenon.lowering.cuda.emit_cuda import emit_cuda, kernels, launch_shape
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.grids.apply_steps import ApplyStepsPass
from tenon.lowering.math.legalize_arith import LegalizeArithPass
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower, lower_to_buffers
from tenon.lowering.steps.nest import NestError
from tenon.lowering.steps.step import parse
from tenon.lowering.steps.table import STEPS, given_steps
from tenon.passes.machine import GPUS
from tenon.runtime.cuda import nvrtc
from tenon.runtime.lower import new_context


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def with_repeats(*shape: int) -> Array:
    return RANDOM.integers(0, 9, shape).astype(np.float32)


CASES: dict[str, Case] = {}
for n, shape in enumerate([(1,), (7,), (1003,), (4096,), (33, 75), (5, 1000), (3, 4, 5)]):
    CASES[f"chain_{n}"] = Case(
        lambda x, y: tenon.tanh(x * 2 + y) * x, [floats(*shape), floats(*shape)], lambda x, y: np.tanh(x * 2 + y) * x
    )
CASES["scalar"] = Case(lambda x: x * 2 + 1, [floats()], lambda x: x * 2 + 1)
CASES["broadcast"] = Case(
    lambda x, b, c: (x + b) * c, [floats(37, 256), floats(256), floats(37, 1)], lambda x, b, c: (x + b) * c
)
CASES["transposed"] = Case(lambda x, y: x.T + y, [floats(70, 45), floats(45, 70)], lambda x, y: x.T + y)
CASES["permuted"] = Case(
    lambda x: tenon.transpose(x, permutation=(2, 0, 1)) * 2, [floats(6, 9, 20)], lambda x: x.transpose(2, 0, 1) * 2
)
CASES["reversed"] = Case(lambda x: x[::-1] * 2, [floats(50)], lambda x: x[::-1] * 2)
CASES["strided"] = Case(lambda x: x[:, 1::3] + 1, [floats(20, 31)], lambda x: x[:, 1::3] + 1)
for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
    CASES[f"chain_{np.dtype(dtype).name}"] = Case(
        lambda x: x * x + 1, [floats(517, dtype=dtype)], lambda x: x * x + 1, 1e-2 if dtype is not np.float64 else 1e-12
    )
    CASES[f"row_{np.dtype(dtype).name}"] = Case(
        lambda x: tenon.max(x, axis=1) + tenon.sum(x, axis=1) * 0,
        [floats(5, 517, dtype=dtype)],
        lambda x: x.max(1),
        1e-2 if dtype is not np.float64 else 1e-12,
    )
for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8):
    x = integers(1025, dtype=dtype)
    CASES[f"integers_{np.dtype(dtype).name}"] = Case(lambda x: x // 3 + x, [x], lambda x: x // 3 + x)
CASES["truth"] = Case(lambda x, y: x & ~y, [integers(999, dtype=np.bool_)] * 2, lambda x, y: x & ~y)
CASES["mixed"] = Case(lambda x: (x > 0.5, x.astype(np.float64)), [floats(300)], lambda x: (x > 0.5, x))
for rows, columns in [(1, 5), (7, 1), (9, 31), (3, 64), (5, 130), (2, 1000), (64, 256), (3, 2049), (2, 20001)]:
    x = floats(rows, columns)
    CASES[f"softmax_{rows}x{columns}"] = Case(lambda x: tenon.softmax(x, axis=-1), [x], softmax)


def two_results(xp: Any, x: Any) -> tuple[Any, Any]:
    """One of a statement whose other result is used in the kernel alone."""
    d = x - xp.mean(x, axis=-1, keepdims=True)
    e = xp.exp(d)
    return d * 2, e / xp.sum(e, axis=-1, keepdims=True)


def sums_of_channels(xp: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """What the gradient of a `BatchNorm` has: sums of several values along few long rows, and what they are for."""
    total, product = xp.sum(x, axis=(0, 2), keepdims=True), xp.sum(x * y, axis=(0, 2), keepdims=True)
    z = x * 2 + y * product * 1e-3
    return total, z, xp.sum(z, axis=(0, 2))


LONG_ROWS = floats(16, 16640)  # longer than what is kept of a row
CASES["long_softmax"] = Case(lambda x: tenon.softmax(x, axis=-1), [LONG_ROWS], softmax)
CASES["long_rows_of_two_results"] = Case(partial(two_results, tenon), [LONG_ROWS], partial(two_results, np))
CASES["many_short_rows"] = Case(lambda x: tenon.softmax(x, axis=-1), [floats(300, 6)], softmax)
CASES["rows_in_planes"] = Case(lambda x: tenon.softmax(x, axis=-1), [floats(3, 5, 70)], softmax)
CASES["rows_of_two"] = Case(
    lambda x, y: tenon.tanh(x - tenon.sum(x * tenon.sum(y, axis=-1, keepdims=True), axis=-1, keepdims=True)),
    [floats(128, 30) / 8, floats(128, 30) / 8],
    lambda x, y: np.tanh(x - (x * y.sum(-1, keepdims=True)).sum(-1, keepdims=True)),
)
CASES["layer_norm"] = Case(tenon.layer_norm, [floats(6, 387), floats(387), floats(387)], layer_norm, 1e-4)
CASES["argmax"] = Case(lambda x: tenon.argmax(x, axis=1), [with_repeats(5, 1100)], lambda x: x.argmax(1))
CASES["argmin_short"] = Case(lambda x: tenon.argmin(x, axis=1), [with_repeats(50, 9)], lambda x: x.argmin(1))
nan = with_repeats(4, 333)
nan[1, 200] = nan[1, 100] = nan[3, 0] = np.nan
nan[2] = -np.inf
CASES["argmax_of_nan"] = Case(lambda x: tenon.argmax(x, axis=1), [nan], lambda x: x.argmax(1))
CASES["logsumexp"] = Case(
    lambda x: tenon.logsumexp(x, axis=-1), [floats(4, 777)], lambda x: np.log(np.exp(x).sum(-1)), 1e-4
)
CASES["whole"] = Case(lambda x: tenon.sum(x), [floats(50, 77)], lambda x: x.sum(), 1e-3)
CASES["rows_then_more"] = Case(
    lambda x: (tenon.sum(x, axis=1) * 2, tenon.max(x, axis=1)), [floats(12, 300)], lambda x: (x.sum(1) * 2, x.max(1))
)
for rows, columns in [(1, 9), (33, 1), (70, 130), (257, 64)]:
    CASES[f"columns_{rows}x{columns}"] = Case(
        lambda x: tenon.sum(x, axis=0), [floats(rows, columns)], lambda x: x.sum(0), 1e-4
    )
CASES["row_by_matrix"] = Case(lambda x, y: x @ y, [floats(1, 300), floats(300, 264)], np.matmul, 1e-4)
CASES["few_rows_by_matrix"] = Case(lambda x, y: x @ y, [floats(3, 520), floats(520, 530)], np.matmul, 1e-3)
CASES["columns_in_planes"] = Case(lambda x: tenon.max(x, axis=1), [floats(3, 33, 70)], lambda x: x.max(1))
CASES["softmax_of_columns"] = Case(lambda x: tenon.softmax(x, axis=0), [floats(40, 50)], lambda x: softmax(x.T).T)
CASES["transposed_f64"] = Case(lambda x: x.T * 2, [floats(40, 67, dtype=np.float64)], lambda x: x.T * 2, 1e-12)
CASES["transposed_f16"] = Case(lambda x: x.T * 2, [floats(64, 96, dtype=np.float16)], lambda x: x.T * 2, 1e-3)
CASES["transposed_i8"] = Case(lambda x: x.T, [integers(48, 96, dtype=np.int8)], lambda x: x.T)
CASES["permuted_outwards"] = Case(
    lambda x: tenon.transpose(x, permutation=(1, 2, 0)), [floats(64, 16, 17)], lambda x: x.transpose(1, 2, 0)
)
for rows, depth, columns in [(16, 8, 32), (70, 45, 90), (130, 9, 131), (200, 100, 72)]:
    a, b = floats(rows, depth), floats(depth, columns)
    CASES[f"product_{rows}x{depth}x{columns}"] = Case(tenon.matmul, [a, b], lambda a, b: a @ b, 1e-4)
CASES["product_transposed_right"] = Case(
    lambda a, b: tenon.matmul(a, b.T), [floats(70, 44), floats(92, 44)], lambda a, b: a @ b.T, 1e-4
)
CASES["product_transposed_left"] = Case(
    lambda a, b: tenon.matmul(a.T, b), [floats(44, 72), floats(44, 92)], lambda a, b: a.T @ b, 1e-4
)
CASES["products"] = Case(tenon.matmul, [floats(3, 40, 20), floats(3, 20, 36)], lambda a, b: a @ b, 1e-4)
CASES["product_f64"] = Case(
    tenon.matmul, [floats(50, 30, dtype=np.float64), floats(30, 40, dtype=np.float64)], lambda a, b: a @ b, 1e-12
)
for width in (14, 40):  # rows one behind the other, and each by itself
    CASES[f"convolution_{width}"] = Case(
        lambda x, w: tenon.conv2d(x, w),
        [floats(2, 9, 6, width), floats(17, 9, 3, 3)],
        lambda x, w: torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w)).numpy(),
        1e-4,
    )
CASES["product_bf16"] = Case(
    tenon.matmul,
    [floats(40, 24, dtype=ml_dtypes.bfloat16), floats(24, 48, dtype=ml_dtypes.bfloat16)],
    lambda a, b: a @ b,
    2e-1,
)
nan = floats(40, 20)
nan[3, 7], nan[5, 5] = np.inf, np.nan
CASES["product_of_nan"] = Case(tenon.matmul, [nan, floats(20, 40)], lambda a, b: a @ b, 1e-4)
CASES["matrix_vector"] = Case(tenon.matmul, [floats(90, 70), floats(70)], lambda a, b: a @ b, 1e-4)
CASES["vector_matrix"] = Case(tenon.matmul, [floats(70), floats(70, 90)], lambda a, b: a @ b, 1e-4)
# Long enough for two phases.
CASES["long_sum"] = Case(lambda x: tenon.sum(x), [floats(300, 512)], lambda x: x.sum(), 1e-3)
CASES["long_mean"] = Case(lambda x: tenon.mean(x) * 2 + 1, [floats(300, 512)], lambda x: x.mean() * 2 + 1, 1e-3)
CASES["long_columns"] = Case(lambda x: tenon.sum(x, axis=0), [floats(4096, 40)], lambda x: x.sum(0), 1e-3)
CASES["long_rows"] = Case(lambda x: tenon.max(x, axis=1), [floats(3, 45000)], lambda x: x.max(1))
CASES["long_product"] = Case(lambda x: tenon.sum(x * x[0]), [floats(300, 512)], lambda x: (x * x[0]).sum(), 1e-3)
CASES["gathered_vectors"] = Case(
    lambda x, i: tenon.take(x, i, axis=0) + x[:37],
    [floats(40, 24), integers(37, dtype=np.int32) % 40],
    lambda x, i: x[i.astype(int)] + x[:37],
)
CASES["gather"] = Case(
    lambda x, i: tenon.take(x, i, axis=0), [floats(20, 33), np.array([3, 0, -1, 19])], lambda x, i: x[i.astype(int)]
)


CASES["long_channels"] = Case(
    partial(sums_of_channels, tenon),
    [floats(8, 3, 6016) * 0.1, floats(8, 3, 6016)],
    partial(sums_of_channels, np),
    2e-3,
)
LONG = ("long_channels", "long_sum", "long_mean", "long_columns", "long_rows", "long_product")


def added_rows(x: Array, i: Array, v: Array) -> Array:
    result = x.copy()
    np.add.at(result, i.astype(int), v)
    return result


def rows_gradient(x: Array, i: Array) -> Array:
    return added_rows(np.zeros_like(x), i, np.full((len(i), *x.shape[1:]), 2.0))


for rows, columns, updates in [(20, 33, 100), (3, 1, 70), (50, 64, 5), (3, 200, 5)]:
    places = RANDOM.integers(0, rows, updates)
    CASES[f"added_rows_{rows}x{columns}x{updates}"] = Case(
        lambda x, i, v: x.at[i].add(v),
        [floats(rows, columns), places, floats(updates, columns)],
        added_rows,
        1e-4,
        is_scheduled=False,
    )
CASES["gradient_of_rows"] = Case(
    lambda x, i: tenon.grad(lambda x: tenon.sum(tenon.take(x, i, axis=0) * 2))(x),
    [floats(20, 33), RANDOM.integers(0, 20, 150)],
    rows_gradient,
    is_scheduled=False,
)
FOR_MANY = (
    "gradient_of_rows",
    "added_rows_20x33x100",
    "chain_5",
    "broadcast",
    "softmax_3x2049",
    "softmax_1x5",
    "argmax",
    "product_70x45x90",
    "product_200x100x72",
    "transposed",
    "columns_257x64",
    "row_by_matrix",
    "few_rows_by_matrix",
    *LONG,
)


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    names = [(name, "one") for name in CASES if name not in LONG] + [(name, "many") for name in FOR_MANY]
    return load_all(CASES, [*names, ("long_softmax", "little")])


@needs_compiler
@pytest.mark.parametrize(("machine", "held"), [("one", 16640), ("little", 16384)])
def test_long_rows_are_loaded_once_as_far_as_shared_memory_holds_them(
    machine: str, held: int, executables: dict[tuple[str, str], Any]
) -> None:
    if machine != "one":
        check(executables["long_softmax", machine], CASES["long_softmax"])
    counters = counted(executables["long_softmax", machine], CASES["long_softmax"])
    rows, length = LONG_ROWS.shape
    assert counters.load_sectors == rows * (held + 3 * (length - held)) * 4 // 32
    assert counters.store_sectors == LONG_ROWS.nbytes // 32
    assert counters.turns_per_access == 1


@needs_compiler
@pytest.mark.parametrize(
    ("name", "machine"),
    [*[(name, "one") for name in CASES if name not in LONG], *[(name, "many") for name in FOR_MANY]],
)
def test_shim_agrees_with_numpy(name: str, machine: str, executables: dict[tuple[str, str], Any]) -> None:
    check(executables[name, machine], CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_scheduled])
def test_all_kernels_have_steps(name: str) -> None:
    for kernel in kernels(lowered(CASES[name], ONE)):
        assert "schedule" in kernel.attributes, kernel.attributes.get("unscheduled")


@needs_compiler
@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("chain_5", 40000, 20000),
        ("broadcast", 4 * (37 * 256 + 256 + 37), 4 * 37 * 256),
        ("softmax_64x256", 65536, 65536),
    ],
)
def test_memory_is_read_and_written_once_by_whole_sectors(
    name: str, read: int, written: int, executables: dict[tuple[str, str], Any]
) -> None:
    counters = counted(executables[name, "one"], CASES[name])
    assert (counters.read_bytes, counters.written_bytes) == (read, written)
    assert counters.sector_use > 0.95


@needs_compiler
def test_few_rows_read_a_large_matrix_once(executables: dict[tuple[str, str], Any]) -> None:
    counters = counted(executables["few_rows_by_matrix", "many"], CASES["few_rows_by_matrix"])
    assert counters.load_bytes < 1.5 * 4 * 520 * 530


@needs_compiler
def test_few_columns_are_read_once_by_vectors(executables: dict[tuple[str, str], Any]) -> None:
    counters = counted(executables["columns_257x64", "many"], CASES["columns_257x64"])
    assert counters.load_sectors == 257 * 64 * 4 // 32
    assert counters.load_bytes / counters.load_requests > 32 * 16 * 0.9


@needs_compiler
@pytest.mark.parametrize("name", ["transposed_f64", "transposed_f16", "product_200x100x72", "columns_257x64"])
def test_shared_memory_has_few_conflicts(name: str, executables: dict[tuple[str, str], Any]) -> None:
    counters = counted(executables[name, "one"], CASES[name])
    assert counters.turns_per_access < (1.6 if name == "transposed_f16" else 1.05)
    assert counters.sector_use > 0.7


@needs_compiler
def test_slices_of_products_are_copied_without_conflicts(executables: dict[tuple[str, str], Any]) -> None:
    counters = counted(executables["product_200x100x72", "many"], CASES["product_200x100x72"])
    assert counters.turns_per_access == 1
    assert counters.sector_use > 0.8


@pytest.mark.parametrize("name", LONG)
def test_long_reductions_use_many_blocks(name: str) -> None:
    grids = [prod(launch_shape(kernel, "grid")) for kernel in kernels(lowered(CASES[name], GPUS["sm_90"]))]
    assert max(grids) >= GPUS["sm_90"].multiprocessors


def test_sums_of_few_long_rows_are_cut_into_parts_together() -> None:
    """The first two are one kernel, and the third one another, since what it adds up needs one of these."""
    found = [kernel.sym_name.data for kernel in kernels(lowered(CASES["long_channels"], GPUS["sm_90"]))]
    assert sum(name.endswith("_parts") for name in found) == 2, found


def test_rows_of_a_gather_are_loaded_by_vectors() -> None:
    (kernel,) = kernels(lowered(CASES["gathered_vectors"], GPUS["sm_90"]))
    text = str(kernel)
    assert len(re.findall(r"vector\.load %x\w*\[", text)) == 2
    assert not re.findall(r"memref\.load %x\w*\[", text)


def test_places_in_long_rows_are_wide() -> None:
    case = Case(lambda x: tenon.argmax(x, axis=1), [np.broadcast_to(np.int8(0), (600, (1 << 31) + 16))], np.argmax)
    (kernel,) = kernels(lowered(case, GPUS["sm_90"]))
    assert "schedule" in kernel.attributes
    casts = [op for op in kernel.walk() if isinstance(op, IndexCastOp) and op.input.type == IndexType()]
    assert {op.result.type for op in casts} == {i64}


def test_scatters_use_many_warps() -> None:
    case = CASES["added_rows_50x64x5"]
    *_, kernel = kernels(lowered(case, GPUS["sm_90"]))
    assert any(isinstance(op, BallotOp) for op in kernel.walk())
    assert prod(launch_shape(kernel, "grid")) * prod(launch_shape(kernel, "block")) > 1000


def test_slices_are_written_by_a_thread_for_each_element() -> None:
    case = Case(lambda x, v: x.at[:, 1:].set(v), [floats(30, 71), floats(30, 70)], np.add)
    module = lowered(case, GPUS["sm_90"])
    MapToGridPass().apply(Context(), module)
    *_, kernel = kernels(module)
    assert not any(isinstance(op, BallotOp) for op in kernel.walk())
    assert prod(launch_shape(kernel, "grid")) * prod(launch_shape(kernel, "block")) >= 30 * 70


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a"])
def test_nvrtc_compiles_without_local_memory(architecture: str) -> None:
    for name in ("chain_5", "chain_bfloat16", "softmax_2x1000", "argmax", "product_200x100x72"):
        module = lowered(CASES[name], GPUS[architecture])
        MapToGridPass().apply(Context(), module)
        LegalizeArithPass().apply(Context(), module)
        source = emit_cuda(module, architecture)
        _, log = nvrtc._compile(source, [f"--gpu-architecture={architecture}", "--ptxas-options=-v"], "CUBIN")
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log, name
        ptx, _ = nvrtc._compile(source, [f"--gpu-architecture={architecture.replace('sm', 'compute')}"], "PTX")
        assert re.search(r"ld\.global\.nc\.v4\.[uf]32", ptx.decode()), name


@pytest.mark.parametrize(
    "text",
    [
        "split(i, 256) -> i0, i1",
        "reorder(j, i)",
        "bind(i, grid)",
        "unroll(i)",
        "vectorize(i)",
        "pack(a0, registers)",
        "resident(2)",
    ],
)
def test_steps_print_as_they_are_read(text: str) -> None:
    assert str(parse(text, STEPS)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split i by 3", "'split i by 3' is no step such as split(i, 256) -> i0, i1"),
        ("tile(i)", "there is no step tile, only split, reorder"),
        ("split(i) -> a, b", "split(i) -> a, b: split takes loop, size"),
        ("bind(i, grid) -> j", "bind(i, grid) -> j: bind makes no loops"),
        ("split(i, 4) -> a b, c", "'split(i, 4) -> a b, c' is no step such as split(i, 256) -> i0, i1"),
        (
            "pack(a0, shared, stages=2)",
            "pack(a0, shared, stages=2): pack has no argument stages=, only at, inner, pad, swizzle, copy, panel",
        ),
        ("unroll(i, by=2)", "unroll(i, by=2): unroll has no argument by=, only those in order"),
        ("pack(a0, shared, pad=1, pad=2)", "pack(a0, shared, pad=1, pad=2): an argument is given twice"),
    ],
)
def test_text_that_is_no_step(text: str, message: str) -> None:
    with pytest.raises(NestError, match=re.escape(message)):
        parse(text, STEPS)


def test_why_a_kernel_has_no_steps() -> None:
    module = tenon.jit(lambda x: tenon.cumsum(x, axis=1)).trace(floats(3, 8)).module.clone()
    lower_to_buffers(new_context(), module, LoweringOptions(gpu=ONE))
    differences = Parser(new_context(), str(module).replace("arith.addf", "arith.subf")).parse_module()
    (kernel,) = kernels(lower(new_context(), differences, LoweringOptions(gpu=ONE)))
    reason = kernel.attributes["unscheduled"]
    assert isinstance(reason, StringAttr)
    assert "rows, columns, whole reductions: a statement goes on from what it wrote" in reason.data


ROWS_BESIDE = """
func.func @main(%x: memref<8x64xf32>, %y: memref<64xf32>, %o: memref<8xf32>, %q: memref<64xf32>, %arena: memref<0xi8>)
    attributes {num_inputs = 2 : i64, num_outputs = 2 : i64} {
  func.call @f(%x, %y, %o, %q) : (memref<8x64xf32>, memref<64xf32>, memref<8xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @f(%x: memref<8x64xf32>, %y: memref<64xf32>, %o: memref<8xf32>, %q: memref<64xf32>)
    attributes {kernel, schedule = ["split(j, 32) -> w, l", "bind(w, warp)", "bind(l, lane)"]} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%x : memref<8x64xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  linalg.generic {indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>], iterator_types = ["parallel"]}
      ins(%y : memref<64xf32>) outs(%q : memref<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
"""


@needs_compiler
def test_rows_in_order_beside_a_statement_without_them() -> None:
    module = Parser(new_context(), ROWS_BESIDE).parse_module()
    ApplyStepsPass().apply(Context(), module)
    (executable,) = load_on_shim([module])
    x, y = RANDOM.integers(0, 9, (8, 64)).astype(np.float32), floats(64)
    for schedule in SCHEDULES:
        sums, doubled = executable([x, y], schedule)
        np.testing.assert_array_equal(sums, x.sum(1))
        np.testing.assert_array_equal(doubled, y * 2)


READ_AND_WRITTEN = """
func.func private @f(%x: memref<8x64xf32>, %o: memref<8xf32>, %q: memref<8x64xf32>)
    attributes {{kernel, schedule = ["bind(i, grid)", "bind(j, block)", "pack(a1, registers)"]}} {{
  linalg.generic {{indexing_maps = [{maps}affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      {inputs} outs(%o : memref<8xf32>) {{
  ^bb0({arguments}%b: f32):
    %c = arith.addf %b, %b : f32
    linalg.yield %{result} : f32
  }}
  linalg.generic {{iterator_types = ["parallel", "parallel"], indexing_maps =
                   [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>]}}
      ins(%x, %o : memref<8x64xf32>, memref<8xf32>) outs(%q : memref<8x64xf32>) {{
  ^bb0(%a: f32, %b: f32, %z: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("maps", "inputs", "arguments", "result"),
    [("", "", "", "c"), ("affine_map<(i) -> (i)>, ", "ins(%o : memref<8xf32>)", "%a: f32, ", "a")],
    ids=["goes on", "is an input"],
)
def test_threads_do_not_read_what_one_of_them_writes(maps: str, inputs: str, arguments: str, result: str) -> None:
    text = READ_AND_WRITTEN.format(maps=maps, inputs=inputs, arguments=arguments, result=result)
    module = Parser(new_context(), text).parse_module()
    message = "apply-steps: kernel @f: several threads read a1, and one of them writes it"
    with pytest.raises(ValueError, match=re.escape(message)):
        ApplyStepsPass().apply(Context(), module)


def test_sums_across_threads_fit_shared_memory() -> None:
    text = """
    func.func private @f(%x: memref<8x32x1024xf64>, %o: memref<8x32xf64>)
        attributes {kernel, schedule = ["bind(k, block)", "unroll(j)"]} {
      %zero = arith.constant 0.0 : f64
      linalg.fill ins(%zero : f64) outs(%o : memref<8x32xf64>)
      linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>],
                      iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x : memref<8x32x1024xf64>) outs(%o : memref<8x32xf64>) {
      ^bb0(%a: f64, %b: f64):
        %c = arith.addf %a, %b : f64
        linalg.yield %c : f64
      }
      func.return
    }"""
    module = Parser(new_context(), text).parse_module()
    with pytest.raises(ValueError, match="sums across threads take 262144 bytes of shared memory of 101376"):
        ApplyStepsPass().apply(Context(), module)


GENERIC = """
func.func private @f(%x: memref<2000xf32>, %o: memref<{output}f32>) attributes {{kernel, schedule = [{steps}]}} {{
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<{output}f32>)
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ({index})>], iterator_types = ["{kind}"]}}
      ins(%x : memref<2000xf32>) outs(%o : memref<{output}f32>) {{
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("split(j, 2) -> a, b", "split(j, 2) -> a, b: there is no loop j, only i"),
        (
            "split(i, 6) -> a, b; split(b, 4) -> c, d",
            "split(b, 4) -> c, d: loop b has 6 iterations inside of loop a, which are no multiple of 4",
        ),
        ("split(i, 0) -> a, b", "split(i, 0) -> a, b: the size is 0, expected a number from 1 on"),
        ("bind(i, block)", "bind(i, block): a block would have 2000 threads of 1024"),
        ("bind(i, cluster)", "bind(i, cluster): loops are bound to grid, block, warp, lane"),
        ("unroll(i)", "unroll(i): 2000 iterations would be written out, of 255"),
        ("vectorize(i)", "vectorize(i): loop i has 2000 iterations, none of 2, 4, 8, 16"),
        ("pack(a7, registers)", "pack(a7, registers): there is no buffer a7, only a0, a1"),
        ("pack(a0, moon)", "pack(a0, moon): buffers are packed to registers, shared or fragments"),
        ("pack(a0, shared); pack(a0, shared)", "pack(a0, shared): buffer a0 is in shared memory"),
        ("pack(a1, shared)", "pack(a1, shared): buffer a1 is written"),
        ("bind(i, grid); pack(a0, shared, at=i)", "pack(a0, shared, at=i): loop i is bound or written out"),
        ("pack(a0, shared, inner=k)", "pack(a0, shared, inner=k): k is no axis of buffer a0"),
        ("pack(a0, shared, first=2)", "pack(a0, shared, first=2): first is for a part"),
        (
            "SUM split(i, 20) -> o, l; pack(a0, shared, part=l, first=2)",
            "pack(a0, shared, part=l, first=2): loop l is not the outermost of an axis of buffer a0",
        ),
        (
            "SUM split(i, 20) -> o, l; pack(a0, shared, part=o, first=100)",
            "pack(a0, shared, part=o, first=100): 100 iterations of loop o of 100 are no part",
        ),
        (
            "SUM split(i, 20) -> o, l; pack(a0, shared, part=o, first=2); unroll(o)",
            "what is copied is for iterations of o, which is no loop in order",
        ),
        ("pipeline(i, 2)", "pipeline(i, 2): nothing is packed at loop i"),
        (
            "split(i, 20) -> g, l; pack(a0, shared, pad=30000)",
            "tiles take 120004 bytes of shared memory of 101376",
        ),
        ("inline(a0)", "inline(a0): there is no intermediate a0"),
        ("resident(0)", "resident(0): blocks is 0, expected a number from 1 on"),
        ("resident(33)", "resident(33): a multiprocessor holds 32 blocks and 1536 threads at most"),
        ("split(i, 16) -> g, l; bind(l, lane)", "16 iterations are bound to the lanes of a warp, which has 32"),
        ("pack(a0, shared, pad=x)", "pack(a0, shared, pad=x): pad is x, expected a number from 0 on"),
        ("SUM bind(i, grid)", "bind(i, grid): axis i is reduced, and blocks of a grid combine nothing"),
    ],
)
def test_obstacles(steps: str, message: str) -> None:
    summed = steps.startswith("SUM ")
    texts = ", ".join(f'"{step}"' for step in steps.removeprefix("SUM ").split("; "))
    output, index, kind = ("", "", "reduction") if summed else ("2000x", "i", "parallel")
    text = GENERIC.format(output=output, index=index, kind=kind, steps=texts)
    module = Parser(new_context(), text).parse_module()
    with pytest.raises(ValueError, match=re.escape(f"apply-steps: kernel @f: {message}")):
        ApplyStepsPass().apply(Context(), module)


GIVEN = ("split(i, 64) -> i0, i1", "bind(i0, grid)", "bind(i1, block)")


@needs_compiler
def test_steps_that_a_call_of_jit_gives() -> None:
    function = tenon.jit(lambda x: x * 2 + 1, device="cuda", schedule={"kernel_0": GIVEN})
    x = floats(1000)
    module = lower(new_context(), function.trace(x).module.clone(), LoweringOptions(gpu=GPUS["sm_90"]))
    (kernel,) = kernels(module)
    assert (launch_shape(kernel, "grid")[0], launch_shape(kernel, "block")[0]) == (16, 64)
    (executable,) = load_on_shim([module])
    np.testing.assert_array_equal(executable([x])[0], x * 2 + 1)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"kernel_9": GIVEN}, "schedule is for kernel kernel_9, and there are kernel_0"),
        ({"kernel_0": ("bind(i, moon)",)}, "kernel @kernel_0: bind(i, moon)"),
        ({"kernel_0": ("split(q, 2) -> a, b",)}, "kernel @kernel_0: split(q, 2) -> a, b: there is no loop q, only i"),
    ],
)
def test_steps_of_a_call_that_cannot_be_done(schedule: dict[str, Sequence[str]], message: str) -> None:
    module = tenon.jit(lambda x: x * 2 + 1, device="cuda", schedule=schedule).trace(floats(1000)).module
    with pytest.raises(ValueError, match=re.escape(message)):
        lower(new_context(), module.clone(), LoweringOptions(gpu=GPUS["sm_90"]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"schedule": {"kernel_0": GIVEN}}, ValueError, "jit: schedule is for kernels on cuda, and device is cpu"),
        ({"device": "cuda", "schedule": {"kernel_0": "bind(i, grid)"}}, TypeError, "schedule of kernel_0 is 'bind(i,"),
        ({"device": "cuda", "schedule": {"kernel_0": 5}}, TypeError, "schedule of kernel_0 is 5, not a list of steps"),
        ({"device": "cuda", "schedule": {0: GIVEN}}, TypeError, "schedule is for kernel 0, whose name is no text"),
        ({"device": "cuda", "schedule": list(GIVEN)}, TypeError, "jit: schedule is ['split(i, 64) -> i0, i1'"),
    ],
)
def test_schedules_that_are_none(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        tenon.jit(lambda x: x, **arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('"bind(i, grid)"', 'schedules is "bind(i, grid)", not lists of steps by the names of kernels'),
        ('{kernel_0 = "bind(i, grid)"}', 'schedules of kernel_0 is "bind(i, grid)", not a list of steps'),
        ("{kernel_0 = [1]}", "schedules of kernel_0 is [1 : i64], not a list of steps"),
    ],
)
def test_an_attribute_that_gives_no_lists_of_steps(given: str, message: str) -> None:
    text = f"""
    func.func private @main() attributes {{schedules = {given}}}
    {GENERIC.format(output="2000x", index="i", kind="parallel", steps="").replace("@f", "@kernel_0")}"""
    with pytest.raises(ValueError, match=re.escape(message)):
        given_steps(Parser(new_context(), text).parse_module())


MANY_RESULTS = """
func.func private @k(%x: memref<8x512xf32>, %y: memref<8x16x512xf32>, %o: memref<8x512xf32>, %p: memref<8x16x512xf32>)
    attributes {{kernel, schedule = ["bind(i, grid)", "split(j, 4) -> jr, jv", "vectorize(jv)",
        "split(jr, 16) -> jt, ju", "unroll(ju)", "bind(jt, block)", "pack(a2, registers)", "pack(a3, registers)"]}} {{
  {}
  func.return
}}"""
DOUBLED = """linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x: memref<8x512xf32>) outs(%o: memref<8x512xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %a : f32
      linalg.yield %c : f32 }"""
SQUARES = """linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k, j)>, affine_map<(i, j, k) -> (i, k, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y: memref<8x16x512xf32>) outs(%p: memref<8x16x512xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %a : f32
      linalg.yield %c : f32 }"""


@pytest.mark.parametrize("statements", [(DOUBLED, SQUARES), (SQUARES, DOUBLED)], ids=["shorter first", "longer first"])
def test_statements_of_other_axes_have_loops_of_their_own(statements: Sequence[str]) -> None:
    """Also where both store many results vector by vector: what is done in the place of an operand is done once."""
    module = Parser(new_context(), MANY_RESULTS.format("\n".join(statements))).parse_module()
    ApplyStepsPass(machine="sm_90").apply(Context(), module)
    (kernel,) = kernels(module)
    stores = [op for op in module.walk() if op.name == "vector.store" and op.operands[1] in kernel.body.block.args]
    inside = {}
    for store in stores:
        loop = store.parent_op()
        while loop is not None and (loop.name != "scf.for" or "unroll" in loop.attributes):
            loop = loop.parent_op()
        inside[store.operands[1].name_hint] = loop is not None
    assert inside == {"o": False, "p": True}
