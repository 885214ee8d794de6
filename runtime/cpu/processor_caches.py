"""The sizes of the processor's caches, as the system tells them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def last_level_cache() -> int | None:
    """The bytes of the last level that the first core uses; None where the system does not tell."""
    levels: dict[int, int] = {}
    try:
        for folder in _FOLDER.glob("index[0-9]*"):
            if (folder / "type").read_text().strip() != "Instruction":
                text = (folder / "size").read_text().strip()
                levels[int((folder / "level").read_text())] = int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
    except (OSError, ValueError):
        return None
    return levels[max(levels)] if levels else None
