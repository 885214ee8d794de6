"""The CUDA path: loop stage, map-to-grid, CUDA text, host shim, NVRTC, and the device where there is one."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_programs import CASES, Array, Case, floats, grid_mapped, parallel, parse, program, with_constants
from cuda_shim import COMPILER, SCHEDULES, load_on_shim
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, f32
from xdsl.utils.exceptions import PassFailedException

import tenon
from tenon.lowering.cuda.approximate_rounded import ApproximateRoundedPass
from tenon.lowering.cuda.emit_cuda import EmissionError, emit_cuda
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.cuda.tables import PRELUDE
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower
from tenon.passes.machine import GPUS
from tenon.runtime.cuda import device_cuda, nvrtc
from tenon.runtime.cuda.cupy_backend import CupyBackend
from tenon.runtime.cuda.device import HostProgramError
from tenon.runtime.executables import executable
from tenon.runtime.lower import new_context

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
needs_nvrtc = pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="nvrtc is not installed")
needs_mlir_opt = pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: make() for name, make in CASES.items()}


@pytest.fixture(scope="module")
def executables(cases: dict[str, Case]) -> dict[str, Any]:
    return dict(zip(cases, load_on_shim([parse(case.text) for case in cases.values()]), strict=True))


def assert_equal(actual: Sequence[Array], case: Case) -> None:
    for result, expected in zip(actual, case.expected, strict=True):
        assert result.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            np.asarray(result, np.float64), np.asarray(expected, np.float64), rtol=case.tolerance, atol=case.tolerance
        )


# ---------------------------------------------------------------------------------------------------------- on the CPU


@needs_compiler
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_shim_agrees_with_numpy(name: str, schedule: int, cases: dict[str, Case], executables: dict[str, Any]) -> None:
    assert_equal(executables[name](cases[name].inputs, schedule), cases[name])


@pytest.mark.parametrize("name", CASES)
def test_form_of_a_kernel(name: str, cases: dict[str, Case]) -> None:
    assert f"__launch_bounds__({cases[name].block})" in emit_cuda(grid_mapped(cases[name].text))


def test_grid_mapped_module_prints_and_parses(cases: dict[str, Case]) -> None:
    for case in cases.values():
        module = grid_mapped(case.text)
        again = parse(str(module))
        assert str(again) == str(module)
        assert emit_cuda(again) == emit_cuda(module)
        MapToGridPass().apply(Context(), again)
        assert str(again) == str(module)


@needs_mlir_opt
def test_upstream_accepts_what_map_to_grid_leaves(cases: dict[str, Case]) -> None:
    text = "\n// -----\n".join(str(grid_mapped(case.text)) for case in cases.values())
    done = subprocess.run(
        ["mlir-opt-22", "--split-input-file"], input=text, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


HOST = """
"memref.global"() <{sym_name = "constant_0", sym_visibility = "private", type = memref<2x3xf32>, constant,
    initial_value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>}> : () -> ()
"memref.global"() <{sym_name = "constant_1", sym_visibility = "private", type = memref<i1>, constant,
    initial_value = dense<true> : tensor<i1>}> : () -> ()
