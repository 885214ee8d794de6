"""Memory for results that the caller gives: `out=` of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.types.size import replaced
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime.arguments.interface import Interface
from tenon.runtime.arguments.tree import Structure, describe, flatten, paths


class Kind(NamedTuple):
    """Arrays that results of a program can be written to: `check(where, array, shape, dtype)` raises for another one,
    `span` gives the address of an array of a call and the bytes from there on."""

    check: Callable[[str, Any, tuple[int, ...], np.dtype[Any]], None]
    span: Callable[[Any], tuple[int, int]]


def given_outputs(
    function: str,
    out: Any,
    result: Structure,
    interface: Interface,
    inputs: Sequence[Any],
    kind: Kind | None = None,
) -> list[Any]:
    """The arrays in `out`, in order, checked to be what the results of a call can be written to; by default NumPy's.

    Raises `TypeError` where `out` has another structure than the result, or an array another dtype, and `ValueError`
    for another shape and for memory that is not contiguous, not aligned, read-only, or that of an input or of another
    result.
    """
    check, span = kind or _ON_HOST
    leaves = leaves_of(function, out, result)
    names = list(paths(result, "out"))
    values = interface.bind([array.shape for array in inputs]) if interface.sizes else {}
    for leaf, name, (shape, dtype) in zip(leaves, names, interface.outputs, strict=True):
        sizes = tuple([replaced(size, values) for size in shape]) if values else shape
        check(f"{function}: {name}", leaf, sizes, numpy_dtype(element_type(dtype)))
    _check_apart(function, names, [span(array) for array in (*leaves, *inputs)])
    return leaves


def leaves_of(function: str, out: Any, result: Structure) -> list[Any]:
    """What is in `out`, in order. Raises `TypeError` where that has another structure than the result."""
    leaves, structure = flatten(out)
    if structure is not result:
        needed = "an array" if result.kind is None else f"{result.kind.__name__}({', '.join(paths(result))})"
        raise TypeError(f"{function}: out is {describe(out)} where the result is {needed}")
    return leaves


def _check(where: str, leaf: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if not isinstance(leaf, np.ndarray):
        raise TypeError(f"{where} is of type {type(leaf).__name__} where a NumPy array is needed")
    plain_array(leaf, where)  # one with a mask is refused
    if leaf.dtype != dtype:
        raise TypeError(f"{where} is of dtype {leaf.dtype} where the result is of dtype {dtype}")
    if leaf.shape != shape:
        raise ValueError(f"{where} has shape {list(leaf.shape)} where the result has shape {list(shape)}")
    if not leaf.flags.c_contiguous:
        raise ValueError(f"{where} has strides {leaf.strides}, but must be contiguous in row-major order")
    if not leaf.flags.aligned:
        raise ValueError(f"{where} is not aligned to its elements")
    if not leaf.flags.writeable:
        raise ValueError(f"{where} is read-only")


def _check_apart(function: str, names: Sequence[str], spans: Sequence[tuple[int, int]]) -> None:
    shared = meeting(spans)
    for position, name in enumerate(names):
        if position in shared:
            other = shared[position]
            whose = names[other] if other < len(names) else f"input {other - len(names)}"
            raise ValueError(f"{function}: {name} shares memory with {whose}")


def sharing(arrays: Sequence[Any]) -> dict[int, int]:
    """The positions of arrays of NumPy that share memory with another one, and the position of that one."""
    return meeting(list(map(_span, arrays)))


def _span(array: Any) -> tuple[int, int]:
    """Where a program reads or writes an array: nowhere if it has gaps or goes backwards, as it is copied then."""
    address = array.ctypes.data
    if array.flags.c_contiguous:
        return address, array.nbytes
    return address, array.nbytes if byte_bounds(array) == (address, address + array.nbytes) else 0


_ON_HOST = Kind(_check, _span)


def meeting(spans: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The positions of spans (address, bytes) that meet another one, and the position of that one."""
    ranges = sorted([(start, size, i) for i, (start, size) in enumerate(spans) if size])
    shared: dict[int, int] = {}
    end, last = 0, -1
    for start, size, i in ranges:
        if start < end:
            shared[i] = last
            shared.setdefault(last, i)
        if start + size > end:
            end, last = start + size, i
    return shared
