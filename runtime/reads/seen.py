"""Arrays that a function that is traced gives to ops, wherever it has them from."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tenon.dialects.definition.value import TracedValueError
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.runtime.reads.guards import is_fixed
from tenon.runtime.tracing.trace import Captures, of_others


class Seen(Captures):
    """Notes arrays that others may change, with their elements as they were; those of more than so many elements are
    inputs of the program. So are all arrays on a GPU, themselves: each call reads them as they are then."""

    def __init__(self, small: int | None = None, *, on_gpu: bool = False) -> None:
        super().__init__()
        self._small = small
        self._seen: dict[int, tuple[Any, Any]] = {}
        self._on_gpu = on_gpu

    def value_of(self, array: np.ndarray[Any, Any]) -> Any:
        if is_on_gpu(array):
            return self._value_on_gpu(array)
        if array.base is not None or sys.getrefcount(array) > _FRESH:
            self._seen[id(array)] = (array, array if is_fixed(array) else array.copy())
        is_small = self._small is None or array.size <= self._small
        return None if is_small else super().value_of(array)

    def _value_on_gpu(self, array: Any) -> Any:
        if not self._on_gpu:
            raise TracedValueError(
                f"an array of shape {tuple(array.shape)} on a GPU is read from around a function that runs on the CPU, "
                "where its arguments are; bring these to the GPU, or the array to the CPU"
            )
        same = self._known.setdefault(id(array), [])
        if not same:
            same.append((array, array, self.input_for(array)))
        return same[0][2]

    @property
    def foreign(self) -> list[tuple[Any, Any]]:
        """Arrays that may be others', with their elements as they were."""
        return of_others(self._seen.values())


# `array` as `to_value` has it, and as `captured`, `value_of` and `getrefcount` do
_FRESH = 6
