"""Attention in one kernel of a GPU: under the host shim it gives what NumPy gives in f64, for rows, keys and heads of
any length, with masks, and NaN for rows that are masked as a whole; and no score is in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from cuda_shim import SCHEDULES, ShimExecutable, load_on_shim
from grid_cases import assert_in_registers, counted, needs_compiler, needs_nvrtc
from product_cases import BF16, ONE, WARPGROUPS, Array, assert_found, normal, replace_step, steps_of
from product_cases import Case as ProductCase
from random_numbers import generator
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.lowering.cuda.emit_cuda import kernels
from tenon.lowering.grid_schedules.decide_steps import DecideStepsPass
from tenon.lowering.grids.apply_steps import ApplyStepsPass
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower, lower_to_buffers
from tenon.passes.machine import GPUS, Gpu
from tenon.runtime.lower import new_context

RANDOM = generator(7)
numbers = partial(normal, RANDOM)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and what is done to scores in NumPy, between the products."""

    function: Callable[..., Any]
    arrays: Sequence[Array]
    scored: Callable[..., Any]
    machine: Gpu = ONE

    @staticmethod
    def of(
        shape: tuple[int, int, int, int, int],
        mask: Array | None = None,
        *,
        dtype: Any = BF16,
        is_causal: bool = False,
        machine: Gpu = ONE,
    ) -> Case:
        """Heads, queries, keys, and the lengths of both heads."""
        heads, rows, keys, depth, head = shape
        arrays = [numbers(heads, *size, dtype=dtype) for size in ((rows, depth), (keys, depth), (keys, head))]
        causal = np.tril(np.ones((rows, keys), bool))

        def scored(scores: Array, *masks: Array) -> Array:
            for given in (*masks, *([causal] if is_causal else [])):
                scores = np.where(given, scores, -np.inf) if given.dtype == np.bool_ else scores + given
            return scores

        def function(*given: Any) -> Any:
            return tenon.scaled_dot_product_attention(*given, is_causal=is_causal)

        return Case(function, [*arrays, *([mask] if mask is not None else [])], scored, machine)

    def expected(self) -> Array:
        """In f64."""
        q, k, v, *masks = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in self.arrays]
        scores = self.scored(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), *masks)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
        return weights / np.maximum(weights.sum(-1, keepdims=True), 1.0) @ v


def windowed(q: Any, k: Any, v: Any) -> Any:
    scores = tenon.matmul(q, tenon.transpose(k)) * 0.125
    near = tenon.band(shape=(200, 200), lower=-40, upper=20)
    return tenon.softmax(tenon.select(near, scores, -np.inf)) @ v


def near(scores: Array) -> Array:
    ahead = np.arange(200) - np.arange(200)[:, None]
    return np.where((ahead >= -40) & (ahead <= 20), scores, -np.inf)


sharp = Case.of((2, 90, 130, 64, 64))
sharp.arrays[0][...] *= 32  # scores of up to a hundred, of which bf16 has no halves: these are not rounded
some = RANDOM.random((90, 100)) < 0.5
some[3], some[10, :70] = False, False
CASES = {
    "whole_tiles": Case.of((2, 128, 128, 64, 64)),
    "long_heads": Case.of((1, 64, 130, 128, 128)),
    "odd_sizes": Case.of((2, 33, 77, 63, 65), dtype=np.float16),
    "causal": Case.of((1, 160, 170, 48, 40), is_causal=True),
    "masked_rows": Case.of((2, 90, 100, 32, 32), some),
    "added_mask": Case.of((2, 90, 100, 32, 32), numbers(2, 90, 100)),
    "sharp": sharp,
    "warpgroups": Case.of((1, 128, 256, 128, 128), machine=WARPGROUPS),
    "causal_warpgroups": Case.of((1, 150, 270, 64, 128), dtype=np.float16, is_causal=True, machine=WARPGROUPS),
    "masked_warpgroups": Case.of((1, 90, 100, 64, 64), some, machine=WARPGROUPS),
    "window": Case(windowed, [numbers(200, 64) for _ in range(3)], near),
}


