"""Determinants of square matrices."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.families.along_axis import KeepsElement
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, Shape, show
from tenon.dialects.types.types import FLOAT_TENSOR

_UNROLLED = 4
"""Matrices up to this size are eliminated without a loop."""


@tensor_op
class DetOp(KeepsElement, CompositeOp):
    """The determinants (...,) of the square matrices `x` (..., n, n), by elimination with partial pivoting.

    The gradient is that of the elimination: right for matrices of rank n and n - 1, and 0 (as it should be) below.

    >>> tenon.det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    """

    name = "tenon.det"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer_shape(cls, shape: tuple[int, ...], **settings: Any) -> Shape:
        if len(shape) < 2 or (shape[-1] != shape[-2] and min(shape[-2:]) >= 0):
            raise InferenceError(f"x has shape {show(shape)} where (..., n, n) is needed")
        return shape[:-2]

    @staticmethod
    def decompose(x: Value) -> Value:
        *batch, n, _ = x.shape
        rest = in_compute_type(x)
        state = (
            rest,
            ops.full((*batch, n), True, dtype="i1"),
            ops.full(batch, 1.0, dtype=rest.element_type),
        )
        if n > _UNROLLED:
            state = _repeated(state, n)
        else:
            for _ in range(n):
                state = _eliminated(*state)
        return state[2].astype(x.element_type)


def _repeated(state: tuple[Value, ...], steps: int) -> tuple[Value, ...]:
    """`state` after as many steps of elimination, which are a loop."""
    body = Block(arg_types=[value.type for value in state])
    with inserting(InsertionPoint(body)):
        emit(YieldOp(*[value.ssa for value in _eliminated(*map(Value, body.args))]))
    loop = emit(ScanOp.of([value.ssa for value in state], [], body, steps, reverse=False))
    return tuple(map(Value, loop.results))


def _eliminated(x: Value, is_free: Value, total: Value) -> tuple[Value, Value, Value]:
    """A step of elimination: matrices (..., n, n), which rows (..., n) had no pivot yet, and the product of pivots.

    The columns move to the left, so that the first one is always the next. The row of the pivot stays where it is
    instead of being exchanged with the first free one: the free rows before it are as many exchanges.
    """
    *batch, n, _ = x.shape
    zeros = (0,) * len(batch)
    column = ops.reshape(ops.slice(x, starts=(*zeros, 0, 0), limits=(*batch, n, 1)), shape=(*batch, n))
    place = ops.expand_dims(ops.argmax(ops.select(is_free, ops.abs(column), -1.0), axis=-1), axis=-1)
    rows = ops.cast(ops.iota(shape=(*(1,) * len(batch), n), axis=len(batch)), dtype=place.element_type)
    is_pivot = ops.equal(rows, place)
    pivot = ops.sum(ops.select(is_pivot, column, 0.0), axis=-1)
    before = ops.count_nonzero(ops.logical_and(is_free, rows < place), axis=-1)
    signed = ops.select(ops.equal(ops.remainder(before, 2), 0), pivot, ops.negative(pivot))
    row = ops.sum(ops.select(ops.expand_dims(is_pivot, axis=-1), x, 0.0), axis=-2, keepdims=True)
    is_free = ops.logical_and(is_free, ops.logical_not(is_pivot))
    # Where the pivot is 0, so is what is left of its column.
    divisor = ops.select(ops.equal(pivot, 0.0), 1.0, pivot)
    factors = ops.select(is_free, column / ops.expand_dims(divisor, axis=-1), 0.0)
    left = x - ops.expand_dims(factors, axis=-1) * row
    moved = ops.slice(left, starts=(*zeros, 0, 1), limits=(*batch, n, n))
    return ops.pad(moved, low=(*zeros, 0, 0), high=(*zeros, 0, 1)), is_free, total * signed
