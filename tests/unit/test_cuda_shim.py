"""The host shim itself: right kernels run without a finding under every schedule, and each planted fault is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_shim
import ml_dtypes
import numpy as np
import pytest
from cuda_faults import CONFLICTS, KERNELS, NUMBERS, SECTORS, Fault
from cuda_programs import Array
from cuda_shim import (
    COMPILER,
    IN_ORDER,
    SCHEDULES,
    Counters,
    Library,
    Schedule,
    ShimBackend,
    ShimError,
    build,
    tensor_map,
)
from random_numbers import generator

from tenon.lowering.instructions.table import INSTRUCTIONS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")

SHUFFLED = [Schedule(3, completion, seed) for completion in range(3) for seed in (1, 2)]
DEPTH = 256
"""Along K of the products."""


class Run:
    """A kernel's launch: `put` gives it an argument; the last array put is the result."""

    def __init__(self, unit: tuple[Library, int], schedule: Schedule = IN_ORDER, counting: bool = False) -> None:
        self.backend = ShimBackend()
        self.backend.library, self.backend.unit = unit
        self.backend.schedule, self.backend.counting = schedule, counting

    def put(self, data: Array) -> int:
        self.address, _ = self.backend.allocate(data.nbytes)
        self.backend.write(self.address, data.tobytes())
        return self.address

    def launch(self, arguments: list[Any], like: Array, threads: int, shared: int = 0, blocks: int = 1) -> Array:
        self.backend.launch("f", (blocks, 1, 1), (threads, 1, 1), arguments, shared)
        return np.frombuffer(self.backend.read(self.address, like.nbytes), like.dtype).reshape(like.shape)

    def on(self, x: Array, y: Array, threads: int) -> Array:
        return self.launch([np.uint64(self.put(x)), np.uint64(self.put(np.full_like(y, 0)))], y, threads)


def bf16(*shape: int) -> Array:
    return generator(5).standard_normal(shape).astype(ml_dtypes.bfloat16)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def run_reverse(run: Run) -> tuple[Array, Array]:
    x = np.arange(64, dtype=np.int32)
    return run.on(x, x, 64), x[::-1]


def run_vectors(run: Run) -> tuple[Array, Array]:
    x = np.arange(256, dtype=np.float32)
    return run.on(x, x, 64), x[::-1]


def run_sums(run: Run) -> tuple[Array, Array]:
    x = generator(5).standard_normal((3, 128)).astype(np.float32)
    return run.on(x, x[:, 0].copy(), 128), x.astype(np.float64).sum(1)


def run_warps(run: Run) -> tuple[Array, Array]:
    x = np.arange(64, dtype=np.int32)
    return run.on(x, x, 64), x ^ 1


def run_counts(run: Run) -> tuple[Array, Array]:
    x = generator(5).integers(0, 8, 64).astype(np.int32)
    return run.on(x, x[:8], 64), np.bincount(x, minlength=8)


def run_blocks(run: Run) -> tuple[Array, Array]:
    x, y = np.arange(64, dtype=np.int32), np.zeros(4, np.int32)
    pointers = [np.uint64(run.put(array)) for array in (x, y)]
    return run.launch(pointers, y, 32, blocks=2), np.array([*x.reshape(2, 32).sum(1), 2, 0])


def run_bytes(run: Run) -> tuple[Array, Array]:
    x = np.arange(64, dtype=np.uint8)
    return run.on(x, x, 64), x[::-1]


def run_transpose(run: Run) -> tuple[Array, Array]:
    x = generator(5).standard_normal((32, 32)).astype(np.float32)
    return run.on(x, x, 128), x.T


def run_mma(run: Run) -> tuple[Array, Array]:
    a, b = bf16(64, DEPTH), bf16(DEPTH, 64)
    result = np.zeros((64, 64), np.float32)
    pointers = [np.uint64(run.put(array)) for array in (a, b, result)]
    return run.launch([*pointers, np.int32(DEPTH)], result, 128), product(a, b)


