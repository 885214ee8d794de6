"""NVRTC, called directly: CUDA C++ text to a cubin. No device and no driver are needed.

The library is the one of the wheel `nvidia-cuda-nvrtc-cu12` (or `-cu13`), of a CUDA toolkit, or of the system.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ctypes.util import find_library
from dataclasses import asdict, dataclass
from pathlib import Path

INSTALL = "pip install 'tenon[cuda12]'"


class NvrtcError(RuntimeError):
    """NVRTC is missing, or it refused a source; the message holds its log."""


class SerialisedError(NvrtcError):
    """What should overlap would not, by the assembler's remarks: such code is right, and half as fast as it seems."""

    def __init__(self, remarks: Sequence[str]) -> None:
        super().__init__("\n".join(["nvrtc: the assembler serialises what should overlap", *remarks]))
        found = [match for remark in remarks if (match := _REMARK.search(remark))]
        self.kernels = {match["kernel"]: f"{match['code']}: {' '.join(match['text'].split())}" for match in found}
        """What is said of each kernel that a remark names."""


@dataclass(frozen=True)
class KernelResources:
    """What a kernel takes of a multiprocessor, as the assembler says."""

    registers: int
    """Of a thread."""
    shared: int
    """Bytes of static shared memory of a block."""
    stack: int
    """Bytes of a thread in local memory."""
    spilled: int
    """Bytes of registers that are stored to local memory and loaded again."""


@dataclass(frozen=True)
class Compiled:
    """Machine code, and what each kernel takes."""

    cubin: bytes
    kernels: dict[str, KernelResources]

    def files(self) -> dict[str, bytes]:
        """The same as files, by name."""
        kernels = {name: asdict(resources) for name, resources in self.kernels.items()}
        return {"cubin": self.cubin, "kernels.json": json.dumps(kernels).encode()}

    @staticmethod
    def of_files(files: Mapping[str, bytes]) -> Compiled:
        """What such files say."""
        kernels = {name: KernelResources(**found) for name, found in json.loads(files["kernels.json"]).items()}
        return Compiled(files["cubin"], kernels)


def compile_cubin(source: str, arch: str) -> bytes:
    """Machine code for exactly `arch`, such as `sm_80`, `sm_90` or `sm_90a`. Raises `NvrtcError`."""
    return compile_kernels(source, arch).cubin


def compile_kernels(source: str, arch: str) -> Compiled:
    """As `compile_cubin`, with the resources of each kernel.

    Remarks that matrix products are serialised or a limit of registers is ignored raise `SerialisedError`.
    """
    cubin, log = _compile(source, [f"--gpu-architecture={arch}", "--ptxas-options=-v"], "CUBIN")
    if remarks := [line for line in log.splitlines() if _SERIALISED.search(line)]:
        raise SerialisedError(remarks)
    return Compiled(cubin, _resources(log))


_SERIALISED = re.compile(r"\(C75\d\d\)")
_REMARK = re.compile(
    r"\((?P<code>C75\d\d)\) (?:Potential Performance Loss: )?(?P<text>.*) in (?:the )?function '(?P<kernel>\w+)'"
)
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def _resources(log: str) -> dict[str, KernelResources]:
    """What the assembler's log says of each kernel."""
    found: dict[str, KernelResources] = {}
    for part in re.split(r"(?=Compiling entry function)", log):
        entry, stack, used = _ENTRY.search(part), _STACK.search(part), _USED.search(part)
        if entry and stack and used:
            spilled = int(stack[2]) + int(stack[3])
            found[entry[1]] = KernelResources(int(used[1]), int(used[2] or 0), int(stack[1]), spilled)
    return found


def version() -> tuple[int, int]:
    """Version of the NVRTC library, major and minor: part of the key of a cached cubin."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check("nvrtcVersion", _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def why_unavailable() -> str | None:
    """What is missing, or None if nothing is."""
    try:
        _library()
    except NvrtcError as error:
        return str(error)
    return None


def _compile(source: str, options: Sequence[str], product: str) -> tuple[bytes, str]:
    """A product (`CUBIN` or `PTX`) and what NVRTC said while it made it."""
    library = _library()
    program = ctypes.c_void_p()
    text = source.encode()
    created = library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None)
    _check("nvrtcCreateProgram", created)
    try:
        arguments = ["--std=c++17", *options]
        array = (ctypes.c_char_p * len(arguments))(*(argument.encode() for argument in arguments))
        status = library.nvrtcCompileProgram(program, len(arguments), array)
        log = _fetch(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status:
            raise NvrtcError(f"nvrtc: {_describe(status)} with {' '.join(arguments)}\n{log}")
        return _fetch(program, product), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(program: ctypes.c_void_p, product: str) -> bytes:
    size = ctypes.c_size_t()
    library = _library()
    _check(f"nvrtcGet{product}Size", getattr(library, f"nvrtcGet{product}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(f"nvrtcGet{product}", getattr(library, f"nvrtcGet{product}")(program, data))
    return data.raw


def _check(function: str, status: int) -> None:
    if status:
        raise NvrtcError(f"{function}: {_describe(status)}")


def _describe(status: int) -> str:
    return _library().nvrtcGetErrorString(status).decode()


@functools.cache
def _library() -> ctypes.CDLL:
    reasons: list[str] = []
    for candidate in _candidates():
        try:
            library = ctypes.CDLL(candidate)
        except OSError as error:
            reasons.append(str(error))
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    tried = f" ({'; '.join(reasons)})" if reasons else ""
    raise NvrtcError(f"nvrtc is not installed: {INSTALL}{tried}")


def _candidates() -> Iterator[str]:
    """Where the library may be: what `cuda-pathfinder` finds, the wheels, the system."""
    if (found := found_by_pathfinder("nvrtc")) is not None:
        yield found
    yield from in_wheels("nvrtc")
    if (system := find_library("nvrtc")) is not None:
        yield system


def found_by_pathfinder(name: str) -> str | None:
    """Where `cuda-pathfinder`, which loads it, finds a library of CUDA; None without it."""
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.pathfinder"):
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib  # pyright: ignore

        with suppress(DynamicLibNotFoundError):
            return str(load_nvidia_dynamic_lib(name).abs_path)
    return None


def in_wheels(name: str) -> list[str]:
    """Where wheels of NVIDIA have a library of CUDA: in a folder of its own, or in that of a version of CUDA."""
    if (nvidia := importlib.util.find_spec("nvidia")) is None:
        return []
    roots = list(map(Path, nvidia.submodule_search_locations or ()))
    folders = f"*{name}", "cu[0-9]*"
    return [str(path) for f in folders for root in roots for path in sorted(root.glob(f"{f}/lib/lib{name}.so.*"))]
