"""Slices: elements at regular distances along each axis, and all of them in reverse order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import IndexMapOp
from tenon.dialects.families.along_axis import AlongAxis, KeepsType
from tenon.dialects.families.linalg_builders import static_shape
from tenon.dialects.ops.move.shape import Index
from tenon.dialects.types.shapes import InferenceError, normalize_axes
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import current_sizes
from tenon.dialects.types.types import STORED_TENSOR, element_of, shape_of, tensor_type


@tensor_op
class SliceOp(IndexMapOp):
    """The elements of `x` from `starts` to before `limits` in steps of `strides` (1 unless given), an entry per axis.

    All count from the front. With a negative stride the limit lies before the start, and -1 is before the first
    element.

    >>> x = np.array([0, 1, 2, 3, 4, 5])
    >>> tenon.slice(x, starts=(1,), limits=(6,), strides=(2,))
    >>> tenon.slice(x, starts=(5,), limits=(-1,), strides=(-2,))
    """

    name = "tenon.slice"
    x = operand_def(STORED_TENSOR)
    starts = setting(tuple)
    limits = setting(tuple)
    strides = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        starts, limits, strides = settings["starts"], settings["limits"], settings["strides"]
        if len(starts) != len(limits) or (strides is not None and len(strides) != len(starts)):
            raise InferenceError(f"starts {starts}, limits {limits} and strides {strides} differ in length")
        if strides is not None and 0 in strides:
            raise InferenceError(f"strides {strides} contains 0")

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any]:
        return {
            name: None if numbers is None else tuple([numbers[axis] for axis in order])
            for name, numbers in self.settings.items()
        }

    def spread(self, axes: Sequence[int | None]) -> dict[str, Any]:
        return {
            name: None if numbers is None else tuple([whole if axis is None else numbers[axis] for axis in axes])
            for (name, numbers), whole in zip(self.settings.items(), (0, 1, 1), strict=True)
        }

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        starts, limits, source = settings["starts"], settings["limits"], shape_of(x)
        strides = settings["strides"] or (1,) * len(starts)
        if source is not None and len(source) != len(starts):
            raise InferenceError(f"x has rank {len(source)}, and starts {starts} has {len(starts)} entries")
        sizes: list[int] = []
        for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
            if stride > 0 and type(limit) is int and limit < 0:
                raise InferenceError(f"limits is {limits} where sizes of at least 0 are needed for a stride above 0")
            size = max(-((start - limit) // stride), 0)
            sizes.append(size)
            extent = -1 if source is None else source[axis]
            last = start + (size - 1) * stride
            if isinstance(extent, Size) and stride > 0 and (isinstance(start, Size) or start >= 0):
                continue  # whether it ends inside is known at launch, and asked for by `structured`
            if size != 0 and (min(start, last) < 0 or 0 <= extent <= max(start, last)):
                whole = "?" if extent < 0 else extent
                raise InferenceError(
                    f"slice {start}:{limit}:{stride} of axis {axis} leaves x, whose size there is {whole}"
                )
        return tensor_type(tuple(sizes), element_of(x))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        self.require_inside(static_shape(operands[0]), static_shape(self.results[0]), self.settings)
        return super().structured(operands)

    @staticmethod
    def require_inside(shape: tuple[int, ...], sizes: tuple[int, ...], settings: dict[str, Any]) -> None:
        """Let launches ask whether the slice, of `sizes`, lies inside of a tensor whose `shape` only they know."""
        starts, strides = settings["starts"], settings["strides"] or (1,) * len(sizes)
        for extent, size, start, stride in zip(shape, sizes, starts, strides, strict=True):
            last = start + (size - 1) * stride
            if isinstance(extent, Size) and size != 0:
                current_sizes().require_positive(extent - last)
                current_sizes().require_positive(start + 1)

    @staticmethod
    def source(index: Index, shape: tuple[int, ...], /, **settings: Any) -> Index:
        strides = settings["strides"] or (1,) * len(index)
        stepped = [i if stride == 1 else i * stride for i, stride in zip(index, strides, strict=True)]
        return tuple([i + start if start != 0 else i for i, start in zip(stepped, settings["starts"], strict=True)])

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        starts, strides = settings["starts"], settings["strides"] or (1,) * g.ndim
        if 0 in g.shape:
            return (ops.zeros_like(x),)
        if any(stride != 1 for stride in strides):
            # Axes in steps of 1 are left to pad.
            step = [stride != 1 for stride in strides]
            shape = tuple([whole if s else part for s, whole, part in zip(step, x.shape, g.shape, strict=True)])
            first = tuple([start if s else 0 for s, start in zip(step, starts, strict=True)])
            dims = tuple([AffineExpr.dimension(i) for i in range(g.ndim)])
            places = AffineMap(g.ndim, 0, cls.source(dims, shape, starts=first, strides=strides))
            g = ops.contract((g,), maps=(AffineMap.identity(g.ndim), places), extents=g.shape, shape=shape)
            starts = tuple([0 if s else start for s, start in zip(step, starts, strict=True)])
        high = tuple([whole - start - part for whole, start, part in zip(x.shape, starts, g.shape, strict=True)])
        return (ops.pad(g, low=starts, high=high) if any(size != 0 for size in (*starts, *high)) else g,)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        strides = settings["strides"]
        return ops.slice(
            operands[0],
            starts=(0, *settings["starts"]),
            limits=(size, *settings["limits"]),
            strides=None if strides is None else (1, *strides),
        )


@tensor_op
class FlipOp(KeepsType, AlongAxis, IndexMapOp):
    """`x` in reverse order along `axis`; without it, along all axes.

    >>> tenon.flip(np.array([[1, 2], [3, 4]]))
    >>> tenon.flip(np.array([[1, 2], [3, 4]]), axis=1)
    """

    name = "tenon.flip"
    x = operand_def(STORED_TENSOR)
    axis = setting(tuple, default=None)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def source(index: Index, shape: tuple[int, ...], /, **settings: Any) -> Index:
        axes = normalize_axes(settings["axis"], len(shape))
        return tuple(
            [i * -1 + (size - 1) if a in axes else i for a, (i, size) in enumerate(zip(index, shape, strict=True))]
        )

    vjp = staticmethod(lambda g, out, x, *, axis: ops.flip(g, axis=axis))  # pyright: ignore[reportAssignmentType]
