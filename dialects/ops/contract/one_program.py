"""Plain functions of several ops that run on arrays as one program, as functions of `jit` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tenon.dialects.definition.value import insertion_point

P = ParamSpec("P")
R = TypeVar("R")

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


def _has_numbers(value: Any) -> bool:
    """Whether Python's numbers are given, which take the dtype of arrays beside them: arguments of programs do not."""
    return isinstance(value, int | float) or (
        isinstance(value, list | tuple) and any(isinstance(item, list | tuple | int | float) for item in value)
    )
