"""A stand-in for the library of the driver: what native code calls of it, on the devices of `cupy_stand_in`.

Arguments of kernels are read from memory, by their sizes, as the driver does, when a launch is given to a stream. A
thread has no context until CuPy or native code gives it that of a device; kernels are launched on the device that they
are loaded on, and nowhere else.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda_shim import ShimBackend, tensor_map
from ml_dtypes import bfloat16 as BF16

if TYPE_CHECKING:
    from cupy_stand_in import Machine, Stream

_P, _U, _I, _L = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_size_t
SIGNATURES = {
    "cuCtxGetCurrent": (ctypes.POINTER(_P),),
    "cuCtxSetCurrent": (_P,),
    "cuLaunchKernel": (_P, *[_U] * 7, _P, ctypes.POINTER(_P), ctypes.POINTER(_P)),
    "cuMemcpyAsync": (_P, _P, _L, _P),
    "cuStreamGetCaptureInfo_v2": (_P, ctypes.POINTER(_I), ctypes.POINTER(ctypes.c_uint64), _P, _P, _P),
    "cuTensorMapEncodeTiled": (
        _P,
        _I,
        _U,
        _P,
        *[ctypes.POINTER(ctypes.c_uint64)] * 2,
        *[ctypes.POINTER(_U)] * 2,
        *[_I] * 4,
    ),
}
_SCALARS = {
    "bool": np.bool_, "signed char": np.int8, "short": np.int16, "int": np.int32, "long long": np.int64,
    "tn_f16": np.uint16, "tn_bf16": np.uint16, "float": np.float32, "double": np.float64,
}  # fmt: skip
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_STATIC_SHARED = 48 * 1024


STATUSES = {
    1: "CUDA_ERROR_INVALID_VALUE: invalid argument",
    201: "CUDA_ERROR_INVALID_CONTEXT: invalid device context",
    400: "CUDA_ERROR_INVALID_HANDLE: invalid resource handle",
    500: "CUDA_ERROR_NOT_FOUND: named symbol not found",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
}


class CUDADriverError(RuntimeError):
    """What the driver says by a status."""

    def __init__(self, status: int) -> None:
        super().__init__(STATUSES.get(status, status))
        self.status = status


class Function:
    """A kernel that is loaded on a device."""

    def __init__(self, kernel: RawKernel, device: int) -> None:
        self.kernel, self.device_id, self.most_shared = kernel, device, _STATIC_SHARED
        self.ptr = id(self)
        kernel.machine.functions[self.ptr] = self


class RawKernel:
    """A kernel of a module."""

    def __init__(self, machine: Machine, backend: ShimBackend, name: str, source: str) -> None:
        assert backend.library is not None
        try:
            backend.library.entry(backend.unit, name)
        except AttributeError:
            raise CUDADriverError(500) from None
        self.machine, self.backend, self.name, self.source = machine, backend, name, source
        self._loaded: dict[int, Function] = {}

    @property
    def kernel(self) -> Function:
        machine = self.machine
        machine.local.context = machine.device
        return self._loaded.get(machine.device) or self._loaded.setdefault(
            machine.device, Function(self, machine.device)
        )

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel.most_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self.kernel.most_shared = size


class Driver:
    """The functions, as ctypes has those of a library."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.maps: list[int] = []
        """Addresses of tensors that were described."""
        for name, kinds in SIGNATURES.items():
            setattr(self, name, ctypes.CFUNCTYPE(_I, *kinds)(_refusing(getattr(self, f"_{name}"))))

    def _cuCtxGetCurrent(self, found: Any) -> None:
        device = getattr(self.machine.local, "context", None)
        found[0] = None if device is None else device + 1

    def _cuCtxSetCurrent(self, context: int | None) -> None:
        assert context is not None
        self.machine.local.context = self.machine.local.device = context - 1

    def _stream(self, address: int | None) -> Stream:
        device = getattr(self.machine.local, "context", None)
        if device is None:
            raise CUDADriverError(201)
        if not address:
            return self.machine.default[device]
        return next(stream for stream in self.machine.streams if stream.ptr == address)

    def _cuLaunchKernel(self, handle: int, *rest: Any) -> None:
        time.sleep(0)  # other threads may call meanwhile
        shape, shared, address, arguments, extra = rest[:6], *rest[6:]
        machine, function = self.machine, self.machine.functions[handle]
        kernel, stream = function.kernel, self._stream(address)
        assert not extra
        if function.device_id != machine.local.context:
            raise CUDADriverError(400)
        if machine.fails == kernel.name:
            raise CUDADriverError(701)
        if shared > function.most_shared or 0 in shape:
            raise CUDADriverError(1)
        values = [_value(kind, arguments[number]) for number, kind in enumerate(parameters(function))]
        for value in values:
            if value.dtype == np.uint64 and machine.device_at(int(value)) not in (machine.device, None):
                raise CUDADriverError(700)
        machine.launches.append(kernel.name)
        stream.submit(lambda: kernel.backend.launch(kernel.name, shape[:3], shape[3:], values, shared))

    def _cuMemcpyAsync(self, destination: int, source: int, size: int, stream: int | None) -> None:
        self._stream(stream).submit(lambda: ctypes.memmove(destination, source, size))

    def _cuStreamGetCaptureInfo_v2(self, address: int, status: Any, number: Any, *rest: Any) -> None:
        assert rest == (None, None, None)
        stream = self._stream(address)
        status[0], number[0] = int(stream.captured is not None), stream.capture

    def _cuTensorMapEncodeTiled(self, *given: Any) -> None:
        memory, element, rank, address, sizes, strides, box, steps, *options = given
        if memory % _MAP_ALIGNMENT or element not in (6, 9) or options != [0, 3, 3, 0] or steps[:rank] != [1] * rank:
            raise CUDADriverError(1)
        self.maps.append(address)
        made = tensor_map(address, 2, sizes[:rank], strides[: rank - 1], box[:rank], 128)
        ctypes.memmove(memory, made.ctypes.data, _MAP_BYTES)


