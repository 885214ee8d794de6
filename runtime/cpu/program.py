"""The object code of a program in this process, with what it calls: the pool of threads, memory for scratch, and Python
for host ops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from tenon.dialects.families.host import call_host, host_dtypes, raise_pending
from tenon.dialects.support.forking import made_once
from tenon.runtime.cpu.compile import Target
from tenon.runtime.cpu.fourier.loaded import transforms_of
from tenon.runtime.cpu.lapack.loaded import lapack_of
from tenon.runtime.cpu.load import ENTRY, LoadedCode, load_objects
from tenon.runtime.cpu.scratch_memory import scratch_functions
from tenon.runtime.cpu.sorting.loaded import sorters_of
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR
from tenon.runtime.cpu.threads import pool_address

CALL_HOST = "tenon_call_host"
"""The name that emitted code calls; not imported from there, because code from the cache needs no emitter."""

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p))


def load_program(
    codes: Sequence[bytes],
    target: Target | None = None,
    *,
    exports: Sequence[str] = (ENTRY,),
    scratch: Mapping[str, int] | None = None,
) -> LoadedCode:
    """Link the object codes of a program into this process, as `load_objects` does.

    Its scratch comes from `scratch_memory`, or from the functions that `scratch` has by name.
    """
    symbols: dict[str, int] = {}
    if any(PARALLEL_FOR.encode() in code for code in codes):
        symbols[PARALLEL_FOR] = pool_address()
    symbols.update(sorters_of(codes))
    if any(CALL_HOST.encode() in code for code in codes):
        symbols[CALL_HOST] = host_call_address()
        symbols.update(lapack_of(codes))
        symbols.update(transforms_of(codes))
    if any(b"aligned_alloc" in code for code in codes):
        symbols.update(scratch or scratch_functions())
    return load_objects(codes, target, exports=exports, symbols=symbols)


@lru_cache(maxsize=1024)
def _declaration(text: bytes) -> tuple[func.FuncOp, list[tuple[tuple[int, ...], np.dtype[Any]]]]:
    """The declaration that a program was compiled with, and the shapes and dtypes of its arrays."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(func.Func)
    (function,) = Parser(context, text.decode()).parse_module().ops
    assert isinstance(function, func.FuncOp)
    shapes = [tuple(type_.get_shape()) for type_ in function.function_type.inputs]  # pyright: ignore
    return function, list(zip(shapes, host_dtypes(function), strict=True))


def _call(text: bytes, addresses: Any) -> None:
    function, arrays = _declaration(text)
    given: list[np.ndarray[Any, Any]] = []
    for position, (shape, dtype) in enumerate(arrays):
        size = prod(shape) * dtype.itemsize
        memory: Any = (ctypes.c_char * size).from_address(addresses[position]) if size else bytearray()
        given.append(np.frombuffer(memory, dtype).reshape(shape))
    call_host(function, given)


@made_once
def _callback() -> Any:
    return _Callback(_call)


def host_call_address() -> int:
    """The address of what native code calls; it takes the GIL itself."""
    address = ctypes.cast(_callback(), ctypes.c_void_p).value
    assert address is not None
    return address


def raising(entry: Callable[[Any], None]) -> Callable[[Any], None]:
    """`entry`, raising what Python raised that it called."""

    def call(pointers: Any) -> None:
        entry(pointers)
        raise_pending()

    return call
