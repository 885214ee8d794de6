"""The equations of constants and casts that `canonicalize` applies from left to right."""

from __future__ import annotations

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tenon.dialects.ops.elementwise.constant import CastOp, ConstantOp
from tenon.dialects.types.types import (
    NarrowFloatType,
    element_of,
    is_bool,
    is_float,
    is_narrow_float,
    is_unsigned,
    numpy_dtype,
)
from tenon.passes.simplify.equation import by_class, defined_by, forward, replace_same_type


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


DTYPE_EQUATIONS = by_class(
    [
        ((ConstantOp,), RepeatedConstant()),
        ((CastOp,), CastToSame()),
        ((CastOp,), CastOfCast()),
    ]
)
