"""Diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning, also_called, cast_first
from tenon.dialects.definition.one_program import one_program_when_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp, IndexMapOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axis, show
from tenon.dialects.types.types import NUMERIC_TENSOR, STORED_TENSOR, shape_of


@tensor_op
class DiagonalOp(KeepsElement, IndexMapOp):
    """The elements of `x` whose index along `axis2` is `offset` more than that along `axis1`, along a new last axis.

    >>> tenon.diagonal(np.array([[1, 2, 3], [4, 5, 6]]), offset=1)
    """

    name = "tenon.diagonal"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dim1": "axis1", "dim2": "axis2"}
    x = operand_def(STORED_TENSOR)
    offset = setting(int, default=0)
    axis1 = setting(int, default=0)
    axis2 = setting(int, default=1)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        first, second = cls.axes(len(shape), settings)
        others = tuple([size for axis, size in enumerate(shape) if axis not in (first, second)])
        rows, columns, offset = shape[first], shape[second], settings["offset"]
        size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0) if min(rows, columns) >= 0 else -1
        return (*others, size)

    @staticmethod
    def axes(rank: int, settings: dict[str, Any]) -> tuple[int, int]:
        """The two axes, counted from the front."""
        first = normalize_axis(settings["axis1"], rank, "axis1")
        second = normalize_axis(settings["axis2"], rank, "axis2")
        if first == second:
            raise InferenceError(f"axis1 and axis2 are both {first}")
        return first, second

    @staticmethod
    def source(index: tuple[AffineExpr, ...], shape: tuple[int, ...], /, **settings: Any) -> tuple[AffineExpr, ...]:
        first, second = DiagonalOp.axes(len(shape), settings)
        *others, along = index
        places = {first: max(-settings["offset"], 0), second: max(settings["offset"], 0)}
        rest = iter(others)
        moved = {axis: along + start if start else along for axis, start in places.items()}
        return tuple([moved[axis] if axis in moved else next(rest) for axis in range(len(shape))])

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        first, second = cls.axes(operands[0].ndim - 1, settings)
        return cls.apply(*operands, **{**settings, "axis1": first + 1, "axis2": second + 1})


@tensor_op
class DiagOp(KeepsElement, CompositeOp):
    """The matrix with `x` (n,) on its diagonal `k` and zeros elsewhere, or diagonal `k` of a matrix `x`.

    >>> tenon.diag(np.array([1, 2]), k=1)
    >>> tenon.diag(np.array([[1, 2], [3, 4]]))
    """

    name = "tenon.diag"
    x = operand_def(STORED_TENSOR)
    k = setting(int, default=0)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        if len(shape) == 2:
            return DiagonalOp.infer_shape(shape, offset=settings["k"], axis1=0, axis2=1)
        if len(shape) != 1:
            raise InferenceError(f"x has shape {show(shape)} where rank 1 or 2 is needed")
        size = -1 if shape[0] < 0 else shape[0] + abs(settings["k"])
        return size, size

    @staticmethod
    def decompose(x: Value, *, k: int) -> Value:
        if x.ndim == 2:
            return ops.diagonal(x, offset=k)
        size = x.shape[0] + abs(k)
        along_rows = ops.pad(x, low=(max(k, 0),), high=(max(-k, 0),))
        return ops.select(_distances(size, size) == k, along_rows, ops.zeros((), x.element_type))


def _distances(rows: int, columns: int) -> Value:
    """How far each place of a matrix lies above the main diagonal."""
    column, row = ops.iota(shape=(1, columns), axis=1), ops.iota(shape=(rows, 1), axis=0)
    return column - row


@tensor_op
class TraceOp(CompositeOp):
    """The sum of the elements of `x` whose index along `axis2` is `offset` more than that along `axis1`.

    Integers keep their dtype (NumPy widens them).

    >>> tenon.trace(np.array([[1, 2], [3, 4]]))
    >>> tenon.trace(np.array([[1, 2], [3, 4]]), offset=1)
    """

    name = "tenon.trace"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"dtype": cast_first}
    x = operand_def(NUMERIC_TENSOR)
    offset = setting(int, default=0)
    axis1 = setting(int, default=0)
    axis2 = setting(int, default=1)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def decompose(x: Value, *, offset: int, axis1: int, axis2: int) -> Value:
        return ops.sum(ops.diagonal(x, offset=offset, axis1=axis1, axis2=axis2), axis=-1)


class TriangleOp(CompositeOp):
    """A triangle of the matrices in the last two axes, zeros elsewhere."""

    x = operand_def(STORED_TENSOR)
    k = setting(int, default=0)
    result = result_def(STORED_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        if shape is not None and len(shape) < 2:
            raise InferenceError(f"x has shape {show(shape)} where rank 2 or more is needed")
        return x


@tensor_op
class TrilOp(TriangleOp):
    """The elements of `x` (..., rows, columns) on diagonal `k` and below, zeros above.

    >>> tenon.tril(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
    >>> tenon.tril(np.array([[1, 2], [3, 4]]), k=-1)
    """

    name = "tenon.tril"

    @staticmethod
    def decompose(x: Value, *, k: int) -> Value:
        return ops.select(_distances(*x.shape[-2:]) <= k, x, ops.zeros((), x.element_type))


@tensor_op
class TriuOp(TriangleOp):
    """The elements of `x` (..., rows, columns) on diagonal `k` and above, zeros below.

    >>> tenon.triu(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
    >>> tenon.triu(np.array([[1, 2], [3, 4]]), k=1)
    """

    name = "tenon.triu"

    @staticmethod
    def decompose(x: Value, *, k: int) -> Value:
        return ops.select(_distances(*x.shape[-2:]) >= k, x, ops.zeros((), x.element_type))


@tensor_function
@also_called(input="x")
@one_program_when_large
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices of zeros along two new axes, `dim1` and `dim2` of the result, with the last axis of `x` on a diagonal,
    `offset` above the main one.

    >>> tenon.diag_embed(np.array([1, 2]))
    """
    x = shaped(x)
    rank = x.ndim + 1
    first, second = normalize_axis(dim1, rank, "diag_embed: dim1"), normalize_axis(dim2, rank, "diag_embed: dim2")
    if first == second:
        raise ValueError(f"diag_embed: dim1 and dim2 are both {first}")
    around = [(0,) * (x.ndim - 1) + (max(side, 0),) for side in (-offset, offset)]
    size = x.shape[-1] + abs(offset)
    on = np.eye(size, k=offset, dtype=bool)
    zero = np.zeros((), x.dtype)
    matrices = ops.select(on, ops.expand_dims(ops.pad(x, *around), axis=-1), zero)
    return ops.movedim(matrices, (rank - 2, rank - 1), (first, second))


@tensor_function
@also_called(input="x", k="offset")
def diagflat(x: Any, offset: int = 0) -> Any:
    """The matrix with all elements of `x`, in row-major order, on its diagonal `offset`, and zeros elsewhere.

    >>> tenon.diagflat(np.array([[1, 2]]), 1)
    """
    return ops.diag(ops.reshape(shaped(x), shape=(-1,)), k=offset)
