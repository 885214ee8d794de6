"""What threads have set, where native code reads it."""

from __future__ import annotations

import ctypes
import os
import threading

from tenon.dialects.support.forking import new_lock

_MOST = 4096


class ThreadNumbers:
    """A number for each thread: 0, or what it has set.

    Native code reads `words`: how many threads have set one, then for each its identity and its number. Where there is
    no room for all of them, that count is -1.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._numbers: dict[int, int] = {}
        self._threads = threading.local()
        self.words = (ctypes.c_int64 * (1 + 2 * _MOST))()  # which is written to faster than an array of NumPy's
        os.register_at_fork(after_in_child=self._keep_own)

    @property
    def address(self) -> int:
        """Where the words lie."""
        return ctypes.addressof(self.words)

    def set(self, number: int) -> None:
        """Set the number of this thread."""
        thread = getattr(self._threads, "own", None)
        if thread is None:
            thread = self._threads.own = _Thread(self)
        self.put(thread.ident, number)

    def put(self, thread: int, number: int) -> None:
        """Set the number of a thread."""
        with self._lock:
            if number:
                self._numbers[thread] = number
            else:
                self._numbers.pop(thread, None)
            count = len(self._numbers)
            self.words[0] = -1  # while they are written, nothing is known
            if count <= _MOST:
                for place, pair in enumerate(self._numbers.items()):
                    self.words[2 * place + 1], self.words[2 * place + 2] = pair
                self.words[0] = count

    def _keep_own(self) -> None:
        """In a child of `os.fork`, the other threads are no more."""
        own = threading.get_ident()
        number = self._numbers.get(own, 0)
        self._numbers.clear()
        self.put(own, number)


class _Thread:
    """A thread that has set a number; when it has ended, another one may have its identity."""

    def __init__(self, numbers: ThreadNumbers) -> None:
        self._numbers, self.ident = numbers, threading.get_ident()

    def __del__(self) -> None:
        self._numbers.put(self.ident, 0)
