"""Where in the user's program an op comes from, as far as its location says."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation


def at_line(op: Operation) -> str:
    """` (file:line)`, to end a message with; nothing where the line is not known."""
    location = op.location
    if not isinstance(location, FileLineColLoc):
        return ""
    return f" ({location.filename.data}:{location.line.data})"
