"""Products of matrices by the instructions of warps: under the host shim they give what NumPy gives in f64, at odd
sizes, for operands in any order; what is wrong in their use of asynchronous copies, barriers and swizzles is found."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from cuda_shim import SCHEDULES, ShimExecutable, load_on_shim
from grid_cases import assert_in_registers, counted, needs_compiler, needs_nvrtc
from product_cases import (
    BF16,
    Case,
    assert_close,
    assert_found,
    convolved,
    gradient_case,
    lowered,
    normal,
    steps,
)
from random_numbers import generator
from xdsl.parser import Parser

import tenon
from tenon.lowering.cuda.emit_cuda import emit_cuda, kernels
from tenon.lowering.cuda.shared_memory import shared_memory
from tenon.lowering.grids.apply_steps import ApplyStepsPass
from tenon.passes.machine import GPUS, Gpu
from tenon.runtime.lower import new_context
from tenon.runtime.lower import options as lower_options

RANDOM = generator(5)
numbers = partial(normal, RANDOM)
CASES: dict[str, Case] = {}
for rows, columns, depth, dtype in [
    (16, 16, 16, BF16),
    (130, 140, 72, BF16),
    (33, 70, 90, np.float16),
    (70, 65, 33, BF16),  # copies by way of registers
    (120, 128, 128, np.float16),  # in memory that the launch asks for
]:
    for order in ("nn", "nt", "tn", "tt") if rows == 130 else ("nn",):
        a = numbers(*((rows, depth) if order[0] == "n" else (depth, rows)), dtype=dtype)
        b = numbers(*((depth, columns) if order[1] == "n" else (columns, depth)), dtype=dtype)
        left, right = (1, 0) if order[0] == "t" else (0, 1), (1, 0) if order[1] == "t" else (0, 1)
        CASES[f"{rows}x{columns}x{depth}_{order}"] = Case(
            lambda a, b, left=left, right=right: tenon.matmul(
                tenon.transpose(a, permutation=left), tenon.transpose(b, permutation=right)
            ),
            [a, b],
            lambda a, b, left=left, right=right: a.transpose(left) @ b.transpose(right),
        )
CASES["many_multiprocessors"] = Case(
    tenon.matmul, [numbers(40, 64), numbers(64, 72)], lambda a, b: a @ b, machine=GPUS["sm_80"]
)
CASES["long_pieces"] = Case(  # a memory that is slow enough to have much under way
    tenon.matmul,
    [numbers(20, 520), numbers(520, 40)],
    lambda a, b: a @ b,
    machine=Gpu.of_option("test", "sm_80 multiprocessors=1 bandwidth=1e8 latency=2e-4"),
)
CASES["batched"] = Case(tenon.matmul, [numbers(3, 40, 48), numbers(3, 48, 36)], lambda a, b: a @ b)
CASES["heads"] = Case(
    lambda q, k: tenon.einsum("bqhd,bkhd->bhqk", q, k),
    [numbers(2, 40, 3, 32), numbers(2, 24, 3, 32)],
    lambda q, k: np.einsum("bqhd,bkhd->bhqk", q, k),
)
CASES["bias_activation_residual"] = Case(
    lambda x, w, b, r: tenon.exp(r) + tenon.relu(tenon.matmul(x, w) + b) * 0.5,
    [numbers(66, 48), numbers(48, 72), numbers(72), numbers(66, 72)],
    lambda x, w, b, r: np.exp(r) + np.maximum(x @ w + b, 0) * 0.5,
)
CASES["wide_result"] = Case(
    lambda a, b: tenon.matmul(a.astype(np.float32), b.astype(np.float32)),
    [numbers(64, 48), numbers(48, 36)],
    lambda a, b: a @ b,
    1e-6,
)
for order in ("nn", "nt"):
    shape = (48, 72) if order == "nn" else (72, 48)
    CASES[f"tf32_{order}"] = Case(
        lambda a, b, order=order: tenon.matmul(a, b if order == "nn" else b.T),
        [numbers(66, 48, dtype=np.float32), numbers(*shape, dtype=np.float32)],
        lambda a, b, order=order: a @ (b if order == "nn" else b.T),
        2e-3,
        Gpu.of_option("test", "sm_80 multiprocessors=1 tf32=true"),
    )
    a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((70, 96), (96, 90)))
    CASES[f"i8_{order}"] = Case(
        lambda a, b, order=order: tenon.matmul(a.astype(np.int32), (b if order == "nn" else b.T).astype(np.int32)),
        [a, b if order == "nn" else np.ascontiguousarray(b.T)],
        lambda a, b, order=order: a @ (b if order == "nn" else b.T),
        0,
    )


DOUBLE = np.float64
CASES["f64_nn"] = Case(  # an odd number of columns: copies of 8 bytes
    tenon.matmul, [numbers(70, 44, dtype=DOUBLE), numbers(44, 67, dtype=DOUBLE)], lambda a, b: a @ b, 1e-14
)
CASES["f64_tn"] = Case(
    lambda a, b: tenon.matmul(a.T, b),
    [numbers(33, 72, dtype=DOUBLE), numbers(33, 136, dtype=DOUBLE)],
    lambda a, b: a.T @ b,
    1e-14,
)
CASES["f64_heads_bias_residual"] = Case(
    lambda q, k, b, r: r - 0.5 * tenon.relu(tenon.einsum("bqhd,bkhd->bhqk", q, k) + b),
    [numbers(*shape, dtype=DOUBLE) for shape in ((2, 40, 3, 24), (2, 72, 3, 24), (72,), (2, 3, 40, 72))],
    lambda q, k, b, r: r - 0.5 * np.maximum(np.einsum("bqhd,bkhd->bhqk", q, k) + b, 0),
    1e-14,
)
CASES["f64_convolution"] = Case(
    lambda x, w: tenon.conv2d(x, w, padding=1),
    [numbers(2, 16, 6, 33, dtype=DOUBLE), numbers(20, 16, 3, 3, dtype=DOUBLE)],
    convolved,
    1e-14,
)
image, window, bias = numbers(2, 32, 9, 40), numbers(24, 32, 3, 3), numbers(24)
CASES["convolution"] = Case(
    lambda x, w, b: tenon.relu(tenon.conv2d(x, w, b, padding=1)),
    [image, window, bias],
    lambda x, w, b: np.maximum(convolved(x, w) + b[:, None, None], 0),
)
CASES["convolution_of_narrow_images"] = Case(
    lambda x, w: tenon.conv2d(x, w, padding=1),
    [numbers(2, 20, 9, 14, dtype=np.float16), numbers(24, 20, 3, 3, dtype=np.float16)],
    convolved,
)
CASES["convolution_in_steps"] = Case(
    lambda x, w: tenon.conv2d(x, w, padding=1, stride=2), [image, window], lambda x, w: convolved(x, w, 2)
)
CASES["convolution_of_points"] = Case(
    lambda x, w: tenon.conv2d(x, w),
    [numbers(2, 32, 7, 8), numbers(24, 32, 1, 1)],
    lambda x, w: np.einsum("ncij,fc->nfij", x, w[:, :, 0, 0]),
)
for name, shapes, (stride, padding) in (
    ("narrow_images", ((2, 20, 9, 14), (24, 20, 3, 3), (2, 24, 9, 14)), (1, 1)),
    ("steps", ((2, 16, 9, 12), (16, 16, 3, 2), (2, 16, 4, 6)), (2, 0)),
    ("unpadded_rows", ((2, 16, 9, 12), (16, 16, 5, 3), (2, 16, 5, 10)), (1, 0)),
    ("points", ((2, 32, 4, 8), (24, 32, 1, 1), (2, 24, 4, 8)), (1, 0)),
    ("odd_points", ((4, 32, 7, 7), (24, 32, 1, 1), (4, 24, 7, 7)), (1, 0)),
):
    given = [numbers(*shape) for shape in shapes]
    CASES[f"convolution_gradient_of_weight_{name}"] = gradient_case(1, given, stride=stride, padding=padding)
    if name in ("narrow_images", "points"):
        CASES[f"convolution_gradient_of_image_{name}"] = gradient_case(0, given, stride=stride, padding=padding)
broken = numbers(40, 20)
broken[3, 7], broken[5, 5] = np.inf, np.nan
CASES["nan"] = Case(tenon.matmul, [broken, numbers(20, 40)], lambda a, b: a @ b)


PARTS = Case(
    lambda x, w, b: tenon.relu(tenon.matmul(x, w) + b),
    [numbers(64, 1600), numbers(1600, 64), numbers(64)],
    lambda x, w, b: np.maximum(x @ w + b, 0),
    machine=GPUS["sm_80"],
)


@pytest.fixture(scope="module")
def executables() -> dict[str, ShimExecutable]:
    return dict(zip(CASES, load_on_shim([lowered(case) for case in CASES.values()]), strict=True))


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_numpy(name: str, executables: dict[str, ShimExecutable]) -> None:
    for schedule in SCHEDULES:
        (result,) = executables[name](list(CASES[name].arrays), schedule)
        assert_close(CASES[name], result)


@pytest.mark.parametrize("name", CASES)
def test_instructions_do_the_products(name: str) -> None:
    listed = steps(lowered(CASES[name]))
    assert any(step.startswith("contract(") for step in listed)
    assert ("split(k, 128) -> ko, ki" in listed) == (name == "long_pieces")
    if name.startswith("convolution"):
        assert any("copy=async" in step for step in listed)
        assert any(step.startswith("pipeline") for step in listed) or "points" in name


@needs_compiler
@pytest.mark.parametrize(
    "name", ["130x140x72_nn", "130x140x72_tt", "long_pieces", "f64_nn", "f64_tn", "f64_heads_bias_residual"]
)
def test_banks_have_few_conflicts(name: str, executables: dict[str, ShimExecutable]) -> None:
    counters = counted(executables[name], CASES[name])
    assert counters.turns_per_access < 1.05
    assert counters.tensor_operations > 0
    assert counters.copied_bytes > 0


FAULTS = {
    "a wait that leaves the needed group": ("tn_cp_async_wait<1>();", "tn_cp_async_wait<2>();", "copy-not-awaited"),
    "a wait that leaves the needed group of windows": (
        "tn_cp_async_wait<2>();",
        "tn_cp_async_wait<3>();",
        "copy-not-awaited",
    ),
    "no wait": ("tn_cp_async_wait<1>();", "", "copy-not-awaited"),
    "no barrier": ("__syncthreads();", "", "copy-not-awaited overwritten-while-read"),
    "no group": ("tn_cp_async_commit();", "", "copy-not-awaited exit-in-flight"),
    "a part that is not transposed": ("tn_ldmatrix_x4_trans", "tn_ldmatrix_x4", ""),
    "a copy without its swizzle": (" ^ ", " + 0 * ", ""),
}


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, executables: dict[str, ShimExecutable]) -> None:
    """Of three stages, in a kernel whose text is right: each fault has a name, or changes the numbers."""
    name = "convolution" if "windows" in fault else "130x140x72_nn"
    right, (old, new, names) = executables[name], FAULTS[fault]
    assert old in right.source
    # The first xor is that of a copy; those of ldmatrix stay.
    wrong = right.source.replace(old, new, 1 if old == " ^ " else -1)
    assert_found(right, wrong, CASES[name], names, SCHEDULES)


@needs_compiler
def test_few_results_are_added_up_in_parts() -> None:
    module = lowered(PARTS)
    parts, rest = kernels(module)
    assert "contract(lf, mma)" in str(parts.attributes["schedule"])
    assert "contract" not in str(rest.attributes["schedule"])
    (executable,) = load_on_shim([module])
    results = [executable(list(PARTS.arrays), schedule)[0] for schedule in SCHEDULES]
    assert_close(PARTS, results[0])
    assert all(result.tobytes() == results[0].tobytes() for result in results)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_large_tiles_compile_without_spills(architecture: str) -> None:
    shapes = [np.zeros(shape, BF16) for shape in ((2048, 512), (512, 2560), (2560,), (2048, 2560))]
    case = Case(
        lambda x, w, b, r: tenon.gelu(tenon.matmul(x, w) + b) + r, shapes, np.matmul, machine=GPUS[architecture]
    )
    assert_in_registers(lowered(case), architecture)


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "size"), [(BF16, 8191), (np.int8, 8192)], ids=["bf16", "i8"])
def test_few_rows_compile_without_spills(dtype: type, size: int) -> None:
    """Pieces that go to shared memory by way of registers: odd rows, and i8 whose neighbours are columns."""
    sums = np.int32 if dtype is np.int8 else dtype
    case = Case(
        lambda a, b: tenon.matmul(a.astype(sums), b.astype(sums)),
        [np.broadcast_to(np.zeros((), dtype), shape) for shape in ((64, size), (size, size))],
        np.matmul,
        machine=GPUS["sm_90"],
    )
    module = lowered(case)
    listed = steps(module)
    assert any(step.startswith("contract(") for step in listed)
    assert not any("copy=async" in step for step in listed)
    assert_in_registers(module, "sm_90")


def test_more_shared_memory_than_is_declared() -> None:
    module = lowered(CASES["120x128x128_nn"])
    (kernel,) = kernels(module)
    assert shared_memory(kernel).byte_count == 4 * (128 + 128) * 64
    assert "TN_DYNAMIC_SHARED(tn_shared_bytes);" in emit_cuda(module, "sm_80")


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")
def test_upstream_reads_the_code_of_threads() -> None:
    text = str(lowered(CASES["130x140x72_nt"]))
    done = subprocess.run(["mlir-opt-22"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


KERNEL = """
func.func private @f(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %o: memref<64x64xf32>)
    attributes {{kernel, schedule = [{}]}} {{
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<64x64xf32>)
  linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                                   affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : memref<64x64xf16>, memref<64x64xf16>) outs(%o : memref<64x64xf32>) {{
  ^bb0(%x: f16, %y: f16, %z: f32):
    %v = arith.extf %x : f16 to f32
    %w = arith.extf %y : f16 to f32
    %p = arith.mulf %v, %w : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }}
  func.return
}}"""
RIGHT = [
    *("split(i, 16) -> iu, is", "split(is, 8) -> ih, il", "unroll(iu)", "unroll(ih)", "bind(il, lane)"),
    *("split(k, 32) -> ko, ki", "split(ki, 16) -> ku, kf"),
    *("pack(a0, shared, at=ko, swizzle=4, copy=async)", "pack(a0, fragments)"),
    *("pack(a1, shared, at=ko, swizzle=8, copy=async)", "pack(a1, fragments)", "pack(a2, registers)"),
    *("contract(kf, mma)", "pipeline(ko, 2)"),
]
COLUMNS = ["split(j, 8) -> ju, js", "split(js, 2) -> jl, jv", "unroll(ju)", "bind(jl, lane)", "vectorize(jv)"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("contract(kf, mma)", "contract(kf, fma)", "products are contracted by mma or wgmma, not fma"),
        ("contract(kf, mma)", "contract(ku, mma)", "tn_mma_m16n8k16_f16 takes 16 neighbours along k, loop ku has 2"),
        ("vectorize(jv)", "unroll(jv)", "the two elements along j are a vector"),
        ("bind(il, lane)", "bind(il, warp)", "8 lanes 1 apart are along i"),
        ("pack(a0, fragments)", "pack(a0, registers)", "a0 is not packed to fragments"),
        ("swizzle=4", "swizzle=3", "3 runs trade places, expected one of 2, 4, 8"),
        ("swizzle=4", "swizzle=8", "rows of 64 bytes are no multiple of 8 runs of 16"),
        ("swizzle=4", "inner=i", "an asynchronous copy leaves elements in their order, and neighbours are along i"),
        ("copy=async", "copy=late", "copies are async, boxes or nothing, not late"),
        ("pipeline(ko, 2)", "pipeline(ko, 9)", "there are 9 stages, expected 2 to 8"),
        (
            "swizzle=8, copy=async",
            "swizzle=8",
            "a1 is not copied asynchronously: 2 stages, of copies that are all so",
        ),
        ("contract(kf, mma)", "", "a0 is packed to fragments, and no contraction takes it"),
    ],
)
def test_steps_that_do_not_fit_are_named(old: str, new: str, message: str) -> None:
    listed = [*RIGHT[:5], *COLUMNS, *RIGHT[5:]]
    apply(listed)
    with pytest.raises(ValueError, match=re.escape(message)):
        apply([changed for step in listed if (changed := step.replace(old, new))])


def apply(listed: Sequence[str]) -> None:
    text = KERNEL.format(", ".join(f'"{step}"' for step in listed))
    ApplyStepsPass().apply(new_context(), Parser(new_context(), text).parse_module())


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_large_tiles_of_f64_compile_without_spills(architecture: str) -> None:
    shapes = [np.broadcast_to(0.0, shape) for shape in ((4096, 4096), (4096, 4096), (4096,), (4096, 4096))]
    machine = GPUS[architecture]
    case = Case(lambda x, w, b, r: tenon.relu(tenon.matmul(x, w) + b) + r, shapes, np.matmul, machine=machine)
    module = lowered(case)
    assert {"split(i, 128) -> ig, ib", "split(j, 64) -> jg, jb"} <= set(steps(module))
    assert len(kernels(module)) == 1
    assert_in_registers(module, architecture)


def test_f64_is_multiplied_by_fused_multiply_adds_where_there_are_no_units() -> None:
    for architecture in ("sm_86", "sm_89"):
        case = Case(tenon.matmul, CASES["f64_nn"].arrays, np.matmul, machine=GPUS[architecture])
        assert not any(step.startswith("contract") for step in steps(lowered(case)))


def test_f32_is_multiplied_exactly_unless_that_may_be_rounded() -> None:
    exact = Case(tenon.matmul, CASES["tf32_nn"].arrays, np.matmul)
    assert not any(step.startswith("contract") for step in steps(lowered(exact)))
    for allowed in (False, True):
        with tenon.knobs.override(tf32=allowed):
            gpu = lower_options("cuda", "sm_80").gpu
            assert gpu is not None
            assert gpu.tf32 is allowed
