"""The equations that find bands: masks of which each truth value follows from how far its place lies from the diagonal.

A causal mask, or that of a sliding window, is thereby no array in memory but a comparison of two indices; and what is
known of the values that it hides is known from the text (see `skip-masked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.definition.settings import array_of
from tenon.dialects.ops.elementwise.arithmetic import AddOp, SubtractOp
from tenon.dialects.ops.elementwise.comparison import (
    BitwiseAndOp,
    BitwiseNotOp,
    GreaterEqualOp,
    GreaterOp,
    LessEqualOp,
    LessOp,
    LogicalAndOp,
    LogicalNotOp,
)
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.ops.move.band import BandOp
from tenon.dialects.ops.move.indexing import IotaOp
from tenon.dialects.ops.move.shape import BroadcastToOp, ReshapeOp
from tenon.dialects.types.types import element_of, is_bool, is_float, is_static, is_unsigned, shape_of
from tenon.passes.simplify.equation import by_class, defined_by, replace_same_type
from tenon.passes.simplify.fold import splat

LEAST_ELEMENTS = 1024
"""Of a constant that becomes a band; `fold` computes with smaller ones."""


def _band(shape: Sequence[int], lower: int | None, upper: int | None) -> Operation:
    """A band of matrices, of which no bound is farther from the diagonal than their corners, or one place behind."""
    *_, rows, columns = shape
    lower, upper = [None if bound is None else min(max(bound, -rows), columns) for bound in (lower, upper)]
    return BandOp.build_from([], {"shape": tuple(shape), "lower": lower, "upper": upper})


class ConstantBand(RewritePattern):
    """constant([[1, 0, 0], [1, 1, 0], [1, 1, 1]]) -> band(upper=0), and not(band) where it is the opposite of one"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConstantOp, rewriter: PatternRewriter, /) -> None:
        attribute = op.properties["value"]
        assert isinstance(attribute, DenseIntOrFPElementsAttr)
        if not is_bool(attribute.type.element_type) or len(attribute.data.data) < LEAST_ELEMENTS:
            return
        array = array_of(attribute)
        if array.ndim < 2 or any(size != 1 for size in array.shape[:-2]):
            return
        matrix = array.reshape(array.shape[-2:])
        if bounds := _bounds(matrix):
            replace_same_type(op, rewriter, _band(array.shape, *bounds))
        elif bounds := _bounds(~matrix):
            opposite = _band(array.shape, *bounds)
            replace_same_type(op, rewriter, opposite, LogicalNotOp.build_from([opposite.results[0]], {}))


def _bounds(matrix: np.ndarray) -> tuple[int | None, int | None] | None:
    """How far from the diagonal the truths of `matrix` lie, if all places that lie so are true, and others are not."""
    rows, columns = matrix.shape
    first, last = matrix.argmax(axis=1), columns - 1 - matrix[:, ::-1].argmax(axis=1)
    seen = matrix[np.arange(rows), first]
    if not seen.any() or (seen.all() and not first.any() and (last == columns - 1).all()):
        return None
    distances = np.arange(rows)
    lower, upper = int((first - distances)[seen].min()), int((last - distances)[seen].max())
    places = np.arange(columns)[None, :] - distances[:, None]
    if not np.array_equal(matrix, (places >= lower) & (places <= upper)):
        return None
    return lower if lower > 1 - rows else None, upper if upper < columns - 1 else None


class CompareIndices(RewritePattern):
    """less_equal(column, row + c) -> band(upper=c), where the two count the columns and rows of the result"""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: LessOp | LessEqualOp | GreaterOp | GreaterEqualOp, rewriter: PatternRewriter, /
    ) -> None:
        if not is_static(op.result.type):
            return
        shape = shape_of(op.result.type) or ()
        x, y = _counted(op.x, len(shape)), _counted(op.y, len(shape))
        if x is None or y is None or len(shape) < 2:
            return
        factors = [a - b for a, b in zip(x[0], y[0], strict=True)]
        if any(factors[:-2]) or (factors[-2], factors[-1]) not in ((1, -1), (-1, 1)):
            return
        # The difference is factor * (column - row) + constant, and is compared to 0.
        factor, constant = factors[-1], x[1] - y[1]
        slack = int(isinstance(op, LessOp | GreaterOp))
        at_most = isinstance(op, LessOp | LessEqualOp) == (factor == 1)
        bound = -constant * factor + (-slack if at_most else slack)
        replace_same_type(op, rewriter, _band(shape, None if at_most else bound, bound if at_most else None))


