"""Work that a thread of its own does while this one does what comes first."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Thread

from tenon.runtime.switch_interval import quick_switches


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
