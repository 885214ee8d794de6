"""What one thread does alone, and several at once otherwise: a lock for readers and writers whose readers take none."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType, FrameType

from tenon.dialects.support.forking import new_lock

_LOOK_AGAIN = 1e-4
"""Seconds after which one that is to be alone looks again whether what others do has ended."""
_STANDS_STILL = 0.25
"""Seconds for which a thread is at one instruction where it is taken to wait for another."""
_STILL_THERE = 1e-3
"""The same where it was taken to do so before."""


class StandsStillError(Exception):
    """The `thread` that is alone waits for something, for who waits for it maybe, in a `frame`."""

    def __init__(self, thread: int, frame: FrameType) -> None:
        super().__init__()
        self.thread, self.frame = thread, frame


class Turns:
    """One thread at a time is `alone`; what others do between `begin` and `end` is not meanwhile."""

    def __init__(self) -> None:
        self._lock = new_lock()
        """Held by the thread that is alone."""
        self._alone = 0
        self._running: dict[int, int] = {}
        """How many parts are under way, one in the other, by threads, each of which writes to its own entry."""
        self._still: tuple[int, int] | None = None
        """Where one that was alone stood still: a frame, by its identity, and the instruction in it."""
        os.register_at_fork(
            before=self._wait_for_others, after_in_parent=self._lock.release, after_in_child=self._keep_own
        )

    def begin(self, parts: int = 1, *, at_once: bool = False) -> None:
        """Begin what others may do as well, once no other thread is alone, unless `at_once`. Raises
        `StandsStillError`."""
        own = threading.get_ident()
        while True:
            self._running[own] = self._running.get(own, 0) + parts
            if at_once or self._alone in (0, own):
                return
            self.end(parts)
            self._acquire()  # when the other one is through
            self._lock.release()

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
        """Be alone in the block, when what others do has ended. Of those that wait here, nothing is under way. Raises
        `StandsStillError`."""
        own = threading.get_ident()
        waiting = self._running.pop(own, 0)
        try:
            self._acquire()
            try:
                before, self._alone = self._alone, own
                try:
                    while any(thread != own for thread in [*self._running]):
                        time.sleep(_LOOK_AGAIN)
                    yield
                finally:
                    self._alone = before
            finally:
                self._lock.release()
        finally:
            if waiting:
                self._resume(waiting)

    def _resume(self, parts: int) -> None:
        try:
            self.begin(parts)
        except StandsStillError:
            self.begin(parts, at_once=True)  # of which nothing more is done, but to end it
            raise

    def _acquire(self) -> None:
        before: tuple[int, int] | None = None
        while True:
            thread = self._alone
            frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
            now = None if frame is None or frame.f_code is _WAITS else (id(frame), frame.f_lasti)
            if frame is not None and now is not None and now == before:
                self._still = now
                raise StandsStillError(thread, frame)
            before = now
            if self._lock.acquire(timeout=_STANDS_STILL if now is None or now != self._still else _STILL_THERE):
                return

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


_WAITS: CodeType = Turns.alone.__wrapped__.__code__  # pyright: ignore[reportFunctionMemberAccess]
"""Where one that is to be alone waits for others, which come to an end."""
