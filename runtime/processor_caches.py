"""What the system tells of the processor's caches and pages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def known_sizes() -> Mapping[str, int]:
    """Facts of `Machine` in bytes: `l1`, `l2` and `l3`, the last of which are the levels that the first core uses, a
    `line` and a `page`. What the system does not tell is not there."""
    found: dict[str, int] = {}
    levels: dict[int, int] = {}
    try:
        found["page"] = os.sysconf("SC_PAGE_SIZE")
        for folder in sorted(_FOLDER.glob("index[0-9]*")):
            if (folder / "type").read_text().strip() != "Instruction":
                level = int((folder / "level").read_text())
                levels[level] = _bytes((folder / "size").read_text())
                if level == 1:
                    found["line"] = int((folder / "coherency_line_size").read_text())
    except (OSError, ValueError):
        pass
    if levels:
        found |= {f"l{level}": size for level, size in levels.items() if level < 3}
        found["l3"] = levels[max(levels)]
    return {name: size for name, size in found.items() if size > 0}


def _bytes(text: str) -> int:
    """A size as the system writes it, such as `32K`."""
    text = text.strip()
    return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
