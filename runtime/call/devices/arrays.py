"""Whether arrays of CuPy lie in memory as native code reads them, and what it is told of them.

Arrays of every kind are compared with what they say themselves, and those that native code makes with CuPy's own; where
something is otherwise (another CuPy), calls go through Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.support.donation import Donation, GivenAway
from tenon.dialects.support.forking import new_lock
from tenon.passes.machine import GPU
from tenon.runtime.call.devices.layout import DEVICE_ARRAY, DEVICE_MEMORY, DEVICES, VECTOR
from tenon.runtime.call.devices.native_arrays import devices, tenon_array_like
from tenon.runtime.call.loaded import loaded_code
from tenon.runtime.cpu.ir_types import Struct

_TP_NEW = 65  # of the C headers: the slot of a class that makes instances


class _Known(NamedTuple):
    """A CuPy, the class of what arrays that were given away are views of, and a place where nothing is; `None` where
    native code does not take its arrays."""

    cupy: Any
    mark: Any
    nowhere: Any


_TAKEN: list[_Known] = []
"""The CuPy that was looked at last."""
_LOCK = new_lock()


def takes_arrays(cupy: Any) -> bool:
    """Whether native calls take CuPy's arrays, from now on."""
    return _known(cupy).mark is not None


def _known(cupy: Any) -> _Known:
    with _LOCK:
        if not (_TAKEN and _TAKEN[0].cupy is cupy):
            try:
                mark, nowhere = _fill(cupy) or (None, None)
            except Exception:  # of what another CuPy lacks, or has otherwise
                mark, nowhere = None, None
            _TAKEN[:] = [_Known(cupy, mark, nowhere)]
        return _TAKEN[0]


def mark_of(cupy: Any, donation: Donation) -> Any:
    """What an array is a view of that was given away; `None` where it is not known how arrays lie in memory."""
    _, mark, nowhere = _known(cupy)
    if mark is None:
        return None
    made = mark((0,), np.int8, nowhere)
    made.donation = donation
    return made


def is_marked(array: Any, mark: Any) -> bool:
    """Have an array of CuPy be a view of that, if there is such a thing."""
    if mark is None:
        return False
    base = ctypes.c_size_t.from_address(id(array) + DEVICE_ARRAY.offsets["base"])
    before, base.value = base.value, id(mark)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(mark))
    ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(before))
    return True


def _fill(cupy: Any) -> tuple[Any, Any] | None:
    loaded = loaded_code()
    array, pointer_class = cupy.ndarray, cupy.cuda.MemoryPointer
    new, made_by = _function("_Znwm"), array.__mro__[-2]
    if (
        loaded is None
        or new is None
        or not (_has_size(array, DEVICE_ARRAY) and _has_size(pointer_class, DEVICE_MEMORY))
    ):
        return None
    if array.__weakrefoffset__ != DEVICE_ARRAY.offsets["weak"]:
        return None
    mark, nowhere = type("GivenAway", (array, GivenAway), {}), _nowhere(cupy)
    slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))
    told = {
        "array": id(array),
        "memory": id(pointer_class),
        "pooled": id(cupy.cuda.memory.PooledMemory),
        "nowhere": id(nowhere.mem),
        "mark": id(mark),
        "make": slot(made_by, _TP_NEW),
        "new": new,
    }
    words = (ctypes.c_size_t * len(told)).from_address(loaded.entry(devices.name.removeprefix("@")))
    words[:] = DEVICES.words(told)
    like = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)(loaded.entry(tenon_array_like.name))
    agrees = False
    try:
        agrees = _agrees(cupy, like)
    finally:
        if not agrees:
            words[:] = [0] * len(told)
    return (mark, nowhere) if agrees else None


def _function(name: str) -> int | None:
    """The address of a function of C++."""
    try:
        return ctypes.cast(ctypes.CDLL("libstdc++.so.6")[name], ctypes.c_void_p).value
    except (AttributeError, OSError):
        return None


def _has_size(kind: Any, struct: Struct) -> bool:
    return kind.__basicsize__ == struct.size and not (kind.__itemsize__ or kind.__dictoffset__)


def template(cupy: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array of CuPy that others are made like, and that nobody works on: it has no memory of a device."""
    return cupy.ndarray(tuple(shape), dtype, _nowhere(cupy))


def _nowhere(cupy: Any) -> Any:
    host = np.zeros(2 * GPU.access, np.uint8)
    memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 0)
    return cupy.cuda.MemoryPointer(memory, 0)


def _agrees(cupy: Any, like: Callable[[Any, Any], Any]) -> bool:
    host = np.zeros(4096, np.uint8)
    memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 0)
    data, other = [cupy.cuda.MemoryPointer(memory, offset) for offset in (64, 1024)]
    if not _pointer_agrees(data) or not _pointer_agrees(other):
        return False
    for shape in ((), (3,), (2, 5, 7), (0, 4), (1, 6)):
        for dtype in map(np.dtype, (np.float32, np.float64, np.int8, np.bool_)):
            array = cupy.ndarray(shape, dtype, data)
            views = (array, array.T, array[..., ::2]) if shape else (array,)
            if not all(_array_agrees(view) for view in views):
                return False
            made = like(array, other)
            fresh = cupy.ndarray(shape, dtype, other)
            if not (_array_agrees(made) and type(made) is cupy.ndarray and _is_like(made, fresh)):
                return False
    return True


def _word(thing: Any, offset: int, kind: Any = ctypes.c_size_t) -> int:
    return kind.from_address(id(thing) + offset).value


def _pointer_agrees(data: Any) -> bool:
    offsets = DEVICE_MEMORY.offsets
    found = (
        _word(data, offsets["address"]),
        _word(data, offsets["ordinal"], ctypes.c_int32),
        _word(data, offsets["owner"]),
    )
    return found == (data.ptr, data.device_id, id(data.mem))


def _array_agrees(array: Any) -> bool:
    """Whether an array lies as expected: none of its words is followed before it is known to be an address."""
    offsets = DEVICE_ARRAY.offsets
    objects = {"dtype": array.dtype, "data": array.data, "base": array.base}
    if any(_word(array, offsets[name]) != id(value) for name, value in objects.items()):
        return False
    flags = array.flags
    found = [_word(array, offsets[name], ctypes.c_int32) for name in ("c_contiguous", "f_contiguous")]
    if found != [flags.c_contiguous, flags.f_contiguous] or _word(array, offsets["size"]) != array.size:
        return False
    pairs = (("shape", array.shape), ("strides", array.strides))
    return all(_vector(array, offsets[name]) == list(numbers) for name, numbers in pairs)


def _vector(array: Any, offset: int) -> list[int] | None:
    first, end, room = [_word(array, offset + VECTOR.offsets[name]) for name in VECTOR.fields]
    if not first <= end <= room or end - first != 8 * array.ndim:
        return None
    return list((ctypes.c_int64 * array.ndim).from_address(first)) if first else []


def _is_like(made: Any, fresh: Any) -> bool:
    """Whether all words of two arrays are the same but for what is theirs alone."""
    own = {"references", "weak", "shape", "strides"}
    begins = sorted((offset, name) for name, offset in DEVICE_ARRAY.offsets.items())
    ends = [*[offset for offset, _ in begins[1:]], DEVICE_ARRAY.size]
    return all(
        _word(made, word) == _word(fresh, word)
        for (begin, name), end in zip(begins, ends, strict=True)
        if name not in own
        for word in range(begin - begin % 8, end - 7, 8)
    )
