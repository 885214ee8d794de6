"""Samples of activation functions: smooth regions with gradients, kinks, tails and special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from sample import BF16, F16, F32, F64, INF, NAN, SPECIAL, Array, add, distinct, numbers
from samples_elementwise import unary

FINITE = SPECIAL[np.isfinite(SPECIAL)]
NO_LEAST = SPECIAL[SPECIAL != -INF]
"""Special values without -inf, at which x times a function of x that tends to 0 is NaN here and in PyTorch."""


def _selu(x: Array, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Any:
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Array, lambd: float, bias: float) -> Any:
    return np.where(np.isnan(x), NAN, np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0)))


def _mish(x: Array) -> Any:
    return x * np.tanh(np.logaddexp(x, 0.0))


unary("relu6", lambda x: np.clip(x, 0.0, 6.0), 0.1, 5.9)
unary("celu", lambda x: np.maximum(x, 0) + np.minimum(np.expm1(x), 0))
unary("celu", lambda x: np.maximum(x, 0) + np.minimum(0.5 * np.expm1(x / 0.5), 0), alpha=0.5)
unary("selu", _selu)
unary("selu", lambda x: _selu(x, 1.5, 2.0), alpha=1.5, gamma=2.0)
unary("hard_sigmoid", lambda x: np.clip(0.2 * x + 0.5, 0.0, 1.0))
unary("hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0.0, 1.0), alpha=1 / 6)
unary("hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0.0, 1.0), special=NO_LEAST)
unary("mish", _mish, special=NO_LEAST)
unary("silu", lambda x: x * scipy.special.expit(1.7 * x), special=NO_LEAST, alpha=1.7)
unary("softplus", lambda x: np.logaddexp(3.0 * x, 0.0) / 3.0, beta=3.0)
unary("softsign", lambda x: x / (1 + np.abs(x)), 0.1, 3.0)
unary("tanhshrink", lambda x: x - np.tanh(x))
unary("shrink", lambda x: _shrink(x, 0.5, 0.0), 0.6, 2.0)
unary("shrink", lambda x: _shrink(x, 1.5, 0.25), -3.0, -1.6, lambd=1.5, bias=0.25)
unary("hardshrink", lambda x: _shrink(x, 0.5, 0.0), 0.6, 2.0)
unary("softshrink", lambda x: _shrink(x, 0.5, 0.5), -2.0, -0.6)
unary("softshrink", lambda x: _shrink(x, 1.0, 1.0), -0.9, 0.9, lambd=1.0)
unary("thresholded_relu", lambda x: np.where(x <= 1.0, 0.0, x), 1.1, 3.0)
unary("thresholded_relu", lambda x: np.where(x <= -1.0, 20.0, x), -3.0, -1.1, alpha=-1.0, value=20.0)

_LARGE = np.array([-3e38, -1000.0, -80.0, 80.0, 1000.0, 3e38], F32)
for _name, _oracle in {
    "celu": lambda x: np.maximum(x, -1.0),
    "elu": lambda x: np.maximum(x, -1.0),
    "selu": _selu,
    "mish": lambda x: np.maximum(x, 0.0),
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
}.items():
    add(_name, [_LARGE], _oracle, "large", atol=1e-30)

# The lower tails, where formulas that subtract from 1 have no right digit left.
_TAIL = np.array([-13.5, -12.0, -9.0, -6.0, -5.0, -3.0], F32)
add("gelu", [_TAIL], lambda x: x * scipy.special.ndtr(x), "tail", rtol=4e-7, atol=3e-45)
add("gelu", [_TAIL.astype(F64) * 2.7], lambda x: x * scipy.special.ndtr(x), "tail", rtol=4e-13, atol=1e-320)
add("gelu", [np.array([-INF, INF, NAN], F32)], lambda x: np.array([0.0, INF, NAN]), "infinite")
add("sigmoid", [np.array([-87.5, -95.0, -103.0], F32)], scipy.special.expit, "subnormal", rtol=0, atol=2e-45)

_IMAGES = numbers("images", (2, 3, 4, 5))
_SLOPES = numbers("slopes", (3, 1, 1), low=0.1, high=0.5)


def _prelu(x: Array, slope: Array) -> Any:
    return np.where(x > 0, x, slope * x)


add("prelu", [_IMAGES, _SLOPES], _prelu, differentiable=True)
add("prelu", [numbers("prelu", (7,), F64), np.float64(0.25)], _prelu, differentiable=True)
add("prelu", [numbers("prelu", (3, 5), F16), numbers("slope", (5,), F16)], _prelu)
add("prelu", [numbers("prelu", (), BF16), numbers("slope", (), BF16)], _prelu)
add("prelu", [numbers("prelu", (2, 0)), numbers("slope", (1, 1))], _prelu)
add("prelu", [SPECIAL, np.float32(0.5)], _prelu, "special")


def _glu(x: Array, axis: int = -1) -> Any:
    value, gate = np.split(x, 2, axis)
    return value * scipy.special.expit(gate)


add("glu", [numbers("glu", (3, 8))], _glu, differentiable=True)
add("glu", [numbers("glu", (4, 5, 3), F64)], lambda x: _glu(x, 0), axis=0, differentiable=True)
add("glu", [numbers("glu", (6,), F16)], _glu)
add("glu", [numbers("glu", (2, 4), BF16)], lambda x: _glu(x, 0), axis=0)
add("glu", [numbers("glu", (0, 4))], _glu)


def _hardmax(x: Array, axis: int = -1) -> Any:
    chosen = np.expand_dims(x.argmax(axis), axis)
    return (np.moveaxis(np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1)), 0, axis) == chosen).astype(float)


add("hardmax", [distinct("hardmax", (3, 5), F32)], _hardmax)
add("hardmax", [distinct("hardmax", (2, 4, 3), F64)], lambda x: _hardmax(x, 1), axis=1)
add("hardmax", [np.array([[1, 3, 3, 2], [0, 0, 0, 0]], F16)], _hardmax, "ties")
add("hardmax", [np.array([[1, NAN, INF]], BF16)], _hardmax, "special")
add("hardmax", [np.zeros((0, 3), F32)], lambda x: x)
add("hardmax", [np.zeros((3, 0), F32)], lambda x: x)

for _name in ("relu6", "celu", "selu", "hard_sigmoid", "hard_swish", "mish", "softsign", "tanhshrink", "hardshrink"):
    add(_name, [np.zeros((2, 0), F32)], lambda x: x)
