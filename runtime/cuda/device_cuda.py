"""The CUDA device: runs grid-mapped modules through CuPy.

Everything up to the cubin works without a device. Loading one and running it needs CuPy and a GPU; where one of them is
missing, `why_unavailable` says which. Arguments are NumPy arrays, CuPy arrays, or anything with `__dlpack__` or
`__cuda_array_interface__`; results are CuPy arrays. All work goes to CuPy's current stream, so reading a result from
the host waits for it and reading it from the device does not.
"""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.families.host import is_host_call
from tenon.lowering.cuda.shared_memory import shared_memory
from tenon.passes.machine import GPU
from tenon.runtime.cuda import nvrtc
from tenon.runtime.cuda.device import DeviceBuffer
from tenon.runtime.cuda.host_program import HostProgram

DLPACK_HOST = 1


class CudaUnavailableError(RuntimeError):
    """CuPy, a driver or a device is missing."""


def why_unavailable() -> str | None:
    """What is missing to compile and run kernels, or None if nothing is."""
    return _why_no_device() or nvrtc.why_unavailable()


def architecture() -> str:
    """The architecture of the current device, such as `sm_90`. Raises `CudaUnavailableError`."""
    return f"sm_{_cupy().cuda.Device().compute_capability}"


@functools.cache
def _why_no_device() -> str | None:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return f"cupy cannot be imported ({error}): {nvrtc.INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own class, which exists only where CuPy does
        return f"no cuda device: {error}"
    return None if count else "no cuda device"


def _cupy() -> Any:
    if (reason := why_unavailable()) is not None:
        raise CudaUnavailableError(reason)
    return importlib.import_module("cupy")


class CupyBackend:
    """The `Backend` of a host program whose device is CuPy's current one."""

    def __init__(self, cubin: bytes) -> None:
        self.cupy = _cupy()
        self.functions: dict[str, Any] = {}
        if cubin:
            # The driver reads the file when the module is loaded, which the first get_function does.
            self.directory = tempfile.TemporaryDirectory(prefix="tenon-cubin-")
            path = Path(self.directory.name) / "kernels.cubin"
            path.write_bytes(cubin)
            self.module = self.cupy.RawModule(path=str(path))

    def prepare(self, kernel: str, dynamic_shared: int) -> None:
        """Load a kernel, so that launching it does no look-up by name in the driver, and allow it so many bytes of
        shared memory besides what it declares."""
        function = self.functions[kernel] = self.module.get_function(kernel)
        if dynamic_shared:
            function.max_dynamic_shared_size_bytes = dynamic_shared

    def allocate(self, byte_count: int) -> tuple[int, object]:
        memory = self.cupy.cuda.alloc(byte_count)
        return memory.ptr, memory

    def copy(self, destination: int, source: int, byte_count: int) -> None:
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
        self.functions[kernel](grid, block, tuple(arguments), shared_mem=dynamic_shared)

    def receive(self, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], number: int) -> DeviceBuffer:
        """An argument as a buffer; a copy only if it lies on the host, is not row-major, or begins where threads could
        not load vectors."""
        if hasattr(value, "__cuda_array_interface__") or isinstance(value, np.ndarray | np.generic | int | float):
            array = self.cupy.asarray(value)
        elif hasattr(value, "__dlpack__"):
            is_on_host = value.__dlpack_device__()[0] == DLPACK_HOST
            array = self.cupy.asarray(np.from_dlpack(value)) if is_on_host else self.cupy.from_dlpack(value)
        else:
            raise TypeError(f"argument {number}: {type(value).__name__} is not an array")
        if array.shape != shape:
            raise ValueError(f"argument {number}: shape is {array.shape}, the program takes {shape}")
        if array.dtype != dtype:
            raise TypeError(f"argument {number}: dtype is {array.dtype}, the program takes {dtype}")
        array = self.cupy.ascontiguousarray(array)
        if array.data.ptr % GPU.access:
            array = array.copy()
        return DeviceBuffer(array.data.ptr, shape, dtype, array)

    def deliver(self, buffer: DeviceBuffer) -> Any:
        """A result as a CuPy array that shares the buffer's memory."""
        return self.cupy.ndarray(buffer.shape, buffer.dtype, memptr=buffer.owner)


def compile_kernels(module: ModuleOp, arch: str) -> tuple[str, bytes]:
    """The CUDA source of a grid-mapped module, and its cubin (empty where there are no kernels). Needs no device."""
    from tenon.lowering.cuda.emit_cuda import emit_cuda, kernels

    source = emit_cuda(module, arch)
    return source, nvrtc.compile_cubin(source, arch) if kernels(module) else b""


class CudaProgram:
    """A grid-mapped module on the current device, with the cubin of its kernels."""

    def __init__(self, module: ModuleOp, cubin: bytes) -> None:
        self.backend = CupyBackend(cubin)
        self.program = HostProgram(module, self.backend)
        for name, function in self.program.launches.items():
            if not is_host_call(function):
                self.backend.prepare(name, shared_memory(function).byte_count)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run on arrays; returns CuPy arrays, whose values are computed in the order of the current stream."""
        expected = self.program.inputs
        if len(arguments) != len(expected):
            raise TypeError(f"{len(arguments)} arguments, the program takes {len(expected)}")
        buffers = [
            self.backend.receive(value, shape, dtype, number)
            for number, (value, (shape, dtype)) in enumerate(zip(arguments, expected, strict=True))
        ]
        return tuple(self.backend.deliver(output) for output in self.program(buffers))
