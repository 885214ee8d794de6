"""Arrays whose memory was given away.

What was said of that is where an array has the owner of its memory; of arrays of other libraries of which it is not
known how they lie in memory it is kept here, as long as they are there.
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

import numpy as np

from tenon.dialects.support.user_place import shown


class Donation:
    """Which argument of which function an array was, and on which line of the user's."""

    __slots__ = ("argument", "code", "function", "held", "instruction", "is_lost")

    argument: str
    function: str
    code: CodeType | None
    instruction: int | None
    held: Any
    """What the memory belongs to, if it is not the array's own."""
    is_lost: bool
    """Whether the call failed when it might have begun to overwrite the array; left out where it was native."""

    def __repr__(self) -> str:
        place = None if self.code is None or self.instruction is None else (self.code, self.instruction)
        return f"<donated as {self.argument} of {self.function}{shown(place)}>"


def is_donated(array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory of an array is a result's by now."""
    base: Any = array.base
    return type(base) is Donation


class GivenAway:
    """What an array of another library has in the place of the array that it is a view of."""

    __slots__ = ()
    donation: Donation


GIVEN: dict[int, tuple[weakref.ref[Any], Donation]] = {}
"""Arrays of other libraries that cannot have that, by identity, and what was said of them."""


def give_away(array: Any, donation: Donation) -> None:
    """Say of an array that is not of NumPy that its memory is a result's by now."""
    key = id(array)

    def forget(reference: weakref.ref[Any]) -> None:
        if (known := GIVEN.get(key)) is not None and known[0] is reference:
            del GIVEN[key]

    GIVEN[key] = weakref.ref(array, forget), donation


def _donation_of(array: Any) -> Donation | None:
    if isinstance(array, np.ndarray):
        base: Any = array.base
        return base if is_donated(array) else None
    other: Any = getattr(array, "base", None)
    if isinstance(other, GivenAway):
        return other.donation
    known = GIVEN.get(id(array))
    return known[1] if known is not None and known[0]() is array else None


def is_given(array: Any) -> bool:
    """Whether the memory of an array that is not of NumPy is a result's by now."""
    return _donation_of(array) is not None


def refuse_donated(array: Any, where: str) -> None:
    """Raise `RuntimeError` for an array whose memory is a result's by now."""
    donation = _donation_of(array)
    if donation is None:
        return
    said = str(donation)[1:-1]
    if getattr(donation, "is_lost", False):
        raise RuntimeError(f"{where}: the array was {said}, and that call failed, so that its elements are lost")
    raise RuntimeError(
        f"{where}: the array was {said}, and a result has its memory, unless that call failed; use that "
        "result, or copy the array before"
    )
