"""Functions of every element that are a line of others, by the names that PyTorch has for them."""

from __future__ import annotations

from typing import Any

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.value import Value, ops


@tensor_function
@also_called(input="x")
@one_program_of_large
def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """x + value * tensor1 * tensor2.

    >>> tenon.addcmul(np.array([1.0]), np.array([2.0]), np.array([3.0]), value=0.5)
    """
    return ops.add(x, ops.multiply(ops.multiply(tensor1, value), tensor2))


@tensor_function
@also_called(input="x")
@one_program_of_large
def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """x + value * tensor1 / tensor2.

    >>> tenon.addcdiv(np.array([1.0]), np.array([6.0]), np.array([3.0]), value=0.5)
    """
    return ops.add(x, ops.divide(ops.multiply(tensor1, value), tensor2))


@tensor_function
@also_called(input="x", other="y")
def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """x / y, or that rounded down (`rounding_mode="floor"`) or toward zero (`"trunc"`), in the dtype of both then.

    >>> tenon.div(np.array([7.0, -7.0]), 2.0)
    >>> tenon.div(np.array([7, -7]), 2, rounding_mode="trunc")
    """
    match rounding_mode:
        case None:
            return ops.divide(x, y)
        case "floor":
            return ops.floor_divide(x, y)
        case "trunc":
            return ops.truncate_divide(x, y)
        case _:
            raise ValueError(f"div: rounding_mode is {rounding_mode!r}, none of None, 'floor' and 'trunc'")


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def rsub(x: Any, y: Any, alpha: float = 1) -> Any:
    """y - alpha * x.

    >>> tenon.rsub(np.array([1, 2]), 10)
    """
    return ops.subtract(y, x if alpha == 1 else ops.multiply(x, alpha))


@tensor_function
@also_called(input="x")
def clamp_min(x: Any, min: Any) -> Any:
    """`x`, and `min` where it is less.

    >>> tenon.clamp_min(np.array([-1.0, 1.0]), 0)
    """
    return ops.clip(x, low=min)


@tensor_function
@also_called(input="x")
def clamp_max(x: Any, max: Any) -> Any:
    """`x`, and `max` where it is greater.

    >>> tenon.clamp_max(np.array([-1.0, 1.0]), 0)
    """
    return ops.clip(x, high=max)


@tensor_function
@also_called(input="x")
@one_program_of_large
def frac(x: Any) -> Any:
    """What `x` has behind the point, with its sign.

    >>> tenon.frac(np.array([1.5, -1.5]))
    """
    return ops.subtract(x, ops.trunc(x))


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def fmax(x: Any, y: Any) -> Any:
    """The greater of two elements; the other where one is NaN.

    >>> tenon.fmax(np.array([1.0, np.nan]), np.array([0.0, 2.0]))
    """
    return ops.select(ops.isnan(x), y, ops.select(ops.isnan(y), x, ops.maximum(x, y)))


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def fmin(x: Any, y: Any) -> Any:
    """The lesser of two elements; the other where one is NaN.

    >>> tenon.fmin(np.array([1.0, np.nan]), np.array([0.0, 2.0]))
    """
    return ops.select(ops.isnan(x), y, ops.select(ops.isnan(y), x, ops.minimum(x, y)))


@tensor_function
@also_called(input="x", other="y")
@one_program_of_large
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |x - y| ≤ atol + rtol * |y|, or both are the same infinity; with `equal_nan`, or both are NaN.

    >>> tenon.isclose(np.array([1.0, 2.0]), np.array([1.0, 2.1]))
    """
    x, y = shaped(x), shaped(y)
    near = ops.less_equal(ops.abs(ops.subtract(x, y)), ops.add(ops.multiply(ops.abs(y), rtol), atol))
    found = ops.logical_or(ops.equal(x, y), ops.logical_and(near, ops.isfinite(y)))
    return ops.logical_or(found, ops.logical_and(ops.isnan(x), ops.isnan(y))) if equal_nan else found


@tensor_function
@also_called(input="x", other="y")
def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements are close, as `isclose` says: a truth value, and a traced one in a trace.

    >>> tenon.allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
    """
    found = _all_close(x, y, rtol, atol, equal_nan)
    return found if isinstance(found, Value) else bool(found)


@one_program_of_large
def _all_close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    return ops.all(isclose(x, y, rtol, atol, equal_nan))


@tensor_function
@also_called(input="x")
@one_program_of_large
def threshold(x: Any, threshold: float, value: float) -> Any:
    """`x` where it is greater than `threshold`, `value` elsewhere.

    >>> tenon.threshold(np.array([1.0, 2.0, 3.0]), 1.5, 0.0)
    """
    return ops.select(ops.greater(x, threshold), x, value)
