"""Elementary functions of two variables. Integers are taken as f32, except where an op takes them."""

from __future__ import annotations

import math as numbers
from typing import Any, ClassVar

from xdsl.dialects import arith, math
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import ScalarForms, convert
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, emit, ops
from tenon.dialects.families import BinaryOp, ElementwiseOp, PrimitiveOp
from tenon.dialects.types.types import FLOAT_TENSOR, NUMERIC_TENSOR, TensorConstraint, f32, f64, i32, i64, is_float

WIDE_FLOAT_TENSOR = TensorConstraint((f32, f64))


@tensor_op
class HypotOp(BinaryOp):
    """The distance of the point (`x`, `y`) from the origin, without overflow; inf if either is infinite.

    The gradient at the origin is 0.

    >>> tenon.hypot(np.array([3.0, 5.0, np.inf]), np.array([4.0, 12.0, np.nan]))
    """

    name = "tenon.hypot"

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        a, b = abs(x), abs(y)
        if x.type == f64:
            large = ops.maximum(a, b)
            ratio = ops.minimum(a, b) / ops.select(large == 0.0, 1.0, large)
            length = large * ops.sqrt(1.0 + ratio * ratio)
        else:
            wide = [convert(v, f64) for v in (x, y)]
            length = convert(ops.sqrt(wide[0] * wide[0] + wide[1] * wide[1]), x.type)
        return ops.select((a == numbers.inf) | (b == numbers.inf), numbers.inf, length)

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Any, ...]:
        is_origin = out == 0.0
        scaled = ops.select(is_origin, 0.0, g / ops.select(is_origin, 1.0, out))
        return scaled * x, scaled * y


class LogAddOp(BinaryOp):
    """The logarithm of the sum of two powers of one base."""

    AUTOCAST = "full"

    BASE: ClassVar[float]

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, y: Value) -> tuple[Any, ...]:
        difference = ops.select(x == y, 0.0, x - y) * numbers.log(cls.BASE)  # inf - inf is NaN
        return g * ops.sigmoid(difference), g * ops.sigmoid(-difference)


def _distance(x: Value, y: Value) -> Value:
    """|x - y|, and 0 of two equal infinities."""
    return ops.select(x == y, 0.0, abs(x - y))


@tensor_op
class LogaddexpOp(LogAddOp):
    """log(exp(`x`) + exp(`y`)), without overflow.

    >>> tenon.logaddexp(np.array([0.0, 1000.0]), np.array([0.0, 1000.0]))
    """

    name = "tenon.logaddexp"
    BASE: ClassVar[float] = numbers.e
    scalar = staticmethod(lambda x, y: ops.maximum(x, y) + ops.log1p(ops.exp(-_distance(x, y))))


@tensor_op
class Logaddexp2Op(LogAddOp):
    """log2(2^`x` + 2^`y`), without overflow.

    >>> tenon.logaddexp2(np.array([0.0, 2000.0]), np.array([0.0, 2000.0]))
    """

    name = "tenon.logaddexp2"
    BASE: ClassVar[float] = 2.0

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        return ops.maximum(x, y) + ops.log1p(ops.exp2(-_distance(x, y))) * (1.0 / numbers.log(2.0))


@tensor_op
class XlogyOp(BinaryOp):
    """`x` log(`y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where log(`y`) is not finite.

    >>> tenon.xlogy(np.array([2.0, 0.0, 0.0]), np.array([np.e, 0.0, np.nan]))
    """

    name = "tenon.xlogy"
    AUTOCAST = "full"
    scalar = staticmethod(lambda x, y: ops.select((x == 0.0) & (y == y), 0.0, x * ops.log(y)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Any, ...]:
        is_zero = (x == 0.0) & (y <= 0.0)
        return g * ops.select(is_zero, 0.0, ops.log(ops.select(is_zero, 1.0, y))), g * x / y


@tensor_op
class Xlog1pyOp(BinaryOp):
    """`x` log(1 + `y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where `y` is -1 or below.

    >>> tenon.xlog1py(np.array([2.0, 0.0, 0.0]), np.array([np.e - 1, -1.0, np.nan]))
    """

    name = "tenon.xlog1py"
    AUTOCAST = "full"
    scalar = staticmethod(lambda x, y: ops.select((x == 0.0) & (y == y), 0.0, x * ops.log1p(y)))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Any, ...]:
        is_zero = (x == 0.0) & (y <= -1.0)
        return g * ops.select(is_zero, 0.0, ops.log1p(ops.select(is_zero, 0.0, y))), g * x / (1.0 + y)


