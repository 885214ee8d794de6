"""What the commands print to, when nobody reads it any more."""

from __future__ import annotations

import os
import sys


def discard_output() -> None:
    """After a `BrokenPipeError`: send the rest of standard output nowhere.

    Whoever reads the output has seen enough; without this Python complains once more while it exits.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
