"""The equations of arithmetic that `canonicalize` applies from left to right.

Floating point is taken at its word except that small powers are rounded as products are. There is therefore no
`x * 0 -> 0` and no `x - x -> 0` on floats, which would lose NaN and infinity; `x + 0` and `0 - x` stay, which are +0.0
where `x` and `-x` are -0.0; and `power(x, 0.5)` stays, since it differs from `sqrt` at -inf. No equation changes the
type of a result."""

from __future__ import annotations

from math import copysign, frexp, isfinite

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.ops.elementwise.arithmetic import (
    AbsOp,
    AddOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegativeOp,
    PowerOp,
    ReciprocalOp,
    SubtractOp,
)
from tenon.dialects.ops.elementwise.comparison import BitwiseAndOp, BitwiseOrOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.types.types import (
    element_of,
    is_float,
    is_static,
    is_unsigned,
    numpy_dtype,
)
from tenon.passes.simplify.equation import by_class, defined_by, forward, is_number, replace_same_type
from tenon.passes.simplify.fold import splat, splat_constant


def _is_zero(value: SSAValue, sign: float) -> bool:
    """Whether all elements are zero, on floats with the sign of `sign`."""
    known = splat(value)
    return known is not None and not known and (not is_float(element_of(value.type)) or copysign(1.0, known) == sign)


class ConstantsGoRight(RewritePattern):
    """c + x -> x + c, and likewise for every op whose operands may be exchanged"""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: AddOp | MultiplyOp | MaximumOp | MinimumOp | BitwiseAndOp | BitwiseOrOp, rewriter: PatternRewriter, /
    ) -> None:
        if isinstance(op.x.owner, ConstantOp) and not isinstance(op.y.owner, ConstantOp):
            op.operands = [op.y, op.x]
            rewriter.notify_op_modified(op)


class AddZero(RewritePattern):
    """x + 0 -> x, where 0 is -0.0 on floats"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        if _is_zero(op.y, -1.0):
            forward(op, rewriter, op.x)


class AddNegative(RewritePattern):
    """x + -y -> x - y"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        if negative := defined_by(op.y, NegativeOp):
            replace_same_type(op, rewriter, SubtractOp.build_from([op.x, negative.x], {}))
        elif negative := defined_by(op.x, NegativeOp):
            replace_same_type(op, rewriter, SubtractOp.build_from([op.y, negative.x], {}))


class SubtractZero(RewritePattern):
    """x - 0 -> x and 0 - x -> -x, where the latter 0 is -0.0 on floats"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        if _is_zero(op.y, 1.0):
            forward(op, rewriter, op.x)
        elif _is_zero(op.x, -1.0) and op.y.type == op.result.type:
            replace_same_type(op, rewriter, NegativeOp.build_from([op.y], {}))


class SubtractNegative(RewritePattern):
    """x - -y -> x + y"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        if negative := defined_by(op.y, NegativeOp):
            replace_same_type(op, rewriter, AddOp.build_from([op.x, negative.x], {}))


class SubtractItself(RewritePattern):
    """x - x -> 0, on integers"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        if op.x is op.y and not is_float(element_of(op.x.type)) and is_static(op.result.type):
            replace_same_type(op, rewriter, splat_constant(0, op.result.type))


class MultiplyByOne(RewritePattern):
    """x * 1 -> x and x * -1 -> -x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter, /) -> None:
        if is_number(op.y, 1):
            forward(op, rewriter, op.x)
        elif is_number(op.y, -1) and op.x.type == op.result.type:
            replace_same_type(op, rewriter, NegativeOp.build_from([op.x], {}))


class MultiplyByZero(RewritePattern):
    """x * 0 -> 0, on integers"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter, /) -> None:
        if is_number(op.y, 0) and not is_float(element_of(op.x.type)) and is_static(op.result.type):
            replace_same_type(op, rewriter, splat_constant(0, op.result.type))


class GatherIntegerConstants(RewritePattern):
    """(x + c) + d -> x + (c + d) and (x * c) * d -> x * (c * d), on integers, which wrap"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp | MultiplyOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, type(op))
        if inner is None or is_float(element_of(op.result.type)):
            return
        if isinstance(op.y.owner, ConstantOp) and isinstance(inner.y.owner, ConstantOp):
            constant = type(op).build_from([inner.y, op.y], {})
            replace_same_type(op, rewriter, constant, type(op).build_from([inner.x, constant.results[0]], {}))