def run_stores(run: Run) -> tuple[Array, Array]:
    a, b, result = bf16(64, 64), bf16(64, 64)[::-1].copy(), np.zeros((64, 64), np.float32)
    pointers = [np.uint64(run.put(array)) for array in (a, b, result)]
    return run.launch(pointers, result, 128, 16384), product(a, b.T)


def run_registers(run: Run) -> tuple[Array, Array]:
    fragments = INSTRUCTIONS["tn_wgmma_m64n8k16_bf16_registers"].fragments
    a, b, result = bf16(64, 16), bf16(64, 16)[:8].copy(), np.zeros((128, 4), np.float32)
    held = np.ascontiguousarray(fragments["a"].distribute(a)).view(np.uint32)
    pointers = [np.uint64(run.put(array)) for array in (held, b, result)]
    d = run.launch(pointers, result, 128, 256)
    return fragments["d"].collect(d.reshape(fragments["d"].counts)), product(a, b.T)


def run_tma(run: Run) -> tuple[Array, Array]:
    a, b, result = bf16(128, DEPTH), bf16(128, DEPTH)[::-1].copy(), np.zeros((128, 128), ml_dtypes.bfloat16)
    maps = [
        tensor_map(run.put(array), 2, array.shape[::-1], [array.shape[1] * 2], (64, rows), 128)
        for array, rows in ((a, 128), (b, 64), (result, 64))
    ]
    return run.launch([*maps, np.int32(DEPTH)], result, 384, 65536 + 32), product(a, b.T)


RUNS: dict[str, Callable[[Run], tuple[Array, Array]]] = {
    name.removeprefix("run_"): run for name, run in list(globals().items()) if name.startswith("run_")
}
FAULTS = [(kernel, number, fault) for kernel, of in KERNELS.items() for number, fault in enumerate(of.faults)]


Units = Callable[[str, int], tuple[Library, int]]


@pytest.fixture(scope="module")
def units() -> Units:
    """The library and the number in it of a kernel with its fault of some number, or with none (-1)."""
    texts, numbers = [], {}
    for name, kernel in KERNELS.items():
        for number, fault in enumerate([None, *kernel.faults], start=-1):
            assert fault is None or fault.old in kernel.text, f"{name}: {fault.what}"
            numbers[name, number] = len(texts)
            texts.append(kernel.text if fault is None else kernel.text.replace(fault.old, fault.new))
    library = build(texts)
    return lambda name, number: (library, numbers[name, number])


def is_right(result: Array, expected: Array) -> bool:
    scale = 2e-2 if result.dtype == ml_dtypes.bfloat16 else 1e-4
    return bool((abs(result.astype(np.float64) - expected) <= scale * (1 + abs(expected))).all())  # false for NaN


@pytest.mark.parametrize("name", KERNELS)
def test_right_kernels_give_no_finding(name: str, units: Units) -> None:
    for schedule in (*SCHEDULES, *SHUFFLED):
        assert is_right(*RUNS[name](Run(units(name, -1), schedule))), schedule


def findings(name: str, number: int, schedule: Schedule, units: Units) -> set[str]:
    counting = KERNELS[name].faults[number].name in (CONFLICTS, SECTORS)
    run = Run(units(name, number), schedule, counting)
    try:
        result = set() if is_right(*RUNS[name](run)) else {NUMBERS}
    except ShimError as error:
        return set(error.findings)
    for _, counters in run.backend.counters:
        result |= {CONFLICTS} if counters.turns_per_access > 1.05 else set()
        result |= {SECTORS} if counters.sector_use < 0.95 else set()
    return result


@pytest.mark.parametrize(("name", "number", "fault"), FAULTS, ids=[f"{k}: {f.what}" for k, _, f in FAULTS])
def test_fault_is_named(name: str, number: int, fault: Fault, units: Units) -> None:
    """By the name of the table, whatever the schedule: the order of accesses is judged, not what came of it."""
    for schedule in SCHEDULES:
        assert set(fault.name.split()) & findings(name, number, schedule, units), schedule


