"""The standard's dtypes and constants, and what it asks of dtypes.

Dtypes are NumPy's; wherever one is taken, Tenon's names (`f32`) and traced values do as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenon.dialects.definition.promotion import common_element, is_literal
from tenon.dialects.definition.value import Value
from tenon.dialects.support.plain_arrays import copied, is_on_gpu, plain_array
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime.cuda.arrays import brought, taken

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
float16, bfloat16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
half, double, short, long = float16, float64, int16, int64
"""PyTorch's names of dtypes."""

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None

_KINDS: dict[str, tuple[np.dtype[Any], ...]] = {
    "bool": (bool_,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), float32, float64),
    "complex floating": (),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]


def _dtype(given: Any) -> np.dtype[Any]:
    """The dtype that `given` is, or that a value or an array has."""
    if isinstance(given, Value):
        return numpy_dtype(given.element_type)
    return np.dtype(given.dtype) if isinstance(given, np.ndarray | np.generic) else numpy_dtype(element_type(given))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype in which ops on such operands meet, which are arrays, traced values, dtypes and Python's numbers."""
    if not arrays_and_dtypes:
        raise ValueError("result_type: an array or a dtype is needed")
    numbers = [given for given in arrays_and_dtypes if is_literal(given)]
    known = [element_type(_dtype(given)) for given in arrays_and_dtypes if not is_literal(given)]
    if not known:
        raise ValueError("result_type: an array or a dtype is needed beside numbers, which adopt one")
    common = common_element(known, numbers)
    assert common is not None
    return numpy_dtype(common)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the dtype `from_`, or that of an array, is one that promotion takes to the dtype `to`."""
    source, target = _dtype(from_), _dtype(to)
    meets = source == target or result_type(source, target) == target
    # Promotion takes truth values to numbers and integers to floats, which the standard leaves to casts.
    return meets and all(isdtype(source, kind) == isdtype(target, kind) for kind in ("bool", "real floating"))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a `kind`: another dtype, a name such as "integral", or any of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return _dtype(dtype) in _KINDS[kind]
    if isinstance(kind, str):
        raise ValueError(f"isdtype: kind is {kind!r} where one of {', '.join(_KINDS)} is needed")
    return _dtype(dtype) == _dtype(kind)


@dataclass(frozen=True)
class FloatInfo:
    """What `finfo` returns."""

    dtype: np.dtype[Any]
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float


@dataclass(frozen=True)
class IntegerInfo:
    """What `iinfo` returns."""

    dtype: np.dtype[Any]
    bits: int
    max: int
    min: int


def finfo(type: Any, /) -> FloatInfo:
    """What the floats of a dtype, or of an array's, are like."""
    dtype = _dtype(type)
    found = ml_dtypes.finfo(dtype)
    limits = map(float, (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(dtype, found.bits, *limits)


def iinfo(type: Any, /) -> IntegerInfo:
    """What the integers of a dtype, or of an array's, are like."""
    dtype = _dtype(type)
    found = ml_dtypes.iinfo(dtype)
    return IntegerInfo(dtype, found.bits, int(found.max), int(found.min))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array in the memory of `x`, which another library made, or with `copy` in its own; of CuPy where it is on a
    GPU. On a `device` where `x` is not, it is a copy."""
    found = taken(x)
    array = found if is_on_gpu(found) else plain_array(np.from_dlpack(x))
    if device is not None:
        array, given = brought(array, device), array
        copy = copy and array is given
    return copied(array) if copy else array
