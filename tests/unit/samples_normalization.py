"""Samples of normalization, norms and reductions of no elements."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from sample import BF16, F16, F32, F64, FLOATS, Array, add, distinct, integers, numbers

# --- normalization ----------------------------------------------------------------------------------------------------


def _centred(x: Array, axis: Any, eps: float) -> tuple[Array, Array, Array]:
    mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    inverse = 1 / np.sqrt(variance + eps)
    return (x - mean) * inverse, mean, inverse


def _statistics(x: Array, weight: Any, bias: Any, axis: Any = -1, eps: float = 1e-5) -> tuple[Array, ...]:
    normal, mean, inverse = _centred(x, axis, eps)
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias, mean, inverse


_X, _WEIGHT, _BIAS = numbers("x", (3, 5, 7)), numbers("weight", (7,)), numbers("bias", (7,))
add("layer_norm_statistics", [_X, _WEIGHT, _BIAS], _statistics, differentiable=True)
add(
    "layer_norm_statistics",
    [_X.astype(F64), None, _BIAS.astype(F64)],
    lambda x, w, b: _statistics(x, w, b, (1, 2), 1e-3),
    axis=(1, 2),
    eps=1e-3,
    differentiable=True,
)
for _dtype in (F16, BF16):
    add("layer_norm_statistics", [a.astype(_dtype) for a in (_X, _WEIGHT, _BIAS)], _statistics)
add("layer_norm_statistics", [_X.astype(F64), None, None], _statistics, stash_dtype="f32", rtol=2e-6, atol=2e-6)
add("layer_norm_statistics", [np.zeros((0, 4), F32), None, None], lambda x, w, b: (x, x[:, :1], x[:, :1]))


def _rms(x: Array, weight: Any = None, axis: Any = -1) -> Array:
    normal = x / np.sqrt((x * x).mean(axis, keepdims=True) + 1e-5)
    return normal if weight is None else normal * weight


add("rms_norm", [_X, _WEIGHT], _rms, differentiable=True)
add("rms_norm", [_X, None], lambda x, w: _rms(x, axis=(0, 2)), axis=(0, 2), differentiable=True)
for _dtype in (F16, BF16, F64):
    add("rms_norm", [_X[0].astype(_dtype), _WEIGHT.astype(_dtype)], _rms)
add("rms_norm", [np.zeros((3, 4), F16) + F16.type(6e4), None], _rms, "large")
add("rms_norm", [np.zeros((0, 4), F32), None], lambda x, w: x)


def _grouped(x: Array, weight: Any, bias: Any, groups: int) -> Array:
    normal = _centred(x.reshape(x.shape[0], groups, -1), 2, 1e-5)[0].reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    normal = normal if weight is None else normal * weight.reshape(shape)
    return normal if bias is None else normal + bias.reshape(shape)


_IMAGES = numbers("images", (2, 6, 3, 4))
_CHANNELS = [numbers("weight", (6,)), numbers("bias", (6,))]
for _groups in (1, 2, 3, 6):
    add(
        "group_norm",
        [_IMAGES, *_CHANNELS],
        lambda x, w, b, n=_groups: _grouped(x, w, b, n),
        groups=_groups,
        differentiable=_groups == 3,
    )
add("group_norm", [numbers("x", (5, 4), F64), None, None], lambda x, w, b: _grouped(x, w, b, 2), groups=2)
add("instance_norm", [_IMAGES, *_CHANNELS], lambda x, w, b: _grouped(x, w, b, 6), differentiable=True)
for _dtype in (F16, BF16):
    _half = [a.astype(_dtype) for a in (_IMAGES, *_CHANNELS)]
    add("group_norm", _half, lambda x, w, b: _grouped(x, w, b, 2), groups=2)
    add("instance_norm", _half, lambda x, w, b: _grouped(x, w, b, 6))
add("instance_norm", [numbers("x", (2, 3, 5), F64), None, None], lambda x, w, b: _grouped(x, w, b, 3))
add("instance_norm", [np.zeros((0, 3, 5), F32), None, None], lambda x, w, b: x)


def _update(x: Array, mean: Array, variance: Array, weight: Any, bias: Any, rate: float = 0.1, ddof: int = 1) -> Any:
    others = (0, *range(2, x.ndim))
    shape = (-1, *(1,) * (x.ndim - 2))
    normal = _centred(x, others, 1e-5)[0]
    normal = normal if weight is None else normal * weight.reshape(shape) + bias.reshape(shape)
    followed = (1 - rate) * mean + rate * x.mean(others), (1 - rate) * variance + rate * x.var(others, ddof=ddof)
    return normal, *followed


_RUNNING = [numbers("mean", (6,)), numbers("variance", (6,), low=0.5)]
add("batch_norm_update", [_IMAGES, *_RUNNING, *_CHANNELS], _update, differentiable=True)
add(
    "batch_norm_update",
    [_IMAGES.astype(F64), *[a.astype(F64) for a in _RUNNING], None, None],
    lambda *a: _update(*a, rate=0.25, ddof=0),
    momentum=0.25,
    ddof=0,
    differentiable=True,
)
add("batch_norm_update", [a.astype(F16) for a in (_IMAGES, *_RUNNING, *_CHANNELS)], _update)
add(
    "mean_variance_normalization",
    [_IMAGES],
    lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / (x.std((0, 2, 3), keepdims=True) + 1e-9),
    differentiable=True,
)
add(
    "mean_variance_normalization",
    [numbers("x", (3, 5), BF16)],
    lambda x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 0.5),
    axis=(1,),
    eps=0.5,
)

# --- norms ------------------------------------------------------------------------------------------------------------


def _norm(x: Array, p: float, axis: Any = None, keepdims: bool = False) -> Any:
    size = np.abs(x)
    if p in (inf, -inf):
        reduce, initial = (np.max, 0.0) if p > 0 else (np.min, inf)
        return reduce(size, axis=axis, keepdims=keepdims, initial=initial)
    if p == 0:
        return (x != 0).sum(axis, keepdims=keepdims).astype(float)
    return (size**p).sum(axis, keepdims=keepdims) ** (1 / p)


for _p in (2.0, 1.0, 3.0, 0.5, inf, -inf):
    _x = distinct("norm", (3, 5), F32) + np.float32(0.125)
    add("norm", [_x], lambda x, p=_p: _norm(x, p), p=_p, differentiable=True)
    add("norm", [_x.astype(F64)], lambda x, p=_p: _norm(x, p, 1, True), p=_p, axis=(1,), keepdims=True)
    add("norm", [np.zeros((0, 3), F32)], lambda x, p=_p: _norm(x, p, 0), p=_p, axis=(0,))
add("norm", [np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], F32)], lambda x: np.array([1.0, 0.0]), p=0.0, axis=(1,))
for _dtype in (F16, BF16):
    add("norm", [numbers("norm", (4, 3), _dtype)], lambda x: _norm(x, 2, 0), axis=(0,))
add("norm", [integers("norm", (3, 4))], lambda x: _norm(x.astype(float), 2))
add("norm", [np.float32(-3.0)], lambda x: np.abs(x))

for _dtype in FLOATS:
    add("log_sum", [numbers("log_sum", (3, 5), _dtype, 0.1, 2.0)], lambda x: np.log(x.sum(1)), axis=(1,))
    add("sum_square", [numbers("sum_square", (3, 5), _dtype)], lambda x: (x * x).sum(0), axis=(0,))
add("log_sum", [numbers("log_sum", (3, 5), low=0.1)], lambda x: np.log(x.sum(keepdims=True)), keepdims=True)
add("log_sum", [numbers("log_sum", (3, 5), low=0.1)], lambda x: np.log(x.sum()), differentiable=True)
add("log_sum", [np.zeros((2, 0), F32)], lambda x: np.full(2, -inf), axis=(1,))
add("sum_square", [numbers("sum_square", (3, 5))], lambda x: (x * x).sum(), differentiable=True)
add("sum_square", [np.zeros((2, 0), F32)], lambda x: np.zeros(2), axis=(1,))
add("sum_square", [integers("sum_square", (3, 5), np.int64)], lambda x: (x * x).sum())


def _lp_normalized(x: Array, p: float, axis: int = -1) -> Any:
    return x / np.maximum(_norm(x, p, axis, True), 1e-12)


for _p in (1.0, 2.0):
    add(
        "lp_normalize",
        [distinct("lp", (3, 5), F32) + np.float32(0.125)],
        lambda x, p=_p: _lp_normalized(x, p),
        p=_p,
        differentiable=True,
    )
    add("lp_normalize", [numbers("lp", (3, 5), F16)], lambda x, p=_p: _lp_normalized(x, p, 0), p=_p, axis=0)
add("lp_normalize", [np.zeros((2, 3), F64)], lambda x: x, "zero")


def _cosine(x: Array, y: Array, axis: int = -1) -> Any:
    lengths = [np.maximum(np.sqrt((v * v).sum(axis, keepdims=True)), 1e-8) for v in (x, y)]
    return (x / lengths[0] * (y / lengths[1])).sum(axis)


add("cosine_similarity", [_X, numbers("y", (3, 5, 7))], _cosine, differentiable=True)
add("cosine_similarity", [_X.astype(F64), numbers("y", (7,), F64)], _cosine, differentiable=True)
add("cosine_similarity", [numbers("a", (4, 3), F16), numbers("b", (4, 3), F16)], lambda x, y: _cosine(x, y, 0), axis=0)
add("cosine_similarity", [np.zeros((2, 3), F32), numbers("y", (2, 3))], lambda x, y: np.zeros(2), "zero")

# --- reductions with a start, and of no elements ----------------------------------------------------------------------

_EMPTY = np.zeros((2, 0, 3), F32)
for _name, _function, _start in (("max", np.max, -inf), ("min", np.min, inf)):
    for _dtype in FLOATS:
        add(_name, [_EMPTY.astype(_dtype)], lambda x, s=_start: np.full((2, 3), s), axis=(1,), start=_start)
    for _dtype in (np.int8, np.int32, np.int64):
        _bound = np.iinfo(_dtype).min if _start < 0 else np.iinfo(_dtype).max
        add(
            _name,
            [_EMPTY.astype(_dtype)],
            lambda x, b=_bound: np.full((2, 1, 3), b, x.dtype),
            axis=(1,),
            keepdims=True,
            start=_start,
        )
    add(
        _name,
        [distinct(_name, (3, 5), F32)],
        lambda x, f=_function: f(x, axis=1, initial=0.1),
        axis=(1,),
        start=0.1,
        differentiable=True,
    )
    add(_name, [integers(_name, (3, 5))], lambda x, f=_function: f(x, axis=0, initial=2), axis=(0,), start=2.0)
    add(_name, [np.array([np.nan, 1.0], F32)], lambda x: np.array(np.nan), "special", start=0.0)
for _dtype in (F32, np.int32):
    add("sum", [_EMPTY.astype(_dtype)], lambda x: np.zeros((2, 3), x.dtype), axis=(1,))
    add("prod", [_EMPTY.astype(_dtype)], lambda x: np.ones((2, 3), x.dtype), axis=(1,))
add("logsumexp", [_EMPTY], lambda x: np.full((2, 3), -inf), axis=(1,))
