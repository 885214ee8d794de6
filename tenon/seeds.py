"""The seeds of all that is drawn without one of its own: parameters of layers, masks of dropout, random tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.states import check_state

Seed = int | np.random.Generator | None


class _Seeds:
    """Where layers that are given no seed get one: each another one, in the order in which they are made."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.start(None)

    def start(self, seed: int | None) -> None:
        with self._lock:
            self._sequence = np.random.SeedSequence(seed)

    @property
    def state(self) -> dict[str, Any]:
        """What seeds the next layers get."""
        with self._lock:
            return {"entropy": self._sequence.entropy, "spawned": self._sequence.n_children_spawned}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        check_state("set_rng_state", state, ["entropy", "spawned"])
        with self._lock:
            spawned = int(state["spawned"])
            self._sequence = np.random.SeedSequence(int(state["entropy"]), n_children_spawned=spawned)

    def next(self) -> np.random.SeedSequence:
        with self._lock:
            return self._sequence.spawn(1)[0]


_SEEDS = _Seeds()


def manual_seed(seed: Any) -> None:
    """Make what the layers made from now on draw (weights, masks of dropout) a function of `seed` and of their order.

    Without it, layers that are given no `seed` of their own differ from process to process. Raises `TypeError` for a
    seed that is no integer, `ValueError` for a negative one.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"manual_seed: seed is {seed!r} where an integer is needed")
    if seed < 0:
        raise ValueError(f"manual_seed: seed is {seed}, which is negative")
    _SEEDS.start(int(seed))


def get_rng_state() -> dict[str, Any]:
    """What the layers made from now on draw from, as integers. (Masks of dropout are drawn from buffers of their layer,
    which are part of its `state_dict`.)"""
    return _SEEDS.state


def set_rng_state(state: dict[str, Any]) -> None:
    """Go on drawing where `get_rng_state` was asked."""
    _SEEDS.state = state


def generator_of(seed: Seed) -> np.random.Generator:
    """A generator as it is, or a new one from a seed; `None` is a seed that no other layer has (see `manual_seed`)."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(_SEEDS.next() if seed is None else seed)


def new_key(seed: Seed) -> np.ndarray[Any, Any]:
    """The key, i32[2], of random numbers that are drawn from a seed."""
    return generator_of(seed).integers(0, 2**31, 2, np.int32)
