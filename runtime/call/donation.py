"""Arguments that are donated: results take their memory over, and their arrays must not be used any more."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.support.donation import Donation, give_away
from tenon.dialects.support.user_place import Place
from tenon.runtime.call.devices.arrays import is_marked, mark_of
from tenon.runtime.call.loaded import native_call
from tenon.runtime.cpu.python_objects import ARRAY


class OverwrittenError(RuntimeError):
    """A call failed, by the error that is the cause of this one, when it might have begun to overwrite what was
    donated: the arguments of these numbers."""

    def __init__(self, message: str, positions: Sequence[int]) -> None:
        super().__init__(message)
        self.positions = positions


class Donated(NamedTuple):
    """The name of a function of which arguments are donated, and those of its inputs."""

    function: str
    names: Sequence[str]

    def given_away(self, results: Sequence[Any], arrays: Sequence[Any], place: Place) -> list[Any]:
        """The results, other arrays in the places of those that are inputs, which are marked."""
        names = {id(a): name for a, name in zip(arrays, self.names, strict=True)}
        return [self.taken(r, names[id(r)], place) if id(r) in names else r for r in results]

    def lost(self, arrays: Sequence[Any], positions: Sequence[int], place: Place) -> None:
        """Mark the arguments of a call that failed when it might have begun to overwrite those at `positions`."""
        for position in positions:
            self.taken(arrays[position], self.names[position], place, is_lost=True)

    def marks(self, positions: Sequence[int], place: Place) -> tuple[Any, ...]:
        """For each of these arguments of a call, arrays of CuPy, what it becomes a view of (`mark_of`; -1: none)."""
        cupy = sys.modules["cupy"]
        named = [None if position < 0 else self.names[position] for position in positions]
        return tuple([None if name is None else mark_of(cupy, self._donation(name, place)) for name in named])

    def _donation(self, argument: str, place: Place, *, is_lost: bool = False) -> Donation:
        donation = Donation()
        donation.function, donation.argument, donation.held = self.function, argument, None
        donation.code, donation.instruction = (None, None) if place is None else place
        donation.is_lost = is_lost
        return donation

    def taken(self, array: Any, argument: str, place: Place, *, is_lost: bool = False) -> Any:
        """Another array in the place of an argument, which is marked."""
        donation = self._donation(argument, place, is_lost=is_lost)
        if type(array) is not np.ndarray:
            made = array.view()
            if not is_marked(array, mark_of(sys.modules["cupy"], donation)):
                give_away(array, donation)
            return made
        if native_call() is None:  # it is not known how arrays lie in memory
            return array
        made = array.view()
        donation.held = array.base
        array.flags.writeable = False
        base = ctypes.c_size_t.from_address(id(array) + ARRAY.offsets["base"])
        before, base.value = base.value, id(donation)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(donation))
        if before:
            ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(before))
        return made
