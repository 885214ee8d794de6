"""The native code of calls, loaded: compiled once per machine, and told where what it uses of Python and NumPy lies.

Where it does not apply (another Python, an unknown layout of arrays), it is not there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.definition.autocast import PRECISIONS
from tenon.dialects.definition.value import TRACES_IN_PROGRESS
from tenon.dialects.families.host import PENDING, raise_pending
from tenon.dialects.support.donation import Donation
from tenon.dialects.support.forking import made_once
from tenon.dialects.support.user_place import is_own
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.runtime.call.callable_class import is_supported, native_class, set_vector_call
from tenon.runtime.call.entry_words import Guard, Words, guard_words
from tenon.runtime.call.layout import GUARDS, PYTHON
from tenon.runtime.call.native_call import code
from tenon.runtime.call.native_guards import tenon_hold
from tenon.runtime.call.native_tensors import tenon_look, tenon_record
from tenon.runtime.call.native_walk import tenon_gather, tenon_walk, walk_code
from tenon.runtime.call.steps import Arguments
from tenon.runtime.call.tensors import fill_tensors, has_tensors
from tenon.runtime.cpu.ir_writer import Module
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cpu.python_objects import address_of_function
from tenon.runtime.cpu.result_memory import pool
from tenon.runtime.epoch import EPOCH


class NativeFunction:
    """A function of the native code, called with objects by position."""

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError


class TapeFunctions(NamedTuple):
    """Native functions of tensors; see `native_walk` and `native_tensors`."""

    walk: Callable[..., Any]
    gather: Callable[..., Any]
    record: Callable[..., Any]
    look: Callable[..., Any]


def holding(guards: Sequence[Guard]) -> Callable[[], bool] | None:
    """A native function that says whether all guards hold; `None` where native calls do not work."""
    if native_call() is None:
        return None
    words = Words()
    start = words.add(GUARDS.words({"count": len(guards), "first": guard_words(words, guards)})).index
    memory, address = words.finished()
    made: Any = native_class(NativeFunction)()
    if not set_vector_call(made, _LOADED[0].entry(tenon_hold.name), address + 8 * start):
        return None
    made.kept = (words.kept, memory)
    return made


def tape_functions() -> TapeFunctions | None:
    """The native functions of tensors; `None` where native calls do not work or tensors do not lie as expected."""
    return _made_tape_functions() if has_tensors() else None


@made_once
def _made_tape_functions() -> TapeFunctions | None:
    if native_call() is None or (walks := _loaded("walk", walk_code)) is None:
        return None
    functions: list[Callable[..., Any]] = []
    for library, function in (
        *((walks, tenon_walk), (walks, tenon_gather)),
        *((_LOADED[0], tenon_record), (_LOADED[0], tenon_look)),
    ):
        made: Any = native_class(NativeFunction)()
        if not set_vector_call(made, library.entry(function.name), 0):
            return None
        functions.append(made)
    return TapeFunctions(*functions)


def _loaded(name: str, code: Module) -> LoadedCode | None:
    """Native code that has been told what it uses of Python, and what tensors are; `None` where it does not load."""
    try:
        loaded = load_native(name, code.text, code.exports)
        _fill(loaded.entry("tenon_addresses"))
        fill_tensors(loaded.entry("tenon_tensors"))
    except (AttributeError, ImportError, KeyError, RuntimeError, ValueError):
        return None
    return loaded


@made_once
def native_call() -> int | None:
    """The address of the vector call of all callables; `None` where native calls do not work."""
    if not is_supported():
        return None
    if (loaded := _loaded("entry", code)) is None:
        return None
    _LOADED.append(loaded)
    fits = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
        loaded.entry("tenon_fits")
    )
    return loaded.entry("tenon_call") if _agrees(fits) else None


def loaded_code() -> LoadedCode | None:
    """The native code; `None` where native calls do not work."""
    return None if native_call() is None else _LOADED[0]


_KEPT: list[Any] = []
_LOADED: list[LoadedCode] = []


def _fill(table: int) -> None:
    """Tell the native code where the functions and objects are that it uses."""
    objects = {
        "ndarray": np.ndarray,
        "float": float,
        "int": int,
        "str": str,
        "true": True,
        "false": False,
        "none": None,
        "no_arguments": (),
        "result_memory": getattr(pool(), "capsule", None),
        "is_own": is_own,
        "donation": Donation,
        "raise_pending": shows_user_frames(raise_pending),
    }
    _KEPT.append(objects)
    found = {name: 0 if name == "result_memory" and value is None else id(value) for name, value in objects.items()}
    found |= {"traces": TRACES_IN_PROGRESS.ctypes.data, "precisions": PRECISIONS.address}
    found |= {"epoch": EPOCH.ctypes.data, "pending": PENDING.ctypes.data}
    found |= {name: address_of_function(name) for name in PYTHON.fields if name.startswith(("Py", "mem"))}
    addresses = (ctypes.c_size_t * len(found)).from_address(table)
    addresses[:] = PYTHON.words(found)


def _agrees(fits: Callable[[Any, int, int | None], int]) -> bool:
    """Whether native code sees arrays of every kind as they are."""
    whole = np.arange(12.0).reshape(3, 4)
    odd = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64)
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    arrays: Sequence[Any] = (whole, whole[1:], whole.T, whole[:, ::2], odd, np.zeros((), np.int8), read_only, [1.0])
    for expected in arrays[:-1]:
        for written in ((), (0,)):
            arguments = Arguments(Words(), 1, written)
            arguments.array(0, expected.dtype, expected.shape)
            step = arguments.finished().index
            memory, address = arguments.words.finished()
            for given in arrays:
                is_fit = (
                    isinstance(given, np.ndarray)
                    and (given.dtype, given.shape) == (expected.dtype, expected.shape)
                    and given.flags.c_contiguous
                    and given.flags.aligned
                    and (given.flags.writeable or not written)
                )
                if bool(fits(given, address + 8 * step, None)) != is_fit:
                    return False
            del memory
    return True
