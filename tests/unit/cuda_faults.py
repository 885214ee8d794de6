"""Right CUDA kernels, each with faults planted in its text: what to replace by what, and the name the shim must give.

A name is that of a finding of the shim, or `numbers` where the order is right and the result wrong, or `conflicts` and
`sectors` where only the counters show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NUMBERS, CONFLICTS, SECTORS = "numbers", "conflicts", "sectors"


@dataclass(frozen=True)
class Fault:
    what: str
    old: str
    new: str
    name: str
    """Of several names, any: which of them comes first depends on the schedule."""


@dataclass(frozen=True)
class Kernel:
    text: str
    faults: list[Fault] = field(default_factory=list[Fault])


REVERSE = Kernel(
    """
extern "C" __global__ void f(const int *x, int *y) {
  __shared__ int copy[64];
  int i = threadIdx.x;
  copy[i] = x[i];
  __syncthreads();
  y[i] = copy[63 - i];
}""",
    [
        Fault("no barrier between stores and loads", "__syncthreads();", "", "race"),
        Fault("a barrier of the warp alone", "__syncthreads();", "__syncwarp();", "race"),
        Fault(
            "a barrier that half of the threads reach",
            "__syncthreads();",
            "if (i < 32) __syncthreads(); else __syncwarp();",
            "race",
        ),
        Fault("an index outside of the array", "copy[63 - i]", "copy[64 - i]", "array-range"),
        Fault("an element that nobody wrote", "copy[i] = x[i];", "if (i != 7) copy[i] = x[i];", "uninitialised"),
        Fault(
            "two threads that write one element", "copy[i] = x[i];", "copy[i] = x[i]; if (i == 9) copy[8] = 0;", "race"
        ),
        Fault("an element past the end of a buffer", "\n  y[i] =", "\n  y[i + (i > 62)] =", "global-range"),
        Fault("an element before a buffer", "x[i]", "x[i - 1100]", "global-range"),
        Fault(
            "a barrier in one branch", "__syncthreads();", "if (i == 3) __syncwarp(); else __syncthreads();", "deadlock"
        ),
    ],
)

VECTORS = Kernel(
    """
extern "C" __global__ void f(const float *x, float *y) {
  __shared__ __align__(16) float copy[264];
  int i = threadIdx.x;
  *(float4 *)(copy + 4 * i) = *(const float4 *)(x + 4 * i);
  __syncthreads();
  float4 v = *(const float4 *)(copy + 4 * (63 - i));
  *(float4 *)(y + 4 * i) = make_float4(v.w, v.z, v.y, v.x);
}""",
    [
        Fault(
            "a vector at an odd place of shared memory", "copy + 4 * (63 - i)", "copy + 4 * (63 - i) + 2", "misaligned"
        ),
        Fault("a vector at an odd place of a buffer", "x + 4 * i", "x + 4 * i + (i == 5)", "misaligned"),
        Fault("elements of the neighbour's vector", "copy + 4 * i)", "copy + 4 * i + (i & 4))", "race"),
    ],
)

SUMS = Kernel(
    """
extern "C" __global__ void f(const float *x, float *y) {
  __shared__ float slots[4];
  int i = threadIdx.x;
  for (int row = 0; row < 3; row++) {
    float value = x[row * 128 + i];
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (i % 32 == 0) slots[i / 32] = value;
    __syncthreads();  // written
    value = slots[0] + slots[1] + slots[2] + slots[3];
    __syncthreads();  // read
    if (i == 0) y[row] = value;
  }
}""",
    [
        Fault("no barrier after the partial sums", "__syncthreads();  // written", "", "race"),
        Fault("no barrier before the slots are used again", "__syncthreads();  // read", "", "race"),
        Fault("a slot of a warp that does not exist", "slots[3];", "slots[i < 4 ? 3 : 4];", "array-range"),
        Fault("a step of the tree left out", "distance = 16", "distance = 8", NUMBERS),
    ],
)

WARPS = Kernel(
    """
