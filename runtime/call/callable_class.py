"""Classes whose instances have a vector call (PEP 590) of their own: a call goes straight to native code.

Python code cannot define such a class, but the C interface can, through ctypes: a subclass that differs from its base
by two words at the end of each instance, the address of the vector call and that of a table for it. As long as the
first is null, calls go to `__call__`, as they do in every other class.
"""

from __future__ import annotations

import ctypes
import platform
import sysconfig
from typing import Any, TypeVar

from tenon.dialects.support.forking import made_once
from tenon.runtime.call.layout import CALL_SLOT
from tenon.runtime.cpu.python_objects import CLASS

_T = TypeVar("_T")

# Of the C headers: the slot of a class's members, the kind of an offset, and flags of members and classes.
_TP_MEMBERS, _T_PYSSIZET, _READONLY = 72, 19, 1
_HEAPTYPE, _BASETYPE, _HAVE_VECTORCALL, _METHOD_DESCRIPTOR = 1 << 9, 1 << 10, 1 << 11, 1 << 17


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Specification(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def is_supported() -> bool:
    """Whether this Python is one whose objects native code may look into: CPython with a global lock, 64 bits."""
    return (
        platform.python_implementation() == "CPython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not sysconfig.get_config_var("Py_TRACE_REFS")
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


@made_once
def native_class(base: type[_T]) -> type[_T]:
    """The subclass of `base` with vector calls; `base` itself where there can be none.

    Instances that bind as functions do are called unbound where they are methods and operators.
    """
    if not is_supported():
        return base
    offset = base.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, offset, _READONLY, None), _Member())
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(members)), _Slot())
    name = f"{base.__module__}.{base.__qualname__}".encode()
    flags = _HEAPTYPE | _BASETYPE | _HAVE_VECTORCALL | (_METHOD_DESCRIPTOR if hasattr(base, "__get__") else 0)
    specification = _Specification(name, offset + CALL_SLOT.size, 0, flags, slots)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(
        ("PyType_FromSpecWithBases", ctypes.pythonapi)
    )
    made: Any = make(ctypes.addressof(specification), (base,))
    made.__doc__ = base.__doc__
    _KEPT.append((members, slots, name, specification))
    return made if _place_of_call(made) == offset else base


def _place_of_call(class_: type) -> int:
    """At which offset instances of a class have their vector call, if it is positive."""
    return ctypes.c_ssize_t.from_address(id(class_) + CLASS.offsets["place_of_call"]).value


# Some versions of Python go on reading what a class was made from.
_KEPT: list[Any] = []


def set_vector_call(instance: Any, native: int, table: int) -> bool:
    """Give an instance its vector call and the table; `False` if its class has none."""
    place = _place_of_call(type(instance)) if is_supported() else 0
    if place <= 0:
        return False
    for name, address in (("table", table), ("call", native)):
        ctypes.c_size_t.from_address(id(instance) + place + CALL_SLOT.offsets[name]).value = address
    return True


def as_method(function: Any) -> Any:
    """What to give a class so that `function` is a method of its instances, bound without Python where that can be."""
    if not is_supported():
        return function
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyInstanceMethod_New", ctypes.pythonapi))
    return make(function)
