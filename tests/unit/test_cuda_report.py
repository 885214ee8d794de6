"""What is said of compiled kernels without a GPU: occupancy and predictions by hand, and a program's whole table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from grid_cases import Case, assert_in_registers, lowered

import tenon
from tenon.lowering.cuda.emit_cuda import kernels
from tenon.passes.machine import gpu_of
from tenon.runtime import lower
from tenon.runtime.build import build
from tenon.runtime.cuda import disassembly, nvrtc
from tenon.runtime.cuda.disassembly import instruction_counts
from tenon.runtime.cuda.nvrtc import KernelResources
from tenon.runtime.cuda.report import as_table, lanes_of, predict, rate_of
from tenon.runtime.executable_cuda import compile_for_cuda
from tenon.runtime.kernel_schedules import write_schedule

needs_nvrtc = pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="nvrtc is not installed")
H100 = gpu_of("sm_90")


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "expected"),
    [
        (32, 0, 256, 8),  # 2048 threads
        (64, 0, 256, 4),  # 65536 registers
        (40, 0, 64, 25),  # 1280 of a warp, 2560 of a block
        (32, 40 << 10, 128, 5),  # 228 KiB of shared memory, a KiB of each block taken
        (16, 0, 32, 32),  # as many blocks as there can be
        (255, 0, 1024, 0),  # one block needs more registers than there are
    ],
)
def test_blocks_of_a_multiprocessor(registers: int, shared: int, threads: int, expected: int) -> None:
    assert H100.resident(threads, registers, shared) == expected


@pytest.mark.parametrize(
    ("blocks", "moved", "operations", "seconds", "bound"),
    [
        (4096, 3_350_000_000, 1, 1e-3, "memory"),
        (1, 16 * 256 * 100, 1, 100 * H100.latency, "memory latency"),
        (4096, 1, int(2 * 128 * 132 * 1.98e9), 1.0, "arithmetic"),
        (1, 0, 256 * 1980, 1980 * 4 / 1.98e9, "arithmetic latency"),
        (0, 0, 0, 0.0, "nothing to do"),
    ],
)
def test_predictions(blocks: int, moved: int, operations: int, seconds: float, bound: str) -> None:
    assert predict(H100, blocks, 256, 8, moved, operations) == (pytest.approx(seconds), bound)


@pytest.mark.parametrize(
    ("architecture", "source"),
    [
        ("sm_90a", "the data sheet of sm_90a"),
        ("sm_100a", "the data sheet of sm_100a"),
        ("sm_120", "what all GPUs have, since no facts of sm_120 are known"),
    ],
)
def test_predictions_say_what_they_go_by(architecture: str, source: str) -> None:
    assert f"predicted for one launch of each, by {source}: 0.00 us" in as_table([], gpu_of(architecture))


@needs_nvrtc
def test_copies_that_no_thread_waits_for_are_under_way_together() -> None:
    expected = pytest.approx(100 * H100.latency), "memory latency"
    assert predict(H100, 1, 256, 8, 32768 * 100, 1, H100.products, copied=32768) == expected
    x, y = np.zeros((16, 8192), np.float16), np.zeros((8192, 8192), np.float16)
    (row,) = table(tenon.matmul, x, y)
    assert row[-1] == "memory"


@needs_nvrtc
def test_threads_load_and_multiply_several_numbers_in_turn() -> None:
    (row,) = table(tenon.matmul, *[np.zeros((1024, 1024), np.float32)] * 2)
    assert row[-1] == "arithmetic"
    (row,) = table(tenon.matmul, *[np.zeros((512, 64, 64), np.float32)] * 2)
    assert row[-1] == "memory"
    (seconds, _), (alone, _) = (predict(H100, 1, 256, 8, 1, 1 << 20, independent=n) for n in (4, 1))
    assert alone == pytest.approx(4 * seconds)


@needs_nvrtc
def test_matrix_instructions_have_a_rate_of_their_own() -> None:
    operations = 2 * H100.products * H100.multiprocessors * 1980
    assert predict(H100, 4096, 128, 2, 1, operations, H100.products) == (pytest.approx(1e-6), "arithmetic")
    x = np.zeros((2048, 512), np.float16)
    (row,) = table(lambda x, y: x @ y.T, x, x)
    assert row[-2:] != ["arithmetic", "latency"]


def test_instructions_of_warps_have_another_rate_than_those_of_warpgroups() -> None:
    x = np.zeros((512, 512), np.float16)
    rates: list[int] = []
    for architecture in ("sm_90a", "sm_90", "sm_80"):
        gpu = gpu_of(architecture)
        module = lowered(Case(lambda x, y: x @ y, [x, x], np.matmul), gpu)
        rates += [rate for kernel in kernels(module) if (rate := rate_of(kernel, gpu)) is not None]
    assert rates == [2048, 1288, 1024]


def test_lanes_of_f64_are_others() -> None:
    for dtype, lanes in ((np.float64, H100.double_lanes), (np.float32, H100.lanes)):
        module = lowered(Case(lambda x: x * x, [np.zeros(8, dtype)], np.square), H100)
        assert [lanes_of(kernel, H100) for kernel in kernels(module)] == [lanes]


def table(function: Callable[..., Any], *arrays: Any) -> list[list[str]]:
    """The cells of a program's table, a row for each kernel."""
    module = tenon.jit(function).trace(*arrays).module.clone()
    lines = build(module, "cuda:sm_90a")["main.sm_90a.txt"].decode().splitlines()
    return [line.split() for line in lines if line.startswith("kernel_") and ":" not in line]