extern "C" __global__ void f(const int *x, int *y) {
  __shared__ int lanes[64];
  int i = threadIdx.x;
  lanes[i] = x[i];
  __syncwarp();
  y[i] = lanes[i ^ 1];
}""",
    [
        Fault("lanes that do not wait for each other", "__syncwarp();", "", "race"),
        Fault("a shuffle taken for a barrier", "__syncwarp();", "__shfl_xor_sync(~0u, i, 1);", "race"),
        Fault("a lane of another warp", "i ^ 1", "i ^ 32", "race"),
    ],
)

COUNTS = Kernel(
    """
extern "C" __global__ void f(const int *x, int *y) {
  __shared__ int counts[8];
  int i = threadIdx.x;
  if (i < 8) counts[i] = 0;
  __syncthreads();  // zeros
  atomicAdd(&counts[x[i] & 7], 1);
  __syncthreads();  // counted
  if (i < 8) y[i] = counts[i];
}""",
    [
        Fault("plain additions", "atomicAdd(&counts[x[i] & 7], 1);", "counts[x[i] & 7] += 1;", "race"),
        Fault("no barrier after the zeros", "__syncthreads();  // zeros", "", "race"),
        Fault("no barrier before the counts are read", "__syncthreads();  // counted", "", "race"),
        Fault(
            "counts that do not begin at 0", "if (i < 8) counts[i] = 0;", "if (i < 4) counts[i] = 0;", "uninitialised"
        ),
    ],
)

# Sums of rows of 32 in two blocks, and how many there are.
BLOCKS = Kernel(
    """
extern "C" __global__ void f(const int *x, int *y) {
  int i = blockIdx.x * 32 + threadIdx.x;
  int sum = x[i];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
  if (threadIdx.x == 0) atomicAdd(&y[2], 1);
}""",
    [
        Fault("a counter without an atomic", "atomicAdd(&y[2], 1);", "y[2] += 1;", "global-race"),
        Fault("blocks that write one element", "y[blockIdx.x] = sum;", "y[0] = sum;", "global-race"),
        Fault("a block that reads what another writes", "= sum;", "= sum + (blockIdx.x ? 0 : y[1]);", "global-race"),
        Fault("lanes that write one element", "if (threadIdx.x == 0) y[", "y[", "global-race"),
        Fault("lanes that read what another one writes", "= sum;", "= sum; else y[3] = y[blockIdx.x];", "global-race"),
    ],
)

BYTES = Kernel(
    """
extern "C" __global__ void f(const unsigned char *x, unsigned char *y) {
  __shared__ unsigned char flags[64];
  int i = threadIdx.x;
  flags[i] = x[i];
  __syncthreads();
  y[i] = flags[63 - i];
}""",
    [
        Fault(
            "words of four threads' bytes",
            "flags[i] = x[i];",
            "*(int *)(flags + i / 4 * 4) = *(int *)(x + i / 4 * 4);",
            "race",
        )
    ],
)

TRANSPOSE = Kernel(
    """
extern "C" __global__ void f(const float *x, float *y) {
  __shared__ float tile[32][33];
  int i = threadIdx.x % 32, j = threadIdx.x / 32;
  for (int r = j; r < 32; r += 4) tile[r][i] = x[r * 32 + i];
  __syncthreads();
  for (int r = j; r < 32; r += 4) y[r * 32 + i] = tile[i][r];
}""",
    [
        Fault("rows of the tile that share banks", "[33]", "[32]", CONFLICTS),
        Fault("lanes along columns", "x[r * 32 + i]", "x[i * 32 + r]", SECTORS),
        Fault("no barrier", "__syncthreads();", "", "race"),
    ],
)

# C[64, 64] = A[64, K] B[K, 64], bf16 to f32; four warps of 32 x 32, two stages of 32 along K, rows swizzled by chunks.
MMA = Kernel(
    """
