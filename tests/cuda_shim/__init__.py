"""Runs the CUDA path on the CPU: the emitted text under `tenon_host_shim.h`, the host's part as on a device.

    outputs = run_on_shim(loop_module, inputs, schedule=WARPS_DOWN)
    for executable in load_on_shim(loop_modules): ...      # one compilation for all of them

Buffers end at a page that cannot be touched, so an access behind the end of one (or far before it) is an error, as is
a barrier that not all threads reach. New memory holds the bytes 0xff, so a result that depends on it is NaN or -1.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.cuda.tables import PRELUDE
from tenon.lowering.math.legalize_arith import LegalizeArithPass
from tenon.runtime.cuda.device import DeviceBuffer
from tenon.runtime.cuda.host_program import HostProgram

IN_ORDER, WARPS_UP, WARPS_DOWN = SCHEDULES = (0, 1, 2)

HEADER = Path(__file__).with_name("tenon_host_shim.h")
COMPILER = shutil.which("g++")
# No contraction and no assumption about overflow: what the text says is what runs.
FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing")
KERNEL = re.compile(r'extern "C" __global__ .*?void (\w+)\(')


class ShimError(RuntimeError):
    """A kernel that does not compile, deadlocks, or leaves its buffers."""


class Library:
    """Compiled kernels; those of different sources may have the same name."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def entry(self, unit: int, kernel: str) -> Any:
        entry = getattr(self.library, f"unit_{unit}_{kernel}")
        entry.restype = ctypes.c_char_p
        return entry


def build(sources: Sequence[str]) -> Library:
    """Compile CUDA texts in one go, or find the result of doing so before."""
    if COMPILER is None:
        raise ShimError("the host shim needs g++")
    parts = ['#include "tenon_host_shim.h"', PRELUDE]
    for unit, source in enumerate(sources):
        kernels = KERNEL.findall(source)
        text = source.replace(PRELUDE, "").replace('extern "C" __global__', "__global__")
        parts.append(f"namespace unit_{unit} {{\n{text}\n}}")
        parts += [f"TN_SHIM_EXPORT(unit_{unit}_{kernel}, unit_{unit}::{kernel})" for kernel in kernels]
    text = "\n".join(parts)
    key = hashlib.sha256("\0".join([text, HEADER.read_text(), *FLAGS]).encode()).hexdigest()[:24]
    path = cache_directory() / f"shim-{key}.so"
    if not path.exists():
        compile_library(text, path)
    return Library(path)


def cache_directory() -> Path:
    base = os.environ.get("TENON_CACHE_DIR")
    directory = Path(base) if base else Path(tempfile.gettempdir()) / f"tenon-shim-{os.getuid()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def compile_library(text: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        result = Path(scratch) / path.name
        command = [str(COMPILER), *FLAGS, "-x", "c++", "-I", str(HEADER.parent), "-", "-o", str(result)]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        if done.returncode:
            raise ShimError(f"g++ failed on the emitted text:\n{done.stderr}")
        result.replace(path)


