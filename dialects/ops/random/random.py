"""Random numbers from counters: the same bits for the same key on every device, and no state.

Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.one_program import one_program_when_large
from tenon.dialects.definition.registry import tensor_function
from tenon.dialects.definition.scalar import ScalarForms
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ElementwiseOp, PrimitiveOp
from tenon.dialects.types.shapes import check_count, check_sizes
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import INTEGER_TENSOR, TensorConstraint, element_type, i32, ui32

WORDS = TensorConstraint((i32,))

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

# The second word of a counter tells what the first one counts, so that new keys are no numbers that were drawn.
_DRAWS, _FOLDS, _SPLITS = 0, 1, 2


@tensor_op
class ShiftLeftOp(PrimitiveOp):
    """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0.

    >>> tenon.shift_left(np.array([1, 3, 1], np.int8), np.array([2, 7, 8], np.int8))
    """

    name = "tenon.shift_left"
    x = operand_def(INTEGER_TENSOR)
    y = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)
    traits = traits_def(Pure(), NoGradient())
    SCALAR: ClassVar[ScalarForms] = ScalarForms(on_integers=arith.ShLIOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("left_shift", "bitwise_left_shift")


@tensor_op
class ShiftRightOp(PrimitiveOp):
    """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`.

    By the width or more, or by less than 0, all bits are what comes in, as in NumPy.

    >>> tenon.shift_right(np.array([8, -8, -8]), np.array([2, 2, 99]))
    """

    name = "tenon.shift_right"
    x = operand_def(INTEGER_TENSOR)
    y = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)
    traits = traits_def(Pure(), NoGradient())
    SCALAR: ClassVar[ScalarForms] = ScalarForms(on_integers=arith.ShRSIOp, on_unsigned=arith.ShRUIOp)
    ALIASES: ClassVar[tuple[str, ...]] = ("right_shift", "bitwise_right_shift")


@tensor_op
class ShiftRightLogicalOp(PrimitiveOp):
    """The bits of `x` moved to the right by `y`; zeros come in, whatever the sign.

    By the width or more, or by less than 0, it is 0.

    >>> tenon.shift_right_logical(np.array([8, -8], np.int8), np.array([2, 2], np.int8))
    """

    name = "tenon.shift_right_logical"
    x = operand_def(INTEGER_TENSOR)
    y = operand_def(INTEGER_TENSOR)
    result = result_def(INTEGER_TENSOR)
    traits = traits_def(Pure(), NoGradient())
    SCALAR: ClassVar[ScalarForms] = ScalarForms(on_integers=arith.ShRUIOp)


def _rotated(x: Value, count: int) -> Value:
    return ops.bitwise_or(ops.shift_left(x, count), ops.shift_right_logical(x, 32 - count))


@tensor_op
class ThreefryOp(ElementwiseOp):
    """Two words of random bits per counter (`counter_low`, `counter_high`), under the key (`key_low`, `key_high`).

    >>> tenon.threefry(*np.array([[0, 1], [0, 0], [7, 7], [7, 7]], np.int32))
    """

    name = "tenon.threefry"
    counter_low = operand_def(WORDS)
    counter_high = operand_def(WORDS)
    key_low = operand_def(WORDS)
    key_high = operand_def(WORDS)
    low = result_def(WORDS)
    high = result_def(WORDS)
    traits = traits_def(Pure(), NoGradient())

    @staticmethod
    def scalar(counter_low: Any, counter_high: Any, key_low: Any, key_high: Any) -> Any:
        keys = (key_low, key_high, ops.bitwise_xor(ops.bitwise_xor(key_low, key_high), _PARITY))
        x, y = counter_low + keys[0], counter_high + keys[1]
        for group in range(5):
            for count in _ROTATIONS[group % 2]:
                x = x + y
                y = ops.bitwise_xor(_rotated(y, count), x)
            x = x + keys[(group + 1) % 3]
            y = y + keys[(group + 2) % 3] + (group + 1)
        return x, y


@tensor_function
@one_program_when_large
def random_bits(key: Any, shape: Sequence[int]) -> Any:
    """Random i32 words of `shape` for `key` (2 words, i32).

    >>> tenon.random_bits(np.array([1, 2], np.int32), (3,))
    """
    check_sizes("random_bits", shape)
    return random_words(key, shape)[0]


def _words_of(key: Any) -> tuple[Any, Any]:
    shape = key.shape if hasattr(key, "shape") else np.shape(key)
    element = element_type(key.dtype) if hasattr(key, "dtype") else i32
    is_pair = len(shape) == 1 and not (isinstance(shape[0], int) and shape[0] not in (2, -1))
    if not is_pair or element not in (i32, ui32):
        given = (f"has dtype {element}" if is_pair else f"has shape {tuple(shape)}") if shape else f"is {key!r}"
        raise ValueError(
            f"the key of a random op {given} where 2 words (i32) are needed, such as np.array([0, 42], np.int32); "
            "tenon.split_key and tenon.fold_in make more of them"
        )
    if element == ui32:  # as they are in other libraries
        key = key.view(np.int32) if isinstance(key, np.ndarray) else ops.bitcast(key, dtype=i32)
    return key[0], key[1]


def random_words(key: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    """Two random i32 words for each element of `shape`: those of the counters 0, 1, ... under `key` (2 words, i32)."""
    size = prod(shape)
    if not isinstance(size, Size) and size >= 2**31:
        raise ValueError(f"random_bits: {size} words are asked for, more than one key gives (2^31 - 1)")
    counter = ops.iota(shape=(size,), dtype="i32")
    words = ops.threefry(counter, _DRAWS, *_words_of(key))
    return ops.reshape(words[0], shape=tuple(shape)), ops.reshape(words[1], shape=tuple(shape))


@tensor_function
def fold_in(key: Any, number: Any) -> Any:
    """A new key (2 words, i32) for `key` and an integer `number`, of which the lowest 32 bits count: different numbers
    give unrelated keys.

    >>> tenon.fold_in(np.array([1, 2], np.int32), 7)
    """
    dtype = getattr(number, "dtype", None)
    if isinstance(number, float) or (dtype is not None and np.dtype(dtype).kind not in "iu"):
        raise TypeError(f"fold_in: number is of dtype {dtype or 'f32'} where an integer is needed")
    if dtype is None and isinstance(number, int):
        number = (number + 2**31) % 2**32 - 2**31
    elif dtype is not None and np.dtype(dtype) != np.int32:
        number = ops.cast(number, dtype="i32")
    low, high = ops.threefry(number, _FOLDS, *_words_of(key))
    return ops.stack((low, high), axis=0)


@tensor_function
def split_key(key: Any, count: int = 2) -> Any:
    """`count` new keys (count, 2) for `key` (2 words, i32), unrelated to each other, to `key` and to folded ones.

    >>> tenon.split_key(np.array([1, 2], np.int32), 3)
    """
    check_count("split_key", "count", count)
    words = ops.threefry(ops.iota(shape=(count,), dtype="i32"), _SPLITS, *_words_of(key))
    return ops.stack(words, axis=1)