extern "C" __global__ __launch_bounds__(128) void f(const unsigned short *A, const unsigned short *B, float *C, int K) {
  __shared__ __align__(128) unsigned short a_tile[2][64 * 32];
  __shared__ __align__(128) unsigned short b_tile[2][32 * 64];
  int t = threadIdx.x, lane = t % 32, m0 = t / 64 * 32, n0 = t / 32 % 2 * 32, steps = K / 32;
  float d[2][4][4] = {};
  auto load = [&](int step, int stage) {
    for (int i = t; i < 256; i += 128) {
      int row = i / 4, chunk = i % 4;
      tn_cp_async<16>(&a_tile[stage][row * 32 + (chunk ^ row / 2 % 4) * 8], A + row * K + step * 32 + chunk * 8);
    }
    for (int i = t; i < 256; i += 128) {
      int row = i / 8, chunk = i % 8;
      tn_cp_async<16>(&b_tile[stage][row * 64 + (chunk ^ row % 8) * 8], B + (step * 32 + row) * 64 + chunk * 8);
    }
  };
  load(0, 0);
  tn_cp_async_commit();
  for (int step = 0; step < steps; step++) {
    int stage = step % 2;
    if (step + 1 < steps) load(step + 1, (step + 1) % 2);
    tn_cp_async_commit();
    tn_cp_async_wait<1>();
    __syncthreads();  // copied
    for (int k = 0; k < 32; k += 16) {
      unsigned int a[2][4], b[2][4];
      for (int i = 0; i < 2; i++) {
        int row = m0 + i * 16 + lane % 16, chunk = k / 8 + lane / 16;
        tn_ldmatrix_x4(a[i], &a_tile[stage][row * 32 + (chunk ^ row / 2 % 4) * 8]);
      }
      for (int j = 0; j < 2; j++) {
        int row = k + lane % 16, chunk = (n0 + j * 16) / 8 + lane / 16;
        tn_ldmatrix_x4_trans(b[j], &b_tile[stage][row * 64 + (chunk ^ row % 8) * 8]);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
          unsigned int pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          tn_mma_m16n8k16_bf16(d[i][j], a[i], pair);
        }
    }
    __syncthreads();  // used
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++)
        C[(m0 + i * 16 + lane / 4 + e / 2 * 8) * 64 + n0 + j * 8 + lane % 4 * 2 + e % 2] = d[i][j][e];
}""",
    [
        Fault(
            "a wait that leaves the needed group",
            "tn_cp_async_wait<1>();",
            "tn_cp_async_wait<2>();",
            "copy-not-awaited",
        ),
        Fault("no wait", "tn_cp_async_wait<1>();", "", "copy-not-awaited"),
        Fault(
            "a barrier before the wait",
            "tn_cp_async_wait<1>();\n    __syncthreads();  // copied",
            "__syncthreads();\n    tn_cp_async_wait<1>();",
            "copy-not-awaited",
        ),
        Fault("no barrier after the wait", "__syncthreads();  // copied", "", "copy-not-awaited"),
        Fault("no barrier before the stage is filled again", "__syncthreads();  // used", "", "overwritten-while-read"),
        Fault(
            "no empty group at the end",
            "    tn_cp_async_commit();\n    tn_cp_async_wait",
            "    if (step + 1 < steps) tn_cp_async_commit();\n    tn_cp_async_wait",
            "copy-not-awaited",
        ),
        Fault(
            "the stage that is being filled", "int stage = step % 2;", "int stage = (step + 1) % 2;", "copy-not-awaited"
        ),
        Fault("always the first stage", "int stage = step % 2;", "int stage = 0;", "copy-not-awaited"),
        Fault(
            "one stage for all copies",
            "load(step + 1, (step + 1) % 2);",
            "load(step + 1, 0);",
            "copy-not-awaited overwritten-while-read",
        ),
        Fault("B read without transposition", "tn_ldmatrix_x4_trans(b[j]", "tn_ldmatrix_x4(b[j]", NUMBERS),
        Fault(
            "A read by another swizzle",
            "tn_ldmatrix_x4(a[i], &a_tile[stage][row * 32 + (chunk ^ row / 2 % 4) * 8]);",
            "tn_ldmatrix_x4(a[i], &a_tile[stage][row * 32 + (chunk ^ row % 4) * 8]);",
            NUMBERS,
        ),
        Fault("no swizzle: conflicts", "(chunk ^ row % 8)", "chunk", CONFLICTS),
        Fault(
            "a row past the end of B", "B + (step * 32 + row) * 64", "B + (step * 32 + row + 1) * 64", "global-range"
        ),
        Fault(
            "a copy to an odd place", "(chunk ^ row / 2 % 4) * 8], A", "(chunk ^ row / 2 % 4) * 8 + 4], A", "misaligned"
        ),
        Fault(
            "rows of 15 bytes more",
            "A + row * K + step * 32 + chunk * 8",
            "A + row * K + step * 32 + chunk * 8 + 1",
            "misaligned",
        ),
        Fault(
            "the end of the kernel with copies in flight",
            "if (step + 1 < steps) load(step + 1, (step + 1) % 2);",
            "load((step + 1) % steps, (step + 1) % 2);",
            "exit-in-flight",
        ),
    ],
)

# D[64, 64] = A[64, 64] B[64, 64]^T by ordinary stores and wgmma, for which a fence between the proxies is needed.
STORES = Kernel(
    """
