"""Multiply by the reciprocal of a number that divides many.

A division takes as long as several products, and a softmax divides each element of a row by the same sum:

    %q = tenon.divide %x, %s  (4096x1024, 4096x1)   ->   %r = tenon.divide 1, %s  (4096x1)
                                                         %q = tenon.multiply %x, %r

Before: the tensor stage, decomposed. After: the same values, but for rounding: elements are within 1.5 units in the
last place (unless they are subnormal, and flushed), where a division is within 0.5.

The rule: each element of the divisor divides at least `FEWEST`, and is known to be NaN, infinite, or so large and so
small that its reciprocal is a normal number. Then nothing overflows or vanishes that did not before; zeros, infinities
and NaN give what they gave. Known are sums of exponentials of which one is 1, as that of a softmax is, and from above
all square roots: so are norms to which a number is added, or of which none is taken for smaller than a number. What
a product of matrices multiplies stays a quotient, by which `fuse` knows to compute weights of attention again in place
of storing them.
"""

from __future__ import annotations

from math import inf, prod, sqrt
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.families import ContractionOp
from tenon.dialects.ops.elementwise.arithmetic import (
    AbsOp,
    AddOp,
    ClipOp,
    DivideOp,
    MaximumOp,
    MultiplyOp,
    SubtractOp,
)
from tenon.dialects.ops.elementwise.constant import CastOp
from tenon.dialects.ops.elementwise.elementary import ExpOp, SqrtOp
from tenon.dialects.ops.move.shape import BroadcastToOp, ReshapeOp
from tenon.dialects.ops.reduce.reduction import MaxOp, SumOp
from tenon.dialects.types.size import Size, estimate
from tenon.dialects.types.types import element_of, numpy_dtype, shape_of, tensor_type
from tenon.dialects.upstream.walking import ops_of
from tenon.passes.iteration import axes_of
from tenon.passes.simplify.fold import splat, splat_constant

FEWEST = 4
"""Elements that a reciprocal has to multiply to be worth its own division."""
_FARTHEST = 8
"""How many ops before a divisor are looked at, one behind another."""

Bounds = tuple[float, float]
"""Of the elements of a value that are neither NaN nor plus infinity."""
_ANY: Bounds = (-inf, inf)


class ReciprocalsPass(ModulePass):
    """Multiply by the reciprocal of a number that divides many."""

    name = "reciprocals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known: dict[SSAValue, SSAValue] = {}
        for division in ops_of(op, DivideOp):
            x, y = division.operands
            if _divides_many(division) and not _is_multiplied(division) and _has_normal_reciprocals(y):
                if y not in known:
                    known[y] = _reciprocal(y)
                product = MultiplyOp.build_from([x, known[y]], {})
                product.location = division.location
                Rewriter.replace_op(division, product)


def _divides_many(op: DivideOp) -> bool:
    result, divisor = shape_of(op.results[0].type), shape_of(op.operands[1].type)
    if result is None or divisor is None:
        return False
    return estimate(prod(result)) >= FEWEST * max(estimate(prod(divisor)), 1)


def _is_multiplied(op: Operation) -> bool:
    """Whether a product of matrices multiplies what an op gives, or that in another dtype."""
    users = [use.operation for result in op.results for use in result.uses]
    return any(isinstance(u, ContractionOp) or (isinstance(u, CastOp) and _is_multiplied(u)) for u in users)


def _has_normal_reciprocals(value: SSAValue) -> bool:
    element = element_of(value.type)
    if not isinstance(element, Float32Type | Float64Type):
        return False
    largest = 1 / (2 * float(_limits(value).tiny))
    low, high = bounds(value)
    # A number that is known is divided by exactly, and at the price of products, elsewhere.
    return 1 / largest <= low < high <= largest


def _reciprocal(y: SSAValue) -> SSAValue:
    """1 / y, behind the op that `_has_normal_reciprocals` found `y` to come from."""
    assert isinstance(y.owner, Operation)
    one = splat_constant(1, tensor_type((), element_of(y.type)))
    reciprocal = DivideOp.build_from([one.results[0], y], {})
    one.location = reciprocal.location = y.owner.location
    Rewriter.insert_op([one, reciprocal], InsertPoint.after(y.owner))
    return reciprocal.results[0]


def bounds(value: SSAValue, farthest: int = _FARTHEST) -> Bounds:
    """What is known of the elements of a float `value` that are neither NaN nor plus infinity."""
    if (number := splat(value)) is not None:
        return float(number), float(number)
    op = value.owner
    if not isinstance(op, _KNOWN) or farthest == 0:
        return _ANY
    lows, highs = zip(*[bounds(operand, farthest - 1) for operand in op.operands], strict=True)
    low, high = lows[0], highs[0]
    match op:
        case BroadcastToOp() | ReshapeOp():
            return low, high
        case ExpOp():
            return 0.0, inf if _largest(op.operands[0]) is None else 1.0
        case AbsOp():
            return 0.0, inf
        case SqrtOp():
            return sqrt(max(low, 0.0)), sqrt(min(high, _limits(value).max))
        case SumOp() if low >= 0:
            return float(_is_of_weights(op)), _terms(op) * high
        case AddOp():
            return low + lows[1], high + highs[1]
        case MultiplyOp() if op.operands[0] is op.operands[1]:
            return 0.0, inf
        case MultiplyOp() if min(lows) >= 0:
            return low * lows[1], inf if inf in highs else high * highs[1]
        case MaximumOp() | ClipOp(high=None):
            return max(lows), max(highs)
        case _:
            return _ANY


_KNOWN = (AbsOp, AddOp, BroadcastToOp, ClipOp, ExpOp, MaximumOp, MultiplyOp, ReshapeOp, SqrtOp, SumOp)


def _limits(value: SSAValue) -> np.finfo[np.floating[Any]]:
    return np.finfo(numpy_dtype(element_of(value.type)))


def _terms(op: SumOp) -> float:
    sizes = shape_of(op.operands[0].type) or (-1,)
    return 2.0**63 if any(isinstance(size, Size) or size < 0 for size in sizes) else float(prod(sizes))


def _largest(value: SSAValue) -> MaxOp | None:
    """The op that computes max(z), along any axes, where `value` is z - max(z)."""
    op = value.owner
    if not isinstance(op, SubtractOp) or not isinstance(largest := op.operands[1].owner, MaxOp):
        return None
    return largest if largest.operands[0] is op.operands[0] and largest.settings["keepdims"] else None


def _is_of_weights(total: SumOp) -> bool:
    """Whether one of the elements of each sum is exp(0): the maximum is along no more axes than the sum."""
    exp = total.operands[0].owner
    largest = _largest(exp.operands[0]) if isinstance(exp, ExpOp) else None
    return largest is not None and {*axes_of(largest)} <= {*axes_of(total)}
