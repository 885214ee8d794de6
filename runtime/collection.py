"""Garbage collection, and when not to do it."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Generator[None]:
    """No automatic garbage collection in the whole process until the block ends.

    IR is one large web of cycles that stays alive while it is worked on: collections would walk it in vain.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_recent() -> None:
    """Collect what was made since collections were paused: most of it is IR that nobody needs any more."""
    gc.collect(0)
