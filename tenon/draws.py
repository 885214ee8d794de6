"""Keys of what is drawn without one: where a function is traced, too, if that can be another one at each call.

A program that runs once, as those of `grad`, `vmap` and `checkpoint` outside of a trace, has a key of its own. One of
`tenon.trace` counts its draws in a state that is an input. A function of `jit`, which is pure, cannot draw so, nor can
the step of a loop, which is traced once for all steps.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tenon.control_flow import LOOPS
from tenon.dialects.definition.value import TracedValueError, Value, inserting, insertion_point, tracing_of
from tenon.dialects.support.plain_arrays import elements_of
from tenon.runtime.tracing.trace import is_tracing_for_later
from tenon.seeds import drawn_once, key_for_example, new_key


class _Counted(threading.local):
    program: Any = None


COUNTED = _Counted()
"""What counts the draws of a program that is traced in this thread and runs at later calls; `None` otherwise."""


def runs_once() -> bool:
    """Whether what is traced is a program that runs once, as a call of the function that is traced does."""
    is_for_once = COUNTED.program is None and not is_tracing_for_later()
    return insertion_point() is not None and is_for_once and not LOOPS.depth


@contextmanager
def where_it_is(value: Any) -> Generator[None]:
    """Build ops where a traced value, or that of a tensor, comes from, which may be outside of the function that is
    batched, or computed again, now."""
    held = elements_of(value)
    point = tracing_of(held) if isinstance(held, Value) and not LOOPS.depth else None
    if point is None:
        yield
        return
    with inserting(point):
        yield


def next_key(function: str, instead: str) -> Any:
    """A key for one draw of `function`, unlike all others. Raises `TracedValueError` where a function is traced whose
    program would have the same at each call; `instead` is what to write there."""
    if insertion_point() is None:
        return new_key(None)
    if runs_once():
        return key_for_example(drawn_once(lambda: new_key(None)))
    if COUNTED.program is not None and not LOOPS.depth:
        return key_for_example(COUNTED.program.next_key())
    raise TracedValueError(
        f"{function} draws when it is called, and while a function is traced that is once for all its calls, or for "
        f"all steps of a loop; write {instead}"
    )


__all__ = ["COUNTED", "next_key", "runs_once", "where_it_is"]
