"""The gradient of attention on a GPU: under the host shim it gives what PyTorch gives in f64, for rows, keys and heads
of any length, masks, grouped heads and heads beside tokens; and no matrix of scores is in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytest
import torch
from cuda_shim import SCHEDULES, ShimExecutable, load_on_shim
from grid_cases import assert_in_registers, counted_each, needs_compiler, needs_nvrtc
from product_cases import ONE, WARPGROUPS, Array, normal, replace_step, steps_of
from random_numbers import generator
from torch.nn.functional import scaled_dot_product_attention
from xdsl.dialects.builtin import MemRefType, ModuleOp

import tenon
from tenon.lowering.cuda.emit_cuda import kernels
from tenon.lowering.grid_schedules.decide_steps import DecideStepsPass
from tenon.lowering.grids.apply_steps import ApplyStepsPass
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower, lower_to_buffers, run_passes
from tenon.passes.machine import GPUS, Gpu
from tenon.runtime.lower import new_context

numbers = partial(normal, generator(5))


@dataclass(frozen=True)
class Case:
    """A function in Tenon and in PyTorch, its arguments, of which the first `count` have a gradient, and that of its
    result, for some shape; `alone`, if the program gives no result but gradients."""

    function: Callable[..., Any]
    in_torch: Callable[..., Any]
    arrays: Sequence[Array]
    shape: Sequence[int]
    count: int = 3
    alone: bool = False
    machine: Gpu = ONE

    @cached_property
    def given(self) -> list[Array]:
        """What the program is called with: the gradient of the result comes last."""
        return [*self.arrays, numbers(*self.shape, dtype=self.arrays[0].dtype)]

    def traced(self) -> ModuleOp:
        function, count, alone = self.function, self.count, self.alone

        def program(*given: Any) -> Any:
            *arguments, gradient = given
            result, pull = tenon.vjp(lambda *first: function(*first, *arguments[count:]), *arguments[:count])
            gradients = pull(gradient)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            return gradients if alone else (result, *gradients)

        return tenon.jit(program).trace(*self.given).module.clone()

    def expected(self) -> list[Array]:
        """In f64."""
        *tensors, gradient = [torch.tensor(a if a.dtype == np.bool_ else a.astype(np.float64)) for a in self.given]
        differentiated = [tensor.requires_grad_() for tensor in tensors[: self.count]]
        result = self.in_torch(*tensors)
        gradients = torch.autograd.grad(result, differentiated, gradient)
        return [each.detach().numpy() for each in (gradients if self.alone else (result, *gradients))]


def attention(*arrays: Array, **settings: Any) -> Case:
    """As users write it."""
    functions = (tenon.scaled_dot_product_attention, scaled_dot_product_attention)
    own, other = (partial(function, **settings) for function in functions)
    return Case(own, other, arrays, (*arrays[0].shape[:-1], arrays[2].shape[-1]))


def heads_last(q: Any, k: Any, v: Any) -> Any:
    """Of (batch, token, head, element), in a window, by scores that `tanh` keeps small."""
    scores = tenon.tanh(tenon.einsum("bqhd,bkhd->bhqk", q, k) * 0.1) * 4
    near = tenon.band(shape=(150, 150), lower=-40, upper=20)
    return tenon.einsum("bhqk,bkhd->bqhd", tenon.softmax(tenon.select(near, scores, -np.inf)), v)


def heads_last_in_torch(q: Any, k: Any, v: Any) -> Any:
    scores = torch.tanh(torch.einsum("bqhd,bkhd->bhqk", q, k) * 0.1) * 4
    ahead = torch.arange(150) - torch.arange(150)[:, None]
    scores = torch.where((ahead >= -40) & (ahead <= 20), scores, -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v)


some = generator(3).random((20, 90)) < 0.5
CASES = {
    "causal": attention(*[numbers(1, 130, 128) for _ in range(3)], is_causal=True),
    "odd": attention(*[numbers(2, *size, dtype=np.float16) for size in ((33, 63), (77, 63), (77, 65), (33, 77))]),
    "alone": replace(attention(*[numbers(1, 70, 16) for _ in range(3)]), alone=True),
    "grouped": attention(numbers(1, 4, 20, 32), *[numbers(1, 2, 90, 32) for _ in range(2)], some, enable_gqa=True),
    "warpgroups": replace(
        attention(
            numbers(1, 2, 80, 64),
            *[numbers(1, 1, 152, 64) for _ in range(2)],
            np.arange(152)[None, None] % 3 > 0,  # of keys
            enable_gqa=True,
        ),
        machine=WARPGROUPS,
    ),
    "long_warpgroups": replace(
        attention(*[numbers(1, rows, 128, dtype=np.float16) for rows in (150, 200, 200)], is_causal=True),
        machine=WARPGROUPS,
    ),
    "heads_last": Case(heads_last, heads_last_in_torch, [numbers(1, 150, 2, 48) for _ in range(3)], (1, 150, 2, 48)),
    "heads_last_warpgroups": Case(
        heads_last, heads_last_in_torch, [numbers(1, 150, 1, 64) for _ in range(3)], (1, 150, 1, 64), machine=WARPGROUPS
    ),
}


def lowered(case: Case, machine: Gpu | None = None) -> ModuleOp:
    return lower(new_context(), case.traced(), LoweringOptions(gpu=machine or case.machine))


@pytest.fixture(scope="module")
def executables() -> dict[str, ShimExecutable]:
    return dict(zip(CASES, load_on_shim([lowered(case) for case in CASES.values()]), strict=True))


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_torch(name: str, executables: dict[str, ShimExecutable]) -> None:
    case = CASES[name]
    expected = case.expected()
    for schedule in SCHEDULES:
        for result, right in zip(executables[name](case.given, schedule), expected, strict=True):
            np.testing.assert_allclose(result.astype(np.float64), right, rtol=1e-2, atol=1.5e-2 * np.abs(right).max())


@pytest.mark.parametrize("name", CASES)
def test_scores_are_nowhere_in_memory(name: str) -> None:
    """Beside the forward kernel there is one that sums along rows, one along columns, and one for numbers of rows."""
    case, module = CASES[name], CASES[name].traced()
    tokens = -3 if name.startswith("heads_last") else -2
    sizes = {array.shape[tokens] for array in case.arrays[:2]}
    rest = lower_to_buffers(new_context(), module, LoweringOptions(gpu=case.machine))
    (main,) = [function for function in module.ops if function not in kernels(module)]
    shapes = [
        result.type.get_shape() for op in main.walk() for result in op.results if isinstance(result.type, MemRefType)
    ]
    assert all(not sizes.issuperset(shape[-2:]) for shape in shapes)
    run_passes(new_context(), module, [text for stage in rest for text in stage.passes])
    found = [str(kernel.attributes.get("schedule")) for kernel in kernels(module)]
    assert [sum(step in steps for steps in found) for step in ("online(", "pieces(", "None")] == [1, 2, 0]
    by = {how for steps in found for how in re.findall(r"contract\(\w+, (\w+)\)", steps)}
    assert by == {"wgmma" if "warpgroups" in name else "mma"}


@needs_compiler
@pytest.mark.parametrize(("name", "size", "seen"), [("causal", 64, (6, 6, 9 / 2)), ("long_warpgroups", 128, (6, 6, 4))])
def test_pieces_that_nobody_sees_are_left_out(
    name: str, size: int, seen: Sequence[float], executables: dict[str, ShimExecutable]
) -> None:
    """Of 3 pieces of keys blocks of 64 queries see 1, 2 and 3; of 5 of 32 queries blocks of 64 keys see 5, 3 and 1. Of
    4 pieces of keys blocks of 128 queries see 2 and 4, of 3 of queries blocks of 128 keys 3 and 1."""
    counters = counted_each(executables[name], CASES[name].given)
    done = [known.tensor_operations for known in counters if known.tensor_operations]
    assert done == [pieces * products * 2 * size * 64 * 128 for pieces, products in zip(seen, (2, 3, 4), strict=True)]


@needs_compiler
def test_products_go_on_while_others_compute(executables: dict[str, ShimExecutable]) -> None:
    """The next warpgroup has its turn before results are waited for, and so is dS computed, while dV is."""
    texts = executables["long_warpgroups"].source.split('extern "C"')[1:]
    calls = [re.findall(r"  tn_(?:wgmma|named_barrier)_(commit|wait|sync|arrive)\b", text) for text in texts]
    turns = ["arrive", "sync", "commit", "arrive", "wait"]
    one, two = ([*turns, *commits, "wait", "sync"] for commits in (["commit"], ["commit", "commit"]))
    assert sorted(calls) == sorted([[], one, one, two])


def test_numbers_of_columns_come_with_a_piece() -> None:
    """A mask of keys for what sums along rows, logarithms and sums of rows for what sums along columns."""
    found = [steps_of(kernel) for kernel in kernels(lowered(CASES["warpgroups"]))]
    numbers = [sum(bool(re.fullmatch(r"pack\(a\d, shared, at=\wo, copy=async\)", s)) for s in steps) for steps in found]
    assert numbers[:3] == [1, 2, 1]


def test_blocks_that_take_longest_begin_first() -> None:
    """Of a causal gradient those of the last queries, and of the first keys, for all heads."""
    forward, of_queries, of_keys, _ = [steps_of(kernel) for kernel in kernels(lowered(CASES["long_warpgroups"]))]
    last = "bind(ig, grid, order=descending)"
    assert {"reorder(ig, l)", last} < set(forward)
    assert {"reorder(ig, l, n)", last} < set(of_queries)
    assert {"reorder(jg, l, n)", "bind(jg, grid)"} < set(of_keys)


@needs_nvrtc
@pytest.mark.parametrize(("architecture", "head"), [("sm_80", 128), ("sm_90a", 64), ("sm_90a", 128)])
def test_nothing_is_spilled(architecture: str, head: int) -> None:
    case = attention(*[numbers(2, 512, head) for _ in range(3)], is_causal=True)
    assert_in_registers(lowered(case, GPUS[architecture]), architecture)


def scores_of(one: Any, other: Any) -> Any:
    return tenon.cast(one @ tenon.swapaxes(other, -1, -2), "f32")


def weighted(weights: Any, values: Any) -> Any:
    return tenon.cast(weights, "f16") @ values


def whole(one: Any, other: Any) -> Any:
    """Products without their fractions."""
    return tenon.cast(tenon.cast(scores_of(one, other), "i32"), "f32")


def sums_of(q: Any, k: Any) -> Any:
    """The logarithms of sums of exponentials, of a softmax as it is in the programs."""
    scores = scores_of(q, k)
    largest = tenon.max(scores, axis=-1, keepdims=True)
    return tenon.log(tenon.sum(tenon.exp(scores - largest), axis=-1, keepdims=True)) + largest


Uses = Callable[[Any, Any, Any, Any, Any], tuple[Any, ...]]
"""Of weights, queries, keys, values and a mask."""
USES: dict[str, tuple[Uses, Uses]] = {
    "twice": (
        lambda weights, q, k, v, some: (weighted(weights, v), weighted(weights, k)),
        lambda weights, q, k, v, some: (weights @ v, weights @ k),
    ),
    "converted": (
        lambda weights, q, k, v, some: (
            weighted(weights, v),
            weighted(weights * tenon.cast(some, "f32"), v),
            weighted(weights * whole(q, v), k),
        ),
        lambda weights, q, k, v, some: (weights @ v, (weights * some) @ v, (weights * (q @ v.mT).trunc()) @ k),
    ),
    "times_sums": (
        lambda weights, q, k, v, some: (
            weighted(weights, v),
            weighted(weights * tenon.sum(weights * whole(q, v), axis=-1, keepdims=True), k),
        ),
        lambda weights, q, k, v, some: (
            weights @ v,
            (weights * (weights * (q @ v.mT).trunc()).sum(-1, keepdim=True)) @ k,
        ),
    ),
    "columns_first": (
        lambda weights, q, k, v, some: (
            weighted(weights, v + tenon.einsum("bqk,bqd->bkd", tenon.cast(weights, "f16"), q)),
        ),
        lambda weights, q, k, v, some: (weights @ (v + weights.mT @ q),),
    ),
    "in_turn": (
        lambda weights, q, k, v, some: (
            weighted(weights, v),
            weighted(weights * scores_of(weighted(weights, k), k), v),
        ),
        lambda weights, q, k, v, some: (weights @ v, (weights * (weights @ k @ k.mT)) @ v),
    ),
    "sums_first": (
        lambda weights, q, k, v, some: (weighted(weights, v * tenon.cast(tenon.mean(sums_of(q, k)), "f16")),),
        lambda weights, q, k, v, some: (weights @ (v * torch.logsumexp(q @ k.mT, -1).mean()),),
    ),
    "compared": (
        lambda weights, q, k, v, some: (weighted(weights, v), weighted(weights > 0.01, k)),
        lambda weights, q, k, v, some: (weights @ v, (weights > 0.01).double() @ k),
    ),
    "of_f64": (
        lambda weights, q, k, v, some: (weighted(weights, v), weighted(tenon.cast(weights, "f64") * 3, k)),
        lambda weights, q, k, v, some: (weights @ v, 3 * weights @ k),
    ),
    "broadcast": (
        lambda weights, q, k, v, some: (tenon.sum(weights * scores_of(q[0], v[0]), axis=-1, keepdims=True),),
        lambda weights, q, k, v, some: ((weights * (q[0] @ v[0].mT)).sum(-1, keepdim=True),),
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", USES)
def test_other_uses_of_weights(name: str) -> None:
    own, in_torch = USES[name]
    arrays = [numbers(2, rows, 16, dtype=np.float16) for rows in (20, 70, 70)] + [np.stack([some, ~some])[..., :70]]
    program = tenon.jit(lambda q, k, v, some: own(tenon.softmax(scores_of(q, k)), q, k, v, some))
    module = lower(new_context(), program.trace(*arrays).module.clone(), LoweringOptions(gpu=ONE))
    q, k, v, mask = [torch.tensor(array if array.dtype == np.bool_ else array.astype(np.float64)) for array in arrays]
    assert all("schedule" in kernel.attributes for kernel in kernels(module))
    expected = in_torch(torch.softmax(q @ k.mT, -1), q, k, v, mask)
    (executable,) = load_on_shim([module])
    for result, right in zip(executable(arrays), expected, strict=True):
        np.testing.assert_allclose(
            result.astype(np.float64), right.numpy(), rtol=1e-2, atol=1e-2 * float(right.abs().max())
        )


def test_what_needs_weights_in_memory() -> None:
    """The gradient of a bias for each score, and products of a value with itself, which a kernel would copy twice."""
    biased = attention(*[numbers(1, size, 32) for size in (20, 70, 70)], numbers(20, 70))
    alone = Case(lambda x: tenon.softmax(x @ tenon.transpose(x)) @ x, lambda x: x, [numbers(80, 32)], (80, 32), 1)
    for case in (replace(biased, count=4), alone):
        assert not any("pieces(" in str(kernel.attributes.get("schedule")) for kernel in kernels(lowered(case)))


def test_heads_beside_tokens_of_the_same_keys_are_no_rows_of_a_chain() -> None:
    """Matrices of the second product have a row for each head, those of the first one for each token."""

    def one_of_keys(q: Any, k: Any, v: Any) -> Any:
        return tenon.einsum("bhqk,bkd->bqhd", tenon.softmax(tenon.einsum("bqhd,bkd->bhqk", q, k)), v)

    arrays = [numbers(1, 40, 2, 32), *[numbers(1, 70, 32) for _ in range(2)]]
    traced = tenon.jit(one_of_keys).trace(*arrays).module.clone()
    found = kernels(lower(new_context(), traced, LoweringOptions(gpu=ONE)))
    assert found
    assert all("schedule" in kernel.attributes for kernel in found)


@pytest.fixture(scope="module")
def scheduled() -> ModuleOp:
    """A gradient with its schedules."""
    module = attention(*[numbers(1, 128, 64) for _ in range(3)]).traced()
    lower_to_buffers(new_context(), module, LoweringOptions(gpu=ONE))
    DecideStepsPass(machine=ONE.text()).apply(new_context(), module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pieces(io)", "", "is kept in registers along loop io, which is not written out"),
        ("pieces(io)", "pieces(iu)", "pieces(iu): loop iu is bound or written out"),
        ("pieces(io)", "online(io)", "online(io): 0 statements find the largest element along axis i, expected one"),
        ("contract(ku, mma)", "", "statement 0 reduces axis k, whose loop kl has threads of another one"),
        ("contract(iu, mma)", "contract(ku, mma)", "contract(ku, mma): loop ku is contracted already"),
        ("split(i, 64) -> io, ib", "split(i, 40) -> io, ib", "is not dealt out along i as matrices of 16 columns"),
    ],
)
def test_steps_that_do_not_fit_are_named(old: str, new: str, message: str, scheduled: ModuleOp) -> None:
    """Of the kernel that sums along columns."""
    module = scheduled.clone()
    (kernel,) = [known for known in kernels(module) if "pieces(io)" in steps_of(known)]
    replace_step(kernel, old, new)
    with pytest.raises(ValueError, match=re.escape(message)):
        ApplyStepsPass(machine=ONE.text()).apply(new_context(), module)
