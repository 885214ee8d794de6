"""A kernel written by hand with ops of `nvgpu`: it prints and parses, upstream reads it, and it computes a product
under the host shim and compiles for a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cuda_shim import COMPILER, SCHEDULES, load_on_shim
from random_numbers import generator
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.universe import UPSTREAM
from tenon.lowering.cuda.emit_cuda import EmissionError, emit_cuda
from tenon.runtime.cuda import nvrtc
from tenon.runtime.lower import new_context

COPY = """%{token} = "nvgpu.device_async_copy"(%{shared}, %{row}, %{at}, %{source}, %{row}, %{at}) <{{
    bypassL1, dstElements = 8 : index, operandSegmentSizes = array<i32: 1, 2, 1, 2, 0>}}>
    : ({shared_type}, index, index, {source_type}, index, index) -> !nvgpu.device.async.token"""


def copy(token: str, shared: str, source: str, row: str, at: str, rows: int) -> str:
    types = {"shared_type": f"memref<{rows}x32xbf16, 3>", "source_type": f"memref<{rows}x32xbf16>"}
    return COPY.format(token=token, shared=shared, source=source, row=row, at=at, **types)


# C[16, 8] = A[16, 32] B[8, 32]^T by one warp: copies of 16 bytes, two products of depth 16.
PRODUCT = f"""
func.func @main(%a: memref<16x32xbf16>, %b: memref<8x32xbf16>, %c: memref<16x8xf32>, %arena: memref<0xi8>)
    attributes {{num_inputs = 2 : i64, num_outputs = 1 : i64}} {{
  func.call @kernel_0(%a, %b, %c) : (memref<16x32xbf16>, memref<8x32xbf16>, memref<16x8xf32>) -> ()
  func.return
}}
func.func private @kernel_0(%a: memref<16x32xbf16>, %b: memref<8x32xbf16>, %c: memref<16x8xf32>)
    attributes {{kernel, grid = array<i64: 1, 1, 1>, block = array<i64: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %lane = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
  %as = memref.alloca() {{alignment = 16 : i64}} : memref<16x32xbf16, 3>
  %bs = memref.alloca() {{alignment = 16 : i64}} : memref<8x32xbf16, 3>
  %row = arith.divui %lane, %c4 : index
  %chunk = arith.remui %lane, %c4 : index
  %at = arith.muli %chunk, %c8 : index
  %row8 = arith.addi %row, %c8 : index
  {copy("t0", "as", "a", "row", "at", 16)}
  {copy("t1", "as", "a", "row8", "at", 16)}
  {copy("t2", "bs", "b", "row", "at", 8)}
  %g = nvgpu.device_async_create_group %t0, %t1, %t2
  nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
  "gpu.barrier"() : () -> ()
  %none = vector.broadcast %zero : f32 to vector<2x2xf32>
  %r16 = arith.remui %lane, %c16 : index
  %q16 = arith.divui %lane, %c16 : index
  %r8 = arith.remui %lane, %c8 : index
  %q8 = arith.divui %lane, %c8 : index
  %p8 = arith.remui %q8, %c2 : index
  %sum = scf.for %k = %c0 to %c2 step %c1 iter_args(%d = %none) -> (vector<2x2xf32>) {{
    %first = arith.muli %k, %c16 : index
    %ao = arith.muli %q16, %c8 : index
    %ak = arith.addi %first, %ao : index
    %bo = arith.muli %p8, %c8 : index
    %bk = arith.addi %first, %bo : index
    %x = nvgpu.ldmatrix %as[%r16, %ak] {{numTiles = 4 : i32, transpose = false}}
        : memref<16x32xbf16, 3> -> vector<4x2xbf16>
    %y = nvgpu.ldmatrix %bs[%r8, %bk] {{numTiles = 2 : i32, transpose = false}}
        : memref<8x32xbf16, 3> -> vector<2x2xbf16>
    %n = nvgpu.mma.sync(%x, %y, %d) {{mmaShape = [16, 8, 16]}}
        : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    scf.yield %n : vector<2x2xf32>
  }}
  %pair = arith.muli %chunk, %c2 : index
  %next = arith.addi %pair, %c1 : index
  %e0 = vector.extract %sum[0, 0] : f32 from vector<2x2xf32>
  %e1 = vector.extract %sum[0, 1] : f32 from vector<2x2xf32>
  %e2 = vector.extract %sum[1, 0] : f32 from vector<2x2xf32>
  %e3 = vector.extract %sum[1, 1] : f32 from vector<2x2xf32>
  memref.store %e0, %c[%row, %pair] : memref<16x8xf32>
  memref.store %e1, %c[%row, %next] : memref<16x8xf32>
  memref.store %e2, %c[%row8, %pair] : memref<16x8xf32>
  memref.store %e3, %c[%row8, %next] : memref<16x8xf32>
  func.return
}}"""

ALL = (Path(__file__).parents[1] / "lit/dialects/gpu.mlir").read_text()


def parse(text: str) -> ModuleOp:
    module = Parser(new_context(), text).parse_module()
    module.verify()
    return module


def test_product_prints_and_parses() -> None:
    module = parse(PRODUCT)
    assert str(parse(str(module))) == str(module)
    assert "nvgpu.mma.sync(%x, %y, %d) {mmaShape = [16, 8, 16]}" in re.sub(r" : i64|<|>", "", str(module))


def test_all_ops_for_gpus_are_read_again() -> None:
    shown = {op.name for op in parse(ALL).walk()}
    known = {op.name for dialect in ("nvgpu", "nvvm", "warpgroup") for op in UPSTREAM[dialect]().operations}
    assert known <= shown


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize(
    "given", [PRODUCT, str(parse(PRODUCT)), str(parse(ALL))], ids=["written", "printed", "all ops"]
)
def test_upstream_reads_ops_for_gpus(given: str) -> None:
    command = ["mlir-opt-22", "--allow-unregistered-dialect"]  # for `warpgroup`, which is Tenon's own
    done = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(COMPILER is None, reason="the host shim needs g++")
def test_product_of_a_kernel_by_hand() -> None:
    executable = load_on_shim([parse(PRODUCT)])[0]
    a, b = (generator(2).integers(-8, 8, (rows, 32)).astype(ml_dtypes.bfloat16) for rows in (16, 8))
    for schedule in SCHEDULES:
        (c,) = executable([a, b], schedule)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="nvrtc is not installed")
def test_product_compiles_without_local_memory() -> None:
    kernel = nvrtc.compile_kernels(emit_cuda(parse(PRODUCT), "sm_80"), "sm_80").kernels["kernel_0"]
    assert (kernel.stack, kernel.spilled, kernel.shared) == (0, 0, 16 * 64 + 8 * 64)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dstElements = 8", "dstElements = 4096", "8192 bytes, expected one of 4, 8, 16"),
        ("memref<16x32xbf16, 3>", "memref<16x32xbf16>", "memref<16x32xbf16> is not in memory space 3"),
        ("numTiles = 4", "numTiles = 3", "3 tiles, expected one of 1, 2, 4"),
        ("numTiles = 4", "numTiles = 2", r"the result has shape \(4, 2\), 2 tiles have \(2, 2\)"),
        ("[16, 8, 16]", "[16, 8]", "mmaShape has 2 sizes, expected 3"),
    ],
)
def test_ops_that_say_nothing_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(PRODUCT.replace(old, new))


def test_only_elements_of_16_bits_are_transposed() -> None:
    text = ALL.replace("memref<8x8xf16, 3 : i64>", "memref<8x8xi32, 3 : i64>").replace(
        "vector<1x2xf16>", "vector<1x1xi32>"
    )
    with pytest.raises(VerifyException, match="elements have 32 bits, those that it transposes 16"):
        parse(text)


def test_products_that_no_instruction_computes() -> None:
    module = parse(PRODUCT.replace("[16, 8, 16]", "[16, 16, 16]"))
    with pytest.raises(
        EmissionError, match=r"nvgpu\.mma\.sync of vector<4x2xbf16> has no instruction for 16 x 16 x 16"
    ):
        emit_cuda(module, "sm_80")
