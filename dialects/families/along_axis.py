"""What ops share beside their family: how the type of the result follows, and what happens along the setting `axis`
(one axis, several, or all for `None`).

Classes to inherit from beside a family, and before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenon.dialects.families.batching import along_shifted_axis
from tenon.dialects.types.shapes import Shape, normalize_axes
from tenon.dialects.types.types import element_of, shape_of, tensor_type


def reordered_axes(axis: int | tuple[int, ...], order: tuple[int, ...]) -> Any:
    """Where the axes `axis`, one or several, are once the axes are in `order`."""
    axes = normalize_axes((axis,) if isinstance(axis, int) else axis, len(order))
    places = sorted(map(order.index, axes))
    return places[0] if isinstance(axis, int) else tuple(places)


class KeepsElement:
    """An op whose result has the dtype of its first operand, and unknown rank where that has."""

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        """The shape of the result for that of the operand, `None` for an unknown rank; raises `InferenceError`."""
        raise NotImplementedError

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = shape_of(operands[0])
        return tensor_type(None if shape is None else cls.infer_shape(shape, **settings), element_of(operands[0]))


class KeepsType:
    """An op whose result has the type of its first operand, which has the axes `axis`."""

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, axis = operands[0], settings["axis"]
        shape = shape_of(x)
        if shape is not None:
            normalize_axes((axis,) if isinstance(axis, int) else axis, len(shape))
        return x


class AlongAxis:
    """An op of one operand, of which each example is treated alike along the axes `axis`."""

    def reordered(self: Any, order: tuple[int, ...]) -> dict[str, Any] | None:
        if len(shape_of(self.operands[0].type) or ()) != len(order):
            return None
        axis = self.settings["axis"]
        return self.settings | {"axis": None if axis is None else reordered_axes(axis, order)}

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return along_shifted_axis(cls, operands[0], settings)
