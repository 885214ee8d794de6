"""Random numbers of the usual distributions, and dropout: functions of a key, without state.

A key is two i32 words, `np.array([seed, 0], np.int32)` for example; `fold_in` and `split_key` make new ones of it. One
key gives the same bits on every device. Where a distribution takes logarithms or an inverse error function, devices may
differ in the last place. Every draw needs a key of its own: two draws from one key are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.one_program import one_program_when_large
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import CompositeOp
from tenon.dialects.ops.random.random import WORDS, random_words
from tenon.dialects.ops.reduce.reduction import in_compute_type
from tenon.dialects.types.shapes import InferenceError, check_count, check_sizes, normalize_axis, show
from tenon.dialects.types.types import (
    BOOL_TENSOR,
    FLOAT_TENSOR,
    element_type,
    f32,
    f64,
    i1,
    is_float,
    shape_of,
    tensor_type,
)

_DIGITS = {"f16": 11, "bf16": 8, "f32": 24}


def _float_type(name: str, dtype: object) -> Any:
    element = element_type(dtype)
    if not is_float(element):
        raise ValueError(f"{name}: dtype is {element} where a float is needed")
    return element


def _scaled(word: Any, digits: int) -> Any:
    """The first `digits` bits of words as f64 whole numbers."""
    return ops.cast(ops.shift_right_logical(word, 32 - digits), dtype=f64)


def _unit(key: Any, shape: Sequence[int], element: Any) -> Any:
    """Numbers in [0, 1) with as many random bits as the dtype has digits."""
    low, high = random_words(key, shape)
    if element == f64:
        return ops.multiply(ops.add(ops.multiply(_scaled(high, 27), 2.0**26), _scaled(low, 26)), 2.0**-53)
    digits = _DIGITS[str(element)]
    return ops.multiply(ops.cast(ops.shift_right_logical(low, 32 - digits), dtype=element), 2.0**-digits)


def _open_unit(key: Any, shape: Sequence[int], element: Any) -> Any:
    """f64 numbers in (0, 1), symmetric around 1/2: 31 random bits, or 52 for the dtype f64."""
    low, high = random_words(key, shape)
    if element == f64:
        whole = ops.add(ops.multiply(_scaled(high, 26), 2.0**26), _scaled(low, 26))
        return ops.multiply(ops.add(whole, 0.5), 2.0**-52)
    return ops.multiply(ops.add(_scaled(low, 31), 0.5), 2.0**-31)


@tensor_function
@one_program_when_large
def random_uniform(key: Any, shape: Sequence[int], low: Any = 0.0, high: Any = 1.0, dtype: object = "f32") -> Any:
    """Numbers of `shape` and `dtype`, uniform in [`low`, `high`), for `key` (2 words, i32).

    In [0, 1) they are multiples of 2^-24 (f32), 2^-53 (f64), 2^-11 (f16) or 2^-8 (bf16). Other bounds, numbers or
    tensors that broadcast, scale them: rounding may then give `high`.

    >>> tenon.random_uniform(np.array([1, 2], np.int32), (3,), low=-1.0)
    """
    check_sizes("random_uniform", shape)
    element = _float_type("random_uniform", dtype)
    unit = _unit(key, shape, element)
    if isinstance(low, int | float) and isinstance(high, int | float):
        if (low, high) == (0, 1):
            return unit
        span: Any = float(high) - float(low)
    else:
        span = ops.subtract(high, low)
    return ops.cast(ops.add(ops.multiply(unit, span), low), dtype=element)


@tensor_function
@one_program_when_large
def random_normal(key: Any, shape: Sequence[int], mean: Any = 0.0, deviation: Any = 1.0, dtype: object = "f32") -> Any:
    """Normal numbers of `shape` and `dtype`, for `key` (2 words, i32), by the inverse of the distribution function.

    >>> tenon.random_normal(np.array([1, 2], np.int32), (3,))
    """
    check_sizes("random_normal", shape)
    element = _float_type("random_normal", dtype)
    standard = ops.cast(_standard_normal(key, shape, element), dtype=element)
    scaled = standard if _is_number(deviation, 1.0) else ops.multiply(standard, deviation)
    return ops.cast(scaled if _is_number(mean, 0.0) else ops.add(scaled, mean), dtype=element)


def _standard_normal(key: Any, shape: Sequence[int], element: Any) -> Any:
    """f64 numbers for the dtype f64, f32 for the others: a sign, and by what is left, in (0, 1], a distance from 0."""
    if element == f64:
        centred = ops.subtract(ops.multiply(_open_unit(key, shape, element), 2.0), 1.0)
        return ops.multiply(ops.erfinv(centred), math.sqrt(2.0))
    low, _ = random_words(key, shape)
    tail = ops.multiply(ops.add(ops.cast(ops.bitwise_and(low, 2**31 - 1), dtype=f32), 0.5), 2.0**-31)
    distance = ops.multiply(ops.erfcinv(tail), math.sqrt(2.0))
    return ops.select(ops.less(low, 0), ops.negative(distance), distance)


def _is_number(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and value == number


@tensor_function
@one_program_when_large
def random_truncated_normal(
    key: Any, shape: Sequence[int], low: float = -2.0, high: float = 2.0, dtype: object = "f32"
) -> Any:
    """Standard normal numbers of `shape` and `dtype` given that they lie in [`low`, `high`], for `key` (2 words, i32).

    The numbers thin out beyond 8 deviations, where the error function is 1 to the last digit.

    >>> tenon.random_truncated_normal(np.array([1, 2], np.int32), (3,), low=0.0)
    """
    check_sizes("random_truncated_normal", shape)
    element = _float_type("random_truncated_normal", dtype)
    if not low < high:
        raise ValueError(f"random_truncated_normal: low is {low} and high is {high}, which is not above it")
    start, end = math.erf(low * math.sqrt(0.5)), math.erf(high * math.sqrt(0.5))
    place = ops.add(ops.multiply(_open_unit(key, shape, element), end - start), start)
    numbers = ops.multiply(ops.erfinv(place), math.sqrt(2.0))
    return ops.cast(ops.clip(numbers, low=float(low), high=float(high)), dtype=element)


@tensor_function
@one_program_when_large
def random_exponential(key: Any, shape: Sequence[int], rate: Any = 1.0, dtype: object = "f32") -> Any:
    """Exponentially distributed numbers of `shape` and `dtype` with mean 1 / `rate`, for `key` (2 words, i32).

    >>> tenon.random_exponential(np.array([1, 2], np.int32), (3,), rate=2.0)
    """
    check_sizes("random_exponential", shape)
    element = _float_type("random_exponential", dtype)
    numbers = ops.negative(ops.log(_open_unit(key, shape, element)))
    return ops.cast(numbers if _is_number(rate, 1.0) else ops.divide(numbers, rate), dtype=element)


@tensor_function
@one_program_when_large
def random_gumbel(key: Any, shape: Sequence[int], dtype: object = "f32") -> Any:
    """Numbers of `shape` and `dtype` with the standard Gumbel distribution, for `key` (2 words, i32).

    >>> tenon.random_gumbel(np.array([1, 2], np.int32), (3,))
    """
    check_sizes("random_gumbel", shape)
    element = _float_type("random_gumbel", dtype)
    numbers = ops.negative(ops.log(ops.negative(ops.log(_open_unit(key, shape, element)))))
    return ops.cast(numbers, dtype=element)


@tensor_function
@one_program_when_large
def random_bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | None = None) -> Any:
    """Truth values that are true with probability `p`, for `key` (2 words, i32); by default of the shape of `p`.

    >>> tenon.random_bernoulli(np.array([1, 2], np.int32), np.array([0.0, 0.5, 1.0]))
    """
    if shape is not None:
        check_sizes("random_bernoulli", shape)
    whole = getattr(p, "shape", ()) if shape is None else shape
    return ops.less(random_uniform(key, whole), p)


@tensor_function
@one_program_when_large
def random_integers(key: Any, shape: Sequence[int], low: int, high: int, dtype: object = "i32") -> Any:
    """Integers of `shape` and `dtype` in [`low`, `high`), for `key` (2 words, i32).

    Each has its share of the probability to within 2^-32. `high` - `low` is at most 2^32.

    >>> tenon.random_integers(np.array([1, 2], np.int32), (6,), low=1, high=7)
    """
    check_sizes("random_integers", shape)
    span = high - low
    if not 0 < span <= 2**32:
        raise ValueError(f"random_integers: high - low is {span}, outside of [1, 2^32]")
    word, _ = random_words(key, shape)
    unsigned = ops.bitwise_and(ops.cast(word, dtype="i64"), 2**32 - 1)
    place = ops.shift_right_logical(ops.multiply(unsigned, span), 32)
    return ops.cast(ops.add(place, low), dtype=dtype)


@tensor_function
def random_permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers 0 to `x` - 1 (i64) in random order, or the slices of a tensor `x` along `axis`, for `key`.

    They are sorted by random words; two that are equal, which one pair in 2^32 is, keep their order.

    >>> tenon.random_permutation(np.array([1, 2], np.int32), 5)
    """
    if isinstance(x, int):
        check_count("random_permutation", "x", x)
        return ops.argsort(random_words(key, (x,))[0])
    axis = normalize_axis(axis, len(x.shape))
    return ops.gather(x, ops.argsort(random_words(key, (x.shape[axis],))[0]), axis=axis)