_CUBLAS = {
    "cublasCreate_v2": (ctypes.POINTER(_P),),
    "cublasSetMathMode": (_P, _I),
    "cublasSetStream_v2": (_P, _P),
    "cublasSetWorkspace_v2": (_P, _P, _L),
    "cublasGemmStridedBatchedEx": (
        *(_P, _I, _I, _I, _I, _I, _P),
        *(_P, _I, _I, ctypes.c_longlong) * 2,
        *(_P, _P, _I, _I, ctypes.c_longlong),
        *[_I] * 3,
    ),
}
_ELEMENTS = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16), 14: np.dtype(BF16)}


class Cublas:
    """cuBLAS on the same devices. Products use their memory while they run, and a handle forgets it with its stream."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.machine = driver, driver.machine
        self.handles: dict[int, dict[str, int]] = {}
        self.products: list[tuple[int, ...]] = []
        """Rows, columns, depth and count of products, column by column, when they were given to a stream."""
        self.memory: list[tuple[int, bool, int]] = []
        """For each of them the stream, whether that was captured, and the memory to work in."""
        self.fails = 0
        for name, kinds in _CUBLAS.items():
            setattr(self, name, ctypes.CFUNCTYPE(_I, *kinds)(_refusing(getattr(self, f"_{name}"))))

    def cublasGetStatusString(self, status: int) -> bytes:
        return {13: b"CUBLAS_STATUS_EXECUTION_FAILED"}[status]

    def _cublasCreate_v2(self, found: Any) -> None:
        if any(stream.captured is not None for stream in self.machine.streams):
            raise CUDADriverError(400)
        context = self.machine.local.context
        found[0] = len(self.handles) + 1
        self.handles[found[0]] = {"context": context}

    def _cublasSetMathMode(self, handle: int, mode: int) -> None:
        self.handles[handle]["mode"] = mode

    def _cublasSetStream_v2(self, handle: int, stream: int | None) -> None:
        self.handles[handle] |= {"stream": stream or 0, "memory": 0, "thread": get_ident()}
        time.sleep(1e-4)  # others may call meanwhile, and must not have this handle

    def _cublasSetWorkspace_v2(self, handle: int, memory: int, size: int) -> None:
        assert size >= 32 << 20
        assert memory % 256 == 0
        self.handles[handle]["memory"] = memory

    def _cublasGemmStridedBatchedEx(self, handle: int, *given: Any) -> None:
        time.sleep(0)
        state = self.handles[handle]
        if self.fails:
            raise CUDADriverError(self.fails)
        first_t, second_t, m, n, k, one, *rest = given
        operands, (zero, *out), (count, compute, algorithm) = rest[:8], rest[8:13], rest[13:]
        double = out[1] == 1
        assert state["thread"] == get_ident()
        assert (state["context"], state["mode"], algorithm) == (self.machine.local.context, 16, -1)
        assert compute == (70 if double else 68)
        scalar = ctypes.c_double if double else ctypes.c_float
        assert (scalar.from_address(one).value, scalar.from_address(zero).value) == (1, 0)
        for address in (operands[0], operands[4], out[0], state["memory"]):
            if self.machine.device_at(address) != self.machine.device:
                raise CUDADriverError(700)
        self.products.append((m, n, k, count))
        wide = np.float64 if double else np.float32

        def matrices(rows: int, columns: int, given: Any) -> Any:
            address, element, line, between = given
            assert line >= max(rows, 1)
            dtype = _ELEMENTS[element]
            memory: Any = (ctypes.c_char * 0).from_address(address)
            strides = tuple(dtype.itemsize * step for step in (between, 1, line))
            return np.lib.stride_tricks.as_strided(np.ndarray((0,), dtype, memory), (count, rows, columns), strides)

        def work() -> None:
            a, b = (
                matrices(*((k, m) if first_t else (m, k)), operands[:4]),
                matrices(*((n, k) if second_t else (k, n)), operands[4:]),
            )
            product = (a.transpose(0, 2, 1) if first_t else a).astype(wide) @ (
                b.transpose(0, 2, 1) if second_t else b
            ).astype(wide)
            matrices(m, n, out)[...] = product

        stream = self.driver._stream(state["stream"])
        self.memory.append((stream.ptr, stream.captured is not None, state["memory"]))
        stream.submit(work)


def _refusing(work: Callable[..., None]) -> Callable[..., int]:
    """A function that gives a status."""

    def call(*given: Any) -> int:
        try:
            work(*given)
        except CUDADriverError as error:
            return error.status
        return 0

    return call


def parameters(function: Function) -> list[str]:
    """The types of a kernel's parameters."""
    listed = re.search(rf"void {function.kernel.name}\(([^)]*)\)", function.kernel.source)
    assert listed is not None
    return [re.sub(r"\bconst\b|__\w+__|\bunsigned\b", "", text).strip() for text in listed[1].split(", ") if text]


def _value(kind: str, address: int) -> Any:
    """An argument, as the host shim takes it."""
    if "*" in kind:
        return np.uint64(ctypes.c_uint64.from_address(address).value)
    type_ = kind.rpartition(" ")[0]
    if type_ == "TnTensorMap":
        memory = np.zeros(_MAP_BYTES + _MAP_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _MAP_ALIGNMENT
        memory[start : start + _MAP_BYTES] = np.frombuffer(ctypes.string_at(address, _MAP_BYTES), np.uint8)
        return memory[start : start + _MAP_BYTES]
    dtype = np.dtype(_SCALARS[type_])
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0]