def test_each_finding_is_planted_and_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/gpu-schedules.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \|", page.partition("| name | what was found |")[2], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    planted = {name for _, _, fault in FAULTS for name in fault.name.split()} - {NUMBERS, CONFLICTS, SECTORS}
    assert documented - {"tensor-map"} == planted
    sources = [path.read_text() for path in Path(cuda_shim.__file__).parent.iterdir() if path.suffix in (".h", ".cpp")]
    for name in documented - {"tensor-map"}:
        assert any(f'"{name}"' in source for source in sources), name


def counters_of(name: str, units: Units) -> Counters:
    run = Run(units(name, -1), counting=True)
    RUNS[name](run)
    return run.backend.counters[0][1]


def test_counters_of_a_transpose(units: Units) -> None:
    counters = counters_of("transpose", units)
    assert (counters.load_requests, counters.load_sectors, counters.load_bytes) == (32, 128, 4096)
    assert (counters.store_requests, counters.store_sectors, counters.store_bytes) == (32, 128, 4096)
    assert (counters.shared_requests, counters.shared_turns, counters.shared_least_turns) == (64, 64, 64)
    assert (counters.read_bytes, counters.written_bytes, counters.barriers) == (4096, 4096, 1)


def test_counters_of_vectors_and_products(units: Units) -> None:
    vectors = counters_of("vectors", units)
    assert (vectors.load_requests, vectors.load_sectors, vectors.sector_use) == (2, 32, 1)
    assert (vectors.shared_requests, vectors.shared_least_turns, vectors.turns_per_access) == (4, 16, 1)
    products = counters_of("mma", units)
    assert products.tensor_operations == 2 * 64 * 64 * DEPTH
    assert products.copied_bytes == 2 * 64 * DEPTH * 2
    assert products.turns_per_access == 1
    assert counters_of("tma", units).tensor_operations == 2 * 128 * 128 * DEPTH


def test_tensor_maps_that_the_driver_would_refuse() -> None:
    for sizes, stride, box, swizzle, message in (
        ((64, 8), 130, (64, 8), 128, "strides"),
        ((64, 8), 128, (64, 300), 128, "more than 256"),
        ((64, 8), 128, (64, 8), 64, "exceed the swizzle"),
        ((64, 8), 128, (4, 8), 0, "not a multiple of 16"),
    ):
        with pytest.raises(ShimError, match=message):
            tensor_map(4096, 2, sizes, [stride], box, swizzle)


def one(source: str, data: Array, schedule: Schedule = IN_ORDER) -> Array:
    run = Run((build([source]), 0), schedule)
    return run.launch([np.uint64(run.put(data))], data, 64)


def test_shim_says_which_argument_an_access_misses() -> None:
    source = 'extern "C" __global__ void f(int *data) { if (threadIdx.x == 5) data[-1025] = 1; }'
    with pytest.raises(ShimError, match="@f: access at byte -4100 of argument 0, which has 256"):
        one(source, np.zeros(64, np.int32))


def test_shim_has_shuffles_and_atomics() -> None:
    source = """
    extern "C" __global__ void f(int *data) {
      int lane = threadIdx.x % 32, value = data[threadIdx.x];
      int next = __shfl_down_sync(0xffffffffu, value, 1), previous = __shfl_up_sync(0xffffffffu, value, 1);
      int first = __shfl_sync(0xffffffffu, value, 0);
      __syncthreads();
      data[threadIdx.x] = (lane < 31 ? next - value : 1) + (lane > 0 ? value - previous : 1) + (value - first == lane);
      __syncthreads();
      if (threadIdx.x > 0) atomicAdd(&data[0], 1);
    }"""
    for schedule in SCHEDULES:
        assert one(source, np.arange(64, dtype=np.int32), schedule).tolist() == [3 + 63] + [3] * 63
