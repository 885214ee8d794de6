"""Fragments: which element of a matrix each register of each thread holds.

Hardware deals matrices out by the digits of the numbers of thread, register and element: each digit moves by so many
rows and columns. So a map is data, and `distribute` and `collect` are what an instruction means on whole matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Digits = tuple[tuple[int, int, int], ...]
"""From the lowest digit: how many values it has, and the rows and columns that it moves by."""


@dataclass(frozen=True)
class Fragment:
    """The part of a matrix of `shape` that each thread holds, in registers of 32 bits, or of 64 for f64."""

    shape: tuple[int, int]
    threads: Digits
    registers: Digits
    elements: Digits = ()
    """Within a register, from its lowest bits."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Threads, registers of each, elements in each."""
        return tuple(
            prod(extent for extent, _, _ in digits) for digits in (self.threads, self.registers, self.elements)
        )  # pyright: ignore[reportReturnType]

    def places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns by thread, register and element."""
        parts = [_moves(digits) for digits in (self.threads, self.registers, self.elements)]
        (a, b), (c, d), (e, f) = parts
        return np.add.outer(np.add.outer(a, c), e), np.add.outer(np.add.outer(b, d), f)

    def distribute(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """What the threads hold of `matrix`, by thread, register and element."""
        if matrix.shape != self.shape:
            raise ValueError(f"fragment of a matrix of shape {self.shape}, not {matrix.shape}")
        return matrix[self.places()]

    def collect(self, held: NDArray[Any]) -> NDArray[Any]:
        """The matrix that the threads hold."""
        if held.shape != self.counts:
            raise ValueError(f"fragment has {self.counts} threads, registers and elements, not {held.shape}")
        matrix = np.zeros(self.shape, held.dtype)
        matrix[self.places()] = held
        return matrix


def _moves(digits: Digits) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows and the columns that each number moves by."""
    rows = columns = np.zeros(1, np.intp)
    for extent, row, column in digits:
        steps = np.arange(extent, dtype=np.intp)
        rows = np.add.outer(steps * row, rows).reshape(-1)
        columns = np.add.outer(steps * column, columns).reshape(-1)
    return rows, columns
