"""The equations of arithmetic, truth and dtypes that `canonicalize` applies from left to right.

Floating point is taken at its word except that small powers are rounded as products are. There is therefore no
`x * 0 -> 0` and no `x - x -> 0` on floats, which would lose NaN and infinity; `x + 0` and `0 - x` stay, which are +0.0
where `x` and `-x` are -0.0; and `power(x, 0.5)` stays, since it differs from `sqrt` at -inf. No equation changes the
type of a result."""

from __future__ import annotations

from math import copysign, frexp, isfinite

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp
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
from tenon.dialects.ops.elementwise.comparison import BitwiseAndOp, BitwiseNotOp, BitwiseOrOp, LogicalNotOp, SelectOp
from tenon.dialects.ops.elementwise.constant import CastOp, ConstantOp
from tenon.dialects.types.types import (
    NarrowFloatType,
    element_of,
    is_bool,
    is_float,
    is_narrow_float,
    is_static,
    is_unsigned,
    numpy_dtype,
)
from tenon.passes.simplify.equation import by_class, defined_by, forward, replace_same_type
from tenon.passes.simplify.fold import splat, splat_constant


def _is_number(value: SSAValue, number: float) -> bool:
    known = splat(value)
    return known is not None and bool(known == number)


def _is_zero(value: SSAValue, sign: float) -> bool:
    """Whether all elements are zero, on floats with the sign of `sign`."""
    known = splat(value)
    return known is not None and not known and (not is_float(element_of(value.type)) or copysign(1.0, known) == sign)


# --- arithmetic -----------------------------------------------------------------------------------------------------


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
        if _is_number(op.y, 1):
            forward(op, rewriter, op.x)
        elif _is_number(op.y, -1) and op.x.type == op.result.type:
            replace_same_type(op, rewriter, NegativeOp.build_from([op.x], {}))


class MultiplyByZero(RewritePattern):
    """x * 0 -> 0, on integers"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter, /) -> None:
        if _is_number(op.y, 0) and not is_float(element_of(op.x.type)) and is_static(op.result.type):
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
        if _is_number(op.y, 1):
            forward(op, rewriter, op.x)
        elif _is_number(op.y, 2):
            replace_same_type(op, rewriter, MultiplyOp.build_from([op.x, op.x], {}))
        elif _is_number(op.y, -1) and is_float(element_of(op.x.type)):
            replace_same_type(op, rewriter, ReciprocalOp.build_from([op.x], {}))
        elif _is_number(op.y, 0) and is_static(op.result.type):
            replace_same_type(op, rewriter, splat_constant(1, op.result.type))


class SameOperands(RewritePattern):
    """maximum(x, x) -> x, and likewise for minimum, and, or"""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: MaximumOp | MinimumOp | BitwiseAndOp | BitwiseOrOp, rewriter: PatternRewriter, /
    ) -> None:
        if op.x is op.y:
            forward(op, rewriter, op.x)


# --- truth ----------------------------------------------------------------------------------------------------------


class AndTruth(RewritePattern):
    """x & true -> x, x & false -> false, x | false -> x and x | true -> true, on truth values"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseAndOp | BitwiseOrOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.y)
        if known is not None and is_bool(element_of(op.y.type)):
            forward(op, rewriter, op.x if bool(known) == isinstance(op, BitwiseAndOp) else op.y)


class DoubleNot(RewritePattern):
    """not(not(x)) -> x, for truth values and bits"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BitwiseNotOp | LogicalNotOp, rewriter: PatternRewriter, /) -> None:
        inner = defined_by(op.x, BitwiseNotOp, LogicalNotOp)
        if inner and (type(op) is type(inner) is BitwiseNotOp or is_bool(element_of(inner.x.type))):
            forward(op, rewriter, inner.x)


class SelectKnown(RewritePattern):
    """select(true, x, y) -> x, select(false, x, y) -> y and select(c, x, x) -> x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.condition)
        if op.x is op.y or known is not None:
            forward(op, rewriter, op.x if op.x is op.y or bool(known) else op.y)


