"""Windows, gradients of windows, norms of planes and updates along an axis on a GPU: under the host shim they give what
PyTorch and NumPy give, each place having a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from cuda_shim import load_on_shim
from grid_cases import (
    RANDOM,
    Array,
    Case,
    assert_in_registers,
    check,
    counted_each,
    floats,
    is_caught,
    load_all,
    lowered,
    needs_compiler,
    needs_nvrtc,
)
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, i1, i32

import tenon
from tenon.dialects.upstream.nvvm import BallotOp
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.nn import functional
from tenon.passes.machine import GPUS

peer = torch.nn.functional


def of_torch(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *arrays: function(*map(torch.tensor, arrays)).numpy()


def gradient(function: Callable[..., Any]) -> Callable[..., Array]:
    """The gradient, by the first argument, of the sum of squares of what a function of PyTorch gives."""

    def of(x: Array, *others: Array) -> Array:
        given = torch.tensor(x, requires_grad=True)
        (function(given, *map(torch.tensor, others)) ** 2).sum().backward()
        assert given.grad is not None
        return given.grad.numpy()

    return of


IMAGES = floats(2, 3, 12, 14)
CASES: dict[str, Case] = {}
for name, options in {"2": (2,), "3_2_1": (3, 2, 1), "3_1": (3, 1), "2_3": (2, 3)}.items():
    for kind in ("max", "avg"):
        mine, theirs = getattr(functional, f"{kind}_pool2d"), getattr(peer, f"{kind}_pool2d")
        CASES[f"{kind}_pool_{name}"] = Case(
            lambda x, f=mine, o=options: f(x, *o), [IMAGES], of_torch(lambda x, f=theirs, o=options: f(x, *o))
        )
        CASES[f"gradient_of_{kind}_pool_{name}"] = Case(
            tenon.grad(lambda x, f=mine, o=options: (f(x, *o) ** 2).sum()),
            [IMAGES],
            gradient(lambda x, f=theirs, o=options: f(x, *o)),
        )
for name, (stride, dilation, padding) in {
    "overlapping": ((2, 1), (1, 1), 0),
    "dilated": ((1, 1), (3, 2), 0),
    "dilated_and_apart": ((2, 3), (2, 3), 0),
    "padded": ((2, 1), (1, 2), 1),
}.items():
    options = {"kernel_size": (3, 2), "stride": stride, "dilation": dilation, "padding": padding}
    (*_, windows) = peer.unfold(torch.ones(1, 1, 9, 11), **options).shape
    CASES[f"fold_{name}"] = Case(
        lambda x, o=options: functional.fold(x, (9, 11), **o),
        [floats(2, 18, windows)],
        of_torch(lambda x, o=options: peer.fold(x, (9, 11), **o)),
    )
CASES["instance_norm"] = Case(
    lambda x, w: functional.instance_norm(x, weight=w, bias=w),
    [IMAGES, floats(3)],
    of_torch(lambda x, w: peer.instance_norm(x, weight=w, bias=w)),
)
CASES["convolution_of_single_channels"] = Case(
    lambda x, w, b: functional.relu(functional.conv2d(x, w, b, groups=3)),
    [IMAGES, floats(3, 1, 3, 3), floats(3)],
    of_torch(lambda x, w, b: peer.relu(peer.conv2d(x, w, b, groups=3))),
    1e-4,
)

CASES["gradient_of_a_weight"] = Case(
    tenon.grad(lambda w, x: (functional.conv2d(x, w, padding=1) * functional.conv2d(x, w, padding=1)).sum()),
    [floats(16, 20, 3, 3) / 16, floats(2, 20, 9, 13)],
    gradient(lambda w, x: peer.conv2d(x, w, padding=1)),
    1e-4,
)
CASES["gradient_of_a_weight_of_few_channels"] = Case(
    tenon.grad(lambda w, x: (functional.conv2d(x, w, stride=2, dilation=(1, 2)) ** 2).sum()),
    [floats(32, 3, 3, 3) / 16, floats(3, 3, 13, 19)],
    gradient(lambda w, x: peer.conv2d(x, w, stride=2, dilation=(1, 2))),
    1e-4,
)


def put(x: Array, places: Array, values: Array) -> Array:
    """What updates along the second axis give, one after the other."""
    result = x.copy()
    for at in np.ndindex(places.shape):
        result[(at[0], int(places[at]), *at[2:])] = values[at]
    return result


def added(x: Array, places: Array) -> Array:
    result = np.zeros_like(x)
    for row, found in zip(result, places.astype(int), strict=True):
        np.add.at(row, found, 0.5)
    return result


UPDATES = {
    "put_rows": Case(
        lambda x, i, v: tenon.put_along_axis(x, i, v, axis=1),
        [floats(5, 40), RANDOM.integers(0, 40, (5, 70)), floats(5, 70)],
        put,
    ),
    "put_one_row": Case(
        lambda x, i, v: tenon.put_along_axis(x, i, v, axis=1),
        [floats(1, 100), RANDOM.integers(0, 100, (1, 7)), floats(1, 7)],
        put,
    ),
    "put_planes": Case(
        lambda x, i, v: tenon.put_along_axis(x, i, v, axis=1),
        [floats(3, 20, 5), RANDOM.integers(0, 20, (3, 9, 5)), floats(3, 9, 5)],
        put,
    ),
    "gradient_of_taken": Case(
        tenon.grad(lambda x, i: (tenon.take_along_axis(x, i, axis=1) * 0.5).sum()),
        [floats(6, 40), RANDOM.integers(0, 40, (6, 90))],
        added,
    ),
}


FOR_MANY = ("gradient_of_max_pool_3_2_1", "fold_dilated", "put_rows", "gradient_of_taken")
WANTED = [*[(name, "one") for name in CASES | UPDATES], *[(name, "many") for name in FOR_MANY]]


@pytest.fixture(scope="module")
def executables() -> dict[tuple[str, str], Any]:
    return load_all(CASES | UPDATES, WANTED)


@needs_compiler
@pytest.mark.parametrize(("name", "machine"), WANTED)
def test_shim_agrees_with_others(name: str, machine: str, executables: dict[tuple[str, str], Any]) -> None:
    check(executables[name, machine], (CASES | UPDATES)[name])


@pytest.mark.parametrize("name", CASES)
def test_all_kernels_have_steps(name: str) -> None:
    for kernel in kernels(lowered(CASES[name], GPUS["sm_90"])):
        assert "schedule" in kernel.attributes, kernel.attributes.get("unscheduled")


def test_gradients_of_weights_are_products_of_tiles() -> None:
    schedules = [
        str(kernel.attributes["schedule"]) for kernel in kernels(lowered(CASES["gradient_of_a_weight"], GPUS["sm_90"]))
    ]
    assert sum("shared, at=" in schedule for schedule in schedules) == 2


def test_gradients_of_weights_of_few_channels_are_one_product() -> None:
    """Of a matrix whose columns are channels and places of a window, not of one for each place."""
    module = lowered(CASES["gradient_of_a_weight_of_few_channels"], GPUS["sm_90"])
    products = [kernel for kernel in kernels(module) if "shared, at=" in str(kernel.attributes["schedule"])]
    assert any("27" in str(kernel.function_type) for kernel in products)


@pytest.mark.parametrize("name", UPDATES)
def test_updates_along_an_axis_use_warps_for_each_row(name: str) -> None:
    (kernel,) = [
        kernel
        for kernel in kernels(lowered(UPDATES[name], GPUS["sm_90"]))
        if any(isinstance(op, BallotOp) for op in kernel.walk())
    ]
    threads = prod(launch_shape(kernel, "grid")) * prod(launch_shape(kernel, "block"))
    assert threads >= 32 * prod(UPDATES[name].arrays[0].shape) // 20


@needs_compiler
@pytest.mark.parametrize(
    ("name", "read", "written"), [("max_pool_2", 4032, 1008), ("gradient_of_avg_pool_2", 1008, 4032)]
)
def test_memory_is_read_and_written_once(
    name: str, read: int, written: int, executables: dict[tuple[str, str], Any]
) -> None:
    *_, counters = counted_each(executables[name, "one"], CASES[name].arrays)
    assert (counters.read_bytes, counters.written_bytes) == (read, written)
    assert counters.sector_use > 0.6  # a row of 56 bytes is no multiple of a sector


def faults(module: ModuleOp) -> dict[str, ModuleOp]:
    """Copies of a program, in each of which one of two conditions is left out, or one of two numbers that a place is
    computed from."""
    found: dict[str, ModuleOp] = {}
    for number, op in enumerate(module.walk()):
        wanted = isinstance(op, arith.RemUIOp | arith.SubiOp) and op.result.type == i32
        if not wanted and not (isinstance(op, arith.AndIOp) and op.result.type == i1):
            continue
        copy = module.clone()
        twin = list(copy.walk())[number]
        twin.results[0].replace_all_uses_with(twin.operands[0])
        found[f"{op.name} {number}"] = copy
    return found


@needs_compiler
@pytest.mark.parametrize("name", ["fold_overlapping", "fold_dilated_and_apart"])
def test_planted_faults_are_caught(name: str) -> None:
    planted = faults(lowered(CASES[name], GPUS["sm_90"]))
    assert len(planted) > 4
    for what, executable in zip(planted, load_on_shim(list(planted.values())), strict=True):
        assert is_caught(executable, CASES[name]), what


@needs_compiler
def test_updates_of_rows_that_are_none_are_caught() -> None:
    case = UPDATES["put_rows"]
    planted = {what: module for what, module in faults(lowered(case, GPUS["sm_90"])).items() if "andi" in what}
    assert planted
    for what, executable in zip(planted, load_on_shim(list(planted.values())), strict=True):
        assert is_caught(executable, case), what


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["gradient_of_max_pool_3_2_1", "convolution_of_single_channels", "put_rows"])
def test_nvrtc_compiles_without_local_memory(name: str, architecture: str) -> None:
    assert_in_registers(lowered((CASES | UPDATES)[name], GPUS[architecture]), architecture)
