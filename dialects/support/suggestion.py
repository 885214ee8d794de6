"""What a name that is not known was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'softmax'`, to end a message with; nothing where no name in `known` is like `name`."""
    similar = get_close_matches(name, list(known), n=1)
    return f", did you mean {similar[0]!r}" if similar else ""
