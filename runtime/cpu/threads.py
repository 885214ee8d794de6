"""The threads that parallel loops run on: how many there are, and the pool that hands out the work.

Compiled kernels call `void tenon_parallel_for(ptr function, ptr context, i64 chunks)`, which runs
`function(context, chunk)` for each chunk below `chunks` and returns when all are done. What a chunk is depends on the
program alone, never on the number of threads, so results are the same bits for every number.

The pool (`thread_pool`) is compiled once per machine (then it comes from the disk cache), loaded when code that
needs it is, and serves the whole process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil
from pathlib import Path

from tenon.dialects.support.forking import new_lock
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR, pool_source
from tenon.runtime.knobs import knobs

LARGEST_COUNT = 1024


class _Pool:
    """The loaded pool."""

    def __init__(self) -> None:
        names = ("set_threads", "workers", "reset_threads", "set_flush_denormal")
        code = load_native("threads", pool_source, (PARALLEL_FOR, *[f"tenon_{name}" for name in names]))
        self.address = code.entry(PARALLEL_FOR)
        self.set_threads: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_int)(code.entry("tenon_set_threads"))
        self.workers: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int)(code.entry("tenon_workers"))
        self.set_flush_denormal: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(
            code.entry("tenon_set_flush_denormal")
        )
        reset = ctypes.CFUNCTYPE(None)(code.entry("tenon_reset_threads"))
        reset()
        os.register_at_fork(after_in_child=reset)


_lock = new_lock()
_pool: _Pool | None = None
_chosen: int | None = None


def pool_address() -> int:
    """The address of `tenon_parallel_for`."""
    return _loaded().address


def _loaded() -> _Pool:
    """The pool, which is loaded when it is first asked for."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = _Pool()
            _pool.set_threads(_count())
        return _pool


def get_num_threads() -> int:
    """How many threads kernels on the CPU run on: what was last set, or `TENON_NUM_THREADS`, or one for each
    processor that this process may use.
    """
    with _lock:
        return _count()


def set_num_threads(count: int) -> None:
    """Let kernels on the CPU run on `count` threads, the calling one included, from their next launch on.

    Holds for the whole process and for what is compiled already. Results are the same bits for every count. Raise
    `TypeError` for what is no integer and `ValueError` for a count that is not from 1 to 1024.
    """
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"set_num_threads takes an integer, got {count!r}")
    number = count.__index__()
    if not 1 <= number <= LARGEST_COUNT:
        raise ValueError(f"the number of threads is {number}, expected one from 1 to {LARGEST_COUNT}")
    _set(number)


@contextmanager
def num_threads(count: int) -> Generator[None]:
    """Let kernels run on `count` threads in a block of code, `with num_threads(2): ...`, in the whole process."""
    previous = _chosen
    set_num_threads(count)
    try:
        yield
    finally:
        _set(previous)


def _set(count: int | None) -> None:
    global _chosen
    with _lock:
        _chosen = count
        if _pool is not None:
            _pool.set_threads(_count())


def _count() -> int:
    if _chosen is not None:
        return _chosen
    return knobs.num_threads or min(available_processors(), LARGEST_COUNT)


def set_flush_denormal(mode: bool) -> bool:
    """Let the calling thread take subnormal numbers for zero from now on, operands and results, or not any more.

    Processors may take longer for arithmetic on subnormal numbers. Holds for all that this thread
    computes on the CPU: kernels that it calls, on whatever threads they run, and other libraries; not on a GPU, nor in
    other threads of Python. Results may differ by about the smallest normal number (docs/accuracy.md). Return whether
    the processor can do so, as those of x86 and 64-bit ARM can. As `torch.set_flush_denormal`, which holds for this
    thread as well.
    """
    return bool(_loaded().set_flush_denormal(bool(mode)))


def worker_count() -> int:
    """How many threads the pool has started, and not ended."""
    return 0 if _pool is None else _pool.workers()


@cache
def available_processors() -> int:
    """The processors that this process may use, by its affinity and by the quota of its control group."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([affinity, *_group_quotas()]))


def _group_quotas() -> list[int]:
    """The processors' worth of time that the control groups above this process leave it; Linux only."""
    quotas: list[int] = []
    root = Path("/sys/fs/cgroup")
    groups = [root]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                groups.append(root / line[4:])
    for group in groups:
        with suppress(OSError, ValueError):
            quota, period = map(int, (group / "cpu.max").read_text().split())
            quotas.append(ceil(quota / period))
    return quotas
