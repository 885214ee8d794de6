"""`x.at[key]`: a tensor with a part of it replaced or combined with something, as in JAX. `x` itself stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.registry import value_method
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.ops.move.scatter import COMBINING
from tenon.dialects.ops.move.subscript import SliceKey, entries_of, indices_of, places_of, slice_of, subscript
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import is_bool


@dataclass(frozen=True)
class Updates:
    """What `x.at` is: `x.at[key]` names the part that `x[key]` selects."""

    x: Any
    part: Callable[[Any, Any], PartUpdates]
    """What makes a part of it of that and a key."""

    def __getitem__(self, key: Any) -> PartUpdates:
        return self.part(self.x, key)


@value_method
def at(x: Value) -> Updates:
    """The parts of `x` that can be updated."""
    return Updates(x, PartUpdates)


@dataclass(frozen=True)
class PartUpdates:
    """The part `key` of `x`. Each method returns `x` with `values`, which broadcast, in that part.

    Where the part names an element several times, it is set to the last of its values, and combined with all of them.
    Updates at traced indices outside of `x` are left out, while `get` takes the nearest element, as `x[key]` does. A
    traced mask of the first axes of `x` names the elements where it is true, which all get the same values.
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
        written = entries_of(x.shape, self.key)
        if len(written) == 1 and isinstance(written[0], Value) and is_bool(written[0].element_type):
            return self._where(written[0], values, reduction)
        basic = slice_of(x, written)
        if basic is not None:
            return self._with_slice(basic, values, reduction)
        indexed = indices_of(x, written)
        if indexed is not None:
            axis, indices = indexed
            shape = (*x.shape[:axis], *indices.shape[axis:-1], *x.shape[axis + indices.shape[-1] :])
            return ops.scatter_nd(x, indices, self._fitted(values, shape), reduction=reduction, batch_dims=axis)
        places = places_of(x.shape, written)
        flat = ops.scatter_elements(
            ops.reshape(x, shape=(prod(x.shape),)),
            ops.reshape(places, shape=(prod(places.shape),)),
            ops.reshape(self._fitted(values, places.shape), shape=(prod(places.shape),)),
            reduction=reduction,
        )
        return ops.reshape(flat, shape=x.shape)

    def _where(self, mask: Value, values: Any, reduction: str) -> Value:
        """What is computed for all elements, where `mask` is true."""
        x, rank = self.x, mask.ndim
        if mask.shape != x.shape[:rank]:
            raise IndexError(f"x.at[mask]: the mask has shape {mask.shape}, and the first axes of x {x.shape[:rank]}")
        given = self._fitted(values, x.shape[rank:], "that of what the mask chooses at each place")
        chosen = ops.expand_dims(mask, axis=tuple(range(rank, x.ndim))) if x.ndim > rank else mask
        return ops.select(chosen, self._combined(x, given, reduction), x)

    def _combined(self, part: Value, given: Value, reduction: str) -> Value:
        combining = COMBINING.get(reduction)
        return given if combining is None else ops.cast(getattr(ops, combining)(part, given), dtype=part.element_type)

    def _with_slice(self, basic: SliceKey, values: Any, reduction: str) -> Value:
        """No element is named twice, so what is there is combined with `values` and put back."""
        settings: Any = {"starts": basic.starts, "limits": basic.limits, "strides": basic.strides}
        part = ops.slice(self.x, **settings)
        given = ops.reshape(self._fitted(values, basic.shape), shape=part.shape)
        return ops.slice_scatter(self.x, self._combined(part, given, reduction), **settings)

    def _fitted(self, values: Any, shape: tuple[int, ...], whose: str = "that of x[key]") -> Value:
        given = to_value(ops.asarray(values, self.x.element_type))
        try:
            return ops.broadcast_to(given, shape=shape)
        except InferenceError as error:
            raise InferenceError(
                f"x.at[key]: values have shape {given.shape}, which does not broadcast to {shape}, {whose}",
                error.sizes,
            ) from None
