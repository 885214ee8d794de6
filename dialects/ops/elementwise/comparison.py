"""Comparisons, logic on truth values and bits, and the choice between two values."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.keywords import MeantOtherwise
from tenon.dialects.definition.scalar import OpBuilder, ScalarForms, emit_scalar, scalar_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ElementwiseOp, PrimitiveOp
from tenon.dialects.types.types import (
    ANY_TENSOR,
    BOOL_TENSOR,
    FLOAT_TENSOR,
    INTEGER_TENSOR,
    INTEGRAL_TENSOR,
    STORED_TENSOR,
    i1,
    is_bool,
)


def _compare_floats(predicate: str) -> OpBuilder:
    def build(x: SSAValue, y: SSAValue) -> Operation:
        return arith.CmpfOp(x, y, predicate)

    return build


def _compare_integers(predicate: str) -> OpBuilder:
    def build(x: SSAValue, y: SSAValue) -> Operation:
        return arith.CmpiOp(x, y, predicate)

    return build


def _comparison(on_floats: str, on_integers: str, on_unsigned: str) -> ScalarForms:
    """False is below True, as with unsigned integers."""
    unsigned = _compare_integers(on_unsigned)
    return ScalarForms(_compare_floats(on_floats), _compare_integers(on_integers), unsigned, unsigned)


class TruthOp(PrimitiveOp):
    """A primitive whose result is a truth value; it has no gradient."""

    traits = traits_def(Pure(), NoGradient())

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        return i1


class ComparisonOp(TruthOp):
    """How each element of `x` compares to that of `y`."""

    x = operand_def(ANY_TENSOR)
    y = operand_def(ANY_TENSOR)
    result = result_def(BOOL_TENSOR)


@tensor_op
class EqualOp(ComparisonOp):
    """Whether `x` and `y` are equal. NaN equals nothing.

    >>> tenon.equal(np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan]))
    """

    name = "tenon.equal"
    SCALAR: ClassVar[ScalarForms] = _comparison("oeq", "eq", "eq")
    ALIASES: ClassVar[tuple[str, ...]] = ("eq",)


@tensor_op
class NotEqualOp(ComparisonOp):
    """Whether `x` and `y` differ. NaN differs from everything.

    >>> tenon.not_equal(np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan]))
    """

    name = "tenon.not_equal"
    SCALAR: ClassVar[ScalarForms] = _comparison("une", "ne", "ne")
    ALIASES: ClassVar[tuple[str, ...]] = ("ne",)


@tensor_op
class LessOp(ComparisonOp):
    """Whether `x` is below `y`; false for NaN, and False is below True.

    >>> tenon.less(np.array([1.0, 2.0, 3.0, np.nan]), 2.0)
    """

    name = "tenon.less"
    SCALAR: ClassVar[ScalarForms] = _comparison("olt", "slt", "ult")
    ALIASES: ClassVar[tuple[str, ...]] = ("lt",)


@tensor_op
class LessEqualOp(ComparisonOp):
    """Whether `x` is `y` or below; false for NaN.

    >>> tenon.less_equal(np.array([1.0, 2.0, 3.0, np.nan]), 2.0)
    """

    name = "tenon.less_equal"
    SCALAR: ClassVar[ScalarForms] = _comparison("ole", "sle", "ule")
    ALIASES: ClassVar[tuple[str, ...]] = ("le",)


@tensor_op
class GreaterOp(ComparisonOp):
    """Whether `x` is above `y`; false for NaN, and True is above False.

    >>> tenon.greater(np.array([1.0, 2.0, 3.0, np.nan]), 2.0)
    """

    name = "tenon.greater"
    SCALAR: ClassVar[ScalarForms] = _comparison("ogt", "sgt", "ugt")
    ALIASES: ClassVar[tuple[str, ...]] = ("gt",)


@tensor_op
class GreaterEqualOp(ComparisonOp):
    """Whether `x` is `y` or above; false for NaN.

    >>> tenon.greater_equal(np.array([1.0, 2.0, 3.0, np.nan]), 2.0)
    """

    name = "tenon.greater_equal"
    SCALAR: ClassVar[ScalarForms] = _comparison("oge", "sge", "uge")
    ALIASES: ClassVar[tuple[str, ...]] = ("ge",)


@tensor_op
class IsNanOp(TruthOp):
    """Whether `x` is NaN.

    >>> tenon.isnan(np.array([1.0, np.inf, np.nan]))
    """

    name = "tenon.isnan"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(BOOL_TENSOR)
    scalar = staticmethod(lambda x: emit_scalar(_compare_floats("uno"), x, x))


@tensor_op
class IsInfOp(TruthOp):
    """Whether `x` is infinite: negative (unless not `detect_negative`) or positive (unless not `detect_positive`).

    >>> x = np.array([-np.inf, 0.0, np.inf, np.nan])
    >>> tenon.isinf(x)
    >>> tenon.isinf(x, detect_negative=False)
    """

    name = "tenon.isinf"
    x = operand_def(FLOAT_TENSOR)
    detect_negative = setting(bool, default=True)
    detect_positive = setting(bool, default=True)
    result = result_def(BOOL_TENSOR)

    @staticmethod
    def scalar(x: Value, *, detect_negative: bool, detect_positive: bool) -> Value:
        if detect_negative and detect_positive:
            return abs(x) == inf
        if detect_negative == detect_positive:
            return (x == inf) & (x == -inf)  # neither
        return x == (inf if detect_positive else -inf)


@tensor_op
class IsFiniteOp(TruthOp):
    """Whether `x` is neither infinite nor NaN.

    >>> tenon.isfinite(np.array([1.0, -np.inf, np.nan]))
    """

    name = "tenon.isfinite"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(BOOL_TENSOR)
    scalar = staticmethod(lambda x: abs(x) < inf)


class LogicalOp(ElementwiseOp):
    """Logic on the truth of elements of any dtype: what is not zero is true."""

    traits = traits_def(Pure(), NoGradient())
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        return i1


class LogicalPairOp(LogicalOp):
    """Logic on the truth of two elements."""

    x = operand_def(ANY_TENSOR)
    y = operand_def(ANY_TENSOR)
    result = result_def(BOOL_TENSOR)


def _truth(x: Value | float) -> Value:
    return ops.cast(x, dtype=np.bool_)


@tensor_op
class LogicalAndOp(LogicalPairOp):
    """Whether both `x` and `y` are true (not zero).

    >>> tenon.logical_and(np.array([True, True, False]), np.array([True, False, False]))
    >>> tenon.logical_and(np.array([1, 2, 0]), np.array([2, 0, 0]))
    """

    name = "tenon.logical_and"
    scalar = staticmethod(lambda x, y: _truth(x) & _truth(y))


@tensor_op
class LogicalOrOp(LogicalPairOp):
    """Whether `x` or `y` is true (not zero).

    >>> tenon.logical_or(np.array([True, True, False]), np.array([True, False, False]))
    """

    name = "tenon.logical_or"
    scalar = staticmethod(lambda x, y: _truth(x) | _truth(y))


@tensor_op
class LogicalXorOp(LogicalPairOp):
    """Whether one of `x` and `y` is true (not zero) and the other is not.

    >>> tenon.logical_xor(np.array([True, True, False]), np.array([True, False, False]))
    """

    name = "tenon.logical_xor"
    scalar = staticmethod(lambda x, y: _truth(x) ^ _truth(y))


@tensor_op
class LogicalNotOp(LogicalOp):
    """Whether `x` is false (zero).

    >>> tenon.logical_not(np.array([True, False]))
    >>> tenon.logical_not(np.array([0.0, 0.5]))
    """

    name = "tenon.logical_not"
    x = operand_def(ANY_TENSOR)
    result = result_def(BOOL_TENSOR)
    scalar = staticmethod(lambda x: ~_truth(x))


class BitwiseOp(PrimitiveOp):
    """Logic on the bits of two integers or truth values."""

    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGRAL_TENSOR)
    y = operand_def(INTEGRAL_TENSOR)
    result = result_def(INTEGRAL_TENSOR)


@tensor_op
class BitwiseAndOp(BitwiseOp):
    """The bits set in both `x` and `y`; on truth values, whether both are true.

    >>> tenon.bitwise_and(np.array([0b1100, 6]), np.array([0b1010, 3]))
    """

    name = "tenon.bitwise_and"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(None, arith.AndIOp, arith.AndIOp)


@tensor_op
class BitwiseOrOp(BitwiseOp):
    """The bits set in `x` or `y`; on truth values, whether one is true.

    >>> tenon.bitwise_or(np.array([0b1100, 6]), np.array([0b1010, 3]))
    """

    name = "tenon.bitwise_or"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(None, arith.OrIOp, arith.OrIOp)


@tensor_op
class BitwiseXorOp(BitwiseOp):
    """The bits in which `x` and `y` differ; on truth values, whether they differ.

    >>> tenon.bitwise_xor(np.array([0b1100, 6]), np.array([0b1010, 3]))
    """

    name = "tenon.bitwise_xor"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(None, arith.XOrIOp, arith.XOrIOp)


@tensor_op
class BitwiseNotOp(PrimitiveOp):
    """`x` with every bit flipped; the opposite of a truth value.

    >>> tenon.bitwise_not(np.array([0, 5, -1]))
    >>> tenon.bitwise_not(np.array([0, 5], np.uint8))
    """

    name = "tenon.bitwise_not"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGRAL_TENSOR)
    result = result_def(INTEGRAL_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("invert", "bitwise_invert")

    @staticmethod
    def scalar(x: Value) -> Value:
        ones = scalar_constant(1 if is_bool(x.type) else -1, x.type)
        return emit_scalar(arith.XOrIOp, x, ones)


@tensor_op
class PopulationCountOp(PrimitiveOp):
    """How many bits of `x` are set, in the dtype of `x`. A negative number has those of its two's complement.

    >>> tenon.population_count(np.array([0, 1, 255, -1], np.int32))
    >>> tenon.sum(tenon.population_count(np.array([0b1100, 6], np.uint8) ^ np.array([0b1010, 6], np.uint8)))
    """

    name = "tenon.population_count"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)
    SCALAR: ClassVar[ScalarForms] = ScalarForms(on_integers=math.CtPopOp)


@tensor_op
class BitwiseCountOp(ElementwiseOp):
    """How many bits of the magnitude of `x` are set, in the dtype of `x` (NumPy gives uint8).

    For the bits of a negative number itself there is `population_count`.

    >>> tenon.bitwise_count(np.array([0, 1, 255, -1], np.int32))
    """

    name = "tenon.bitwise_count"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)
    scalar = staticmethod(lambda x: ops.population_count(abs(x)))


@tensor_op
class SelectOp(PrimitiveOp):
    """`x` where `condition` is true, else `y`. The branch that is not taken gets no gradient, whatever it is.

    Of a condition alone it is `nonzero`, as `where` is in NumPy.

    >>> x = np.array([-1.0, 2.0, -3.0])
    >>> tenon.select(x > 0, x, 0.1 * x)
    """

    name = "tenon.select"
    condition = operand_def(BOOL_TENSOR)
    x = operand_def(STORED_TENSOR)
    y = operand_def(STORED_TENSOR)
    result = result_def(STORED_TENSOR)
    SCALAR: ClassVar[ScalarForms] = ScalarForms(on_bools=arith.SelectOp)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x", "y")
    ALIASES: ClassVar[tuple[str, ...]] = ("where",)
    vjp = staticmethod(lambda g, out, c, x, y: (None, ops.select(c, g, 0.0), ops.select(c, 0.0, g)))

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(args) == 1 and not kwargs:
            raise MeantOtherwise(
                f"{cls.name}: there is a condition alone; write condition.nonzero() for where it is true",
                lambda: ops.nonzero(args[0]),
            )
        if all(isinstance(part, list | tuple) and _has_arrays(part) for part in args[:2]) and len(args) > 1:
            raise TypeError(
                f"{cls.name}: condition and x are lists of arrays; write where(condition, x, where(...)) for the first "
                "that is true, as numpy.select has it, or stack the arrays"
            )
        return super().bind(args, kwargs)


def _has_arrays(parts: list[Any] | tuple[Any, ...]) -> bool:
    return any(getattr(part, "shape", ()) for part in parts)
