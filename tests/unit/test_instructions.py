"""The table of instructions: what fragments say is what the shim computes, NVRTC accepts the text, and says what a
target lacks. The oracle of a product is that of whole matrices."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_faults import KERNELS
from cuda_programs import Array, parse
from cuda_shim import COMPILER, SCHEDULES, Library, ShimBackend, build
from random_numbers import generator

from tenon.lowering.cuda.emit_cuda import EmissionError, emit_cuda
from tenon.lowering.cuda.tables import PRELUDE
from tenon.lowering.instructions.fragment import Fragment
from tenon.lowering.instructions.instruction import Instruction
from tenon.lowering.instructions.table import INSTRUCTIONS, device_functions
from tenon.runtime.cuda import nvrtc

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
needs_nvrtc = pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="nvrtc is not installed")

DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "tf32": np.float32,
    "s8": np.int8,
    "f64": np.float64,
}
MMA = [row for name, row in INSTRUCTIONS.items() if name.startswith("tn_mma_")]
WGMMA = [INSTRUCTIONS[f"tn_wgmma_m64n{n}k{k}"] for n, k in ((64, "16_bf16_registers"), (32, "8_tf32_registers"))]
MATRICES = [row for name, row in INSTRUCTIONS.items() if re.match("tn_(ld|st)matrix", name)]


def dtype_of(row: Instruction) -> Any:
    return next(dtype for name, dtype in DTYPES.items() if name in row.name.split("_"))


def registers_of(fragment: Fragment, matrix: Array) -> Array:
    """What each thread holds, as registers of 32 bits, or of 64 for f64."""
    register = np.uint64 if matrix.dtype == np.float64 else np.uint32
    return np.ascontiguousarray(fragment.distribute(matrix)).view(register).reshape(fragment.counts[:2])


def kernel_of(row: Instruction) -> str:
    """Runs the instruction on registers that are given, so that the same text would run on a device."""
    name = row.name
    if name.startswith("tn_mma_"):
        kind = {"s8": "int", "f64": "double"}.get(name.rpartition("_")[2], "float")
        register = "double" if kind == "double" else "unsigned int"
        return f"""extern "C" __global__ void f(const {register} *a, const {register} *b, {kind} *d) {{
          {register} x[4], y[2];
          {kind} z[4];
          for (int i = 0; i < 4; i++) {{ x[i] = a[threadIdx.x * 4 + i]; z[i] = d[threadIdx.x * 4 + i]; }}
          for (int i = 0; i < 2; i++) y[i] = b[threadIdx.x * 2 + i];
          {name}(z, x, y);
          for (int i = 0; i < 4; i++) d[threadIdx.x * 4 + i] = z[i];
        }}"""
    if name.startswith("tn_wgmma_"):
        columns = row.fragments["d"].shape[1]
        return f"""extern "C" __global__ __launch_bounds__(128) void f(
            const unsigned int *a, const uint4 *b, float *d) {{
          TN_DYNAMIC_SHARED(tile);  // rows of B, N by K, in chunks of 8 rows by 16 bytes
          for (int i = threadIdx.x; i < {columns * 2}; i += 128)
            *(uint4 *)(tile + (i / 2 / 8) * 256 + i % 2 * 128 + i / 2 % 8 * 16) = b[i];
          tn_fence_proxy_async();
          __syncthreads();
          unsigned int x[4];
          float z[{columns // 2}];
          #pragma unroll
          for (int i = 0; i < 4; i++) x[i] = a[threadIdx.x * 4 + i];
          #pragma unroll
          for (int i = 0; i < {columns // 2}; i++) z[i] = d[threadIdx.x * {columns // 2} + i];
          tn_wgmma_fence();
          {name}(z, x, tn_wgmma_descriptor(tile, 128, 256, 0), true);
          tn_wgmma_commit();
          tn_wgmma_wait<0>();
          #pragma unroll
          for (int i = 0; i < {columns // 2}; i++) d[threadIdx.x * {columns // 2} + i] = z[i];
        }}"""
    count = int(name[len("tn_ldmatrix_x")])
    call = (
        f"{name}(r, &rows[lane % {8 * count} * 8]);" if "ld" in name else f"{name}(&rows[lane % {8 * count} * 8], r);"
    )
    return f"""extern "C" __global__ void f(unsigned short *matrices, unsigned int *registers) {{
      __shared__ __align__(16) unsigned short rows[{count * 64}];
      int lane = threadIdx.x;
      unsigned int r[{count}];
      for (int i = lane; i < {count * 64}; i += 32) rows[i] = matrices[i];
      for (int i = 0; i < {count}; i++) r[i] = registers[lane * {count} + i];
      __syncthreads();
      {call}
      __syncthreads();
      for (int i = lane; i < {count * 64}; i += 32) matrices[i] = rows[i];
      for (int i = 0; i < {count}; i++) registers[lane * {count} + i] = r[i];
    }}"""


ROWS = [*MMA, *WGMMA, *MATRICES]


@pytest.fixture(scope="module")
def library() -> Library:
    return build([kernel_of(row) for row in ROWS])


def launch(library: Library, row: Instruction, arrays: list[Array], threads: int, shared: int = 0) -> list[Array]:
    backend = ShimBackend()
    backend.library, backend.unit, backend.schedule = library, ROWS.index(row), SCHEDULES[1]
    addresses: list[int] = []
    for array in arrays:
        addresses.append(backend.allocate(array.nbytes)[0])
        backend.write(addresses[-1], array.tobytes())
    backend.launch("f", (1, 1, 1), (threads, 1, 1), [np.uint64(address) for address in addresses], shared)
    return [
        np.frombuffer(backend.read(address, array.nbytes), array.dtype).reshape(array.shape)
        for address, array in zip(addresses, arrays, strict=True)
    ]


def operand(shape: tuple[int, int], dtype: Any) -> Array:
    return generator(3).integers(-8, 8, shape).astype(dtype)


@needs_compiler
@pytest.mark.parametrize("row", MMA, ids=[row.name for row in MMA])
def test_product_of_a_warp_is_that_of_the_matrices(row: Instruction, library: Library) -> None:
    a_map, b_map, d_map = (row.fragments[name] for name in "abd")
    dtype = dtype_of(row)
    a, b = operand(a_map.shape, dtype), operand(b_map.shape, dtype)[:, ::-1].copy()
    d = operand(d_map.shape, {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32))
    held = [registers_of(a_map, a), registers_of(b_map, b), d_map.distribute(d).reshape(32, 4)]
    result = launch(library, row, held, 32)[2].reshape(d_map.counts)
    np.testing.assert_array_equal(d_map.collect(result), a.astype(np.float64) @ b.astype(np.float64) + d)
    assert row.operations == 2 * a.shape[0] * a.shape[1] * b.shape[1]


@needs_compiler
@pytest.mark.parametrize("row", WGMMA, ids=[row.name for row in WGMMA])
def test_product_of_a_warpgroup_is_that_of_the_matrices(row: Instruction, library: Library) -> None:
    a_map, d_map = row.fragments["a"], row.fragments["d"]
    a, b = operand(a_map.shape, dtype_of(row)), operand((d_map.shape[1], a_map.shape[1]), dtype_of(row))
    d = operand(d_map.shape, np.float32)
    held = d_map.distribute(d).reshape(128, -1)
    result = launch(library, row, [registers_of(a_map, a), b, held], 128, b.nbytes)[2].reshape(d_map.counts)
    np.testing.assert_array_equal(d_map.collect(result), a.astype(np.float64) @ b.astype(np.float64).T + d)


@needs_compiler
@pytest.mark.parametrize("row", MATRICES, ids=[row.name for row in MATRICES])
def test_matrices_are_dealt_out_as_their_fragment_says(row: Instruction, library: Library) -> None:
    count = int(row.name[len("tn_ldmatrix_x")])
    values = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    held = np.stack([row.fragments["matrix"].distribute(matrix)[:, 0] for matrix in values], axis=1).copy()
    other = np.zeros_like(values) if "st" in row.name else values
    given = held.view(np.uint32) if "st" in row.name else np.zeros((32, count, 1), np.uint32)
    matrices, registers = launch(library, row, [other, given], 32)
    np.testing.assert_array_equal(matrices, values)
    np.testing.assert_array_equal(registers, held.view(np.uint32))


def test_fragments_hold_each_element_once() -> None:
    for fragment in {fragment for row in INSTRUCTIONS.values() for fragment in row.fragments.values()}:
        matrix = np.arange(np.prod(fragment.shape)).reshape(fragment.shape)
        assert np.prod(fragment.counts) == matrix.size
        np.testing.assert_array_equal(fragment.collect(fragment.distribute(matrix)), matrix)
    with pytest.raises(ValueError, match=r"fragment of a matrix of shape \(16, 8\), not \(8, 16\)"):
        MMA[0].fragments["d"].distribute(np.zeros((8, 16)))


# ---------------------------------------------------------------------------------------------------------------- NVRTC

PLAIN_CALLS = {
    "tn_cp_async": "tn_cp_async<16>(tile, p); tn_cp_async<8>(tile, p, 4); tn_cp_async<4>(tile, p)",
    "tn_cp_async_wait": "tn_cp_async_wait<1>()",
    "tn_mbarrier_init": "tn_mbarrier_init(bar, 1)",
    "tn_mbarrier_arrive": "tn_mbarrier_arrive(bar)",
    "tn_mbarrier_expect": "tn_mbarrier_expect(bar, 64)",
    "tn_mbarrier_wait": "tn_mbarrier_wait(bar, 0)",
    "tn_tma_load_2d": "tn_tma_load_2d(tile, &map, 0, 1, bar)",
    "tn_tma_load_3d": "tn_tma_load_3d(tile, &map, 0, 1, 2, bar)",
    "tn_tma_load_4d": "tn_tma_load_4d(tile, &map, 0, 1, 2, 3, bar)",
    "tn_tma_store_2d": "tn_tma_store_2d(&map, 0, 1, tile)",
    "tn_tma_store_3d": "tn_tma_store_3d(&map, 0, 1, 2, tile)",
    "tn_tma_store_wait": "tn_tma_store_wait<0>()",
    "tn_named_barrier_sync": "tn_named_barrier_sync(1, 128)",
    "tn_named_barrier_arrive": "tn_named_barrier_arrive(1, 128)",
    "tn_elect": "if (tn_elect()) *(int *)p = 1",
}


def probe(name: str) -> str:
    return f"""extern "C" __global__ void f(const __grid_constant__ TnTensorMap map, void *p) {{
      TN_DYNAMIC_SHARED(tile);
      unsigned long long *bar = (unsigned long long *)tile;
      {PLAIN_CALLS.get(name, f"{name}()")};
    }}"""


def with_functions(text: str, architecture: str) -> str:
    return "\n".join([PRELUDE, device_functions(text, architecture), text])


@needs_nvrtc
def test_nvrtc_compiles_every_row() -> None:
    """All rows at once, a kernel each; of wgmma the shapes that other tests run, as the rest differs in a number."""
    elsewhere = re.compile("tn_(mma|wgmma|ldmatrix|stmatrix|setmaxnreg)")
    names = [name for name in INSTRUCTIONS if not elsewhere.match(name)]
    texts = [probe(name) for name in names] + [kernel_of(row) for row in ROWS]
    texts = [text.replace("void f(", f"void f_{number}(") for number, text in enumerate(texts)]
    kernels = nvrtc.compile_kernels(with_functions("\n".join(texts), "sm_90a"), "sm_90a").kernels
    assert len(kernels) == len(texts)
    assert all(kernel.spilled == 0 for kernel in kernels.values())


@needs_nvrtc
@pytest.mark.parametrize(("name", "architecture"), [("mma", "sm_80"), ("stores", "sm_90a"), ("tma", "sm_90a")])
def test_kernels_of_the_shim_compile_without_spills_and_remarks(name: str, architecture: str) -> None:
    text = (
        KERNELS[name].text.replace("for (int", "\n#pragma unroll\nfor (int") if name == "stores" else KERNELS[name].text
    )
    text = re.sub(r"(\n *)(for \(int (?:k|i|h|j|e) = 0)", r"\1#pragma unroll\1\2", text)
    kernel = nvrtc.compile_kernels(with_functions(text, architecture), architecture).kernels["f"]
    assert kernel.spilled == 0


@needs_nvrtc
def test_remarks_on_serialised_products_are_errors() -> None:
    """An accumulator that is written while a product on it is in flight."""
    text = KERNELS["stores"].text.replace("tn_wgmma_wait<0>();", "d[3] += 1.0f; tn_wgmma_wait<0>();")
    text = re.sub(r"(\n *)(for \(int)", r"\1#pragma unroll\1\2", text)
    with pytest.raises(nvrtc.SerialisedError, match=r"\(C75\d\d\)") as raised:
        nvrtc.compile_kernels(with_functions(text, "sm_90a"), "sm_90a")
    assert re.match(r"C75\d\d: warpgroup.wait is injected", raised.value.kernels["f"])


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("tn_mbarrier_wait", "sm_80", "tn_mbarrier_wait needs sm_90 or later, the target is sm_80"),
        ("tn_wgmma_fence", "sm_90", "tn_wgmma_fence needs sm_90a, the target is sm_90"),
        ("tn_wgmma_fence", "sm_100a", "tn_wgmma_fence needs sm_90a, the target is sm_100a"),
        ("tn_cp_async_commit", "sm_75", "tn_cp_async_commit needs sm_80 or later, the target is sm_75"),
        ("tn_cp_async_commit", "hopper", "'hopper' is not an architecture such as 'sm_90'"),
    ],
)
def test_instructions_that_a_target_lacks(name: str, architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        device_functions(f"{name}();", architecture)


def test_texts_without_instructions_stay_as_they_are() -> None:
    assert device_functions("x = tn_f16_to_f32(y);", "sm_80") == ""


def test_text_of_an_op_brings_the_functions_that_it_calls() -> None:
    source = "extern \\22C\\22 __global__ void k(float *x) { tn_wgmma_fence(); }"
    module = parse(f"""
    func.func private @k(memref<8xf32>) attributes {{kernel, cuda_source = "{source}",
        grid = array<i64: 1, 1, 1>, block = array<i64: 128, 1, 1>}}""")
    text = emit_cuda(module, "sm_90a")
    assert "wgmma.fence.sync.aligned" in text
    assert "tn_wgmma_commit" not in text
    with pytest.raises(EmissionError, match="emit_cuda: tn_wgmma_fence needs sm_90a, the target is sm_90"):
        emit_cuda(module, "sm_90")
