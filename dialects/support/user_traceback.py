"""Tracebacks that show the user's program: Tenon's own frames are left out where an error was raised on purpose."""

from __future__ import annotations

import dis
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import ParamSpec, TypeVar

_RAISE = dis.opmap["RAISE_VARARGS"]
# `contextlib` stands between the blocks of a `with` and nothing else, `typing_extensions` before what is deprecated.
_OWN = ("tenon", "xdsl", "contextlib", "typing_extensions")
_SHORTENED = "_tenon_frames_hidden"
_OP = "_tenon_op"
_ENDLESS = 20
"""How often a function is called by itself that is taken to have no end, where the stack ended."""
_IS_SHOWING_ALL: list[Callable[[], bool]] = []

P = ParamSpec("P")
R = TypeVar("R")


def show_all_frames_if(asked: Callable[[], bool]) -> None:
    """Leave tracebacks whole wherever `asked` says so."""
    _IS_SHOWING_ALL[:] = [asked]


def shows_user_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Let errors that leave `function` show the frames of the user's program alone (see `hide_own_frames`)."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    return wrapper


def show_user_frames_at_the_end() -> None:
    """Have errors that end the program printed with the frames of the user's program alone, whatever raised them: a
    method of a tensor, a module or an optimizer is not worth a `try` at each call."""
    previous = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if isinstance(error, Exception):
            hide_own_frames(error)
        previous(kind, error, error.__traceback__ or traceback)

    sys.excepthook = show


def call_user(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)`, where arguments that do not fit are the user's mistake and no defect of Tenon."""
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # nothing of `function` ran
            raise TypeError(*error.args) from None
        raise


def hide_own_frames(error: BaseException) -> None:
    """Take Tenon's own frames out of the tracebacks of `error` and of what it was raised from.

    A traceback that ends in Tenon without a `raise` statement is a defect there, and stays whole; but one in which a
    function of the user's calls itself by way of Tenon until the stack ends, says so.
    """
    with suppress(RecursionError):  # which `error` is as well, most likely: further out there is stack enough
        _hide_own_frames(error)


def _hide_own_frames(error: BaseException) -> None:
    if _IS_SHOWING_ALL and _IS_SHOWING_ALL[0]():
        return
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = list(_frames(current.__traceback__))
        if isinstance(current, RecursionError) and (culprit := _endless(frames)) is not None:
            _tell_recursion(current, frames, culprit)
        elif frames and (_is_shortened(current) or not _is_own(frames[-1]) or _is_raised_on_purpose(frames[-1])):
            current.__traceback__ = _joined([frame for frame in frames if not _is_own(frame)])
            vars(current)[_SHORTENED] = True
        current = current.__cause__ or current.__context__


def _endless(frames: Sequence[TracebackType]) -> TracebackType | None:
    """The last frame of the function of the user's that calls itself without end; `None` where none does."""
    own = [frame for frame in frames if not _is_own(frame)]
    counts = Counter([frame.tb_frame.f_code for frame in own])
    if not counts or (most := counts.most_common(1)[0])[1] < _ENDLESS:
        return None
    return next(frame for frame in reversed(own) if frame.tb_frame.f_code is most[0])


def _tell_recursion(error: RecursionError, frames: Sequence[TracebackType], culprit: TracebackType) -> None:
    """Say which function, of which op, calls itself, and leave of the traceback what leads there."""
    code = culprit.tb_frame.f_code
    ops = [frame.tb_frame.f_locals.get("cls") for frame in frames if _is_own(frame)]
    owners = [op for op in ops if isinstance(op, type) and code.co_qualname.startswith(f"{op.__qualname__}.")]
    names = [name for op in owners if isinstance(name := getattr(op, "name", None), str)]
    name = vars(error).setdefault(_OP, names[0]) if names else vars(error).get(_OP)  # further out these frames are gone
    of = f", a hook of {name}," if name else ""
    error.__notes__ = [f"{code.co_qualname}{of} calls itself without end ({code.co_filename}:{culprit.tb_lineno})"]
    error.__cause__ = error.__context__ = None
    own = [frame for frame in frames[: frames.index(culprit) + 1] if not _is_own(frame)]
    first = next(index for index, frame in enumerate(own) if frame.tb_frame.f_code is code)
    again = [frame for frame in own[first:] if frame.tb_frame.f_code.co_filename == code.co_filename]
    error.__traceback__ = _joined([*own[:first], *again[:_ENDLESS]])
    vars(error)[_SHORTENED] = True


def _is_shortened(error: BaseException) -> bool:
    """Whether this was done further in; the frame that raised `error` is gone then."""
    return _SHORTENED in vars(error)


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_own(traceback: TracebackType) -> bool:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0] in _OWN


def _is_raised_on_purpose(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == _RAISE


def _joined(frames: list[TracebackType]) -> TracebackType | None:
    joined: TracebackType | None = None
    for kept in reversed(frames):
        joined = TracebackType(joined, kept.tb_frame, kept.tb_lasti, kept.tb_lineno)
    return joined


def user_stacklevel() -> int:
    """The `stacklevel` with which a warning of the caller points at the innermost line that is not Tenon's own."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tenon":
        level, frame = level + 1, frame.f_back
    return level
