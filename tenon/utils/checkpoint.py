"""`torch.utils.checkpoint` by its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tenon.control_flow import checkpoint
from tenon.nn import Sequential


def checkpoint_sequential(
    functions: Sequential | Iterable[Callable[[Any], Any]], segments: int, input: Any, **settings: Any
) -> Any:
    """What `functions` give one after the other, in so many parts, each of which is a `checkpoint` but for the last.

    `settings` are those of `checkpoint`. Raises `ValueError` where there are fewer functions than parts.
    """
    layers = [*functions]
    if not 1 <= segments <= len(layers):
        raise ValueError(f"checkpoint_sequential: segments is {segments} where 1 to {len(layers)} are needed")
    size = len(layers) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for layer in layers[start:end]:
                x = layer(x)
            return x

        return run

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(part(start, start + size), input, **settings)
    return part(size * (segments - 1), len(layers))(input)


__all__ = ["checkpoint", "checkpoint_sequential"]
