"""A stand-in for CuPy: what programs on a GPU call of it, on devices of this process whose kernels run under the shim.

Work is given to streams, and done when one waits for them, not before: the work of other streams is as late as may be,
or alternates with that (`Machine.interleaves`). So what relies on an order that streams do not give shows as wrong
numbers. The pool gives memory that was freed to the next request of the same stream, as CuPy's does, with what was in
it. What the driver or CuPy would refuse is an error of the same class: addresses of another device, streams of one,
waiting or the default stream in a capture, arguments that are no scalars of NumPy, more shared memory than was asked
for.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import cupy_layout
import numpy as np
from cuda_shim import PLAIN_FLAGS, GuardedMemory, ShimBackend, ShimError, build
from driver_stand_in import CUDADriverError, Function, RawKernel


class CUDARuntimeError(RuntimeError):
    """What the runtime says."""


class OutOfMemoryError(MemoryError):
    """The pool could not get more."""


class Machine:
    """Devices, and all that is on them."""

    def __init__(self, architectures: Sequence[str] = ("90", "90")) -> None:
        self.architectures = architectures
        self.memory: list[GuardedMemory] = []
        self.owner: dict[int, int] = {}
        """The device of a buffer, by address."""
        self.free: dict[tuple[int, Any, int], list[GuardedMemory]] = defaultdict(list)
        self.allocations: list[int] = []
        """Sizes of what was asked of the pool."""
        self.limit: int | None = None
        """Bytes of one request above which there is no more memory."""
        self.launches: list[str] = []
        """Kernels, when they were given to a stream by a launch of their own."""
        self.graph_launches = 0
        self.captures = 0
        self.uploads: list[int] = []
        """Bytes of copies from the host."""
        self.fails: str | None = None
        """The kernel whose launch the driver refuses."""
        self.interleaves = False
        """Whether streams take turns when one is waited for; else the work of others is not done."""
        self.streams: list[Stream] = []
        self.lock = threading.RLock()
        self.local = threading.local()
        self.default = [Stream(self, null=True, device=n) for n in range(len(architectures))]
        self.functions: dict[int, Function] = {}

    @property
    def device(self) -> int:
        return getattr(self.local, "device", 0)

    def stream(self) -> Stream:
        stack = getattr(self.local, "streams", {}).get(self.device)
        return stack[-1] if stack else self.default[self.device]

    def device_at(self, address: int) -> int | None:
        for memory in self.memory:
            if memory.first <= address < memory.last:
                return self.owner[memory.address]
        return None


class Stream:
    """Work that is not done yet, in order."""

    def __init__(
        self, machine: Machine, *, null: bool = False, non_blocking: bool = False, device: int | None = None
    ) -> None:
        self.machine, self.is_null, self.non_blocking = machine, null, non_blocking
        self.device_id = machine.device if device is None else device
        self.ptr = 0 if null else id(self)
        self.pending: list[Callable[[], object]] = []
        self.captured: list[Callable[[], object]] | None = None
        self.capture = 0
        machine.streams.append(self)

    def __enter__(self) -> Stream:
        streams = self.machine.local.__dict__.setdefault("streams", {})
        streams.setdefault(self.device_id, []).append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.local.streams[self.device_id].pop()

    def submit(self, work: Callable[[], object]) -> None:
        if self.device_id != self.machine.device:
            raise CUDADriverError(400)
        with self.machine.lock:
            if self.captured is not None:
                self.captured.append(work)
                return
            for other in self.machine.streams:  # the default stream waits for others, and they for it
                is_ordered = not (self.non_blocking or other.non_blocking) and (self.is_null or other.is_null)
                if is_ordered and other is not self and other.device_id == self.device_id:
                    other.drain()
            self.pending.append(work)

    def drain(self) -> None:
        with self.machine.lock:
            others = self.machine.streams if self.machine.interleaves else ()
            while self.pending:
                for stream in (self, *[other for other in others if other is not self]):
                    if stream.pending:
                        stream.perform(stream.pending.pop(0))

    def perform(self, work: Callable[[], object]) -> None:
        try:
            work()
        except ShimError as error:
            raise CUDARuntimeError(f"cudaErrorIllegalAddress: {error}") from error

    def synchronize(self) -> None:
        if self.captured is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: a captured stream cannot be waited for")
        if self.is_null:
            for other in self.machine.streams:
                if other.device_id == self.device_id and not other.non_blocking:
                    other.drain()
        self.drain()

    def is_capturing(self) -> bool:
        return self.captured is not None

    def begin_capture(self, mode: int | None = None) -> None:
        if self.is_null:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: the default stream cannot be captured")
        self.captured = []
        self.machine.captures += 1
        self.capture = self.machine.captures

    def end_capture(self) -> Graph:
        assert self.captured is not None
        captured, self.captured = self.captured, None
        return Graph(self.machine, captured, self.device_id)


class Graph:
    """What was captured."""

    def __init__(self, machine: Machine, work: list[Callable[[], object]], device: int) -> None:
        self.machine, self.work, self.device = machine, work, device

    def launch(self, stream: Stream | None = None) -> None:
        if self.machine.device != self.device:
            raise CUDARuntimeError("cudaErrorInvalidValue: the graph is one of another device")
        self.machine.graph_launches += 1
        target = stream or self.machine.stream()
        for work in self.work:
            target.submit(work)


class Event:
    """When a stream got to it."""

    machine: ClassVar[Machine]

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or self.machine.stream()
        self.stream.submit(self._arrive)

    def _arrive(self) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        assert self.stream is not None
        self.stream.synchronize()


def elapsed(start: Event, end: Event) -> float:
    """Milliseconds."""
    if start.seconds is None or end.seconds is None:
        raise CUDARuntimeError("cudaErrorNotReady: device not ready")
    return 1e3 * (end.seconds - start.seconds)


class PooledMemory:
    """Memory that goes back to its stream."""

    def __init__(self, machine: Machine, size: int) -> None:
        stream = machine.stream()
        self.machine, self.key, self.stream = machine, (machine.device, stream.ptr, size), stream
        free = machine.free[self.key]
        if free:
            self.guarded = free.pop()
        else:
            self.guarded = GuardedMemory(size)
            machine.memory.append(self.guarded)
            machine.owner[self.guarded.address] = machine.device
        self.device_id, self.size, self.ptr = machine.device, size, self.guarded.address

    def __del__(self) -> None:
        self.machine.free[self.key].append(self.guarded)


class UnownedMemory:
    """Memory of somebody else's."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer(cupy_layout.Pointer):
    """A place in memory."""

    __slots__ = ()

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset
        self.device_id = -1 if mem.device_id is None else mem.device_id  # of a machine that was there before