@tensor_function
@one_program_when_large
def random_categorical(key: Any, logits: Any, count: int | None = None) -> Any:
    """Indices (i64) of classes with probabilities softmax(`logits`) along the last axis, for `key` (2 words, i32).

    `logits` (..., classes) gives (...,), or (..., `count`) draws with replacement. For probabilities, give their
    logarithms. The largest of `logits` plus Gumbel noise wins (Maddison et al., arXiv:1411.0030).

    >>> key, logits = np.array([1, 2], np.int32), np.array([-2.0, -np.inf, 0.0])
    >>> tenon.random_categorical(key, logits, count=8)
    """
    if count is not None:
        check_count("random_categorical", "count", count)
    *batch, classes = logits.shape
    if count is None:
        return ops.argmax(ops.add(logits, random_gumbel(key, (*batch, classes))), axis=-1)
    noise = random_gumbel(key, (*batch, count, classes))
    return ops.argmax(ops.add(ops.expand_dims(logits, axis=-2), noise), axis=-1)


class RandomMaskOp(CompositeOp):
    """Elements of `x` that are kept at random."""

    x = operand_def(FLOAT_TENSOR)
    key = operand_def(WORDS)
    rate = setting(float, default=0.5)
    result = result_def(FLOAT_TENSOR)
    PROMOTED: ClassVar[tuple[str, ...] | None] = ("x",)

    @staticmethod
    def check(**settings: Any) -> None:
        if not 0.0 <= settings["rate"] <= 1.0:
            raise InferenceError(f"rate is {settings['rate']} where a number from 0 to 1 is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, key = operands
        shape = shape_of(key)
        if shape is not None and (len(shape) != 1 or shape[0] not in (2, -1)):
            raise InferenceError(f"key has shape {show(shape)} where (2,) is needed")
        return x if len(cls.SIGNATURE.results) == 1 else (x, tensor_type(shape_of(x), i1))


def _dropped(x: Value, key: Value, rate: float) -> tuple[Value, Value]:
    kept = random_uniform(key, x.shape) >= rate
    scaled = in_compute_type(x) * (1.0 / (1.0 - rate) if rate < 1.0 else 0.0)
    return ops.select(kept, scaled, 0.0).astype(x.element_type), kept


@tensor_op
class DropoutOp(RandomMaskOp):
    """`x` with each element set to 0 with probability `rate`, and the others scaled by 1 / (1 - `rate`).

    `key` (2 words, i32) says which: the same key drops the same ones (Srivastava et al., JMLR 15, 2014).

    >>> key = np.array([1, 2], np.int32)
    >>> tenon.dropout(np.array([1.0, 2.0, 3.0, 4.0]), key)
    """

    name = "tenon.dropout"

    @staticmethod
    def decompose(x: Value, key: Value, *, rate: float) -> Value:
        return _dropped(x, key, rate)[0]


@tensor_op
class DropoutWithMaskOp(RandomMaskOp):
    """`dropout`, and which elements of `x` it keeps (i1); returns both.

    >>> key = np.array([1, 2], np.int32)
    >>> tenon.dropout_with_mask(np.array([1.0, 2.0, 3.0, 4.0]), key)
    """

    name = "tenon.dropout_with_mask"
    # Results are in the order of the class, and its own come before inherited ones.
    result = result_def(FLOAT_TENSOR)
    mask = result_def(BOOL_TENSOR)

    @staticmethod
    def decompose(x: Value, key: Value, *, rate: float) -> tuple[Value, Value]:
        return _dropped(x, key, rate)