@tensor_op
class CopysignOp(BinaryOp, PrimitiveOp):
    """The magnitude of `x` with the sign of `y`, of zeros, too. The gradient at 0 is 0, and none goes to `y`.

    >>> tenon.copysign(np.array([1.5, -2.0, 3.0]), np.array([-1.0, 1.0, -0.0]))
    """

    name = "tenon.copysign"
    SCALAR: ClassVar[ScalarForms] = ScalarForms(math.CopySignOp)
    vjp = staticmethod(lambda g, out, x, y: (g * ops.sign(x) * ops.sign(out), None))


def _bitcast(value: Value, target: Attribute) -> Value:
    return Value(emit(arith.BitcastOp(value.ssa, target)).results[0])


@tensor_op
class NextafterOp(ElementwiseOp):
    """The float (f32 or f64) after `x` in the direction of `y`; `y` where they are equal.

    >>> x, y = np.array([1.0, 1.0, 1.0], np.float32), np.array([2.0, 0.0, 1.0], np.float32)
    >>> (tenon.nextafter(x, y) - x) * 2.0**24
    """

    name = "tenon.nextafter"
    x = operand_def(WIDE_FLOAT_TENSOR)
    y = operand_def(WIDE_FLOAT_TENSOR)
    result = result_def(WIDE_FLOAT_TENSOR)
    traits = traits_def(Pure(), NoGradient())

    @staticmethod
    def scalar(x: Value, y: Value) -> Value:
        bits = _bitcast(x, i32 if x.type == f32 else i64)
        away_from_zero = (x < y) == (x > 0.0)
        next_one = _bitcast(ops.select(away_from_zero, bits + 1, bits - 1), x.type)
        least = _bitcast(bits * 0 + 1, x.type)
        signed = ops.select(y < 0.0, -least, least)
        moved = ops.select(x == 0.0, signed, next_one)
        return ops.select(x == y, y, ops.select((x == x) & (y == y), moved, x + y))


@tensor_op
class HeavisideOp(ElementwiseOp):
    """0 where `x` is negative, 1 where it is positive, `values` where it is 0; NaN for NaN.

    >>> tenon.heaviside(np.array([-1.0, 0.0, 2.0, np.nan]), 0.5)
    """

    name = "tenon.heaviside"
    x = operand_def(NUMERIC_TENSOR)
    values = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)
    traits = traits_def(Pure(), NoGradient())

    @staticmethod
    def scalar(x: Value, values: Value) -> Value:
        step = ops.select(x == 0, values, ops.select(x > 0, 1, 0))
        return ops.select(x != x, x, step) if is_float(x.type) else step


@tensor_op
class LerpOp(ElementwiseOp):
    """`start` + `weight` (`end` - `start`): `start` for weight 0 and `end` for weight 1, both exactly.

    >>> tenon.lerp(np.array([0.0, 10.0]), np.array([1.0, 20.0]), np.array([0.25, 1.5]))
    """

    name = "tenon.lerp"
    start = operand_def(FLOAT_TENSOR)
    end = operand_def(FLOAT_TENSOR)
    weight = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(start: Value, end: Value, weight: Value) -> Value:
        from_start = start + weight * (end - start)
        from_end = end - (1.0 - weight) * (end - start)
        return ops.select(abs(weight) < 0.5, from_start, from_end)

    vjp = staticmethod(lambda g, out, start, end, weight: (g * (1.0 - weight), g * weight, g * (end - start)))
