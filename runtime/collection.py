"""Garbage collection, and when not to do it."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident


@contextmanager
def collection_paused() -> Generator[None]:
    """No automatic garbage collection in the whole process until the block ends.

    IR is one large web of cycles that stays alive while it is worked on: collections would walk it in vain.
    """
    thread = get_ident() if gc.isenabled() else None
    gc.disable()
    if thread is not None:
        _pausing.append(thread)
    try:
        yield
    finally:
        if thread is not None:
            _pausing.remove(thread)
            gc.enable()


_pausing: list[int] = []
"""The threads that turned it off, and will turn it on."""


def _forget_others() -> None:
    if _pausing and get_ident() not in _pausing:
        gc.enable()
    _pausing[:] = [thread for thread in _pausing if thread == get_ident()]


os.register_at_fork(after_in_child=_forget_others)


def collect_recent() -> None:
    """Collect what was made since collections were paused: most of it is IR that nobody needs any more."""
    gc.collect(0)
