"""The numbers that parameters start with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Seed = int | np.random.Generator | None


def generator_of(seed: Seed) -> np.random.Generator:
    """A generator as it is, or a new one from a seed; `None` is a random seed."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def uniform(generator: np.random.Generator, shape: Sequence[int], fan_in: int, dtype: Any) -> Any:
    """Numbers uniform in ±1/√`fan_in`, as PyTorch's layers start with."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return generator.uniform(-bound, bound, tuple(shape)).astype(dtype)
