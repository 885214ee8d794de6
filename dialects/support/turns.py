"""What one thread does alone, and several at once otherwise: a lock for readers and writers whose readers take none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from tenon.dialects.support.forking import new_lock

_LOOK_AGAIN = 1e-4
"""Seconds after which one that is to be alone looks again whether what others do has ended."""


class Turns:
    """One thread at a time is `alone`; what others do between `begin` and `end` is not meanwhile."""

    def __init__(self) -> None:
        self._lock = new_lock()
        """Held by the thread that is alone."""
        self._alone = 0
        self._running: dict[int, int] = {}
        """How many parts are under way, one in the other, by threads, each of which writes to its own entry."""
        os.register_at_fork(
            before=self._wait_for_others, after_in_parent=self._lock.release, after_in_child=self._keep_own
        )

    def begin(self, parts: int = 1) -> None:
        """Begin what others may do as well, once no other thread is alone."""
        own = threading.get_ident()
        while True:
            self._running[own] = self._running.get(own, 0) + parts
            if self._alone in (0, own):
                return
            self.end(parts)
            with self._lock:  # which is free when the other one is through
                pass

    def end(self, parts: int = 1) -> None:
        """End it."""
        own = threading.get_ident()
        left = self._running[own] - parts
        if left:
            self._running[own] = left
        else:
            del self._running[own]

    @contextmanager
    def alone(self) -> Generator[None]:
        """Be alone in the block, when what others do has ended. Of those that wait here, nothing is under way."""
        own = threading.get_ident()
        waiting = self._running.pop(own, 0)
        try:
            with self._lock:
                before, self._alone = self._alone, own
                try:
                    while any(thread != own for thread in [*self._running]):
                        time.sleep(_LOOK_AGAIN)
                    yield
                finally:
                    self._alone = before
        finally:
            if waiting:
                self.begin(waiting)

    def _wait_for_others(self) -> None:
        """Have nobody else be alone while a process forks: a child would be left with what that one has half done."""
        own = threading.get_ident()
        under_way = self._running.pop(own, 0)  # which one that is about to be alone waits for
        self._lock.acquire()
        if under_way:
            self._running[own] = under_way

    def _keep_own(self) -> None:
        """In a child of `os.fork`, the other threads are no more."""
        self._lock.release()
        own = threading.get_ident()
        self._alone = own if self._alone == own else 0
        self._running = {own: self._running[own]} if own in self._running else {}