def lowered(case: Case, machine: Gpu | None = None) -> ModuleOp:
    module = tenon.jit(case.function).trace(*case.arrays).module.clone()
    return lower(new_context(), module, LoweringOptions(gpu=machine or case.machine))


@pytest.fixture(scope="module")
def executables() -> dict[str, ShimExecutable]:
    return dict(zip(CASES, load_on_shim([lowered(case) for case in CASES.values()]), strict=True))


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_numpy(name: str, executables: dict[str, ShimExecutable]) -> None:
    case = CASES[name]
    expected = case.expected()
    for schedule in SCHEDULES:
        (result,) = executables[name](list(case.arrays), schedule)
        largest = np.nanmax(np.abs(expected))
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-2, atol=1.5e-2 * largest)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_nowhere_in_memory(name: str) -> None:
    found = kernels(lowered(CASES[name]))
    (kernel,) = [kernel for kernel in found if "online(jo)" in steps_of(kernel)]
    assert len(found) == 1 + 2 * ("mask" in name)  # rows of which nothing counts are found before, and 0 behind
    by = "wgmma" if "warpgroups" in name else "mma"
    assert {f"contract(kf, {by})", f"contract(ju, {by})"} < set(steps_of(kernel))
    assert ("bind(ig, grid, order=descending)" in steps_of(kernel)) is (name == "causal_warpgroups")


@needs_compiler
def test_exponentials_are_of_multiples_at_once(executables: dict[str, ShimExecutable]) -> None:
    """One multiplication and addition for each, where scores are a multiple or -inf; not where a mask is added."""
    texts = {name: executables[name].source.split('extern "C"')[1] for name in CASES}
    assert [name for name, text in texts.items() if "= fmaf(" not in text] == ["added_mask"]
    assert all(("tn_exp2_flushed(" in text) is (name != "added_mask") for name, text in texts.items())
    assert not any("tn_exp2_approximate(" in text for text in texts.values())  # it knows subnormal results


@needs_compiler
def test_pieces_that_nobody_sees_are_left_out(executables: dict[str, ShimExecutable]) -> None:
    """Of three pieces of keys the last one is masked for the first of two blocks of rows."""
    (whole,) = load_on_shim([lowered(Case.of((1, 160, 170, 48, 40)))])
    left_out, all_done = [counted(each, CASES["causal"]) for each in (executables["causal"], whole)]
    assert left_out.tensor_operations * 6 == all_done.tensor_operations * 5


@needs_nvrtc
@pytest.mark.parametrize(("architecture", "head"), [("sm_80", 128), ("sm_90", 64), ("sm_90a", 64), ("sm_90a", 128)])
def test_nothing_is_spilled(architecture: str, head: int) -> None:
    assert_in_registers(lowered(Case.of((2, 256, 512, head, head), is_causal=True), GPUS[architecture]), architecture)


FAULTS = {
    "a piece that is not waited for": ("tn_cp_async_wait<0>();", "tn_cp_async_wait<1>();", "copy-not-awaited"),
    "no fence between proxies": ("tn_fence_proxy_async();", "", "proxy-fence"),
    "no barrier": ("__syncthreads();", "", "copy-not-awaited overwritten-while-read"),
    "no fence of registers": ("tn_wgmma_fence();", "", "wgmma-fence"),
    "sums that are not waited for": ("tn_wgmma_wait<0>();", "", "accumulator-in-flight operand-in-flight"),
    "a turn that is not given": (
        "tn_named_barrier_arrive(v_",
        "if (!threadIdx.x) tn_named_barrier_arrive(v_",
        "deadlock",
    ),
    "another right operand": (
        "tn_wgmma_m64n128k16_bf16_registers<1>",
        "tn_wgmma_m64n128k16_bf16_registers<0>",
        "copy-not-awaited shared-range",
    ),
}


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_warpgroups_are_found(fault: str, executables: dict[str, ShimExecutable]) -> None:
    """Each fault of a text that is right has a name, or changes the numbers."""
    case, right, (old, new, names) = CASES["warpgroups"], executables["warpgroups"], FAULTS[fault]
    assert old in right.source
    known = ProductCase(case.function, case.arrays, lambda *_: case.expected(), tolerance=1.5e-2)
    assert_found(right, right.source.replace(old, new), known, names, SCHEDULES[1:2])