@needs_nvrtc
def test_table_counts_bytes_and_operations() -> None:
    x = np.zeros((1024, 512), np.float32)
    rows = table(lambda x: (x * 2 + 1, x.sum(axis=1)), x)
    read_and_written = sorted((int(row[7]), int(row[8]), int(row[9])) for row in rows)
    size = 4 * x.size
    assert read_and_written in (
        [(size, 4 * 1024, x.size), (size, size, 2 * x.size)],
        [(size, size + 4 * 1024, 3 * x.size)],  # in one kernel
    )
    assert all(int(row[3]) > 0 and row[5] == "0" for row in rows)


@needs_nvrtc
def test_program_without_kernels_has_an_empty_table() -> None:
    assert table(lambda x: x, np.zeros(4, np.float32)) == []


def test_instructions_of_a_disassembly() -> None:
    text = """
\t.section\t.text.kernel_0,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @UP1 LDG.E.128 R4, desc[UR4][R2.64] ;
\t.section\t.text.kernel_1,"ax",@progbits
        /*0000*/                   EXIT ;
"""
    counts = disassembly._counted(text)
    assert counts == {"kernel_0": Counter({"LDG.E.128": 2, "LDC": 1}), "kernel_1": Counter({"EXIT": 1})}


def test_what_threads_execute_is_counted_where_there_is_no_loop() -> None:
    text = """
\t.section\t.text.straight,"ax",@progbits
        /*0000*/              @!P0 EXIT ;
        /*0010*/              @P1 BRA `(.L_x_0) ;
        /*0020*/                   MUFU.RCP R4, R2 ;
.L_x_0:
        /*0030*/                   EXIT ;
.L_x_1:
        /*0040*/                   BRA `(.L_x_1) ;
\t.section\t.text.repeated,"ax",@progbits
.L_x_2:
        /*0000*/                   FADD R4, R4, R2 ;
        /*0010*/              @P0 BRA `(.L_x_2) ;
        /*0020*/                   EXIT ;
"""
    executed = disassembly._executed(text)
    assert executed == {"straight": Counter({"EXIT": 2, "BRA": 1, "MUFU.RCP": 1})}


@pytest.mark.parametrize(
    ("executed", "bound"),
    [
        ({"FFMA": 1280}, "instructions"),
        ({"FSETP.GT.AND": 320, "LOP3.LUT": 320, "FFMA": 1}, "integers and comparisons"),
        ({"MUFU.EX2": 160, "FFMA": 1}, "special functions"),
    ],
)
def test_instructions_bound_a_prediction(executed: dict[str, int], bound: str) -> None:
    """A multiprocessor begins 128 in a cycle for as many threads, of integers 64, and of the slow ones 16."""
    found = predict(H100, 132 * 8, 256, 8, 16, 1, executed=Counter(executed))
    assert found == (pytest.approx(8 * 256 * 10 / H100.clock), bound)


