"""How long a thread of Python waits for another one."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

SHORT = 2e-4
"""Seconds; far more than it takes to change threads."""

_lock = Lock()
_users = 0
_usual = 0.0


@contextmanager
def quick_switches() -> Generator[None]:
    """Let threads that come back from native code go on soon, in the whole process, until the block ends.

    A thread that computes in Python gives way to others every 5 ms only: one that calls native code for shorter times
    would mostly wait.
    """
    global _users, _usual
    with _lock:
        _users += 1
        if _users == 1:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(SHORT, _usual))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                sys.setswitchinterval(_usual)
