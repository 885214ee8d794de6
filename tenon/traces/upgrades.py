"""Files of functions that former versions have written, as this one writes them: a rewrite for each version.

A change of the IR's text, or of what describes a function, that a file may contain makes a new version: count `VERSION`
up, add a rewrite from the version before to `UPGRADES`, and keep a file of that version among the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class Content:
    """What a file says beside its arrays."""

    program: str
    """The IR as text."""
    function: dict[str, Any]
    """How arguments become inputs of the program, and what becomes of its results."""


Upgrade = Callable[[Content], Content]

UPGRADES: dict[int, Upgrade] = {}
"""For each version before this one, what makes of a file's content that of the next version."""


def upgraded(
    content: Content, version: int, where: str, upgrades: Mapping[int, Upgrade] = UPGRADES, newest: int = VERSION
) -> Content:
    """The content of a file of `version` in that of `newest`. Raises `ValueError` naming both for one that is newer."""
    if version > newest:
        raise ValueError(
            f"{where} is of version {version} of the format, and this Tenon reads versions up to {newest}; update Tenon"
        )
    for number in range(version, newest):
        content = upgrades[number](content)
    return content
