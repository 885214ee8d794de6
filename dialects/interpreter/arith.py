"""NumPy implementations of the `arith` dialect, on scalars and on whole arrays alike.

Integers are signless and wrap. `x / 0` and `x % 0` are 0, and the least integer divided by -1 is itself. Conversions
from floats to integers saturate and take NaN to 0. Signed `i1` has the values 0 and -1, as in MLIR. Narrow types are
converted by ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith

from tenon.dialects.interpreter.interpreter import Interpreter, computes, constant_value, element_dtype, implements
from tenon.dialects.upstream.float_remainder import RemFOp

Function = Callable[..., Any]
_BOOL = np.dtype(np.bool_)
_UNSIGNED = {
    np.dtype(signed): np.dtype(unsigned)
    for signed, unsigned in (
        (np.bool_, np.uint8),
        (np.int8, np.uint8),
        (np.int16, np.uint16),
        (np.int32, np.uint32),
        (np.int64, np.uint64),
        (ml_dtypes.int4, ml_dtypes.uint4),
        (ml_dtypes.int2, ml_dtypes.uint2),
    )
}


def signed(function: Function) -> Function:
    """Let a function of signed integers take `i1` as well, whose values are then 0 and -1."""

    def on_integers(*operands: Any) -> Any:
        if operands[0].dtype != _BOOL:
            return function(*operands)
        result = function(*(-operand.astype(np.int8) for operand in operands))
        return result if result.dtype == _BOOL else (result & 1).astype(_BOOL)

    return on_integers


def unsigned(function: Function) -> Function:
    """Let a function of unsigned integers take and give signless ones."""

    def on_integers(*operands: Any) -> Any:
        stored = operands[0].dtype
        result = function(*(operand.view(_UNSIGNED[operand.dtype]) for operand in operands))
        if result.dtype == _BOOL:
            return result
        return (result & 1).astype(_BOOL) if stored == _BOOL else result.view(stored)

    return on_integers


def truncated_quotient(a: Any, b: Any) -> Any:
    """Quotient rounded toward zero."""
    floor = np.floor_divide(a, b)
    return floor + ((floor * b != a) & ((a < 0) != (b < 0)) & (b != 0))


def ceiling_quotient(a: Any, b: Any) -> Any:
    """Quotient rounded up."""
    floor = np.floor_divide(a, b)
    return floor + ((floor * b != a) & (b != 0))


ADD_INTEGERS = signed(np.add)

# NumPy's integer division already gives 0 for a divisor of 0 and wraps for -1.
BINARY: dict[type[Any], Function] = {
    arith.AddiOp: ADD_INTEGERS,
    arith.SubiOp: signed(np.subtract),
    arith.MuliOp: signed(np.multiply),
    arith.DivSIOp: signed(truncated_quotient),
    arith.DivUIOp: unsigned(np.floor_divide),
    arith.FloorDivSIOp: signed(np.floor_divide),
    arith.CeilDivSIOp: signed(ceiling_quotient),
    arith.CeilDivUIOp: unsigned(ceiling_quotient),
    arith.RemSIOp: signed(np.fmod),
    arith.RemUIOp: unsigned(np.remainder),
    arith.MaxSIOp: signed(np.maximum),
    arith.MinSIOp: signed(np.minimum),
    arith.MaxUIOp: unsigned(np.maximum),
    arith.MinUIOp: unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: signed(np.left_shift),
    arith.ShRSIOp: signed(np.right_shift),
    arith.ShRUIOp: unsigned(np.right_shift),
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.NegfOp: np.negative,
    RemFOp: np.fmod,
}
for _op_type, _function in BINARY.items():
    computes(_op_type)(_function)

_COMPARE_INTEGERS: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": signed(np.less),
    "sle": signed(np.less_equal),
    "sgt": signed(np.greater),
    "sge": signed(np.greater_equal),
    "ult": unsigned(np.less),
    "ule": unsigned(np.less_equal),
    "ugt": unsigned(np.greater),
    "uge": unsigned(np.greater_equal),
}


def _ordered(a: Any, b: Any) -> Any:
    return (a == a) & (b == b)


# A predicate that also holds for NaN is the negation of its ordered opposite.
_COMPARE_FLOATS: dict[str, Function] = {
    "false": lambda a, b: np.not_equal(a, b) & np.False_,
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda a, b: np.less(a, b) | np.greater(a, b),
    "ord": _ordered,
    "ueq": lambda a, b: ~(np.less(a, b) | np.greater(a, b)),
    "ugt": lambda a, b: ~np.less_equal(a, b),
    "uge": lambda a, b: ~np.less(a, b),
    "ult": lambda a, b: ~np.greater_equal(a, b),
    "ule": lambda a, b: ~np.greater(a, b),
    "une": np.not_equal,
    "uno": lambda a, b: ~_ordered(a, b),
    "true": lambda a, b: np.equal(a, b) | np.True_,
}
_CMPI = [_COMPARE_INTEGERS[name] for name in arith.CMPI_COMPARISON_OPERATIONS]
_CMPF = [_COMPARE_FLOATS[name] for name in arith.CMPF_COMPARISON_OPERATIONS]


@implements(arith.CmpiOp)
def _cmpi(interpreter: Interpreter, op: arith.CmpiOp, a: Any, b: Any) -> Sequence[Any]:
    return (_CMPI[op.predicate.value.data](a, b),)


@implements(arith.CmpfOp)
def _cmpf(interpreter: Interpreter, op: arith.CmpfOp, a: Any, b: Any) -> Sequence[Any]:
    return (_CMPF[op.predicate.value.data](a, b),)


@implements(arith.ConstantOp, constant=True)
def _constant(interpreter: Interpreter, op: arith.ConstantOp) -> Sequence[Any]:
    return (constant_value(op.value),)


@computes(arith.SelectOp)
def _select(condition: Any, if_true: Any, if_false: Any) -> Any:
    if isinstance(condition, np.ndarray) and condition.ndim:
        return np.where(condition, if_true, if_false)
    return if_true if condition else if_false


@implements(arith.AddUIExtendedOp)
def _addui_extended(interpreter: Interpreter, op: arith.AddUIExtendedOp, a: Any, b: Any) -> Sequence[Any]:
    total = ADD_INTEGERS(a, b)
    return total, _COMPARE_INTEGERS["ult"](total, a)


@implements(arith.MulUIExtendedOp, arith.MulSIExtendedOp)
def _mul_extended(
    interpreter: Interpreter, op: arith.MulUIExtendedOp | arith.MulSIExtendedOp, a: Any, b: Any
) -> Sequence[Any]:
    stored = a.dtype
    if stored == _BOOL:
        return a & b, np.zeros_like(a & b)[()]
    if isinstance(op, arith.MulUIExtendedOp):
        a, b = a.view(_UNSIGNED[stored]), b.view(_UNSIGNED[stored])
    bits = 8 * stored.itemsize
    product = a.astype(object) * b.astype(object)  # integers of Python, which do not wrap
    words = (np.asarray(word & ((1 << bits) - 1)).astype(_UNSIGNED[stored]) for word in (product, product >> bits))
    return tuple(word.view(stored)[()] for word in words)


def round_float(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert between float types, rounding once to the nearest, ties to even."""
    if dtype.isbuiltin != 1 and value.dtype == np.float64:
        # ml_dtypes goes through float32, which rounds twice; rounding to odd first keeps what the second needs to know.
        nearest = value.astype(np.float32)
        toward_zero = np.where(abs(nearest) > abs(value), np.nextafter(nearest, np.float32(0)), nearest)
        inexact = (toward_zero != value) & (value == value)
        value = (toward_zero.view(np.int32) | inexact).view(np.float32)[()]
    return value.astype(dtype, copy=False)