extern "C" __global__ __launch_bounds__(128) void f(const unsigned short *A, const unsigned short *B, float *D) {
  TN_DYNAMIC_SHARED(tiles);
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  for (int i = t; i < 512; i += 128) {
    int row = i / 8, chunk = i % 8, at = row * 128 + (chunk ^ row % 8) * 16;
    *(uint4 *)(tiles + at) = *(const uint4 *)(A + row * 64 + chunk * 8);
    *(uint4 *)(tiles + 8192 + at) = *(const uint4 *)(B + row * 64 + chunk * 8);
  }
  tn_fence_proxy_async();
  __syncthreads();
  float d[32] = {};
  unsigned long long a = tn_wgmma_descriptor(tiles, 16, 1024, 128);
  unsigned long long b = tn_wgmma_descriptor(tiles + 8192, 16, 1024, 128);
  tn_wgmma_fence();
  for (int k = 0; k < 4; k++) tn_wgmma_m64n64k16_bf16(d, a + 2 * k, b + 2 * k, k > 0);
  tn_wgmma_commit();
  tn_wgmma_wait<0>();
  for (int j = 0; j < 8; j++)
    for (int e = 0; e < 4; e++)
      D[(16 * warp + lane / 4 + e / 2 * 8) * 64 + 8 * j + lane % 4 * 2 + e % 2] = d[4 * j + e];
}""",
    [
        Fault("no fence between the proxies", "tn_fence_proxy_async();", "", "proxy-fence"),
        Fault(
            "the fence after the barrier",
            "tn_fence_proxy_async();\n  __syncthreads();",
            "__syncthreads();\n  tn_fence_proxy_async();",
            "proxy-fence",
        ),
        Fault("a fence of one thread", "tn_fence_proxy_async();", "if (t == 0) tn_fence_proxy_async();", "proxy-fence"),
        Fault("no barrier before wgmma", "__syncthreads();", "", "store-not-awaited"),
        Fault("no fence of registers", "tn_wgmma_fence();", "", "wgmma-fence"),
        Fault("no wait for the product", "tn_wgmma_wait<0>();", "", "exit-in-flight"),
        Fault("a wait that leaves the product", "tn_wgmma_wait<0>();", "tn_wgmma_wait<1>();", "exit-in-flight"),
        Fault(
            "a store to an operand in flight",
            "tn_wgmma_wait<0>();",
            "*(int *)(tiles + 4 * t) = 0; tn_wgmma_wait<0>();",
            "overwritten-while-read",
        ),
        Fault(
            "an accumulator changed in flight",
            "tn_wgmma_wait<0>();",
            "d[3] = 0; tn_wgmma_wait<0>();",
            "accumulator-in-flight",
        ),
        Fault("a step of K too far", "a + 2 * k, b", "a + 4 * k, b", NUMBERS),
        Fault("a stride of half a group of rows", "tiles, 16, 1024, 128)", "tiles, 16, 512, 128)", NUMBERS),
        Fault("another swizzle", "tiles, 16, 1024, 128)", "tiles, 16, 1024, 64)", NUMBERS),
        Fault(
            "an operand past the end of shared memory",
            "tiles + 8192, 16, 1024",
            "tiles + 8192, 16, 2048",
            "shared-range",
        ),
        Fault("warps that give other operands", "b + 2 * k, k > 0", "b + 2 * k, k > warp", "wgmma-divergent"),
    ],
)

# D[64, 8] = A[64, 16] B[8, 16]^T with A in registers.
REGISTERS = Kernel(
    """
