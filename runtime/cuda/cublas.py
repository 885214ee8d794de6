"""cuBLAS: where it is, its handles, and the memory that it works in.

A handle serves one thread at a time, so each run of launches that asks for products takes one that is idle. The memory
is given to it each time: that of the stream, or of a graph, so that products which run at the same time never share
any. With memory of a fixed size, cuBLAS gives the same bits at each call on one GPU.
"""

from __future__ import annotations

import ctypes
import functools
from collections import defaultdict
from collections.abc import Generator, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from tenon.dialects.support.forking import new_lock
from tenon.runtime.cuda.launch_code import LIBRARY
from tenon.runtime.cuda.nvrtc import found_by_pathfinder, in_wheels

if TYPE_CHECKING:
    from tenon.lowering.steps.library import Multiplication

WORKSPACE = 32 << 20
"""Bytes of memory to work in, as NVIDIA recommends for an H100."""
ELEMENTS = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
"""cudaDataType."""
_COMPUTE_32F, _COMPUTE_64F = 68, 70
_EXACT_SUMS = 16
"""CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: parts of a sum are not rounded to f16 or bf16."""
_ONE = {False: 0x3F800000, True: 0x3FF0000000000000}
"""The bits of 1 as f32, and as f64."""


class CublasError(RuntimeError):
    """cuBLAS could not be loaded, or refused something; the message says why."""


@functools.cache
def path() -> str | None:
    """Where the library is: in wheels, or where `cuda-pathfinder` finds it; None if it is not there."""
    wheels = in_wheels("cublas")
    return wheels[0] if wheels else found_by_pathfinder("cublas")


@functools.cache
def library() -> Any:
    """The library, for all threads. Raises `CublasError`."""
    if (found := path()) is None:
        raise CublasError("cuBLAS is not installed; TENON_CUBLAS=0 does without")
    try:
        for needed in sorted(Path(found).parent.glob("libcublasLt.so.*")):
            ctypes.CDLL(str(needed))
        loaded = ctypes.CDLL(found)
    except OSError as error:
        raise CublasError(f"{error}; TENON_CUBLAS=0 does without") from None
    loaded.cublasGetStatusString.restype = ctypes.c_char_p
    return loaded


def error(status: int) -> CublasError:
    """What cuBLAS means by a status."""
    told: bytes = library().cublasGetStatusString(status)
    return CublasError(told.decode())


class Backend(Protocol):
    """What memory is asked of."""

    def allocate(self, byte_count: int) -> tuple[int, object]: ...


@dataclass(eq=False)
class Scratch:
    """Memory to work in, for products that run one after the other: those of one `stream`, which is held so that no
    other has its name meanwhile."""

    address: int
    owner: object
    stream: object

    @staticmethod
    def made(backend: Backend, stream: object) -> Scratch:
        """New memory."""
        return Scratch(*backend.allocate(WORKSPACE), stream)

    @staticmethod
    def of_stream(backend: Backend, context: int, stream: object, key: Hashable) -> Scratch:
        """That of a stream of the device with this context, or of a capture of it, for as long as somebody holds it."""
        with _LOCK:
            known = _SCRATCH.get((context, key))
            if known is None:
                known = _SCRATCH[context, key] = Scratch.made(backend, stream)
            return known


_LOCK = new_lock()
_SCRATCH: WeakValueDictionary[tuple[int, Hashable], Scratch] = WeakValueDictionary()
_IDLE: dict[int, list[_Handle]] = defaultdict(list)
"""Handles by the context of their device. They are kept: to destroy one waits for the device."""


class _Handle:
    """A handle of the device that is current, as native code takes it."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        for status in (
            library().cublasCreate_v2(ctypes.byref(handle)),
            library().cublasSetMathMode(handle, _EXACT_SUMS),
        ):
            if status:
                raise CublasError(f"cuBLAS gives no handle: {error(status)}; TENON_CUBLAS=0 does without")
        names = [name for name in LIBRARY.fields if name.startswith("cublas")]
        addresses = {name: ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0 for name in names}
        described = addresses | {"handle": handle.value or 0, "memory": 0, "size": WORKSPACE}
        self.words = (ctypes.c_int64 * len(LIBRARY.fields))(*LIBRARY.words(described))


def reserve(context: int) -> None:
    """See that there is a handle for the device that is current, since none can be made while a stream is captured.
    Raises `CublasError`."""
    with _LOCK:
        if not _IDLE[context]:
            _IDLE[context].append(_Handle())


@contextmanager
def handle(context: int, scratch: Scratch) -> Generator[int]:
    """The address of a handle that works in this memory (`LIBRARY`), and serves nobody else meanwhile."""
    with _LOCK:
        taken = _IDLE[context].pop() if _IDLE[context] else _Handle()
    taken.words[LIBRARY.word("memory")] = scratch.address
    try:
        yield ctypes.addressof(taken.words)
    finally:
        with _LOCK:
            _IDLE[context].append(taken)


def described(product: Multiplication) -> Mapping[str, int]:
    """The numbers that `cublasGemmStridedBatchedEx` is given, by the names of `PRODUCT`. Its matrices lie column by
    column: as such, our result is its transpose, the product of the transposed right operand and the left one."""
    is_double = product.element == "f64"
    operands = {"first": product.right, "second": product.left, "result": product.result}
    numbers = {
        "rows": product.columns,
        "columns": product.rows,
        "depth": product.depth,
        "count": product.count,
        "one": _ONE[is_double],
        "zero": 0,
        "compute": _COMPUTE_64F if is_double else _COMPUTE_32F,
    }
    for name, one in operands.items():
        numbers[f"{name}_element"] = ELEMENTS[one.element]
        numbers[f"{name}_line"], numbers[f"{name}_between"] = one.line, one.between
    return numbers | {f"{name}_transposed": int(operands[name].transposed) for name in ("first", "second")}
