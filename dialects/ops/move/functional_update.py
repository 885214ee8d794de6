"""`x.at[key]`: a tensor with a part of it replaced or combined with something, as in JAX. `x` itself stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tenon.dialects.definition.registry import value_method
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.move.subscript import places_of, subscript
from tenon.dialects.types.shapes import InferenceError


@dataclass(frozen=True)
class Updates:
    """What `x.at` is: `x.at[key]` names the part that `x[key]` selects."""

    x: Value

    def __getitem__(self, key: Any) -> PartUpdates:
        return PartUpdates(self.x, key)


@value_method
def at(x: Value) -> Updates:
    """The parts of `x` that can be updated."""
    return Updates(x)


@dataclass(frozen=True)
class PartUpdates:
    """The part `key` of `x`. Each method returns `x` with `values`, which broadcast, in that part.

    Where the part names an element several times, it is set to the last of its values, and combined with all of them.
    Updates at traced indices outside of `x` are left out, while `get` takes the nearest element, as `x[key]` does.
    """

    x: Value
    key: Any

    def get(self) -> Value:
        """The part itself."""
        return subscript(self.x, self.key)

    def set(self, values: Any) -> Value:
        """The part replaced by `values`."""
        return self._updated(values, "none")

    def add(self, values: Any) -> Value:
        """`values` added to the part."""
        return self._updated(values, "add")

    def multiply(self, values: Any) -> Value:
        """The part multiplied by `values`."""
        return self._updated(values, "mul")

    def min(self, values: Any) -> Value:
        """The smaller of the part and `values`."""
        return self._updated(values, "min")

    def max(self, values: Any) -> Value:
        """The larger of the part and `values`."""
        return self._updated(values, "max")

    def _updated(self, values: Any, reduction: str) -> Value:
        x = self.x
        places = places_of(x.shape, self.key)
        given = ops.asarray(values, x.element_type)
        try:
            updates = ops.broadcast_to(given, shape=places.shape)
        except InferenceError as error:
            raise InferenceError(
                f"x.at[key]: values have shape {given.shape}, which does not broadcast to "
                f"{places.shape}, that of x[key]",
                error.sizes,
            ) from None
        flat = ops.scatter_elements(
            ops.reshape(x, shape=(prod(x.shape),)),
            ops.reshape(places, shape=(prod(places.shape),)),
            ops.reshape(updates, shape=(prod(places.shape),)),
            reduction=reduction,
        )
        return ops.reshape(flat, shape=x.shape)
