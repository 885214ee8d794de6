"""The seeds of all that is drawn without one of its own: parameters of layers, masks of dropout, random tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import on_host
from tenon.dialects.support.states import check_state
from tenon.runtime.tracing.watch import note_once

Seed = int | np.random.Generator | None


class CountedStream:
    """Where programs of `tenon.trace` draw what is drawn without a key: of a key, by a count that each call goes on
    with, so that the state is an input of the program."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def start(self, entropy: Any, calls: int = 0) -> None:
        """Begin the stream of a seed, or go on where so many calls had been."""
        sequence = np.random.SeedSequence(entropy, spawn_key=_APART)
        self.state["key"] = sequence.generate_state(2).view(np.int32)
        self.state["calls"] = np.array(calls, np.int32)

    def __tenon_numbers__(self) -> tuple[str, ...]:
        """What `tenon.trace` takes as an input besides arrays: nothing that is there."""
        return ("calls",)


_APART = (2**32 - 1, 0)
"""Of all that seeds spawn, what no layer gets."""
COUNTED_STREAM = CountedStream()


class _Seeds:
    """Where layers that are given no seed get one: each another one, in the order in which they are made."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.start(None)

    def start(self, seed: int | None, spawned: int = 0, counted: int = 0) -> None:
        note_once()
        with self._lock:
            self._sequence = np.random.SeedSequence(seed, n_children_spawned=spawned)
            COUNTED_STREAM.start(self._sequence.entropy, counted)

    @property
    def state(self) -> dict[str, Any]:
        """What seeds the next layers get."""
        with self._lock:
            counted = int(on_host(COUNTED_STREAM.state["calls"]))
            return {
                "entropy": self._sequence.entropy,
                "spawned": self._sequence.n_children_spawned,
                "counted": counted,
            }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        check_state("set_rng_state", state, ["entropy", "spawned"])
        self.start(int(state["entropy"]), int(state["spawned"]), int(state.get("counted", 0)))

    def next(self) -> np.random.SeedSequence:
        note_once()
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


class _Examples(threading.local):
    axes: tuple[tuple[str, Any], ...] = ()


_EXAMPLES = _Examples()
"""For each `vmap` around what is traced now, what it says of random numbers, and the number of the example."""


@contextmanager
def drawing_for_examples(randomness: str, number: Any) -> Generator[None]:
    """What is drawn inside is for one of many examples: one's own with a `number`, that of all without."""
    before = _EXAMPLES.axes
    _EXAMPLES.axes = (*before, (randomness, number))
    try:
        yield
    finally:
        _EXAMPLES.axes = before


def key_for_example(key: Any) -> Any:
    """The key of one draw, which each example has its own of, where `vmap` says so. Raises `RuntimeError` where it
    forbids draws."""
    for randomness, number in _EXAMPLES.axes:
        if randomness == "error":
            raise RuntimeError(
                "vmap: random numbers are drawn in the function, and randomness is 'error'; write "
                "vmap(..., randomness='different') to have other ones for each example, or 'same' for those of one"
            )
        key = key if number is None else ops.fold_in(key, number)
    return key


class _Noted(threading.local):
    draws: list[Any] | None = None
    again: Iterator[Any] | None = None


_NOTED = _Noted()


class Draws:
    """What a function draws while it is traced for one call, so that it draws the same where it is traced for that call
    once more."""

    def __init__(self) -> None:
        self._found: list[Any] = []

    @contextmanager
    def noted(self) -> Generator[None]:
        """Note what is drawn inside."""
        before, _NOTED.draws = _NOTED.draws, self._found
        try:
            yield
        finally:
            _NOTED.draws = before

    @contextmanager
    def again(self) -> Generator[None]:
        """Draw inside what was drawn before."""
        before, _NOTED.again = _NOTED.again, iter(self._found)
        try:
            yield
        finally:
            _NOTED.again = before


T = TypeVar("T")


def drawn_once(draw: Callable[[], T]) -> T:
    """What `draw` gives for a call that is traced, or what it gave where that was traced before."""
    note_once()
    found = draw() if _NOTED.again is None else next(_NOTED.again)
    if _NOTED.draws is not None:
        _NOTED.draws.append(found)
    return found
