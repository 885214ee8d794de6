"""How long a thread of Python waits for another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident

from tenon.dialects.support.forking import new_lock

SHORT = 2e-4
"""Seconds; far more than it takes to change threads."""

_lock = new_lock()
_users: list[int] = []
"""The threads that are in such blocks."""
_usual = 0.0


@contextmanager
def quick_switches() -> Generator[None]:
    """Let threads that come back from native code go on soon, in the whole process, until the block ends.

    A thread that computes in Python gives way to others every 5 ms only: one that calls native code for shorter times
    would mostly wait.
    """
    global _usual
    thread = get_ident()
    with _lock:
        _users.append(thread)
        if len(_users) == 1:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(SHORT, _usual))
    try:
        yield
    finally:
        with _lock:
            _users.remove(thread)
            if not _users:
                sys.setswitchinterval(_usual)


def _forget_others() -> None:
    if _users and get_ident() not in _users:
        sys.setswitchinterval(_usual)
    _users[:] = [thread for thread in _users if thread == get_ident()]


os.register_at_fork(after_in_child=_forget_others)
