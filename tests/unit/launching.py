"""Calls native code directly, without what an executable does around a call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tenon.runtime.cpu.load import entry_point


def launch(address: int, pointers: Sequence[int]) -> None:
    """Call the entry at `address` with the addresses of its buffers, in order of the arguments of `main`."""
    entry_point(address)((ctypes.c_void_p * len(pointers))(*pointers))
