"""Programs for sizes that are like those at hand: what is asked of a size is answered for these, and noted.

The conditions become part of the function, as sizes that have to be positive, which each launch checks; passes know
them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from tenon.dialects.types.size import ASSUMED, Size, UndecidedSizeError, least, replaced
from tenon.dialects.types.size_values import POSITIVE


def positive_sizes(function: func.FuncOp) -> list[Any]:
    """The sizes that have to be at least 1 where a function is launched."""
    noted = function.attributes.get(POSITIVE)
    return [Size.parse(s.data) for s in noted if isinstance(s, StringAttr)] if isinstance(noted, ArrayAttr) else []


def require_positive_sizes(function: func.FuncOp, sizes: Iterable[Any]) -> None:
    """Have sizes be at least 1 where a function is launched, besides those that have to be already."""
    every = dict.fromkeys([*positive_sizes(function), *sizes])
    if every:
        function.attributes[POSITIVE] = ArrayAttr([StringAttr(str(size)) for size in every])


@contextmanager
def assuming(numbers: Mapping[str, int]) -> Generator[list[Any]]:
    """Inside, questions about sizes that have no one answer are answered for names that stand for `numbers`.

    What is made there holds where all sizes in the list that is given are at least 1.
    """
    conditions: list[Any] = []

    def is_positive(size: Any) -> bool:
        known = _follows(size, conditions)
        if known is None:
            known = replaced(size, numbers) >= 1
            conditions.append(size if known else 1 - size)
        return known

    with _answered(is_positive):
        yield conditions


@contextmanager
def knowing(conditions: Sequence[Any]) -> Generator[None]:
    """Inside, questions are answered that have one answer where these sizes are at least 1."""

    def is_positive(size: Any) -> bool:
        known = _follows(size, conditions)
        if known is None:
            raise UndecidedSizeError(f"whether the size {size} is above 0 is not known before launch")
        return known

    if not conditions:
        yield
    else:
        with _answered(is_positive):
            yield


def _follows(size: Any, conditions: Sequence[Any]) -> bool | None:
    if any(least(size - condition) >= 0 for condition in conditions):
        return True
    return False if any(least(1 - size - condition) >= 0 for condition in conditions) else None


@contextmanager
def _answered(is_positive: Callable[[Any], bool]) -> Generator[None]:
    token = ASSUMED.set(is_positive)
    try:
        yield
    finally:
        ASSUMED.reset(token)