class Device:
    """A context in which the device is the current one."""

    machine: ClassVar[Machine]

    def __init__(self, number: int | None = None) -> None:
        self.id = self.machine.device if number is None else number

    @property
    def compute_capability(self) -> str:
        return self.machine.architectures[self.id]

    def __enter__(self) -> None:
        if self.id >= len(self.machine.architectures):
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.before = self.machine.device
        self.machine.local.device = self.id

    def __exit__(self, *_: object) -> None:
        self.machine.local.device = self.before


class ndarray(np.lib.mixins.NDArrayOperatorsMixin, cupy_layout.Array):  # as CuPy has it
    """An array on a device. Has no `__dict__`, as CuPy's."""

    __slots__ = ()
    machine: ClassVar[Machine]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        if self.dtype.name.startswith(("float4", "float8")) or self.dtype.name in ("int4", "uint4"):
            raise ValueError(f"Unsupported dtype {self.dtype}")
        size = prod(self.shape) * self.dtype.itemsize
        self.strides = _row_major(self.shape, self.dtype.itemsize) if strides is None else tuple(strides)
        self.data = alloc(self.machine, size) if memptr is None else memptr
        self.base = None
        self._note_layout()

    def __del__(self) -> None:
        for name in ("shape", "strides"):
            cupy_layout.set_numbers(self, name, ())

    def _note_layout(self) -> None:
        flags = self.on_host().flags if self.size else self.on_host().copy().flags
        self._size, self._c_flag, self._f_flag = self.size, flags.c_contiguous, flags.f_contiguous

    @property
    def shape(self) -> tuple[int, ...]:
        return cupy_layout.numbers(self, "shape")

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        cupy_layout.set_numbers(self, "shape", shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return cupy_layout.numbers(self, "strides")

    @strides.setter
    def strides(self, strides: tuple[int, ...]) -> None:
        cupy_layout.set_numbers(self, "strides", strides)

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    device = property(lambda self: Device(self.data.mem.device_id))

    @property
    def flags(self) -> Any:
        return types.SimpleNamespace(c_contiguous=bool(self._c_flag), f_contiguous=bool(self._f_flag))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {"shape": self.shape, "typestr": self.dtype.str, "strides": self.strides, "version": 3}
        return described | {"data": (self.data.ptr, False)}

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.mem.device_id

    def __dlpack__(self, **_: Any) -> Any:
        return self  # in the place of a capsule

    def on_host(self) -> np.ndarray[Any, Any]:
        """The memory as it is now, whatever was given to streams."""
        memory: Any = (ctypes.c_char * 0).from_address(self.data.ptr)
        flat = np.ndarray((0,), self.dtype, memory)
        return np.lib.stride_tricks.as_strided(flat, self.shape, self.strides)

    def get(self) -> np.ndarray[Any, Any]:
        with self.device:
            self.machine.stream().synchronize()
        return self.on_host().copy()

    def copy(self) -> ndarray:  # to the current device
        made = type(self)(self.shape, self.dtype)
        self.machine.stream().submit(lambda: np.copyto(made.on_host(), self.on_host()))
        return made

    def _check_is_on_current(self) -> None:
        if self.data.device_id != self.machine.device:
            raise ValueError("Array device must be same as the current device")

    def astype(self, dtype: Any) -> ndarray:
        self._check_is_on_current()
        made = type(self)(self.shape, dtype)
        self.machine.stream().submit(lambda: np.copyto(made.on_host(), self.on_host(), casting="unsafe"))
        return made

    def __setitem__(self, index: Any, values: Any) -> None:
        if isinstance(values, np.ndarray):
            raise TypeError(f"Unsupported type {type(values)}")
        self._check_is_on_current()
        target = self[index]
        given = values.on_host if isinstance(values, ndarray) else lambda: values
        self.machine.stream().submit(lambda: np.copyto(target.on_host(), given(), casting="unsafe"))

    def all(self) -> Any:
        return self.get().all()

    def reshape(self, *shape: Any) -> ndarray:
        seen = self.on_host().reshape(*shape)
        if np.shares_memory(seen, self.on_host()) or not seen.size:
            return self._part(seen)
        return self.copy().reshape(*shape)

    def transpose(self, *axes: Any) -> ndarray:
        return self._part(self.on_host().transpose(*axes))

    def squeeze(self, axis: Any = None) -> ndarray:
        return self._part(self.on_host().squeeze(axis))

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        if any(not isinstance(value, ndarray | np.ndarray | np.generic | bool | int | float) for value in given):
            return NotImplemented  # as CuPy's does: theirs is asked
        if any(isinstance(value, np.ndarray) for value in given):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")

        for array in given:
            if isinstance(array, ndarray):
                array._check_is_on_current()

        def computed(array_of: Callable[[ndarray], Any]) -> Any:
            return np.asarray(function(*[array_of(v) if isinstance(v, ndarray) else v for v in given]))

        like = computed(lambda array: np.ones(array.shape, array.dtype))
        made = type(self)(like.shape, like.dtype)
        self.machine.stream().submit(lambda: np.copyto(made.on_host(), computed(ndarray.on_host)))
        return made

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ == "may_share_memory":
            return np.may_share_memory(*[array.on_host() for array in args])
        if function.__name__ not in ("expand_dims", "broadcast_to"):
            return NotImplemented
        array, *rest = args
        return array._part(function(array.on_host(), *rest, **kwargs))

    def __reduce__(self) -> Any:
        return _restored, (self.get(),)

    def view(self, dtype: Any = None) -> ndarray:
        return self._part(self.on_host() if dtype is None else self.on_host().view(dtype))

    def _part(self, part: np.ndarray[Any, Any]) -> ndarray:
        offset = part.ctypes.data - self.data.mem.ptr
        made = type(self)(part.shape, part.dtype, MemoryPointer(self.data.mem, offset), part.strides)
        made.base = self if self.base is None else self.base
        return made

    def __getitem__(self, index: Any) -> ndarray:
        entries = index if isinstance(index, tuple) else (index,)
        if any(isinstance(entry, list | np.ndarray | ndarray) for entry in entries):
            raise NotImplementedError("indexing by arrays is not what the runtime asks of CuPy")
        has_rest = any(entry is Ellipsis for entry in entries)
        return self._part(self.on_host()[entries if has_rest else (*entries, ...)])

    @property
    def T(self) -> ndarray:
        return self._part(self.on_host().T)


def _row_major(shape: tuple[int, ...], item_size: int) -> tuple[int, ...]:
    return tuple([item_size * prod(shape[place + 1 :]) for place in range(len(shape))])


def _restored(host: np.ndarray[Any, Any]) -> Any:
    return sys.modules["cupy"].asarray(host)


def alloc(machine: Machine, size: int) -> MemoryPointer:
    machine.allocations.append(size)
    if machine.limit is not None and size > machine.limit:
        raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
    return MemoryPointer(PooledMemory(machine, size), 0)


def _runtime(machine: Machine) -> Any:
    def use(device: int) -> None:
        machine.local.device = device

    def memory_info() -> tuple[int, int]:
        machine.local.context = machine.device
        return 0, 0

    def copy(destination: int, source: int, size: int, kind: int, stream: int) -> None:
        current = machine.stream()
        if stream != current.ptr:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: no such stream")
        if kind == 1:  # pageable memory of the host is read before the call returns
            machine.uploads.append(size)
            data = ctypes.string_at(source, size)
            current.submit(lambda: ctypes.memmove(destination, data, size))
        else:
            current.submit(lambda: ctypes.memmove(destination, source, size))

    return types.SimpleNamespace(
        getDeviceCount=lambda: len(machine.architectures),
        getDevice=lambda: machine.device,
        getDeviceProperties=lambda number: {"name": f"Stand-in {machine.architectures[number]}".encode()},
        setDevice=use,
        memGetInfo=memory_info,
        memcpyAsync=copy,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
        CUDARuntimeError=CUDARuntimeError,
    )


def stand_in(machine: Machine) -> Any:
    """The module. A "cubin" is the CUDA text."""
    kinds = {kind: type(kind.__name__, (kind,), {"machine": machine, "__slots__": ()}) for kind in (Device, ndarray)}
    array_type: Any = kinds[ndarray]

    class RawModule:
        def __init__(self, *, path: str) -> None:
            self.backend = ShimBackend()
            self.backend.memory = machine.memory
            self.source = Path(path).read_text()
            self.backend.library = build([self.source], flags=PLAIN_FLAGS)

        def get_function(self, name: str) -> RawKernel:
            return RawKernel(machine, self.backend, name, self.source)

    def asarray(value: Any) -> Any:
        if isinstance(value, array_type):
            return value
        if (described := getattr(value, "__cuda_array_interface__", None)) is not None:
            number = machine.device_at(described["data"][0])
            memory = types.SimpleNamespace(ptr=described["data"][0], device_id=number, owner=value)
            shape, strides = described["shape"], described.get("strides")
            return array_type(shape, described["typestr"], MemoryPointer(memory, 0), strides)
        host = np.array(value, order="C")
        if not host.ndim and host == 0:
            host = np.zeros((), host.dtype)  # CuPy sets the memory to zero for any number that equals 0
        made = array_type(host.shape, host.dtype)
        machine.uploads.append(host.nbytes)
        machine.stream().submit(lambda: np.copyto(made.on_host(), host))
        return made

    def stack(arrays: Sequence[Any]) -> Any:
        made = array_type((len(arrays), *arrays[0].shape), arrays[0].dtype)
        for number, array in enumerate(arrays):
            made[number] = array
        return made

    cuda = types.SimpleNamespace(
        runtime=_runtime(machine),
        driver=types.SimpleNamespace(CUDADriverError=CUDADriverError),
        Device=kinds[Device],
        Stream=lambda non_blocking=False: Stream(machine, non_blocking=non_blocking),
        get_current_stream=machine.stream,
        Event=Event,
        get_elapsed_time=elapsed,
        alloc=lambda size: alloc(machine, size),
        MemoryPointer=MemoryPointer,
        UnownedMemory=UnownedMemory,
        memory=types.SimpleNamespace(PooledMemory=PooledMemory),
    )
    module: Any = types.ModuleType("cupy")
    ndarray.machine = Device.machine = Event.machine = machine
    module.cuda, module.ndarray, module.RawModule, module.asarray = cuda, array_type, RawModule, asarray
    module.stack = stack
    module.from_dlpack = lambda value: asarray(value.array if hasattr(value, "array") else value.__dlpack__())
    module.ascontiguousarray = lambda array: array.copy() if array.shape else array_type((1,), array.dtype)
    return module
