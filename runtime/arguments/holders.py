"""What functions that are compiled may hold: nothing that would be constant in programs and change unnoticed."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from tenon.dialects.definition.value import insertion_point
from tenon.runtime.arguments.arguments import is_array
from tenon.runtime.arguments.tree import flatten, is_node, paths, static_key


def check_holds_no_arrays(function: Callable[..., Any]) -> None:
    """Raise `TypeError` for a tree that is called, or a bound method of one, as its arrays would be constants."""
    holder = function.__self__ if isinstance(function, types.MethodType) else function
    if insertion_point() is not None:
        return
    if not is_node(type(holder)):
        if holder is not function and getattr(holder, "__dict__", None):
            _check_cannot_change(holder)
        return
    leaves, structure = flatten(holder)
    arrays = {path: leaf for path, leaf in zip(paths(structure), leaves, strict=True) if is_array(leaf)}
    if arrays and not (_is_value(holder) and all(isinstance(leaf, int | float) for leaf in arrays.values())):
        kind = type(holder).__name__
        shown = ", ".join([*arrays][:3]) + (", ..." if len(arrays) > 3 else "")
        raise TypeError(
            f"jit: what this {kind} holds ({shown}) would be constant, so that later changes do not reach it; compile "
            "a function that takes it, as jit(lambda model, x: model(x)), and .freeze(model) that if it stays as it is"
        )


def _check_cannot_change(holder: Any) -> None:
    """Raise `TypeError` for an object whose attributes could be others at later calls of its method."""
    try:
        static_key(holder)
    except TypeError:
        raise TypeError(
            f"jit: this {type(holder).__name__}, whose method is compiled, could change without being noticed; make it "
            "a dataclass or a tenon.nn.Module and compile a function that takes it, or use tenon.trace, which notices"
        ) from None


def _is_value(holder: Any) -> bool:
    """Whether an object is told apart by what it holds, as frozen dataclasses are: what such a one holds stays."""
    if type(holder).__hash__ in (None, object.__hash__):
        return False
    try:
        hash(holder)
    except TypeError:  # it holds what can change
        return False
    return True
