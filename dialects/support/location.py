"""Where in the user's program an op comes from, as far as its location says."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser


@lru_cache(maxsize=4096)
def line_location(file: str, line: int) -> FileLineColLoc:
    """A line as the location of an op."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(1))


def shown_location(location: Attribute | None) -> str:
    """` (file:line)`, to end a message with; nothing where the line is not known."""
    return f" ({location.filename.data}:{location.line.data})" if isinstance(location, FileLineColLoc) else ""


def at_line(op: Operation) -> str:
    """` (file:line)` of where `op` comes from."""
    return shown_location(op.location)


def position_of(op: Operation) -> str:
    """`file:line:column: `, to begin a message with; nothing where it is not known."""
    location = op.location
    if not isinstance(location, FileLineColLoc):
        return ""
    return f"{location.filename.data}:{location.line.data}:{location.column.data}: "


def location_at(parser: Parser, position: int) -> FileLineColLoc:
    """The location of `position` in what `parser` reads."""
    source = parser.lexer.input
    breaks = _line_breaks(source.content)
    line = bisect_left(breaks, position)
    column = position - (breaks[line - 1] if line else -1)
    return FileLineColLoc(StringAttr(source.name), IntAttr(line + 1), IntAttr(column))


@lru_cache(maxsize=4)
def _line_breaks(text: str) -> list[int]:
    return [match.start() for match in re.finditer("\n", text)]
