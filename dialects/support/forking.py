"""What a child of `os.fork` finds: locks that nobody holds.

A child has one thread, that which called `os.fork`. Locks that other threads held at that moment would stay held for
ever; what they guard is whole, since one thread at a time runs Python code.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

_T = TypeVar("_T")

_LOCKS: WeakSet[Any] = WeakSet()


def new_lock() -> threading.RLock:
    """A reentrant lock that is free in a child of `os.fork`, unless the thread that forked holds it."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def made_once(function: Callable[..., _T]) -> Callable[..., _T]:
    """`functools.cache` for what must not be made twice, which that does where several threads ask first at once."""
    lock, made = new_lock(), dict[tuple[Any, ...], _T]()

    @functools.wraps(function)
    def given(*arguments: Any) -> _T:
        if arguments not in made:  # only who may have to make it waits for the others
            with lock:
                if arguments not in made:
                    made[arguments] = function(*arguments)
        return made[arguments]

    return given


class cached_property(functools.cached_property[_T]):
    """That of `functools`, which in Python 3.11 has one lock for all instances."""

    def __init__(self, function: Callable[[Any], _T]) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            self.lock = new_lock()


def _free_locks() -> None:
    for lock in list(_LOCKS):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_locks)
