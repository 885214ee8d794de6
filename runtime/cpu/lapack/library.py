"""Where LAPACK is in this process: in the library that NumPy's linear algebra is linked with, or is."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec

_FORMS = {"scipy_{}_64_": 64, "{}_64_": 64, "{}64_": 64, "scipy_{}_": 32, "{}_": 32}
"""How builds of NumPy name LAPACK's functions, and how wide integers are in each."""


@dataclass(frozen=True)
class Library:
    """LAPACK's functions: their addresses, by names without a prefix for the type, and the bits of its integers."""

    handle: ctypes.CDLL
    form: str
    integer_bits: int

    def address(self, name: str) -> int:
        """Where a function is, `dgesv` for one; raises `AttributeError` for one that is not there."""
        address = ctypes.cast(getattr(self.handle, self.form.format(name)), ctypes.c_void_p).value
        assert address is not None
        return address


@cache
def library(needed: tuple[str, ...]) -> Library | None:
    """LAPACK, if it is found by name and has all functions that are needed."""
    spec = find_spec("numpy.linalg._umath_linalg")
    # Numbers of 64 bits are passed to integers of either width, which read the first of them.
    if spec is None or spec.origin is None or sys.byteorder != "little":
        return None
    try:
        handle = ctypes.CDLL(spec.origin)
    except OSError:
        return None
    said = getattr(import_module(spec.name), "_ilp64", None)
    for form, bits in _FORMS.items():
        if said is not None and said != (bits == 64):
            continue  # a library with integers of 64 bits may have plain names
        if all(hasattr(handle, form.format(name)) for name in needed):
            return Library(handle, form, bits)
    return None
