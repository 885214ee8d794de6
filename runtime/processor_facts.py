"""What the system tells of the processor's caches and pages, and whether it lets this process use tile registers."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_ARCH_PRCTL = 158
"""The number of the system call for x86-64."""
_REQUEST_PERMISSION, _TILE_DATA = 0x1023, 18
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def known_sizes() -> Mapping[str, int]:
    """Facts of `Machine` in bytes: `l1`, `l2` and `l3`, the last of which are the levels that the first core uses, a
    `line` and a `page`. What the system does not tell is not there."""
    found: dict[str, int | None] = {"page": os.sysconf("SC_PAGE_SIZE")}
    levels: dict[int, int | None] = {}
    for folder in sorted(_FOLDER.glob("index[0-9]*")):
        level, kind = _number(folder / "level"), _text(folder / "type")
        if level is not None and kind != "Instruction":
            levels[level] = _number(folder / "size")
            if level == 1:
                found["line"] = _number(folder / "coherency_line_size")
    if levels:
        found |= {f"l{level}": size for level, size in levels.items() if level < 3}
        found["l3"] = levels[max(levels)]
    return {name: size for name, size in found.items() if size is not None and size > 0}


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """A number as the system writes it, such as `32K`; None where it does not tell."""
    text = _text(path)
    digits, factor = text.rstrip("KMG"), _UNITS.get(text[-1:], 1)
    return int(digits) * factor if digits.isdecimal() else None


@cache
def may_use_tiles() -> bool:
    """Ask the system, once, for the permission to use the tile registers of x86 (AMX); whether it was given.

    Their state is large, and Linux saves it only for processes that asked for it; in others the first instruction on
    them is an illegal one. The permission holds for all threads, those that there are and later ones, and for children
    of `os.fork`. Systems that know no such state refuse, and so does Linux where a thread has a stack for signals that
    is too small. Once it was given, Linux refuses such stacks. Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None).syscall
    call.argtypes, call.restype = (ctypes.c_long, ctypes.c_long, ctypes.c_long), ctypes.c_long
    return call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
