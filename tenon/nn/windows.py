"""What modules with windows share: how they take sizes, and how they hand settings to their op."""

from __future__ import annotations

from typing import Any, ClassVar

from tenon.nn.module import Module

Sizes = int | tuple[int, ...]


def sizes_of(value: Sizes, rank: int) -> tuple[int, ...]:
    """One size for each of `rank` dimensions."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


class WindowModule(Module):
    """A module of `RANK` spatial dimensions that is a function with `SETTINGS`, which are attributes."""

    RANK: ClassVar[int]
    SETTINGS: ClassVar[tuple[str, ...]]

    def _settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in self.SETTINGS}
