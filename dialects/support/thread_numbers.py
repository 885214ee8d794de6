"""What threads have set, where native code reads it."""

from __future__ import annotations

import ctypes
import os
import threading

from tenon.dialects.support.forking import new_lock

_MOST = 4096


class ThreadNumbers:
    """A number for each thread: 0, or what it has set.

    Native code reads `words`: how many places there are, and in each of these the identity of a thread, or 0, and its
    number. Where there is no place for all threads, the first word is -1.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._places = 0
        self._free: list[int] = []
        self._threads = threading.local()
        self.words = (ctypes.c_int64 * (1 + 2 * _MOST))()  # which is written to faster than an array of NumPy's
        os.register_at_fork(after_in_child=self._keep_own)

    @property
    def address(self) -> int:
        """Where the words lie."""
        return ctypes.addressof(self.words)

    def set(self, number: int) -> None:
        """Set the number of this thread."""
        try:
            own: _Thread = self._threads.own
        except AttributeError:
            own = self._new_place()
        self.words[own.place + 1] = number

    def _new_place(self) -> _Thread:
        with self._lock:
            if not self._free and self._places < _MOST:
                self._free.append(1 + 2 * self._places)
                self._places += 1
            is_full = not self._free
            own = self._threads.own = _Thread(self, 1 if is_full else self._free.pop())
            self.words[own.place : own.place + 2] = threading.get_ident(), 0
            self.words[0] = -1 if is_full or self.words[0] < 0 else self._places
        return own

    def let_go(self, place: int) -> None:
        """Have a place that another thread may take."""
        with self._lock:
            if self.words[0] >= 0:
                self.words[place : place + 2] = 0, 0
                self._free.append(place)

    def _keep_own(self) -> None:
        """In a child of `os.fork`, the other threads are no more."""
        own = getattr(self._threads, "own", None)
        number = 0 if own is None else self.words[own.place + 1]
        ctypes.memset(self.words, 0, ctypes.sizeof(self.words))
        self._places, self._free = 0, []
        if own is not None:
            self._new_place()
            self.set(number)


class _Thread:
    """The place of a thread; when that has ended, another one may have its identity."""

    def __init__(self, numbers: ThreadNumbers, place: int) -> None:
        self._numbers, self.place, self._process = numbers, place, os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._process:  # a child of os.fork has given its place to others
            self._numbers.let_go(self.place)