@needs_nvrtc
@pytest.mark.skipif(disassembly.disassembler() is None, reason="nvdisasm is not installed")
def test_instructions_of_a_cubin() -> None:
    source = 'extern "C" __global__ void f(float4 *x) { x[threadIdx.x] = make_float4(0, 1, 2, 3); }'
    counts = instruction_counts(nvrtc.compile_cubin(source, "sm_90"), str(disassembly.disassembler()))
    assert counts["f"]["STG.E.128"] == 1


def test_disassembler_that_fails_says_so() -> None:
    with pytest.raises(RuntimeError, match="nvdisasm: exit status 1"):
        instruction_counts(b"", "false")


@needs_nvrtc
def test_table_says_that_instructions_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "disassembler", lambda: None)
    module = tenon.jit(lambda x: x + 1).trace(np.zeros(8, np.float32)).module.clone()
    text = build(module, "cuda:sm_90")["main.sm_90.txt"].decode()
    assert "instructions are not counted: nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)" in text


@pytest.fixture
def no_cache() -> Generator[None]:
    """What a test gives as machine code is not kept."""
    with tenon.knobs.override(cache=False):
        yield


@pytest.mark.usefixtures("no_cache")
def test_only_what_the_assembler_serialises_takes_another_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two products one is by warps, and the table says so. One that is to stay as it is is an error."""
    remark = "ptxas info    : (C7514) Potential Performance Loss: products are serialized in the function 'kernel_1'"
    tried: list[list[str]] = []

    def compile_kernels(source: str, architecture: str) -> nvrtc.Compiled:
        texts = dict(zip(["kernel_0", "kernel_1"], source.split("__global__")[1:], strict=True))
        tried.append([name for name, text in texts.items() if "tn_wgmma_m64" in text])
        if "kernel_1" in tried[-1]:
            raise nvrtc.SerialisedError([remark])
        return nvrtc.Compiled(b"", dict.fromkeys(texts, KernelResources(32, 0, 0, 0)))

    monkeypatch.setattr(nvrtc, "compile_kernels", compile_kernels)
    x, y = np.zeros((128, 128), np.float16), np.zeros((128, 192), np.float16)
    module = tenon.jit(lambda x, y: x @ y @ y.reshape(192, 128)).trace(x, y).module
    files = build(module.clone(), "cuda:sm_90a")
    assert tried == [["kernel_0", "kernel_1"], ["kernel_0"]]
    why = "C7514: products are serialized"
    line = f"kernel_1: takes mma.sync, since the assembler serialises it by instructions of sm_90a: {why}\n"
    assert line in files["main.sm_90a.txt"].decode()
    explained = files["main.sm_90a.schedules.txt"].decode().partition("kernel_1: ")
    assert "warpgroup instructions: chosen" in explained[0]
    assert f"serialises it: {why}" in explained[2]
    assert "needs sm_90a, the target is sm_90\n  matrix instructions: chosen" in explained[2]
    options = lower.options("cuda", "sm_90a")
    assert compile_for_cuda(module.clone(), "f", options, "sm_90a")["grid.mlir"] == files["main.grid.mlir"].strip()
    write_schedule(module, {"kernel_1": re.findall(r"^    (\w+\(.+)$", explained[0], re.MULTILINE)})
    with pytest.raises(nvrtc.SerialisedError, match="kernel_1"):
        build(module, "cuda:sm_90a")


@needs_nvrtc
def test_what_follows_a_product_takes_no_memory_of_threads() -> None:
    """Two functions of all results that have much in common."""

    def step(x: Any, w: Any, b: Any) -> Any:
        z = x @ w.T + b
        return tenon.gelu(z), tenon.grad(lambda z: tenon.sum(tenon.gelu(z)))(z)

    arrays = [np.zeros(shape, np.float32) for shape in ((2048, 256), (1024, 256), (1024,))]
    module = lowered(Case(step, arrays, step), gpu_of("sm_90a"))
    assert len(kernels(module)) == 1
    assert_in_registers(module, "sm_90a")
