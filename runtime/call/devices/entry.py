"""Entries for calls of programs on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.user_place import user_place
from tenon.runtime.arguments.arguments import Static
from tenon.runtime.arguments.tree import Structure
from tenon.runtime.call.devices.arrays import template
from tenon.runtime.call.donation import Donated
from tenon.runtime.call.entry import Entry, building, called, guarded, opened
from tenon.runtime.call.entry_words import NOT_TRACED, Guard, Place, Words
from tenon.runtime.call.layout import ENTRY, RESULT, Step
from tenon.runtime.call.steps import Arguments, IndescribableError


@dataclass(frozen=True)
class DeviceLaunch:
    """What an entry calls on the GPU of this number: `launch` takes the addresses of inputs and results as bytes,
    `allocate` gives memory of so many bytes.

    Each input is an address that is the same at every call, or 0. Each result is the input whose memory it takes over
    (-1: none), a shape and a dtype. `kept` is kept.
    """

    cupy: Any
    ordinal: int
    inputs: Sequence[int]
    results: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    launch: Callable[[bytes], None]
    allocate: Callable[[int], Any]
    kept: Any


class _DeviceArguments(Arguments):
    """Arguments whose leaves are arrays of CuPy on one device."""

    def __init__(self, words: Words, given: int, launch: DeviceLaunch) -> None:
        super().__init__(words, given)
        self._launch = launch

    def leaf(self, register: int, leaf: Any) -> None:
        if type(leaf) is Static:
            self.constant(register, leaf.value)
            return
        if type(leaf) is not self._launch.cupy.ndarray:
            raise IndescribableError
        shape = tuple(leaf.shape)
        self.step(
            "device",
            Step.device,
            register,
            leaf=self.leaves,
            dtype=self.words.keep(leaf.dtype),
            rank=len(shape),
            shape=self.words.add(shape),
            byte_count=prod(shape) * leaf.dtype.itemsize,
            ordinal=self._launch.ordinal,
        )
        self.leaves += 1


def device_entry(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    structure: Structure,
    result: Structure,
    launch: DeviceLaunch,
    precision: int,
    guards: Sequence[Guard],
    donated: Donated | None,
) -> Entry:
    """The entry for calls like `(args, kwargs)`, whose structure is given, as is that of the result. Raises
    `IndescribableError`."""
    words = Words()
    arguments = _DeviceArguments(words, len(args) + len(kwargs), launch)
    opened(arguments, args, kwargs, structure, None, NOT_TRACED)
    given = [position for position, address in enumerate(launch.inputs) if not address]
    is_taken = donated is not None and any(donor >= 0 for donor, _, _ in launch.results)
    if len(given) != arguments.leaves or (is_taken and len(given) < len(launch.inputs)):
        raise IndescribableError
    results: list[int | Place] = []
    for donor, shape, dtype in launch.results:
        is_new = donated is None or donor < 0
        size = prod(shape) * dtype.itemsize
        if not size:
            raise IndescribableError
        described: dict[str, int | Place] = {
            "leaf": -1 if is_new else donor,
            "like": words.keep(template(launch.cupy, shape, dtype)) if is_new else 0,
            "byte_count": words.keep(size) if is_new else 0,
        }
        results += RESULT.words(dict.fromkeys(RESULT.fields, 0) | described)
    description: dict[str, int | Place] = {
        **called(arguments, args, kwargs, building(arguments, result, None, NOT_TRACED)),
        **guarded(words, guards, NOT_TRACED, -1, precision),
        **_taking_over(words, launch, donated if is_taken else None),
        "input_count": len(launch.inputs),
        "held": words.add(launch.inputs),
        "held_ends": words.add(launch.inputs),
        "result_count": len(launch.results),
        "results": words.add(results),
        "launch": words.keep(launch.launch),
        "allocate": words.keep(launch.allocate),
        "arena_slot": -1,
        "arena": words.keep(launch),  # nothing is there: what is not null counts as an arena that nobody has taken
    }
    return Entry(words, dict.fromkeys(ENTRY.fields, 0) | description, (launch, structure, result))


_PLACES = 16
"""Lines of the user's that call an entry of which it is kept what arrays are views of that were given away there."""


def _taking_over(words: Words, launch: DeviceLaunch, donated: Donated | None) -> Mapping[str, int | Place]:
    """What is said of arrays whose memory results take over."""
    if donated is None:
        return {"takes_over": 0}
    donors = [donor for donor, _, _ in launch.results]
    known = BoundedCache[tuple[Any, tuple[Any, ...]]](_PLACES)

    def marks(code: Any, instruction: int | None) -> tuple[Any, ...]:
        key = id(code), instruction
        found = known.get(key)
        if found is None:
            place = None if code is None or instruction is None else (code, instruction)
            found = known[key] = code, donated.marks(donors, place)
        return found[1]

    def lost(leaves: Sequence[Any]) -> None:
        donated.lost(leaves, [donor for donor in donors if donor >= 0], user_place())

    told = {"marks": marks, "lost": lost, "spares": [None] * len(donors)}
    return {"takes_over": 1} | {name: words.keep(value) for name, value in told.items()}
