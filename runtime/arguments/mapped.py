"""Trees with other leaves, where nothing asks for their structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenon.runtime.arguments.tree import node_kind


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """`tree` with what `function` makes of each leaf; the static parts are the same objects."""
    kind = type(tree)
    known = node_kind(kind)
    if known is None:
        return function(tree)
    take_apart, put_together = known
    names, values, static = take_apart(tree)
    return put_together(kind, names, [mapped(value, function) for value in values], static)


__all__ = ["mapped"]
