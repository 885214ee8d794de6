"""Functions of every element that are a line of others, by the names that PyTorch has for them."""

from __future__ import annotations

import math
from typing import Any

from tenon.dialects.definition.keywords import also_called
from tenon.dialects.definition.one_program import one_program_of_large
from tenon.dialects.definition.operands import floating, shaped
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


@tensor_function
@also_called(input="x", exponent="y")
@one_program_of_large
def float_power(x: Any, y: Any) -> Any:
    """`x` to the power of `y`, both as f64.

    >>> tenon.float_power(np.array([2, 3]), -1)
    """
    return ops.power(ops.cast(shaped(x), dtype="f64"), ops.cast(shaped(y), dtype="f64"))


@tensor_function
@also_called(input="x")
def rint(x: Any) -> Any:
    """The whole number nearest to `x`, halves to the even one, as a float. Integers of 8 and 16 bits become f32, wider
    ones f64. The gradient is 0.

    >>> tenon.rint(np.array([0.5, 1.5, -2.7]))
    """
    return ops.round(floating(x))


@tensor_function
@also_called(input="x")
@one_program_of_large
def spacing(x: Any) -> Any:
    """How far the next float (f32 or f64) in the direction away from 0 is from `x`, with the sign of `x`; NaN for what
    is not finite.

    >>> tenon.spacing(np.array([1.0, -1024.0])) * 2.0**52
    """
    x = floating(x)
    return ops.subtract(ops.nextafter(x, ops.select(ops.less(x, 0), -math.inf, ops.full_like(x, math.inf))), x)


# The largest exponent, the smallest one of normal numbers, bits of the mantissa and of what is stored, by dtype.
_FORMATS = {"float32": (127, -126, 24, 32), "float64": (1023, -1022, 53, 64)}


def _float_of_format(x: Any) -> tuple[Any, Any]:
    """`x` as floats of 32 or 64 bits, and in which dtype the result is to be."""
    x = floating(x)
    return (x if str(x.dtype) in _FORMATS else ops.cast(x, dtype="f32")), x.dtype


@tensor_function
@also_called(input="x", other="exponent")
@one_program_of_large
def ldexp(x: Any, exponent: Any) -> Any:
    """`x` times 2 to the power of `exponent`, integers, rounded once.

    >>> tenon.ldexp(np.array([0.5, 3.0]), np.array([2, -1]))
    """
    x, dtype = _float_of_format(x)
    n = shaped(exponent)
    if n.dtype.kind not in "iu":
        raise TypeError(f"ldexp: exponent is {n.dtype} where integers are needed")
    most, least, digits, _ = _FORMATS[str(x.dtype)]
    n = ops.clip(ops.cast(n, dtype="i64"), low=4 * least, high=4 * most)
    for _ in range(2):
        # What would overflow or lose digits on the way is scaled first: the last product rounds.
        high, low = ops.greater(n, most), ops.less(n, least)
        x = ops.select(high, ops.multiply(x, 2.0**most), ops.select(low, ops.multiply(x, 2.0 ** (least + digits)), x))
        n = ops.select(high, ops.subtract(n, most), ops.select(low, ops.subtract(n, least + digits), n))
    scale = ops.exp2(ops.cast(ops.clip(n, low=least, high=most), dtype=x.dtype))
    return ops.cast(ops.multiply(x, scale), dtype=dtype)


@tensor_function
@also_called(input="x")
@one_program_of_large
def frexp(x: Any) -> tuple[Any, Any]:
    """Numbers m with magnitudes from 1/2 to before 1, and integers n (i32), such that `x` = m 2^n; m is `x` and n 0 for
    what is 0 or not finite.

    >>> tenon.frexp(np.array([1.0, -3.0, 0.0]))
    """
    x, dtype = _float_of_format(x)
    most, _, digits, bits = _FORMATS[str(x.dtype)]
    is_tiny = ops.less(ops.abs(x), 2.0 ** (1 - most))
    stored = ops.bitcast(ops.select(is_tiny, ops.multiply(x, 2.0**digits), x), dtype=f"i{bits}")
    biased = ops.bitwise_and(ops.shift_right(stored, digits - 1), 2 * most + 1)
    n = ops.subtract(biased, ops.select(is_tiny, digits + most - 1, most - 1))
    is_plain = ops.logical_and(ops.isfinite(x), ops.not_equal(x, 0))
    n = ops.cast(ops.select(is_plain, n, 0), dtype="i32")
    return ops.cast(ldexp(x, ops.negative(n)), dtype=dtype), n


@tensor_function
@also_called(input="x")
@one_program_of_large
def mvlgamma(x: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension `p`: the sum of lgamma(`x` - j / 2) for j before
    `p`, and p (p - 1) / 4 log(pi).

    >>> tenon.mvlgamma(np.array([3.0]), 2)
    """
    if p < 1:
        raise ValueError(f"mvlgamma: p is {p} where 1 or more is needed")
    x = floating(x)
    total: Any = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        total = ops.add(ops.lgamma(ops.subtract(x, j / 2)), total)
    return total
