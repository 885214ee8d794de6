"""What the commands print: errors as messages, and nothing more when nobody reads it any more."""

from __future__ import annotations

import os
import sys


def discard_output() -> None:
    """After a `BrokenPipeError`: send the rest of standard output nowhere.

    Whoever reads the output has seen enough; without this Python complains once more while it exits.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def message_of(error: BaseException) -> str:
    """What an error says, with its notes, for whoever runs a command."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return "\n".join([str(error).strip() or type(error).__name__, *getattr(error, "__notes__", ())])
