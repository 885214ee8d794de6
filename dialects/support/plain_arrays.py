"""Arrays of any library, and what is like an array, as arrays of NumPy. What they mean beyond their elements must not
get lost: arrays with a mask, with units or with another multiplication are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tenon.dialects.support.dlpack import from_dlpack
from tenon.dialects.support.donation import refuse_donated

_NUMBERS = (bool, int, float, np.generic)
# What instances of a class met so far are; classes are asked since looking attributes up takes long.
_KINDS: dict[type, str] = {np.ndarray: "plain"}
# Whether they are on a GPU: `yes`, `no`, or `ask` each.
_ON_GPU: dict[type, str] = {}
_VIEW: list[Callable[[Any], Any]] = []


def _kind(kind: type) -> str:
    known = _KINDS.get(kind)
    if known is None:
        known = _KINDS[kind] = _found_kind(kind)
    return known


def _found_kind(kind: type) -> str:
    if issubclass(kind, np.ndarray):
        if issubclass(kind, np.ma.MaskedArray):
            return "its mask would be ignored; fill it (x.filled(value)), and pass the mask as an array of its own"
        if issubclass(kind, np.matrix):
            return "its * is a product of matrices, which here it would not be; pass np.asarray(x), and write @"
        if kind.__array_ufunc__ is not np.ndarray.__array_ufunc__:
            return "its arithmetic is its own (__array_ufunc__) and would be lost; pass np.asarray(x)"
        return "subclass"
    if hasattr(kind, "toarray") and hasattr(kind, "nnz"):
        return "it is sparse; pass x.toarray()"
    if hasattr(kind, "__dlpack_device__"):
        return "library"
    return "like" if hasattr(kind, "__array__") or hasattr(kind, "__array_interface__") else "other"


def is_like_array(kind: type) -> bool:
    """Whether instances of a class are arrays, of NumPy or of another library, or give one (`__array__`)."""
    return _kind(kind) != "other"


def is_on_gpu(value: Any) -> bool:
    """Whether a value is an array in the memory of a GPU, by CUDA's interface of arrays."""
    kind = type(value)
    known = _ON_GPU.get(kind)
    if known is None:
        # Instances of a class that has the interface are asked, which takes CuPy long: PyTorch's may be elsewhere.
        known = _ON_GPU[kind] = "ask" if hasattr(kind, "__cuda_array_interface__") else "no"
        if known == "ask" and (cupy := sys.modules.get("cupy")) is not None and issubclass(kind, cupy.ndarray):
            known = _ON_GPU[kind] = "yes"
    return known == "yes" or (known == "ask" and _has_interface(value))


def _has_interface(value: Any) -> bool:
    """Whether an instance of such a class is on a GPU. One of PyTorch's whose gradient is recorded is there as well,
    and raises."""
    try:
        return hasattr(value, "__cuda_array_interface__")
    except RuntimeError:
        return True


def install_view(view: Callable[[Any], Any]) -> None:
    """Set what makes CuPy's arrays of those of other libraries."""
    _VIEW[:] = [view]


def on_gpu_viewed(value: Any) -> Any:
    """An array on a GPU as one of CuPy's that shares its memory: for an array of another library that is still in the
    same memory, the one that it was before, as long as somebody has that. All other values as they are."""
    return _VIEW[0](value) if is_on_gpu(value) and _ON_GPU[type(value)] == "ask" else value


def is_stored(value: Any) -> bool:
    """Whether a value is an array of the kinds that Tenon gives: NumPy's, or CuPy's."""
    return type(value) is np.ndarray or is_on_gpu(value)


def as_stored(value: Any) -> Any:
    """A number or an array as one of those kinds: an array on a GPU as it is, all else in the memory of the CPU."""
    return value if is_on_gpu(value) else np.asarray(value)


def on_host(value: Any) -> Any:
    """A copy in the memory of the CPU of a CuPy array; other values as they are."""
    return value.get() if is_on_gpu(value) and hasattr(value, "get") else value


def copied(array: Any, dtype: Any = None) -> Any:
    """A copy of an array of NumPy or CuPy, where it is, of another dtype if one is given."""
    if not is_on_gpu(array):
        return array.copy() if dtype is None else array.astype(dtype)
    with array.device:  # CuPy's copies are on the current one
        return array.astype(array.dtype if dtype is None else dtype)


def put(target: Any, elements: Any, key: Any = ...) -> None:
    """Set elements of an array of NumPy or CuPy to a number, or to those of an array that is where it is."""
    if not is_on_gpu(target):
        target[key] = elements
        return
    with target.device:
        target[key] = elements


def device_for(values: Iterable[Any]) -> str:
    """Where what is computed of some values is computed: `cuda` if one of them is on a GPU, otherwise `cpu`."""
    return "cuda" if any(map(is_on_gpu, values)) else "cpu"


def elements_of(given: Any) -> Any:
    """What an object holds, whatever calls on it are recorded for: the array of a tensor, and all else as it is."""
    attribute = getattr(type(given), "__tenon_held__", None)
    return given if attribute is None else getattr(given, attribute)


def plain_array(value: Any, where: str = "value") -> np.ndarray[Any, Any]:
    """A number, an array of any library, what gives an array, or nested lists of these, as a NumPy array.

    Memory is shared where it can be. Raises `TypeError`, which begins with `where`, for what is none of these, for an
    array of another device, and for one that means more than its elements; `RuntimeError` for one that was donated.
    """
    kind = _kind(type(value))
    if kind == "plain":
        refuse_donated(value, where)
        return value
    if kind == "subclass":
        return value.view(np.ndarray)
    if isinstance(value, _NUMBERS):
        return np.asarray(value)
    if kind == "library":
        try:
            return from_dlpack(value)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
    if kind == "like":
        return np.asarray(value)
    if isinstance(value, list | tuple):
        return np.asarray([plain_array(item, where) if _has_meaning(item) else item for item in value])
    if kind == "other":
        if isinstance(value, range):
            return np.asarray(value)
        raise TypeError(f"{where}: a {type(value).__name__} is neither a number nor an array")
    raise TypeError(f"{where} is a {type(value).__name__}: {kind}")


def host_array(given: Any) -> np.ndarray[Any, Any]:
    """The elements of an array of any library, or of a tensor, in the memory of the CPU; see `plain_array`."""
    held = elements_of(given)
    if is_on_gpu(held):
        return on_host(held)
    return plain_array(given.detach() if hasattr(given, "detach") else given)


def _has_meaning(item: Any) -> bool:
    """Whether NumPy should not be asked alone what an item of a list is."""
    return isinstance(item, list | tuple) or not (isinstance(item, _NUMBERS) or type(item) is np.ndarray)


__all__ = ["is_like_array", "plain_array"]
