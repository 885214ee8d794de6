"""Plain functions of several ops that run on arrays as one program, as functions of `jit` do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from tenon.dialects.definition.value import insertion_point

P = ParamSpec("P")
R = TypeVar("R")

LARGE = 1 << 18
"""The bytes of what a call is given and gives from which on a second one like it is worth a program."""
_MOST = 64
"""How many programs of a function are kept."""
_OFTEN = 16
"""How many calls with the same numbers are worth a program, where others came before with other ones."""
_PLAIN = frozenset({int, bool, str, type(None), type, np.dtype})

_COMPILERS: list[Callable[[Callable[..., Any], Sequence[str]], Callable[..., Any]]] = []
_TENSORS: list[Callable[[Any], np.ndarray[Any, Any] | None]] = []


def install_compiler(compiler: Callable[[Callable[..., Any], Sequence[str]], Callable[..., Any]]) -> None:
    """Set what makes a program of a function, of whose arguments some, by name, are no arrays."""
    _COMPILERS[:] = [compiler]


def install_tensors(elements: Callable[[Any], np.ndarray[Any, Any] | None]) -> None:
    """Set what has the elements of a value that is a tensor which programs take as it is now, and `None` of others."""
    _TENSORS[:] = [elements]


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
    """Have a function that is called on large arrays or tensors as it was before, with those of the same shapes and
    dtypes and all else equal, run as one compiled program: op by op, each result in between goes through memory.

    It must not look at elements, and give arrays. It may be a method of what tells its kind (see `kind_of`). What
    cannot be traced, such as a setting that is an array, goes on op by op. So does what is called with other numbers
    each time, as a rate that falls step by step is: only the first ones, and those that come often, have a program.
    """
    programs: dict[Hashable, Any] = {}  # or how many calls were seen that none was made for
    first: dict[Hashable, Hashable] = {}  # the numbers of the first calls of a kind

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        told = None if insertion_point() is not None or not _COMPILERS else _kind(args, kwargs)
        program = None if told is None else programs.get(told, 0)
        if program is None:
            return function(*args, **kwargs)
        kind, numbers = cast("tuple[Hashable, Hashable]", told)
        if program == 0:
            result = function(*args, **kwargs)
            results = result if isinstance(result, tuple) else (result,)
            if sum(map(_bytes_of, (*args, *kwargs.values(), *results))) >= LARGE:
                for known in (programs, first):
                    if len(known) >= _MOST:
                        known.pop(next(iter(known)), None)
                first.setdefault(kind, numbers)
                # What gives an argument back as it is does so in every call.
                programs[told] = None if any(r is a for r in results for a in args) else 1
            return result
        data = filter(is_data, (*args, *kwargs.values()))
        if not isinstance(program, int):
            return program(*data)
        if program < _OFTEN and first.get(kind) != numbers:
            programs[told] = program + 1
            return function(*args, **kwargs)
        program = _COMPILERS[0](_of_arrays(function, args, kwargs), ())
        try:
            result = program(*data)
        except (TypeError, ValueError):
            programs[told] = None
            return function(*args, **kwargs)
        programs[told] = program
        return result

    return run


def one_program_of_large(function: Callable[P, R]) -> Callable[P, R]:
    """The same for calls of which what is given is large already: others take no time to be told apart."""
    of_large = one_program_when_large(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        is_large = sum(map(_bytes_of, (*args, *kwargs.values()))) >= LARGE
        return of_large(*args, **kwargs) if is_large else function(*args, **kwargs)

    return run


def _kind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Hashable] | None:
    """What calls have in common that one program serves, and the numbers among their arguments; `None` where something
    else than arrays of NumPy, tensors, numbers, names and shapes is given."""
    parts: list[Hashable] = []
    numbers: list[Hashable] = []
    for name, value in (*enumerate(args), *kwargs.items()):
        kind = kind_of(value)
        if kind is None:
            return None
        if type(value) in (int, float):
            numbers.append(kind)
            kind = type(value)
        parts.append((name, kind))
    return tuple(parts), tuple(numbers)


def kind_of(value: Any) -> Hashable:
    """What is the same for arguments that one program serves; `None` for those of which that is not known.

    Other classes tell it by a method `__tenon_kind__`.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is tuple and all(type(item) is int for item in value)):
        return kind, value
    if kind is float:
        return kind, value.hex()
    array = _elements(value)
    if array is not None:
        return kind, array.shape, array.dtype
    told = getattr(kind, "__tenon_kind__", None)
    return None if told is None else told(value)


def _elements(value: Any) -> Any:
    """The elements of an array or of a tensor, and `None` of what is neither."""
    if type(value) is np.ndarray or isinstance(value, np.generic):
        return value
    return _TENSORS[0](value) if _TENSORS else None


def _bytes_of(value: Any) -> int:
    elements = _elements(value)
    return elements.nbytes if type(elements) is np.ndarray else 0


def is_data(value: Any) -> bool:
    """Whether a value is an argument of programs: an array or a tensor."""
    return _elements(value) is not None


def _of_arrays(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., R]:
    """`function` of its arrays alone, with all else as it is in a call, whatever becomes of it: a copy of a module is
    what the module is now, for all of this kind."""
    given = (*args, *kwargs.values())
    from_call, others = [*map(is_data, given)], [deepcopy(value) for value in given if not is_data(value)]
    count, names = len(args), list(kwargs)

    def called(*arrays: Any) -> R:
        left, rest = iter(arrays), iter(others)
        values = [next(left if is_one else rest) for is_one in from_call]
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    called.__name__ = function.__name__
    return called


def _has_numbers(value: Any) -> bool:
    """Whether Python's numbers are given, which take the dtype of arrays beside them: arguments of programs do not."""
    return isinstance(value, int | float) or (
        isinstance(value, list | tuple) and any(isinstance(item, list | tuple | int | float) for item in value)
    )
