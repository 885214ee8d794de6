"""Whether calls on tensors are recorded, for each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from tenon.dialects.definition.registry import install_traced_device
from tenon.dialects.definition.value import insertion_point
from tenon.runtime.call.tensors import RecordingMode

P = ParamSpec("P")
R = TypeVar("R")


MODE = RecordingMode()


class _Tracing(threading.local):
    session: Any = None
    threads: ClassVar[set[int]] = set()
    """Those in which something stands for tensors now."""


TRACING = _Tracing()
"""What stands for tensors while `tenon.trace` runs a function; `None` otherwise."""
install_traced_device(lambda device: TRACING.session is not None and TRACING.session.runs_on(device))


def is_traced() -> bool:
    """Whether a function is traced in this thread, so that what Python does happens once for all its calls."""
    return insertion_point() is not None or TRACING.session is not None


class _Waiting(threading.local):
    piece: Any = None


WAITING = _Waiting()
"""The calls that wait to be run together, while `tenon.trace` runs a function in pieces; `None` otherwise."""


def run_waiting() -> None:
    """Have calls that wait run now: memory that they may read is about to be written to, or to be seen by others."""
    if WAITING.piece is not None:
        WAITING.piece.run()


class set_grad_enabled:
    """Record calls on tensors from here on, or do not; as a context manager, until its block ends."""

    def __init__(self, mode: bool) -> None:
        self._before = MODE.records
        MODE.records = self._mode = bool(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        MODE.records = self._before


class _Recording:
    """A context manager, and a decorator, in which calls are recorded or not."""

    _records: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(MODE.records)
        MODE.records = self._records
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        MODE.records = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from functools import wraps

        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)():
                return function(*args, **kwargs)

        return wrapper


class no_grad(_Recording):
    """`with tenon.no_grad():` calls on tensors are not recorded. Also a decorator."""

    _records = False


class inference_mode(no_grad):
    """`no_grad`, unless `mode` is false."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._records = not value_of(mode) and MODE.records


class enable_grad(_Recording):
    """`with tenon.enable_grad():` calls on tensors are recorded, inside of `no_grad` as well. Also a decorator."""

    _records = True


def is_grad_enabled() -> bool:
    """Whether calls on tensors are recorded."""
    return MODE.records


def value_of(setting: Any) -> bool:
    """A flag that is given as an argument."""
    if not isinstance(setting, bool):
        raise TypeError(f"requires_grad is {setting!r} where True or False is needed")
    return setting
