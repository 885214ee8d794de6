"""Truth values as the bits of bytes, by the names that NumPy has for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import axis_or_all, shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import ops


def _order(function: str, bitorder: str) -> Any:
    """At which place of a byte each of eight bits is."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"{function}: bitorder is {bitorder!r} where 'big' or 'little' is needed")
    places = np.arange(8, dtype=np.uint8)
    return places if bitorder == "little" else places[::-1].copy()


@tensor_function
@also_called(a="x")
@one_program_of_large
def packbits(x: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Bytes (ui8), each of eight elements of `x` along `axis`, or of all in row-major order: a bit is set where the
    element is not 0, from the highest bit on, or the lowest ("little"). What lacks at the end is 0.

    >>> tenon.packbits(np.array([1, 0, 1, 0, 0, 0, 0, 0, 1]))
    """
    places, x = _order("packbits", bitorder), shaped(x)
    x, axis = axis_or_all("packbits", x, axis)
    rows = ops.cast(ops.movedim(ops.not_equal(x, 0), axis, -1), dtype="ui8")
    size = rows.shape[-1]
    padded = ops.pad(rows, low=(0,) * rows.ndim, high=(*(0,) * (rows.ndim - 1), -size % 8))
    eights = ops.reshape(padded, shape=(*rows.shape[:-1], -(-size // 8), 8))
    return ops.movedim(ops.sum(ops.shift_left(eights, places), axis=-1, dtype="ui8"), -1, axis)


@tensor_function
@also_called(a="x")
@one_program_of_large
def unpackbits(x: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """The bits (ui8, 0 or 1) of the bytes `x` along `axis`, or of all in row-major order, from the highest on, or the
    lowest ("little"); `count` of them, with zeros behind the last, or all but the last -`count` if that is negative.

    >>> tenon.unpackbits(np.array([160, 128], np.uint8), count=9)
    """
    places, x = _order("unpackbits", bitorder), shaped(x)
    if x.dtype != np.uint8:
        raise TypeError(f"unpackbits: x is {x.dtype} where uint8 is needed")
    x, axis = axis_or_all("unpackbits", x, axis)
    rows = ops.expand_dims(ops.movedim(x, axis, -1), axis=-1)
    bits = ops.bitwise_and(ops.shift_right(rows, places), np.uint8(1))
    size = 8 * x.shape[axis]
    bits = ops.reshape(bits, shape=(*rows.shape[:-2], size))
    wanted = size if count is None else count if count >= 0 else max(size + count, 0)
    if wanted > size:
        bits = ops.pad(bits, low=(0,) * bits.ndim, high=(*(0,) * (bits.ndim - 1), wanted - size))
    return ops.movedim(ops.narrow(bits, bits.ndim - 1, 0, wanted), -1, axis)
