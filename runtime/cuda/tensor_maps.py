"""Descriptions of tensors for bulk copies, as the driver makes them (`cuTensorMapEncodeTiled`). No device is asked."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenon.lowering.cuda.bulk_copies import TensorMap

BYTES, ALIGNMENT = 128, 64
ELEMENTS = {"f16": 6, "bf16": 9}
"""CUtensorMapDataType."""
SWIZZLE_128B, PROMOTION_256B, NO_INTERLEAVE, ZEROS = 3, 3, 0, 0
KEPT = 1024
"""Descriptions of one argument that are kept, by address."""


class TensorMapError(ValueError):
    """The driver refused to describe a tensor; the message says which one."""


class Descriptions:
    """What a kernel is given behind its arguments: descriptions of some of these, which are made once for an
    address, as `wrap` makes arguments of arrays."""

    def __init__(self, maps: Sequence[TensorMap], wrap: Callable[[NDArray[Any]], Any] | None = None) -> None:
        self._known: list[tuple[TensorMap, dict[np.generic, Any]]] = [(one, {}) for one in maps]
        self._wrap = wrap

    def of(self, arguments: Sequence[np.generic]) -> list[Any]:
        """The descriptions for a launch with these arguments. Raises `TensorMapError`."""
        result: list[Any] = []
        for described, known in self._known:
            address = arguments[described.argument]
            made = known.get(address)
            if made is None:
                if len(known) >= KEPT:
                    known.clear()
                array = encoded(described, int(address))
                made = known[address] = array if self._wrap is None else self._wrap(array)
            result.append(made)
        return result


def encoded(described: TensorMap, address: int) -> NDArray[Any]:
    """A description of the tensor at an address, as an argument of a kernel. Raises `TensorMapError`."""
    rank = len(described.sizes)
    memory = np.zeros(BYTES + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(ELEMENTS[described.element]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        _numbers(ctypes.c_uint64, described.sizes),
        _numbers(ctypes.c_uint64, described.strides),
        _numbers(ctypes.c_uint32, described.box),
        _numbers(ctypes.c_uint32, [1] * rank),
        *map(ctypes.c_int, (NO_INTERLEAVE, SWIZZLE_128B, PROMOTION_256B, ZEROS)),
    )
    if status:
        raise TensorMapError(f"cuTensorMapEncodeTiled: error {status} for {described} at {address:#x}")
    result = np.zeros((), np.dtype((np.void, BYTES)))  # CuPy passes an array of one element by value
    result[()] = memory[start : start + BYTES].tobytes()
    return result


def _numbers(kind: type[Any], values: Sequence[int]) -> ctypes.Array[Any]:
    array: Any = kind * len(values)  # pyright: ignore[reportOperatorIssue]
    return array(*values)


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
