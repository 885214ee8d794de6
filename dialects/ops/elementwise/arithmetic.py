"""Arithmetic: the ops behind Python's operators on numbers, and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith, math
from xdsl.irdl import operand_def, opt_operand_def, result_def

from tenon.dialects.definition.keywords import Meaning, times_second
from tenon.dialects.definition.scalar import ScalarForms, emit_scalar, scalar_constant
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import (
    BinaryOp,
    ElementwiseOp,
    NumericBinaryOp,
    NumericUnaryOp,
    OfTruthValues,
    PrimitiveOp,
    UnaryOp,
)
from tenon.dialects.types.types import NUMERIC_TENSOR, is_float, is_unsigned
from tenon.dialects.upstream.float_remainder import RemFOp


@tensor_op
class AddOp(NumericBinaryOp, PrimitiveOp):
    """The sum of `x` and `y`. Integers wrap.

    >>> tenon.add(np.array([[1], [2]]), np.array([10, 20, 30]))
    >>> tenon.add(np.array([127], np.int8), np.array([1], np.int8))
    """

    name = "tenon.add"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.AddfOp, arith.AddiOp)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"alpha": times_second}
    vjp = staticmethod(lambda g, out, x, y: (g, g))


@tensor_op
class SubtractOp(NumericBinaryOp, PrimitiveOp):
    """`x` less `y`. Integers wrap.

    >>> tenon.subtract(np.array([5.0, 1.5]), np.array([2.0, 2.0]))
    >>> tenon.subtract(np.array([1], np.uint8), np.array([2], np.uint8))
    """

    name = "tenon.subtract"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.SubfOp, arith.SubiOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("sub",)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"alpha": times_second}
    vjp = staticmethod(lambda g, out, x, y: (g, -g))


@tensor_op
class MultiplyOp(NumericBinaryOp, PrimitiveOp):
    """The product of `x` and `y`. Integers wrap.

    >>> tenon.multiply(np.array([2.0, -3.0]), np.array([4.0, 5.0]))
    >>> tenon.multiply(np.array([100], np.int8), np.array([2], np.int8))
    """

    name = "tenon.multiply"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.MulfOp, arith.MuliOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("mul",)
    vjp = staticmethod(lambda g, out, x, y: (g * y, g * x))


@tensor_op
class DivideOp(BinaryOp, PrimitiveOp):
    """The quotient of `x` and `y`. Integers are taken as f32 (NumPy takes them as f64).

    >>> tenon.divide(np.array([1.0, -1.0, 0.0]), np.array([4.0, 0.0, 0.0]))
    >>> tenon.divide(np.array([7]), np.array([2]))
    """

    name = "tenon.divide"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.DivfOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("true_divide",)
    vjp = staticmethod(lambda g, out, x, y: (g / y, -g * out / y))


def _floored_remainder(x: Value, y: Value) -> tuple[Value, Value]:
    """What remains of a division of floats with the sign of `x`, and with that of `y`; the latter rounded once."""
    remainder = emit_scalar(RemFOp, x, y)
    has_other_sign = (remainder < 0) != (y < 0)
    of_sign = ops.select(has_other_sign, remainder + y, remainder)
    return remainder, ops.select(remainder == 0, emit_scalar(math.CopySignOp, remainder, y), of_sign)


def _nearly_whole(quotient: Value) -> Value:
    """The whole number that a quotient is but for the rounding of its dividend, as NumPy finds it."""
    below = ops.floor(quotient)
    return ops.select(quotient - below > 0.5, below + 1, below)


@tensor_op
class FloorDivideOp(NumericBinaryOp, PrimitiveOp):
    """The quotient of `x` and `y` rounded down, as Python's `//`.

    Integers divided by 0 give 0, and the least one divided by -1 gives itself, as in NumPy. Floats divided by 0 give
    an infinity or NaN; an infinite `x` gives NaN.

    >>> tenon.floor_divide(np.array([7.0, -7.0]), np.array([2.0, 2.0]))
    >>> tenon.floor_divide(np.array([7, -7, 7]), np.array([2, 2, 0]))
    """

    name = "tenon.floor_divide"

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        if is_float(x.type):
            remainder, floored = _floored_remainder(x, y)
            quotient = (x - remainder) / y
            quotient = _nearly_whole(ops.select(floored == remainder, quotient, quotient - 1))
            signed_zero = emit_scalar(math.CopySignOp, quotient, x / y)
            return ops.select(y == 0, x / y, ops.select(quotient == 0, signed_zero, quotient))
        return emit_scalar(arith.DivUIOp if is_unsigned(x.type) else arith.FloorDivSIOp, x, y)

    vjp = staticmethod(lambda g, out, x, y: (None, None))


@tensor_op
class RemainderOp(NumericBinaryOp, PrimitiveOp):
    """What remains of `x` after division by `y`, with the sign of `y`, as Python's `%`. Integers modulo 0 give 0.

    That of floats is exact where `x` and `y` have one sign, else rounded once. A 0 has the sign of `y` as well.

    >>> tenon.remainder(np.array([7, -7, 7]), np.array([3, 3, -3]))
    """

    name = "tenon.remainder"
    ALIASES: ClassVar[tuple[str, ...]] = ("mod",)

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        if is_float(x.type):
            return _floored_remainder(x, y)[1]
        if is_unsigned(x.type):
            return emit_scalar(arith.RemUIOp, x, y)
        remainder = emit_scalar(arith.RemSIOp, x, y)
        return ops.select((remainder != 0) & ((remainder < 0) != (y < 0)), remainder + y, remainder)

    vjp = staticmethod(lambda g, out, x, y: (g, -g * ops.floor_divide(x, y)))


@tensor_op
class TruncateDivideOp(NumericBinaryOp, PrimitiveOp):
    """The quotient of `x` and `y` rounded toward zero, as C's `/` on integers.

    Integers divided by 0 give 0, and the least one divided by -1 gives itself.

    >>> tenon.truncate_divide(np.array([7, -7, 7]), np.array([2, 2, 0]))
    """

    name = "tenon.truncate_divide"

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        if is_float(x.type):
            quotient = x / y
            remainder = emit_scalar(RemFOp, x, y)
            # x / y may have been rounded up to the next integer.
            exact = emit_scalar(math.CopySignOp, _nearly_whole(abs((x - remainder) / y)), quotient)
            return ops.select(remainder == remainder, exact, quotient)
        return emit_scalar(arith.DivUIOp if is_unsigned(x.type) else arith.DivSIOp, x, y)

    vjp = staticmethod(lambda g, out, x, y: (None, None))


@tensor_op
class FmodOp(NumericBinaryOp, PrimitiveOp):
    """What remains of `x` after division by `y`, with the sign of `x`, as C's `fmod` and `%`. Integers modulo 0 give 0.

    That of floats is exact, however large the quotient is.

    >>> tenon.fmod(np.array([7, -7, 7]), np.array([3, 3, -3]))
    """

    name = "tenon.fmod"

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        if is_float(x.type):
            return emit_scalar(RemFOp, x, y)
        return emit_scalar(arith.RemUIOp if is_unsigned(x.type) else arith.RemSIOp, x, y)

    vjp = staticmethod(lambda g, out, x, y: (g, -g * ops.truncate_divide(x, y)))


@tensor_op
class PowerOp(NumericBinaryOp, PrimitiveOp):
    """`x` to the power `y`. A negative float to a fractional power is NaN. Integers wrap; negative powers of them round
    toward zero, and those of 0 are 0.

    >>> tenon.power(np.array([2.0, 4.0, -8.0]), np.array([3.0, 0.5, 0.5]))
    >>> tenon.power(np.array([2, 2, 0]), np.array([3, -1, -1]))
    """

    name = "tenon.power"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"exponent": "y"}
    AUTOCAST = "full"
    ALIASES: ClassVar[tuple[str, ...]] = ("pow",)

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        if is_float(x.type):
            return emit_scalar(math.PowFOp, x, y)
        if not is_unsigned(x.type):
            return emit_scalar(math.IPowIOp, x, y)
        # ipowi takes exponents as signed, and half of an unsigned one is not negative.
        root = emit_scalar(math.IPowIOp, x, y >> 1)
        return root * root * ops.select((y & 1) == 0, 1, x)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Any, ...]:
        # At y = 0 the power is constant in x, and at x = 0 constant in y: there the plain formulas give 0 * inf.
        slope = ops.select(y == 0, 0.0, y * x ** (y - 1.0))
        logarithm = ops.log(ops.select(x == 0, 1.0, x))
        return g * slope, g * out * logarithm


@tensor_op
class NegativeOp(NumericUnaryOp, PrimitiveOp):
    """`x` with its sign changed. Integers wrap: the least one stays as it is, unsigned ones become 2^width - `x`.

    >>> tenon.negative(np.array([1.0, -2.0]))
    >>> tenon.negative(np.array([-128, 1], np.int8))
    >>> tenon.negative(np.array([0, 1], np.uint8))
    """

    name = "tenon.negative"
    ALIASES: ClassVar[tuple[str, ...]] = ("neg",)

    @staticmethod
    def scalar(x: Value) -> Value:
        if is_float(x.type):
            return emit_scalar(arith.NegfOp, x)
        return emit_scalar(arith.SubiOp, scalar_constant(0, x.type), x)

    vjp = staticmethod(lambda g, out, x: -g)


@tensor_op
class AbsOp(NumericUnaryOp, PrimitiveOp):
    """The magnitude of `x`. The least integer stays as it is. The gradient at 0 is 0.

    >>> tenon.abs(np.array([-1.5, 2.0]))
    >>> tenon.abs(np.array([-128, -1], np.int8))
    """

    name = "tenon.abs"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.AbsFOp, math.AbsIOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("absolute",)

    @classmethod
    def on_scalars(cls, values: Sequence[Value], settings: dict[str, Any]) -> Any:
        return values[0] if is_unsigned(values[0].type) else super().on_scalars(values, settings)

    vjp = staticmethod(lambda g, out, x: g * ops.sign(x))


@tensor_op
class SignOp(NumericUnaryOp):
    """-1, 0 or 1, as `x` is negative, zero or positive; NaN for NaN. The gradient is 0.

    >>> tenon.sign(np.array([-2.0, 0.0, 5.0, np.nan]))
    """

    name = "tenon.sign"
    ALIASES: ClassVar[tuple[str, ...]] = ("sgn",)

    @staticmethod
    def scalar(x: Value) -> Value:
        negative_or_zero = x if is_unsigned(x.element_type) else ops.select(x < 0, -1, x)
        return ops.select(x > 0, 1, negative_or_zero)

    vjp = staticmethod(lambda g, out, x: (None,))


def _shared(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """The gradients of the larger of `x` and `y`: all of `g` to the larger, half to each where they are equal."""
    part = ops.select(x == y, 0.5 * g, g)
    return ops.select(x >= y, part, 0.0), ops.select(x <= y, part, 0.0)


@tensor_op
class MaximumOp(OfTruthValues, NumericBinaryOp, PrimitiveOp):
    """The larger of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient.

    >>> tenon.maximum(np.array([1.0, 5.0, np.nan]), np.array([2.0, 3.0, 4.0]))
    """

    name = "tenon.maximum"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.MaximumfOp, arith.MaxSIOp, on_unsigned=arith.MaxUIOp)
    vjp = staticmethod(lambda g, out, x, y: _shared(g, x, y))


@tensor_op
class MinimumOp(OfTruthValues, NumericBinaryOp, PrimitiveOp):
    """The smaller of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient.

    >>> tenon.minimum(np.array([1.0, 5.0, np.nan]), np.array([2.0, 3.0, 4.0]))
    """

    name = "tenon.minimum"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(arith.MinimumfOp, arith.MinSIOp, on_unsigned=arith.MinUIOp)
    vjp = staticmethod(lambda g, out, x, y: _shared(g, y, x))  # x is the smaller where y is the larger


@tensor_op
class SquareOp(NumericUnaryOp):
    """`x` times itself.

    >>> tenon.square(np.array([1.5, -3.0]))
    """

    name = "tenon.square"
    scalar = staticmethod(lambda x: x * x)


@tensor_op
class ReciprocalOp(UnaryOp):
    """One divided by `x`. Integers are taken as f32 (NumPy divides them as integers).

    >>> tenon.reciprocal(np.array([4.0, -0.5, 0.0]))
    """

    name = "tenon.reciprocal"
    AUTOCAST = "full"
    scalar = staticmethod(lambda x: 1.0 / x)


@tensor_op
class ClipOp(ElementwiseOp):
    """`x` limited to [`low`, `high`], either of which may be left out; `high` where `low` is above it. NaN stays.

    The gradient goes to `x` between the bounds and on them, else to the bound.

    >>> x = np.array([-2.0, 0.5, 3.0])
    >>> tenon.clip(x, -1.0, 1.0)
    >>> tenon.clip(x, low=0.0)
    """

    name = "tenon.clip"
    x = operand_def(NUMERIC_TENSOR)
    low = opt_operand_def(NUMERIC_TENSOR)
    high = opt_operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)
    ALIASES: ClassVar[tuple[str, ...]] = ("clamp",)
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"min": "low", "max": "high"}

    @staticmethod
    def scalar(x: Value, low: Value | None, high: Value | None) -> Value:
        if low is not None:
            x = ops.maximum(x, low)
        return x if high is None else ops.minimum(x, high)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, low: Value | None, high: Value | None) -> tuple[Any, ...]:
        raised = x if low is None else ops.maximum(x, low)
        from_high = None if high is None else raised > high
        below_high = g if from_high is None else ops.select(from_high, 0.0, g)
        to_x = below_high if low is None else ops.select(x < low, 0.0, below_high)
        to_low = None if low is None else ops.select(x < low, below_high, 0.0)
        to_high = None if from_high is None else ops.select(from_high, g, 0.0)
        return to_x, to_low, to_high
