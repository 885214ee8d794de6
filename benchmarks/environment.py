"""What a process is started with so that all who are compared have the same threads, and what machine that is."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Generator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path


def processors() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


# Parameters of glibc's `mallopt`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
FRESH = 128 * 1024
"""Bytes from which memory is the system's, with pages of zeros that are new, each time in `fresh_memory`."""


def tells_malloc() -> bool:
    """Whether there is glibc's `malloc`, which a process can tell what to do with memory that is freed."""
    return platform.libc_ver()[0] == "glibc"


@contextmanager
def fresh_memory() -> Generator[None]:
    """Give freed memory of `FRESH` bytes or more back to the system, in place of what `variables` says."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, FRESH)
    libc.mallopt(_TRIM_THRESHOLD, FRESH)
    libc.mallopt(_MMAP_MAX, 65536)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def _cpu_information() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().partition("\n\n")[0].splitlines() if path.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def variables(threads: int) -> dict[str, str]:
    """The environment of a process whose libraries may use `threads` threads each."""
    count = str(threads)
    found = {
        "BENCHMARK_THREADS": count,
        "TENON_NUM_THREADS": count,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        # NumPy's OpenBLAS lets its threads spin for 2**28 ticks behind a product, 0.1 s, in which they share the cores
        # with whoever is next; for a quarter of it they are asleep when a pause ends.
        "OPENBLAS_THREAD_TIMEOUT": "26",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "JAX_PLATFORMS": "cpu",
        # Memory that was freed is kept and used again, whatever its size and whoever asks for it; else those who keep
        # memory of their own would be compared with those to whom the system gives pages of zeros at each call.
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    }
    if threads == 1:
        found["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    information = _cpu_information()
    if information.get("vendor_id") == "AuthenticAMD" and "avx512f" in information.get("flags", ""):
        found["OPENBLAS_CORETYPE"] = "SkylakeX"  # OpenBLAS chooses its kernels for AVX2 there
    # What is installed has its bytecode with it; Tenon, which runs from a checkout, may write it as well.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | found


def pin(threads: int) -> None:
    """Keep this process on as many cores, the last ones: the first one serves interrupts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors()[-threads:])


def described() -> dict[str, str]:
    """The machine and the versions, for the head of a page."""
    packages = ("numpy", "torch", "jax", "onnxruntime", "llvmlite")
    versions: list[str] = []
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    return {
        "processor": _cpu_information().get("model name", platform.processor() or platform.machine()),
        "cores": str(len(processors())),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(versions),
    }
