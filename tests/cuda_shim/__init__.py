"""Runs the CUDA path on the CPU: the emitted text against `device.h`, the host's part as on a device.

    outputs = run_on_shim(loop_module, inputs, schedule=WARPS_DOWN)
    for executable in load_on_shim(loop_modules): ...      # one compilation for all of them

Kernels run one fiber per thread under `runtime.cpp`, which judges every access to memory and performs asynchronous
operations at once, as late as their waits allow, or at random. What it finds is a `ShimError`, whose `findings` are
names (`race`, `uninitialised`, `proxy-fence`...) with a sentence each. `Counters` say what warps ask of memory.

Buffers end at a page that cannot be touched, so an access behind the end of one (or far before it) is an error, as is
a barrier that not all threads reach. New memory holds the bytes 0xff, so a result that depends on it is NaN or -1.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.upstream.warpgroup import SPAN
from tenon.lowering.cuda.bulk_copies import TensorMap as DescribedTensor
from tenon.lowering.cuda.bulk_copies import tensor_maps
from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.cuda.tables import PRELUDE
from tenon.lowering.math.legalize_arith import LegalizeArithPass
from tenon.lowering.steps.library import Multiplication
from tenon.runtime.cuda.device import DeviceBuffer
from tenon.runtime.cuda.host_program import HostProgram
from tenon.runtime.knobs import knobs


@dataclass(frozen=True)
class Schedule:
    """In which order threads get their turn, and when asynchronous operations are performed."""

    turns: int
    """0: each thread goes on to its next wait in turn; 1: warp by warp, upwards; 2: downwards; 3: shuffled."""
    completion: int
    """0: at issue; 1: at the last moment that a wait allows; 2: at random."""
    seed: int = 1


IN_ORDER, WARPS_UP, WARPS_DOWN = SCHEDULES = (Schedule(0, 0), Schedule(1, 1), Schedule(2, 2))

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
# No contraction and no assumption about overflow: what the text says is what runs. Instrumentation calls the hooks of
# the runtime instead of the compiler's own libraries.
FLAGS = (
    *("-std=c++17", "-Og", "-shared", "-fPIC", "-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"),
    *("-nodefaultlibs", "-fsanitize=thread,bounds", "-fsanitize-recover=bounds"),
    *("--param", "tsan-instrument-func-entry-exit=0"),
)
PLAIN_FLAGS = tuple(["-O0" if flag == "-Og" else flag for flag in FLAGS])
"""Compiles in half the time. What is read twice in the text is read twice, so that accesses are not to be counted."""
RUNTIME_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-class-memaccess")
KERNEL = re.compile(r'extern "C" __global__ .*?void (\w+)\(')
REGISTERS, REGISTER_UNIT, MOST_REGISTERS = 1 << 16, 8, 248
"""Of a multiprocessor; of what those of a thread are a multiple, and how many these are at most."""


class ShimError(RuntimeError):
    """A kernel that does not compile, or in which something was found: `findings`, by name."""

    def __init__(self, message: str, findings: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.findings = findings or {}


@dataclass(frozen=True)
class Counters:
    """What the warps of a launch asked of memory; in the order of the structure in `global.h`."""

    load_requests: int
    load_sectors: int
    """Of 32 bytes."""
    load_bytes: int
    """That a request asked for, each once however many lanes did."""
    store_requests: int
    store_sectors: int
    store_bytes: int
    shared_requests: int
    shared_turns: int
    shared_least_turns: int
    read_bytes: int
    """Of global memory, each byte once."""
    written_bytes: int
    copied_bytes: int
    """Between global and shared memory, by cp.async and bulk copies."""
    tensor_operations: int
    barriers: int

    @property
    def sector_use(self) -> float:
        """The share of moved sectors that was asked for: 1 where neighbouring lanes touch neighbouring elements."""
        sectors = self.load_sectors + self.store_sectors
        return (self.load_bytes + self.store_bytes) / (32 * sectors) if sectors else 1.0

    @property
    def turns_per_access(self) -> float:
        """Turns at shared memory, over those without conflicts of banks."""
        return self.shared_turns / self.shared_least_turns if self.shared_least_turns else 1.0


class Library:
    """Compiled kernels; those of different sources may have the same name."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def entry(self, unit: int, kernel: str) -> Any:
        entry = getattr(self.library, f"unit_{unit}_{kernel}")
        entry.restype = ctypes.c_char_p
        return entry


class Options(ctypes.Structure):
    """As in `runtime.h`."""

    _fields_ = [(name, ctypes.c_int) for name in ("turns", "completion", "seed", "counting", "dynamic", "registers")]


@cache
def runtime() -> ctypes.CDLL:
    """The runtime, compiled once; kernels find its functions among those of the process."""
    texts = [path.read_text() for path in sorted(HERE.glob("*.h")) if path.name != "device.h"]
    path = compiled((HERE / "runtime.cpp").read_text(), RUNTIME_FLAGS, "\0".join(texts))
    library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    library.tn_shim_buffer.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    return library


