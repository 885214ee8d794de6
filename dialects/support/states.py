"""States of objects, which were saved: whether one has what there is to be taken over."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def check_state(what: str, state: Any, needed: Collection[str]) -> None:
    """Raise `TypeError` for a state of `what` that is no dict, and `ValueError` for one that lacks something."""
    if not isinstance(state, Mapping):
        raise TypeError(f"{what}: the state is a {type(state).__name__} where a dict is needed")
    if lacking := [name for name in needed if name not in state]:
        raise ValueError(
            f"{what}: the state lacks {_some(lacking)}; it has {_some(list(map(str, state))) or 'nothing'}"
        )


def _some(names: Sequence[str]) -> str:
    """The first of names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


_MOST_NAMES = 8
"""Names that a message lists: a model's state may have thousands."""
