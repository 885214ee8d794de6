"""Arrays whose memory was given away: what was said of that is where an array has the owner of its memory."""

from __future__ import annotations

from types import CodeType
from typing import Any

import numpy as np

from tenon.dialects.support.user_place import shown


class Donation:
    """Which argument of which function an array was, and on which line of the user's."""

    __slots__ = ("argument", "code", "function", "held", "instruction")

    argument: str
    function: str
    code: CodeType | None
    instruction: int | None
    held: Any
    """What the memory belongs to, if it is not the array's own."""

    def __repr__(self) -> str:
        place = None if self.code is None or self.instruction is None else (self.code, self.instruction)
        return f"<donated as {self.argument} of {self.function}{shown(place)}>"


def is_donated(array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory of an array is a result's by now."""
    base: Any = array.base
    return type(base) is Donation


def refuse_donated(array: np.ndarray[Any, Any], where: str) -> None:
    """Raise `RuntimeError` for an array whose memory is a result's by now."""
    if is_donated(array):
        raise RuntimeError(
            f"{where}: the array was {str(array.base)[1:-1]}, and a result has its memory; use that result, or copy "
            "the array before"
        )