extern "C" __global__ __launch_bounds__(128) void f(const unsigned int *A, const uint4 *B, float *D) {
  TN_DYNAMIC_SHARED(tile);
  int t = threadIdx.x;
  if (t < 16) *(uint4 *)(tile + t % 2 * 128 + t / 2 * 16) = B[t];
  tn_fence_proxy_async();
  __syncthreads();
  unsigned int a[4];
  float d[4];
  for (int i = 0; i < 4; i++) a[i] = A[4 * t + i];
  tn_wgmma_fence();
  tn_wgmma_m64n8k16_bf16_registers(d, a, tn_wgmma_descriptor(tile, 128, 256, 0), false);
  tn_wgmma_commit();
  tn_wgmma_wait<0>();
  for (int i = 0; i < 4; i++) D[4 * t + i] = d[i];
}""",
    [
        Fault(
            "operands in registers that change in flight",
            "tn_wgmma_wait<0>();",
            "a[1] = 0; tn_wgmma_wait<0>();",
            "operand-in-flight",
        ),
        Fault("chunks of K in the wrong order", "tile, 128, 256, 0)", "tile, 256, 128, 0)", "shared-range"),
    ],
)

# C[128, 128] = A[128, K] B[128, K]^T, bf16, by tiles of 128 x 64 x 64 in two stages: one warp of the first warpgroup
# loads, two warpgroups multiply 64 rows each, results leave through shared memory.
TMA = Kernel(
    """
