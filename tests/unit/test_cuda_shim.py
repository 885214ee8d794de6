"""The host shim itself: it runs CUDA text, and finds races, deadlocks and accesses outside of buffers."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_programs import Array
from cuda_shim import COMPILER, IN_ORDER, SCHEDULES, ShimBackend, ShimError, build

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


def launch(source: str, data: Array, schedule: int = IN_ORDER, block: int = 64) -> Array:
    backend = ShimBackend()
    backend.library, backend.schedule = build([source]), schedule
    address, _ = backend.allocate(data.nbytes)
    backend.write(address, data.tobytes())
    backend.launch("f", (1, 1, 1), (block, 1, 1), [np.uint64(address)])
    return np.frombuffer(backend.read(address, data.nbytes), data.dtype)


REVERSE = """
extern "C" __global__ void f(int *data) {
  __shared__ int copy[64];
  copy[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = copy[63 - threadIdx.x];
}"""


@needs_compiler
def test_shim_finds_a_missing_barrier() -> None:
    data = np.arange(64, dtype=np.int32)
    racing = REVERSE.replace("__syncthreads();", "")
    assert all((launch(REVERSE, data, schedule) == data[::-1]).all() for schedule in SCHEDULES)
    assert not all((launch(racing, data, schedule) == data[::-1]).all() for schedule in SCHEDULES)


@needs_compiler
def test_shim_finds_a_barrier_that_not_all_threads_reach() -> None:
    source = 'extern "C" __global__ void f(int *data) { if (threadIdx.x == 3) __syncwarp(); else __syncthreads(); }'
    with pytest.raises(ShimError, match=r"@f: deadlock in block \(0, 0, 0\): not all threads reach a barrier"):
        launch(source, np.zeros(64, np.int32))


@needs_compiler
@pytest.mark.parametrize(("index", "offset"), [("64", 256), ("-1025", -4100)])
def test_shim_finds_an_access_outside_of_a_buffer(index: str, offset: int) -> None:
    source = f'extern "C" __global__ void f(int *data) {{ if (threadIdx.x == 5) data[{index}] = 1; }}'
    with pytest.raises(ShimError, match=f"@f: access at byte {offset} of argument 0, which has 256"):
        launch(source, np.zeros(64, np.int32))


@needs_compiler
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
        assert launch(source, np.arange(64, dtype=np.int32), schedule).tolist() == [3 + 63] + [3] * 63


@needs_compiler
def test_shared_memory_starts_undefined() -> None:
    source = 'extern "C" __global__ void f(int *data) { __shared__ int s[4]; data[threadIdx.x] = s[threadIdx.x % 4]; }'
    assert (launch(source, np.zeros(64, np.int32)) == -1).all()