def test_what_stays_in_kernels_of_its_own() -> None:
    """Products of f32, of long heads, of weights that are a result or rounded twice, and of few keys."""
    heads, weights = Case.of((1, 32, 128, 256, 64)), Case.of((1, 32, 128, 64, 64))

    def shown(q: Any, k: Any, v: Any) -> Any:
        p = tenon.softmax(tenon.matmul(q, tenon.transpose(k, permutation=(0, 2, 1))))
        return p @ v, p

    def rounded(q: Any, k: Any, v: Any) -> Any:
        scores = tenon.cast(tenon.matmul(q, tenon.transpose(k, permutation=(0, 2, 1))), dtype="f32")
        return tenon.cast(tenon.cast(tenon.softmax(scores), dtype="f16"), dtype="bf16") @ v

    def biased(q: Any, k: Any, v: Any) -> Any:
        bias = tenon.transpose(k, permutation=(0, 2, 1))[:, :1, :] + q[:, :, :1]
        for _ in range(40):  # each is used twice
            bias = bias * bias
        scores = tenon.matmul(q, tenon.transpose(k, permutation=(0, 2, 1)))
        return tenon.softmax(scores + bias) @ v

    wide = Case.of((1, 32, 128, 64, 64), dtype=np.float32)
    few = Case.of((1, 32, 32, 64, 64))
    twice = Case(rounded, weights.arrays, weights.scored)
    for case in (heads, wide, few, Case(shown, weights.arrays, weights.scored), twice):
        assert len(kernels(lowered(case))) == 3
    assert kernels(lowered(Case(biased, weights.arrays, weights.scored)))  # found in linear time


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("online(jo)", "", "is kept in registers along loop jo, which is not written out"),
        ("online(jo)", "online(ku)", "online(ku): 0 statements find the largest element along axis k, expected one"),
        ("bind(ig, grid)", "bind(ig, grid, order=up)", "blocks of a grid have the order descending or none"),
        ("online(jo)", "online(ju)", "online(ju): loop ju is bound or written out"),
        ("bind(ml, lane, like=jl)", "bind(ml, lane, like=il)", "loops ml and il have 4 and 8 iterations"),
        ("bind(ml, lane, like=jl)", "bind(ml, lane, like=jo)", "loop jo is not bound to lanes of its own"),
        ("contract(ju, mma)", "contract(jl, mma)", "contract(jl, mma): loop jl is bound or written out"),
        ("contract(ju, mma)", "", "a2 is packed to fragments, and no contraction takes it"),
        ("split(j, 64) -> jo, jb", "split(j, 40) -> jo, jb", "t2 is not dealt out along j as matrices of 16 columns"),
    ],
)
def test_steps_that_do_not_fit_are_named(old: str, new: str, message: str) -> None:
    case, context = CASES["whole_tiles"], new_context()
    module = tenon.jit(case.function).trace(*case.arrays).module.clone()
    lower_to_buffers(context, module, LoweringOptions(gpu=ONE))
    DecideStepsPass(machine=ONE.text()).apply(context, module)
    (kernel,) = kernels(module)
    replace_step(kernel, old, new)
    with pytest.raises(ValueError, match=re.escape(message)):
        ApplyStepsPass(machine=ONE.text()).apply(context, module)
