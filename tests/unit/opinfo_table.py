"""PyTorch's ops, by their names in OpInfo, written with Tenon's: the table, which `opinfo_*.py` fill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tenon

TABLE: dict[str, Callable[..., Any]] = {}

VALUES_ALONE = {
    "nextafter": "the next float has no gradient here, and that of the float before it in PyTorch",
    "nn.functional.max_unpool1d": "of elements at one place all get a gradient in PyTorch, only the last one here",
    "nn.functional.max_unpool2d": "as above; the samples named .grad have no two elements at one place",
    "nn.functional.max_unpool3d": "as above",
}
"""Ops of which gradients are not compared, and why."""


class Unshared(Exception):
    """A sample asks for something that Tenon does not have."""


def shared(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = function
        return function

    return enter


def plain(*pairs: str) -> None:
    """Ops that take the same operands: `"mul=multiply"`, or the name alone where it is the same."""
    for pair in pairs:
        theirs, _, ours = pair.partition("=")

        def call(*args: Any, ours: str = ours or theirs, **kwargs: Any) -> Any:
            return getattr(tenon, ours)(*args, **kwargs)

        shared(theirs)(call)


def axes(dim: Any) -> Any:
    """`dim` as `axis`: PyTorch takes an empty list for all."""
    return None if dim is None or (isinstance(dim, Sequence) and not dim) else dim


def scaled(x: Any, alpha: float) -> Any:
    return x if alpha == 1 else tenon.multiply(x, alpha)
