"""What a kernel could run by, and what it does run by: as data, and as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MOST_ROWS = 12
"""Of a table of candidates in text."""

Row = Mapping[str, str | int | float | None]
"""A line of a table: what stands in its columns, by their heads."""


@dataclass(frozen=True)
class Option:
    """A way for a kernel to run that was asked for."""

    name: str
    obstacle: str | None = None
    """What is against it; None if it can be taken."""
    chosen: bool = False
    candidates: tuple[Row, ...] = ()
    """What it chooses among, as a rule the best first."""
    steps: tuple[str, ...] = ()
    """What it does."""


@dataclass(frozen=True)
class Explained:
    """A kernel, and the options that there are for it, in the order in which they are asked for."""

    kernel: str
    computes: str
    """For readers."""
    options: tuple[Option, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Row = field(default_factory=dict[str, "str | int | float | None"])
    """What is known of what it takes."""


def as_text(kernels: Iterable[Explained]) -> str:
    """The text for some kernels: a paragraph for each."""
    return "".join(f"{line}\n" for kernel in kernels for line in lines_of(kernel))


def lines_of(explained: Explained) -> list[str]:
    """The text for a kernel."""
    known = [*explained.notes, *(table_of([explained.facts]) if explained.facts else ())]
    lines = [f"{explained.kernel}: {explained.computes}", *[f"  {line}" for line in known]]
    for option in explained.options:
        verdict = "chosen" if option.chosen else option.obstacle or "possible as well"
        lines.append(f"  {option.name}: {verdict}")
        if option.chosen:
            rest = len(option.candidates) - MOST_ROWS
            more = [f"and {rest} more"] if rest > 0 else []
            lines += [f"    {line}" for line in (*table_of(option.candidates[:MOST_ROWS]), *more, *option.steps)]
    return lines


def table_of(rows: Sequence[Row]) -> list[str]:
    """Rows that have the same columns, below their heads."""
    return table([[*rows[0]], *[[_cell(value) for value in row.values()] for row in rows]]) if rows else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with cells below each other."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(value: str | float | None) -> str:
    return "-" if value is None else str(value)