class DivideByPowerOfTwo(RewritePattern):
    """x / c -> x * (1 / c), where c is a power of two, 1 and -1 among them, so that both are exact"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivideOp, rewriter: PatternRewriter, /) -> None:
        number = splat(op.y)
        if number is None or not is_static(op.y.type) or abs(frexp(float(number))[0]) != 0.5:
            return
        reciprocal = 1.0 / float(number)
        stored = np.asarray(reciprocal).astype(numpy_dtype(element_of(op.y.type)))
        # A reciprocal outside of the normal range would be flushed on some devices.
        if isfinite(float(stored)) and float(stored) == reciprocal and 2.0**-14 <= abs(reciprocal) <= 2.0**14:
            constant = splat_constant(stored, op.y.type)
            replace_same_type(op, rewriter, constant, MultiplyOp.build_from([op.x, constant.results[0]], {}))


class DoubleNegative(RewritePattern):
    """-(-x) -> x, and -(x - y) -> y - x on integers"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NegativeOp, rewriter: PatternRewriter, /) -> None:
        if inner := defined_by(op.x, NegativeOp):
            forward(op, rewriter, inner.x)
        elif (inner := defined_by(op.x, SubtractOp)) and op.x.has_one_use() and not is_float(element_of(op.x.type)):
            replace_same_type(op, rewriter, SubtractOp.build_from([inner.y, inner.x], {}))


class AbsoluteOfSigned(RewritePattern):
    """abs(-x) -> abs(x) and abs(abs(x)) -> abs(x), on types that have a sign"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AbsOp, rewriter: PatternRewriter, /) -> None:
        if (inner := defined_by(op.x, NegativeOp, AbsOp)) and not is_unsigned(element_of(op.x.type)):
            replace_same_type(op, rewriter, AbsOp.build_from([inner.x], {}))


class PowerOfSmallInteger(RewritePattern):
    """power(x, 1) -> x, power(x, 2) -> x * x, power(x, -1) -> reciprocal(x) and power(x, 0) -> 1"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PowerOp, rewriter: PatternRewriter, /) -> None:
        if op.x.type != op.result.type:
            return
        if is_number(op.y, 1):
            forward(op, rewriter, op.x)
        elif is_number(op.y, 2):
            replace_same_type(op, rewriter, MultiplyOp.build_from([op.x, op.x], {}))
        elif is_number(op.y, -1) and is_float(element_of(op.x.type)):
            replace_same_type(op, rewriter, ReciprocalOp.build_from([op.x], {}))
        elif is_number(op.y, 0) and is_static(op.result.type):
            replace_same_type(op, rewriter, splat_constant(1, op.result.type))


class SameOperands(RewritePattern):
    """maximum(x, x) -> x, and likewise for minimum, and, or"""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: MaximumOp | MinimumOp | BitwiseAndOp | BitwiseOrOp, rewriter: PatternRewriter, /
    ) -> None:
        if op.x is op.y:
            forward(op, rewriter, op.x)


ARITHMETIC_EQUATIONS = by_class(
    [
        ((AddOp, MultiplyOp, MaximumOp, MinimumOp, BitwiseAndOp, BitwiseOrOp), ConstantsGoRight()),
        ((AddOp,), AddZero()),
        ((AddOp,), AddNegative()),
        ((SubtractOp,), SubtractZero()),
        ((SubtractOp,), SubtractNegative()),
        ((SubtractOp,), SubtractItself()),
        ((MultiplyOp,), MultiplyByOne()),
        ((MultiplyOp,), MultiplyByZero()),
        ((AddOp, MultiplyOp), GatherIntegerConstants()),
        ((DivideOp,), DivideByPowerOfTwo()),
        ((NegativeOp,), DoubleNegative()),
        ((AbsOp,), AbsoluteOfSigned()),
        ((PowerOp,), PowerOfSmallInteger()),
        ((MaximumOp, MinimumOp, BitwiseAndOp, BitwiseOrOp), SameOperands()),
    ]
)
"""The equations by the class of the op that stands outermost on their left side."""