def build(sources: Sequence[str], *, flags: Sequence[str] = FLAGS) -> Library:
    """Compile CUDA texts in one go, or find the result of doing so before."""
    if COMPILER is None:
        raise ShimError("the host shim needs g++")
    runtime()
    parts = ['#include "device.h"', PRELUDE]
    for unit, source in enumerate(sources):
        kernels = KERNEL.findall(source)
        text = source.replace(PRELUDE, "").replace('extern "C" __global__', "__global__")
        parts.append(f"#undef __shared__\n#define __shared__ TN_SHIM_SHARED(unit_{unit})")
        parts.append(f"namespace unit_{unit} {{\n{text}\n}}")
        parts += [f"TN_SHIM_EXPORT(unit_{unit}, {kernel})" for kernel in kernels]
    headers = [(HERE / name).read_text() for name in ("device.h", "runtime.h")]
    return Library(compiled("\n".join(parts), flags, "\0".join(headers)))


def compiled(text: str, flags: Sequence[str], headers: str) -> Path:
    """The library of a text, from the cache where it is there."""
    key = hashlib.sha256("\0".join([text, headers, *flags]).encode()).hexdigest()[:24]
    path = cache_directory() / f"shim-{key}.so"
    if not path.exists():
        compile_library(text, flags, path)
    return path


def cache_directory() -> Path:
    base = os.environ.get("TENON_CACHE_DIR")
    directory = Path(base) if base else Path(tempfile.gettempdir()) / f"tenon-shim-{os.getuid()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def compile_library(text: str, flags: Sequence[str], path: Path) -> None:
    folders = [precompiled_header(flags).parent] if flags in (FLAGS, PLAIN_FLAGS) else []
    includes = [f"-I{folder}" for folder in (*folders, HERE)]
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        result = Path(scratch) / path.name
        run_compiler([*flags, "-x", "c++", *includes, "-", "-o", str(result)], text)
        result.replace(path)


@cache
def precompiled_header(flags: Sequence[str]) -> Path:
    """What kernels include, with what the compiler made of it beside it: to read it takes most of their time."""
    texts = [path.read_text() for path in sorted(HERE.glob("*.h"))]
    key = hashlib.sha256("\0".join([*texts, *flags]).encode()).hexdigest()[:24]
    path = cache_directory() / f"shim-{key}" / "device.h"
    made = path.with_name("device.h.gch")
    if not made.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            header, result = Path(scratch) / path.name, Path(scratch) / made.name
            shutil.copyfile(HERE / path.name, header)
            run_compiler([*flags, "-x", "c++-header", f"-I{HERE}", str(header), "-o", str(result)], "")
            header.replace(path)
            result.replace(made)
    return path


