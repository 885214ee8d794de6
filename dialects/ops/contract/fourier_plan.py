"""How rows of numbers are transformed on a CPU: n = n1 n2, and each of these a factor at a time.

The native code for it (`runtime/cpu/fourier`) transforms several columns of a matrix (n1, n2) side by side, and then
several of its rows. It is given what it multiplies by: roots of unity, which are computed here in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RADICES = (2, 3, 4, 5, 7, 8)
"""The factors that there is code for."""
COMPLEX, INVERSE, REAL, HALF, INVERSE_HALF = range(5)
"""What is transformed: pairs, the same backwards, real numbers to all that follows from them, twice as many of these to
the first half of that and one more, and these to the real numbers."""


_LONGEST_COLUMN = 1 << 12
"""Several longer columns are more than one row that is transformed by itself."""


def side_by_side(itemsize: int) -> int:
    """How many columns or rows are transformed at once, of numbers of so many bytes."""
    return 64 // itemsize


@dataclass(frozen=True)
class Plan:
    """A transform of n1 n2 numbers, by the factors of each."""

    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """n, n1, the factors of n1 and n2, four bits each, and how many roots there are for each of them."""
        n1, n2 = prod(self.first), prod(self.second)
        counts = [len(_roots_of_factors(factors)) for factors in (self.first, self.second)]
        return n1 * n2, n1, _packed(self.first), _packed(self.second), *counts

    def count(self, kind: int) -> int:
        """How many numbers `roots` are."""
        n, *_, first, second = self.sizes
        return 2 * n + first + second + len(_roots_of_halves(n, kind))

    def roots(self, kind: int) -> Array:
        """What the transform multiplies by, one behind the other.

        The roots of n at (k, j), their real and then their imaginary parts, divided by n for an inverse; for n1 and
        then n2, for each factor r of what is left, those at (m, r - 1); for the halves of real numbers the roots of 2 n
        at 0 to n, real and then imaginary parts.
        """
        n1, n2 = prod(self.first), prod(self.second)
        n = n1 * n2
        whole = root(n, np.outer(np.arange(n1), np.arange(n2))).ravel() / (n if kind in (INVERSE, INVERSE_HALF) else 1)
        parts = whole.real, whole.imag, _roots_of_factors(self.first), _roots_of_factors(self.second)
        return np.concatenate([*parts, _roots_of_halves(n, kind)])


@dataclass(frozen=True)
class ColumnPlan:
    """A transform of columns of n numbers side by side, or of short rows, by the factors of n."""

    factors: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """The factors, four bits each, and how many roots there are for them."""
        return _packed(self.factors), len(_roots_of_factors(self.factors))

    def count(self, kind: int) -> int:
        """How many numbers `roots` are."""
        return self.sizes[1] + len(_roots_of_halves(prod(self.factors), kind))

    def roots(self, kind: int) -> Array:
        """What the transform multiplies by: for each factor r of what is left, roots at (m, r - 1); for the halves of
        real numbers the roots of 2 n at 0 to n, real and then imaginary parts."""
        return np.concatenate([_roots_of_factors(self.factors), _roots_of_halves(prod(self.factors), kind)])


@lru_cache(maxsize=64)
def _roots_of_factors(factors: tuple[int, ...]) -> Array:
    left, parts = prod(factors), list[Array]()
    for factor in factors:
        turned = root(left, np.outer(np.arange(left // factor), np.arange(1, factor)))
        parts.append(np.stack([turned.real, turned.imag], axis=-1).ravel())
        left //= factor
    return np.concatenate(parts)


@lru_cache(maxsize=64)
def _roots_of_halves(n: int, kind: int) -> Array:
    halves = root(2 * n, np.arange(n + 1 if kind in (HALF, INVERSE_HALF) else 0))
    return np.concatenate([halves.real, halves.imag])


@lru_cache(maxsize=256)
def plan_of(n: int, count: int) -> Plan | None:
    """How n numbers are transformed with `count` side by side; `None` where they do not come apart so."""
    for n1 in range(isqrt(n), count - 1, -1):
        if n % n1 == 0:
            first, second = _factors(n1), _factors(n // n1)
            if first and second:
                return Plan(first, second)
    return None


@lru_cache(maxsize=256)
def column_plan_of(n: int) -> ColumnPlan | None:
    """How columns of n numbers are transformed; `None` where the factors of n are large, or n is."""
    factors = _factors(n) if 1 < n <= _LONGEST_COLUMN else ()
    return ColumnPlan(factors) if factors else None


def rows_plan_of(rows: int, n: int, count: int) -> Plan | ColumnPlan | None:
    """How rows of n numbers are transformed: each by itself, or short ones side by side."""
    plan = plan_of(n, count)
    return plan or (column_plan_of(n) if rows >= count and n >= count else None)


def root(n: int, exponents: Array, sign: int = -1) -> Array:
    """exp(sign * 2 pi i * exponents / n), of exponents that are brought below n first."""
    return np.exp(sign * 2j * np.pi * (exponents % n) / n)


def _factors(n: int) -> tuple[int, ...]:
    """`n` as a product of radices: few, and powers of 2 of about one size; none where it is no such product."""
    found: list[int] = []
    for prime in (3, 5, 7):
        while n % prime == 0:
            n //= prime
            found.append(prime)
    bits = n.bit_length() - 1
    if n != 1 << bits:
        return ()
    steps = -(-bits // 3)
    return (*[1 << (bits + i) // steps for i in range(steps)], *found)


def _packed(factors: Sequence[int]) -> int:
    return sum(factor << 4 * place for place, factor in enumerate(factors))