extern "C" __global__ __launch_bounds__(384, 1) void f(
    const __grid_constant__ TnTensorMap a_map, const __grid_constant__ TnTensorMap b_map,
    const __grid_constant__ TnTensorMap c_map, int K) {
  TN_DYNAMIC_SHARED(memory);
  unsigned char *a_tiles = memory, *b_tiles = memory + 2 * 16384, *c_tiles = memory + 2 * 24576;
  unsigned long long *full = (unsigned long long *)(memory + 65536), *empty = full + 2;
  int warp = __shfl_sync(~0u, (int)(threadIdx.x / 32), 0), lane = threadIdx.x % 32, steps = K / 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      tn_mbarrier_init(full + s, 1);
      tn_mbarrier_init(empty + s, 2);
    }
    tn_fence_mbarrier_init();
  }
  __syncthreads();  // made
  if (warp < 4) {
    tn_setmaxnreg_dec<40>();
    if (warp == 0 && tn_elect()) {
      int stage = 0, parity = 1;
      for (int tile = blockIdx.x; tile < 2; tile += gridDim.x)
        for (int step = 0; step < steps; step++) {
          tn_mbarrier_wait(empty + stage, parity);
          tn_mbarrier_expect(full + stage, 24576);
          tn_tma_load_2d(a_tiles + stage * 16384, &a_map, step * 64, 0, full + stage);
          tn_tma_load_2d(b_tiles + stage * 8192, &b_map, step * 64, tile * 64, full + stage);
          if (++stage == 2) { stage = 0; parity ^= 1; }  // next to fill
        }
    }
  } else {
    tn_setmaxnreg_inc<232>();
    int group = warp / 4 - 1, stage = 0, parity = 0, t = threadIdx.x % 128;
    unsigned char *out = c_tiles + group * 8192;
    for (int tile = blockIdx.x; tile < 2; tile += gridDim.x) {
      float d[32];
      int used = 0;
      for (int step = 0; step < steps; step++) {
        tn_mbarrier_wait(full + stage, parity);
        unsigned long long a = tn_wgmma_descriptor(a_tiles + stage * 16384 + group * 8192, 16, 1024, 128);
        unsigned long long b = tn_wgmma_descriptor(b_tiles + stage * 8192, 16, 1024, 128);
        tn_wgmma_fence();
        for (int k = 0; k < 4; k++) tn_wgmma_m64n64k16_bf16(d, a + 2 * k, b + 2 * k, step > 0 || k > 0);
        tn_wgmma_commit();
        tn_wgmma_wait<1>();
        if (step > 0 && t == 0) tn_mbarrier_arrive(empty + used);
        used = stage;
        if (++stage == 2) { stage = 0; parity ^= 1; }  // next to use
      }
      tn_wgmma_wait<0>();
      tn_named_barrier_sync(1 + group, 128);  // finished
      if (t == 0) tn_mbarrier_arrive(empty + used);
      if (t == 0) tn_tma_store_wait<0>();
      tn_named_barrier_sync(1 + group, 128);  // free
      for (int i = 0; i < 4; i++) {
        unsigned int pack[4];
        for (int h = 0; h < 4; h++) {
          float *pair = d + i * 8 + h / 2 * 4 + h % 2 * 2;
          pack[h] = tn_f32_to_bf16(pair[0]) | (unsigned int)tn_f32_to_bf16(pair[1]) << 16;
        }
        int row = warp % 4 * 16 + lane % 16, chunk = i * 2 + lane / 16;
        tn_stmatrix_x4(out + row * 128 + (chunk ^ row % 8) * 16, pack);
      }
      tn_fence_proxy_async();
      tn_named_barrier_sync(1 + group, 128);  // stored
      if (t == 0) {
        tn_tma_store_2d(&c_map, tile * 64, group * 64, out);
        tn_tma_store_commit();
      }
    }
    if (t == 0) tn_tma_store_wait<0>();  // all
  }
}""",
    [
        Fault("mbarriers without a fence", "    tn_fence_mbarrier_init();\n", "", "mbarrier-fence"),
        Fault("no barrier after the mbarriers are made", "__syncthreads();  // made", "", "mbarrier-uninitialised"),
        Fault(
            "a stage released before it is read",
            "tn_wgmma_wait<1>();\n        if (step > 0 && t == 0) tn_mbarrier_arrive(empty + used);",
            "if (t == 0) tn_mbarrier_arrive(empty + stage);",
            "overwritten-while-read",
        ),
        Fault(
            "a stage released with its product in flight",
            "if (step > 0 && t == 0) tn_mbarrier_arrive(empty + used);",
            "if (step > 0 && t == 0) tn_mbarrier_arrive(empty + stage);",
            "mbarrier-phase overwritten-while-read",
        ),
        Fault("users wait for the wrong parity", "parity = 0, t", "parity = 1, t", "copy-not-awaited mbarrier-phase"),
        Fault(
            "the loader waits for the wrong parity",
            "stage = 0, parity = 1;",
            "stage = 0, parity = 0;",
            "mbarrier-phase",
        ),
        Fault(
            "the loader never turns the parity",
            "{ stage = 0; parity ^= 1; }  // next to fill",
            "{ stage = 0; }",
            "mbarrier-phase",
        ),
        Fault(
            "users never turn the parity",
            "{ stage = 0; parity ^= 1; }  // next to use",
            "{ stage = 0; }",
            "copy-not-awaited mbarrier-phase",
        ),
        Fault(
            "users stay at a stage",
            "if (++stage == 2) { stage = 0; parity ^= 1; }  // next to use",
            "if (step % 2) parity ^= 1;",
            "copy-not-awaited mbarrier-phase",
        ),
        Fault("too few bytes expected", "expect(full + stage, 24576)", "expect(full + stage, 16384)", "mbarrier-bytes"),
        Fault(
            "too many bytes expected", "expect(full + stage, 24576)", "expect(full + stage, 32768)", "mbarrier-bytes"
        ),
        Fault(
            "an mbarrier that counts too many",
            "tn_mbarrier_init(empty + s, 2)",
            "tn_mbarrier_init(empty + s, 3)",
            "mbarrier-arrivals",
        ),
        Fault(
            "an mbarrier that counts too few",
            "tn_mbarrier_init(empty + s, 2)",
            "tn_mbarrier_init(empty + s, 1)",
            "mbarrier-phase overwritten-while-read",
        ),
        Fault(
            "users that do not wait for the loads", "tn_mbarrier_wait(full + stage, parity);", "", "copy-not-awaited"
        ),
        Fault(
            "a loader that does not wait",
            "tn_mbarrier_wait(empty + stage, parity);",
            "",
            "copy-not-awaited overwritten-while-read",
        ),
        Fault(
            "the last product not awaited",
            "tn_wgmma_wait<0>();\n      tn_named",
            "tn_wgmma_wait<1>();\n      tn_named",
            "overwritten-while-read",
        ),
        Fault("no fence of registers", "tn_wgmma_fence();\n        for (int k", "for (int k", "wgmma-fence"),
        Fault(
            "operands read by another swizzle",
            "b_tiles + stage * 8192, 16, 1024, 128)",
            "b_tiles + stage * 8192, 16, 512, 64)",
            "swizzle",
        ),
        Fault(
            "the place of results used again too early",
            "if (t == 0) tn_tma_store_wait<0>();\n",
            "",
            "overwritten-while-read",
        ),
        Fault("no fence before the store", "tn_fence_proxy_async();\n      tn_named", "tn_named", "proxy-fence"),
        Fault(
            "no barrier before the store", "tn_named_barrier_sync(1 + group, 128);  // stored", "", "store-not-awaited"
        ),
        Fault("the end before the store has read", "if (t == 0) tn_tma_store_wait<0>();  // all", "", "exit-in-flight"),
        Fault(
            "coordinates in the wrong order", "&b_map, step * 64, tile * 64", "&b_map, tile * 64, step * 64", NUMBERS
        ),
        Fault("results at an odd place", "c_tiles + group * 8192", "c_tiles + 512 + group * 8192", "misaligned"),
        Fault("more registers than there are", "tn_setmaxnreg_inc<232>", "tn_setmaxnreg_inc<248>", "setmaxnreg"),
        Fault("registers taken before they are given back", "tn_setmaxnreg_dec<40>();\n", "", "setmaxnreg"),
        Fault(
            "a named barrier of too many threads",
            "tn_named_barrier_sync(1 + group, 128);  // stored",
            "tn_named_barrier_sync(1 + group, 256);  // stored",
            "deadlock",
        ),
        Fault(
            "threads that name a barrier of other sizes",
            "tn_named_barrier_sync(1 + group, 128);  // stored",
            "tn_named_barrier_sync(1 + group, t < 64 ? 128 : 64);  // stored",
            "barrier-count",
        ),
        Fault(
            "one named barrier for both groups",
            "tn_named_barrier_sync(1 + group, 128);  // stored",
            "tn_named_barrier_sync(1, 128);  // stored",
            "store-not-awaited",
        ),
        Fault(
            "an mbarrier overwritten by results",
            "full = (unsigned long long *)(memory + 65536)",
            "full = (unsigned long long *)(memory + 65536 - 64)",
            "mbarrier-overwritten",
        ),
        Fault("a scale that forgets the sum", "step > 0 || k > 0", "k > 0", NUMBERS),
    ],
)

KERNELS = {
    "reverse": REVERSE,
    "vectors": VECTORS,
    "sums": SUMS,
    "warps": WARPS,
    "counts": COUNTS,
    "blocks": BLOCKS,
    "bytes": BYTES,
    "transpose": TRANSPOSE,
    "mma": MMA,
    "stores": STORES,
    "registers": REGISTERS,
    "tma": TMA,
}
