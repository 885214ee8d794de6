"""What type checkers know of the functions of ops as methods: `methods.pyi`, made by `tenon.tools.stubs`.

When a program runs these classes have nothing: the methods are looked up by name, with those of a user's ops.
"""

from __future__ import annotations


class ValueMethods:
    __slots__ = ()


class TensorMethods:
    __slots__ = ()
