"""What a trace may leave behind in objects: who makes them, and who writes to them, asks for the watch of the trace.

A trace writes to the objects that it makes, such as the copies of its arguments. One from around it would be left with
traced values, which mean nothing once the trace has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Watch:
    """The objects that one trace makes and writes to."""

    def __init__(self) -> None:
        # The objects are kept, so that no other one gets the identity of one of them.
        self._own: dict[int, Any] = {}
        self._others: dict[int, Any] = {}
        self._restorers: list[Callable[[], str | None]] = []
        self._reporters: list[Callable[[], str | None]] = []
        self._places: dict[int, tuple[Any, tuple[str, ...]]] = {}
        self.is_for_once = False
        """Whether what was traced holds for this call alone, whatever the function reads: it draws or changes
        something, or has asked for elements."""

    def own(self, made: T) -> T:
        """Note that the trace has made an object, and give it back."""
        self._own[id(made)] = made
        return made

    def is_foreign(self, found: object) -> bool:
        """Whether an object is neither one that the trace has made nor one that was noted before."""
        return id(found) not in self._own and id(found) not in self._others

    def note(self, found: object) -> None:
        """Note an object from around the trace, of which a restorer takes care."""
        self._others[id(found)] = found

    def is_at(self, value: Any, names: tuple[str, ...]) -> None:
        """Note that arguments of these names are one array of the caller, and that `value` stands for one of them."""
        if names:
            self._places[id(value)] = (value, names)

    def places(self, value: Any) -> tuple[str, ...]:
        """The names of the arguments that are the array for which `value` stands, if there are several."""
        return self._places.get(id(value), (None, ()))[1]

    def at_end(self, restore: Callable[[], str | None]) -> None:
        """Call `restore` when the trace ends, however it does; it says what it had to put right, if anything."""
        self._restorers.append(restore)

    def at_success(self, report: Callable[[], str | None]) -> None:
        """Call `report` when the trace has given its results; it says what has been lost, if anything."""
        self._reporters.append(report)

    def reports(self) -> list[str]:
        """What has been lost."""
        return [said for report in self._reporters if (said := report()) is not None]

    def restored(self) -> list[str]:
        """What had to be put right."""
        return [said for restore in self._restorers if (said := restore()) is not None]


class _State(threading.local):
    def __init__(self) -> None:
        self.watch: Watch | None = None


_STATE = _State()


def watch() -> Watch | None:
    """That of the trace in progress in this thread; `None` outside of any."""
    return _STATE.watch


@contextmanager
def watching(error: type[Exception]) -> Generator[Watch, None, None]:
    """Watch a trace: objects from around it get back what they held, and if it had no other error, that is one."""
    outer = _STATE.watch
    made = _STATE.watch = Watch()
    try:
        yield made
    except BaseException:
        made.restored()
        raise
    finally:
        _STATE.watch = outer
        if outer is not None:
            outer.is_for_once |= made.is_for_once
    if said := made.restored():
        raise error("; ".join(said))


def note_once() -> None:
    """Note that what is done now, if a function is traced, is to be done at each call of it."""
    if _STATE.watch is not None:
        _STATE.watch.is_for_once = True


__all__ = ["Watch", "note_once", "watch", "watching"]
