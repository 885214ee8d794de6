"""Which dtype operands meet in: the rule is stated once, ops only say which operands it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import is_on_gpu, on_gpu_viewed, plain_array
from tenon.dialects.types.types import (
    TensorConstraint,
    element_type,
    f32,
    f64,
    i64,
    is_bool,
    is_float,
    is_narrow,
    is_narrow_float,
    numpy_dtype,
    promote,
)


def is_literal(value: Any) -> bool:
    # np.float64 is a float of Python's as well, but has a dtype, as all other numbers of NumPy's have
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def adopted(literal: float, element: Attribute, where: str) -> bool | int | float:
    """`literal` as a number of the dtype `element` that it adopts; `where` (op and operand) begins the error.

    Raises `OverflowError` for an integer that the dtype does not hold: nothing wraps silently.
    """
    if is_bool(element):
        return bool(literal)
    if is_float(element) or is_narrow_float(element):
        try:
            return float(literal)
        except OverflowError:
            raise OverflowError(f"{where} is an integer too large for {element}") from None
    if is_narrow(element) and int(literal) != literal:
        raise TypeError(f"{where} is {literal}, which {element} does not hold")
    number = int(literal)
    bounds = ml_dtypes.iinfo(numpy_dtype(element))
    if not bounds.min <= number <= bounds.max:
        raise OverflowError(f"{where} is {number}, which does not fit into {element}")
    return number


def cast_literal(number: float, element: Attribute) -> bool | int | float:
    """What `cast` makes of `number` in the dtype `element`: in integers it is limited to their range, and NaN is 0."""
    if is_bool(element):
        return bool(number)
    if is_float(element) or is_narrow_float(element):
        return float(number)
    bounds = ml_dtypes.iinfo(numpy_dtype(element))
    return 0 if number != number else int(min(max(number, bounds.min), bounds.max))


def own_element(value: Any, where: str) -> Attribute:
    """The dtype of a traced value or an array; `where` (op and operand) begins the error when it is neither."""
    if isinstance(value, Value):
        return value.element_type
    is_known = hasattr(type(value), "__tenon_op__") or is_on_gpu(value)
    dtype = on_gpu_viewed(value).dtype if is_known else plain_array(value, where).dtype
    try:
        return element_type(dtype.newbyteorder("="))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def common_element(strong: Sequence[Attribute], weak: Sequence[Any]) -> Attribute | None:
    """The dtype that operands meet in: literals adopt their peers', a float literal makes integers f32."""
    if strong:
        common = promote(strong)
        if is_narrow(common):
            return common
        if any(isinstance(w, float) for w in weak) and not is_float(common):
            return f32
        if any(isinstance(w, int) and not isinstance(w, bool) for w in weak) and is_bool(common):
            return i64
        return common
    if not weak:
        return None
    if any(isinstance(w, float) for w in weak):
        return f32
    return element_type(np.bool_) if all(isinstance(w, bool) for w in weak) else i64


_WEAK = "tenon.weak"
"""The attribute of a cast to f32, while a function is traced, whose operand is meant where its result meets f64."""


def weak_float(wide: Value) -> Value:
    """The f64 number `wide`, which Python gave, as f32 that loses nothing where it meets f64; see `exact`."""
    narrow = ops.cast(wide, dtype=f32)
    narrow.ssa.owner.attributes[_WEAK] = UnitAttr()  # pyright: ignore[reportAttributeAccessIssue]
    return narrow


class AdoptingFloat(Value):
    """A float of Python's that the operand of a call was, where the call is made again in a trace: f64 and weak, and it
    adopts the dtype that its peers meet in, as a literal does (f16 and bf16, too, which a weak float widens)."""

    __slots__ = ()


def is_weak(value: Any) -> bool:
    """Whether `value` is one that `weak_float` made."""
    return isinstance(value, Value) and isinstance(op := value.ssa.owner, Operation) and _WEAK in op.attributes


def exact(value: Any) -> Any:
    """The f64 number that `weak_float` made `value` of, or else `value` itself."""
    return Value(value.ssa.owner.operands[0]) if is_weak(value) else value


def weakened(results: Any) -> Any:
    """What was computed from weak floats alone is weak itself."""
    if isinstance(results, tuple):
        return tuple(map(weakened, results))
    return weak_float(results) if results.element_type == f64 else results


def forget_exact(function: Operation) -> None:
    """End of a trace: what is written down has no weak floats."""
    for op in function.walk():
        op.attributes.pop(_WEAK, None)


def allowed_element(element: Attribute, constraint: TensorConstraint) -> Attribute:
    """`element` itself, or the type that the constraint allows for it: counts for truth values, f32 for integers."""
    if element in constraint.elements or is_narrow(element):
        return element
    if is_bool(element) and i64 in constraint.elements:
        return i64
    if not is_float(element) and f32 in constraint.elements:
        return f32
    return element
