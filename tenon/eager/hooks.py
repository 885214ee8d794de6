"""Hooks on tensors: what is called with a gradient when it is found."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from tenon.eager.recording import Stored
from tenon.eager.tape import Source


def hooked(source: Source, gradient: Any) -> Any:
    """A gradient as the hooks of its source leave it."""
    for hook in [*source.hooks.values()]:
        changed = hook(gradient)
        if changed is None:
            continue
        if not isinstance(changed, Stored):
            raise TypeError(f"a hook gives a {type(changed).__name__} where a tensor or None is needed")
        if changed._array.shape != source.shape:
            raise ValueError(
                f"a hook gives a gradient of shape {changed._array.shape} for a tensor of shape {source.shape}"
            )
        gradient = changed
    return gradient