def convert_integer(value: Any, dtype: np.dtype[Any], *, is_signed: bool) -> Any:
    """Widen or truncate an integer."""
    if dtype == _BOOL:
        return (value & 1).astype(_BOOL)
    if is_signed:
        return -value.astype(dtype) if value.dtype == _BOOL else value.astype(dtype)
    return value.view(_UNSIGNED[value.dtype]).astype(_UNSIGNED[dtype]).view(dtype)


def saturate_to_integer(value: Any, dtype: np.dtype[Any], *, is_signed: bool) -> Any:
    """Truncate floats toward zero; what is out of range becomes the nearest integer in range, NaN becomes 0."""
    bits = 1 if dtype == _BOOL else ml_dtypes.iinfo(dtype).bits
    least, beyond = (-(1 << (bits - 1)), 1 << (bits - 1)) if is_signed else (0, 1 << bits)
    whole = np.trunc(value.astype(np.float64))
    storage = np.dtype(np.int8) if dtype == _BOOL else dtype
    storage = storage if is_signed else _UNSIGNED[storage]
    inside = np.where((whole >= least) & (whole < beyond), whole, 0).astype(storage)
    limited = np.where(whole >= beyond, storage.type(beyond - 1), np.where(whole < least, storage.type(least), inside))
    return ((limited & 1).astype(_BOOL) if dtype == _BOOL else limited.view(dtype))[()]


def _converting(*op_types: type[Any]) -> Callable[[Function], Function]:
    """Register a function of the operand and the dtype of the result."""

    def decorate(function: Function) -> Function:
        @implements(*op_types)
        def implementation(interpreter: Interpreter, op: Any, value: Any) -> Sequence[Any]:
            return (function(value, element_dtype(op.results[0].type)),)

        return function

    return decorate


_converting(arith.ExtFOp, arith.TruncFOp)(round_float)
_converting(arith.TruncIOp, arith.ExtSIOp, arith.IndexCastOp)(
    lambda value, dtype: convert_integer(value, dtype, is_signed=True)
)
_converting(arith.ExtUIOp)(lambda value, dtype: convert_integer(value, dtype, is_signed=False))
_converting(arith.FPToSIOp)(lambda value, dtype: saturate_to_integer(value, dtype, is_signed=True))
_converting(arith.FPToUIOp)(lambda value, dtype: saturate_to_integer(value, dtype, is_signed=False))


@_converting(arith.SIToFPOp)
def _signed_to_float(value: Any, dtype: np.dtype[Any]) -> Any:
    return _integer_to_float(convert_integer(value, np.dtype(np.int64), is_signed=True), dtype)


@_converting(arith.UIToFPOp)
def _unsigned_to_float(value: Any, dtype: np.dtype[Any]) -> Any:
    return _integer_to_float(value.view(_UNSIGNED[value.dtype]).astype(np.uint64), dtype)


def _integer_to_float(wide: Any, dtype: np.dtype[Any]) -> Any:
    """Convert integers of 64 bits, rounding once."""
    if dtype.itemsize > 2:
        return wide.astype(dtype)
    # What float64 cannot hold is far below the last place of the result, but must not look like a tie.
    bits, one = wide.dtype.type(12), wide.dtype.type(1)
    rounded = (wide >> bits | ((wide & wide.dtype.type(0xFFF)) != 0) * one) << bits
    is_small = (wide < 1 << 53) & (wide > (-(1 << 53) if wide.dtype.kind == "i" else -1))
    return round_float(np.where(is_small, wide, rounded).astype(np.float64), dtype)[()]


@_converting(arith.BitcastOp)
def _bitcast(value: Any, dtype: np.dtype[Any]) -> Any:
    return value.view(dtype)
