"""How modules take sizes of windows: one for all spatial dimensions, or one for each."""

from __future__ import annotations

Sizes = int | tuple[int, ...]


def sizes_of(value: Sizes, rank: int) -> tuple[int, ...]:
    """One size for each of `rank` dimensions."""
    return (value,) * rank if isinstance(value, int) else tuple(value)
