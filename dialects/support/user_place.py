"""Lines of the user's program, noted cheaply while it runs."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from xdsl.dialects.builtin import FileLineColLoc

from tenon.dialects.support.location import line_location, shown_location

Place = tuple[CodeType, int] | None
"""A line of the user's program: code, and the instruction in it."""


def user_place() -> Place:
    """The innermost line that is not Tenon's own."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if id(code) not in _OWN:
            if not is_own(frame):
                return code, frame.f_lasti
            _OWN[id(code)] = code
        frame = frame.f_back
    return None


_OWN: dict[int, CodeType] = {}
"""What Tenon's own frames run, as far as it was met, by identity: to compare code would take longer than to ask."""


def is_own(frame: FrameType) -> bool:
    """Whether a frame is Tenon's own."""
    name = frame.f_globals.get("__name__", "")
    return name[:6] == "tenon." or name == "tenon"


def location_of(place: Place) -> FileLineColLoc | None:
    """The line as the location of an op."""
    if place is None:
        return None
    code, instruction = place
    lines = [line for start, end, line in code.co_lines() if start <= instruction < end and line is not None]
    return line_location(code.co_filename, lines[0]) if lines else None


def shown(place: Place) -> str:
    """` (file:line)`, or nothing."""
    return shown_location(location_of(place))
