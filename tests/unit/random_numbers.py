"""Random numbers of test modules, which depend on the test alone and not on those that ran before."""

from __future__ import annotations

import zlib

import numpy as np

_MADE: list[np.random.Generator] = []


def generator(seed: int = 0) -> np.random.Generator:
    """A generator that starts anew in each test."""
    _MADE.append(np.random.default_rng(seed))
    return _MADE[-1]


def restart(name: str) -> None:
    """Start all generators anew, for the test of this name and parameters."""
    seed = zlib.crc32(name.encode())
    for made in _MADE:
        made.bit_generator.state = np.random.default_rng(seed).bit_generator.state
