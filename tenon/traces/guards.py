"""Whether what a traced program was made from is still there: what it read, and the types of what it is given."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

import numpy as np

from tenon.eager.recording import Stored
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.layout import Load, Test
from tenon.runtime.call.loaded import holding
from tenon.runtime.reads.guards import Guards, guard_at
from tenon.runtime.reads.places import Place

_ANY, _NO_SOURCE, _SOURCE = range(3)


class TensorGuards(Guards):
    """What must hold for a program with tensors to be run."""

    def add_tensor(self, tensor: Any, name: str) -> None:
        """Have a tensor of the type that it has, and of the same part in gradients."""
        t, array = self._names.of(tensor), tensor._array
        shape, dtype = self._names.of(array.shape), self._names.of(array.dtype)
        kind, source = ("is", _NO_SOURCE) if tensor._source is None else ("is not", _SOURCE)
        check = f"{t}._array.shape == {shape} and {t}._array.dtype == {dtype} and {t}._source {kind} None"
        self.add(name, check, Guard(Load.constant, Test.like, tensor, index=source, expected=_like(array)))

    def add_data(self, place: Place, value: Any) -> None:
        """Have an array or a number of the same type in a place."""
        if type(value) is float:
            check = f"type({self._names.read(place)}) is float"
            self.add(place.name, check, guard_at(place, Test.kind, float))
            return
        self._add_fitting(place, value._array if isinstance(value, Stored) else value)

    def add_gradient(self, tensor: Any, gradient: Any, name: str) -> None:
        """Have a gradient, or none."""
        place = Place(tensor, "_grad", name, is_attribute=True)
        if gradient is None:
            self.add(name, f"{self._names.of(tensor)}._grad is None", guard_at(place, Test.identity, None))
        else:
            self._add_fitting(place, gradient)

    def _add_fitting(self, place: Place, array: Any) -> None:
        of = self._names.of
        guard = guard_at(place, Test.like, _like(array), index=_NO_SOURCE) if isinstance(array, np.ndarray) else None
        check = f"{of(fits)}({self._names.read(place)}, {of(array.shape)}, {of(array.dtype)})"
        self.add(place.name, check, guard)

    def finish(self) -> None:
        """Make one function of all checks."""
        super().finish()
        self._hold = holding(self.native)

    def hold(self) -> bool:
        """Whether everything is as it was."""
        return (self._hold is not None and self._hold()) or super().hold()


def _like(array: Any) -> Any:
    """An array of a type, of next to no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def fits(value: Any, shape: Any, dtype: Any) -> bool:
    """Whether a value is an array, or a tensor of no gradient, of this type."""
    array = value._array if isinstance(value, Stored) else value
    return (
        isinstance(array, np.ndarray | np.generic)
        and array.shape == shape
        and array.dtype == dtype
        and (array is value or value._source is None)
    )
