"""The `Backend` of programs on a GPU, by CuPy: memory of its pools, and work on its current stream."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np

from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.lowering.cuda.bulk_copies import TensorMap
from tenon.lowering.steps.library import Multiplication
from tenon.runtime.cuda.cublas import Scratch
from tenon.runtime.cuda.device_cuda import cupy_module
from tenon.runtime.cuda.launches import Launches, capture_of, current_context, packed, word
from tenon.runtime.cuda.recording import Launch, Multiply
from tenon.runtime.knobs import knobs

PER_THREAD = 2
"""What stands for the default stream of the thread that says it."""

_SINGLE = 1024
"""Launches by themselves that are kept in memory."""
_STREAMS = 8
"""Streams of which the memory for products by themselves is kept."""


def is_capturing(stream: Any) -> bool:
    """Whether what is given to a stream is captured; the default ones cannot be."""
    return stream.ptr > PER_THREAD and stream.is_capturing()


class CupyBackend:
    """The `Backend` of a program on one device, which must be the current one when it is used."""

    def __init__(self, cubin: bytes) -> None:
        self.cupy = cupy_module()
        cuda = self.cupy.cuda
        self.functions: dict[str, int] = {}
        self.maps: dict[str, Sequence[TensorMap]] = {}
        self._kernels: list[Any] = []
        self._single = BoundedCache["Launches"](_SINGLE)
        self._scratch = BoundedCache["Scratch"](_STREAMS)
        self._captured: set[Scratch] = set()
        self.failures = (cuda.driver.CUDADriverError, cuda.runtime.CUDARuntimeError)
        """What CuPy raises for what the device refuses, or had to report of earlier work."""
        self.waits = knobs.cuda_sync
        cuda.runtime.memGetInfo()  # after which this thread has the context of the device
        self.context = current_context()
        if cubin:
            # CuPy reads the file when it loads the module, which may be as late as the first launch.
            directory = tempfile.mkdtemp(prefix="tenon-cubin-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
            path = Path(directory) / "kernels.cubin"
            path.write_bytes(cubin)
            self.module = self.cupy.RawModule(path=str(path))

    def prepare(self, kernel: str, dynamic_shared: int, maps: Sequence[TensorMap] = ()) -> None:
        """Load a kernel, so that launching it does no look-up by name in the driver, and allow it so many bytes of
        shared memory besides what it declares. It is launched with `maps` of its arguments behind these."""
        function = self.module.get_function(kernel)
        self._kernels.append(function)
        self.functions[kernel], self.maps[kernel] = function.kernel.ptr, maps
        if dynamic_shared:
            function.max_dynamic_shared_size_bytes = dynamic_shared

    def error(self, status: int) -> Exception:
        return self.cupy.cuda.driver.CUDADriverError(status)

    def stream(self) -> tuple[Any, Hashable]:
        """The current stream, and what calls have in common of which the work is done in the order of the calls."""
        stream = self.cupy.cuda.get_current_stream()
        return stream, (stream.ptr, get_ident() if stream.ptr == PER_THREAD else 0)

    def allocate(self, byte_count: int) -> tuple[int, object]:
        memory = self.cupy.cuda.alloc(byte_count)
        return memory.ptr, memory

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        if destination == source:
            return  # a result in the memory of a donated argument
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream()
        runtime.memcpyAsync(destination, source, byte_count, runtime.memcpyDeviceToDevice, stream.ptr)

    def read(self, address: int, byte_count: int) -> bytes:
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream()
        data = np.empty(byte_count, np.uint8)
        runtime.memcpyAsync(data.ctypes.data, address, byte_count, runtime.memcpyDeviceToHost, stream.ptr)
        stream.synchronize()
        return data.tobytes()

    def write(self, address: int, data: bytes) -> None:
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream()
        source = np.frombuffer(data, np.uint8)
        runtime.memcpyAsync(address, source.ctypes.data, len(data), runtime.memcpyHostToDevice, stream.ptr)
        stream.synchronize()

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.generic],
        dynamic_shared: int = 0,
    ) -> None:
        count = len(arguments)
        event = Launch(kernel, grid, block, tuple(arguments), tuple(range(count)), dynamic_shared)
        known = self._by_itself((get_ident(), kernel, grid, block, dynamic_shared), event)
        known.run(packed([word(value) for value in arguments]), self.cupy.cuda.get_current_stream())

    def multiply(self, kernel: str, product: Multiplication, addresses: Sequence[int]) -> None:
        stream, key = self.stream()
        is_captured = is_capturing(stream)
        scratch = self.scratch(stream, key, is_captured=is_captured)
        if is_captured:
            self._captured.add(scratch)
        else:
            self._scratch[key] = scratch
        self._by_itself((get_ident(), kernel), Multiply(kernel, product)).run(packed(addresses), stream, scratch)

    def _by_itself(self, key: Hashable, event: Launch | Multiply) -> Launches:
        """A list of one event."""
        known = self._single.get(key)
        if known is None:
            count = event.addresses
            known = self._single[key] = Launches(self, [event], range(1, count + 1), [0] * count, count)
        return known

    def scratch(self, stream: Any, key: Hashable, *, is_captured: bool) -> Scratch:
        """Memory for products on a stream: another one for each capture of it, since the graph may run on another."""
        if not is_captured:
            return Scratch.of_stream(self, self.context, stream, key)
        capture = capture_of(stream, self.context)
        if capture is None:
            return Scratch.made(self, stream)
        return Scratch.of_stream(self, self.context, stream, (key, capture))

    def capture(self, work: Callable[[Any], None]) -> Any:
        """What `work` gives to a stream, as a CUDA graph, or `None` if that cannot be; nothing runs.

        A stream of its own is captured, since the default stream cannot be.
        """
        stream = self.cupy.cuda.Stream(non_blocking=True)
        graph = None
        with stream:
            stream.begin_capture()
            try:
                work(stream)
            finally:
                graph = stream.end_capture()
        return graph
