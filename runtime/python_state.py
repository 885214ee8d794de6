"""What of Python is set for the whole process while something is compiled: garbage collection, how long a thread waits
for another one, and threads that work meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Thread, get_ident

from tenon.dialects.support.forking import new_lock

SHORT = 2e-4
"""Seconds; far more than it takes to change threads."""


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


def _collect_again_after_fork() -> None:
    if _pausing and get_ident() not in _pausing:
        gc.enable()
    _pausing[:] = [thread for thread in _pausing if thread == get_ident()]


os.register_at_fork(after_in_child=_collect_again_after_fork)


def collect_recent() -> None:
    """Collect what was made since collections were paused: most of it is IR that nobody needs any more."""
    gc.collect(0)


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


def _forget_other_users() -> None:
    if _users and get_ident() not in _users:
        sys.setswitchinterval(_usual)
    _users[:] = [thread for thread in _users if thread == get_ident()]


os.register_at_fork(after_in_child=_forget_other_users)


@contextmanager
def in_background(job: Callable[[], object]) -> Generator[None]:
    """Do `job` while the block runs, and wait for it at the end.

    The block must not need it: where no thread can be started it is not done, and what it raises, whoever needs its
    effect will be told.
    """

    def attempt() -> None:
        with suppress(Exception):
            job()

    thread = Thread(target=attempt, name="tenon-background")
    try:
        thread.start()
    except RuntimeError:
        yield
        return
    try:
        with quick_switches():
            yield
    finally:
        thread.join()
