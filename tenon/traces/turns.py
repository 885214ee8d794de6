"""Threads that trace and threads that call what was traced: while one traces, stand-ins are where tensors were."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from tenon.dialects.support.forking import new_lock

_LOOK_AGAIN = 1e-4
"""Seconds after which one that is to trace looks again whether calls of others have ended."""


class Turns:
    """One thread traces at a time, and no other one runs a traced function meanwhile."""

    def __init__(self) -> None:
        self._lock = new_lock()
        """Held by the thread that traces."""
        self._tracer = 0
        self._running: dict[int, int] = {}
        """How many calls are under way, one in the other, by threads, each of which writes to its own entry."""
        os.register_at_fork(after_in_child=self._keep_own)

    def begin(self, calls: int = 1) -> None:
        """Begin a call, once no other thread traces."""
        own = threading.get_ident()
        while True:
            self._running[own] = self._running.get(own, 0) + calls
            if self._tracer in (0, own):
                return
            self.end(calls)
            with self._lock:  # which is free when the other one has traced
                pass

    def end(self, calls: int = 1) -> None:
        """End a call."""
        own = threading.get_ident()
        left = self._running[own] - calls
        if left:
            self._running[own] = left
        else:
            del self._running[own]

    @contextmanager
    def tracing(self) -> Generator[None]:
        """Trace in the block, when calls of all others have ended. Of those that wait here, nothing is under way."""
        own = threading.get_ident()
        waiting = self._running.pop(own, 0)
        try:
            with self._lock:
                before, self._tracer = self._tracer, own
                try:
                    while any(thread != own for thread in [*self._running]):
                        time.sleep(_LOOK_AGAIN)
                    yield
                finally:
                    self._tracer = before
        finally:
            if waiting:
                self.begin(waiting)

    def _keep_own(self) -> None:
        """In a child of `os.fork`, the other threads are no more."""
        own = threading.get_ident()
        self._tracer = own if self._tracer == own else 0
        self._running = {own: self._running[own]} if own in self._running else {}


TURNS = Turns()
