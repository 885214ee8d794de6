"""What somebody who wrote a name that does not exist may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'softmax'?`, to end a message with; nothing where no known name is like `name`."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
