"""What optimizers are written in: running means of gradients, and steps in the dtype of a parameter.

Settings that change from step to step, and the learning rate, are numbers or traced ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import tenon
from tenon.optim.base import Arrays, check_number, each


def of_dtype(number: Any, value: Any) -> Any:
    """`number` in the dtype of `value`, which most often it has."""
    return number if number.dtype == value.dtype else tenon.cast(number, dtype=value.dtype)


def like(number: Any, value: Any) -> Any:
    """A traced `number` in the dtype of `value`; a Python number takes it anyway."""
    return number if isinstance(number, int | float) else of_dtype(number, value)


def moved(value: Any, direction: Any, rate: Any) -> Any:
    """`value - rate * direction` in the dtype of `value`."""
    return of_dtype(value - direction * like(rate, value), value)


def decayed(slopes: Arrays, values: Arrays, weight_decay: float) -> Arrays:
    """The gradients with those of `weight_decay`·p²/2."""
    return each(lambda g, p: g + p * weight_decay, slopes, values) if weight_decay else slopes


def running(beta: Any, means: Arrays, slopes: Arrays) -> Arrays:
    """beta·m + (1 - beta)·g"""
    return each(lambda m, g: m * like(beta, m) + g * like(1 - beta, m), means, slopes)


def running_square(beta: Any, squares: Arrays, slopes: Arrays) -> Arrays:
    """beta·s + (1 - beta)·g²"""
    return each(lambda s, g: s * like(beta, s) + g * g * like(1 - beta, s), squares, slopes)


def time_of(count: Any, values: Arrays) -> Any:
    """The number of steps as a float, f64 if one of the parameters is."""
    in_double = any(np.dtype(p.dtype) == np.float64 for p in values.values())
    return tenon.cast(count, dtype="f64" if in_double else "f32")


def without_bias(beta: Any, time: Any) -> Any:
    """1 - betaᵗ, written so that it keeps its digits where betaᵗ is close to 1."""
    if not isinstance(beta, int | float):
        return -tenon.expm1(time * tenon.log(of_dtype(beta, time)))
    return -tenon.expm1(time * math.log(beta)) if beta else 1.0


def check_betas(optimizer: Any) -> None:
    """Make a tuple of the two numbers `betas`; raises where they are not two in [0, 1)."""
    name, betas = type(optimizer).__name__, optimizer.betas
    if not isinstance(betas, Sequence) or len(betas) != 2:
        raise TypeError(f"{name}: betas is {betas!r} where two numbers are needed")
    object.__setattr__(optimizer, "betas", tuple(betas))
    for position, beta in enumerate(betas):
        check_number(f"{name}: betas[{position}]", beta, 1.0)
