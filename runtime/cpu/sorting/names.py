"""What compiled programs call."""

from __future__ import annotations

SORTED_BITS = (16, 32, 64)
"""Of the elements that are sorted in vectors."""


def sorter_name(bits: int) -> str:
    """The function that sorts elements of so many bits."""
    return f"tenon_sort_{bits}"
