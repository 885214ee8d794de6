"""Products of matrices by the instructions of warpgroups: under the host shim they give what NumPy gives in f64, for
operands in any order; a missing wait, fence or barrier is found; and NVRTC neither spills nor serialises products."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from cuda_shim import SCHEDULES, ShimExecutable, load_on_shim
from grid_cases import assert_in_registers, counted, needs_compiler, needs_nvrtc
from product_cases import (
    BF16,
    WARPGROUPS,
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
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.passes.machine import GPUS, Gpu

RANDOM = generator(17)
numbers = partial(normal, RANDOM)
OnOne = partial(Case, machine=WARPGROUPS)


def product(order: str, rows: int, columns: int, depth: int, dtype: Any = BF16, machine: Gpu = WARPGROUPS) -> Case:
    """Of operands of which those that `order` calls `t` are transposed."""

    def turned(x: Any, letter: str) -> Any:
        return x.T if letter == "t" else x

    a, b = numbers(rows, depth, dtype=dtype), numbers(depth, columns, dtype=dtype)
    return OnOne(
        lambda a, b: tenon.matmul(turned(a, order[0]), turned(b, order[1])),
        [np.ascontiguousarray(turned(a, order[0])), np.ascontiguousarray(turned(b, order[1]))],
        lambda a, b: turned(a, order[0]) @ turned(b, order[1]),
        machine=machine,
    )


broken = numbers(64, 64)
broken[3, 7], broken[5, 5] = np.inf, np.nan
CASES = {
    **{order: product(order, 136, 264, 264) for order in ("nn", "tt")},  # each operand in each order
    "rows of 8 bytes": product("nn", 136, 260, 264),
    "several tiles": product("nt", 136, 520, 192),
    "one piece": product("nn", 64, 72, 64, np.float16),
    "two pieces": product("tn", 80, 64, 128, np.float16),
    "small tiles": product("nn", 130, 140, 192, machine=GPUS["sm_90a"]),
    "batched": OnOne(tenon.matmul, [numbers(2, 72, 192), numbers(2, 192, 68)], lambda a, b: a @ b),
    "epilogue": OnOne(
        lambda x, w, b, r: tenon.exp(r) + tenon.relu(tenon.matmul(x, w) + b) * 0.5,
        [numbers(66, 192), numbers(192, 72), numbers(72), numbers(66, 72)],
        lambda x, w, b, r: np.exp(r) + np.maximum(x @ w + b, 0) * 0.5,
    ),
    "long epilogue": OnOne(
        lambda x, w, b, r: tenon.gelu(tenon.matmul(x, w) + b) * r,
        [numbers(70, 64), numbers(64, 200), numbers(200), numbers(70, 200)],
        lambda x, w, b, r: (y := x @ w + b) * np.vectorize(math.erfc)(-y / math.sqrt(2)) / 2 * r,
    ),
    "convolution": OnOne(
        lambda x, w: tenon.conv2d(x, w, padding=1), [numbers(1, 64, 4, 64), numbers(64, 64, 3, 3)], convolved
    ),
    "gradient of a convolution's weight": gradient_case(
        1,
        [numbers(1, 64, 5, 62), numbers(64, 64, 3, 3), numbers(1, 64, 5, 62)],
        padding=1,
        machine=WARPGROUPS,
    ),
    "nan": OnOne(tenon.matmul, [broken, numbers(64, 64)], lambda a, b: a @ b),
    "steps of a scan": OnOne(
        lambda h, x: tenon.scan(lambda h, x: (tenon.matmul(h, x) * 0.125, None), h, x)[0],
        [numbers(64, 64), numbers(3, 64, 64)],
        lambda h, x: h @ x[0] @ x[1] @ x[2] / 512,
    ),
}


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleOp]:
    return {name: lowered(case) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def executables(modules: dict[str, ModuleOp]) -> dict[str, ShimExecutable]:
    return dict(zip(modules, load_on_shim(list(modules.values())), strict=True))


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_numpy(
    name: str, modules: dict[str, ModuleOp], executables: dict[str, ShimExecutable]
) -> None:
    assert "contract(kf, wgmma)" in [re.sub(r"\(\w+,", "(kf,", step) for step in steps(modules[name])]
    for schedule in SCHEDULES:
        (result,) = executables[name](list(CASES[name].arrays), schedule)
        assert_close(CASES[name], result)


@needs_compiler
@pytest.mark.parametrize("name", ["nn", "tt"])
def test_banks_have_few_conflicts(name: str, executables: dict[str, ShimExecutable]) -> None:
    counters = counted(executables[name], CASES[name])
    assert counters.turns_per_access < 1.05
    assert counters.tensor_operations >= 2 * 136 * 264 * 264


@needs_compiler
def test_results_are_stored_by_whole_sectors(executables: dict[str, ShimExecutable]) -> None:
    """Of 80 rows of 128 bytes: four lanes exchange their pairs, so that each stores 16 bytes."""
    counters = counted(executables["two pieces"], CASES["two pieces"])
    assert (counters.store_bytes, counters.store_sectors) == (80 * 128, 80 * 4)
    assert counters.store_requests == 80 * 128 // (16 * 32)


BULK_FAULTS = {
    "tiles that are not waited for": (
        r"tn_mbarrier_wait\(.*\n( *tn_wgmma_fence)",
        r"\1",
        "copy-not-awaited",
    ),
    "the phase before": (
        r"tn_mbarrier_wait\((.*), (v_\d+)\);(\n *tn_wgmma_fence)",
        r"tn_mbarrier_wait(\1, !\2);\3",
        "copy-not-awaited mbarrier-phase",
    ),
    "a stage that is not empty": (r"tn_mbarrier_wait\(.*\n( *tn_mbarrier_expect)", r"\1", "mbarrier-arrivals"),
    "an empty stage of the next phase": (
        r"tn_mbarrier_wait\((.*), (v_\d+)\);(\n *tn_mbarrier_expect)",
        r"tn_mbarrier_wait(\1, !\2);\3",
        "overwritten-while-read mbarrier-phase",
    ),
    "too few bytes": (r", 49152\);", ", 49136);", "mbarrier-bytes mbarrier-phase"),
    "too many bytes": (r", 49152\);", ", 49168);", "mbarrier-phase"),
    "a box elsewhere": (r"(tn_tma_load_2d\(\w+, &\w+), (.*?), (.*?), &", r"\1, \3, \2, &", ""),
    "barriers that copies do not know": (r"tn_fence_mbarrier_init\(\);", "", "mbarrier-fence"),
    "barriers that threads do not know": (r"__syncthreads\(\);", "", "mbarrier-uninitialised"),
    "too few arrivals": (r", 16\);", ", 12);", "mbarrier-arrivals overwritten-while-read"),
    "stages that nobody leaves": (r"tn_mbarrier_arrive\(.*\);", "", "mbarrier-phase"),
    "a stage that one warp does not leave, and nobody waits for": (
        r"tn_mbarrier_arrive\(",
        "if (threadIdx.x / 32 != 3) tn_mbarrier_arrive(",
        "mbarrier-arrivals",
    ),
    "stages that are left too early": (r"tn_wgmma_wait<1>\(\);", "", "overwritten-while-read"),
    "no fence of registers": (r"tn_wgmma_fence\(\);", "", "wgmma-fence"),
    "sums that are not waited for": (r"tn_wgmma_wait<0>\(\);", "", "accumulator-in-flight exit-in-flight"),
    "registers that are not there": (r"tn_setmaxnreg_inc<232>", "tn_setmaxnreg_inc<240>", "setmaxnreg"),
    "registers that nobody leaves": (r"tn_setmaxnreg_dec<40>", "tn_setmaxnreg_dec<96>", "setmaxnreg"),
    "panels elsewhere": (r", 8192, 1024, 128\)", ", 4096, 1024, 128)", ""),
}
FAULTY = {
    "a stage that one warp does not leave, and nobody waits for": "two pieces",
    "registers that are not there": "long epilogue",
    "registers that nobody leaves": "long epilogue",
}
"""The cases that have what a fault is of, where "nn" does not."""


@needs_compiler
@pytest.mark.parametrize("fault", BULK_FAULTS)
def test_faults_of_boxes_are_found(fault: str, executables: dict[str, ShimExecutable]) -> None:
    old, new, names = BULK_FAULTS[fault]
    name = FAULTY.get(fault, "nn")
    right = executables[name]
    wrong = re.sub(old, new, right.source)
    assert wrong != right.source
    assert_found(right, wrong, CASES[name], names, SCHEDULES[1:2])


FAULTS = {
    "a piece that is not waited for": ("tn_cp_async_wait<1>();", "tn_cp_async_wait<2>();", "copy-not-awaited"),
    "no fence between proxies": ("tn_fence_proxy_async();", "", "proxy-fence"),
    "no barrier": ("__syncthreads();", "", "copy-not-awaited overwritten-while-read"),
    "no fence of registers": ("tn_wgmma_fence();", "", "wgmma-fence"),
    "too many products under way": ("tn_wgmma_wait<1>();", "tn_wgmma_wait<2>();", "overwritten-while-read"),
    "sums that are not waited for": ("tn_wgmma_wait<0>();", "", "accumulator-in-flight exit-in-flight"),
    "panels elsewhere": (", 8192, 1024, 128)", ", 4096, 1024, 128)", ""),
}


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, executables: dict[str, ShimExecutable]) -> None:
    """Each fault of a text that is right has a name, or changes the numbers."""
    name, (old, new, names) = "rows of 8 bytes", FAULTS[fault]
    right = executables[name]
    assert old in right.source
    assert_found(right, right.source.replace(old, new), CASES[name], names, SCHEDULES[1:2])


def zeros(*shape: int) -> Any:
    return np.zeros(shape, BF16)


LARGE = {
    "128 tiles, a bias and an activation": (
        Case(
            lambda x, w, b: tenon.gelu(tenon.matmul(x, w) + b),
            [zeros(2048, 2048), zeros(2048, 2048), zeros(2048)],
            np.matmul,
            machine=GPUS["sm_90a"],
        ),
        {"pipeline(ko, 4)", "rotate(jn)"},
    ),
    "columns beyond the last tile": (
        Case(tenon.conv2d, [zeros(32, 256, 56, 56), zeros(64, 256, 1, 1)], convolved, machine=GPUS["sm_90a"]),
        {"pipeline(ko, 4)", "split(j, 256) -> jg, jb"},
    ),
    "a residual, with tiles that end beyond it": (
        Case(
            lambda x, w, b, r: (tenon.matmul(x, w) + b) * r,
            [zeros(4100, 1000), zeros(1000, 4104), zeros(4104), zeros(4100, 4104)],
            np.matmul,
            machine=GPUS["sm_90a"],
        ),
        {"split(j, 256) -> jg, jb", "rotate(jn)"},
    ),
    "a short sum in parts": (
        Case(lambda x, y: tenon.matmul(x, y.T), [zeros(64, 576), zeros(104, 576)], np.matmul, machine=GPUS["sm_90a"]),
        {"split(l, 64) -> lo, li", "contract(lf, wgmma)"},
    ),
}


@needs_nvrtc
@pytest.mark.parametrize("name", LARGE)
def test_nvrtc_compiles_large_products_without_spills_and_remarks(name: str) -> None:
    case, expected = LARGE[name]
    module = lowered(case)
    assert expected < set(steps(module))
    assert_in_registers(module, "sm_90a")


@pytest.mark.parametrize(
    ("left", "right", "rows", "columns"),
    [
        ((4096, 4096), (4096, 4096), 128, 256),  # the most sums for what is read
        ((1024, 1024), (1024, 1024), 64, 128),  # a tile for each multiprocessor
        ((64, 1024, 64), (64, 64, 1024), 128, 256),  # writing takes longest, and blocks that last go on beside it
        ((64, 1024, 1024), (64, 1024, 64), 128, 64),
    ],
)
def test_tiles_are_those_of_which_a_multiprocessor_is_done_first(
    left: tuple[int, ...], right: tuple[int, ...], rows: int, columns: int
) -> None:
    case = Case(tenon.matmul, [zeros(*left), zeros(*right)], np.matmul, machine=GPUS["sm_90a"])
    assert {f"split(i, {rows}) -> ig, ib", f"split(j, {columns}) -> jg, jb"} < set(steps(lowered(case)))


def test_what_warpgroups_are_not_for_is_left_to_warps() -> None:
    for case in (product("nn", 32, 128, 128), product("nn", 128, 128, 72), product("nn", 128, 129, 128)):
        assert "contract(kf, mma)" in steps(lowered(case))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("split(ib, 64)", "split(ib, 32)", "the last 4 warps are 16 rows apart"),
        ("vectorize(jv)", "unroll(jv)", "the two elements along j are a vector"),
        ("swizzle=8", "swizzle=4", "rows of a0 in shared memory are not 8 runs of 16 bytes that trade places"),
        (", panel=64", "", "rows of a1 in shared memory are not 8 runs of 16 bytes that trade places"),
        (", panel=64", ", panel=96", "rows of 128 elements are no panels of 96, which are runs of 16 bytes"),
        ("copy=boxes", "pad=0", "a0 is not copied asynchronously"),
        ("pipeline(ko, 4)", "", "boxes are copied at ko, and no pipeline has several under way"),
        ("contract(kf, wgmma)", "registers(40, 240)", "66560 registers are more than the 64512"),
        ("contract(kf, wgmma)", "registers(48, 232)", "65536 registers are more than the 64512"),
        ("contract(kf, wgmma)", "registers(40, 160)", "each thread has 168 registers at first, which"),
        ("contract(kf, wgmma)", "registers(44, 232)", "44 registers are no multiple of 8 from 24 to 256"),
        ("pipeline(ko, 4)", "rotate(ko)", "sums take turns for one statement that follows one product"),
        ("contract(kf, wgmma)", "contract(ku, wgmma)", "wgmma takes 16 neighbours along k, loop ku has 4"),
        ("contract(kf, wgmma)", "", "runs of a0 trade places in shared memory, which only fragments are loaded from"),
        (
            "swizzle=8, copy=boxes)",
            "swizzle=8, copy=async)",
            "threads copy a0, and a warp of its own copies boxes of a1",
        ),
        ("bind(ig, grid)", "", "boxes are copied for one sum, and there is one for each iteration of loop ig"),
    ],
)
def test_steps_that_do_not_fit_are_named(old: str, new: str, message: str) -> None:
    case = product("nn", 256, 256, 256, machine=GPUS["sm_90a"])
    listed = tiled_steps(case)
    lowered(case, listed)
    with pytest.raises(ValueError, match=re.escape(message)):
        lowered(case, [changed for step in listed if (changed := step.replace(old, new))])


def tiled_steps(case: Case) -> list[str]:
    """The steps of a product, with tiles of 128 by 128."""
    return [re.sub(r"split\(([ij]), \d+\)", r"split(\1, 128)", step) for step in steps(lowered(case))]


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (
            [],
            ["pack(a0, fragments)"],
            "contract(kf, wgmma): a0 is not packed to shared memory, for wgmma to read it there",
        ),
        ([], ["pipeline(ko, 3)"], "pipeline(ko, 3): loop ko has 4 stages already"),
        (
            [],
            ["registers(40, 232)", "registers(24, 240)"],
            "threads that copy and that compute have 40 and 232 registers",
        ),
        (["registers(24, 256)"], [], "registers(24, 256): 68608 registers are more than the 64512 that a block begins"),
        (["resident(2)"], ["registers(40, 232)"], "a multiprocessor holds one block whose threads have different"),
        (["resident(8)"], [], "resident(8): a multiprocessor holds 32 blocks and 2048 threads at most"),
        ([], ["resident(2)", "resident(3)"], "resident(3): a multiprocessor is to hold 2 blocks already"),
    ],
)
def test_steps_are_right_when_all_are_done(first: list[str], last: list[str], message: str) -> None:
    """What a step takes for granted may be otherwise when others follow it."""
    case = product("nn", 256, 256, 256, machine=GPUS["sm_90a"])
    with pytest.raises(ValueError, match=re.escape(message)):
        lowered(case, [*first, *tiled_steps(case), *last])


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_device_agrees_with_numpy(name: str) -> None:
    case = CASES[name]
    assert_close(case, tenon.jit(case.function, device="cuda")(*case.arrays).get())
