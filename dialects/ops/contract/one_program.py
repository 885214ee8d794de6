"""Plain functions of several ops that run on arrays as one program, as functions of `jit` do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tenon.dialects.definition.value import insertion_point

P = ParamSpec("P")
R = TypeVar("R")

LARGE = 1 << 18
"""The bytes of what a call is given and gives from which on a second one like it is worth a program."""
_MOST = 64
"""How many programs of a function are kept."""
_NEW: Any = object()
_PLAIN = frozenset({int, bool, str, type(None), type, np.dtype})

_COMPILERS: list[Callable[[Callable[..., Any], Sequence[str]], Callable[..., Any]]] = []


def install_compiler(compiler: Callable[[Callable[..., Any], Sequence[str]], Callable[..., Any]]) -> None:
    """Set what makes a program of a function, of whose arguments some, by name, are no arrays."""
    _COMPILERS[:] = [compiler]


def one_program(*settings: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function that is called on arrays run as one compiled program for each kind of arguments, of which those
    called `settings` are no arrays; in a trace, and of Python's numbers and lists of them, as it is."""

    def marked(function: Callable[P, R]) -> Callable[P, R]:
        programs: list[Callable[..., Any]] = []

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            given = [*args, *[value for name, value in kwargs.items() if name not in settings]]
            if insertion_point() is not None or not _COMPILERS or any(map(_has_numbers, given)):
                return function(*args, **kwargs)
            if not programs:
                programs.append(_COMPILERS[0](function, settings))
            return programs[0](*args, **kwargs)

        return run

    return marked


def one_program_when_large(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function that is called on large arrays as it was before, with arrays of the same shapes and dtypes and
    all else equal, run as one compiled program: op by op, each result in between goes through memory.

    It must not look at elements, and give arrays.
    """
    programs: dict[Hashable, Any] = {}  # `None` where calls were seen that none was made for

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        kind = None if insertion_point() is not None or not _COMPILERS else _kind(args, kwargs)
        if kind is None:
            return function(*args, **kwargs)
        program = programs.get(kind, _NEW)
        if program is _NEW:
            result = function(*args, **kwargs)
            if sum(map(_bytes_of, (*args, *kwargs.values(), result))) >= LARGE:
                if len(programs) >= _MOST:
                    programs.pop(next(iter(programs)), None)
                programs[kind] = None
            return result
        if program is None:
            program = programs[kind] = _COMPILERS[0](_of_arrays(function, args, kwargs), ())
        return program(*filter(_is_data, (*args, *kwargs.values())))

    return run


def _kind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What calls have in common that one program serves; `None` where something else than arrays of NumPy, numbers,
    names and shapes is given."""
    parts: list[Hashable] = []
    for name, value in (*enumerate(args), *kwargs.items()):
        kind = type(value)
        if _is_data(value):
            parts.append((name, value.shape, value.dtype))
        elif kind is float:
            parts.append((name, kind, value.hex()))
        elif kind in _PLAIN or (kind is tuple and set(map(type, value)) <= {int}):
            parts.append((name, kind, value))
        else:
            return None
    return tuple(parts)


def _bytes_of(value: Any) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _is_data(value: Any) -> bool:
    return type(value) is np.ndarray or isinstance(value, np.generic)


def _of_arrays(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., R]:
    """`function` of its arrays alone, with all else as it is in a call."""
    given = (*args, *kwargs.values())
    is_data, others = [*map(_is_data, given)], [value for value in given if not _is_data(value)]
    count, names = len(args), list(kwargs)

    def called(*arrays: Any) -> R:
        left, rest = iter(arrays), iter(others)
        values = [next(left if is_one else rest) for is_one in is_data]
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    called.__name__ = function.__name__
    return called


def _has_numbers(value: Any) -> bool:
    """Whether Python's numbers are given, which take the dtype of arrays beside them: arguments of programs do not."""
    return isinstance(value, int | float) or (
        isinstance(value, list | tuple) and any(isinstance(item, list | tuple | int | float) for item in value)
    )