class GuardedMemory:
    """Memory whose end is the end of its last page, with pages around it that cannot be touched."""

    def __init__(self, byte_count: int) -> None:
        page = mmap.PAGESIZE
        self.byte_count = byte_count
        inside = -(-byte_count // page) * page
        self.map = mmap.mmap(-1, inside + 2 * page, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.last = self.first + inside + 2 * page
        LIBC.mprotect(ctypes.c_void_p(self.first), ctypes.c_size_t(page), 0)
        LIBC.mprotect(ctypes.c_void_p(self.last - page), ctypes.c_size_t(page), 0)
        # Aligned to 8 bytes, as far as no element needs more; an arena's views are what it is aligned for.
        self.address = self.last - page - -(-byte_count // ALIGNMENT) * ALIGNMENT
        ctypes.memset(self.address, 0xFF, byte_count)


LIBC = ctypes.CDLL(None)
ALIGNMENT = 8


class ShimBackend:
    """The `Backend` of a host program whose device is this process."""

    def __init__(self) -> None:
        self.library: Library | None = None
        self.unit = 0
        self.schedule = IN_ORDER
        self.memory: list[GuardedMemory] = []
        self.launches: list[str] = []

    def allocate(self, byte_count: int) -> tuple[int, object]:
        memory = GuardedMemory(byte_count)
        self.memory.append(memory)
        return memory.address, memory

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        ctypes.memmove(destination, source, byte_count)

    def read(self, address: int, byte_count: int) -> bytes:
        return ctypes.string_at(address, byte_count)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def launch(
        self, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence[np.generic]
    ) -> None:
        assert self.library is not None
        self.launches.append(kernel)
        values = [np.array(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        shape = ctypes.c_uint * 3
        error = self.library.entry(self.unit, kernel)(shape(*grid), shape(*block), pointers, self.schedule)
        if error is not None:
            raise ShimError(f"@{kernel}: {self.explain(error.decode(), arguments)}")

    def explain(self, error: str, arguments: Sequence[np.generic]) -> str:
        """The error of a launch; a faulting address in terms of the argument next to it."""
        if not error.startswith("fault at "):
            return error
        address = int(error.removeprefix("fault at "))
        for number, argument in enumerate(arguments):
            for memory in self.memory:
                if memory.first <= address < memory.last and memory.first <= int(argument) < memory.last:
                    offset = address - int(argument)
                    return f"access at byte {offset} of argument {number}, which has {memory.byte_count}"
        return f"access at {address:#x}, far from every argument"


class ShimExecutable:
    """A module that is ready to run under the shim."""

    def __init__(self, grid_module: ModuleOp) -> None:
        self.backend = ShimBackend()
        self.source = emit_cuda(grid_module)
        self.program = HostProgram(grid_module, self.backend)

    def __call__(self, inputs: Sequence[NDArray[Any]], schedule: int = IN_ORDER) -> list[NDArray[Any]]:
        """The outputs for `inputs`, which must have the shapes and types of the module."""
        assert len(inputs) == len(self.program.inputs), f"{len(inputs)} inputs for {len(self.program.inputs)}"
        self.backend.schedule = schedule
        outputs = self.program(
            [self.upload(array, *expected) for array, expected in zip(inputs, self.program.inputs, strict=True)]
        )
        return [
            np.frombuffer(self.backend.read(output.address, output.byte_count), output.dtype).reshape(output.shape)
            for output in outputs
        ]

    def upload(self, array: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceBuffer:
        assert array.shape == shape, f"shape {array.shape} for {shape}"
        assert array.dtype == dtype, f"{array.dtype} for {dtype}"
        buffer = self.program.allocate(shape, dtype)
        self.backend.write(buffer.address, np.ascontiguousarray(array).tobytes())
        return buffer


def load_on_shim(loop_modules: Sequence[ModuleOp], map_to_grid: MapToGridPass | None = None) -> list[ShimExecutable]:
    """Map loop-stage modules to grids and compile all their kernels in one go; the modules stay as they are.

    `MapToGridPass(long_row=1)` gives every row that threads can share to a block, however short it is.
    """
    executables: list[ShimExecutable] = []
    for module in loop_modules:
        grid_module = module.clone()
        (map_to_grid or MapToGridPass()).apply(Context(), grid_module)
        LegalizeArithPass().apply(Context(), grid_module)
        grid_module.verify()
        executables.append(ShimExecutable(grid_module))
    library = build([executable.source for executable in executables])
    for unit, executable in enumerate(executables):
        executable.backend.library, executable.backend.unit = library, unit
    return executables


def run_on_shim(loop_module: ModuleOp, inputs: Sequence[NDArray[Any]], schedule: int = IN_ORDER) -> list[NDArray[Any]]:
    """The outputs of a loop-stage module, run as CUDA on the CPU under one of `SCHEDULES`."""
    return load_on_shim([loop_module])[0](inputs, schedule)