def run_compiler(arguments: Sequence[str], text: str) -> None:
    done = subprocess.run([str(COMPILER), *arguments], input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        raise ShimError(f"g++ failed on the emitted text:\n{done.stderr}")


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
        self.address = self.last - page - -(-byte_count // ALIGNMENT) * ALIGNMENT
        ctypes.memset(self.address, 0xFF, byte_count)


LIBC = ctypes.CDLL(None)
ALIGNMENT = 16
"""Of buffers: what the widest access of a thread needs. What lies between the end and the page is watched."""


class TensorMap(ctypes.Structure):
    """As in `runtime.h`: what the driver's opaque description of a tensor is on the host."""

    _fields_ = [
        ("base", ctypes.c_uint64),
        *((name, ctypes.c_uint) for name in ("rank", "element", "swizzle", "fill")),
        *((name, ctypes.c_uint64 * 5) for name in ("sizes", "strides")),
        ("box", ctypes.c_uint * 5),
    ]


def tensor_map(
    address: int, element: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int
) -> NDArray[np.uint8]:
    """A tensor map as an argument of a kernel: elements of `element` bytes, `sizes` and `box` from the innermost
    dimension on, `strides` in bytes of the others. What the driver would refuse is the finding `tensor-map`."""
    wrong = {
        f"base {address:#x} is not a multiple of 16": address % 16,
        f"strides {list(strides)} are not multiples of 16": any(stride % 16 for stride in strides),
        f"box {list(box)} has more than 256 elements": max(box) > 256,
        f"{box[0] * element} bytes side by side are not a multiple of 16": box[0] * element % 16,
        f"{box[0] * element} bytes side by side exceed the swizzle of {swizzle}": swizzle
        and box[0] * element > swizzle,
    }
    if refused := [text for text, is_wrong in wrong.items() if is_wrong]:
        raise ShimError(f"tensor map: {refused[0]}", {"tensor-map": refused[0]})
    memory = np.zeros(192, np.uint8)
    start = -memory.ctypes.data % 64  # kernels take it at a multiple of 64
    result = memory[start : start + 128]
    fields_ = TensorMap.from_buffer(result.data)
    fields_.base, fields_.rank, fields_.element, fields_.swizzle = address, len(sizes), element, swizzle
    for i, (size, stride, extent) in enumerate(zip(sizes, [element, *strides], box, strict=True)):
        fields_.sizes[i], fields_.strides[i], fields_.box[i] = size, stride, extent
    return result


class ShimBackend:
    """The `Backend` of a host program whose device is this process."""

    def __init__(self) -> None:
        self.library: Library | None = None
        self.unit = 0
        self.schedule = IN_ORDER
        self.counting = False
        self.counters: list[tuple[str, Counters]] = []
        """Of each launch since `counting` was set."""
        self.memory: list[GuardedMemory] = []
        self.maps: dict[str, Sequence[DescribedTensor]] = {}
        """What kernels are given behind their arguments."""
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
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.generic | NDArray[Any]],
        dynamic_shared: int = 0,
    ) -> None:
        assert self.library is not None
        self.launches.append(kernel)
        maps = [
            tensor_map(int(arguments[m.argument]), m.element_bytes, m.sizes, m.strides, m.box, SPAN)
            for m in self.maps.get(kernel, ())
        ]
        given = (*arguments, *maps)
        values = [argument if isinstance(argument, np.ndarray) else np.array(argument) for argument in given]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        shape = ctypes.c_uint * 3
        turns, completion, seed = astuple(self.schedule)
        registers = min(REGISTERS // math.prod(block) // REGISTER_UNIT * REGISTER_UNIT, MOST_REGISTERS)
        options = Options(turns, completion, seed, self.counting, dynamic_shared, registers)
        self.show_buffers()
        error = self.library.entry(self.unit, kernel)(shape(*grid), shape(*block), pointers, ctypes.byref(options))
        if error is not None:
            findings = self.explain(error.decode(), arguments)
            raise ShimError(f"@{kernel}: " + "\n".join(findings.values()), findings)
        if self.counting:
            numbers = (ctypes.c_uint64 * len(fields(Counters)))()
            runtime().tn_shim_counters(numbers)
            self.counters.append((kernel, Counters(*numbers)))

    def multiply(self, kernel: str, product: Multiplication, addresses: Sequence[int]) -> NoReturn:
        raise NotImplementedError(f"@{kernel} is computed by a library, not by threads")

    def show_buffers(self) -> None:
        """Tell the runtime which memory kernels may touch."""
        runtime().tn_shim_forget_buffers()
        for memory in self.memory:
            runtime().tn_shim_buffer(memory.address, memory.byte_count, memory.last - mmap.PAGESIZE - memory.address)

    def explain(self, error: str, arguments: Sequence[np.generic | NDArray[Any]]) -> dict[str, str]:
        """What was found in a launch, by name; a faulting address in terms of the argument next to it."""
        findings = {line.partition(" ")[0].rstrip(":"): line for line in error.split("\n")}
        if (fault := findings.pop("fault", None)) is not None:
            findings["global-range"] = self.explain_fault(int(fault.rpartition(" ")[2]), arguments)
        return findings

    def explain_fault(self, address: int, arguments: Sequence[np.generic | NDArray[Any]]) -> str:
        for number, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                continue
            for memory in self.memory:
                if memory.first <= address < memory.last and memory.first <= int(argument) < memory.last:
                    offset = address - int(argument)
                    return f"access at byte {offset} of argument {number}, which has {memory.byte_count}"
        return f"access at {address:#x}, far from every argument"


class ShimExecutable:
    """A module that is ready to run under the shim."""

    def __init__(self, grid_module: ModuleOp) -> None:
        self.backend = ShimBackend()
        self.source = emit_cuda(grid_module, "sm_90a")
        self.program = HostProgram(grid_module, self.backend)
        self.backend.maps = {name: tensor_maps(function) for name, function in self.program.launches.items()}

    def __call__(self, inputs: Sequence[NDArray[Any]], schedule: Schedule = IN_ORDER) -> list[NDArray[Any]]:
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


def load_on_shim(
    loop_modules: Sequence[ModuleOp], map_to_grid: MapToGridPass | None = None, *, flags: Sequence[str] = FLAGS
) -> list[ShimExecutable]:
    """Map loop-stage modules to grids and compile all their kernels in one go; the modules stay as they are.

    `MapToGridPass(long_row=1)` gives every row that threads can share to a block, however short it is.
    """
    executables: list[ShimExecutable] = []
    for module in loop_modules:
        grid_module = module.clone()
        (map_to_grid or MapToGridPass()).apply(Context(), grid_module)
        LegalizeArithPass().apply(Context(), grid_module)
        if knobs.verify:
            grid_module.verify()
        executables.append(ShimExecutable(grid_module))
    library = build([executable.source for executable in executables], flags=flags)
    for unit, executable in enumerate(executables):
        executable.backend.library, executable.backend.unit = library, unit
    return executables


def run_on_shim(
    loop_module: ModuleOp, inputs: Sequence[NDArray[Any]], schedule: Schedule = IN_ORDER
) -> list[NDArray[Any]]:
    """The outputs of a loop-stage module, run as CUDA on the CPU under one of `SCHEDULES`."""
    return load_on_shim([loop_module])[0](inputs, schedule)
