"""The numbers that parameters start with: initialisers write them into arrays and tensors, and give these back.

Each takes `generator=`, a NumPy generator or a seed; without it, numbers are another stream of `manual_seed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tenon.dialects.support.suggestion import attribute_hints
from tenon.eager.modes import no_grad
from tenon.seeds import Seed, generator_of


def uniform(generator: np.random.Generator, shape: Sequence[int], fan_in: int, dtype: Any) -> Any:
    """Numbers uniform in ±1/√`fan_in`, as PyTorch's layers start with."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return generator.uniform(-bound, bound, tuple(shape)).astype(dtype)


_GAINS = {"sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4, "linear": 1.0}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What keeps the variance of signals the same through layers with this activation; `param` is the slope of
    `leaky_relu` below 0 (0.01 unless given). Raises `ValueError` for one that is not known.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity.startswith("conv"):
        nonlinearity = "linear"
    if nonlinearity not in _GAINS:
        raise ValueError(f"calculate_gain: {nonlinearity!r} is not one of {', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _written(array: Any, values: Any) -> Any:
    target = np.asarray(array) if isinstance(array, memoryview) else array  # `data` of an array is one
    with no_grad():
        target[...] = np.asarray(values).astype(target.dtype)
    return array


def uniform_(array: Any, a: float = 0.0, b: float = 1.0, generator: Seed = None) -> Any:
    """Numbers uniform in [a, b)."""
    return _written(array, generator_of(generator).uniform(a, b, tuple(array.shape)))


def normal_(array: Any, mean: float = 0.0, std: float = 1.0, generator: Seed = None) -> Any:
    """Numbers of a normal distribution."""
    return _written(array, generator_of(generator).normal(mean, std, tuple(array.shape)))


def trunc_normal_(
    array: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Seed = None
) -> Any:
    """Numbers of a normal distribution, those outside of [a, b] drawn again."""
    low, high = (0.5 * (1 + math.erf((bound - mean) / (std * math.sqrt(2)))) for bound in (a, b))
    if not low < high:
        raise ValueError(f"trunc_normal_: there is nothing between a = {a} and b = {b}")
    draws = generator_of(generator)
    values = draws.normal(mean, std, tuple(array.shape))
    while (outside := (values < a) | (values > b)).any():
        # Where hardly any are inside, one more draw each would never end.
        count = min(int(outside.sum() / (high - low)) + 1, 1 << 24)
        more = draws.normal(mean, std, count)
        more = more[(more >= a) & (more <= b)]
        places = np.flatnonzero(outside)[: len(more)]
        values.flat[places] = more[: len(places)]
    return _written(array, values)


def constant_(array: Any, val: float) -> Any:
    """One number everywhere."""
    return _written(array, np.full(tuple(array.shape), val))


def ones_(array: Any) -> Any:
    """Ones."""
    return constant_(array, 1.0)


def zeros_(array: Any) -> Any:
    """Zeros."""
    return constant_(array, 0.0)


def eye_(array: Any) -> Any:
    """The identity matrix, as far as there are rows and columns."""
    if len(array.shape) != 2:
        raise ValueError(f"eye_: an array of shape {tuple(array.shape)} is no matrix")
    return _written(array, np.eye(*array.shape))


def dirac_(array: Any, groups: int = 1) -> Any:
    """The window of a convolution, (out, in, *window), that gives what it is given, as far as there are channels."""
    shape = tuple(array.shape)
    if not 3 <= len(shape) <= 5 or shape[0] % groups:
        raise ValueError(f"dirac_: {shape} is not that of a convolution with {groups} groups")
    values, per_group = np.zeros(shape), shape[0] // groups
    middle = tuple([size // 2 for size in shape[2:]])
    for channel in range(shape[0]):
        if channel % per_group < shape[1]:
            values[(channel, channel % per_group, *middle)] = 1
    return _written(array, values)


def _fans(array: Any) -> tuple[int, int]:
    """How many numbers one result is made of, and for how many results one counts."""
    shape = tuple(array.shape)
    if len(shape) < 2:
        raise ValueError(f"an array of shape {shape} has no fan; two dimensions or more are needed")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def xavier_uniform_(array: Any, gain: float = 1.0, generator: Seed = None) -> Any:
    """Numbers uniform in ±gain·√(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6 / sum(_fans(array)))
    return uniform_(array, -bound, bound, generator)


def xavier_normal_(array: Any, gain: float = 1.0, generator: Seed = None) -> Any:
    """Normal numbers of standard deviation gain·√(2 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    return normal_(array, 0.0, gain * math.sqrt(2 / sum(_fans(array))), generator)


def _kaiming(array: Any, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is {mode!r}, neither 'fan_in' nor 'fan_out'")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(array)[mode == "fan_out"])


def kaiming_uniform_(
    array: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Seed = None
) -> Any:
    """Numbers uniform in ±gain·√(3 / fan): He et al., arXiv:1502.01852."""
    bound = math.sqrt(3) * _kaiming(array, a, mode, nonlinearity)
    return uniform_(array, -bound, bound, generator)


def kaiming_normal_(
    array: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Seed = None
) -> Any:
    """Normal numbers of standard deviation gain / √fan: He et al., arXiv:1502.01852."""
    return normal_(array, 0.0, _kaiming(array, a, mode, nonlinearity), generator)


def orthogonal_(array: Any, gain: float = 1.0, generator: Seed = None) -> Any:
    """A matrix of `gain` times orthonormal rows or columns, all that follows axis 0 as one: Saxe et al.,
    arXiv:1312.6120.
    """
    _fans(array)
    rows, columns = array.shape[0], math.prod(array.shape[1:])
    drawn = generator_of(generator).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    # So that all orthogonal matrices are as likely: Mezzadri, arXiv:math-ph/0609050.
    q *= np.sign(np.diag(r))
    return _written(array, gain * (q if rows >= columns else q.T).reshape(tuple(array.shape)))


def sparse_(array: Any, sparsity: float, std: float = 0.01, generator: Seed = None) -> Any:
    """Normal numbers, of which in each column the part `sparsity` is zero: Martens, 2010."""
    if len(array.shape) != 2:
        raise ValueError(f"sparse_: an array of shape {tuple(array.shape)} is no matrix")
    draws = generator_of(generator)
    rows, columns = array.shape
    values = draws.normal(0.0, std, (rows, columns))
    for column in range(columns):
        values[draws.permutation(rows)[: math.ceil(sparsity * rows)], column] = 0
    return _written(array, values)


__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
