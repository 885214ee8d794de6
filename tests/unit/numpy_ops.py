"""Tenon's functions in NumPy, by the same names and with the same settings: the other side of random programs.

Each is written from the op's documentation. Results keep the dtype of the operands, as Tenon's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray[Any, Any]


def _in_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, computed in at least f32 where they are floats, its result in their dtype."""

    def wrapped(*operands: Any, **settings: Any) -> Any:
        dtype = operands[0].dtype
        wide = [_computed(x) for x in operands]
        return np.asarray(function(*wide, **settings)).astype(dtype)

    return wrapped


def _computed(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.kind in "fV" and x.dtype.itemsize == 2 else x


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    axis = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(a % rank for a in axis)


negative = _in_dtype(np.negative)
abs = _in_dtype(np.abs)
square = _in_dtype(np.square)
sign = _in_dtype(np.sign)
floor = _in_dtype(np.floor)
relu = _in_dtype(lambda x: np.where(x < 0, np.zeros_like(x), x))
sin, cos, tanh = _in_dtype(np.sin), _in_dtype(np.cos), _in_dtype(np.tanh)
exp, sqrt = _in_dtype(np.exp), _in_dtype(np.sqrt)
sigmoid, erf = _in_dtype(scipy.special.expit), _in_dtype(scipy.special.erf)
softplus = _in_dtype(lambda x: np.logaddexp(x, 0).astype(x.dtype))
add, subtract, multiply, divide = map(_in_dtype, (np.add, np.subtract, np.multiply, np.divide))
maximum, minimum = _in_dtype(np.maximum), _in_dtype(np.minimum)
floor_divide, remainder = _in_dtype(np.floor_divide), _in_dtype(np.remainder)
less, less_equal, equal, not_equal = np.less, np.less_equal, np.equal, np.not_equal
logical_not, logical_and, logical_or, logical_xor = np.logical_not, np.logical_and, np.logical_or, np.logical_xor
bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
select = np.where
sum = _in_dtype(lambda x, **s: np.sum(x, dtype=x.dtype, **s))
prod = _in_dtype(lambda x, **s: np.prod(x, dtype=x.dtype, **s))
max, min, mean, var = _in_dtype(np.max), _in_dtype(np.min), _in_dtype(np.mean), _in_dtype(np.var)
any, all = np.any, np.all
argmax, argmin = np.argmax, np.argmin
logsumexp = _in_dtype(scipy.special.logsumexp)
softmax, log_softmax = _in_dtype(scipy.special.softmax), _in_dtype(scipy.special.log_softmax)
matmul = _in_dtype(np.matmul)


@_in_dtype
def layer_norm(x: Array, weight: Array, bias: Array, *, axis: tuple[int, ...], eps: float) -> Array:
    deviation = x - x.mean(axis=axis, keepdims=True)
    variance = np.mean(deviation * deviation, axis=axis, keepdims=True)
    return deviation / np.sqrt(variance + x.dtype.type(eps)) * weight + bias


@_in_dtype
def conv2d(
    x: Array, weight: Array, *, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> Array:
    (top, left), (height, width) = padding, weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
    window = ((height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1)
    views = sliding_window_view(padded, window, (2, 3))[
        :, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]
    ]
    return np.einsum("ncpqrs,fcrs->nfpq", views, weight)


def _windows(
    x: Array, window: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], value: float
) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=value)
    return sliding_window_view(padded, window, (2, 3))[:, :, :: stride[0], :: stride[1]]


@_in_dtype
def max_pool2d(x: Array, *, window: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Array:
    return _windows(x, window, stride, padding, -np.inf).max((4, 5))


@_in_dtype
def avg_pool2d(x: Array, *, window: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Array:
    return _windows(x, window, stride, padding, 0).mean((4, 5))


def transpose(x: Array, *, permutation: tuple[int, ...]) -> Array:
    return np.transpose(x, permutation)


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.reshape(x, shape)


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def slice(x: Array, *, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    return x[tuple(map(_builtin_slice, starts, limits, strides))]


_builtin_slice = __builtins__["slice"] if isinstance(__builtins__, dict) else __builtins__.slice


def flip(x: Array, *, axis: tuple[int, ...]) -> Array:
    return np.flip(x, axis)


def pad(x: Array, *, low: tuple[int, ...], high: tuple[int, ...], value: float) -> Array:
    if not low:
        return x  # np.pad takes no scalars
    return np.pad(x, tuple(zip(low, high, strict=True)), constant_values=np.asarray(value).astype(x.dtype))


def concatenate(*tensors: Array, axis: int) -> Array:
    return np.concatenate(tensors, axis)


def stack(*tensors: Array, axis: int) -> Array:
    return np.stack(tensors, axis)


def gather(x: Array, indices: Array, *, axis: int) -> Array:
    return np.take(x, indices, axis)


def scatter_add(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    result = _computed(x).copy()
    axis %= x.ndim
    moved = np.moveaxis(_computed(updates), tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim)))
    np.add.at(np.moveaxis(result, axis, 0), indices, moved)
    return result.astype(x.dtype)


def cast(x: Array, *, dtype: Any) -> Array:
    return x.astype(dtype)


def cond(predicate: Array, then: Callable[..., Any], otherwise: Callable[..., Any]) -> Any:
    return then() if predicate else otherwise()


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
    value = tuple(map(np.asarray, initial))
    while condition(value):
        value = body(value)
    return value


def scan(body: Callable[[Any, Any], Any], initial: Array, sequence: Array, *, reverse: bool) -> tuple[Array, Array]:
    order = range(len(sequence) - 1, -1, -1) if reverse else range(len(sequence))
    outputs: dict[int, Array] = {}
    carry = initial
    for i in order:
        carry, outputs[i] = body(carry, sequence[i])
    return carry, np.stack([outputs[i] for i in range(len(sequence))])
