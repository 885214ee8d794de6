"""Arguments that are donated: results take their memory over, and their arrays must not be used any more."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.support.donation import Donation, give_away
from tenon.dialects.support.user_place import Place
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

    def _donation(self, argument: str, place: Place, is_lost: bool) -> Donation:
        donation = Donation()
        donation.function, donation.argument, donation.held = self.function, argument, None
        donation.code, donation.instruction = (None, None) if place is None else place
        donation.is_lost = is_lost
        return donation

    def taken(self, array: Any, argument: str, place: Place, *, is_lost: bool = False) -> Any:
        """Another array in the place of an argument, which is marked."""
        donation = self._donation(argument, place, is_lost)
        if type(array) is not np.ndarray:
            give_away(array, donation)
            return array.view()
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
