"""Functions of elements and of rows with PyTorch's arguments: `inplace`, and the axes that it takes by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenon
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.eager.operators import changed_to
from tenon.eager.tensor import Tensor


def in_place(input: Any, result: Any, name: str) -> Any:
    """What `name` gives with `inplace`: a tensor takes the result as its elements; what is traced stays as it is."""
    return changed_to(input, result, name) if isinstance(input, Tensor) else result


def activation(name: str, *settings: str) -> Callable[..., Any]:
    """`tenon.name(input, *settings)`, behind whose settings PyTorch has `inplace`."""
    plain = getattr(tenon, name)
    names = (*settings, "inplace")

    def function(input: Any, *args: Any, **given: Any) -> Any:
        if not args and not given:
            return plain(input)
        if len(args) > len(names):
            raise TypeError(f"{name}: takes at most {len(names) + 1} arguments (input, {', '.join(names)})")
        for known_as, value in zip(names, args, strict=False):
            if known_as in given:
                raise TypeError(f"{name}: argument {known_as!r} is given twice")
            given[known_as] = value
        replaces = given.pop("inplace", False)
        result = plain(input, **given)
        return in_place(input, result, name) if replaces else result

    function.__name__ = function.__qualname__ = name
    function.__module__ = "tenon.nn.functional"
    function.__doc__ = f"`tenon.{name}`; with `inplace`, a tensor takes the result as its elements."
    return function


@one_program_of_large
def softmin(input: Any, dim: int = -1, dtype: Any = None) -> Any:
    """`tenon.softmax` of -`input`, which is converted to `dtype` before."""
    return tenon.softmax(-(input if dtype is None else tenon.cast(input, dtype=dtype)), axis=dim)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """`tenon.normalize` along axis 1, unless `dim` says another."""
    return tenon.normalize(input, p=p, axis=dim, eps=eps)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """`tenon.cosine_similarity` along axis 1, unless `dim` says another."""
    return tenon.cosine_similarity(x1, x2, axis=dim, eps=eps)