class SelectTruth(RewritePattern):
    """select(c, true, false) -> c"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        if is_bool(element_of(op.result.type)) and _is_number(op.x, 1) and _is_number(op.y, 0):
            forward(op, rewriter, op.condition)


class SelectByOpposite(RewritePattern):
    """select(not(c), x, y) -> select(c, y, x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        opposite = defined_by(op.condition, BitwiseNotOp, LogicalNotOp)
        if opposite and is_bool(element_of(opposite.x.type)):
            replace_same_type(op, rewriter, SelectOp.build_from([opposite.x, op.y, op.x], {}))


class CondKnown(RewritePattern):
    """cond(true, a, b) -> a and cond(false, a, b) -> b"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CondOp, rewriter: PatternRewriter, /) -> None:
        known = splat(op.predicate)
        if known is None:
            return
        block = (op.then if bool(known) else op.otherwise).block
        terminator = block.last_op
        assert isinstance(terminator, YieldOp)
        results = list(terminator.operands)
        if [value.type for value in results] == [result.type for result in op.results]:
            rewriter.erase(terminator)
            rewriter.inline_block(block, InsertPoint.before(op))
            rewriter.replace(op, (), results)


class CheckpointUnused(RewritePattern):
    """A checkpoint computes only what is used of it: not the gradients of what is not differentiated."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CheckpointOp, rewriter: PatternRewriter, /) -> None:
        used = [position for position, result in enumerate(op.results) if result.first_use is not None]
        if len(used) == len(op.results):
            return
        terminator = op.body.block.last_op
        assert isinstance(terminator, YieldOp)
        rewriter.replace(terminator, YieldOp(*[terminator.operands[position] for position in used]), [])
        block = op.body.detach_block(0)
        types = [op.results[position].type for position in used]
        new = CheckpointOp.of(list(op.inputs), block, types, recomputed=op.is_recomputed)
        results = iter(new.results)
        rewriter.replace(op, new, [next(results) if position in used else None for position in range(len(op.results))])


class RepeatedConstant(RewritePattern):
    """constant([c, c, c]) -> constant(c), one number of which all elements are"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConstantOp, rewriter: PatternRewriter, /) -> None:
        attribute = op.properties["value"]
        assert isinstance(attribute, DenseIntOrFPElementsAttr)
        data, size = attribute.data.data, numpy_dtype(attribute.type.element_type).itemsize
        if len(data) > size and data[size : 2 * size] == data[:size] and data[size:] == data[:-size]:
            properties = {"value": DenseIntOrFPElementsAttr(attribute.type, BytesAttr(data[:size]))}
            rewriter.replace(op, ConstantOp.create(result_types=[op.result.type], properties=properties))


# --- dtypes ---------------------------------------------------------------------------------------------------------


class CastToSame(RewritePattern):
    """cast(x) -> x, to the dtype that x has"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter, /) -> None:
        if op.x.type == op.result.type:
            forward(op, rewriter, op.x)


class CastOfCast(RewritePattern):
    """cast(cast(x)) -> cast(x), where the inner cast loses nothing"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter, /) -> None:
        if not (inner := defined_by(op.x, CastOp)):
            return
        source, middle, target = (element_of(value.type) for value in (inner.x, op.x, op.result))
        # From a float, an integer is reached by saturation; from an integer by wrapping.
        changes_rule = (
            isinstance(source, IntegerType) and is_float(middle) and not is_float(target) and not is_bool(target)
        )
        if _is_exact(source, middle) and (not changes_rule or _is_exact(source, target)):
            replace_same_type(op, rewriter, CastOp.build_from([inner.x], {"dtype": target}))


_FLOAT_BITS = {"f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)}


def _float_bits(element: Attribute) -> tuple[int, int]:
    """The significant bits of a float type, and those of its exponent."""
    if isinstance(element, NarrowFloatType):
        return element.SEMANTICS.mantissa_bits + 1, element.SEMANTICS.exponent_bits
    return _FLOAT_BITS[str(element)]


def _is_exact(source: Attribute, target: Attribute) -> bool:
    """Whether every value of dtype `source` is one of dtype `target`."""
    if source == target:
        return True
    if is_bool(target) or is_narrow_float(target):  # formats of a few bits have no NaN, zero or sign in common
        return False
    if is_bool(source):
        return True
    if isinstance(source, IntegerType):
        # The bits of a magnitude, without the sign.
        bits = source.width.data - (not is_unsigned(source))
        if is_float(target):
            significant, exponent = _float_bits(target)
            return bits <= significant and bits < 2 ** (exponent - 1)
    elif is_float(target):
        return all(have <= held for have, held in zip(_float_bits(source), _float_bits(target), strict=True))
    else:
        return False
    assert isinstance(target, IntegerType)
    held = target.width.data - (not is_unsigned(target))
    return bits <= held and (is_unsigned(source) or not is_unsigned(target))


EQUATIONS = by_class(
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
        ((BitwiseAndOp, BitwiseOrOp), AndTruth()),
        ((BitwiseNotOp, LogicalNotOp), DoubleNot()),
        ((SelectOp,), SelectKnown()),
        ((SelectOp,), SelectTruth()),
        ((SelectOp,), SelectByOpposite()),
        ((CondOp,), CondKnown()),
        ((CheckpointOp,), CheckpointUnused()),
        ((ConstantOp,), RepeatedConstant()),
        ((CastOp,), CastToSame()),
        ((CastOp,), CastOfCast()),
    ]
)
"""The equations by the class of the op that stands outermost on their left side."""