func.func @main(%x: memref<6xf32>, %y: memref<2x3xf32>, %z: memref<2x3xf32>, %w: memref<2x3xf32>,
                %arena: memref<192xi8>) attributes {num_inputs = 1 : i64, num_outputs = 3 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %t = memref.view %arena[%c64][] : memref<192xi8> to memref<2x3xf32>
  %going = memref.view %arena[%c128][] : memref<192xi8> to memref<i1>
  %k = memref.get_global @constant_0 : memref<2x3xf32>
  %true = memref.get_global @constant_1 : memref<i1>
  %r = memref.reinterpret_cast %x to offset: [0], sizes: [2, 3], strides: [3, 1] : memref<6xf32> to memref<2x3xf32>
  "memref.copy"(%true, %going) : (memref<i1>, memref<i1>) -> ()
  "memref.copy"(%r, %t) : (memref<2x3xf32>, memref<2x3xf32>) -> ()
  %n = scf.while (%i = %c0) : (index) -> (index) {
    %more = memref.load %going[] : memref<i1>
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    func.call @step(%t, %k, %going) : (memref<2x3xf32>, memref<2x3xf32>, memref<i1>) -> ()
    %j = arith.addi %i, %c1 : index
    scf.yield %j : index
  }
  %is_three = arith.cmpi eq, %n, %c3 : index
  scf.if %is_three {
    "memref.copy"(%t, %y) : (memref<2x3xf32>, memref<2x3xf32>) -> ()
  } else {
    "memref.copy"(%k, %y) : (memref<2x3xf32>, memref<2x3xf32>) -> ()
  }
  scf.for %i = %c0 to %c3 step %c1 {
    %from = memref.reinterpret_cast %t to offset: [%i], sizes: [2], strides: [3]
        : memref<2x3xf32> to memref<2xf32, strided<[3], offset: ?>>
    %back = arith.subi %c3, %i : index
    %last = arith.subi %back, %c1 : index
    %to = memref.reinterpret_cast %z to offset: [%last], sizes: [2], strides: [3]
        : memref<2x3xf32> to memref<2xf32, strided<[3], offset: ?>>
    "memref.copy"(%from, %to) : (memref<2xf32, strided<[3], offset: ?>>, memref<2xf32, strided<[3], offset: ?>>) -> ()
  }
  func.call @nothing(%w) : (memref<2x3xf32>) -> ()
  func.return
}
func.func private @step(%t: memref<2x3xf32>, %k: memref<2x3xf32>, %going: memref<i1>) attributes {kernel} {
  CONSTANTS
  %limit = arith.constant 15.0 : f32
  BODY
  %v = memref.load %t[%c1, %c2] : memref<2x3xf32>
  %small = arith.cmpf olt, %v, %limit : f32
  memref.store %small, %going[] : memref<i1>
  func.return
}
func.func private @nothing(%w: memref<2x3xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  EMPTY
  func.return
}
"""


def host_program() -> str:
    body = """
      %a = memref.load %t[%i, %j] : memref<2x3xf32>
      %b = memref.load %k[%i, %j] : memref<2x3xf32>
      %s = arith.addf %a, %b : f32
      memref.store %s, %t[%i, %j] : memref<2x3xf32>"""
    constants = with_constants("%c2 %c3").removesuffix("%c2 %c3")
    empty = parallel({"i": 0}, "memref.store %zero, %w[%i, %i] : memref<2x3xf32>")
    text = HOST.replace("CONSTANTS", constants).replace("BODY", parallel({"i": 2, "j": 3}, body))
    return text.replace("EMPTY", empty)


@needs_compiler
def test_host_runs_control_flow_views_and_copies() -> None:
    x = floats(6)
    executable = load_on_shim([parse(host_program())])[0]
    y, z, w = executable([x])
    expected = x.reshape(2, 3) + 3 * np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_allclose(z, expected[:, ::-1], rtol=1e-6)
    assert np.isnan(w).all()
    assert executable.backend.launches == ["step"] * 3  # an empty grid is not launched


@needs_compiler
def test_numbers_between_ops_of_bf16_are_rounded_in_pairs() -> None:
    """As NumPy rounds them; a conversion of one number alone is slow."""
    x = np.linspace(-3, 3, 512, dtype=np.float32).astype(ml_dtypes.bfloat16)
    module = tenon.jit(lambda x: (x * 1.7 + x) * x).trace(x).module.clone()
    (loaded,) = load_on_shim([lower(new_context(), module, LoweringOptions(gpu=GPUS["sm_90"]))])
    assert loaded.source.count("= tn_f32_rounded_to_bf16(") == 2
    scaled = np.multiply(x, np.full_like(x, 1.7))
    np.testing.assert_array_equal(loaded([x])[0], np.multiply(np.add(scaled, x), x))


@needs_compiler
def test_one_element_of_a_constant_stands_for_all() -> None:
    module = parse(host_program())
    constant = next(op for op in module.ops if isinstance(op, memref.GlobalOp))
    constant.properties["initial_value"] = DenseIntOrFPElementsAttr(
        TensorType(f32, [2, 3]), BytesAttr(np.float32(7).tobytes())
    )
    y, _, _ = load_on_shim([module])[0]([np.zeros(6, np.float32)])
    assert y.tolist() == [[21, 21, 21]] * 2  # added three times


# ---------------------------------------------------------------------------------------------------------------- NVRTC


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_without_spills(arch: str, cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        source = emit_cuda(grid_mapped(case.text), arch)
        _, log = nvrtc._compile(source, [f"--gpu-architecture={arch}", "--ptxas-options=-v"], "CUBIN")
        assert "0 bytes spill stores, 0 bytes spill loads" in log, name
        assert "warning" not in log, f"{name}: {log}"


@needs_nvrtc
def test_products_of_nvrtc(cases: dict[str, Case]) -> None:
    source = emit_cuda(grid_mapped(cases["half_precision"].text))
    assert nvrtc.compile_cubin(source, "sm_90")[:4] == b"\x7fELF"
    ptx = nvrtc._compile(source, ["--gpu-architecture=compute_90"], "PTX")[0].decode()
    assert ".target sm_90" in ptx
    assert "cvt.rn.f16.f32" in ptx
    assert ".ftz" not in ptx


@needs_nvrtc
def test_nvrtc_error_holds_the_log() -> None:
    with pytest.raises(nvrtc.NvrtcError, match='identifier "missing" is undefined'):
        nvrtc.compile_cubin('extern "C" __global__ void f() { missing(); }', "sm_90")
    with pytest.raises(nvrtc.NvrtcError, match="invalid value for --gpu-architecture"):
        nvrtc.compile_cubin("", "sm_1")


def test_missing_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so"]))
    nvrtc._library.cache_clear()
    try:
        with pytest.raises(nvrtc.NvrtcError, match=r"nvrtc is not installed: pip install 'tenon\[cuda12\]' \(/nowhere"):
            nvrtc.compile_cubin("", "sm_90")
        assert "nvrtc is not installed" in (nvrtc.why_unavailable() or "")
    finally:
        nvrtc._library.cache_clear()


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%v = vector.load %a0[%c0] : memref<8xf32>, vector<4xf32>", "vector.load is for the CPU; leave vectorization"),
        (
            "func.call @kernel_0(%a0, %r0) : (memref<8xf32>, memref<8xf32>) -> ()",
            "func.call of @kernel_0; a kernel calls nothing",
        ),
    ],
)
def test_map_to_grid_refuses(body: str, message: str) -> None:
    module = parse(program(["8xf32"], ["8xf32"], body))
    with pytest.raises(PassFailedException, match=re.escape(f"map-to-grid: @kernel_0: {message}")):
        MapToGridPass().apply(Context(), module)


def test_map_to_grid_refuses_bounds_that_are_not_constant() -> None:
    kernel = "%n = memref.load %a0[%c0] : memref<8xindex>\n" + parallel({"i": 8}, "")
    kernel = kernel.replace("(%c0, %c8, %c1)", "(%c0, %n, %c1)")
    with pytest.raises(PassFailedException, match=r"@kernel_0: outer scf\.parallel with bounds not constant"):
        MapToGridPass().apply(Context(), parse(program(["8xindex"], ["8xf32"], kernel)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%h = arith.constant 1.0 : f16\n%v = arith.addf %h, %h : f16", "arith.addf on f16 has no CUDA C++ form"),
        ("%h = arith.constant 1.0 : f64\n%v = arith.truncf %h : f64 to f16", "arith.truncf from f64 to f16 has no"),
        (
            "%h = arith.constant 1 : i32\n%v = arith.sitofp %h : i32 to bf16",
            "arith.sitofp from i32 to bf16 has no",
        ),
        (
            "%h = arith.constant 1.0 : f32\n%v = arith.maximumf %h, %h : f32",
            "arith.maximumf on f32 has no CUDA C++ form",
        ),
        ("%w = arith.constant 1 : i48\n%s = arith.addi %w, %w : i48", "i48 has no type in CUDA C++"),
    ],
)
def test_emit_cuda_refuses(body: str, message: str) -> None:
    module = parse(program(["8xf32"], ["8xf32"], body))
    MapToGridPass().apply(Context(), module)
    with pytest.raises(EmissionError, match=re.escape(f"emit_cuda: @kernel_0: {message}")):
        emit_cuda(module)


def test_emit_cuda_needs_a_grid_and_an_architecture(cases: dict[str, Case]) -> None:
    with pytest.raises(EmissionError, match="emit_cuda: @kernel_0 has no grid; run map-to-grid first"):
        emit_cuda(parse(cases["total"].text))
    with pytest.raises(EmissionError, match="emit_cuda: arch is 'hopper', not one such as 'sm_90'"):
        emit_cuda(grid_mapped(cases["total"].text), "hopper")
    with pytest.raises(EmissionError, match="emit_cuda: arch is 'sm_75', and kernels need sm_80 or later"):
        emit_cuda(grid_mapped(cases["total"].text), "sm_75")


def test_host_program_names_what_it_cannot_run(cases: dict[str, Case]) -> None:
    text = cases["total"].text.replace(
        "func.call @kernel_0", "%f = arith.constant 1.0 : f32\n%g = math.exp %f : f32\nfunc.call @kernel_0"
    )
    with pytest.raises(HostProgramError, match=r"main: math\.exp does not run on the host"):
        load_on_shim([parse(text)])


def test_missing_cupy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    device_cuda._why_no_device.cache_clear()
    try:
        assert "cupy cannot be imported" in (device_cuda.why_unavailable() or "")
        with pytest.raises(device_cuda.CudaUnavailableError, match=r"pip install 'tenon\[cuda12\]'"):
            CupyBackend(b"")
    finally:
        device_cuda._why_no_device.cache_clear()


def test_what_is_rounded_is_found_in_linear_time() -> None:
    """Each sum is used twice by the next one."""
    double = "".join(f"%s{n} = arith.addf %s{n - 1}, %s{n - 1} : f32\n" for n in range(1, 65))
    text = f"""func.func private @kernel(%x: f32, %y: memref<bf16>) attributes {{kernel}} {{
        %s0 = math.exp %x : f32
        {double}
        %quotient = arith.divf %s0, %s64 : f32
        %rounded = arith.truncf %quotient : f32 to bf16
        memref.store %rounded, %y[] : memref<bf16>
        func.return
    }}"""
    module = parse(text)
    ApproximateRoundedPass().apply(Context(), module)
    assert str(module).count("fastmath<afn>") == 2


@needs_compiler
def test_approximated_tangent_on_the_host(tmp_path: Path) -> None:
    """By its formula, with the host's power of two: of all bf16 within 0.51 ULP, with the sign of 0."""
    start = PRELUDE.index("__device__ __forceinline__ float tn_tanh_approximate(float x) {\n")
    text = PRELUDE[start : PRELUDE.index("\n}", start) + 2]
    formula, replaced = re.subn(r"asm\(.*\);", "power = exp2f(fabsf(x) * 2.88539008f);", text)
    assert replaced == 1
    lines = [
        "#include <math.h>",
        "#define __device__",
        "#define __forceinline__ static inline",
        "static float tn_reciprocal_approximate(float x) { return 1.0f / x; }",
        formula,
        "void tangents(float *x, int n) { for (int i = 0; i < n; ++i) x[i] = tn_tanh_approximate(x[i]); }",
    ]
    library = tmp_path / "tangents.so"
    command = [str(COMPILER), "-x", "c", "-shared", "-fPIC", "-", "-o", str(library), "-lm"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)
    bits = np.arange(1 << 16, dtype=np.uint32)
    x = (bits[bits % (1 << 15) <= 0x7F80] << 16).view(np.float32)  # up to infinity
    expected, found = np.tanh(x.astype(np.float64)), np.append(x, np.float32(np.nan))
    ctypes.CDLL(str(library)).tangents(found.ctypes.data_as(ctypes.c_void_p), found.size)
    assert np.isnan(found[-1])
    rounded = found[:-1].astype(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_array_equal(np.signbit(rounded), np.signbit(expected))
    ulp = np.exp2(np.maximum(np.frexp(expected)[1] - 1, -126) - 7)
    assert np.max(np.abs(rounded - expected) / ulp) <= 0.51


# ----------------------------------------------------------------------------------------------------------- the device


def on_device(text: str, arrays: Sequence[Array]) -> list[Any]:
    made = executable(grid_mapped(text), "cuda")
    return made.run(arrays)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_device_agrees_with_numpy(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    results = on_device(case.text, case.inputs)
    assert_equal([result.get() for result in results], case)


@pytest.mark.gpu
def test_device_runs_control_flow_views_and_copies() -> None:
    x = floats(6)
    y, z, _ = on_device(host_program(), [x])
    expected = x.reshape(2, 3) + 3 * np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(y.get(), expected, rtol=1e-6)
    np.testing.assert_allclose(z.get(), expected[:, ::-1], rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (tenon.exp, np.exp),
        (tenon.tanh, np.tanh),
        (tenon.sqrt, np.sqrt),
        (tenon.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (lambda x: 3 / x, lambda x: 3 / x),
    ],
)
def test_device_approximates_what_it_rounds(function: Any, exact: Any, dtype: Any) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
    found = tenon.jit(function, device="cuda")(x).get().astype(np.float64)
    digits, least = ml_dtypes.finfo(dtype).nmant, ml_dtypes.finfo(dtype).minexp
    ulp = np.exp2(np.maximum(np.frexp(np.where(np.isfinite(expected), expected, 1.0))[1] - 1, least) - digits)
    largest = float(ml_dtypes.finfo(dtype).max)
    beyond = np.abs(expected) > largest
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.all(np.abs(found[beyond]) >= largest)
    inside = np.isfinite(expected) & ~beyond
    assert np.max(np.abs(found[inside] - expected[inside]) / ulp[inside]) <= 0.51
