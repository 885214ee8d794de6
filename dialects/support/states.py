"""States of objects, which were saved: whether one has what there is to be taken over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def check_state(what: str, state: Any, needed: Collection[str]) -> None:
    """Raise `TypeError` for a state of `what` that is no dict, and `ValueError` for one that lacks something."""
    if not isinstance(state, Mapping):
        raise TypeError(f"{what}: the state is a {type(state).__name__} where a dict is needed")
    if lacking := [name for name in needed if name not in state]:
        raise ValueError(
            f"{what}: the state lacks {', '.join(lacking)}; it has {', '.join(map(str, state)) or 'nothing'}"
        )
