"""The CUDA device: whether there is one, what it is, and machine code for it.

Everything up to the cubin works without a device. Loading one and running it needs CuPy and a GPU; where one of them is
missing, `why_unavailable` says which.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tenon.passes.machine import GPUS
from tenon.runtime.cuda import nvrtc
from tenon.runtime.store import cache


class CudaUnavailableError(RuntimeError):
    """CuPy, a driver or a device is missing."""


def why_unavailable() -> str | None:
    """What is missing to compile and run kernels, or None if nothing is."""
    return _why_no_device() or nvrtc.why_unavailable()


def architecture(ordinal: int | None = None) -> str:
    """The architecture of a device, such as `sm_80`, or `sm_90a` where there are instructions that only it has; by
    default of the current one.

    Raises `CudaUnavailableError`, and `ValueError` for a number that no device has.
    """
    cupy = cupy_module()
    count = cupy.cuda.runtime.getDeviceCount()
    if ordinal is not None and ordinal >= count:
        numbers = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ValueError(f"device cuda:{ordinal} is not there: this machine has {numbers}")
    found = f"sm_{cupy.cuda.Device(ordinal).compute_capability}"
    return f"{found}a" if f"{found}a" in GPUS else found


def model(ordinal: int | None = None) -> str:
    """What a device is called, such as `NVIDIA H200`; by default the current one."""
    runtime = cupy_module().cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice() if ordinal is None else ordinal)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


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


def cupy_module() -> Any:
    """CuPy. Raises `CudaUnavailableError` where it cannot run anything."""
    if (reason := why_unavailable()) is not None:
        raise CudaUnavailableError(reason)
    return sys.modules["cupy"]  # which was imported to find out


def compile_kernels(module: ModuleOp, arch: str) -> tuple[str, nvrtc.Compiled]:
    """The CUDA source of a grid-mapped module, and its machine code (empty where there are no kernels), which the disk
    cache has by the source: programs for other sizes may have the same. Needs no device."""
    from tenon.lowering.cuda.emit_cuda import emit_cuda, kernels

    source = emit_cuda(module, arch)
    if not kernels(module):
        return source, nvrtc.Compiled(b"", {})
    key = cache.key("machine code", source, arch, str(nvrtc.version()))
    return source, cache.made(key, lambda: nvrtc.compile_kernels(source, arch).files(), nvrtc.Compiled.of_files)
