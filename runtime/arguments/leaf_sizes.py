"""Which dimensions of arguments may have any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
