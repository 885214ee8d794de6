"""Which tensors native calls take: the classes of these and of their tape, told once by what defines them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.thread_numbers import ThreadNumbers
from tenon.runtime.call.callable_class import is_supported
from tenon.runtime.call.layout import MEMORY, NODE, RESULT_SOURCE, TENSOR, TENSORS, VIEW
from tenon.runtime.cpu.ir_types import Struct


@dataclass(frozen=True)
class TensorClasses:
    """What calls on tensors are made of, and what is asked of them in Python."""

    tensor: type
    parameter: type
    memory: type
    node: type
    result: type
    view: type
    forget: Callable[[Any], None]
    """Lets a node go of the large arrays that no gradient needs."""
    call_of: Callable[..., Any]
    """What the tape calls an op with such operands and settings."""
    numbers: Iterator[int]
    """Numbers nodes in the order in which they come."""
    least: int
    """The bytes of a large array."""

    def agree(self) -> bool:
        """Whether instances lie in memory as native code reads them."""
        kinds = (
            *((self.tensor, TENSOR), (self.memory, MEMORY), (self.node, NODE)),
            *((self.result, RESULT_SOURCE), (self.view, VIEW)),
        )
        return is_supported() and all(_lies_like(kind, struct) for kind, struct in kinds)


def _lies_like(kind: type, struct: Struct) -> bool:
    made = object.__new__(kind)
    for name, offset in list(struct.offsets.items())[2:]:
        marker = object()
        setattr(made, name, marker)
        if offset >= kind.__basicsize__ or ctypes.c_size_t.from_address(id(made) + offset).value != id(marker):
            return False
    return True


UNRECORDED = ThreadNumbers()
"""The threads that do not record calls have 1."""


class RecordingMode(threading.local):
    """Whether calls are recorded in this thread."""

    def __init__(self) -> None:
        self._records = True

    @property
    def records(self) -> bool:
        return self._records

    @records.setter
    def records(self, wanted: bool) -> None:
        if wanted != self._records:
            self._records = wanted
            UNRECORDED.set(int(not wanted))


_WAITING = np.zeros(1, np.int64)
_WAITING_LOCK = new_lock()


@contextmanager
def through_python(change: int = 1) -> Generator[None]:
    """Have all calls on tensors go through Python, which knows that some are to wait; with -1, not for a while."""
    with _WAITING_LOCK:
        _WAITING[0] += change
    try:
        yield
    finally:
        with _WAITING_LOCK:
            _WAITING[0] -= change


_INSTALLED: list[TensorClasses] = []
_TABLES: list[int] = []


def install_tensors(classes: TensorClasses) -> None:
    """Have native calls take tensors of these classes."""
    if not _INSTALLED and classes.agree():
        _INSTALLED.append(classes)
        for table in _TABLES:
            fill_tensors(table)


def has_tensors() -> bool:
    """Whether native calls take tensors."""
    return bool(_INSTALLED)


def fill_tensors(table: int) -> None:
    """Tell native code, whose table of tensors lies there, what tensors are, now or as soon as that is known."""
    if not _INSTALLED:
        _TABLES.append(table)
        return
    known = _INSTALLED[0]
    names = ("tensor", "parameter", "memory", "node", "result", "view", "forget", "numbers")
    words: Mapping[str, int] = {
        **{name: id(getattr(known, name)) for name in names},
        "least": known.least,
        "unrecorded": UNRECORDED.address,
        "waiting": _WAITING.ctypes.data,
    }
    (ctypes.c_size_t * len(words)).from_address(table)[:] = TENSORS.words(words)


def array_inside(value: Any) -> Any:
    """The array of an object that counts as one, and that lies in memory as tensors do; `None` of others."""
    elements = getattr(type(value), "__tenon_elements__", None)
    if elements is None or not has_tensors() or not issubclass(type(value), _INSTALLED[0].tensor):
        return None
    return getattr(value, elements)


def call_on_tensors(op: Any, operands: Any, settings: dict[str, Any]) -> Any:
    """What the tape calls an op on such operands; `None` while there are no tensors."""
    return _INSTALLED[0].call_of(op, operands, settings) if _INSTALLED else None
