"""Which dimensions of arguments may have any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenon.dialects.types.size import Size
from tenon.dialects.types.types import AnyTensor, element_of, shape_of, tensor_type


class LeafSizes:
    """Which dimensions of which leaves may have any size, and what these sizes are called."""

    def __init__(self, by_position: Mapping[int, Mapping[int, Any]]) -> None:
        self.by_position = by_position

    def shape(self, position: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The `shape` of the leaf at `position`, with names in the place of sizes that may differ."""
        named = self.by_position.get(position)
        return shape if named is None else tuple([named.get(axis, size) for axis, size in enumerate(shape)])

    def typed(self, position: int, type_: AnyTensor) -> AnyTensor:
        """The type of the leaf at `position`, with names in the same places."""
        return tensor_type(self.shape(position, shape_of(type_) or ()), element_of(type_))


def with_names(types: Sequence[AnyTensor]) -> tuple[AnyTensor, ...]:
    """The types with a name in the place of each size that may be another one; equal ones have one name."""
    names: dict[int, Any] = {}

    def named(size: int) -> Any:
        # Dimensions of size 1 may be repeated, and what has no elements needs no code.
        return size if size < 2 else names.setdefault(size, Size.named(f"n{len(names)}"))

    return tuple([tensor_type(tuple(map(named, shape_of(t) or ())), element_of(t)) for t in types])


def meaning_of(types: Sequence[AnyTensor], arrays: Sequence[np.ndarray[Any, Any]]) -> dict[str, int]:
    """What the names in types stand for."""
    shapes = [zip(shape_of(type_) or (), array.shape, strict=True) for type_, array in zip(types, arrays, strict=True)]
    return {size.name: n for shape in shapes for size, n in shape if isinstance(size, Size) and size.name is not None}
