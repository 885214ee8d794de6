"""A cache of bounded size for what is costly to compute and cheap to compute again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from tenon.dialects.support.forking import new_lock

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """Values by key, of which those used least recently are dropped; safe to use from several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[Hashable, V] = {}
        self._lock = new_lock()

    def get(self, key: Hashable) -> V | None:
        """The value of `key`, `None` where there is none (or none any more)."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
        return value

    def __setitem__(self, key: Hashable, value: V) -> None:
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._size:
                del self._values[next(iter(self._values))]

    def setdefault(self, key: Hashable, value: V) -> V:
        """The value of `key`: `value` from now on, where there is none."""
        with self._lock:
            known = self._values.get(key)
        if known is None:
            self[key] = known = value
        return known

    def __len__(self) -> int:
        return len(self._values)