def _counted(value: SSAValue, rank: int) -> tuple[list[int], int] | None:
    """How often each index of a result of `rank`, to which `value` is broadcast, counts in `value`, and a constant.
    None where it is no such sum, or one that its dtype might not hold."""
    shape, element = shape_of(value.type), element_of(value.type)
    if shape is None or is_float(element) or is_bool(element) or is_unsigned(element) or len(shape) > rank:
        return None
    factors, constant = [0] * rank, 0
    number = splat(value)
    owner = value.owner
    if number is not None:
        return factors, int(number)
    if isinstance(owner, IotaOp):
        axis = owner.settings["axis"] % len(shape)
        if shape[axis] != 1:
            factors[rank - len(shape) + axis] = 1
    elif isinstance(owner, AddOp | SubtractOp):
        x, y = _counted(owner.x, rank), _counted(owner.y, rank)
        if x is None or y is None:
            return None
        sign = 1 if isinstance(owner, AddOp) else -1
        factors, constant = [a + sign * b for a, b in zip(x[0], y[0], strict=True)], x[1] + sign * y[1]
    elif isinstance(owner, ReshapeOp | ConstantOp):
        source = owner.operands[0].owner if isinstance(owner, ReshapeOp) else owner
        axis = [axis for axis, size in enumerate(shape) if size != 1]
        start = _start(source)
        if start is None or len(axis) != 1:
            return None
        constant = start
        factors[rank - len(shape) + axis[0]] = 1
    else:
        return None
    # The sum is far from where the dtype ends.
    counts = factors[rank - len(shape) :]
    reach = sum(abs(factor) * size for factor, size in zip(counts, shape, strict=True)) + abs(constant)
    return (factors, constant) if reach < 1 << (min(element.width.data, 32) - 3) else None  # pyright: ignore


def _start(source: Operation | Block) -> int | None:
    """The first one of the elements in order, if these are consecutive numbers."""
    if isinstance(source, IotaOp):
        shape = shape_of(source.result.type) or ()
        return 0 if prod(shape) == shape[source.settings["axis"]] else None
    if not isinstance(source, ConstantOp):
        return None
    numbers = array_of(source.properties["value"]).reshape(-1)  # pyright: ignore[reportArgumentType]
    start = int(numbers[0]) if numbers.size else 0
    return start if np.array_equal(numbers, np.arange(start, start + numbers.size)) else None


class OppositeBand(RewritePattern):
    """not(band(upper=u)) -> band(lower=u + 1) and not(band(lower=l)) -> band(upper=l - 1)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseNotOp | LogicalNotOp, rewriter: PatternRewriter, /) -> None:
        if not (band := defined_by(op.x, BandOp)):
            return
        shape, lower, upper = (band.settings[key] for key in ("shape", "lower", "upper"))
        if lower is None:
            replace_same_type(op, rewriter, _band(shape, upper + 1, None))
        elif upper is None:
            replace_same_type(op, rewriter, _band(shape, None, lower - 1))


class BothBands(RewritePattern):
    """and(band(upper=u), band(lower=l)) -> band(lower=l, upper=u)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseAndOp | LogicalAndOp, rewriter: PatternRewriter, /) -> None:
        x, y = defined_by(op.x, BandOp), defined_by(op.y, BandOp)
        if not x or not y or x.settings["shape"][-2:] != y.settings["shape"][-2:] or not is_static(op.result.type):
            return
        lowers = [band.settings["lower"] for band in (x, y) if band.settings["lower"] is not None]
        uppers = [band.settings["upper"] for band in (x, y) if band.settings["upper"] is not None]
        shape = shape_of(op.result.type) or ()
        replace_same_type(op, rewriter, _band(shape, max(lowers, default=None), min(uppers, default=None)))


class SpreadBand(RewritePattern):
    """broadcast_to(band) -> band and reshape(band) -> band, where the matrices stay"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastToOp | ReshapeOp, rewriter: PatternRewriter, /) -> None:
        band, shape = defined_by(op.x, BandOp), shape_of(op.result.type)
        if band and is_static(op.result.type) and shape and band.settings["shape"][-2:] == shape[-2:]:
            replace_same_type(op, rewriter, _band(shape, band.settings["lower"], band.settings["upper"]))


BAND_EQUATIONS = by_class(
    [
        ((ConstantOp,), ConstantBand()),
        ((LessOp, LessEqualOp, GreaterOp, GreaterEqualOp), CompareIndices()),
        ((BitwiseNotOp, LogicalNotOp), OppositeBand()),
        ((BitwiseAndOp, LogicalAndOp), BothBands()),
        ((BroadcastToOp, ReshapeOp), SpreadBand()),
    ]
)
"""The equations by the class of the op that stands outermost on their left side."""
